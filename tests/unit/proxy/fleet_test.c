/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control planes that are upgraded, downgraded, cut apart and killed in random order, and clients that ask throughout.
 *
 *   fleet_test [--seed S] [N]    N schedules from number S on; MVPROXY_SCHEDULES is N where it is not given
 *   fleet_test --tell S          one, step by step; what a schedule that fails prints names the whole command
 *   --kinds K                    with the steps and questions that there were once: see KINDS
 *
 * After every answer: no 404 for what a server has that is up or only away; no 503 where an answer could be had, also
 * while the node's own server is away, nor then for what nobody has, if all others say so; nobody answers for what he
 * has not; no write twice; every request ends. Before every step: nothing that a server has, which was read and is up
 * or only away, is missing in a merged document. All the time: of what can be known of each document, each
 * group/version is there, Current or Stale, or is not; documents of who knows the same are the same; custom resources
 * and aggregated APIs are as they are, never as an old document has them. When all is well again: the same document
 * everywhere, of what all have, two seconds after the last change, and 404 for what nobody has.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "unit/proxy/schedule.h"
#include "unit/proxy/schedule_etcd.h"

enum {
    STEPS = 30,
    STEP_MAX_MS = 6000,
    QUESTION_MS = 300,
    LOOK_MS = 500,     /* at documents */
    DAWDLING_MS = 900, /* probes and pulses have little more than a second */
    SOON_MS = 10000,   /* after the last trouble; what comes later is asked for more rarely */
    LAPSING_MS = 8000, /* more, where a Lease is not renewed */
    LEFT_MS = 15000,   /* more, until an mvproxy takes over the Lease that was not renewed for long before */
    RETRIED_MS = 1000, /* more, where only a retry tells that a server is back: nobody asks each second */
    /* Of steps. From 14 on servers have legacy discovery now and then, and delete APIServices; from 15 on there is
       etcd; from 17 on there are two to four nodes, and servers that keep their holder or have no Lease, or that
       of 1.26; from 18 on servers are asked each second whether they are there, as the daemon asks, which is no step;
       from 19 on mvproxies also end as by SIGTERM, are reloaded without peers, servers hang, clocks are set, and Leases
       are forged; from 20 on clients ask for what nobody has; from 21 on servers have subresources that others lack,
       and different schemas, some do not renew their Leases, and custom resources and aggregated APIs come and go, by
       dice of their own, and what documents show is judged all the time. */
    KINDS = 21,
    ALL_HOLD =
        1000, /* schedules from 1 on, whatever is judged; the next ones are of kinds 20, of which millions hold */
    STEP_KINDS = 21,
    CLOCK_SET_S = 30, /* back or forth, at most */
    OPEN_MAX = 30,    /* requests of one mvproxy when all is well: what it watches, and what it asks just now */
    N_SCHEDULES = 200,
};

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- steps ---- */

/* "+scale", if this one is to have that. */
static const char *draw_subresource(struct schedule *s, size_t thing)
{
    const struct thing *t = schedule_thing(thing);
    size_t n = strlen(t->resource);

    for (size_t i = SUB_THINGS; s->kinds > 20 && i < SUB_THINGS + N_SUBS; i++) {
        const struct thing *sub = schedule_thing(i);

        if (strcmp(t->group, sub->group) == 0 && strcmp(t->version, sub->version) == 0 &&
            strncmp(sub->resource, t->resource, n) == 0 && sub->resource[n] == '/')
            return schedule_more_dice(s, 2) == 0 ? "" : sub->resource + n + 1;
    }
    return "";
}

static void draw_release(struct schedule *s, unsigned node)
{
    char *out = s->apis[node];
    size_t n = 0, last = 0;
    const char *sub;

    for (size_t i = 0; i < N_THINGS; i++) {
        if (i > 0 && schedule_dice(s, 4) == 0)
            continue;
        if (n > 0 && strcmp(schedule_thing(i)->group, schedule_thing(last)->group) == 0 &&
            strcmp(schedule_thing(i)->version, schedule_thing(last)->version) == 0)
            n += (size_t)snprintf(out + n, sizeof(s->apis[node]) - n, ",%s", schedule_thing(i)->resource);
        else
            n += (size_t)snprintf(out + n, sizeof(s->apis[node]) - n, "%s%s/%s:%s", n > 0 ? ";" : "",
                                  schedule_thing(i)->group, schedule_thing(i)->version, schedule_thing(i)->resource);
        last = i;
        sub = draw_subresource(s, i);
        if (sub[0] != '\0')
            n += (size_t)snprintf(out + n, sizeof(s->apis[node]) - n, "+%s", sub);
    }
}

