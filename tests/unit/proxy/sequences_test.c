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
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/tap.h"
#include "sim/plane.h"
#include "sim/sim_memory.h"

enum { DEFAULT_STORIES = 20000, STEPS = 80, STORY_SECONDS = 20 };

/* What survives a story that crashes. */
struct shared {
    uint64_t seed; /* under way */
    bool skip[STEPS];
};

struct story {
    struct plane p;
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
    return s->p.n_clients == 0 ? NULL : &s->p.clients[below(s, s->p.n_clients)];
}

/* Rather a late one: the early ones are over. */
static struct connection *any_connection(struct story *s)
{
    size_t n = s->p.n_connections, from = n > 4 && chance(s, 70) ? n - 4 : 0;

    return n == 0 ? NULL : &s->p.connections[from + below(s, n - from)];
}

static void new_client(struct story *s)
{
    static const uint32_t windows[] = {0, 1, 100, UINT32_MAX, UINT32_MAX};
    uint32_t window = windows[below(s, sizeof(windows) / sizeof(windows[0]))];

    if (s->p.n_clients < 5)
        (void)client_new(&s->p, (enum plane_cert)below(s, CERTS), chance(s, 60), window);
}

static void ask(struct story *s)
{
    struct client *c = any_client(s);
    enum plane_target to = (enum plane_target)below(s, PLANE_TARGETS);
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
        plane_say(&s->p, "client %zu ends its direction", (size_t)(c - s->p.clients));
        sim_finish(c->sock);
        c->spoiled = true;
        break;
    case 3:
        if (c->http2 && c->out.n == 0) {
            plane_say(&s->p, "client %zu says GOAWAY", (size_t)(c - s->p.clients));
            frame_goaway(&c->out, 0, 0);
            c->spoiled = true;
        }
        break;
    case 4:
        client_reset_stream(c, below(s, c->n_asks), codes[below(s, 4)]);
        break;
    case 5:
        plane_say(&s->p, "client %zu sends rubbish", (size_t)(c - s->p.clients));
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
    struct sim_host *h = &s->p.hosts[below(s, 2)];

    switch (below(s, 6)) {
    case 0:
        h->reach = (enum sim_reach)below(s, 3);
        plane_say(&s->p, "%s is %s from now on", h->host,
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
    uint64_t next = sim_next_timer_ms(s->p.loop), t = ms[below(s, sizeof(ms) / sizeof(ms[0]))];

    if (chance(s, 60) && next != UINT64_MAX)
        t = next;
    plane_say(&s->p, "%llu ms pass", (unsigned long long)t);
    sim_pass_ms(t);
}

static void some_turns(struct story *s)
{
    for (size_t n = 1 + below(s, 4); n > 0; n--)
        (void)sim_turn(s->p.loop);
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

        plane_say(&s->p, "allocation %llu from here fails", (unsigned long long)nth);
        mem_fail_nth(nth);
    } else if (what < 94)
        some_turns(s);
    else
        (void)plane_round(&s->p);
}

/* One story from its beginning to its end. */
static void tell(struct story *s, uint64_t seed, const struct shared *shared, bool say)
{
    static const size_t rooms[] = {60, 300, 300, 2000, 20000};
    struct plane_opts o = {.say = say};
    size_t blocks = sim_blocks(), steps;

    s->dice = seed;
    o.server_http2 = chance(s, 60);
    o.room = rooms[below(s, sizeof(rooms) / sizeof(rooms[0]))];
    o.request_timeout_ms = chance(s, 30) ? 5000 : 0;
    steps = 20 + below(s, STEPS - 20);
    sim_clock_start();
    plane_open(&s->p, &o);
    sim_order(s->p.loop, in_any_order, s);
    for (size_t i = 0; i < steps; i++) {
        s->dice = seed * 1000003 + i; /* so that a step does the same whether or not others are left out */
        if (!shared->skip[i])
            step(s);
    }
    plane_wind_down(&s->p);
    plane_close(&s->p);
    if (sim_blocks() != blocks)
        plane_fail(&s->p, "%zd blocks of memory are left", (ssize_t)(sim_blocks() - blocks));
}

/* ---- many of them, each in a process that may die ---- */

static void quiet(void)
{
    (void)!freopen("/dev/null", "w", stdout);
    (void)!freopen("/dev/null", "w", stderr);
}

static bool run(struct shared *shared, uint64_t from, uint64_t n, bool say, bool mute)
{
    pid_t pid;
    int status;

    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        struct story *s = calloc(1, sizeof(*s));

        if (s == NULL || (log_set_verbosity(0), mute))
            quiet();
        log_set_stream(fopen("/dev/null", "w"));
        for (shared->seed = from; s != NULL && shared->seed < from + n; shared->seed++) {
            (void)alarm(STORY_SECONDS);
            tell(s, shared->seed, shared, say);
        }
        (void)fflush(stdout);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void explain(struct shared *shared, uint64_t seed)
{
    size_t left = 0;

    for (size_t i = 0; i < STEPS; i++) {
        shared->skip[i] = true;
        if (run(shared, seed, 1, false, true))
            shared->skip[i] = false;
    }
    for (size_t i = 0; i < STEPS; i++)
        left += !shared->skip[i];
    diag("seed %llu, the %zu steps without which it holds:", (unsigned long long)seed, left);
    if (run(shared, seed, 1, true, false))
        diag("it holds when it is told: does something depend on more than the seed?");
}

int main(int argc, char **argv)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *env = getenv("MVPROXY_SEQUENCES");
    uint64_t first = 1, n = env != NULL ? strtoull(env, NULL, 10) : DEFAULT_STORIES;
    bool say = false;

    if (shared == MAP_FAILED)
        tap_bail("mmap");
    for (int i = 1; i < argc; i++) {
        say |= strcmp(argv[i], "--tell") == 0;
        if (argv[i][0] == '-' && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else
            n = strtoull(argv[i], NULL, 10);
    }
    plane_prepare();
    if (say)
        (void)ok(run(shared, first, 1, true, false), "seed %llu", (unsigned long long)first);
    else if (!ok(run(shared, first, n, false, false), "%llu stories from seed %llu on", (unsigned long long)n,
                 (unsigned long long)first))
        explain(shared, shared->seed);
    plane_unprepare();
    return tap_end();
}
