/* SPDX-License-Identifier: Apache-2.0 */
/* What an upgrade takes away, and who asks for it. */
#include "proxy/insight.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/metric.h"
#include "kube/disco.h"
#include "proxy/askers.h"

#include <stdio.h>

#include "lib/disco_text.h"
#include "lib/tap.h"

#define HOUR_US ((uint64_t)3600 * 1000000)

static const struct gvr thing = {{"g", 1}, {"v1", 2}, {"things", 6}};

static struct asker seen[LIMIT_ASKERS + 1];
static size_t n_seen;

static void keep(const struct asker *a, void *arg)
{
    (void)arg;
    seen[n_seen++] = *a;
}

static size_t look(const struct insight *i)
{
    n_seen = 0;
    askers_each(insight_askers(i), &thing, keep, NULL);
    return n_seen;
}

static void note(struct insight *i, const char *agent, const char *user)
{
    insight_note(i, INSIGHT_OLD, &thing,
                 &(struct asker_who){slice_str(agent), slice_str(user), SLICE_LIT("192.0.2.1")});
}

/* A server of this release (0: not known) that has the resource or has not. */
struct server {
    uint64_t release;
    bool has;
};

static struct disco *disco_with(bool it)
{
    static const char group[] =
        "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"things\","
        "\"responseKind\":{\"group\":\"g\",\"version\":\"v1\",\"kind\":\"T\"},\"scope\":\"Cluster\","
        "\"singularResource\":"
        "\"thing\",\"verbs\":[\"list\"]}]}]}";

    return disco_of_items("", it ? group : "");
}

static enum served_life life_of_peers = SERVED_LIVE;

static struct served *snapshot(const struct server servers[3], uint64_t generation, struct slice excluded)
{
    struct disco *with = disco_with(true), *without = disco_with(false);
    struct served_peer peers[3] = {{.id = "b"}, {.id = "c"}, {.id = "silent", .release = 99, .life = SERVED_LAPSED}};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = true,
                              .local_id = "a",
                              .local = servers[0].has ? with : without,
                              .local_release = servers[0].release,
                              .peers = peers,
                              .n_peers = 3,
                              .excluded = &excluded,
                              .n_excluded = excluded.n > 0,
                              .generation = generation};
    struct served *s;

    for (size_t i = 0; i < 2; i++) {
        peers[i].discovery_known = true;
        peers[i].life = life_of_peers;
        peers[i].release = servers[i + 1].release;
        peers[i].disco = servers[i + 1].has ? with : without;
    }
    s = served_new(&in);
    if (s == NULL)
        tap_bail("out of memory");
    disco_unref(with);
    disco_unref(without);
    return s;
}

static void test_kinds(void)
{
    static const struct {
        const char *name;
        struct server servers[3];
        enum insight_kind kind;
    } rows[] = {
        {"all have it", {{33, true}, {34, true}, {34, true}}, INSIGHT_EVEN},
        {"nobody has it", {{33, false}, {34, false}, {34, false}}, INSIGHT_EVEN},
        {"the old one", {{33, true}, {34, false}, {34, false}}, INSIGHT_OLD},
        {"both but the newest", {{33, true}, {34, true}, {35, false}}, INSIGHT_OLD},
        {"the new ones", {{33, false}, {34, true}, {34, true}}, INSIGHT_NEW},
        {"the oldest and the newest", {{33, true}, {34, false}, {35, true}}, INSIGHT_SOME},
        {"the middle one goes", {{33, false}, {34, true}, {35, false}}, INSIGHT_OLD},
        {"of one release", {{34, true}, {34, false}, {34, true}}, INSIGHT_SOME},
        {"of one that is not known", {{0, true}, {34, false}, {34, false}}, INSIGHT_SOME},
        {"one of the newest", {{33, false}, {34, true}, {34, false}}, INSIGHT_NEW},
    };
    struct served *s;

    for (size_t i = 0; i < ROWS(rows); i++) {
        s = snapshot(rows[i].servers, 1, SLICE_NONE);
        is_str(insight_kind_name(insight_kind(s, &thing)), insight_kind_name(rows[i].kind), "%s", rows[i].name);
        served_unref(s);
    }
    life_of_peers = SERVED_LAPSED;
    s = snapshot(rows[2].servers, 1, SLICE_NONE);
    is_int(insight_kind(s, &thing), INSIGHT_OLD, "the others are away for a moment");
    served_unref(s);
    life_of_peers = SERVED_LIVE;
    s = snapshot(rows[2].servers, 1, SLICE_LIT("g/v1"));
    is_int(insight_kind(s, &thing), INSIGHT_EVEN, "custom resources are everybody's");
    served_unref(s);
}

