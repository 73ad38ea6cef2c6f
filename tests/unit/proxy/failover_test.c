/* SPDX-License-Identifier: Apache-2.0 */
/* The first peer is down, or full, or wanting: who is asked next, and what happens when nobody is left. */
#include "back/back.h"
#include "back/fetch.h"
#include "front/front.h"
#include "net/listener.h"
#include "net/loop.h"
#include "proxy/explain.h"
#include "unit/proxy/kit.h"

#include <stdio.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

static void ask(struct played_end *c, const char *method, const char *more)
{
    char head[1000];

    (void)snprintf(head, sizeof(head), "%s " JOBS "%s HTTP/1.1\r\nHost: k\r\n%s\r\n", method,
                   method[0] == 'D' ? "/x" : "", more);
    say(c, head);
}

static void shut_down(struct played_server *s)
{
    listener_close(s->listener);
    s->listener = NULL;
}

/* The peer that got the request, of those that have connections more than `seen`; NULL: it was answered instead. */
static struct played_server *asked(struct proxy_kit *w, struct played_end *c)
{
    struct played_server *s = NULL;

    for (unsigned turn = 0; turn < 2000 && s == NULL && !got(c, "HTTP/1.1 "); turn++) {
        loop_run_once(w->loop, 5);
        for (size_t i = 0; i < w->n_peers; i++)
            if (w->peers[i].n_conns > 0 && got(&w->peers[i].conns[0], "\r\n\r\n"))
                s = &w->peers[i];
    }
    return s;
}

static bool all_ejected(struct proxy_kit *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (origin_ejection(w->peers[i].origin, NULL) == NULL)
            return false;
    return true;
}

/* KEP-4020, test plan: "the first eligible peer is down, the request succeeds through the second", and the third. */
static void down(size_t n_down, const char *method, const char *more)
{
    struct proxy_kit w;
    struct played_end *c;
    struct played_server *s;

    proxy_kit_init(&w, 3);
    proxy_kit_start(&w);
    for (size_t i = 0; i < n_down; i++)
        shut_down(&w.peers[i]);
    /* Which one is asked first is chance: until chance has met all that are down. */
    for (unsigned turn = 0; turn < 12 || (turn < 500 && !all_ejected(&w, n_down)); turn++) {
        c = client(&w);
        ask(c, method, more);
        s = asked(&w, c);
        if (n_down == 3) {
            ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: 1\r\n"), "%s, all are down: 503, %u", method, turn);
        } else {
            ok(s != NULL, "%s, %zu are down: another is asked, %u", method, n_down, turn);
            if (s != NULL)
                say(&s->conns[0], OK_ANSWER);
            ok(has(c, "HTTP/1.1 200 "), "and answers");
            hang_up(c, STREAM_CLOSE_NOW);
            for (size_t i = 0; s != NULL && i < s->n_conns; i++)
                buf_reset(&s->conns[i].got);
        }
    }
    for (size_t i = 0; i < 3; i++)
        ok((origin_ejection(w.peers[i].origin, NULL) != NULL) == (i < n_down), "peer %zu is %s", i,
           i < n_down ? "out" : "in");
    ok(proxy_kit_metric(&w, "mvproxy_back_ejections_total", NULL) >= (double)n_down, "counted");
    ok((proxy_kit_metric(&w, "mvproxy_retries_total", "connect") > 0) == (n_down > 0), "so are retries, by reason");
    proxy_kit_close(&w);
}

/* Beyond max-requests-inflight-per-peer the next one is asked; when all are full the client waits. */
static void full(void)
{
    struct proxy_kit w;
    struct played_end *c[4];

    proxy_kit_init(&w, 3);
    w.opts.max_in_flight_per_peer = 1;
    proxy_kit_start(&w);
    for (size_t i = 0; i < 4; i++) {
        c[i] = client(&w);
        ask(c[i], "POST", "Content-Length: 0\r\n");
        if (i < 3)
            ok(until(&w, w.peers[0].n_conns + w.peers[1].n_conns + w.peers[2].n_conns == i + 1), "request %zu", i);
    }
    ok(has(c[3], "HTTP/1.1 503 ") && got(c[3], "Retry-After: 1\r\n"), "one too many: 503, and when to come back");
    ok(has(c[3], "too many requests in flight"), "which says why");
    for (size_t i = 0; i < 3; i++) {
        is_u64(w.peers[i].n_conns, 1, "peer %zu has one", i);
        ok(has(conn(&w.peers[i], 0), "\r\n\r\n"), "and got the request");
        say(conn(&w.peers[i], 0), OK_ANSWER);
    }
    for (size_t i = 0; i < 3; i++)
        ok(has(c[i], "HTTP/1.1 200 "), "request %zu is answered", i);
    proxy_kit_close(&w);
}

