/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery and the index of schemas, asked of a server that stops or starts and has not looked at the question. */
#include <stdio.h>

#include "base/limits.h"
#include "front/front.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define ASK(target, accept, more) target " HTTP/1.1\r\nHost: k\r\nAccept: " accept "\r\n" more "\r\n"
#define APIS ASK("GET /apis", V2, "")
#define FROM_A_BROWSER ASK("GET /apis", V2, "Origin: https://k\r\n") /* asked for anew each time */

/* Of kube-apiserver: with --shutdown-send-retry-after, late, and before its paths are there (kube/denial.h). */
#define PLAIN_429 "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain; charset=utf-8\r\n"
#define AWAY                                                                                                           \
    PLAIN_429 "Retry-After: 5\r\nContent-Length: 56\r\n\r\n"                                                           \
              "The apiserver is shutting down, please try again later.\n"
#define STATUS_503(length) "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n" length "\r\n"
#define STOPPING                                                                                                       \
    STATUS_503("Transfer-Encoding: chunked\r\n")                                                                       \
    "10\r\n{\"kind\":\"Status\"\r\n29\r\n,\"message\":\"apiserver is shutting down\"}\n\r\n0\r\n\r\n"
#define STARTING                                                                                                       \
    STATUS_503("Content-Length: 104\r\n")                                                                              \
    "{\"kind\":\"Status\",\"message\":\"the request has been made before all known HTTP paths have been "              \
    "installed\"}\n"

/* Priority and fairness; a filter; an aggregated API. Not to be handed on, or not to be understood. */
#define BUSY                                                                                                           \
    PLAIN_429 "Retry-After: 1\r\nX-Kubernetes-Pf-Flowschema-Uid: f\r\nContent-Length: 43\r\n\r\n"                      \
              "Too many requests, please try again later.\n"
#define UNAVAILABLE STATUS_503("Content-Length: 37\r\n") "{\"kind\":\"Status\",\"message\":\"no luck\"}"
#define NO_TEXT STATUS_503("Content-Length: 0\r\n")

#define OK_200(length, body) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n" body
#define NOT_MODIFIED "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n"
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nlost"

static const struct question {
    const char *request, *answer, *want; /* of the server that answers; of ours */
} questions[] = {
    {APIS, NOT_MODIFIED, "\"resource\":\"jobs\""},
    {ASK("GET /api", V2, ""), NOT_MODIFIED, "\"resource\":\"jobs\""},
    {ASK("GET /apis", "application/json", ""), OK_200("13", "{\"groups\":[]}"), "\"name\":\"batch\""},
    {ASK("GET /apis/batch", "application/json", ""), NOT_FOUND, "\"name\":\"batch\""},
    {ASK("GET /apis/batch/v1", "application/json", ""), NOT_FOUND, "\"name\":\"jobs\""},
    {ASK("HEAD /apis/batch/v1", "application/json", ""), NOT_FOUND, "\r\n\r\n"},
    {ASK("GET /api/v1", "application/json", ""), OK_200("4", "core"), "core"},
    {ASK("GET /openapi/v3", "application/json", ""), OK_200("5", "index"), "index"},
};

static void start(struct proxy_kit *w, size_t n_peers)
{
    proxy_kit_init(w, n_peers);
    w->opts.legacy_discovery = w->cluster->fails_over = true;
    proxy_kit_start(w);
}

/* A request to this server is there. */
static struct played_end *asked(struct played_server *s)
{
    (void)has(conn(s, 0), "\r\n\r\n");
    return conn(s, 0);
}

static const char *const denials[] = {AWAY, STOPPING, STARTING};

static void local_denies(const struct question *q, const char *denial)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1);
    c = client(&w);
    say(c, q->request);
    say(asked(&w.local), denial);
    ok(has(asked(&w.peers[0]), "\r\n\r\n"), "%.20s: a server that has not looked at it: the peer is asked", q->request);
    ok(!got(c, "HTTP/1.1"), "the client hears nothing yet");
    is_u64(w.cluster->local_failures, 1, "the cluster hears of it");
    is_int(w.cluster->local_state, READINESS_READY, "and not that it is away");
    say(asked(&w.peers[0]), q->answer);
    ok(has(c, "HTTP/1.1 200 ") && has(c, q->want), "and the client gets what it asked for");
    is_u64(w.local.n_conns, 1, "the local server is asked once");
    proxy_kit_close(&w);
}