/* Hashes of schemas: a release is in each of its schemas, and a gate, or a patch, may make others of them. */
static const char *const schemas[] = {"24a", "24b", "26a", "26b", "34a", "34b", "35a", "35b"};
enum { VARIANTS = 2 };

static const unsigned minors[] = {24, 26, 34, 35};

static void draw_form(struct schedule *s, unsigned node)
{
    bool legacy = s->kinds > 13 && schedule_dice(s, 3) == 0;

    if (s->kinds <= 13)
        return;
    schedule_say(s, "server %u has %s discovery", node, legacy ? "legacy" : "aggregated");
    s->formed_ms[node] = fleet_server_up(s->fleet, node) > 0 ? loop_now_ms(fleet_loop(s->fleet)) : 0;
    s->legacy[node] = legacy;
    fleet_set_legacy(s->fleet, node, legacy);
    if (s->kinds > 20)
        kube_set_schemas(fleet_server(s->fleet, node), schemas[s->schemas[node]]);
}

static void draw_age(struct schedule *s, unsigned node)
{
    size_t release;
    unsigned minor;

    if (s->kinds <= 16)
        return;
    release = schedule_dice(s, ROWS(minors));
    minor = minors[release];
    s->schemas[node] = (unsigned)release * VARIANTS;
    schedule_say(s, "server %u is 1.%u", node, minor);
    fleet_set_minor(s->fleet, node, minor);
    s->minor[node] = minor;
    s->mute[node] = minor < 26;
    s->settles_ms[node] = minor < 26 ? HEARD_MS : 0;
    s->keeps_holder[node] = minor < 35;
    for (unsigned i = 0; s->mute[node] && i < s->nodes; i++)
        s->heard[i][node] = false;
}

static void pause_renewal(struct schedule *s, unsigned node, bool pause)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));

    if (pause == (s->unrenewed_ms[node] > 0) || s->mute[node])
        return;
    schedule_say(s, "server %u renews its Lease %s", node, pause ? "no more" : "again");
    s->unrenewed_ms[node] = pause ? now : 0;
    if (pause && (s->renewed_ms[node] == 0 || now > s->renewed_ms[node] + RENEWED_MS))
        s->silent_ms[node] = now;
    s->renewed_ms[node] = pause ? 0 : now;
    kube_pause_renewal(fleet_server(s->fleet, node), pause);
}

/* What came with kinds 21. */
static void draw_more(struct schedule *s, unsigned node)
{
    static const char *const cores[] = {"v1:pods,services,configmaps", "v1:pods+resize,services,configmaps"};
    size_t core = schedule_more_dice(s, ROWS(cores));
    uint64_t lag = schedule_more_dice(s, LAG_MAX_MS), load = schedule_more_dice(s, 2) * schedule_more_dice(s, 1500);

    s->unrenewed_ms[node] = s->renewed_ms[node] = 0;
    kube_pause_renewal(fleet_server(s->fleet, node), s->mute[node]);
    s->schemas[node] += (unsigned)schedule_more_dice(s, VARIANTS);
    kube_set_schemas(fleet_server(s->fleet, node), schemas[s->schemas[node]]);
    if (s->newest) /* as real ones; that takes longer */
        kube_untag_schemas(fleet_server(s->fleet, node));
    kube_set_core(fleet_server(s->fleet, node), cores[core]);
    schedule_say(s, "server %u has schemas %s and %s", node, schemas[s->schemas[node]], cores[core]);
    if (s->customs == NULL)
        return;
    schedule_say(s, "server %u reads custom resources %llu ms later, and when they change %llu ms", node,
                 (unsigned long long)load, (unsigned long long)lag);
    fleet_pace_customs(s->fleet, node, lag, load);
    s->load_ms[node] = load;
}

