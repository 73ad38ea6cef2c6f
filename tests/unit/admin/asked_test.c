/* SPDX-License-Identifier: Apache-2.0 */
/* Many who ask the admin listener at once for what takes a while to be said: others have the loop in between. */
#include "admin/asked.h"

#include <arpa/inet.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "net/loop.h"
#include "net/sockopt.h"

enum { ASKERS = 20, COST_US = 1500, TURNS = 1000 };

struct world {
    struct loop *loop;
    struct evhttp *http;
    struct asked *asked;
    unsigned port, arrived, answered;
    unsigned parts, made, dropped; /* of each answer; in all; answers that nobody waits for any more */
    uint64_t cost_us;
    int fds[ASKERS];
};

/* An answer that is being made. */
struct half {
    struct world *world;
    unsigned parts;
};

static bool make_some(struct evhttp_request *req, void **work, void *arg)
{
    struct world *w = arg;
    struct half *h = *work;

    (void)req;
    if (w->parts == 0)
        return true;
    if (h == NULL) {
        *work = h = must_zalloc(sizeof(*h));
        h->world = w;
    }
    w->made++;
    clock_fake(clock_us() + COST_US, clock_wall_us());
    return ++h->parts == w->parts;
}

static void drop(void *work)
{
    struct half *h = work;

    h->world->dropped++;
    mem_free(h);
}

static void answer(struct evhttp_request *req, void *work, void *arg)
{
    struct world *w = arg;

    w->answered++;
    mem_free(work);
    if (w->cost_us > 0)
        clock_fake(clock_us() + w->cost_us, clock_wall_us());
    evhttp_send_reply(req, 200, NULL, NULL);
}

static void on_request(struct evhttp_request *req, void *arg)
{
    struct world *w = arg;

    w->arrived++;
    asked_add(w->asked, req);
}

static int dial(const struct world *w)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        tap_bail("connect");
    return fd;
}

static void ask(int fd)
{
    static const char request[] = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";

    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
        tap_bail("send");
}

static void begin(struct world *w, struct metrics *m)
{
    struct evhttp_bound_socket *s;

    memset(w, 0, sizeof(*w));
    w->loop = loop_new(m);
    w->asked = asked_new(w->loop, &(struct asked_fns){make_some, answer, drop}, w);
    w->http = evhttp_new(loop_base(w->loop));
    evhttp_set_gencb(w->http, on_request, w);
    s = evhttp_bind_socket_with_handle(w->http, "127.0.0.1", 0);
    if (w->asked == NULL || s == NULL)
        tap_bail("no listener");
    w->port = sockopt_port(evhttp_bound_socket_get_fd(s));
    for (int i = 0; i < ASKERS; i++)
        w->fds[i] = dial(w);
}

static void end(struct world *w)
{
    asked_free(w->asked);
    evhttp_free(w->http);
    loop_free(w->loop);
    for (int i = 0; i < ASKERS; i++)
        close(w->fds[i]);
}

static void all_ask(struct world *w)
{
    for (int i = 0; i < ASKERS; i++)
        ask(w->fds[i]);
}

static void turns(void)
{
    unsigned most = 0, n = 0;
    struct world w;

    begin(&w, NULL);
    clock_fake(clock_us(), clock_wall_us());
    w.cost_us = COST_US;
    all_ask(&w);
    for (; w.answered < ASKERS && n < TURNS; n++) {
        unsigned before = w.answered;

        loop_run_once(w.loop, 20);
        most = w.answered - before > most ? w.answered - before : most;
    }
    clock_real();
    is_u64(w.answered, ASKERS, "all are answered");
    is_u64(most, 1 + ASKED_TURN_US / COST_US, "few in a turn");
    end(&w);
}

/* One after the other, a little in each turn. */
static void parts(void)
{
    enum { PARTS = 10 };
    unsigned most = 0, n = 0;
    struct world w;

    begin(&w, NULL);
    clock_fake(clock_us(), clock_wall_us());
    w.parts = PARTS;
    all_ask(&w);
    for (; w.answered < ASKERS && n < TURNS; n++) {
        unsigned before = w.made;

        loop_run_once(w.loop, 20);
        most = w.made - before > most ? w.made - before : most;
    }
    is_u64(w.answered, ASKERS, "all are answered");
    is_u64(w.made, ASKERS * PARTS, "each part is made once");
    is_u64(most, 1 + ASKED_TURN_US / COST_US, "few of them in a turn");
    /* Whoever is there when all ends. */
    all_ask(&w);
    for (unsigned made = w.made; w.made == made && n < TURNS; n++)
        loop_run_once(w.loop, 20);
    clock_real();
    end(&w);
    is_u64(w.dropped, 1, "what is half made at the end is dropped");
}

/* Whose connection goes while they wait: by the listener's end. */
static void given_up(void)
{
    struct world w;

    begin(&w, NULL);
    clock_fake(clock_us(), clock_wall_us());
    w.cost_us = COST_US;
    all_ask(&w);
    for (int n = 0; w.arrived < ASKERS && n < TURNS; n++)
        loop_run_once(w.loop, 20);
    clock_real();
    ok(w.arrived == ASKERS && w.answered < ASKERS, "%u of %u have been answered", w.answered, w.arrived);
    end(&w);
}

/* Readers that go without waiting, and no memory to wait with. */
static void gone(void)
{
    struct world w;

    begin(&w, NULL);
    all_ask(&w);
    for (int i = 0; i < ASKERS; i += 2) {
        struct linger reset = {1, 0};

        (void)setsockopt(w.fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(w.fds[i]);
    }
    for (int n = 0; w.answered < ASKERS / 2 && n < TURNS; n++)
        loop_run_once(w.loop, 20);
    ok(w.answered >= ASKERS / 2, "those who stay are answered, %u", w.answered);
    for (int i = 0; i < ASKERS; i += 2)
        w.fds[i] = dial(&w);
    w.arrived = w.answered = 0;
    for (int n = 0; n < 3; n++)
        loop_run_once(w.loop, 20);
    mem_fail_nth(1);
    ask(w.fds[1]);
    for (int n = 0; w.answered == 0 && n < TURNS; n++)
        loop_run_once(w.loop, 20);
    mem_fail_nth(0);
    is_u64(w.answered, 1, "without memory to wait with one is answered at once");
    end(&w);
}

int main(void)
{
    turns();
    parts();
    given_up();
    gone();
    return tap_end();
}
