/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/disco_news.h"

#include <stdio.h>
#include <string.h>

static void append(char *text, struct slice group, struct slice version)
{
    static const char more[] = " ...";
    size_t used = strlen(text), need = group.n + version.n + 2;

    if (used >= sizeof(more) && strcmp(text + used - (sizeof(more) - 1), more) == 0)
        return;
    if (used + need + sizeof(more) > DISCO_NEWS_BYTES) {
        memcpy(text + used, more, sizeof(more));
        return;
    }
    (void)snprintf(text + used, DISCO_NEWS_BYTES - used, "%s%.*s%s%.*s", used == 0 ? "" : " ", (int)group.n, group.p,
                   group.n == 0 ? "" : "/", (int)version.n, version.p);
}

static const struct disco_version *find(const struct disco_doc *d, const struct disco_version *v)
{
    return d == NULL ? NULL : disco_doc_version(d, v->group->name, v->name);
}

/* What `a` has and `b` has not goes to `lost`; what both have, with other bytes, to `other` (NULL: nobody asks). */
static void compare(const struct disco_doc *a, const struct disco_doc *b, char *lost, char *other)
{
    const struct disco_group *g = a == NULL ? NULL : disco_doc_groups(a);

    for (; g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
            const struct disco_version *same = find(b, v);

            if (same == NULL)
                append(lost, g->name, v->name);
            else if (other != NULL && !slice_eq(v->raw, same->raw))
                append(other, g->name, v->name);
        }
}

void disco_news(const struct disco *before, const struct disco *now, struct disco_news *out)
{
    *out = (struct disco_news){.came = ""};
    if (before == NULL)
        return;
    compare(disco_core(now), disco_core(before), out->came, out->changed);
    compare(disco_apis(now), disco_apis(before), out->came, out->changed);
    compare(disco_core(before), disco_core(now), out->gone, NULL);
    compare(disco_apis(before), disco_apis(now), out->gone, NULL);
}