static void note_start(struct schedule *s, unsigned node)
{
    if (s->kinds > 20)
        draw_more(s, node);
    schedule_say(s, "server %u starts with %s", node, s->apis[node]);
    s->started_ms[node] = loop_now_ms(fleet_loop(s->fleet));
    for (unsigned i = 0; i < s->nodes; i++)
        s->met[i][node] = false;
}

static void toggle_server(struct schedule *s, unsigned node)
{
    bool graceful = schedule_dice(s, 2) == 0, other = schedule_dice(s, 3) > 0;

    if (fleet_server_up(s->fleet, node) > 0) {
        schedule_say(s, "server %u %s", node, graceful ? "stops" : "is killed");
        fleet_stop_server(s->fleet, node, graceful);
        return;
    }
    if (other)
        draw_release(s, node);
    draw_form(s, node);
    draw_age(s, node);
    note_start(s, node);
    if (s->woke_ms[node] == 0)
        s->woke_ms[node] = s->started_ms[node];
    if (s->kinds <= 16 || s->skew_us[node] == 0)
        s->skew_us[node] = (int64_t)schedule_dice(s, 10000000) - 5000000;
    fleet_start_server(s->fleet, node, s->apis[node], s->skew_us[node]);
}

static void toggle_proxy(struct schedule *s, unsigned node)
{
    if (fleet_proxy_up(s->fleet, node) > 0) {
        schedule_say(s, "mvproxy %u is killed", node);
        fleet_kill_proxy(s->fleet, node);
    } else {
        schedule_say(s, "mvproxy %u starts", node);
        fleet_start_proxy(s->fleet, node);
    }
}

static void toggle_path(struct schedule *s, unsigned from, unsigned to)
{
    bool cut = fleet_path_up(s->fleet, from, to) > 0;

    schedule_say(s, "the path from %u to %u is %s", from, to, cut ? "cut" : "whole again");
    fleet_cut(s->fleet, from, to, cut);
}

static void toggle_lie(struct schedule *s, unsigned node)
{
    static const char *const lies[] = {
        "",
        "{",
        "null",
        "[]",
        "{\"kind\":\"APIGroupDiscoveryList\",\"items\":7}",
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[]}",
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
        "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v2\",\"resources\":[{\"resource\":\"jobs\","
        "\"responseKind\":{\"group\":\"batch\",\"version\":\"v2\",\"kind\":\"Job\"},\"scope\":\"Namespaced\","
        "\"singularResource\":\"job\",\"verbs\":[\"get\",\"delete\"]}],\"freshness\":\"Current\"}]}]}",
    };
    const char *lie = s->lies[node] ? NULL : lies[schedule_dice(s, ROWS(lies))];

    schedule_say(s, "server %u says that it serves %s", node, lie == NULL ? "what it does" : lie);
    s->lies[node] = lie != NULL;
    s->lied_ms[node] = loop_now_ms(fleet_loop(s->fleet));
    kube_set_garbage(fleet_server(s->fleet, node), lie);
}

static void toggle_hang(struct schedule *s, unsigned node)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));
    bool hangs = s->hung_ms[node] > 0 && s->woke_ms[node] == 0;

    if (!hangs && fleet_server_up(s->fleet, node) == 0)
        return;
    schedule_say(s, "server %u %s", node, hangs ? "runs again" : "hangs");
    if (!hangs) {
        s->hung_ms[node] = now;
        if (s->unrenewed_ms[node] == 0 && (s->renewed_ms[node] == 0 || now > s->renewed_ms[node] + RENEWED_MS))
            s->silent_ms[node] = now;
    }
    s->woke_ms[node] = hangs ? now : 0;
    s->unrenewed_ms[node] = 0;
    s->renewed_ms[node] = hangs && s->kinds > 20 ? now : 0;
    if (s->kinds > 20)
        kube_pause_renewal(fleet_server(s->fleet, node), s->mute[node]);
    fleet_hang_server(s->fleet, node, !hangs);
}

static void set_clock(struct schedule *s, unsigned node)
{
    s->skew_us[node] = (int64_t)schedule_dice(s, 2 * CLOCK_SET_S * 1000000ull) - CLOCK_SET_S * 1000000ll;
    schedule_say(s, "the clock of server %u is off by %lld ms", node, (long long)s->skew_us[node] / 1000);
    kube_set_skew(fleet_server(s->fleet, node), s->skew_us[node]);
}

