/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be true of custom resources and aggregated APIs: they are the local server's to tell, and no document of a
 * peer that may be old brings back what was deleted, nor loses what is there (docs/internals/served.md).
 */
#include "sim/fleet_customs.h"
#include "unit/proxy/schedule.h"

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct gvr schedule_custom_gvr(size_t which)
{
    const struct custom *c = customs_known(which);

    return (struct gvr){slice_str(c->group), slice_str(c->version), slice_str(c->resource)};
}

/* Legacy discovery is a request for each group/version, and a peer gets four a second where no event asks for them. */
enum { WALKED_MS = 5000 };
/* A document that says that something is in doubt is made when it has been for two seconds. */
enum { DOUBTED_MS = 500 };

/* What servers serve of it is what there is, and so is what mvproxies read of them. */
static bool is_settled(struct schedule *s, size_t which)
{
    uint64_t changed = customs_changed(s->customs, which);

    return changed == 0 || changed > LAG_MAX_MS + schedule_patience(s);
}

/* Of what has changed just before an mvproxy started it has heard no event, so that its first look at the local server
 * may be too early, and that may be away when it looks again. */
static bool is_told(struct schedule *s, unsigned node, size_t which)
{
    uint64_t changed = customs_changed(s->customs, which);

    return is_settled(s, which) && (changed == 0 || changed > KNOWN_MS || fleet_server_up(s->fleet, node) > 0 ||
                                    fleet_proxy_up(s->fleet, node) > changed);
}

/* While the node's own server is away no event tells it, and peers that are read group by group are read seldom. */
static bool may_lag(struct schedule *s, unsigned node, size_t which)
{
    uint64_t changed = customs_changed(s->customs, which);
    bool walked = false;

    for (unsigned i = 0; i < s->nodes; i++)
        walked |= i != node && (s->legacy[i] || s->formed_ms[i] > 0);
    return walked && fleet_server_up(s->fleet, node) == 0 && changed > 0 &&
           changed <= LAG_MAX_MS + WALKED_MS + schedule_patience(s);
}

void schedule_note_customs(struct schedule *s)
{
    for (unsigned node = 0; s->customs != NULL && node < s->nodes; node++)
        for (size_t i = 0; i < CUSTOMS; i++) {
            uint64_t up = min_of(fleet_server_up(s->fleet, node), fleet_proxy_up(s->fleet, node));
            bool heard = customs_exists(s->customs, i) && is_settled(s, i) && up > schedule_patience(s);

            s->excluded[node][i] = fleet_proxy_up(s->fleet, node) > 0 && (s->excluded[node][i] || heard);
        }
}

bool schedule_customs_differ(struct schedule *s)
{
    bool legacy = false, aggregated = false, any = false;

    for (size_t i = 0; s->customs != NULL && i < CUSTOMS; i++)
        any |= customs_exists(s->customs, i) || !is_settled(s, i);
    for (unsigned i = 0; i < s->nodes; i++) {
        legacy |= s->legacy[i];
        aggregated |= !s->legacy[i];
    }
    return any && legacy && aggregated;
}

/* ---- documents ---- */

/* Who was read since the local server went, and was ready then. In the walk of legacy discovery nothing is said of
 * that, and it counts only when it has answered for long. */
static bool somebody_vouches(struct schedule *s, const struct schedule_view *v)
{
    for (unsigned i = 0; i < s->nodes; i++)
        if (i != v->node && v->of[i] == STANDING_THERE && !s->legacy[i] && s->formed_ms[i] == 0 &&
            fleet_loaded(s->fleet, i) > LAG_MAX_MS + schedule_patience(s))
            return true;
    return false;
}

/* A server that is ready and lists nothing of it is believed by those whose own server is away. */
static bool somebody_lied(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        if (s->lied_ms[i] > 0)
            return true;
    return false;
}

struct may schedule_custom_may(struct schedule *s, const struct schedule_view *v, size_t which)
{
    bool exists = customs_exists(s->customs, which);
    struct may is = {.be_absent = !exists, .be_current = exists}, all = {true, true, true};

    if (!s->excluded[v->node][which] || somebody_lied(s))
        return all;
    /* Clients act on what vanishes. */
    all.be_absent = !exists || !is_told(s, v->node, which) || may_lag(s, v->node, which);
    if (fleet_server_up(s->fleet, v->node) > 0)
        return is_told(s, v->node, which) && fleet_loaded(s->fleet, v->node) > schedule_patience(s) ? is : all;
    if (v->of[v->node] != STANDING_AWAY)
        return all;
    if (somebody_vouches(s, v))
        return is_told(s, v->node, which) && !may_lag(s, v->node, which) ? is : all;
    /* Nobody can say it, or somebody perhaps does. */
    if (v->unsure || v->there || schedule_unreachable(s, v->node, v->node) <= schedule_patience(s) + DOUBTED_MS)
        return all;
    return (struct may){.be_stale = true};
}

/* ---- answers ---- */

static void broken(struct schedule *s, const struct fleet_answer *a, const char *why)
{
    schedule_broken(s, "%u by %d at node %u for %.*s/%.*s, %s: %.*s", a->status, a->server, a->node,
                    (int)a->gvr.group.n, a->gvr.group.p, (int)a->gvr.version.n, a->gvr.version.p, why, (int)a->body.n,
                    a->body.p);
}

static size_t which_of(const struct fleet_answer *a)
{
    size_t which = 0;

    while (which < CUSTOMS - 1 && !slice_eq(slice_str(customs_known(which)->group), a->gvr.group))
        which++;
    return which;
}

void schedule_judge_custom(struct schedule *s, const struct fleet_answer *a)
{
    uint64_t took = loop_now_ms(fleet_loop(s->fleet)) - a->asked_ms, bound = took + schedule_patience(s);
    uint64_t changed = customs_changed(s->customs, which_of(a));
    bool exists = customs_exists(s->customs, which_of(a)), known = s->excluded[a->node][which_of(a)];
    bool settled = changed == 0 || changed > bound + LAG_MAX_MS;
    bool local = min_of(fleet_loaded(s->fleet, a->node), fleet_proxy_up(s->fleet, a->node)) > bound &&
                 schedule_believed(s, a->node);

    if (!a->ended || !settled || s->short_of_memory || s->deaf_ms > 0)
        return;
    if (a->status == 200 && !exists)
        broken(s, a, "which was deleted");
    if (local && known && a->status == 200 && a->server != (int)a->node)
        broken(s, a, "which is the local server's to answer");
    if (local && exists && a->status != 200)
        broken(s, a, "which the local server has");
    if (local && known && !exists && a->status != 404)
        broken(s, a, "which was deleted, as the local server says");
}