#define NOT_READY "HTTP/1.1 503 Service Unavailable\r\nX-Mvproxy-Try-Another: true\r\nContent-Length: 0\r\n\r\n"
#define ASKS_IF_READY "X-Mvproxy-If-Ready: true\r\n"

/* The servers of both peers wait for an etcd, say: whoever is ready is found, and if nobody is, they wait after all. */
static void not_ready(size_t n_peers, bool fails_over)
{
    struct played_server *first, *second;
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, n_peers);
    w.cluster->fails_over = fails_over;
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "POST", "Content-Length: 3\r\n");
    say(c, "abc");
    first = asked(&w, c);
    ok(has(conn(first, 0), "abc"), "%zu peers: one is asked", n_peers);
    if (n_peers == 1 || !fails_over) {
        ok(!got(conn(first, 0), "If-Ready"), "ready or not, if %s", fails_over ? "it alone has it" : "that is off");
        say(conn(first, 0), OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 "), "it answers");
        proxy_kit_close(&w);
        return;
    }
    ok(got(conn(first, 0), ASKS_IF_READY), "if its server is ready");
    second = first == &w.peers[0] ? &w.peers[1] : &w.peers[0];
    buf_reset(&first->conns[0].got);
    say(conn(first, 0), NOT_READY);
    ok(has(conn(second, 0), "abc") && got(conn(second, 0), ASKS_IF_READY), "it is not: the next one, with the body");
    say(conn(second, 0), NOT_READY);
    ok(until(&w, got(&first->conns[first->n_conns - 1], "abc")), "nobody is: the first one again");
    ok(!got(&first->conns[first->n_conns - 1], "If-Ready"), "ready or not");
    say(&first->conns[first->n_conns - 1], OK_ANSWER);
    ok(has(c, "HTTP/1.1 200 "), "its answer is the answer");
    proxy_kit_close(&w);
}

