/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the merged documents must show (docs/internals/served.md), found out from what has happened alone: of each
 * server, what an mvproxy must know of it, and of that, which group/versions are there, and which are Stale.
 */
#include <stdio.h>

#include "kube/disco.h"
#include "sim/fleet_customs.h"
#include "unit/proxy/schedule.h"

enum {
    POLL_MS = 10000, /* until a poll that nobody answers has failed */
    /* Until two in a row of a server that hangs have: the first one begins when that has not answered for 1.4 s. */
    HANGING_MS = 2500 + 2 * POLL_MS,
};

static const char *const standing_names[] = {
    [STANDING_UNSURE] = "unsure", [STANDING_NOTHING] = "nothing", [STANDING_NAMED] = "named",
    [STANDING_AWAY] = "away",     [STANDING_THERE] = "there",
};

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t now_of(struct schedule *s)
{
    return loop_now_ms(fleet_loop(s->fleet));
}

/* ---- what was possible ---- */

static bool is_reachable(struct schedule *s, unsigned from, unsigned to)
{
    return fleet_path_up(s->fleet, from, to) > 0 && fleet_server_up(s->fleet, to) > 0 && fleet_proxy_runs(s->fleet, to);
}

/* Its mvproxy's record counts as much as a Lease. */
static bool is_told_of(struct schedule *s, unsigned node)
{
    return (fleet_etcd(s->fleet) != NULL && fleet_proxy_runs(s->fleet, node)) || fleet_leased(s->fleet, node, NULL);
}

static void note_pair(struct schedule *s, unsigned i, unsigned j)
{
    bool runs = fleet_proxy_runs(s->fleet, i);

    s->could_read[i][j] = runs && (s->could_read[i][j] || is_reachable(s, i, j));
    s->could_hear[i][j] = runs && (s->could_hear[i][j] || is_told_of(s, j));
}

void schedule_note_shown(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        for (unsigned j = 0; j < s->nodes; j++)
            note_pair(s, i, j);
}

/* ---- standing ---- */

/* What hangs has to be found out first; where its record in etcd runs out meanwhile it is asked anew, where its Lease
 * says that it is. What it was asked before a path was cut is waited for, since a cut breaks no connection. */
uint64_t schedule_unreachable(struct schedule *s, unsigned from, unsigned to)
{
    uint64_t hung = fleet_server_away(s->fleet, to), cut = fleet_path_cut(s->fleet, from, to), away = hung;

    if (s->hung_ms[to] > 0 && s->woke_ms[to] == 0) {
        away -= min_of(away, HANGING_MS + (fleet_etcd(s->fleet) == NULL || from == to ? 0 : POLL_MS));
        cut -= cut < hung ? min_of(cut, POLL_MS) : 0;
    }
    return from == to ? away : max_of(away, max_of(fleet_proxy_dead(s->fleet, to), cut));
}

/* Its own server is away: nobody tells it who comes and goes, but who was there when that went can still be read. */
static bool stays(struct schedule *s, unsigned from, unsigned to)
{
    uint64_t up = min_of(fleet_server_up(s->fleet, to), fleet_proxy_up(s->fleet, to)),
             away = fleet_server_away(s->fleet, from);

    up -= min_of(up, s->settles_ms[to]);
    return s->met[from][to] && s->told[from][to] && !schedule_etcd_troubled(s) &&
           min_of(up, fleet_path_up(s->fleet, from, to)) > away + schedule_patience(s);
}

/* It hung, and who has it in view may wait for its Lease to be renewed before it counts as live; who is away has not
 * seen that. */
static bool has_just_woken(struct schedule *s, unsigned from, unsigned to)
{
    uint64_t seen_ms = now_of(s) - fleet_server_away(s->fleet, from);

    return s->hung_ms[to] > 0 && seen_ms <= s->woke_ms[to] + RENEWED_MS + schedule_patience(s);
}

/* Each probe that failed had it read anew, and over legacy discovery that takes many answers. */
static bool may_have_come_anew(struct schedule *s, unsigned node)
{
    return s->dawdled_ms[node] > 0 && now_of(s) <= s->dawdled_ms[node] + KNOWN_MS;
}

static bool is_there(struct schedule *s, unsigned from, unsigned to)
{
    if (may_have_come_anew(s, to))
        return false;
    if (from != to && schedule_may_have_lapsed(s, to))
        return false;
    if (!schedule_believed(s, to) || (from != to && has_just_woken(s, from, to)))
        return false;
    if (from == to)
        return fleet_server_up(s->fleet, to) > schedule_patience(s);
    return fleet_server_up(s->fleet, from) > 0 ? schedule_in_touch(s, from, to) > schedule_patience(s)
                                               : stays(s, from, to);
}

/* While both ran for long enough. */
static bool has_read_own(struct schedule *s, unsigned node)
{
    uint64_t away = fleet_server_away(s->fleet, node), patience = schedule_patience(s);

    return fleet_proxy_up(s->fleet, node) > away + patience && now_of(s) > s->started_ms[node] + away + patience;
}

