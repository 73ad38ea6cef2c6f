/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random stories of the whole data plane: what clients and servers do, when time passes, in which order the events of a
 * turn come, which allocation fails. What must hold is in sim/plane.h; besides, memory returns to what it was, and
 * every exchange ends.
 *
 *   sequences_test [--seed S] [N]    N stories from seed S on; MVPROXY_SEQUENCES is N where it is not given
 *   sequences_test --tell S          tells one story
 *
 * A story depends on its seed alone. One that fails is told with the steps that it takes to fail, and no others. In
 * those of every third seed there is more: what the proxy knows of the cluster changes, it is reloaded, gives requests
 * up, ends watches, stops; clients ask for documents and send bodies with whatever they ask, and servers answer oddly.
 */
#include "back/back.h"
#include "base/buf.h"
#include "front/front.h"
#include "proxy/explain.h"
#include "proxy/proxy.h"
#include "sim/plane_cluster.h"
#include "sim/plane_main.h"

enum {
    STORIES = 30000,
    STEPS = PLANE_MAIN_STEPS,
    LONG = 70000, /* a body of which not all can be kept (LIMIT_REPLAY_BYTES) */
};

struct story {
    struct plane *p;
    uint64_t dice;
    bool wide; /* of every third seed */
    /* of this step; NULL: there is none yet */
    struct client *client;
    struct connection *connection;
};

