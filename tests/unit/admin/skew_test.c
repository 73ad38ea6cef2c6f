/* SPDX-License-Identifier: Apache-2.0 */
/* Who serves what. */
#include "admin/skew.h"

#include <stdio.h>

#include "base/buf.h"
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"

/* One aggregated document; groups as "group version resource,resource;..." */
static struct disco_doc *doc_of(const char *text)
{
    struct slice groups = slice_str(text), group, part, name;
    struct disco_doc *doc;
    struct buf b;
    bool first = true;

    buf_init(&b, 1 << 16);
    buf_append_str(&b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                       "\"items\":[");
    while (slice_split(&groups, ';', &group)) {
        slice_split(&group, ' ', &part);
        buf_printf(&b, "%s{\"metadata\":{\"name\":\"%.*s\"},\"versions\":[{\"version\":\"", first ? "" : ",",
                   (int)part.n, part.n == 0 ? "" : part.p);
        slice_split(&group, ' ', &part);
        buf_printf(&b, "%.*s\",\"resources\":[", (int)part.n, part.p);
        for (bool one = true; slice_split(&group, ',', &name); one = false)
            buf_printf(&b,
                       "%s{\"resource\":\"%.*s\",\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"K\"},"
                       "\"scope\":\"Namespaced\",\"singularResource\":\"k\",\"verbs\":[\"get\"]}",
                       one ? "" : ",", (int)name.n, name.p);
        buf_append_str(&b, "],\"freshness\":\"Current\"}]}");
        first = false;
    }
    buf_append_str(&b, "]}");
    doc = disco_doc_of(buf_slice(&b));
    buf_free(&b);
    return doc;
}

static struct disco *server(const char *core, const char *apis)
{
    return disco_of_docs(doc_of(core), doc_of(apis));
}

static void write_row(const struct skew_row *row, void *arg)
{
    struct buf *out = arg;
    const struct gvr *g = &row->gvr;

    buf_printf(out, "%.*s/%.*s/%.*s ", (int)g->group.n, g->group.n == 0 ? "" : g->group.p, (int)g->version.n,
               g->version.p, (int)g->resource.n, g->resource.p);
    for (size_t i = 0; i < row->n; i++)
        buf_append_char(out, "?-+"[row->by[i]]);
    buf_append_str(out, row->uneven ? " uneven\n" : "\n");
}

int main(void)
{
    struct disco *local = server(" v1 pods,nodes", "apps v1 deployments");
    struct disco *newer = server(" v1 pods,nodes", "resource.k8s.io v1 deviceclasses;apps v1 deployments,z<z");
    struct served_peer peers[] = {
        {.id = "apiserver-a", .life = SERVED_LIVE, .discovery_known = true, .disco = newer},
        {.id = "apiserver-b", .life = SERVED_LAPSED},
    };
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "apiserver-l",
                              .local = local,
                              .peers = peers,
                              .n_peers = 2};
    struct served *s = served_new(&in);
    struct skew *k;
    struct buf out;
    bool failed;

    if (s == NULL)
        tap_bail("served_new");
    buf_init(&out, 1 << 16);
    k = skew_new(s);
    if (k == NULL)
        tap_bail("skew_new");
    while (!skew_gather(k, &failed))
        if (failed)
            tap_bail("no memory");
    for (size_t i = 0; i < skew_rows(k); i++) {
        struct skew_row row;

        skew_row(k, i, &row);
        write_row(&row, &out);
    }
    skew_free(k);
    is_slice(buf_slice(&out),
             "/v1/nodes ++?\n/v1/pods ++?\napps/v1/deployments ++?\napps/v1/z<z -+? uneven\n"
             "resource.k8s.io/v1/deviceclasses -+? uneven\n",
             "the union, sorted; who serves it; unknown servers have no say");
    buf_free(&out);
    served_unref(s);
    disco_unref(local);
    disco_unref(newer);
    return tap_end();
}
