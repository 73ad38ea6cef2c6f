/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation fails in turn while requests of several users share one HTTP/2 connection to a server. What must hold
 * is in sim/plane.h: above all that nobody's identity is on another's request, however header compression is disturbed.
 */
#include "sim/plane_main.h"

enum { ALLOCATIONS = 500, USERS = 3, ROOM = 20000 };

static void ask_all(struct plane *p, enum plane_target to)
{
    for (size_t i = 0; i < USERS; i++) {
        (void)client_ask(&p->clients[i], TO_LOCAL, false, true, 0);
        (void)client_ask(&p->clients[i], to, false, true, 40);
        client_send(&p->clients[i], SIZE_MAX);
    }
}

/* Something to read from the server, so that we write while we read. */
static void ping(struct plane *p)
{
    for (size_t i = 0; i < p->n_connections; i++) {
        struct connection *v = &p->connections[i];

        if (v->sock == NULL || !v->http2)
            continue;
        frame_add(&v->out, 6, 0, 0, SLICE_LIT("12345678"));
        server_send(v, SIZE_MAX);
    }
}

static void tell(struct plane *p, uint64_t number, const bool *skip, bool say)
{
    uint64_t nth = number / 2;
    bool warm = number % 2 == 0;

    static const enum plane_cert certs[USERS] = {CERT_ALICE, CERT_BOB, CERT_FRONT_PROXY};
    static const enum plane_target targets[] = {TO_WRITE, TO_LOCAL};
    struct plane_opts o = {.server_http2 = true, .room = ROOM, .say = say};

    (void)skip;
    plane_open(p, &o);
    for (size_t i = 0; i < USERS; i++)
        (void)client_new(p, certs[i], true, UINT32_MAX);
    /* Either while there is no connection, or when there is one that has something in its tables. */
    for (unsigned i = 0; warm && i < 2; i++) {
        ask_all(p, TO_WRITE);
        while (plane_round(p)) {
        }
    }
    for (size_t i = 0; warm && i < USERS; i++)
        if (!p->clients[i].theirs[0] || !p->clients[i].theirs[1])
            plane_fail(p, "client %zu was not served when nothing was wrong", i);
    plane_say(p, "allocation %llu fails", (unsigned long long)nth);
    mem_fail_nth(nth);
    for (unsigned i = 0; i < 3; i++) {
        ask_all(p, targets[i % 2]);
        for (unsigned turn = 0; turn < 5; turn++) {
            ping(p);
            (void)sim_turn(p->loop);
        }
        (void)plane_round(p);
    }
    plane_wind_down(p);
    plane_close(p);
}

int main(int argc, char **argv)
{
    static const struct plane_main m = {.first = 2, .n = 2 * ALLOCATIONS, .tell = tell};

    return plane_main(argc, argv, &m);
}
