/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/schedule.h"

#include <limits.h>
#include <stdio.h>

#include "base/buf.h"
#include "lib/tap.h"

static const struct thing things[CUSTOM_THINGS + CUSTOMS] = {
    {"apps", "v1", "deployments"},
    {"apps", "v1", "replicasets"},
    {"batch", "v1", "jobs"},
    {"batch", "v1", "cronjobs"},
    {"batch", "v2", "jobs"},
    {"autoscaling", "v1", "hpas"},
    {"autoscaling", "v2", "hpas"},
    {"policy", "v1", "budgets"},
    {"resource.k8s.io", "v1", "classes"},
    {"resource.k8s.io", "v1", "slices"},
    {"resource.k8s.io", "v2", "claims"},
    {"gateway.networking.k8s.io", "v1", "gateways"},
    {"apps", "v1", "foos"},
    {"apps", "v1", "deployments/scale"},
    {"batch", "v1", "jobs/status"},
    {"resource.k8s.io", "v1", "slices/status"},
    {"", "v1", "pods/resize"},
    {"stable.example.com", "v1", "crontabs"},
    {"widgets.example.com", "v1alpha1", "widgets"},
    {"metrics.k8s.io", "v1beta1", "nodes"},
};

const struct thing *schedule_thing(size_t i)
{
    return &things[i];
}

static uint64_t throw(uint64_t * state, uint64_t sides)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % sides;
}

uint64_t schedule_dice(struct schedule *s, uint64_t sides)
{
    return throw(&s->state, sides);
}

uint64_t schedule_more_dice(struct schedule *s, uint64_t sides)
{
    return throw(&s->more_state, sides);
}

void __attribute__((format(printf, 2, 3))) schedule_say(struct schedule *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->tell)
        return;
    printf("# %8llu ms ", (unsigned long long)loop_now_ms(fleet_loop(s->fleet)) - 1000000);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    puts("");
}

void __attribute__((format(printf, 2, 3))) schedule_broken(struct schedule *s, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!s->failed) {
        diag("schedule %llu, %llu ms: %s", (unsigned long long)s->number,
             (unsigned long long)loop_now_ms(fleet_loop(s->fleet)) - 1000000, text);
        diag("its story: tests/unit/proxy/fleet_test --tell %llu --kinds %u", (unsigned long long)s->number, s->kinds);
    }
    s->failed = true;
}

/* ---- truth ---- */

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct gvr schedule_gvr(size_t i)
{
    return (struct gvr){slice_str(things[i].group), slice_str(things[i].version), slice_str(things[i].resource)};
}

static void note_heard(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        for (unsigned j = 0; j < s->nodes; j++) {
            uint64_t up = fleet_proxy_up(s->fleet, i), own = fleet_server_up(s->fleet, i),
                     other = fleet_server_up(s->fleet, j);

            if (s->mute[j])
                other = min_of(other, fleet_proxy_up(s->fleet, j));
            s->heard[i][j] = up > 0 && (s->heard[i][j] || (up > HEARD_MS && own > HEARD_MS && other > HEARD_MS));
        }
}

/* Whoever lies of what he serves loses his own, here and elsewhere, until he was asked again. */
bool schedule_believed(struct schedule *s, unsigned node)
{
    return !s->lies[node] && (s->lied_ms[node] == 0 || loop_now_ms(fleet_loop(s->fleet)) > s->lied_ms[node] + KNOWN_MS);
}

bool schedule_etcd_troubled(struct schedule *s)
{
    return s->etcd_ms > 0 && loop_now_ms(fleet_loop(s->fleet)) <= s->etcd_ms + KNOWN_MS;
}

/* Whether a node has another's address, which both have been there for so long to say and to hear. */
static bool addressed(struct schedule *s, uint64_t both_up)
{
    if (!s->only_etcd || !schedule_etcd_troubled(s))
        return true;
    return !s->lost && both_up > loop_now_ms(fleet_loop(s->fleet)) - s->etcd_since_ms + KNOWN_MS;
}

/* For how long nothing has kept a node from hearing of another and from reaching it. That a path is whole again is
 * found by trying, with pauses. */
uint64_t schedule_in_touch(struct schedule *s, unsigned from, unsigned to)
{
    uint64_t near = min_of(fleet_server_up(s->fleet, from), fleet_proxy_up(s->fleet, from)),
             far = min_of(fleet_server_up(s->fleet, to), fleet_proxy_up(s->fleet, to));

    far -= min_of(far, s->settles_ms[to]);
    return fleet_path_up(s->fleet, from, to) > KNOWN_MS && addressed(s, min_of(near, far)) ? min_of(near, far) : 0;
}

