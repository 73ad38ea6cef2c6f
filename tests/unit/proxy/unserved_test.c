/* SPDX-License-Identifier: Apache-2.0 */
/* What no server is known to have, while the local one is away: live peers are asked, and it is 404 if they say so. */
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"
#include "unit/proxy/kit.h"

#define GET "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n"
#define POST "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc"
#define DENIAL "Content-Type: text/plain\r\nContent-Length: 19\r\n\r\n404 page not found\n"
#define DENIES "HTTP/1.1 404 Not Found\r\n" DENIAL
#define DENIES_FOR_ALL "HTTP/1.1 404 Not Found\r\nX-Mvproxy-Hop: apiserver-b\r\nX-Mvproxy-Unserved: true\r\n" DENIAL
#define NOT_READY                                                                                                      \
    "HTTP/1.1 503 Service Unavailable\r\nX-Mvproxy-Try-Another: true\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
#define HAS_IT "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

/* Two live peers; what they and the local server list has no jobs. */
static void begin(struct proxy_kit *w)
{
    proxy_kit_init(w, 2);
    w->cluster->fails_over = true;
    w->peers_without_jobs = 2;
    w->cluster->local_state = READINESS_UNREACHABLE;
}

static struct played_end *start(struct proxy_kit *w)
{
    proxy_kit_start(w);
    listener_close(w->local.listener);
    w->local.listener = NULL;
    return client(w);
}

/* Both are asked in turn, and answer so. */
static void two_answers(struct proxy_kit *w, struct played_end *c, const char *request, const char *const answers[2])
{
    struct played_server *first = NULL;

    say(c, request);
    for (size_t i = 0; i < 2 && answers[i] != NULL; i++) {
        struct played_server *s;

        ok(until(w, w->peers[0].n_conns + w->peers[1].n_conns > i), "a peer is asked");
        s = w->peers[0].n_conns > 0 && first != &w->peers[0] ? &w->peers[0] : &w->peers[1];
        first = s;
        ok(has(conn(s, 0), strncmp(request, "POST", 4) == 0 ? "abc" : JOBS), "with all of it");
        ok(got(&s->conns[0], "X-Mvproxy-If-Ready: true\r\n") && got(&s->conns[0], "X-Mvproxy-May-Deny: true\r\n") &&
               got(&s->conns[0], "X-Kubernetes-APIServer-Rerouted: true\r\n"),
           "if it is ready, and whether anybody has it");
        say(conn(s, 0), answers[i]);
        proxy_kit_settle(w);
    }
}

struct row {
    const char *what, *request, *answers[2], *text;
    bool behind, excluded;
    unsigned misses;
};

static void row(const struct row *r)
{
    struct proxy_kit w;
    struct played_end *c;

    begin(&w);
    w.behind = r->behind;
    w.jobs_excluded = w.local_has_jobs = r->excluded;
    c = start(&w);
    two_answers(&w, c, r->request, r->answers);
    ok(has(c, r->text), "%s", r->what);
    ok(!got(c, "X-Mvproxy-Unserved") && !got(c, "X-Mvproxy-Hop"), "what we told each other is not the client's");
    is_u64(w.peers[0].n_conns + w.peers[1].n_conns, r->answers[1] == NULL ? 1 : 2, "so many were asked");
    is_u64(w.cluster->suspects, 0, "and are not suspected");
    is_u64(w.cluster->peer_misses, r->misses, "but read again, lest they have it meanwhile");
    is_double(proxy_kit_metric(&w, "apiserver_rerouted_request_total", NULL), 0, "no label has a name that may be any");
    proxy_kit_close(&w);
}

int main(void)
{
    static const struct row rows[] = {
        {"both deny it: so it is", GET, {DENIES, DENIES}, "404 page not found", false, false, 2},
        {"also to a write", POST, {DENIES, DENIES}, "404 page not found", false, false, 2},
        {"who knows of all says it at once", GET, {DENIES_FOR_ALL, NULL}, "404 page not found", false, false, 1},
        {"only he, while the Leases are not followed", GET, {DENIES, DENIES_FOR_ALL}, "HTTP/1.1 404 ", true, false, 2},
        {"else it is not known", GET, {DENIES, DENIES}, "HTTP/1.1 503 ", true, false, 2},
        {"nor if one of them cannot say", GET, {NOT_READY, DENIES}, "HTTP/1.1 503 ", false, false, 2},
        {"nor the other", GET, {DENIES, NOT_READY}, "HTTP/1.1 503 ", false, false, 2},
        {"who has it after all answers", POST, {DENIES, HAS_IT}, "HTTP/1.1 200 ", false, false, 2},
        {"a custom resource that none lists any more is gone", GET, {DENIES, DENIES}, "HTTP/1.1 404 ", false, true, 2},
        {"if all say so", GET, {DENIES_FOR_ALL, DENIES}, "HTTP/1.1 404 ", false, true, 2},
        {"not one that has not learnt of it yet", GET, {DENIES_FOR_ALL, HAS_IT}, "HTTP/1.1 200 ", false, true, 2},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        row(&rows[i]);
    return tap_end();
}