static bool is_away(struct schedule *s, unsigned from, unsigned to)
{
    uint64_t gone = schedule_unreachable(s, from, to);
    bool read = from == to ? has_read_own(s, to) : s->met[from][to];

    return read && gone > schedule_patience(s) && gone < FORGOTTEN_MS &&
           (from == to || !schedule_may_be_forgotten(s, to)) && s->lied_ms[to] == 0 && !schedule_etcd_troubled(s);
}

static bool is_named(struct schedule *s, unsigned from, unsigned to)
{
    bool addressed;

    return !s->could_read[from][to] && !s->only_etcd && !s->mute[to] &&
           min_of(fleet_server_up(s->fleet, from), fleet_proxy_up(s->fleet, from)) > schedule_patience(s) &&
           fleet_quiet(s->fleet) > schedule_patience(s) && schedule_unreachable(s, from, to) < FORGOTTEN_MS &&
           fleet_leased(s->fleet, to, &addressed) && addressed;
}

static enum standing standing_of(struct schedule *s, unsigned from, unsigned to)
{
    if (is_there(s, from, to))
        return STANDING_THERE;
    if (is_away(s, from, to)) /* who only does not renew may: its mvproxy does, after a while */
        return STANDING_AWAY;
    if (from != to && !s->could_hear[from][to])
        return STANDING_NOTHING;
    return from != to && is_named(s, from, to) ? STANDING_NAMED : STANDING_UNSURE;
}

static void look_around(struct schedule *s, unsigned node, struct schedule_view *v)
{
    *v = (struct schedule_view){.node = node, .unsure = schedule_haunted(s)};
    for (unsigned i = 0; i < s->nodes; i++) {
        v->of[i] = standing_of(s, node, i);
        v->unsure |= v->of[i] == STANDING_UNSURE;
        v->named |= v->of[i] == STANDING_NAMED;
        v->there |= v->of[i] == STANDING_THERE && i != node;
    }
}

/* ---- what that makes of a document ---- */

static bool has_version(struct schedule *s, unsigned node, size_t thing)
{
    const struct thing *t = schedule_thing(thing);

    for (size_t i = 0; i < N_THINGS; i++) {
        struct gvr g = schedule_gvr(i);

        if (strcmp(schedule_thing(i)->group, t->group) == 0 && strcmp(schedule_thing(i)->version, t->version) == 0 &&
            fleet_has(s->fleet, node, &g))
            return true;
    }
    return false;
}

/* Of what an mvproxy knows, and nobody is there who has it. */
static struct may of_who_is_away(const struct schedule_view *v, unsigned away)
{
    /* A node whose own server is away goes on as before if there is nobody else. */
    bool alone = away == v->node && !v->there;

    return (struct may){.be_stale = !alone || v->unsure, .be_current = alone || v->unsure};
}

static struct may expected_version(struct schedule *s, const struct schedule_view *v, size_t thing)
{
    struct gvr g = schedule_gvr(thing);
    struct may may = {.be_absent = true};
    bool away = false;

    for (unsigned i = 0; i < s->nodes; i++) {
        if (v->of[i] < STANDING_AWAY || !has_version(s, i, thing))
            continue;
        if (v->of[i] == STANDING_THERE)
            return (struct may){.be_current = true};
        if (!away || i == v->node)
            may = of_who_is_away(v, i);
        away = true;
    }
    if (away)
        return may;
    if (v->unsure)
        return (struct may){true, true, true};
    /* Of whom nothing is known but that he is there, he may have what is registered; older servers take back what
       they lack, and then it depends on who saw it. */
    may.be_stale = v->named;
    may.be_absent = !v->named || fleet_registered(s->fleet, &g) <= schedule_patience(s);
    return may;
}

static void wrong(struct schedule *s, const struct schedule_view *v, const struct thing *t, const char *what)
{
    char views[100];
    int n = 0;

    for (unsigned i = 0; i < s->nodes; i++)
        n += snprintf(views + n, sizeof(views) - (size_t)n, " %s", standing_names[v->of[i]]);
    schedule_say(s, "node %u shows %.*s", v->node, (int)fleet_document(s->fleet, v->node).n,
                 fleet_document(s->fleet, v->node).p);
    schedule_broken(s, "node %u shows %s/%s %s%s; servers:%s", v->node, t->group, t->version, t->resource, what, views);
}

static void judge_freshness(struct schedule *s, const struct schedule_view *v, const struct thing *t,
                            const struct disco_version *is, struct may may)
{
    s->shown += may.be_absent + may.be_stale + may.be_current == 1;
    if (is == NULL && !may.be_absent)
        wrong(s, v, t, ": not at all");
    else if (is != NULL && is->stale && !may.be_stale)
        wrong(s, v, t, " as Stale");
    else if (is != NULL && !is->stale && !may.be_current)
        wrong(s, v, t, " as Current");
}

static void judge_version(struct schedule *s, const struct schedule_view *v, const struct disco_doc *d, size_t thing)
{
    const struct thing *t = schedule_thing(thing);

    judge_freshness(s, v, t, disco_doc_version(d, slice_str(t->group), slice_str(t->version)),
                    expected_version(s, v, thing));
}