/* It says nothing, and what it is asked is given up: a peer is asked, but for want of one it may still answer. */
static void local_hangs(const struct question *q, bool alone)
{
    struct played_end *c, *who;
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = w.cluster->fails_over = true;
    w.peers_lapsed = alone;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, q->request);
    (void)asked(&w.local);
    origin_fail_unanswered(w.opts.local, "its etcd is away");
    who = alone ? conn(&w.local, 1) : conn(&w.peers[0], 0);
    ok(has(who, "\r\n\r\n"), "%.20s: a server that hangs: %s", q->request, alone ? "nobody else is there" : "the peer");
    origin_fail_unanswered(w.opts.local, "its etcd is away");
    proxy_kit_settle(&w);
    is_u64(w.local.n_conns, 1 + alone, "given up once at most");
    say(who, q->answer);
    ok(has(c, "HTTP/1.1 ") && (alone || has(c, q->want)), "and the client gets its answer");
    is_u64(w.cluster->suspects, 0, "nobody is blamed");
    proxy_kit_close(&w);
}

/* Byte for byte, and nobody else is asked. */
static void relayed(const struct question *q, const char *answer, bool fails_over)
{
    const char *body = strstr(answer, "\r\n\r\n") + 4;
    bool head_only = strncmp(q->request, "HEAD", 4) == 0;
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1);
    w.cluster->fails_over = fails_over;
    c = client(&w);
    say(c, q->request);
    say(asked(&w.local), answer);
    (void)has(c, "\r\n\r\n");
    ok(strncmp(buf_slice(&c->got).p, answer, 12) == 0, "%.20s: relayed: %.12s", q->request, answer);
    ok(head_only || has(c, body), "with its body");
    ok((strstr(answer, "Retry-After: 1\r\n") != NULL) == got(c, "Retry-After: 1\r\n") &&
           (strstr(answer, "Flowschema") != NULL) == got(c, "Flowschema"),
       "and its fields");
    is_u64(w.peers[0].n_conns + w.cluster->local_failures, 0, "and nobody else is asked");
    proxy_kit_close(&w);
}

/* Whether it says so, or turns out to be. */
static void too_long(const struct question *q, bool announced)
{
    static char text[LIMIT_DENIAL_BODY + 2];
    struct proxy_kit w;
    struct played_end *c;

    memset(text, 't', sizeof(text) - 1);
    start(&w, 1);
    c = client(&w);
    say(c, q->request);
    say(asked(&w.local), PLAIN_429);
    say(conn(&w.local, 0), announced ? "Content-Length: 4103\r\n\r\n" : "Transfer-Encoding: chunked\r\n\r\n3\r\n");
    say(conn(&w.local, 0), "abc");
    proxy_kit_settle(&w);
    ok(got(c, "HTTP/1.1 429 ") == announced, "%.20s: what says that it is too long is not held back", q->request);
    say(conn(&w.local, 0), announced ? "" : "\r\n1001\r\n");
    say(conn(&w.local, 0), text);
    say(conn(&w.local, 0), announced ? "end" : "\r\n3\r\nend\r\n0\r\n\r\n");
    ok(has(c, "end") && got(c, "abc") && got(c, "HTTP/1.1 429 ") && buf_len(&c->got) > LIMIT_DENIAL_BODY + 7,
       "and all of it is relayed");
    is_u64(w.peers[0].n_conns, 0, "nobody else is asked");
    proxy_kit_close(&w);
}

/* In the place of the local server, which is known to be away: the other one, or after all the local server. */
static void peer_denies(const struct question *q, size_t n_peers)
{
    struct played_server *first, *next;
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, n_peers);
    w.opts.legacy_discovery = w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_STARTING;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, q->request);
    (void)until(&w, w.peers[0].n_conns + w.peers[1].n_conns > 0);
    first = &w.peers[w.peers[0].n_conns == 0];
    next = n_peers == 1 ? &w.local : &w.peers[w.peers[0].n_conns > 0];
    say(asked(first), AWAY);
    ok(has(asked(next), "\r\n\r\n") && !got(c, "HTTP/1.1"), "%.20s: a peer stops: the next of %zu", q->request,
       n_peers);
    is_u64(w.cluster->suspects, 1, "who stops is looked at");
    say(conn(next, 0), q->answer);
    ok(has(c, "HTTP/1.1 200 ") && has(c, q->want), "and the client gets what it asked for");
    proxy_kit_close(&w);
}

/* It is in trouble of its own, as its body shows: who may read all of discovery somebody else can still say. */
static void peer_in_trouble(const char *trouble)
{
    struct played_end *c;
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_STARTING;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, APIS);
    say(asked(&w.peers[0]), trouble);
    ok(has(asked(&w.local), "\r\n\r\n") && !got(c, "HTTP/1.1"), "%.40s: the local server is asked after all", trouble);
    is_u64(w.cluster->suspects, 0, "nobody is blamed");
    say(conn(&w.local, 0), NOT_MODIFIED);
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\"resource\":\"jobs\""), "and the client gets what it asked for");
    proxy_kit_close(&w);
}