/* How long what changes may take to be known: seconds where all answer at once, else what an interval takes. */
uint64_t schedule_patience(struct schedule *s)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));

    if (s->deaf_ms > 0)
        return DEAF_MS;
    return now > s->slow_ms + KNOWN_MS ? CONVERGED_MS : KNOWN_MS;
}

/* Its Lease is not renewed, nor was for long enough, or has not been again for long enough, to be sure of anything. */
bool schedule_may_have_lapsed(struct schedule *s, unsigned node)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));

    return (s->unrenewed_ms[node] > 0 && now > s->silent_ms[node] + UNRENEWED_MS) ||
           (s->renewed_ms[node] > 0 && now <= s->renewed_ms[node] + RENEWED_MS + schedule_patience(s));
}

/* Its Lease has been silent for so long that only its answers keep it. */
bool schedule_may_be_forgotten(struct schedule *s, unsigned node)
{
    return s->unrenewed_ms[node] > 0 && loop_now_ms(fleet_loop(s->fleet)) > s->silent_ms[node] + FORGOTTEN_MS;
}

static void note_met(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        for (unsigned j = 0; j < s->nodes; j++) {
            bool up = fleet_proxy_up(s->fleet, i) > 0, near = schedule_in_touch(s, i, j) > schedule_patience(s);

            s->met[i][j] = up && (s->met[i][j] || (schedule_believed(s, j) && near));
            s->told[i][j] = up && (s->told[i][j] || near);
        }
}

void schedule_withdraw(struct schedule *s, unsigned node)
{
    for (unsigned i = 0; i < s->nodes; i++)
        s->told[i][node] = false;
}

void schedule_note(struct schedule *s)
{
    note_heard(s);
    note_met(s);
}

/*
 * Of a server that is away somebody has to have said what it has: it itself, or the APIServices, which older servers
 * delete; and these only of one that was seen to be another process than the one that was read.
 */
static bool must_be_known(struct schedule *s, const struct fleet_answer *a, unsigned away)
{
    uint64_t bound = loop_now_ms(fleet_loop(s->fleet)) - a->asked_ms + schedule_patience(s);

    return s->heard[a->node][away] && s->deaf_ms == 0 && (away == a->node || !schedule_may_be_forgotten(s, away)) &&
           (s->met[a->node][away] || (!s->keeps_holder[away] && fleet_registered(s->fleet, &a->gvr) > bound));
}

/* Whether a node whose own server is away, and cannot tell it anything, knows another well enough to ask it instead. */
static bool takes_over(struct schedule *s, unsigned node, unsigned other, uint64_t bound)
{
    uint64_t up = min_of(fleet_server_up(s->fleet, other), fleet_proxy_up(s->fleet, other));

    return s->kinds > 17 && fleet_server_up(s->fleet, node) == 0 && s->met[node][other] && s->told[node][other] &&
           !schedule_etcd_troubled(s) && s->lied_ms[other] == 0 &&
           min_of(up, fleet_path_up(s->fleet, node, other)) > bound;
}

static void judge_404(struct schedule *s, const struct fleet_answer *a)
{
    for (unsigned i = 0; i < s->nodes; i++) {
        bool away = fleet_server_up(s->fleet, i) == 0;

        if (!fleet_has(s->fleet, i, &a->gvr) || s->started_ms[i] > a->asked_ms || s->lied_ms[i] > 0 ||
            !schedule_believed(s, a->node))
            continue;
        if (away ? must_be_known(s, a, i)
                 : schedule_in_touch(s, a->node, i) > schedule_patience(s) ||
                       takes_over(s, a->node, i, schedule_patience(s)))
            schedule_broken(s, "404 at node %u for %.*s/%.*s %.*s, which node %u has%s", a->node, (int)a->gvr.group.n,
                            a->gvr.group.p, (int)a->gvr.version.n, a->gvr.version.p, (int)a->gvr.resource.n,
                            a->gvr.resource.p, i, away ? " (it is away)" : "");
    }
}

void schedule_judge_documents(struct schedule *s)
{
    if (s->deaf_ms > 0 || s->short_of_memory)
        return;
    for (unsigned node = 0; node < s->nodes; node++)
        for (unsigned i = 0; i < s->nodes; i++)
            for (size_t k = 0; s->met[node][i] && s->lied_ms[i] == 0 && schedule_believed(s, node) && k < N_THINGS;
                 k++) {
                struct gvr g = schedule_gvr(k);

                if (!fleet_has(s->fleet, i, &g))
                    continue;
                s->listed++;
                if (!fleet_lists(s->fleet, node, &g))
                    schedule_broken(s, "node %u does not list %s/%s %s, which node %u has", node, things[k].group,
                                    things[k].version, things[k].resource, i);
            }
}

