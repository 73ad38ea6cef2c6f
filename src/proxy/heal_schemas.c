/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/heal_schemas.h"

#include "proxy/job.h"

enum { LOOK_SCHEMAS = 1000 /* in one go: 1 ms, 4 of the longest ones */ };

static bool is_excluded(void *arg, struct slice group, struct slice version)
{
    return served_excluded(arg, group, version);
}

static size_t n_resources(const struct disco *d, enum served_half half, struct slice group, struct slice version)
{
    const struct disco_doc *doc = disco_half(d, half == SERVED_CORE);
    const struct disco_version *v = doc == NULL ? NULL : disco_doc_version(doc, group, version);

    return v == NULL ? 0 : v->n_resources;
}

/* The merged version has each resource that somebody has: who has as many has all of them. */
static bool is_outdone(void *arg, const struct schema_index *other, struct slice group, struct slice version)
{
    const struct served *s = arg;
    enum served_half half = group.n == 0 ? SERVED_CORE : SERVED_APIS;
    const struct disco_doc *merged = served_merged_doc(s, half);
    const struct disco_version *all = merged == NULL ? NULL : disco_doc_version(merged, group, version);

    if (all == NULL || n_resources(served_local_disco(s), half, group, version) >= all->n_resources)
        return false;
    for (size_t i = 0; i < served_n_peers(s); i++) {
        const struct served_peer *p = served_peer_at(s, i);

        if (p->life == SERVED_LIVE && schema_index_digest(p->last_schemas) == schema_index_digest(other) &&
            n_resources(p->disco, half, group, version) == all->n_resources)
            return true;
    }
    return false;
}

/* Most servers say the very same: one of them is enough. */
static void add_schemas(struct schema_merge *m, const struct schema_index **others, const struct schema_index *x)
{
    uint64_t digest = schema_index_digest(x);
    size_t i = 0;

    if (x == NULL || (m->base != NULL && schema_index_digest(m->base) == digest))
        return;
    while (i < m->n_others && schema_index_digest(others[i]) != digest)
        i++;
    if (i == m->n_others)
        others[m->n_others++] = x;
}

bool heal_schemas_gather(const struct job *j, struct schema_merge *m)
{
    size_t n = served_n_peers(j->served);
    const struct schema_index **others = arena_alloc(exchange_arena(j->x), (n + 2) * sizeof(*others));

    *m = (struct schema_merge){.others = others, .excluded = is_excluded, .outdone = is_outdone, .arg = j->served};
    if (others == NULL)
        return false;
    add_schemas(m, others, served_local_schemas(j->served));
    /* Whose hash is named is asked for the document: rather one that is there. */
    for (size_t i = 0; i < n; i++)
        if (served_peer_at(j->served, i)->life == SERVED_LIVE)
            add_schemas(m, others, served_peer_at(j->served, i)->last_schemas);
    for (size_t i = 0; i < n; i++)
        if (served_peer_at(j->served, i)->life != SERVED_LIVE)
            add_schemas(m, others, served_peer_at(j->served, i)->last_schemas);
    m->unhashed = served_undiscovered_schemas(j->served);
    add_schemas(m, others, m->unhashed);
    return true;
}

bool heal_schemas_lacking(const struct job *j)
{
    struct schema_merge m;

    if (!heal_schemas_gather(j, &m))
        return false;
    m.base = served_local_schemas(j->served);
    return schema_merge_adds(&m, LOOK_SCHEMAS);
}