static void toggle_peers(struct schedule *s, unsigned node)
{
    bool on = fleet_proxy_up(s->fleet, node) == 0;

    schedule_say(s, "mvproxy %u reloads with%s peers", node, on ? "" : "out");
    schedule_withdraw(s, node);
    fleet_set_peers(s->fleet, node, on);
    schedule_note(s); /* what it knew of others is no longer expected of requests that it has in hand */
}

/* By whoever may write Leases: a server that is not there, or another tag in the Lease of one that is. */
static void forge(struct schedule *s, unsigned node)
{
    char name[SERVER_ID_BYTES], hostname[16], holder[100], address[32], tag[20];
    uint64_t ghost = schedule_dice(s, 3), number = schedule_dice(s, 1000);
    struct kube_lease l = {.name = name,
                           .hostname = hostname,
                           .holder = holder,
                           .address = address,
                           .renew_us = clock_wall_us(),
                           .duration_s = 3600};
    struct arena *a = kube_arena();
    struct lease real;

    (void)snprintf(hostname, sizeof(hostname), "ghost-%u", (unsigned)ghost);
    (void)snprintf(address, sizeof(address), "10.0.9.%u:6443", (unsigned)ghost);
    (void)snprintf(tag, sizeof(tag), "forged-%u", (unsigned)number);
    (void)server_id_from_hostname(slice_str(hostname), name);
    (void)snprintf(holder, sizeof(holder), "%s_%u", name, (unsigned)number);
    if (schedule_dice(s, 2) == 0 &&
        kube_get_lease(fleet_store(s->fleet), kube_id(fleet_server(s->fleet, node)), a, &real) &&
        real.advertise.n > 0) {
        l.tag = tag;
        l.renew_us = real.renew_us;
        (void)snprintf(name, sizeof(name), "%s", kube_id(fleet_server(s->fleet, node)));
        (void)snprintf(hostname, sizeof(hostname), "cp-%u", node);
        (void)snprintf(holder, sizeof(holder), "%.*s", (int)real.holder.n, real.holder.p);
        (void)snprintf(address, sizeof(address), "%.*s", (int)real.advertise.n, real.advertise.p);
    }
    /* A watch that has fallen silent does not show it: who follows that one sees it, as a server that has just come,
       once the watch is taken for dead, and forgets it as long after that as others after now. */
    if (l.tag == NULL)
        s->ghost_ms = s->deaf_ms > 0 ? s->deaf_ms + DEAF_MS : loop_now_ms(fleet_loop(s->fleet));
    schedule_say(s, "somebody writes a Lease of %s at %s, with tag %s", hostname, address, l.tag == NULL ? "" : l.tag);
    kube_put_lease(fleet_store(s->fleet), &l);
    arena_free(a);
}

/* Those from 19 on. */
static void another_step(struct schedule *s, unsigned kind, unsigned node)
{
    switch (s->kinds > 18 ? kind : 0) {
    case 16:
        schedule_say(s, "mvproxy %u stops", node);
        schedule_withdraw(s, node);
        fleet_stop_proxy(s->fleet, node);
        break;
    case 17:
        toggle_hang(s, node);
        break;
    case 18:
        set_clock(s, node);
        break;
    case 19:
        toggle_peers(s, node);
        break;
    case 20:
        forge(s, node);
        break;
    }
}

static void define_something(struct schedule *s, size_t which)
{
    bool exists = !customs_exists(s->customs, which);

    schedule_say(s, "%s of %s %s", customs_known(which)->resource, customs_known(which)->group,
                 exists ? "are defined" : "are deleted");
    customs_set(s->customs, which, exists);
}

/* In addition, of kinds 21. */
static void one_more_step(struct schedule *s)
{
    unsigned node;

    if (s->customs != NULL && schedule_more_dice(s, 4) == 0)
        define_something(s, schedule_more_dice(s, CUSTOMS));
    if (schedule_more_dice(s, 10) > 0)
        return;
    node = (unsigned)schedule_more_dice(s, s->nodes);
    if (fleet_server_up(s->fleet, node) > 0)
        pause_renewal(s, node, s->unrenewed_ms[node] == 0);
}