/* What is remembered is forgotten with the snapshot. */
static void test_memo(void)
{
    static const struct server skewed[] = {{33, true}, {34, false}, {34, false}},
                               even[] = {{34, true}, {34, true}, {34, true}};
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);
    struct served *before = snapshot(skewed, 1, SLICE_NONE), *after = snapshot(even, 2, SLICE_NONE);

    for (unsigned turn = 0; turn < 2; turn++) {
        is_int(insight_look(i, before, &thing), INSIGHT_OLD, "before, turn %u", turn);
        is_int(insight_look(i, after, &thing), INSIGHT_EVEN, "after, turn %u", turn);
    }
    served_unref(before);
    served_unref(after);
    insight_free(i);
    metrics_free(m);
}

static void test_askers(void)
{
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);
    uint64_t now = 1000 * HOUR_US;

    clock_fake(now, 0);
    note(i, "kubectl/v1.30.0 (linux/amd64)", "alice");
    note(i, "kubectl/v1.30.0 (darwin/arm64)", "alice");
    note(i, "operator", "");
    is_u64(look(i), 2, "by product and user");
    is_slice(seen[0].who.user_agent, "operator", "who asked last comes first");
    is_slice(seen[1].who.user_agent, "kubectl/v1.30.0", "the product alone");
    is_u64(seen[1].asked.requests, 2, "each request");
    clock_fake(now + 5 * HOUR_US, 0);
    note(i, "kubectl/v1.30.0", "alice");
    (void)look(i);
    is_slice(seen[0].who.user, "alice", "she asked again");
    is_u64(seen[0].asked.requests, 3, "in a day");
    is_u64(seen[0].asked.requests_lately, 1, "in this hour and the one before");
    is_u64(seen[1].asked.requests_lately, 0, "the other one is silent");
    clock_fake(now + 25 * HOUR_US, 0);
    is_u64(look(i), 1, "who is silent for a day is not told of");
    is_u64(seen[0].asked.requests, 1, "nor what is older");
    for (unsigned k = 0; k < LIMIT_ASKERS + 7; k++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "agent-%u", k);
        note(i, name, "flood\nof \"names\"");
    }
    is_u64(look(i), LIMIT_ASKERS, "so many and no more");
    is_u64(askers_forgotten(insight_askers(i)), 9, "and how many were forgotten");
    is_slice(seen[0].who.user, "flood", "one line");
    note(i, "agent-0", "flood\nof \"names\"");
    is_u64(look(i), LIMIT_ASKERS, "who was forgotten asks again");
    is_slice(seen[0].who.user_agent, "agent-0", "and comes first");
    is_u64(seen[0].asked.requests, 1, "as if for the first time");
    insight_free(i);
    metrics_free(m);
    clock_real();
}

/* The address is that of the last request: the same program on another node is no other. */
static void test_address(void)
{
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);
    static const char longest[] = "0123456789012345678901234567890123456789012345678901234567890123456789";
    const char *const from[] = {"192.0.2.1", "2001:db8::1", "", longest};

    for (size_t k = 0; k < ROWS(from); k++) {
        insight_note(i, INSIGHT_OLD, &thing,
                     &(struct asker_who){SLICE_LIT("tool/1"), SLICE_LIT("eve"), slice_str(from[k])});
        is_u64(look(i), 1, "one asker, whatever the address");
        ok(slice_eq(seen[0].who.address, slice_of(from[k], strnlen(from[k], 64))), "last seen at \"%s\"", from[k]);
    }
    insight_free(i);
    metrics_free(m);
}

