/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/placeholder.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "kube/disco_parse.h"

enum { PLACEHOLDER_CEILING = 4 << 20 };

static int by_name(const void *a, const void *b)
{
    const struct served_gv *x = a, *y = b;
    int order = slice_cmp(x->group, y->group);

    return order != 0 ? order : slice_cmp(x->version, y->version);
}

static void print_version(struct buf *b, struct slice version)
{
    buf_append_quoted(b, "{\"version\":", version);
    buf_append_str(b, ",\"freshness\":\"Stale\"}");
}

static void print_group(struct buf *b, struct slice group)
{
    buf_append_quoted(b, "{\"metadata\":{\"name\":", group);
    buf_append_str(b, "},\"versions\":[");
}

static void print(struct buf *b, const struct served_gv *gvs, size_t n)
{
    buf_append_str(b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                      "\"items\":[");
    for (size_t i = 0; i < n; i++) {
        if (gvs[i].group.n == 0) /* not of /apis; sorted, they stand in front */
            continue;
        bool first = i == 0 || !slice_eq(gvs[i].group, gvs[i - 1].group);
        bool last = i + 1 == n || !slice_eq(gvs[i].group, gvs[i + 1].group);

        if (first)
            print_group(b, gvs[i].group);
        print_version(b, gvs[i].version);
        if (last)
            buf_append_str(b, "]}");
        if (i + 1 < n)
            buf_append_char(b, ',');
    }
    buf_append_str(b, "]}");
}

struct disco_doc *placeholder_new(struct served_gv *gvs, size_t n)
{
    struct disco_doc *doc = NULL;
    struct err err = {.text = ""};
    struct buf b;

    qsort(gvs, n, sizeof(*gvs), by_name);
    buf_init(&b, PLACEHOLDER_CEILING);
    print(&b, gvs, n);
    if (!b.failed)
        doc = disco_parse(buf_slice(&b), &err);
    if (err_is_set(&err))
        log_error("Could not make a placeholder for unknown peers", LT("err", err.text));
    buf_free(&b);
    return doc;
}
