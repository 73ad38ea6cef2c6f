/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/upgrade.h"

#include "net/stream.h"
#include "proxy/rewrite.h"
#include "proxy/tunnel.h"

/* Outlives the exchange, so it has nothing of the job's. */
struct upgrade {
    struct proxy *proxy;
    struct tunnel *tunnel;
    struct list_node node; /* in proxy->tunnels */
};

static void forget(struct upgrade *u)
{
    list_remove(&u->proxy->tunnels, &u->node);
    request_metrics_tunnel(u->proxy->request_metrics, -1);
    mem_free(u);
}

static void on_done(void *arg, uint64_t from_client, uint64_t from_server, const char *reason)
{
    struct upgrade *u = arg;

    (void)reason;
    request_metrics_tunnel_bytes(u->proxy->request_metrics, from_client, from_server);
    forget(u);
}

static void join(struct proxy *p, struct stream *client, struct stream *server)
{
    struct upgrade *u = mem_zalloc(sizeof(*u));

    if (u == NULL) {
        stream_close(client, STREAM_CLOSE_ABORT);
        stream_close(server, STREAM_CLOSE_ABORT);
        return;
    }
    u->proxy = p;
    list_push_back(&p->tunnels, &u->node);
    request_metrics_tunnel(p->request_metrics, 1);
    u->tunnel = tunnel_start(p->loop, client, server, on_done, u);
    if (u->tunnel == NULL)
        forget(u);
}

/* The Upgrade field is hop-by-hop, yet here it is the answer: the connection adds `Connection: Upgrade` to it. */
static bool switching_head(const struct job *j, const struct http_head *in, struct arena *a, struct http_head *out)
{
    /* It is written when the job has let go of the snapshot that the peer is in. */
    struct slice id = j->peer == NULL ? SLICE_NONE : arena_copy(a, slice_str(j->peer->id));
    struct rewrite_origin from = {.served_by = id.p};

    bool good = (j->peer == NULL || id.p != NULL) && rewrite_response(in, &from, a, out);

    for (size_t i = 0; good && i < in->n_fields; i++)
        good = in->fields[i].id != HTTP_UPGRADE || http_head_add_id(out, a, HTTP_UPGRADE, in->fields[i].value);
    return good;
}

void upgrade_on_upgraded(void *arg, const struct http_head *head, struct stream *server)
{
    struct job *j = arg;
    struct proxy *p = j->proxy;
    struct exchange *x = j->x;
    struct http_head out;
    struct stream *client;

    j->back = NULL;
    if (!switching_head(j, head, exchange_arena(x), &out)) {
        stream_close(server, STREAM_CLOSE_ABORT);
        job_abort(j, "out of memory");
        return;
    }
    j->summary.status = 101;
    job_vouch(j);
    /* The job's memory goes with the exchange. */
    job_release(j, NULL);
    client = exchange_upgrade(x, &out);
    if (client == NULL)
        stream_close(server, STREAM_CLOSE_ABORT);
    else
        join(p, client, server);
}

size_t upgrade_end_oldest(struct proxy *p, size_t n)
{
    size_t ended = 0;

    while (ended < n && p->tunnels.count > 0) {
        struct upgrade *u = list_entry(list_first(&p->tunnels), struct upgrade, node);

        tunnel_cancel(u->tunnel);
        forget(u);
        ended++;
    }
    return ended;
}