static void note_of(struct insight *i, enum insight_kind kind, const char *resource, const char *agent)
{
    struct gvr g = {{"g", 1}, {"v1", 2}, slice_str(resource)};

    insight_note(i, kind, &g, &(struct asker_who){slice_str(agent), SLICE_LIT("eve"), SLICE_NONE});
}

static void flood(struct insight *i, enum insight_kind kind, const char *resource)
{
    for (unsigned k = 0; k < 2 * LIMIT_ASKERS; k++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "agent-%u", k);
        note_of(i, kind, resource, name);
    }
}

/* Who asks for what goes stays known, however many ask for other things in however many names. */
static void test_room(void)
{
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);
    struct asked asked;

    clock_fake(1000 * HOUR_US, 0);
    note(i, "important", "alice");
    flood(i, INSIGHT_NEW, "fresh");
    flood(i, INSIGHT_SOME, "switched");
    is_u64(look(i), 1, "who asks for what only new servers have takes no room");
    flood(i, INSIGHT_OLD, "others");
    is_u64(look(i), 1, "nor who asks for another resource that goes");
    is_slice(seen[0].who.user_agent, "important", "it is the same");
    flood(i, INSIGHT_OLD, "things");
    askers_count(insight_askers(i), &thing, &asked);
    is_u64(asked.requests, 1 + 2 * LIMIT_ASKERS, "how often it was asked for stays known");
    is_u64(look(i), LIMIT_ASKERS, "of whom as many are known as there is room for");
    is_slice(seen[LIMIT_ASKERS - 1].who.user_agent, "important", "with her who asked first");
    note_of(i, INSIGHT_OLD, "switched", "x");
    is_u64(look(i), 1, "what was on or off goes now, and brings who asked along: his other names make room");
    is_slice(seen[0].who.user_agent, "important", "not hers");
    clock_fake(1023 * HOUR_US, 0);
    askers_count(insight_askers(i), &thing, &asked);
    is_u64(asked.requests, 1 + 2 * LIMIT_ASKERS, "until the day is over");
    is_u64(asked.requests_lately, 0, "none lately");
    clock_fake(1024 * HOUR_US, 0);
    askers_count(insight_askers(i), &thing, &asked);
    is_u64(asked.requests, 0, "then nobody has asked");
    insight_free(i);
    metrics_free(m);
}

static void ask(struct insight *i, const char *agent, unsigned k, const char *user, const char *address)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "%s-%u", agent, k);
    insight_note(i, INSIGHT_OLD, &thing, &(struct asker_who){slice_str(name), slice_str(user), slice_str(address)});
}

static size_t told(const struct insight *i, const char *agent)
{
    size_t n = 0;

    (void)look(i);
    for (size_t k = 0; k < n_seen; k++)
        n += slice_has_prefix(seen[k].who.user_agent, slice_str(agent)) ? 1 : 0;
    return n;
}

