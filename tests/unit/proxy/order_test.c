/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every order of the events that are due in one turn of the loop: for each kind of connection towards clients and
 * servers, in each state of it, whatever one or two (MVPROXY_ORDERS=98020: three) things happen there at once. What
 * must hold is in sim/plane.h.
 */
#include "front/front.h"
#include "sim/plane_main.h"

enum {
    TURNS = 3,    /* from the moment on, so long every order is tried */
    CHOICES = 7,  /* so many of them; further ones are as they come */
    MOMENTS = 13, /* in the life of a request */
};

/* What can happen at a moment, at once with others. */
enum happening {
    CLIENT_READS,
    CLIENT_ASKS,   /* for something else */
    CLIENT_SPOILS, /* HTTP/2: resets its stream; HTTP/1.1: sends what is no request */
    CLIENT_ENDS,   /* its direction */
    CLIENT_RESETS,
    SERVER_ANSWERS,
    SERVER_REFUSES, /* HTTP/2: the stream; HTTP/1.1: sends what is no answer */
    SERVER_LEAVES,  /* HTTP/2: GOAWAY */
    SERVER_CLOSES,
    SERVER_RESETS,
    NEXT_TIMER, /* in a busy process */
    ALL_TIMERS, /* after a long pause of the process */
    DRAIN,
    HAPPENINGS
};

static const enum plane_target targets[] = {TO_LOCAL, TO_WRITE, TO_WATCH, TO_EXEC, TO_APIS};
enum { N_TARGETS = sizeof(targets) / sizeof(targets[0]) };

struct orders {
    unsigned char taken[CHOICES], of[CHOICES];
    size_t at, n;
};

static size_t choose(void *arg, size_t n)
{
    struct orders *o = arg;

    if (o->at == CHOICES)
        return 0;
    if (o->at == o->n) {
        o->taken[o->n] = 0;
        o->of[o->n++] = (unsigned char)n;
    }
    return o->taken[o->at++];
}

/* The next order; false when all were had. */
static bool advance(struct orders *o)
{
    o->at = 0;
    while (o->n > 0 && o->taken[o->n - 1] + 1 >= o->of[o->n - 1])
        o->n--;
    if (o->n == 0)
        return false;
    o->taken[o->n - 1]++;
    return true;
}

struct scene {
    bool http2, server_http2;
    enum plane_target to;
    unsigned moment;
    unsigned happens; /* 1 << enum happening */
};

static struct connection *server_of(struct plane *p)
{
    return p->n_connections == 0 ? NULL : &p->connections[p->n_connections - 1];
}

/* The life of a request up to the moment. The loop comes to rest after each step. */
static void live(struct plane *p, const struct scene *s)
{
    struct client *c = client_new(p, CERT_ALICE, s->http2, s->http2 ? 100 : UINT32_MAX);

    for (unsigned i = 0; i < s->moment; i++) {
        struct connection *v = server_of(p);

        switch (i) {
        case 0: /* nothing asked */
            client_send(c, SIZE_MAX);
            break;
        case 1: /* half a head */
            (void)client_ask(c, s->to, false, false, 400);
            client_send(c, 30);
            break;
        case 2: /* some of the body */
            client_send(c, 300);
            break;
        case 3:
            client_send(c, SIZE_MAX);
            client_read(c, SIZE_MAX);
            break;
        case 4:
        case 8:
            if (v != NULL)
                server_send(v, SIZE_MAX); /* HTTP/2: its settings */
            break;
        case 5:
            if (v != NULL)
                server_read(v, SIZE_MAX);
            client_send(c, SIZE_MAX);
            break;
        case 6:
            if (v != NULL)
                server_read(v, SIZE_MAX);
            break;
        case 7: /* a head and some of the answer */
            if (v != NULL && v->n_asks > 0) {
                server_answer(v, 0, 200, 200);
                server_answer(v, 0, 200, 200);
            }
            break;
        case 9:
            if (v != NULL)
                server_end_answer(v, 0);
            break;
        case 10: /* on its way out, with something still unread */
            if (s->http2)
                frame_goaway(&c->out, 0, 0);
            c->spoiled |= s->http2;
            client_send(c, SIZE_MAX);
            break;
        case 11:
            client_read(c, SIZE_MAX);
            client_window(c, 1000);
            client_send(c, SIZE_MAX);
            break;
        default:
            (void)plane_round(p);
            break;
        }
        (void)sim_settle(p->loop, 100);
    }
}