/* Whether an answer could be had all the time, from a server that was known. */
static bool answerable(struct schedule *s, const struct fleet_answer *a)
{
    uint64_t bound = loop_now_ms(fleet_loop(s->fleet)) - a->asked_ms + schedule_patience(s);

    for (unsigned i = 0; i < s->nodes; i++)
        if (fleet_has(s->fleet, i, &a->gvr) && schedule_believed(s, i) && schedule_believed(s, a->node) &&
            (i == a->node ? min_of(fleet_server_up(s->fleet, i), fleet_proxy_up(s->fleet, i))
                          : schedule_in_touch(s, a->node, i)) > bound)
            return true;
    for (unsigned i = 0; i < s->nodes; i++)
        if (i != a->node && fleet_has(s->fleet, i, &a->gvr) && schedule_believed(s, a->node) &&
            takes_over(s, a->node, i, bound))
            return true;
    return false;
}

/* A server that answers nothing holds what it is given, until it is known for that. */
static bool may_be_stuck(struct schedule *s, const struct fleet_answer *a)
{
    for (unsigned i = 0; i < s->nodes; i++)
        if (s->hung_ms[i] > 0 && s->hung_ms[i] + STUCK_MS > a->asked_ms &&
            (s->woke_ms[i] == 0 || s->woke_ms[i] >= a->asked_ms))
            return true;
    return false;
}

bool schedule_haunted(struct schedule *s)
{
    return s->ghost_ms > 0 && loop_now_ms(fleet_loop(s->fleet)) <= s->ghost_ms + GHOST_MS;
}

/* Whether its server was up when another's went. Else it may have come back as another and gone again, for all it
 * knows. */
static bool has_seen_it_go(struct schedule *s, unsigned node, unsigned other)
{
    return fleet_server_up(s->fleet, node) > fleet_server_away(s->fleet, other);
}

/* Whether only the node's own server is away, and all others know who there is and what each serves. Who has lapsed is
 * not asked for what nobody is known to have (docs/internals/route.md). */
static bool others_know(struct schedule *s, const struct fleet_answer *a)
{
    uint64_t bound = loop_now_ms(fleet_loop(s->fleet)) - a->asked_ms + schedule_patience(s);

    if (s->kinds <= 18 || s->deaf_ms > 0 || s->short_of_memory || schedule_haunted(s) || schedule_etcd_troubled(s) ||
        fleet_quiet(s->fleet) <= bound || may_be_stuck(s, a) || s->lied_ms[a->node] > 0)
        return false;
    for (unsigned i = 0; i < s->nodes; i++) {
        if (i == a->node)
            continue;
        if (!takes_over(s, a->node, i, bound) || !s->met[i][a->node] || !has_seen_it_go(s, i, a->node) ||
            !fleet_knows_all(s->fleet, i) || schedule_may_have_lapsed(s, i))
            return false;
        for (unsigned j = 0; j < s->nodes; j++)
            if (j != i && j != a->node && (!s->met[i][j] || schedule_in_touch(s, i, j) <= bound))
                return false;
    }
    return true;
}

/*
 * When all is well, what nobody has is not there: a client that asks for what is optional is not to wait for it. Nor
 * while only the node's own server is away, which had it not.
 */
static void judge_missing(struct schedule *s, const struct fleet_answer *a)
{
    bool away = !s->settled && others_know(s, a);

    for (unsigned i = 0; i < s->nodes; i++)
        if (fleet_has(s->fleet, i, &a->gvr))
            return;
    s->denied += away;
    if ((s->settled || away) && a->ended && a->status != 404)
        schedule_broken(s, "%u at node %u for %.*s/%.*s, which nobody has: %.*s", a->status, a->node,
                        (int)a->gvr.group.n, a->gvr.group.p, (int)a->gvr.version.n, a->gvr.version.p, (int)a->body.n,
                        a->body.p);
}

/* A write that was under way when somebody went: he may have carried it out, and nobody else is to do it again. */
static bool may_be_lost(struct schedule *s, const struct fleet_answer *a, uint64_t took)
{
    return a->write && fleet_quiet(s->fleet) <= took;
}

static void explain(struct schedule *s, const struct fleet_answer *a)
{
    struct buf out;

    if (!s->tell)
        return;
    buf_init(&out, 1 << 20);
    if (fleet_explain(s->fleet, a->node, &a->gvr, a->write, &out))
        schedule_say(s, "it would be %.*s", (int)buf_len(&out), out.p);
    buf_free(&out);
}