static void judge_resource(struct schedule *s, const struct schedule_view *v, size_t thing)
{
    struct gvr g = schedule_gvr(thing);
    bool listed = fleet_lists(s->fleet, v->node, &g), known = false;

    for (unsigned i = 0; i < s->nodes; i++)
        known |= v->of[i] >= STANDING_AWAY && fleet_has(s->fleet, i, &g);
    if (known && !listed)
        wrong(s, v, schedule_thing(thing), ", but not the resource");
    else if (!known && listed && !v->unsure)
        wrong(s, v, schedule_thing(thing), ", which nobody has");
}

static void judge_customs(struct schedule *s, const struct schedule_view *v, const struct disco_doc *d)
{
    for (size_t i = 0; s->customs != NULL && i < CUSTOMS; i++) {
        struct gvr g = schedule_custom_gvr(i);
        const struct thing *t = schedule_thing(CUSTOM_THINGS + i);

        judge_freshness(s, v, t, disco_doc_version(d, g.group, g.version), schedule_custom_may(s, v, i));
    }
}

static bool is_first_of_version(size_t thing)
{
    const struct thing *t = schedule_thing(thing), *before = thing == 0 ? NULL : schedule_thing(thing - 1);

    return before == NULL || strcmp(t->group, before->group) != 0 || strcmp(t->version, before->version) != 0;
}

/* Whether there has to be one, or, while nothing was ever read of its own server, none. */
static bool has_document(struct schedule *s, const struct schedule_view *v, const struct disco_doc *d)
{
    if (d == NULL && v->of[v->node] >= STANDING_AWAY && !v->unsure)
        schedule_broken(s, "node %u has no document", v->node);
    if (d != NULL && !s->could_read[v->node][v->node])
        schedule_broken(s, "node %u has a document, and its server was never there", v->node);
    return d != NULL;
}

static bool judge_document(struct schedule *s, unsigned node, struct schedule_view *v)
{
    const struct disco_doc *d = fleet_parsed(s->fleet, node);

    look_around(s, node, v);
    if (v->of[node] < STANDING_AWAY || !has_document(s, v, d))
        return false;
    for (size_t i = 0; i < N_THINGS; i++) {
        if (is_first_of_version(i))
            judge_version(s, v, d, i);
        judge_resource(s, v, i);
    }
    for (size_t i = SUB_THINGS; i < SUB_THINGS + N_SUBS; i++)
        if (schedule_thing(i)->group[0] != '\0')
            judge_resource(s, v, i);
    judge_customs(s, v, d);
    s->whole += !v->unsure;
    return !v->unsure && !v->named;
}

/* Not between what was read of a server before and after its discovery changed its form. */
static bool is_one_form(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        if (s->formed_ms[i] > 0 && now_of(s) <= s->formed_ms[i] + KNOWN_MS)
            return false;
    return true;
}

static bool is_same_custom(struct schedule *s, const struct schedule_view *a, const struct schedule_view *b, size_t i)
{
    struct may x = schedule_custom_may(s, a, i), y = schedule_custom_may(s, b, i);

    return x.be_absent + x.be_stale + x.be_current == 1 && x.be_absent == y.be_absent && x.be_stale == y.be_stale &&
           x.be_current == y.be_current;
}

/* Without anybody who can be read, what a node shows of its own server is not Stale, as nobody knows better. */
static bool is_alike(struct schedule *s, const struct schedule_view *a, const struct schedule_view *b)
{
    bool there = false;

    for (unsigned i = 0; i < s->nodes; i++) {
        if (a->of[i] != b->of[i])
            return false;
        there |= a->of[i] == STANDING_THERE;
    }
    for (size_t i = 0; s->customs != NULL && i < CUSTOMS; i++)
        if (customs_changed(s->customs, i) > 0 && !is_same_custom(s, a, b, i))
            return false;
    return there;
}

static void compare(struct schedule *s, const struct schedule_view *a, const struct schedule_view *b)
{
    if (!is_alike(s, a, b))
        return;
    s->same++;
    if (!slice_eq(fleet_document(s->fleet, a->node), fleet_document(s->fleet, b->node))) {
        schedule_say(s, "node %u shows %.*s", a->node, (int)fleet_document(s->fleet, a->node).n,
                     fleet_document(s->fleet, a->node).p);
        schedule_say(s, "node %u shows %.*s", b->node, (int)fleet_document(s->fleet, b->node).n,
                     fleet_document(s->fleet, b->node).p);
        schedule_broken(s, "nodes %u and %u know the same, and show different documents", a->node, b->node);
    }
}

void schedule_judge_shown(struct schedule *s)
{
    struct schedule_view views[NODES_MAX];
    size_t n = 0;

    if (s->kinds <= 20)
        return;
    schedule_note_shown(s);
    schedule_note_customs(s);
    if (s->deaf_ms > 0 || s->short_of_memory)
        return;
    for (unsigned i = 0; i < s->nodes; i++)
        if (fleet_proxy_up(s->fleet, i) > schedule_patience(s) && schedule_believed(s, i))
            n += judge_document(s, i, &views[n]);
    if (!is_one_form(s) || schedule_customs_differ(s))
        return;
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            compare(s, &views[k], &views[i]);
}