/* Of two peers one is dead, and the other one is only not ready: whichever is asked first. */
static void only_not_ready(void)
{
    struct played_end *c, *once, *again;
    struct proxy_kit w;

    for (unsigned turn = 0; turn < 8; turn++) {
        proxy_kit_init(&w, 2);
        w.cluster->fails_over = true;
        proxy_kit_start(&w);
        shut_down(&w.peers[0]);
        c = client(&w);
        ask(c, "GET", "");
        once = conn(&w.peers[1], 0);
        ok(has(once, "\r\n\r\n") && got(once, ASKS_IF_READY), "asked whether it is ready");
        buf_reset(&once->got);
        say(once, NOT_READY);
        ok(until(&w, got(again = &w.peers[1].conns[w.peers[1].n_conns - 1], "GET ")), "and once more");
        ok(!got(again, "If-Ready"), "ready or not");
        say(again, OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 "), "it answers");
        proxy_kit_close(&w);
    }
}

static void on_fetched(void *arg, const struct fetch_result *r)
{
    *(bool *)arg = r->ok;
}

/* What we ask a peer for ourselves takes no client's place under max-requests-inflight-per-peer, and needs none. */
static void own_requests(void)
{
    struct proxy_kit w;
    struct played_end *c[2];
    struct fetch_opts o = {
        .method = SLICE_LIT("GET"), .target = SLICE_LIT("/apis"), .ceiling = 1000, .timeout_ms = 60000};
    bool fetched[2] = {false, false};

    proxy_kit_init(&w, 1);
    w.opts.max_in_flight_per_peer = 1;
    proxy_kit_start(&w);
    o.origin = w.peers[0].origin;
    ok(fetch_start(w.back, w.loop, &o, on_fetched, &fetched[0]) != NULL && has(conn(&w.peers[0], 0), "GET /apis "),
       "our own look comes first");
    c[0] = client(&w);
    ask(c[0], "GET", "");
    ok(has(conn(&w.peers[0], 1), "GET " JOBS " "), "a client's request goes beside it");
    c[1] = client(&w);
    ask(c[1], "GET", "");
    ok(has(c[1], "too many requests in flight"), "a second one is too many");
    ok(fetch_start(w.back, w.loop, &o, on_fetched, &fetched[1]) != NULL && has(conn(&w.peers[0], 2), "GET /apis "),
       "another look of ours is not");
    is_u64(origin_in_flight(o.origin), 3, "three are under way");
    is_u64(origin_clients_in_flight(o.origin), 1, "one of them is a client's");
    for (size_t i = 0; i < 3; i++)
        say(conn(&w.peers[0], i), OK_ANSWER);
    ok(has(c[0], "HTTP/1.1 200 ") && until(&w, fetched[0] && fetched[1]), "all three are answered");
    is_u64(origin_clients_in_flight(o.origin), 0, "none is left");
    proxy_kit_close(&w);
}

/* Who looks into it is told of the other first, also when one request may try the outlier again. */
static void explained_last(struct proxy_kit *w)
{
    const struct explain_query q = {.method = "GET", .target = JOBS};
    const char *outlier, *good;
    struct buf out;
    struct err err;

    ok(until(w, origin_healthy(w->peers[0].origin)) && origin_ejection(w->peers[0].origin, NULL) != NULL,
       "a trial is due");
    buf_init(&out, 1 << 16);
    ok(explain_request(w->proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "explained");
    outlier = strstr(buf_slice(&out).p, origin_address(w->peers[0].origin));
    good = strstr(buf_slice(&out).p, origin_address(w->peers[1].origin));
    ok(outlier != NULL && good != NULL && good < outlier, "the outlier last: %s", buf_slice(&out).p);
    ok(strstr(buf_slice(&out).p, "\"healthy\":false") > good, "and said to be one");
    buf_free(&out);
}

/* A peer that connects and then cuts every request off is tried last after a while. */
static void outlier(void)
{
    struct proxy_kit w;
    struct played_end *c;
    unsigned turn;

    proxy_kit_init(&w, 2);
    w.peers[0].refuse = true;
    proxy_kit_start(&w);
    for (turn = 0; turn < 40 && origin_ejection(w.peers[0].origin, NULL) == NULL; turn++) {
        struct played_server *good = &w.peers[1];

        c = client(&w);
        say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
        (void)until(&w, good->n_conns > 0 && got(&good->conns[0], "\r\n\r\n"));
        say(&good->conns[0], OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 "), "request %u is answered by the other", turn);
        hang_up(c, STREAM_CLOSE_NOW);
        buf_reset(&good->conns[0].got);
    }
    ok(turn < 40, "out after %u requests", turn);
    ok(origin_ejection(w.peers[1].origin, NULL) == NULL, "the other is not");
    explained_last(&w);
    proxy_kit_close(&w);
}

#define UNAUTHORIZED "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#define TOKEN "Authorization: Bearer t\r\n"

/* The next peer that is asked says this. */
static bool next_says(struct proxy_kit *w, struct played_end *c, const char *answer)
{
    struct played_server *s = asked(w, c);

    if (s == NULL)
        return false;
    buf_reset(&s->conns[0].got);
    say(&s->conns[0], answer);
    proxy_kit_settle(w);
    return true;
}

/* Whether a token is good each server finds out for itself, and not each of them always can. */
static void unknown_token(const char *method, const char *more)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 3);
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, method, more);
    ok(next_says(&w, c, UNAUTHORIZED) && !got(c, "HTTP/1.1 "), "%s: one peer does not know the token", method);
    ok(next_says(&w, c, OK_ANSWER) && has(c, "HTTP/1.1 200 "), "another does");
    is_u64((uint64_t)proxy_kit_metric(&w, "mvproxy_retries_total", "peer-unauthorized"), 1, "counted");
    hang_up(c, STREAM_CLOSE_NOW);
    c = client(&w);
    ask(c, method, more);
    ok(next_says(&w, c, UNAUTHORIZED) && next_says(&w, c, UNAUTHORIZED) && !got(c, "HTTP/1.1 "), "two do not know it");
    ok(next_says(&w, c, UNAUTHORIZED) && has(c, "HTTP/1.1 401 "), "nor does the last: that is the answer");
    proxy_kit_close(&w);
}

/*
 * Whoever invents tokens has each of them refused by one server after the other. That is not to cost those their second
 * attempt whose tokens are good.
 */