/* Who makes up names takes room from himself alone: he is known by his user, and by his address where he is not. */
static void test_one_in_many_names(void)
{
    static const struct {
        const char *what, *user, *address;
    } floods[] = {{"a user", "eve", "192.0.2.7"},
                  {"a user of a name like an address", "192.0.2.7", "192.0.2.9"},
                  {"an address", "", "192.0.2.9"},
                  {"a Unix socket", "", ""}};

    for (size_t f = 0; f < ROWS(floods); f++) {
        struct metrics *m = metrics_new();
        struct insight *i = insight_new(m);

        for (unsigned k = 0; k < 20; k++) {
            ask(i, "quiet", k, "", "192.0.2.7");
            ask(i, "quiet-user", k, "alice", floods[f].address);
        }
        for (unsigned k = 0; k < 4 * LIMIT_ASKERS; k++)
            ask(i, "flood", k, floods[f].user, floods[f].address);
        is_u64(told(i, "quiet"), 40, "%s: all others are known", floods[f].what);
        is_u64(told(i, "flood"), LIMIT_ASKERS - 40, "%s: has what is left", floods[f].what);
        is_slice(seen[0].who.user_agent, "flood-1999", "%s: his latest", floods[f].what);
        for (unsigned k = 0; k < LIMIT_ASKERS; k++)
            ask(i, "second", k, "mallory", "192.0.2.7");
        is_u64(told(i, "second"), (LIMIT_ASKERS - 40) / 2, "%s: a second one gets as much", floods[f].what);
        is_u64(told(i, "quiet"), 40, "%s: of the first one's", floods[f].what);
        insight_free(i);
        metrics_free(m);
    }
}

/* By token who moves to another address counts there. */
static void test_moves_to_another_address(void)
{
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);

    for (unsigned k = 0; k < LIMIT_ASKERS / 2; k++)
        ask(i, "moved", k, "", "192.0.2.1");
    for (unsigned k = 0; k < LIMIT_ASKERS / 2; k++)
        ask(i, "moved", k, "", "192.0.2.2");
    is_u64(look(i), LIMIT_ASKERS / 2, "from elsewhere, and the same");
    for (unsigned k = 0; k < LIMIT_ASKERS / 2; k++)
        ask(i, "there", k, "", "192.0.2.1");
    is_u64(told(i, "there"), LIMIT_ASKERS / 2, "others come to where they were");
    ask(i, "there", LIMIT_ASKERS, "", "192.0.2.1");
    is_u64(told(i, "there"), LIMIT_ASKERS / 2, "and have most with one more");
    is_u64(told(i, "moved"), LIMIT_ASKERS / 2, "who moved have not");
    insight_free(i);
    metrics_free(m);
}

/* Somebody silent for a day is not told of: he takes no room either. */
static void test_silent(void)
{
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);
    char address[32];

    clock_fake(1000 * HOUR_US, 0);
    for (unsigned k = 0; k < LIMIT_ASKERS; k++) {
        (void)snprintf(address, sizeof(address), "192.0.2.%u", k);
        ask(i, "once", k, "", address);
    }
    clock_fake(1024 * HOUR_US, 0);
    for (unsigned k = 0; k < LIMIT_ASKERS; k++)
        ask(i, "now", k, "eve", "192.0.2.1");
    is_u64(told(i, "now"), LIMIT_ASKERS, "all who ask now are known");
    insight_free(i);
    metrics_free(m);
    clock_real();
}

static void test_resources(void)
{
    struct metrics *m = metrics_new();
    struct insight *i;
    struct asked asked;
    char name[600];

    clock_fake(1000 * HOUR_US, 0);
    i = insight_new(m);
    note(i, "important", "alice");
    for (unsigned k = 0; k < LIMIT_ASKERS_RESOURCES; k++) {
        (void)snprintf(name, sizeof(name), "new-%u", k);
        note_of(i, INSIGHT_NEW, name, "x");
    }
    is_u64(look(i), 1, "as many as there may be");
    ok(!askers_forget_resources(insight_askers(i), INSIGHT_NEW), "none of them is forgotten");
    note_of(i, INSIGHT_NEW, "one more", "x");
    ok(askers_forget_resources(insight_askers(i), INSIGHT_NEW), "one is");
    ok(!askers_forget_resources(insight_askers(i), INSIGHT_OLD), "not of those that go");
    is_u64(askers_forgotten(insight_askers(i)), 1, "with him who asked for it");
    clock_fake(1024 * HOUR_US, 0);
    ok(!askers_forget_resources(insight_askers(i), INSIGHT_NEW), "a day later that is no matter");
    is_u64(askers_since_ms(insight_askers(i)), 24 * HOUR_US / 1000, "a day is looked back");
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    note_of(i, INSIGHT_OLD, name, "x");
    askers_count(insight_askers(i), &(struct gvr){{"g", 1}, {"v1", 2}, slice_str(name)}, &asked);
    is_u64(asked.requests, 0, "no resource has such a name");
    insight_free(i);
    metrics_free(m);
}