static void step(struct schedule *s)
{
    unsigned node = (unsigned)schedule_dice(s, s->nodes), kind;

    schedule_note(s);
    schedule_judge_documents(s);
    schedule_judge_shown(s);
    if (s->kinds > 20)
        one_more_step(s);
    kind = (unsigned)schedule_dice(s, s->kinds > 18 ? STEP_KINDS : min_of(s->kinds, 17));
    switch (kind) {
    case 0:
    case 1:
    case 2:
    case 3:
        toggle_server(s, node);
        break;
    case 4:
    case 5:
        toggle_proxy(s, node);
        break;
    case 6:
        toggle_path(s, node, (unsigned)schedule_dice(s, s->nodes));
        break;
    case 7:
        schedule_say(s, "mvproxy %u reloads", node);
        fleet_reload(s->fleet, node);
        break;
    case 8:
        schedule_say(s, "the store is compacted");
        kube_compact(fleet_store(s->fleet));
        break;
    case 9:
        schedule_say(s, "server %u takes another time to answer", node);
        kube_sim(fleet_server(s->fleet, node))->delay_ms = schedule_dice(s, 2) == 0 ? 2 : schedule_dice(s, 1500);
        break;
    case 10:
        toggle_lie(s, node);
        break;
    case 11:
        if (s->number % 4 != 1)
            break;
        schedule_say(s, "soon an allocation fails");
        s->short_of_memory = true;
        mem_fail_nth(1 + schedule_dice(s, 3000));
        s->slow_ms = loop_now_ms(fleet_loop(s->fleet)) + STEP_MAX_MS;
        break;
    case 12:
        /* It takes as long as five other schedules to be sure that all has been found out. */
        if (s->number % (s->kinds > 13 ? 32 : 8) != 0)
            break;
        schedule_say(s, "watches fall silent");
        kube_deafen(fleet_store(s->fleet));
        s->deaf_ms = loop_now_ms(fleet_loop(s->fleet));
        break;
    case 13:
        draw_form(s, node);
        break;
    case 14:
        if (fleet_etcd(s->fleet) != NULL)
            schedule_trouble_etcd(s, node);
        break;
    case 15:
        schedule_say(s, "server %u sends events late", node);
        kube_sim(fleet_server(s->fleet, node))->late_ms = schedule_draw_delay(s);
        break;
    default:
        another_step(s, kind, node);
        break;
    }
}

static uint64_t draw_thing(struct schedule *s)
{
    bool nothing = s->kinds > 19 && schedule_dice(s, 4) == 0;
    size_t thing = nothing ? N_THINGS + schedule_dice(s, N_NOTHINGS) : schedule_dice(s, N_THINGS);

    if (s->kinds > 20 && schedule_more_dice(s, 4) == 0)
        return SUB_THINGS + schedule_more_dice(s, N_SUBS + (s->customs != NULL ? CUSTOMS : 0));
    return thing;
}

static void note_slow(struct schedule *s)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));

    for (unsigned i = 0; i < s->nodes; i++) {
        const struct sim_server *sim = kube_sim(fleet_server(s->fleet, i));

        if (sim->delay_ms > 100 || sim->late_ms > 0)
            s->slow_ms = now;
        if (sim->delay_ms > DAWDLING_MS)
            s->dawdled_ms[i] = now;
    }
}

/* What is shown, now and then. */
static void look(struct schedule *s)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));

    if (now < s->looked_ms + LOOK_MS)
        return;
    s->looked_ms = now;
    schedule_judge_shown(s);
}

/* Time passes, with a question to somebody every now and then. */
static void ask_now_and_then(struct schedule *s, uint64_t ms, uint64_t pause_ms)
{
    for (uint64_t passed = 0, next; passed < ms; passed += next) {
        note_slow(s);
        if (fleet_etcd(s->fleet) != NULL && schedule_etcd_in_trouble(s))
            schedule_note_etcd(s, true);
        unsigned node = (unsigned)schedule_dice(s, s->nodes);
        struct gvr g = schedule_gvr(draw_thing(s));

        next = 1 + schedule_dice(s, pause_ms);
        if (fleet_proxy_up(s->fleet, node) > 0)
            fleet_ask(s->fleet, node, &g, schedule_dice(s, 3) == 0, schedule_on_answer, s);
        sim_run_ms(fleet_loop(s->fleet), next);
        look(s);
    }
}

