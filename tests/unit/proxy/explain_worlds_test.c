/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mvproxyctl explain` predicts is what happens: random requests in random control planes, whose servers differ,
 * are down, cannot be reached or were never read. The row that is explained right before a request, or right after it,
 * is the one that its line in the access log has, and of the server that answered it was not said that it does not
 * answer. tests/e2e/test_ctl.py asks the same of the whole daemon, in fixed
 * worlds that meet every row.
 *
 *   explain_worlds_test [--seed S] [N]    N worlds, from number S on
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "cluster/pulse.h"
#include "lib/tap.h"
#include "proxy/access_log.h"
#include "unit/proxy/schedule.h"

enum {
    WORLDS = 100,
    QUESTIONS = 200, /* in each */
    TROUBLES = 6,
    BEGINNING_MS = 20000,
    TROUBLE_MS = 4000,
    ANSWERED_MS = 100000, /* any request has ended by then */
    EXPLANATION_BYTES = 16 << 10,
    ROW_BYTES = 32,
    HOST_BYTES = 32,
    SERVERS = 4,
    RELEASE_BYTES = 600,
};

/* What explain says. */
struct told {
    char row[ROW_BYTES];
    bool answered;        /* by somebody who is asked */
    bool reached, missed; /* of the peers that are asked and do not answer: there is an answer of 5xx; there is none */
    bool healthy;         /* no peer that is asked is an outlier */
    size_t n;
    struct told_server {
        char host[HOST_BYTES];
        bool answers;
    } servers[SERVERS]; /* the local one first */
};

struct question {
    unsigned node;
    struct gvr gvr;
    bool write;
    uint64_t quiet_ms, logged_quiet_ms; /* since the last trouble, when it was asked and logged */
    uint64_t asked_ms, took_ms;
    struct told before, logged, after;    /* `logged`: as the line was written */
    char seen[ROW_BYTES], by[HOST_BYTES]; /* in the access log; `by` is empty for the local server, or none */
    unsigned status;
    bool own; /* the answer is mvproxy's own */
};

/* The one world that there is at a time: what a wrapped function sees. */
static struct {
    struct fleet *fleet;
    struct schedule dice;
    struct question questions[QUESTIONS];
    size_t asked;
    uint64_t trouble_ms;
} world;

void __wrap_access_log_request(const struct access_log *l, struct exchange *x, const struct reqinfo *info,
                               const struct route *r, const struct request_summary *e, bool from_peer);

static uint64_t now(void)
{
    return loop_now_ms(fleet_loop(world.fleet));
}

static uint64_t quiet(void)
{
    return now() - world.trouble_ms;
}

static uint64_t dice(uint64_t sides)
{
    return schedule_dice(&world.dice, sides);
}

static bool toss(void)
{
    return dice(2) == 0;
}

static void draw_release(char out[RELEASE_BYTES])
{
    const char *group = NULL, *version = NULL;
    size_t n = 0;

    for (size_t i = 0; i < N_THINGS; i++) {
        const struct thing *t = schedule_thing(i);
        bool same = group != NULL && strcmp(t->group, group) == 0 && strcmp(t->version, version) == 0;

        if (i > 0 && dice(3) == 0)
            continue;
        n += (size_t)(same ? snprintf(out + n, RELEASE_BYTES - n, ",%s", t->resource)
                           : snprintf(out + n, RELEASE_BYTES - n, "%s%s/%s:%s", n > 0 ? ";" : "", t->group, t->version,
                                      t->resource));
        group = t->group;
        version = t->version;
    }
}

static void start_server(unsigned node)
{
    char release[RELEASE_BYTES];

    draw_release(release);
    fleet_set_legacy(world.fleet, node, dice(4) == 0);
    fleet_start_server(world.fleet, node, release, 0);
}

static void trouble(void)
{
    unsigned node = (unsigned)dice(fleet_nodes(world.fleet)), other = (unsigned)dice(fleet_nodes(world.fleet));

    switch (dice(5)) {
    case 0:
        if (fleet_server_up(world.fleet, node) > 0)
            fleet_stop_server(world.fleet, node, toss());
        else
            start_server(node);
        break;
    case 1:
        fleet_cut(world.fleet, node, other, toss());
        break;
    case 3:
        fleet_set_peers(world.fleet, node, toss());
        break;
    case 2:
        fleet_kill_proxy(world.fleet, node);
        break;
    default:
        fleet_start_proxy(world.fleet, node);
        break;
    }
}

static void begin_world(uint64_t number)
{
    unsigned nodes = 2 + (unsigned)(number % 3);

    memset(&world, 0, sizeof(world));
    world.dice.state = number * 2654435761u + 1;
    sim_seed(number + 1);
    world.fleet = fleet_new(nodes);
    fleet_probe(world.fleet);
    if (toss())
        fleet_use_etcd(world.fleet, toss());
    for (unsigned i = 0; i < nodes; i++) {
        if (i == 0 || dice(4) > 0)
            start_server(i);
        fleet_start_proxy(world.fleet, i);
    }
    sim_run_ms(fleet_loop(world.fleet), 1 + dice(BEGINNING_MS));
}

static const char *text_of(struct json_object *from, const char *name)
{
    const char *text = json_object_get_string(json_object_object_get(from, name));

    return text == NULL ? "" : text;
}

static bool is_true(struct json_object *from, const char *name)
{
    return json_object_get_boolean(json_object_object_get(from, name)) != 0;
}

static void take_server(struct json_object *from, struct told *t)
{
    if (t->n == SERVERS)
        tap_bail("more servers than there are");
    (void)snprintf(t->servers[t->n].host, HOST_BYTES, "%s", text_of(from, "server"));
    t->servers[t->n++].answers = is_true(from, "answers");
}

static void take_candidate(struct json_object *from, struct told *t)
{
    const char *error = text_of(from, "lastError");
    bool silent = !is_true(from, "answers"), probed = strstr(error, "the mvproxy in front of it answers 5") != NULL;

    take_server(from, t);
    if (text_of(from, "address")[0] == '\0') /* whom nobody can ask any more may yet have an answer for who did */
        t->servers[t->n - 1].answers = true;
    t->healthy = t->healthy && is_true(from, "healthy");
    t->reached = t->reached || (silent && (probed || strstr(error, ": answered 5") != NULL)); /* by a poll */
    t->missed = t->missed || (silent && !probed);
}

static void explain(const struct question *q, struct told *t)
{
    struct json_object *told = NULL, *candidates;
    struct buf out;

    *t = (struct told){.healthy = true};
    buf_init(&out, EXPLANATION_BYTES);
    if (fleet_explain(world.fleet, q->node, &q->gvr, q->write, &out) && buf_append_char(&out, '\0'))
        told = json_tokener_parse(buf_slice(&out).p);
    buf_free(&out);
    if (told == NULL)
        return;
    (void)snprintf(t->row, ROW_BYTES, "%s", text_of(told, "row"));
    t->answered = is_true(told, "answered");
    take_server(json_object_object_get(told, "localServer"), t);
    candidates = json_object_object_get(told, "candidates");
    for (size_t i = 0; i < json_object_array_length(candidates); i++)
        take_candidate(json_object_array_get_idx(candidates, i), t);
    json_object_put(told);
}

/* In place of the line that is written. */
void __wrap_access_log_request(const struct access_log *l, struct exchange *x, const struct reqinfo *info,
                               const struct route *r, const struct request_summary *e, bool from_peer)
{
    size_t number = info->name.n > 1 && info->name.p[0] == 'w' ? strtoul(info->name.p + 1, NULL, 10) : QUESTIONS;
    struct question *q = &world.questions[number < QUESTIONS ? number : 0];

    (void)l, (void)x;
    if (from_peer || number >= QUESTIONS)
        return;
    (void)snprintf(q->seen, ROW_BYTES, "%s", route_row_name(r->row));
    (void)snprintf(q->by, HOST_BYTES, "%s", e->peer == NULL ? "" : e->peer);
    q->status = e->status;
    q->own = e->unavailable;
    q->logged_quiet_ms = quiet();
    q->took_ms = now() - q->asked_ms;
    explain(q, &q->logged);
}

static void on_answer(void *arg, const struct fleet_answer *a)
{
    struct question *q = &world.questions[a->number];

    (void)arg;
    explain(q, &q->after);
}

static void ask(void)
{
    struct question *q = &world.questions[world.asked++];

    q->node = (unsigned)dice(fleet_nodes(world.fleet));
    q->gvr = schedule_gvr(dice(N_THINGS));
    q->write = dice(3) == 0;
    q->quiet_ms = quiet();
    q->asked_ms = now();
    explain(q, &q->before);
    fleet_ask(world.fleet, q->node, &q->gvr, q->write, on_answer, NULL);
}

static bool is_pair(const char *one, const char *other)
{
    return (strcmp(one, "local-failover") == 0 && strcmp(other, "served-locally") == 0) ||
           (strcmp(one, "peer") == 0 && strcmp(other, "peers-failed") == 0);
}

static bool is_news(const struct question *q)
{
    uint64_t quiet_ms = q->quiet_ms < q->logged_quiet_ms ? q->quiet_ms : q->logged_quiet_ms;

    return quiet_ms < PULSE_INTERVAL_MS + PULSE_TIMEOUT_MS;
}

/*
 * Whether "peer" and "peers-failed" are both what was said. Whom explain calls failing may be asked first, and a
 * request that may not be sent again ends there. If nobody answers, the last one decides, and who that is may be
 * chance.
 */
static bool is_chance(const struct told *t)
{
    bool peers = strcmp(t->row, "peer") == 0 || strcmp(t->row, "peers-failed") == 0;

    if (!t->answered)
        return peers && t->reached && t->missed;
    return peers && (t->reached || t->missed || !t->healthy);
}

static bool has_row(const struct question *q, const struct told *t)
{
    bool failed = strcmp(q->seen, "peers-failed") == 0 || strcmp(q->seen, "peer") == 0;

    return strcmp(q->seen, t->row) == 0 || (failed && is_chance(t));
}

/* That a server has died or come back is not known until it is asked again. */
static bool is_predicted(const struct question *q)
{
    return has_row(q, &q->before) || has_row(q, &q->after) ||
           (is_news(q) && (is_pair(q->seen, q->before.row) || is_pair(q->before.row, q->seen)));
}

/* False: it was said that the one who answered does not. */
static bool is_alive(const struct question *q, const struct told *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (q->by[0] == '\0' ? i == 0 : strcmp(t->servers[i].host, q->by) == 0)
            return t->servers[i].answers;
    return true;
}

static bool is_answered(const struct question *q)
{
    return q->status > 0 && q->status < 500 && !q->own;
}

/*
 * Who has just given an answer is not called dead: or he was alive when he was asked, and has died since. If it took
 * long a probe may have failed meanwhile, which is then believed until the next one.
 */
static bool is_truth(const struct question *q)
{
    return !is_answered(q) || is_alive(q, &q->before) || is_alive(q, &q->logged) || q->took_ms >= PULSE_EARLY_MS;
}

static void tell_wrong(uint64_t number, size_t i)
{
    const struct question *q = &world.questions[i];

    diag("world %llu, request %zu, %llu ms after the last change, node %u, %s of %.*s/%.*s %.*s: explained as %s "
         "before and %s after, was %s; answered with %u by %s, who was said %s",
         (unsigned long long)number, i, (unsigned long long)q->quiet_ms, q->node, q->write ? "DELETE" : "GET",
         (int)q->gvr.group.n, q->gvr.group.p == NULL ? "" : q->gvr.group.p, (int)q->gvr.version.n, q->gvr.version.p,
         (int)q->gvr.resource.n, q->gvr.resource.p, q->before.row, q->after.row, q->seen, q->status,
         q->by[0] == '\0' ? "the local server" : q->by, is_alive(q, &q->logged) ? "to answer" : "not to answer");
}

static size_t wrong_predictions(uint64_t number)
{
    size_t n = 0;

    for (size_t i = 0; i < world.asked; i++) {
        const struct question *q = &world.questions[i];

        if (q->seen[0] == '\0' || (is_predicted(q) && is_truth(q)))
            continue;
        n++;
        tell_wrong(number, i);
    }
    return n;
}

/* How many requests came to an end, and how many of these were not what explain had said. */
static size_t tell(uint64_t number, size_t *seen)
{
    size_t wrong;

    begin_world(number);
    for (unsigned t = 0; t < TROUBLES; t++) {
        world.trouble_ms = now(); /* it fails what is under way at once */
        trouble();
        sim_run_ms(fleet_loop(world.fleet), 1 + dice(TROUBLE_MS));
        for (unsigned i = 0; i < QUESTIONS / TROUBLES; i++) {
            ask();
            sim_run_ms(fleet_loop(world.fleet), 1 + dice(50));
        }
    }
    sim_run_ms(fleet_loop(world.fleet), ANSWERED_MS);
    wrong = wrong_predictions(number);
    for (size_t i = 0; i < world.asked; i++)
        *seen += world.questions[i].seen[0] != '\0';
    return wrong + fleet_free(world.fleet);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, n = WORLDS;
    size_t wrong = 0, seen = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else
            n = strtoull(argv[i], NULL, 10);
    log_set_verbosity(-1);
    for (uint64_t i = 0; i < n; i++)
        wrong += tell(first + i, &seen);
    ok(seen >= n * QUESTIONS / 2, "%zu requests have ended, and stand in the access log", seen);
    is_u64(wrong, 0, "what is explained is what happens, in worlds %llu to %llu", (unsigned long long)first,
           (unsigned long long)(first + n - 1));
    return tap_end();
}