static void disturb_client(struct plane *p, enum happening what)
{
    struct client *c = &p->clients[0];

    if (c->sock == NULL)
        return;
    switch (what) {
    case CLIENT_ENDS:
        plane_say(p, "the client ends its direction");
        sim_finish(c->sock);
        c->spoiled = true;
        break;
    case CLIENT_RESETS:
        client_hang_up(c, true);
        break;
    case CLIENT_ASKS:
        if (!c->tunnel && (c->n_asks == 0 || c->asks[0]->to != TO_EXEC))
            (void)client_ask(c, TO_LOCAL, false, false, 0);
        client_send(c, SIZE_MAX);
        break;
    case CLIENT_READS:
        client_read(c, SIZE_MAX);
        client_window(c, 1000);
        client_send(c, SIZE_MAX);
        break;
    case CLIENT_SPOILS:
        plane_say(p, "the client spoils it");
        client_reset_stream(c, 0, 8);
        if (!c->http2)
            bytes_say(&c->out, "\x01\r\n\r\n");
        c->spoiled |= !c->http2;
        client_send(c, SIZE_MAX);
        break;
    default:
        break;
    }
}

static void disturb_server(struct plane *p, enum happening what)
{
    struct connection *v = server_of(p);

    if (v == NULL)
        return;
    switch (what) {
    case SERVER_ANSWERS:
        server_read(v, SIZE_MAX);
        for (size_t i = 0; i < v->n_asks; i++)
            server_end_answer(v, i);
        server_send(v, SIZE_MAX);
        break;
    case SERVER_CLOSES:
    case SERVER_RESETS:
        server_hang_up(v, what == SERVER_RESETS);
        break;
    case SERVER_REFUSES:
        if (v->http2)
            server_refuse_stream(v, 0, 7);
        else
            server_rubbish(v, 7);
        server_send(v, SIZE_MAX);
        break;
    case SERVER_LEAVES:
        server_goaway(v);
        server_send(v, SIZE_MAX);
        break;
    default:
        break;
    }
}

static void happen(struct plane *p, enum happening what)
{
    if (what <= CLIENT_RESETS) {
        disturb_client(p, what);
    } else if (what <= SERVER_RESETS) {
        disturb_server(p, what);
    } else if (what == DRAIN) {
        plane_say(p, "the front drains");
        front_drain(p->front, NULL, NULL);
    } else if (what == ALL_TIMERS) {
        plane_say(p, "every timer is due");
        sim_pass_ms(3600000);
    } else {
        plane_say(p, "the next timer is due");
        sim_pass_ms(1);
    }
}

static void tell_in_order(struct plane *p, const struct scene *s, struct orders *o, bool say)
{
    struct plane_opts opts = {.server_http2 = s->server_http2, .room = 300, .say = say};
    uint64_t next;

    plane_open(p, &opts);
    live(p, s);
    next = sim_next_timer_ms(p->loop);
    if ((s->happens & 1U << NEXT_TIMER) != 0 && next != UINT64_MAX && next > 1) {
        sim_pass_busy_ms(p->loop, next - 1);
        (void)sim_turn(p->loop);
    }
    plane_say(p, "and now, at once:");
    for (int what = 0; what < HAPPENINGS; what++)
        if ((s->happens & 1U << what) != 0)
            happen(p, (enum happening)what);
    sim_order(p->loop, choose, o);
    for (unsigned i = 0; i < TURNS; i++)
        (void)sim_turn(p->loop);
    plane_wind_down(p);
    plane_close(p);
}

/* One, two or three different happenings: the nth of the sets, smaller ones first. 0: there are not so many. */
static unsigned set_of(unsigned n)
{
    for (int size = 1; size <= 3; size++)
        for (unsigned set = 1; set < 1U << HAPPENINGS; set++)
            if (__builtin_popcount(set) == size && n-- == 0)
                return set;
    return 0;
}

enum {
    PAIRS = HAPPENINGS + HAPPENINGS * (HAPPENINGS - 1) / 2,
    SCENES = 2 * 2 * N_TARGETS * MOMENTS * PAIRS,
};

static void tell(struct plane *p, uint64_t number, const bool *skip, bool say)
{
    struct orders o = {.n = 0};
    struct scene s;

    (void)skip;
    s.http2 = number % 2 == 1;
    number /= 2;
    s.server_http2 = number % 2 == 1;
    number /= 2;
    s.to = targets[number % N_TARGETS];
    number /= N_TARGETS;
    s.moment = (unsigned)(number % MOMENTS);
    s.happens = set_of((unsigned)(number / MOMENTS));
    if (s.happens == 0 || (s.http2 && s.to == TO_EXEC))
        return;
    do {
        if (say)
            plane_say(p, "---");
        tell_in_order(p, &s, &o, say);
    } while (advance(&o));
}

int main(int argc, char **argv)
{
    static const struct plane_main m = {.first = 0, .n = SCENES, .env = "MVPROXY_ORDERS", .tell = tell};

    return plane_main(argc, argv, &m);
}
