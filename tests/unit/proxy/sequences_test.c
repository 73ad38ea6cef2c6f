/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random stories of the whole data plane: what clients and servers do, when time passes, in which order the events of a
 * turn come, which allocation fails. What must hold is in sim/plane.h; besides, memory returns to what it was, and
 * every exchange ends.
 *
 *   sequences_test [--seed S] [N]    N stories from seed S on; MVPROXY_SEQUENCES is N where it is not given
 *   sequences_test --tell S          tells one story
 *
 * A story depends on its seed alone. One that fails is told with the steps that it takes to fail, and no others.
 */
#include "sim/plane_main.h"

enum { STORIES = 20000, STEPS = PLANE_MAIN_STEPS };

struct story {
    struct plane *p;
    uint64_t dice;
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

    if (s->p->n_clients < 5)
        (void)client_new(s->p, (enum plane_cert)below(s, CERTS), chance(s, 60), window);
}

static void ask(struct story *s)
{
    struct client *c = any_client(s);
    enum plane_target to = (enum plane_target)below(s, PLANE_TARGETS_PLAIN);
    bool token = chance(s, 40), remote = chance(s, 50);
    size_t body = chance(s, 70) ? below(s, 600) : 0;

    if (c == NULL || c->n_asks >= 12 || c->tunnel)
        return;
    if (to == TO_EXEC && (c->http2 || c->n_answered < c->n_asks))
        to = TO_LOCAL;
    if (c->http2 || c->n_asks == 0 || c->asks[c->n_asks - 1]->to != TO_EXEC)
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
    static const unsigned statuses[] = {200, 200, 200, 200, 200, 401, 403, 404, 429, 503};
    struct connection *c = any_connection(s);
    size_t i;

    if (c == NULL || c->n_asks == 0)
        return;
    i = chance(s, 60) ? c->n_asks - 1 : below(s, c->n_asks);
    if (chance(s, 30))
        server_end_answer(c, i);
    else
        server_answer(c, i, statuses[below(s, sizeof(statuses) / sizeof(statuses[0]))], some(s));
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

static void step(struct story *s)
{
    size_t what = below(s, 100);
    struct client *c = any_client(s);
    struct connection *v = any_connection(s);

    if (what < 5)
        new_client(s);
    else if (what < 16)
        ask(s);
    else if (what < 26 && c != NULL)
        client_send(c, some(s));
    else if (what < 32 && c != NULL)
        client_read(c, some(s));
    else if (what < 35 && c != NULL)
        client_window(c, 1 + (uint32_t)below(s, 300));
    else if (what < 39)
        disturb_client(s);
    else if (what < 48 && v != NULL)
        server_read(v, some(s));
    else if (what < 59)
        answer(s);
    else if (what < 67 && v != NULL)
        server_send(v, some(s));
    else if (what < 71)
        disturb_server(s);
    else if (what < 76)
        pass(s);
    else if (what < 78) {
        uint64_t nth = 1 + below(s, 60);

        plane_say(s->p, "allocation %llu from here fails", (unsigned long long)nth);
        mem_fail_nth(nth);
    } else if (what < 94)
        some_turns(s);
    else
        (void)plane_round(s->p);
}

/* One story from its beginning to its end. */
static void tell(struct plane *p, uint64_t seed, const bool *skip, bool say)
{
    static const size_t rooms[] = {60, 300, 300, 2000, 20000};
    struct plane_opts o = {.say = say};
    struct story s = {.p = p, .dice = seed};
    size_t steps;

    o.server_http2 = chance(&s, 60);
    o.peer_hop = chance(&s, 40);
    o.room = rooms[below(&s, sizeof(rooms) / sizeof(rooms[0]))];
    o.request_timeout_ms = chance(&s, 30) ? 5000 : 0;
    steps = 20 + below(&s, STEPS - 20);
    plane_open(p, &o);
    sim_order(p->loop, in_any_order, &s);
    for (size_t i = 0; i < steps; i++) {
        s.dice = seed * 1000003 + i; /* so that a step does the same whether or not others are left out */
        if (!skip[i])
            step(&s);
    }
    plane_wind_down(p);
    plane_close(p);
}

int main(int argc, char **argv)
{
    static const struct plane_main m = {.first = 1, .n = STORIES, .env = "MVPROXY_SEQUENCES", .tell = tell};

    return plane_main(argc, argv, &m);
}
