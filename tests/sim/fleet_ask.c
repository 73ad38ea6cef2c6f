/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "cluster/cluster_view.h"
#include "proxy/explain.h"
#include "sim/cluster_kit.h"
#include "sim/fleet_internal.h"

struct question {
    struct fleet *fleet;
    struct fleet_answer answer;
    void (*answered)(void *arg, const struct fleet_answer *a);
    void *arg;
};

/* "resource/subresource" as well. */
static struct slice split_resource(const struct gvr *g, struct gvr *plain)
{
    struct slice sub = g->resource;

    *plain = *g;
    if (slice_index(sub, '/') == sub.n)
        return SLICE_LIT("");
    (void)slice_split(&sub, '/', &plain->resource);
    return sub;
}

bool fleet_has(const struct fleet *f, unsigned node, const struct gvr *g)
{
    struct gvr plain;
    struct slice sub = split_resource(g, &plain);

    return kube_serves_sub(f->nodes[node].server, &plain, sub);
}

bool fleet_has_version(const struct fleet *f, unsigned node, const struct gvr *g)
{
    return kube_knows(f->nodes[node].server, g->group, g->version);
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    static const char by[] = "\"server\":";
    struct question *q = arg;
    const char *at = NULL;

    if (r->ok) {
        q->answer.ended = true;
        q->answer.status = r->head->status;
        q->answer.body = r->body;
        at = r->body.n == 0 ? NULL : memmem(r->body.p, r->body.n, by, sizeof(by) - 1);
    }
    q->answer.server = at == NULL ? -1 : (int)strtol(at + sizeof(by) - 1, NULL, 10);
    q->fleet->asking--;
    q->answered(q->arg, &q->answer);
    mem_free(q);
}

enum { TARGET_BYTES = 200 };

/* Nobody deletes a subresource. */
static const char *method_of(const struct gvr *g, bool write)
{
    const char *change = slice_index(g->resource, '/') < g->resource.n ? "PATCH" : "DELETE";

    return write ? change : "GET";
}

static void print_target(const struct fleet *f, const struct gvr *asked, char target[TARGET_BYTES])
{
    struct gvr plain;
    struct slice sub = split_resource(asked, &plain);
    const struct gvr *g = &plain;

    (void)snprintf(target, TARGET_BYTES, "/%s%.*s/%.*s/namespaces/default/%.*s/w%zu%s%.*s",
                   g->group.n == 0 ? "api" : "apis/", (int)g->group.n, g->group.p == NULL ? "" : g->group.p,
                   (int)g->version.n, g->version.p, (int)g->resource.n, g->resource.p, f->n_writes,
                   sub.n > 0 ? "/" : "", (int)sub.n, sub.p);
}

/* As the daemon says it to explain, without its words for people. */
static bool look_at_server(void *arg, const char *id, struct explain_server *out)
{
    const struct cluster_view *v = arg;

    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->servers[i].id, id) == 0) {
            *out = (struct explain_server){.answers = v->servers[i].answers != PULSE_UNREACHABLE &&
                                                      v->servers[i].address != NULL,
                                           .refuses = v->servers[i].refuses,
                                           .error = v->servers[i].error};
            return true;
        }
    return false;
}

bool fleet_explain(struct fleet *f, unsigned node, const struct gvr *g, bool write, struct buf *out)
{
    const struct node *n = &f->nodes[node];
    char target[TARGET_BYTES];
    struct cluster_view view;
    struct explain_query q = {
        .method = method_of(g, write), .target = target, .user = "client", .look = look_at_server, .arg = &view};
    struct err err;
    bool told;

    err_clear(&err);
    print_target(f, g, target);
    if (n->cluster == NULL || !cluster_view_take(n->cluster, &view))
        return false;
    told = explain_request(n->proxy, &q, out, &err);
    cluster_view_free(&view);
    return told;
}

void fleet_ask(struct fleet *f, unsigned node, const struct gvr *g, bool write,
               void (*answered)(void *arg, const struct fleet_answer *a), void *arg)
{
    struct question *q = must_zalloc(sizeof(*q));
    struct http_field user = {.name = SLICE_LIT(SIM_USER), .value = SLICE_LIT("client")};
    char target[TARGET_BYTES];
    struct fetch_opts o = {.origin = f->fronts[node],
                           .method = slice_str(method_of(g, write)),
                           .fields = &user,
                           .n_fields = 1,
                           .ceiling = FLEET_DOCUMENT_BYTES,
                           .timeout_ms = ASK_TIMEOUT_MS};

    *q = (struct question){.fleet = f, .answered = answered, .arg = arg};
    q->answer = (struct fleet_answer){.node = node, .gvr = *g, .write = write, .asked_ms = loop_now_ms(f->loop)};
    print_target(f, g, target);
    q->answer.number = f->n_writes++;
    o.target = slice_str(target);
    f->asking++;
    /* Memory may fail once, by order of a test. */
    if (fetch_start(f->net, f->loop, &o, on_answer, q) == NULL &&
        fetch_start(f->net, f->loop, &o, on_answer, q) == NULL)
        abort();
}

size_t fleet_asking(const struct fleet *f)
{
    return f->asking;
}

const struct disco_doc *fleet_parsed(struct fleet *f, unsigned node)
{
    struct cluster *c = f->nodes[node].cluster;

    return c == NULL ? NULL : served_merged_doc(cluster_served(c), SERVED_APIS);
}

bool fleet_lists(struct fleet *f, unsigned node, const struct gvr *g)
{
    const struct disco_doc *d = fleet_parsed(f, node);

    struct gvr plain;
    struct slice sub = split_resource(g, &plain);
    const struct disco_resource *r = d == NULL ? NULL : disco_doc_resource(d, &plain);
    const struct disco_subresource *one = r == NULL ? NULL : r->subresources;

    while (one != NULL && !slice_eq(one->name, sub))
        one = one->next;
    return d == NULL || (r != NULL && (sub.n == 0 || one != NULL));
}

struct slice fleet_document(struct fleet *f, unsigned node)
{
    struct cluster *c = f->nodes[node].cluster;
    const struct served_document *d = c == NULL ? NULL : served_merged(cluster_served(c), SERVED_V2);

    return d == NULL ? SLICE_LIT("") : d->body;
}