/* Whether servers that have it have different schemas for its group/version; those that lack it may have the latter. */
static bool is_skewed(struct schedule *s, const struct fleet_answer *a)
{
    unsigned first = UINT_MAX;

    for (unsigned i = 0; i < s->nodes; i++) {
        if (!fleet_has_version(s->fleet, i, &a->gvr))
            continue;
        if (first != UINT_MAX && s->schemas[i] != first)
            return true;
        first = s->schemas[i];
    }
    return false;
}

/* The local server, if it has it, but where schemas differ and all is known, one of the newest that have it. */
static void judge_who(struct schedule *s, const struct fleet_answer *a, uint64_t took)
{
    unsigned newest = 0;
    bool has = fleet_has(s->fleet, a->node, &a->gvr), skewed;

    if (a->server < 0 || (s->newest && !s->settled))
        return;
    skewed = s->newest && a->gvr.group.n > 0 && is_skewed(s, a);
    for (unsigned i = 0; skewed && i < s->nodes; i++) {
        if (s->unrenewed_ms[i] > 0)
            return; /* whether it has lapsed */
        if (fleet_has(s->fleet, i, &a->gvr) && s->minor[i] > newest)
            newest = s->minor[i];
    }
    if (newest > 0 && s->minor[a->server] < newest) {
        explain(s, a);
        schedule_broken(s, "server %d, 1.%u, answered at node %u for %.*s/%.*s, of which one of 1.%u means more",
                        a->server, s->minor[a->server], a->node, (int)a->gvr.group.n, a->gvr.group.p,
                        (int)a->gvr.version.n, a->gvr.version.p, newest);
    }
    if (has && (newest == 0 || s->minor[a->node] == newest) && a->server != (int)a->node &&
        min_of(fleet_server_up(s->fleet, a->node), fleet_proxy_up(s->fleet, a->node)) > took + schedule_patience(s) &&
        schedule_patience(s) == CONVERGED_MS && schedule_believed(s, a->node)) {
        explain(s, a);
        schedule_broken(s, "server %d answered for %.*s/%.*s %.*s, which node %u has itself", a->server,
                        (int)a->gvr.group.n, a->gvr.group.p, (int)a->gvr.version.n, a->gvr.version.p,
                        (int)a->gvr.resource.n, a->gvr.resource.p, a->node);
    }
}

void schedule_on_answer(void *arg, const struct fleet_answer *a)
{
    struct schedule *s = arg;
    uint64_t took = loop_now_ms(fleet_loop(s->fleet)) - a->asked_ms;

    schedule_say(s, "  node %u, asked for %.*s/%.*s %.*s %llu ms ago: %u by %d", a->node, (int)a->gvr.group.n,
                 a->gvr.group.p, (int)a->gvr.version.n, a->gvr.version.p, (int)a->gvr.resource.n, a->gvr.resource.p,
                 (unsigned long long)took, a->status, a->server);
    s->asked++;
    s->refused += a->status != 200;
    s->digest = s->digest * 31 + took * 1000 + a->status + (uint64_t)a->server;
    if (customs_owns(a->gvr.group) && s->judge_custom != NULL) {
        s->judge_custom(s, a);
        return;
    }
    if (s->kinds > 20 && a->ended && a->status == 200)
        judge_who(s, a, took);
    if (!a->ended) {
        if (fleet_quiet(s->fleet) > took && !s->short_of_memory)
            schedule_broken(s, "node %u broke off a request though nothing happened", a->node);
    } else if (a->status == 404) {
        judge_404(s, a);
    } else if (a->status == 200) {
        /* What the process before said may still be on its way. */
        if (a->server < 0 ||
            (!fleet_has(s->fleet, (unsigned)a->server, &a->gvr) && s->started_ms[a->server] <= a->asked_ms))
            schedule_broken(s, "node %d answered for what it has not", a->server);
    } else if (answerable(s, a) && !s->short_of_memory && !may_be_lost(s, a, took) && !may_be_stuck(s, a)) {
        schedule_broken(s, "%u at node %u for %.*s/%.*s %.*s, which could be had: %.*s", a->status, a->node,
                        (int)a->gvr.group.n, a->gvr.group.p, (int)a->gvr.version.n, a->gvr.version.p,
                        (int)a->gvr.resource.n, a->gvr.resource.p, (int)a->body.n, a->body.p);
    }
    judge_missing(s, a);
}
