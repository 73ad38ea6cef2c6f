/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/insight.h"

#include "base/hash.h"
#include "base/metric.h"
#include "proxy/askers.h"

enum { MEMO = 512, SERIES = 1000 };

struct insight {
    struct askers *askers;
    struct metric_family *requests;
    /* What was found out about a resource in this snapshot. */
    struct {
        uint64_t hash, generation;
        enum insight_kind kind;
    } memo[MEMO];
};

/* ---- kinds ---- */

/* What the known servers say together. */
struct tally {
    size_t known, serving;
    bool unversioned;                /* some server's release is not known */
    uint64_t oldest, newest;         /* of all */
    uint64_t serving_lo, serving_hi; /* of those that serve it */
};

static void count(struct tally *t, uint64_t release, bool serves)
{
    t->unversioned = t->unversioned || release == 0;
    t->oldest = t->known == 0 || release < t->oldest ? release : t->oldest;
    t->newest = t->known == 0 || release > t->newest ? release : t->newest;
    t->known++;
    if (!serves)
        return;
    t->serving_lo = t->serving == 0 || release < t->serving_lo ? release : t->serving_lo;
    t->serving_hi = t->serving == 0 || release > t->serving_hi ? release : t->serving_hi;
    t->serving++;
}

enum insight_kind insight_kind(const struct served *s, const struct gvr *gvr)
{
    struct slice none = slice_of("", 0);
    struct tally t = {0};

    if (served_local_disco(s) != NULL)
        count(&t, served_local_release(s), served_local(s, gvr, none, none) == DISCO_SERVED);
    for (size_t i = 0; i < served_n_peers(s); i++) {
        const struct served_peer *p = served_peer_at(s, i);

        /* Who is away for the moment comes back: what only he serves is not everybody's meanwhile. */
        if (p->discovery_known)
            count(&t, p->release, served_by_peer(s, i, gvr, none, none) == DISCO_SERVED);
    }
    if (t.serving == 0 || t.serving == t.known || served_excluded(s, gvr->group, gvr->version))
        return INSIGHT_EVEN;
    if (t.unversioned || t.oldest == t.newest)
        return INSIGHT_SOME;
    if (t.serving_hi < t.newest)
        return INSIGHT_OLD;
    return t.serving_lo > t.oldest ? INSIGHT_NEW : INSIGHT_SOME;
}

const char *insight_kind_name(enum insight_kind kind)
{
    static const char *const names[] = {
        [INSIGHT_EVEN] = "even", [INSIGHT_OLD] = "old", [INSIGHT_NEW] = "new", [INSIGHT_SOME] = "some"};

    return names[kind];
}

enum insight_kind insight_look(struct insight *i, const struct served *s, const struct gvr *gvr)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(gvr, text);
    uint64_t hash;

    if (served_n_peers(s) == 0 || key.p == NULL)
        return INSIGHT_EVEN; /* no resource has such a name */
    hash = hash_seeded(key);
    if (i->memo[hash % MEMO].hash != hash || i->memo[hash % MEMO].generation != served_generation(s)) {
        i->memo[hash % MEMO].hash = hash;
        i->memo[hash % MEMO].generation = served_generation(s);
        i->memo[hash % MEMO].kind = insight_kind(s, gvr);
    }
    return i->memo[hash % MEMO].kind;
}

/* ---- who asked ---- */

struct insight *insight_new(struct metrics *m)
{
    static const char *const labels[] = {"group", "version", "resource", "served_by", NULL};
    struct insight *i = must_zalloc(sizeof(*i));

    i->askers = askers_new();
    i->requests =
        metric_family(m, METRIC_COUNTER, "mvproxy_skewed_resource_requests_total",
                      "Requests for resources that only older, only newer or only some servers serve.", labels, SERIES);
    return i;
}

void insight_free(struct insight *i)
{
    askers_free(i->askers);
    mem_free(i);
}

void insight_note(struct insight *i, enum insight_kind kind, const struct gvr *gvr, const struct asker_who *who)
{
    struct slice labels[] = {gvr->group, gvr->version, gvr->resource, slice_str(insight_kind_name(kind))};

    metric_inc(metric_child(i->requests, labels));
    askers_note(i->askers, kind, gvr, who);
}

const struct askers *insight_askers(const struct insight *i)
{
    return i->askers;
}
