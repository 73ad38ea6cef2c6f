/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fake_cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "kube/schema_index.h"
#include "lib/tap.h"

/* Not from base/mem.h: memory that a test lets fail is not the stand-in's. */
struct cluster_waiter {
    struct list_node node;
    void (*done)(void *arg);
    void *arg;
};

/* ---- cluster/cluster.h ---- */

static struct cluster_waiter *wait_for(struct cluster *c, void (*done)(void *arg), void *arg)
{
    struct cluster_waiter *w = done == NULL ? NULL : calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->done = done;
    w->arg = arg;
    list_push_back(&c->waiters, &w->node);
    return w;
}

struct served *cluster_served(struct cluster *c)
{
    return c->served;
}

struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg)
{
    c->misses++;
    return c->no_refresh ? NULL : wait_for(c, done, arg);
}

struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg)
{
    c->wanted_protobuf++;
    return c->no_protobuf ? NULL : wait_for(c, done, arg);
}

void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w)
{
    list_remove(&c->waiters, &w->node);
    free(w);
}

bool cluster_local_unread(const struct cluster *c)
{
    return c->unread_local;
}

void cluster_local_suspect(struct cluster *c)
{
    c->misses++;
}

void cluster_peer_missed(struct cluster *c, const char *peer_id)
{
    (void)peer_id;
    c->peer_misses++;
}

void cluster_peer_suspect(struct cluster *c, const char *peer_id)
{
    (void)peer_id;
    c->suspects++;
}

void cluster_disbelieved(struct cluster *c, const char *server, const struct gvr *gvr)
{
    (void)c;
    (void)server;
    (void)gvr;
}

bool cluster_disbelieved_lately(const struct cluster *c, const char *server, const struct gvr *gvr, uint64_t *ago_ms)
{
    (void)gvr;
    *ago_ms = 12000;
    return c->denies != NULL && strcmp(c->denies, server) == 0;
}

void cluster_peer_answered(struct cluster *c, const char *peer_id)
{
    (void)peer_id;
    c->answered++;
}

void cluster_server_answered(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    (void)sent_ms;
    if (peer_id == NULL)
        c->local_seen++;
    else
        c->peer_seen++;
}

void cluster_local_etag_seen(struct cluster *c, struct slice etag)
{
    (void)snprintf(c->seen_etag, sizeof(c->seen_etag), "%.*s", (int)etag.n, etag.n > 0 ? etag.p : "");
}

bool cluster_peers_synced(struct cluster *c, char *reason, size_t n)
{
    (void)snprintf(reason, n, "as the test wants it");
    return !c->unread_peers;
}

const struct user_headers *cluster_front_named(const struct cluster *c)
{
    static const struct user_headers none = {0};

    (void)c;
    return &none;
}

bool cluster_fails_over(const struct cluster *c)
{
    return c->fails_over;
}

enum readiness_state cluster_local_state(const struct cluster *c)
{
    bool lost = c->lost_local && c->reaches_local != NULL && !c->reaches_local(c->arg);

    return c->local_state == READINESS_READY && lost ? READINESS_UNREACHABLE : c->local_state;
}

bool cluster_local_was_loading(const struct cluster *c, uint64_t sent_ms)
{
    (void)sent_ms;
    return c->local_loading;
}

enum api_word cluster_local_word(const struct cluster *c, uint64_t sent_ms)
{
    (void)sent_ms;
    return c->local_word;
}

bool cluster_peer_was_loading(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    (void)peer_id;
    (void)sent_ms;
    return c->peer_loading;
}

void cluster_local_failed(struct cluster *c, bool unreachable)
{
    c->local_failures++;
    c->lost_local |= unreachable;
    if (unreachable && c->fails_over && c->reaches_local == NULL)
        c->local_state = READINESS_UNREACHABLE;
}

/* ---- what it knows ---- */

struct cluster *fake_cluster_new(void)
{
    struct cluster *c = calloc(1, sizeof(*c));

    if (c == NULL)
        tap_bail("no memory");
    list_init(&c->waiters);
    return c;
}

void fake_cluster_free(struct cluster *c)
{
    fake_cluster_forget(c);
    free(c);
}

bool fake_cluster_know(struct cluster *c, struct served_input *in)
{
    struct served *s;

    in->generation = ++c->generation;
    s = served_new(in);
    if (s == NULL)
        return false;
    fake_cluster_forget(c);
    c->served = s;
    return true;
}

void fake_cluster_forget(struct cluster *c)
{
    if (c->served != NULL)
        served_unref(c->served);
    c->served = NULL;
}

void fake_cluster_refreshed(struct cluster *c)
{
    struct cluster_waiter *w = list_entry(list_pop_front(&c->waiters), struct cluster_waiter, node), copy = *w;

    free(w);
    copy.done(copy.arg);
}

struct served_documents *fake_cluster_documents(const char *json, bool long_indented, const char *protobuf,
                                                const struct disco_doc *parsed)
{
    struct served_document shapes[SERVED_SHAPES] = {{.body = SLICE_NONE}};
    char *storage[SERVED_SHAPES * 3] = {NULL};

    for (size_t i = 0; i < (protobuf == NULL ? SERVED_JSON_SHAPES : SERVED_SHAPES); i++) {
        bool is_json = i < SERVED_JSON_SHAPES;

        storage[i] = mem_strdup(is_json ? json : protobuf);
        shapes[i] = (struct served_document){.body = slice_str(storage[i]),
                                             .long_indented = is_json && long_indented,
                                             .etag = SLICE_LIT(FAKE_CLUSTER_ETAG)};
    }
    return served_documents_new(shapes, storage, parsed);
}

struct schema_index *fake_cluster_schemas(const char *text, struct quota *q)
{
    struct schema_reader *r = text == NULL ? NULL : schema_reader_new(slice_str(text), q);
    struct schema_index *x = NULL;

    while (r != NULL && schema_reader_step(r, &x) == STEP_MORE)
        continue;
    schema_reader_free(r);
    if (text != NULL && x == NULL)
        tap_bail("test index");
    return x;
}