static void invented_tokens(void)
{
    struct proxy_kit w;
    struct played_end *c;
    unsigned refused = 0;

    proxy_kit_init(&w, 2);
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "GET", TOKEN);
    ok(next_says(&w, c, OK_ANSWER) && has(c, "HTTP/1.1 200 "), "a token that is good");
    for (unsigned i = 0; i < 300; i++) {
        struct played_server *s;
        char token[64];

        buf_reset(&c->got);
        (void)snprintf(token, sizeof(token), "Authorization: Bearer invented-%u\r\n", i);
        ask(c, "GET", token);
        while ((s = asked(&w, c)) != NULL) {
            buf_reset(&s->conns[0].got);
            say(&s->conns[0], UNAUTHORIZED);
        }
        refused += got(c, "HTTP/1.1 401 ");
    }
    is_u64(refused, 300, "many that are not");
    buf_reset(&c->got);
    ask(c, "GET", TOKEN);
    ok(next_says(&w, c, UNAUTHORIZED) && !got(c, "HTTP/1.1 "), "one server does not know the good one for a moment");
    ok(next_says(&w, c, OK_ANSWER) && has(c, "HTTP/1.1 200 "), "the other is asked all the same");
    proxy_kit_close(&w);
}

/* Nobody knows who sends no token at all. */
static void anonymous(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 3);
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "GET", "");
    ok(next_says(&w, c, UNAUTHORIZED) && has(c, "HTTP/1.1 401 "), "without a token the first 401 is the answer");
    proxy_kit_close(&w);
}

/* Whoever cannot be asked says nothing of a token: the 401 that there was is the answer. */
static void unknown_token_alone(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    proxy_kit_start(&w);
    shut_down(&w.peers[1]);
    for (unsigned turn = 0; turn < 8; turn++) {
        c = client(&w);
        ask(c, "GET", TOKEN);
        (void)next_says(&w, c, UNAUTHORIZED);
        ok(has(c, "HTTP/1.1 401 ") && !got(c, "Retry-After"), "turn %u", turn);
        hang_up(c, STREAM_CLOSE_NOW);
    }
    proxy_kit_close(&w);
}

static void unknown_token_busy(void)
{
    struct played_end *first, *second;
    struct played_server *s;
    struct proxy_kit w;

    proxy_kit_init(&w, 2);
    w.opts.max_in_flight_per_peer = 1;
    proxy_kit_start(&w);
    first = client(&w);
    ask(first, "GET", "");
    s = asked(&w, first);
    buf_reset(&s->conns[0].got);
    second = client(&w);
    ask(second, "GET", TOKEN);
    (void)next_says(&w, second, UNAUTHORIZED);
    ok(has(second, "HTTP/1.1 401 "), "the other has no room: 401 is all that is known");
    proxy_kit_close(&w);
}

/* A client that holds too much for another connection has an answer, and no peer is blamed for that. */
static void client_without_room(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    proxy_kit_start(&w);
    front_update(w.front, &(struct front_opts){.max_memory = 30 << 10, .on_request = proxy_on_request, .arg = w.proxy});
    c = client(&w);
    ask(c, "GET", "");
    ok(has(c, "HTTP/1.1 429 ") && got(c, "Retry-After: 1\r\n"), "no room for a connection to a peer");
    is_u64(w.peers[0].n_conns, 0, "none was made");
    is_double(proxy_kit_metric(&w, "apiserver_peer_proxy_errors_total", "proxy_transport"), 0, "no fault of the peer");
    is_u64(w.cluster->suspects, 0, "which is not suspected");
    proxy_kit_close(&w);
}

/* By what it was: a peer that is not reached is no peer without an address. */
static void counted(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    proxy_kit_start(&w);
    shut_down(&w.peers[0]);
    c = client(&w);
    ask(c, "GET", "");
    ok(has(c, "HTTP/1.1 503 "), "nobody is left");
    is_double(proxy_kit_metric(&w, "apiserver_peer_proxy_errors_total", "proxy_transport"), 1, "not reached: counted");
    is_double(proxy_kit_metric(&w, "apiserver_peer_proxy_errors_total", "endpoint_resolution"), 0, "as that");
    proxy_kit_close(&w);
}

static void counted_without_address(void)
{
    struct origin *kept;
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    kept = w.peers[0].origin;
    w.peers[0].origin = NULL;
    proxy_kit_know(&w);
    c = client(&w);
    ask(c, "GET", "");
    ok(has(c, "HTTP/1.1 503 "), "the only peer has no address");
    is_double(proxy_kit_metric(&w, "apiserver_peer_proxy_errors_total", "endpoint_resolution"), 1, "counted");
    is_double(proxy_kit_metric(&w, "apiserver_peer_proxy_errors_total", "proxy_transport"), 0, "as that");
    w.peers[0].origin = kept;
    proxy_kit_close(&w);
}