static void ask_for_a_while(struct schedule *s, uint64_t ms)
{
    ask_now_and_then(s, ms, QUESTION_MS);
}

static void heal(struct schedule *s)
{
    schedule_judge_shown(s);
    schedule_say(s, "all is well again");
    mem_fail_nth(0);
    note_slow(s); /* what starts here may still be told late */
    for (unsigned i = 0; i < s->nodes; i++) {
        if (s->hung_ms[i] > 0 && s->woke_ms[i] == 0)
            toggle_hang(s, i);
        pause_renewal(s, i, false);
        if (fleet_server_up(s->fleet, i) == 0)
            toggle_server(s, i);
        kube_sim(fleet_server(s->fleet, i))->delay_ms = 2;
        kube_sim(fleet_server(s->fleet, i))->late_ms = 0;
        if (s->lies[i])
            toggle_lie(s, i);
        fleet_start_proxy(s->fleet, i);
        for (unsigned j = 0; j < s->nodes; j++)
            fleet_cut(s->fleet, i, j, false);
    }
    if (fleet_etcd(s->fleet) != NULL)
        schedule_heal_etcd(s);
    if (s->kinds > 20 && schedule_more_dice(s, 4) == 0)
        pause_renewal(s, (unsigned)schedule_more_dice(s, s->nodes), true);
}

/* Then others show what it has as Stale, in the end, and it does not. */
static bool all_renew(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        if (s->unrenewed_ms[i] > 0)
            return false;
    return true;
}

static bool all_alike(struct schedule *s)
{
    for (unsigned i = 1; i < s->nodes; i++)
        if (!slice_eq(fleet_document(s->fleet, i), fleet_document(s->fleet, 0)))
            return false;
    return true;
}

static void ask_for(struct schedule *s, unsigned node, size_t thing)
{
    struct gvr g = schedule_gvr(thing);

    fleet_ask(s->fleet, node, &g, false, schedule_on_answer, s);
}

static void compare(struct schedule *s)
{
    char text[FLEET_DOCUMENT_BYTES];
    bool haunted = s->ghost_ms > 0 && loop_now_ms(fleet_loop(s->fleet)) <= s->ghost_ms + GHOST_MS;
    struct slice first = fleet_document(s->fleet, 0);

    (void)snprintf(text, sizeof(text), "%.*s", (int)first.n, first.p);
    for (unsigned i = 1; i < s->nodes && !haunted && all_renew(s) && !schedule_customs_differ(s); i++)
        if (!slice_eq(fleet_document(s->fleet, i), slice_str(text))) {
            schedule_say(s, "node 0 shows %s", text);
            schedule_say(s, "node %u shows %.*s", i, (int)fleet_document(s->fleet, i).n, fleet_document(s->fleet, i).p);
            schedule_broken(s, "node %u shows another document than node 0", i);
        }
    for (unsigned i = 0; i < s->nodes; i++)
        if (fleet_open(s->fleet, i) > OPEN_MAX)
            schedule_broken(s, "node %u has %zu requests under way", i, fleet_open(s->fleet, i));
    s->settled = s->kinds > 18 && !haunted;
    for (size_t i = 0; i < N_THINGS; i++)
        for (unsigned node = 0; node < s->nodes; node++)
            ask_for(s, node, i);
    for (size_t i = SUB_THINGS; s->kinds > 20 && i < CUSTOM_THINGS; i++)
        ask_for(s, (unsigned)schedule_more_dice(s, s->nodes), i);
    sim_run_ms(fleet_loop(s->fleet), 1000);
    s->settled = false;
}

static void upgrade_one(struct schedule *s)
{
    unsigned node = (unsigned)schedule_dice(s, s->nodes);
    bool silent = s->unrenewed_ms[node] > 0;

    schedule_note(s);
    schedule_judge_shown(s);
    schedule_say(s, "server %u stops", node);
    fleet_stop_server(s->fleet, node, true);
    ask_for_a_while(s, 1 + schedule_dice(s, 10000));
    draw_release(s, node);
    draw_age(s, node);
    note_start(s, node);
    fleet_start_server(s->fleet, node, s->apis[node], s->kinds > 16 ? s->skew_us[node] : 0);
    ask_for_a_while(s, CONVERGED_MS + s->load_ms[node]);
    if (silent && s->mute[node])
        ask_for_a_while(s, LEFT_MS);
    if (s->kinds <= 17 && !all_alike(s))
        ask_for_a_while(s, RETRIED_MS);
    compare(s);
}