/* Nobody is asked, and no peer is blamed: any of them would have been no better. */
static void client_without_room(const struct question *q)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    w.opts.legacy_discovery = w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_STARTING;
    proxy_kit_start(&w);
    front_update(w.front, &(struct front_opts){.max_memory = 30 << 10, .on_request = proxy_on_request, .arg = w.proxy});
    c = client(&w);
    say(c, q->request);
    ok(has(c, "HTTP/1.1 429 "), "%.20s: no room for a connection", q->request);
    is_u64(w.peers[0].n_conns + w.peers[1].n_conns + w.local.n_conns, 0, "none is made");
    is_u64(w.cluster->suspects, 0, "and nobody is suspected");
    proxy_kit_close(&w);
}

/* The last one's own words; or, where only leave was asked for, the local server's in the form that the client wants.
 */
static void all_deny(const struct question *q)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1);
    c = client(&w);
    say(c, q->request);
    say(asked(&w.local), AWAY);
    buf_reset(&conn(&w.local, 0)->got);
    say(asked(&w.peers[0]), AWAY);
    proxy_kit_settle(&w);
    if (got(conn(&w.local, 0), "\r\n\r\n"))
        say(conn(&w.local, 0), AWAY);
    ok(has(c, "HTTP/1.1 429 ") && has(c, "Retry-After: 5\r\n"), "%.20s: all stop: in their own words", q->request);
    proxy_kit_close(&w);
}

/* Who was let in is still let in: it was not the question that was refused. But after any other trouble he asks anew.
 */
static void who_may_read(const char *trouble, bool remembered)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1);
    c = client(&w);
    say(c, APIS);
    say(asked(&w.local), NOT_MODIFIED);
    ok(has(c, "\"resource\":\"jobs\""), "let in");
    buf_reset(&c->got);
    buf_reset(&conn(&w.local, 0)->got);
    say(c, FROM_A_BROWSER);
    say(asked(&w.local), trouble);
    if (remembered)
        say(asked(&w.peers[0]), NOT_MODIFIED);
    (void)has(c, remembered ? "\"resource\":\"jobs\"" : "\r\n\r\n");
    proxy_kit_settle(&w);
    buf_reset(&c->got);
    buf_reset(&conn(&w.local, 0)->got);
    say(c, APIS);
    ok(remembered ? has(c, "\"resource\":\"jobs\"") : has(conn(&w.local, 0), "GET /apis "), "%.40s: %s", trouble,
       remembered ? "still" : "asked again");
    ok(got(conn(&w.local, 0), "GET /apis ") != remembered, "as it should");
    proxy_kit_close(&w);
}

static void answer(struct played_server *s, const char *text)
{
    for (size_t i = 0; i < s->n_conns; i++) {
        if (s->conns[i].s == NULL || !got(&s->conns[i], "\r\n\r\n"))
            continue;
        buf_reset(&s->conns[i].got);
        say(&s->conns[i], text);
    }
}

/* One allocation fails from the server's words on. */
static void short_of_memory(const struct question *q, uint64_t nth)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1);
    w.short_of_memory = true;
    c = client(&w);
    say(c, q->request);
    (void)asked(&w.local);
    mem_fail_nth(nth);
    for (unsigned i = 0; i < 1000 && !c->eof && !c->failed && !got(c, "HTTP/1.1 "); i++) {
        answer(&w.local, AWAY);
        answer(&w.peers[0], q->answer);
        loop_run_once(w.loop, 2);
    }
    mem_fail_nth(0);
    ok(c->eof || c->failed || got(c, "HTTP/1.1 "), "%.20s, allocation %u: it ends", q->request, (unsigned)nth);
    ok(!got(c, "HTTP/1.1 404 "), "and nothing is said not to be there");
    proxy_kit_close(&w);
}

int main(void)
{
    static const char *const troubles[] = {BUSY, UNAVAILABLE, NO_TEXT};
    enum { ALLOCATIONS = 24 };

    for (size_t i = 0; i < ROWS(questions); i++) {
        for (size_t k = 0; k < ROWS(denials); k++) {
            local_denies(&questions[i], denials[k]);
            relayed(&questions[i], denials[k], false);
        }
        for (size_t k = 0; k < ROWS(troubles); k++)
            relayed(&questions[i], troubles[k], true);
        if (strncmp(questions[i].request, "HEAD", 4) != 0) {
            too_long(&questions[i], true);
            too_long(&questions[i], false);
        }
        peer_denies(&questions[i], 1);
        peer_denies(&questions[i], 2);
        client_without_room(&questions[i]);
        all_deny(&questions[i]);
        local_hangs(&questions[i], false);
        local_hangs(&questions[i], true);
        for (uint64_t nth = 1; i % 2 == 0 && nth <= ALLOCATIONS; nth++)
            short_of_memory(&questions[i], nth);
    }
    peer_in_trouble(BUSY);
    peer_in_trouble(UNAVAILABLE);
    who_may_read(AWAY, true);
    who_may_read(BUSY, false);
    return tap_end();
}