/* An mvproxy says that its server is not ready, and there is nobody else: that is the answer, word by word. */
static void unready_alone(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "GET", "");
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n"), "the only one is asked");
    say(conn(&w.peers[0], 0), "HTTP/1.1 503 Service Unavailable\r\nX-Mvproxy-Try-Another: true\r\n"
                              "Content-Length: 8\r\n\r\nstarting");
    ok(has(c, "HTTP/1.1 503 ") && has(c, "\r\n\r\nstarting"), "what it says is the answer");
    proxy_kit_close(&w);
}

#define INDEX(hash)                                                                                                    \
    "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=" hash "\"}}}"

/* Who answers may drop what he does not know: the client is warned, and only then. */
static void warned(uint64_t local, uint64_t peer, bool away, bool peer_fails, bool warning)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_init(&w, 1);
    w.opts.newest = w.local_has_jobs = w.cluster->fails_over = true;
    w.local_schemas = INDEX("1");
    w.peer_schemas = INDEX("2");
    w.local_release = local;
    w.peer_release = peer;
    w.peers[0].refuse = peer_fails;
    w.cluster->local_state = away ? READINESS_UNREACHABLE : READINESS_READY;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    s = conn(peer_fails || (peer < local && !away) ? &w.local : &w.peers[0], 0);
    (void)has(s, "\r\n\r\n");
    say(s, OK_ANSWER);
    ok(has(c, "\r\n\r\n{}"), "%llu here, %llu there: answered", (unsigned long long)local, (unsigned long long)peer);
    is_int(got(c, "Warning: 299 - \"answered by an API server that is older"), warning, "warned or not");
    is_int(got(c, "Warning: "), warning, "nor of anything else");
    proxy_kit_close(&w);
}

/* The newest server is known not to answer: nobody waits for it where the local one does as well. */
static void newest_away(bool hangs)
{
    struct explain_query q = {"GET", JOBS, "alice", false, NULL, NULL, NULL, NULL, NULL};
    struct err err;
    struct proxy_kit w;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.opts.newest = w.local_has_jobs = w.cluster->fails_over = true;
    w.local_schemas = INDEX("1");
    w.peer_schemas = INDEX("2");
    w.local_release = 1033;
    w.peer_release = 1034;
    proxy_kit_start(&w);
    if (hangs)
        origin_suspect(w.peers[0].origin);
    else
        shut_down(&w.peers[0]);
    for (size_t i = 0; i < 3; i++) {
        struct played_end *c = client(&w), *s;

        say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n");
        s = conn(&w.local, i);
        (void)has(s, "\r\n\r\n");
        say(s, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
        ok(has(c, "\r\n\r\n{}") && got(c, "Warning: 299 - "), "request %zu: the local server, with a Warning", i);
    }
    is_double(proxy_kit_metric(&w, "mvproxy_retries_total", "older"), hangs ? 0 : 1, "found out once, if at all");
    buf_init(&out, 1 << 16);
    ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "asked why");
    ok(strstr(buf_slice(&out).p, "the local server does, with a Warning") != NULL, "%s", buf_slice(&out).p);
    buf_free(&out);
    proxy_kit_close(&w);
}

int main(void)
{
    client_without_room();
    counted();
    counted_without_address();
    warned(1033, 1034, false, false, false);
    warned(1033, 1034, false, true, true);
    warned(1034, 1033, false, false, false);
    warned(1034, 1033, true, false, true);
    warned(1034, 1034, true, false, false);
    newest_away(true);
    newest_away(false);
    unready_alone();
    down(1, "GET", "");
    down(1, "POST", "Content-Length: 0\r\n");
    down(2, "GET", "");
    down(2, "DELETE", "");
    down(3, "POST", "Content-Length: 0\r\n");
    full();
    not_ready(2, true);
    not_ready(1, true);
    not_ready(2, false);
    only_not_ready();
    own_requests();
    outlier();
    unknown_token("GET", TOKEN);
    unknown_token("POST", TOKEN "Content-Length: 0\r\n");
    invented_tokens();
    anonymous();
    unknown_token_alone();
    unknown_token_busy();
    return tap_end();
}