/* Of kinds 21: some schedules have these, some those. */
static void begin_more(struct schedule *s)
{
    s->more_state = s->number * 0x9e3779b97f4a7c15u + 1;
    s->newest = schedule_more_dice(s, 3) == 0;
    if (s->newest)
        fleet_use_newest(s->fleet);
    if (schedule_more_dice(s, 3) > 0)
        return;
    s->customs = fleet_use_customs(s->fleet);
    s->judge_custom = schedule_judge_custom;
    for (size_t i = 0; i < CUSTOMS; i++)
        if (schedule_more_dice(s, 2) == 0)
            define_something(s, i);
}

/* `digest`, if not NULL: of all answers. */
static bool run(uint64_t number, unsigned kinds, bool tell, uint64_t *digest)
{
    struct schedule s = {
        .number = number, .state = number * 2654435761u + 1, .more_state = 1, .kinds = kinds, .nodes = 3, .tell = tell};

    sim_seed(number + 1);
    if (kinds > 16)
        s.nodes = 2 + (unsigned)(number % 3);
    s.fleet = fleet_new(s.nodes);
    if (kinds > 17)
        fleet_probe(s.fleet);
    if (kinds > 13)
        fleet_delete_lacking(s.fleet);
    s.only_etcd = kinds > 14 && number % 3 == 2;
    if (kinds > 14 && number % 3 > 0)
        fleet_use_etcd(s.fleet, !s.only_etcd);
    if (kinds > 20)
        begin_more(&s);
    for (unsigned i = 0; i < s.nodes; i++) {
        draw_release(&s, i);
        if (i == 0 || schedule_dice(&s, 3) > 0)
            toggle_server(&s, i);
        fleet_start_proxy(s.fleet, i);
    }
    for (unsigned i = 0; i < STEPS && !s.failed; i++) {
        ask_for_a_while(&s, schedule_dice(&s, STEP_MAX_MS));
        step(&s);
    }
    heal(&s);
    ask_for_a_while(&s, SOON_MS);
    ask_now_and_then(&s, s.deaf_ms > 0 ? DEAF_MS - SOON_MS : KNOWN_MS - SOON_MS, 10 * QUESTION_MS);
    s.deaf_ms = 0;
    if (!all_renew(&s))
        ask_now_and_then(&s, LAPSING_MS, 10 * QUESTION_MS);
    compare(&s);
    upgrade_one(&s);
    if (fleet_free(s.fleet) > 0)
        schedule_broken(&s, "see above");
    if (tell)
        diag("%u questions, %u not answered with 200, %u of nothing while a server is away; documents: %u lines, %u "
             "group/versions, %u whole, %u pairs",
             s.asked, s.refused, s.denied, s.listed, s.shown, s.whole, s.same);
    if (digest != NULL)
        *digest = s.digest;
    return !s.failed;
}