static uint64_t roll(uint64_t *dice)
{
    uint64_t z = *dice += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(struct story *s, size_t n)
{
    return n == 0 ? 0 : (size_t)(roll(&s->dice) % n);
}

static bool chance(struct story *s, unsigned percent)
{
    return below(s, 100) < percent;
}

/* Each of so many bits with that chance. */
static unsigned bits(struct story *s, size_t n, unsigned percent)
{
    unsigned set = 0;

    for (size_t i = 0; i < n; i++)
        set |= (chance(s, percent) ? 1U : 0U) << i;
    return set;
}

static size_t some(struct story *s)
{
    static const size_t sizes[] = {1, 2, 9, 30, 120, 500, SIZE_MAX, SIZE_MAX, SIZE_MAX};

    return sizes[below(s, sizeof(sizes) / sizeof(sizes[0]))];
}

static size_t in_any_order(void *arg, size_t n)
{
    return below(arg, n);
}

/* ---- steps ---- */

static struct client *any_client(struct story *s)
{
    return s->p->n_clients == 0 ? NULL : &s->p->clients[below(s, s->p->n_clients)];
}

/* Rather a late one: the early ones are over. */
static struct connection *any_connection(struct story *s)
{
    size_t n = s->p->n_connections, from = n > 4 && chance(s, 70) ? n - 4 : 0;

    return n == 0 ? NULL : &s->p->connections[from + below(s, n - from)];
}

static void new_client(struct story *s)
{
    static const uint32_t windows[] = {0, 1, 100, UINT32_MAX, UINT32_MAX};
    uint32_t window = windows[below(s, sizeof(windows) / sizeof(windows[0]))];

    if (s->p->n_clients < (s->wide ? 12 : 5))
        (void)client_new(s->p, (enum plane_cert)below(s, CERTS), chance(s, 60), window);
}

/* Nothing follows an upgrade but what is tunnelled. */
static bool may_ask(const struct client *c)
{
    return c != NULL && c->n_asks < 12 && !c->tunnel &&
           (c->http2 || c->n_asks == 0 || c->asks[c->n_asks - 1]->to != TO_EXEC);
}

static void ask(struct story *s)
{
    struct client *c = any_client(s);
    enum plane_target to = (enum plane_target)below(s, s->wide ? PLANE_TARGETS : PLANE_TARGETS_PLAIN);
    bool token = chance(s, 40), remote = chance(s, 50);
    size_t body = chance(s, 70) ? below(s, 600) : 0;

    if (s->wide && chance(s, 4) && s->p->opts.room >= 2000)
        body = LONG;
    if (!may_ask(c))
        return;
    c->special = s->wide ? bits(s, ASK_BITS, 20) : 0;
    if (to == TO_EXEC && (c->http2 || c->n_answered < c->n_asks))
        to = TO_LOCAL;
    (void)client_ask(c, to, token, remote, body);
}

static void disturb_client(struct story *s)
{
    static const uint32_t codes[] = {0, 2, 5, 8};
    struct client *c = any_client(s);

    if (c == NULL || c->sock == NULL)
        return;
    switch (below(s, 6)) {
    case 0:
    case 1:
        client_hang_up(c, chance(s, 50));
        break;
    case 2:
        plane_say(s->p, "client %zu ends its direction", (size_t)(c - s->p->clients));
        sim_finish(c->sock);
        c->spoiled = true;
        break;
    case 3:
        if (c->http2 && c->out.n == 0) {
            plane_say(s->p, "client %zu says GOAWAY", (size_t)(c - s->p->clients));
            frame_goaway(&c->out, 0, 0);
            c->spoiled = true;
        }
        break;
    case 4:
        client_reset_stream(c, below(s, c->n_asks), codes[below(s, 4)]);
        break;
    case 5:
        plane_say(s->p, "client %zu sends rubbish", (size_t)(c - s->p->clients));
        bytes_say(&c->out, "%c%c\x01 rubbish\r\n\r\n", (int)below(s, 255) + 1, (int)below(s, 255) + 1);
        c->spoiled = true;
        break;
    default:
        break;
    }
}

static void answer(struct story *s)
{
    /* the first PLAIN of them in all stories */
    enum { PLAIN = 10 };
    static const unsigned statuses[] = {200, 200, 200, 200, 200, 401, 403, 404, 429, 503, 404, 503, 204, 304};
    struct connection *c = any_connection(s);
    size_t i, n = s->wide ? sizeof(statuses) / sizeof(statuses[0]) : PLAIN;

    if (c == NULL || c->n_asks == 0)
        return;
    if (s->wide) {
        c->odd = bits(s, ANSWER_BITS, 15);
        c->denies_by = (enum plane_form)below(s, FORM_DENIALS);
    }
    i = chance(s, 60) ? c->n_asks - 1 : below(s, c->n_asks);
    if (chance(s, 30))
        server_end_answer(c, i);
    else
        server_answer(c, i, statuses[below(s, n)], some(s));
}

static void disturb_server(struct story *s)
{
    static const uint32_t codes[] = {0, 2, 7, 7, 8, 11, 13};
    struct connection *c = any_connection(s);
    struct sim_host *h = &s->p->hosts[below(s, 2)];

    switch (below(s, 7)) {
    case 6:
        s->p->hosts[1].hop = !s->p->hosts[1].hop;
        plane_say(s->p, "the peer is %s from now on", s->p->hosts[1].hop ? "an mvproxy" : "a bare server");
        if (c != NULL)
            server_hang_up(c, false);
        break;
    case 0:
        h->reach = (enum sim_reach)below(s, 3);
        plane_say(s->p, "%s is %s from now on", h->host,
                  h->reach == SIM_REACHED   ? "there"
                  : h->reach == SIM_REFUSED ? "not there"
                                            : "silent");
        break;
    case 1:
        if (c != NULL)
            server_goaway(c);
        break;
    case 2:
        if (c != NULL && c->n_asks > 0)
            server_refuse_stream(c, below(s, c->n_asks), codes[below(s, sizeof(codes) / sizeof(codes[0]))]);
        break;
    case 3:
        if (c != NULL)
            server_rubbish(c, (unsigned)below(s, 255));
        break;
    default:
        if (c != NULL)
            server_hang_up(c, chance(s, 50));
        break;
    }
}

static void pass(struct story *s)
{
    static const uint64_t ms[] = {1, 100, 1000, 5000, 31000, 61000};
    uint64_t next = sim_next_timer_ms(s->p->loop), t = ms[below(s, sizeof(ms) / sizeof(ms[0]))];

    if (chance(s, 60) && next != UINT64_MAX)
        t = next;
    if (chance(s, t <= 1000 ? 60 : 10)) {
        plane_say(s->p, "%llu ms pass in a busy process", (unsigned long long)t);
        sim_pass_busy_ms(s->p->loop, t);
    } else {
        plane_say(s->p, "%llu ms pass without a turn", (unsigned long long)t);
        sim_pass_ms(t);
    }
}

static void some_turns(struct story *s)
{
    for (size_t n = 1 + below(s, 4); n > 0; n--)
        (void)sim_turn(s->p->loop);
}

static void send_some(struct story *s)
{
    if (s->client != NULL)
        client_send(s->client, some(s));
}

static void read_some(struct story *s)
{
    if (s->client != NULL)
        client_read(s->client, some(s));
}

static void open_windows(struct story *s)
{
    if (s->client != NULL)
        client_window(s->client, 1 + (uint32_t)below(s, 300));
}

static void serve_some(struct story *s)
{
    if (s->connection != NULL)
        server_read(s->connection, some(s));
}

static void reply_some(struct story *s)
{
    if (s->connection != NULL)
        server_send(s->connection, some(s));
}

static void fail_allocation(struct story *s)
{
    uint64_t nth = 1 + below(s, 60);

    plane_say(s->p, "allocation %llu from here fails", (unsigned long long)nth);
    mem_fail_nth(nth);
}

static void round_of_all(struct story *s)
{
    (void)plane_round(s->p);
}

/* ---- steps of every third seed ---- */

static void another_snapshot(struct story *s)
{
    plane_snapshot(s->p, bits(s, SNAPSHOT_BITS, 15));
}

static void local_state(struct story *s)
{
    plane_local(s->p, &(struct plane_local){.state = (enum readiness_state)(chance(s, 50) ? 0 : below(s, 3)),
                                            .loading = chance(s, 15),
                                            .unread = chance(s, 25),
                                            .no_failover = chance(s, 15)});
}

static void reload(struct story *s)
{
    struct plane_opts *o = &s->p->opts;

    o->request_timeout_ms = chance(s, 30) ? 5000 : 0;
    o->legacy_discovery = chance(s, 75);
    o->newest = chance(s, 50);
    o->goaways = chance(s, 25);
    o->asks_always = chance(s, 50);
    o->forgetful = chance(s, 25);
    plane_reload(s->p);
}

static void look(struct story *s)
{
    struct buf out;

    plane_say(s->p, "somebody looks what is under way");
    buf_init(&out, 1 << 20);
    explain_under_way(s->p->proxy, below(s, 100), &out);
    (void)proxy_askers(s->p->proxy);
    buf_free(&out);
}

static void end_watches(struct story *s)
{
    plane_end_watches(s->p, 1 + below(s, 3));
}

static void give_up(struct story *s)
{
    size_t i = chance(s, 80) ? 0 : 1;

    plane_say(s->p, "what %s has not answered is given up", s->p->hosts[i].host);
    (void)origin_fail_unanswered(s->p->origins[i], "it hangs");
}

/* A server hangs while a request that it may be given again, and its body, are on the way to it. */
static void hang(struct story *s)
{
    static const enum plane_target targets[] = {TO_LOCAL, TO_WATCH, TO_PEER, TO_RESOURCES};
    struct client *c = s->client;

    if (!may_ask(c) || c->out.n > 0)
        return;
    c->special = ASK_BODY;
    (void)client_ask(c, targets[below(s, 4)], chance(s, 40), chance(s, 50),
                     s->p->opts.room < 2000 || chance(s, 50) ? below(s, 600) : LONG);
    client_send(c, SIZE_MAX);
    for (size_t n = below(s, 12); n > 0; n--)
        (void)sim_turn(s->p->loop);
    if (chance(s, 30))
        fail_allocation(s);
    give_up(s);
}

static void stop(struct story *s)
{
    if (!chance(s, 5))
        return;
    if (chance(s, 50)) {
        plane_say(s->p, "mvproxy is about to stop");
        proxy_set_stopping(s->p->proxy);
    } else {
        plane_drain(s->p);
    }
}

/* ---- which of them ---- */

struct act {
    unsigned share; /* of 100 */
    void (*take)(struct story *s);
};

static const struct act acts[] = {{5, new_client},   {11, ask},           {10, send_some}, {6, read_some},
                                  {3, open_windows}, {4, disturb_client}, {9, serve_some}, {11, answer},
                                  {8, reply_some},   {4, disturb_server}, {5, pass},       {2, fail_allocation},
                                  {16, some_turns},  {6, round_of_all}};
/* Fewer that end what is under way, so that there is something for the others to happen to. */
static const struct act calm_acts[] = {{6, new_client},   {12, ask},           {10, send_some}, {6, read_some},
                                       {3, open_windows}, {2, disturb_client}, {9, serve_some}, {13, answer},
                                       {8, reply_some},   {2, disturb_server}, {3, pass},       {2, fail_allocation},
                                       {12, some_turns},  {12, round_of_all}};
static const struct act wide_acts[] = {{34, another_snapshot}, {8, local_state}, {8, reload}, {15, look},
                                       {9, end_watches},       {14, give_up},    {6, hang},   {6, stop}};

static void take_one(struct story *s, const struct act *a)
{
    size_t what = below(s, 100);

    for (; what >= a->share; a++)
        what -= a->share;
    s->client = any_client(s);
    s->connection = any_connection(s);
    a->take(s);
}

static void step(struct story *s)
{
    if (s->wide)
        take_one(s, chance(s, 14) ? wide_acts : calm_acts);
    else
        take_one(s, acts);
}

static struct plane_opts setting(struct story *s, bool say)
{
    static const size_t rooms[] = {60, 300, 300, 2000, 20000}, wide_rooms[] = {60, 300, 2000, 20000, 300000};
    struct plane_opts o = {.say = say};

    o.server_http2 = chance(s, 60);
    o.peer_hop = chance(s, 40);
    o.room = (s->wide ? wide_rooms : rooms)[below(s, sizeof(rooms) / sizeof(rooms[0]))];
    o.request_timeout_ms = chance(s, 30) ? 5000 : 0;
    o.legacy_discovery = s->wide && chance(s, 75);
    return o;
}

/* One story from its beginning to its end. */
static void tell(struct plane *p, uint64_t seed, const bool *skip, bool say)
{
    struct story s = {.p = p, .dice = seed, .wide = seed % 3 == 0};
    struct plane_opts o = setting(&s, say);
    size_t steps = 20 + below(&s, STEPS - 20), at_once = s.wide && chance(&s, 50) ? 5 : 1;

    plane_open(p, &o);
    sim_order(p->loop, in_any_order, &s);
    for (size_t i = 0; i < steps; i++) {
        s.dice = seed * 1000003 + i; /* so that a step does the same whether or not others are left out */
        for (size_t k = 0; !skip[i] && k < at_once; k++)
            step(&s);
    }
    s.dice = seed * 1000003 + STEPS;
    if (s.wide && chance(&s, 20))
        plane_drain(p);
    if (s.wide && chance(&s, 30))
        plane_kill(p);
    else
        plane_wind_down(p);
    plane_close(p);
}

int main(int argc, char **argv)
{
    static const struct plane_main m = {.first = 1, .n = STORIES, .env = "MVPROXY_SEQUENCES", .tell = tell};

    return plane_main(argc, argv, &m);
}
