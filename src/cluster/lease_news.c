/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/lease_news.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/random.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "kube/lease.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    BODY_BYTES = 1024,
    RETRY_FIRST_MS = 500,
    RETRY_MAX_MS = 60000,
    SETTLE_MS = 2000, /* so long an event of before our write may still come */
};

struct lease_news {
    struct lease_news_opts o;
    struct loop *loop;
    char path[sizeof(LEASE_COLLECTION_PATH) + SERVER_ID_BYTES_126 + 1]; /* "": none */
    char process[LEASE_TAG_BYTES - LEASE_TAG_DISCOVERY - 1];            /* of ours: another one after each start */
    char wanted[LEASE_TAG_BYTES], sent[LEASE_TAG_BYTES], told[LEASE_TAG_BYTES];
    struct fetch *call;
    struct loop_timer *timer; /* running: not before it fires */
    struct backoff backoff;
    uint64_t window_ms, written_ms;
    unsigned writes; /* in this window */
    bool failing;
    struct arena *arena;
};

static void tell(struct lease_news *n);

/* Milliseconds until another one may be written. */
static uint64_t held_back(struct lease_news *n)
{
    uint64_t now = loop_now_ms(n->loop);

    if (now - n->window_ms >= LEASE_NEWS_WINDOW_MS) {
        n->window_ms = now;
        n->writes = 0;
    }
    return n->writes < LEASE_NEWS_WRITES ? 0 : n->window_ms + LEASE_NEWS_WINDOW_MS - now;
}

static void count(struct lease_news *n, const char *result)
{
    const struct slice label = slice_str(result);

    metric_inc(metric_child(n->o.writes, &label));
}

static void failed(struct lease_news *n, const char *why)
{
    count(n, "failed");
    log_v(n->failing ? 3 : 2, "Could not write the tag of discovery into the Lease of this server",
          LT("lease", n->path), LT("err", why));
    n->failing = true;
    loop_timer_set(n->timer, backoff_next(&n->backoff));
}

static void on_written(void *arg, const struct fetch_result *r)
{
    struct lease_news *n = arg;
    struct err err = {.text = ""};
    struct lease l;
    char text[API_WHY_BYTES];

    n->call = NULL;
    if (!api_answered(r, 200)) {
        failed(n, api_why(r, text));
        return;
    }
    count(n, "ok");
    n->failing = false;
    backoff_reset(&n->backoff);
    memcpy(n->told, n->sent, sizeof(n->told));
    n->written_ms = loop_now_ms(n->loop);
    arena_reset(n->arena);
    if (lease_parse(n->arena, r->body, &l, &err))
        n->o.written(n->o.arg, l.uid, l.resource_version);
    tell(n);
}

static bool send(struct lease_news *n)
{
    struct buf body;

    buf_init(&body, BODY_BYTES);
    if (buf_printf(&body, "{\"metadata\":{\"annotations\":{\"" LEASE_DISCOVERY_ANNOTATION "\":\"%s\"}}}\n", n->wanted))
        n->call = api_ask(n->o.api, "PATCH", n->path, buf_slice(&body), on_written, n);
    buf_free(&body);
    return n->call != NULL;
}

static void tell(struct lease_news *n)
{
    uint64_t wait;

    if (n->call != NULL || loop_timer_pending(n->timer) || n->path[0] == '\0' || n->wanted[0] == '\0' ||
        strcmp(n->wanted, n->told) == 0)
        return;
    wait = held_back(n);
    if (wait > 0) {
        loop_timer_set(n->timer, wait);
        return;
    }
    n->writes++;
    memcpy(n->sent, n->wanted, sizeof(n->sent));
    if (!send(n))
        failed(n, "out of memory");
}

static void on_timer(void *arg)
{
    tell(arg);
}

void lease_news_set(struct lease_news *n, struct slice tag)
{
    char wanted[LEASE_TAG_BYTES] = "";

    if (tag.n > 0 && tag.n <= LEASE_TAG_DISCOVERY)
        (void)snprintf(wanted, sizeof(wanted), "%.*s.%s", (int)tag.n, tag.p, n->process);
    if (strcmp(wanted, n->wanted) == 0)
        return;
    memcpy(n->wanted, wanted, sizeof(n->wanted));
    tell(n);
}

void lease_news_seen(struct lease_news *n, struct slice tag)
{
    if (n->path[0] == '\0' || n->call != NULL || slice_eq(tag, slice_str(n->wanted)) ||
        loop_now_ms(n->loop) - n->written_ms < SETTLE_MS)
        return;
    n->told[0] = '\0';
    tell(n);
}

void lease_news_at(struct lease_news *n, const char *path)
{
    if (strcmp(n->path, path == NULL ? "" : path) == 0)
        return;
    fetch_cancel(&n->call);
    (void)snprintf(n->path, sizeof(n->path), "%s", path == NULL ? "" : path);
    n->told[0] = '\0';
    n->failing = false;
    backoff_reset(&n->backoff);
    loop_timer_cancel(n->timer);
    tell(n);
}

struct lease_news *lease_news_new(const struct lease_news_opts *o)
{
    struct lease_news *n = must_zalloc(sizeof(*n));

    n->o = *o;
    n->loop = api_loop(o->api);
    n->window_ms = loop_now_ms(n->loop);
    (void)snprintf(n->process, sizeof(n->process), "%04x", (unsigned)(random_u64() & 0xffff));
    backoff_init(&n->backoff, RETRY_FIRST_MS, RETRY_MAX_MS);
    n->arena = arena_new(4 * LIMIT_LEASE_BYTES);
    n->timer = loop_timer_new(n->loop, on_timer, n);
    must_hold(n->arena != NULL && n->timer != NULL);
    return n;
}

void lease_news_free(struct lease_news *n)
{
    if (n == NULL)
        return;
    fetch_cancel(&n->call);
    loop_timer_free(n->timer);
    arena_free(n->arena);
    mem_free(n);
}