/* What each of these showed when it was first told. */
static void was_found(void)
{
    static const struct {
        uint64_t number;
        unsigned kinds;
        const char *what;
    } found[] = {
        {3, 10, "a peer that left before it was read was forgotten at once"},
        {7, 10, "the local server was back for two seconds before anybody looked what it serves"},
        {307, 10, "a peer that left was judged by the document of the process before"},
        {23, 10, "an mvproxy that started again was found by trying"},
        {7770, 13, "a peer that came and left while nobody looked was judged by what it was before"},
        {2175, 10, "what came while the Leases could not be followed was 404 until they were"},
        {45, 16, "legacy versions that changed places had the tag of before"},
        {8537, 18, "without memory to read a 404 in, it was passed on unread"},
        {2548, 18, "a request that a peer took with it when it died was not another's"},
        {1247717, 18, "a tag that an older Lease of the same server had said was no news"},
        {585, 19, "Leases that nobody renews any more were taken for a dead watch"},
        {3000834, 19, "the later Lease of a server was held on to when its clock was set back"},
        {3003428, 19, "where a peer is that came back was asked of who cannot hear of it"},
        {3102308, 19, "a peer that came back while the local server was away was not asked in its place"},
        {4073393, 19, "what was registered in the millisecond of a question was to be known by all"},
        {4033351, 19, "what the local server serves was not read again when peers were enabled"},
        {4089610, 19, "a peer that came back was not asked where a live one was that could not be reached"},
        {4001259, 19, "an address in a Lease of 1.24 did not count while 1.26 had been there with its clock ahead"},
        {4156512, 19, "the Lease of nobody was seen only when a silent watch was taken for dead"},
        {4187508, 19, "the first renewal after an upgrade from 1.26 did not say where the server was"},
        {4202314, 19, "what was read of 1.26 was not known any more when its Lease began to count"},
        {4209004, 19, "nor where we had come while 1.26 was there"},
        {4207091, 19, "what an mvproxy said for a server that was away amid a walk was believed of its group/versions"},
        {5140752, 19, "an address in the Lease of 1.26 was forgotten when the other one was listed again"},
        {5158848, 19, "what an mvproxy wrote into the Lease of its server did not say that it was in use"},
        {12511675, 19, "a peer that came back was not asked after a live one whose server was away"},
        {12020231, 19, "nor after a live one whose server hung"},
        {12597713, 19, "a second 404 was final though what the server serves could not be read in between"},
        {12097254, 19, "an address in the Lease of 1.26 was not news before its next renewal"},
        {18526728, 19, "that address was given up for an earlier renewal of the other Lease"},
        {16037359, 19, "the first renewal of a process that had been read looked like a restart"},
        {20073924, 19, "a Lease of which one server had still told late was to be known at once"},
        {31000558, 20, "what was given up at a slow local server could not go back when the peer died"},
        {1340, 20, "what was given up there had nobody else to go to"},
        {48523562, 20, "a peer that was not ready was not asked again if the other one was dead"},
        {47001114, 20, "a Lease that an upgrade had just created seemed left behind, by a clock that was set back"},
        {50589035, 20, "who could not be read or heard of had become another, and a peer denied in his place"},
        {53073835, 20, "the local server's 404 counted for who had waited while a peer came that serves it"},
        {53077919, 20, "a slow local server came and went, and took with it what it would have answered"},
        {71000139, 21, "who was taken back to 1.26 was Stale where its new Lease was seen before its old one went"},
        {72000734, 21, "or where its old one did not go, and the new one was renewed once"},
    };

    for (size_t i = 0; i < ROWS(found); i++)
        ok(run(found[i].number, found[i].kinds, false, NULL), "%s", found[i].what);
}

/* Link-time optimisation does not heed --wrap: then random numbers are not the seed's, and no schedule is told twice.
 */
static void check_seed(uint64_t number, unsigned kinds)
{
    uint64_t first = 0, second = 0, calls = mem_calls(), again;

    (void)run(number, kinds, false, &first);
    again = mem_calls();
    (void)run(number, kinds, false, &second);
    if (first != second || again - calls != mem_calls() - again)
        tap_bail("a schedule is another the second time: built with -flto?");
}

int main(int argc, char **argv)
{
    const char *env = getenv("MVPROXY_SCHEDULES");
    uint64_t first = 1, n = env != NULL ? strtoull(env, NULL, 10) : N_SCHEDULES, held = 0, digest, all = 0;
    unsigned kinds = KINDS;
    bool tell = false;

    for (int i = 1; i < argc; i++) {
        tell |= strcmp(argv[i], "--tell") == 0;
        if (strcmp(argv[i], "--kinds") == 0 && i + 1 < argc)
            kinds = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (argv[i][0] == '-' && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else
            n = strtoull(argv[i], NULL, 10);
    }
    n = tell ? 1 : n;
    log_set_verbosity(tell ? 2 : -1);
    if (!tell)
        check_seed(first, kinds);
    if (argc == 1)
        was_found();
    for (uint64_t i = 0; i < n; i++) {
        held += run(first + i, argc == 1 && i >= ALL_HOLD ? 20 : kinds, tell, &digest);
        all = all * 31 + digest;
    }
    /* For who compares builds: the same program gives the same answers, however fast it is. */
    diag("digest of all answers: %016llx", (unsigned long long)all);
    is_u64(held, n, "schedules %llu to %llu", (unsigned long long)first, (unsigned long long)(first + n - 1));
    return tap_end();
}