/* What is counted in the first hour of the clock, and what is left of names that are too long or are none. */
static void test_edges(void)
{
    struct metrics *m = metrics_new();
    struct insight *i;
    struct asked asked;
    char agent[200];

    clock_fake(HOUR_US / 2, 0);
    i = insight_new(m);
    note(i, "early", "alice");
    is_u64(look(i), 1, "who asks in the first hour is told of");
    is_u64(askers_since_ms(insight_askers(i)), 0, "since now");
    clock_fake(HOUR_US * 3 / 2, 0);
    note(i, "early", "alice");
    is_u64(look(i), 1, "and in the second one");
    is_u64(seen[0].asked.requests, 2, "with both requests");
    is_u64(seen[0].asked.requests_lately, 2, "both of them lately");
    is_u64(askers_since_ms(insight_askers(i)), HOUR_US / 1000, "since an hour ago");
    clock_fake(HOUR_US * 99 / 2, 0);
    note(i, "early", "alice");
    (void)look(i);
    is_u64(seen[0].asked.requests, 1, "and two days later with the last one alone");
    memset(agent, 'x', sizeof(agent) - 1);
    agent[sizeof(agent) - 1] = '\0';
    note(i, agent, agent);
    is_u64(look(i), 2, "somebody with a long name");
    ok(seen[0].who.user_agent.n == 128 && seen[0].who.user.n == 128, "has the beginning of it");
    insight_note(i, INSIGHT_OLD, &(struct gvr){{"g", 1}, {"v1", 2}, {"thi\0ngs", 7}},
                 &(struct asker_who){SLICE_LIT("a"), SLICE_LIT("b"), SLICE_NONE});
    askers_count(insight_askers(i), &(struct gvr){{"g", 1}, {"v1", 2}, {"thi", 3}}, &asked);
    is_u64(asked.requests, 0, "no resource has a name with a NUL, and none is counted for it");
    askers_count(insight_askers(i), &(struct gvr){{"g", 1}, {"v1", 2}, {"thi\0ngs", 7}}, &asked);
    is_u64(asked.requests, 0, "nor for itself");
    insight_free(i);
    metrics_free(m);
    clock_real();
}

/* Without memory for somebody it is not said that nobody asked. */
static void test_memory(void)
{
    struct metrics *m = metrics_new();
    struct insight *i = insight_new(m);
    struct asked asked;
    bool known = false;

    clock_fake(1000 * HOUR_US, 0);
    note_of(i, INSIGHT_OLD, "before", "x"); /* the metric's series aside */
    note(i, "first", "eve");
    for (uint64_t nth = 1; nth < 20; nth++) {
        char name[32];
        struct gvr g = {{"g", 1}, {"v1", 2}, SLICE_NONE};

        (void)snprintf(name, sizeof(name), "r%llu", (unsigned long long)nth);
        g.resource = slice_str(name);
        mem_fail_nth(nth);
        insight_note(i, INSIGHT_SOME, &g, &(struct asker_who){SLICE_LIT("a"), SLICE_LIT("b"), SLICE_NONE});
        mem_fail_nth(0);
        askers_count(insight_askers(i), &g, &asked);
        known = asked.requests == 1;
        ok(known || askers_forget_resources(insight_askers(i), INSIGHT_SOME), "allocation %llu",
           (unsigned long long)nth);
    }
    ok(known, "with memory it is known");
    insight_free(i);
    metrics_free(m);
    clock_real();
}

int main(void)
{
    test_kinds();
    test_memo();
    test_askers();
    test_room();
    test_one_in_many_names();
    test_moves_to_another_address();
    test_silent();
    test_resources();
    test_edges();
    test_memory();
    test_address();
    return tap_end();
}
