/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front_conn.h"

#include "base/clock.h"
#include "base/contract.h"
#include "base/log.h"

/* ---- beginning ---- */

/* Whatever was charged to it was queued to be freed before it. */
static void free_conn(void *arg)
{
    struct front_conn *fc = arg;

    must_hold(!list_linked(&fc->node) && !list_linked(&fc->idle) && !list_linked(&fc->resting) &&
              !list_linked(&fc->waiting));
    memory_leave(&fc->memory);
    clients_gone(fc->host->clients, &fc->client);
    mem_free(fc);
}

static void no_longer_waits(struct front_conn *fc)
{
    if (list_linked(&fc->waiting))
        list_remove(&fc->host->waiting, &fc->waiting);
}

/* The limits are about descriptors: a tunnel counts until its end, whoever owns it. */
static void on_descriptor_closed(void *arg)
{
    struct front_conn *fc = arg;
    struct front_host *h = fc->host;

    no_longer_waits(fc);
    memory_dismiss(&fc->memory);
    clients_leave(h->clients, &fc->client);
    list_remove(&h->leaving, &fc->node);
    lifetime_retire(&fc->life, free_conn, fc);
    h->on_closed(h);
}

void front_conn_enter(struct front_conn *fc, struct front_host *h, struct stream *s)
{
    lifetime_init(&fc->life, h->loop, "client's connection");
    fc->host = h;
    fc->stream = s;
    fc->trust = h->trust;
    fc->id = ++h->last_id;
    fc->accepted_us = clock_us();
    memory_enter(h->memory, &fc->memory, clients_quota(&fc->client));
    stream_charge(s, &fc->memory.held);
    stream_on_closed(s, on_descriptor_closed, fc);
    list_push_back(&h->conns, &fc->node);
}

/* ---- requests ---- */

static void no_longer_fresh(struct front_conn *fc)
{
    struct front_host *h = fc->host;

    clients_asked(h->clients, &fc->client);
    front_stats_fresh(h->stats, clients_fresh(h->clients));
}

/*
 * As kube-apiserver, which verifies a client's certificate for each request: one that has lost its CA must not live on
 * in a connection that nobody ends. Not at once for all, who may be thousands.
 */
static void heed_trust(struct front_conn *fc)
{
    struct front_host *h = fc->host;

    if (fc->trust == h->trust || h->tls == NULL)
        return;
    fc->trust = h->trust;
    stream_judge_again(fc->stream, h->tls);
}

uint64_t front_conn_count_request(struct front_conn *fc)
{
    heed_trust(fc);
    if (++fc->requests == 1)
        no_longer_fresh(fc);
    return fc->requests;
}

void front_conn_idle(struct front_conn *fc, bool idle)
{
    struct front_host *h = fc->host;

    idle = idle && fc->requests > 0;
    if (idle == list_linked(&fc->idle))
        return;
    if (idle) {
        list_push_back(&h->idle, &fc->idle);
        list_push_back(&h->resting, &fc->resting);
        fc->resting_since_ms = loop_now_ms(h->loop);
    } else {
        list_remove(&h->idle, &fc->idle);
        list_remove(&h->resting, &fc->resting);
    }
}

bool front_conn_is_between_requests(const struct front_conn *fc)
{
    return list_linked(&fc->idle) && stream_unsent(fc->stream) == 0;
}

bool front_conn_must_wait(const struct front_conn *fc)
{
    return memory_refuses(&fc->memory);
}

/* ---- the end ---- */

static void leave(struct front_conn *fc, enum front_close reason)
{
    struct front_host *h = fc->host;

    front_conn_idle(fc, false);
    list_remove(&h->conns, &fc->node);
    list_push_back(&h->leaving, &fc->node);
    fc->upgraded = reason == FRONT_CLOSE_UPGRADED;
    if (!fc->upgraded) {
        no_longer_waits(fc);
        memory_dismiss(&fc->memory);
    }
    if (reason == FRONT_CLOSE_MEMORY)
        recent_add(&h->cut_off, loop_now_ms(h->loop));
    front_stats_closed(h->stats, reason);
    no_longer_fresh(fc);
    h->on_left(h);
}

void front_conn_close(struct front_conn *fc, enum front_close reason, enum stream_close_how how)
{
    const char *failure = stream_failure(fc->stream);

    log_v(4, "Connection closed", LU("connection", fc->id), LT("client", stream_remote_text(fc->stream)),
          LT("reason", front_close_name(reason)), LT("failure", failure == NULL ? "" : failure),
          LU("requests", fc->requests), LU("received", stream_bytes_in(fc->stream)),
          LU("sent", stream_bytes_out(fc->stream)));
    leave(fc, reason);
    stream_close(fc->stream, how);
}

void front_conn_give_away(struct front_conn *fc)
{
    log_v(4, "Connection upgraded", LU("connection", fc->id), LT("client", stream_remote_text(fc->stream)));
    leave(fc, FRONT_CLOSE_UPGRADED);
}

void front_conn_shut(struct front_conn *fc, const char *why, enum front_close reason)
{
    if (fc->ops != NULL)
        fc->ops->shut(fc->protocol, why, reason);
    else
        front_conn_close(fc, reason, STREAM_CLOSE_NOW);
}

void front_conn_break(struct front_conn *fc, const char *why)
{
    log_v(3, "Tunnel ended", LU("connection", fc->id), LT("client", stream_remote_text(fc->stream)), LT("reason", why));
    memory_dismiss(&fc->memory);
    stream_break(fc->stream, why);
}

void front_conn_disown(struct front_conn *fc)
{
    no_longer_waits(fc);
    memory_dismiss(&fc->memory);
    list_remove(&fc->host->leaving, &fc->node);
    stream_on_closed(fc->stream, NULL, NULL);
    stream_charge(fc->stream, NULL);
    lifetime_retire(&fc->life, free_conn, fc);
}
