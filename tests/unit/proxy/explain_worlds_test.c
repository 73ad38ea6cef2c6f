/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mvproxyctl explain` predicts is what happens: random requests in random control planes, whose servers differ,
 * are down, cannot be reached or were never read. The row that is explained right before a request, or right after it,
 * is the one that its line in the access log has. tests/e2e/test_ctl.py asks the same of the whole daemon, in fixed
 * worlds that meet every row.
 *
 *   explain_worlds_test [--seed S] [N]    N worlds, from number S on
 */
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
    RELEASE_BYTES = 600,
};

struct question {
    unsigned node;
    struct gvr gvr;
    bool write, fails; /* explain said so of somebody who is asked */
    uint64_t quiet_ms; /* since the last trouble, when it was asked */
    char before[ROW_BYTES], after[ROW_BYTES], seen[ROW_BYTES];
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

/* In place of the line that is written. */
void __wrap_access_log_request(const struct access_log *l, struct exchange *x, const struct reqinfo *info,
                               const struct route *r, const struct request_summary *e, bool from_peer)
{
    size_t number = info->name.n > 1 && info->name.p[0] == 'w' ? strtoul(info->name.p + 1, NULL, 10) : QUESTIONS;

    (void)l, (void)x, (void)e;
    if (!from_peer && number < QUESTIONS)
        (void)snprintf(world.questions[number].seen, ROW_BYTES, "%s", route_row_name(r->row));
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

/* The text of "row" in an explanation; false if it says of somebody who is asked that he fails. */
static bool explain(const struct question *q, char row[ROW_BYTES])
{
    static const char key[] = "\"row\":\"";
    struct buf out;
    bool well = true;
    const char *at;

    buf_init(&out, EXPLANATION_BYTES);
    if (fleet_explain(world.fleet, q->node, &q->gvr, q->write, &out) && buf_append_char(&out, '\0')) {
        at = strstr(buf_slice(&out).p, key);
        if (at != NULL)
            (void)snprintf(row, ROW_BYTES, "%.*s", (int)strcspn(at + sizeof(key) - 1, "\""), at + sizeof(key) - 1);
        well = strstr(buf_slice(&out).p, "\"answers\":false") == NULL &&
               strstr(buf_slice(&out).p, "\"healthy\":false") == NULL;
    }
    buf_free(&out);
    return well;
}

static void on_answer(void *arg, const struct fleet_answer *a)
{
    struct question *q = &world.questions[a->number];

    (void)arg;
    if (!explain(q, q->after))
        q->fails = true;
}

static void ask(void)
{
    struct question *q = &world.questions[world.asked++];

    q->node = (unsigned)dice(fleet_nodes(world.fleet));
    q->gvr = schedule_gvr(dice(N_THINGS));
    q->write = dice(3) == 0;
    q->quiet_ms = loop_now_ms(fleet_loop(world.fleet)) - world.trouble_ms;
    q->fails = !explain(q, q->before);
    fleet_ask(world.fleet, q->node, &q->gvr, q->write, on_answer, NULL);
}

static bool is_pair(const char *one, const char *other)
{
    return strcmp(one, "local-failover") == 0 && strcmp(other, "served-locally") == 0;
}

/*
 * Whom explain calls failing may be asked first, and a request that may not be sent again ends there. That the local
 * server has died or come back is not known until it is asked again.
 */
static bool is_predicted(const struct question *q)
{
    bool news = q->quiet_ms < PULSE_INTERVAL_MS + PULSE_TIMEOUT_MS;
    bool peer = strcmp(q->before, "peer") == 0 || strcmp(q->after, "peer") == 0;

    return strcmp(q->seen, q->before) == 0 || strcmp(q->seen, q->after) == 0 ||
           (peer && q->fails && strcmp(q->seen, "peers-failed") == 0) ||
           (news && (is_pair(q->seen, q->before) || is_pair(q->before, q->seen)));
}

static size_t wrong_predictions(uint64_t number)
{
    size_t n = 0;

    for (size_t i = 0; i < world.asked; i++) {
        const struct question *q = &world.questions[i];

        if (q->seen[0] == '\0' || is_predicted(q))
            continue;
        n++;
        diag("world %llu, request %zu, %llu ms after the last change, node %u, %s of %.*s/%.*s %.*s: explained as %s "
             "before and %s after, was %s",
             (unsigned long long)number, i, (unsigned long long)q->quiet_ms, q->node, q->write ? "DELETE" : "GET",
             (int)q->gvr.group.n, q->gvr.group.p == NULL ? "" : q->gvr.group.p, (int)q->gvr.version.n, q->gvr.version.p,
             (int)q->gvr.resource.n, q->gvr.resource.p, q->before, q->after, q->seen);
    }
    return n;
}

/* How many requests came to an end, and how many of these were not what explain had said. */
static size_t tell(uint64_t number, size_t *seen)
{
    size_t wrong;

    begin_world(number);
    for (unsigned t = 0; t < TROUBLES; t++) {
        trouble();
        world.trouble_ms = loop_now_ms(fleet_loop(world.fleet));
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
