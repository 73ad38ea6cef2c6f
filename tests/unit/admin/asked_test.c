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

struct queueing {
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
    struct queueing *queueing;
    unsigned parts;
};

static bool make_some(struct evhttp_request *req, void **work, void *arg)
{
    struct queueing *q = arg;
    struct half *h = *work;

    (void)req;
    if (q->parts == 0)
        return true;
    if (h == NULL) {
        *work = h = must_zalloc(sizeof(*h));
        h->queueing = q;
    }
    q->made++;
    clock_fake(clock_us() + COST_US, clock_wall_us());
    return ++h->parts == q->parts;
}

static void drop(void *work)
{
    struct half *h = work;

    h->queueing->dropped++;
    mem_free(h);
}

static void answer(struct evhttp_request *req, void *work, void *arg)
{
    struct queueing *q = arg;

    q->answered++;
    mem_free(work);
    if (q->cost_us > 0)
        clock_fake(clock_us() + q->cost_us, clock_wall_us());
    evhttp_send_reply(req, 200, NULL, NULL);
}

static void on_request(struct evhttp_request *req, void *arg)
{
    struct queueing *q = arg;

    q->arrived++;
    asked_add(q->asked, req);
}

static int dial(const struct queueing *q)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)q->port)};
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

static void begin(struct queueing *q, struct metrics *m)
{
    struct evhttp_bound_socket *s;

    memset(q, 0, sizeof(*q));
    q->loop = loop_new(m);
    q->asked = asked_new(q->loop, &(struct asked_fns){make_some, answer, drop}, q);
    q->http = evhttp_new(loop_base(q->loop));
    evhttp_set_gencb(q->http, on_request, q);
    s = evhttp_bind_socket_with_handle(q->http, "127.0.0.1", 0);
    if (q->asked == NULL || s == NULL)
        tap_bail("no listener");
    q->port = sockopt_port(evhttp_bound_socket_get_fd(s));
    for (int i = 0; i < ASKERS; i++)
        q->fds[i] = dial(q);
}

static void end(struct queueing *q)
{
    asked_free(q->asked);
    evhttp_free(q->http);
    loop_free(q->loop);
    for (int i = 0; i < ASKERS; i++)
        close(q->fds[i]);
}

static void all_ask(struct queueing *q)
{
    for (int i = 0; i < ASKERS; i++)
        ask(q->fds[i]);
}

static void turns(void)
{
    unsigned most = 0, n = 0;
    struct queueing q;

    begin(&q, NULL);
    clock_fake(clock_us(), clock_wall_us());
    q.cost_us = COST_US;
    all_ask(&q);
    for (; q.answered < ASKERS && n < TURNS; n++) {
        unsigned before = q.answered;

        loop_run_once(q.loop, 20);
        most = q.answered - before > most ? q.answered - before : most;
    }
    clock_real();
    is_u64(q.answered, ASKERS, "all are answered");
    is_u64(most, 1 + ASKED_TURN_US / COST_US, "few in a turn");
    end(&q);
}

/* One after the other, a little in each turn. */
static void parts(void)
{
    enum { PARTS = 10 };
    unsigned most = 0, n = 0;
    struct queueing q;

    begin(&q, NULL);
    clock_fake(clock_us(), clock_wall_us());
    q.parts = PARTS;
    all_ask(&q);
    for (; q.answered < ASKERS && n < TURNS; n++) {
        unsigned before = q.made;

        loop_run_once(q.loop, 20);
        most = q.made - before > most ? q.made - before : most;
    }
    is_u64(q.answered, ASKERS, "all are answered");
    is_u64(q.made, ASKERS * PARTS, "each part is made once");
    is_u64(most, 1 + ASKED_TURN_US / COST_US, "few of them in a turn");
    /* Whoever is there when all ends. */
    all_ask(&q);
    for (unsigned made = q.made; q.made == made && n < TURNS; n++)
        loop_run_once(q.loop, 20);
    clock_real();
    end(&q);
    is_u64(q.dropped, 1, "what is half made at the end is dropped");
}

/* Whose connection goes while they wait: by the listener's end. */
static void given_up(void)
{
    struct queueing q;

    begin(&q, NULL);
    clock_fake(clock_us(), clock_wall_us());
    q.cost_us = COST_US;
    all_ask(&q);
    for (int n = 0; q.arrived < ASKERS && n < TURNS; n++)
        loop_run_once(q.loop, 20);
    clock_real();
    ok(q.arrived == ASKERS && q.answered < ASKERS, "%u of %u have been answered", q.answered, q.arrived);
    end(&q);
}

/* Readers that go without waiting, and no memory to wait with. */
static void gone(void)
{
    struct queueing q;

    begin(&q, NULL);
    all_ask(&q);
    for (int i = 0; i < ASKERS; i += 2) {
        struct linger reset = {1, 0};

        (void)setsockopt(q.fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(q.fds[i]);
    }
    for (int n = 0; q.answered < ASKERS / 2 && n < TURNS; n++)
        loop_run_once(q.loop, 20);
    ok(q.answered >= ASKERS / 2, "those who stay are answered, %u", q.answered);
    for (int i = 0; i < ASKERS; i += 2)
        q.fds[i] = dial(&q);
    q.arrived = q.answered = 0;
    for (int n = 0; n < 3; n++)
        loop_run_once(q.loop, 20);
    mem_fail_nth(1);
    ask(q.fds[1]);
    for (int n = 0; q.answered == 0 && n < TURNS; n++)
        loop_run_once(q.loop, 20);
    mem_fail_nth(0);
    is_u64(q.answered, 1, "without memory to wait with one is answered at once");
    end(&q);
}

int main(void)
{
    turns();
    parts();
    given_up();
    gone();
    return tap_end();
}
