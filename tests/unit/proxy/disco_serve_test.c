/* SPDX-License-Identifier: Apache-2.0 */
/* `/apis`: who gets the merged document, in which form, and what is asked of the local server for it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "front/front.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define V2BETA1 "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#define PROTOBUF "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define PROTOBUF_V2BETA1 "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#define ASK(method, accept, more)                                                                                      \
    method " /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " accept "\r\n" more "\r\n"
#define NOT_MODIFIED "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n"

static void allowed(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, "If-None-Match: \"mine\"\r\nAccept-Encoding: gzip\r\n"));
    s = conn(&w.local, 0);
    ok(has(s, "GET /apis HTTP/1.1"), "the local server is asked");
    ok(got(s, "Authorization: Bearer t\r\n"), "with the client's credential");
    ok(got(s, "If-None-Match: \"L\"\r\n") && !got(s, "\"mine\""), "and our condition instead of the client's");
    ok(got(s, "profile=nopeer"), "for its own document");
    say(s, NOT_MODIFIED);
    ok(has(c, proxy_kit_document()), "the merged document comes");
    ok(got(c, "ETag: " PROXY_KIT_ETAG "\r\n") && got(c, "Vary: Accept\r\n") && got(c, "Cache-Control: public\r\n"),
       "with its fields");
    ok(got(c, "Content-Type: " V2 "\r\n"), "and type");
    buf_reset(&c->got);
    say(c, ASK("GET", V2, "If-None-Match: " PROXY_KIT_ETAG "\r\n"));
    ok(has(c, "HTTP/1.1 304 "), "conditionally: 304, without asking again");
    ok(!got(c, "Content-Type") && got(c, "ETag: "), "with the fields of a 304");
    buf_reset(&c->got);
    buf_reset(&s->got);
    say(c, ASK("HEAD", V2, ""));
    ok(has(s, "HEAD /apis HTTP/1.1") && has(s, "\r\n\r\n"), "HEAD is another verb: asked for anew");
    say(s, NOT_MODIFIED);
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\r\n\r\n") && !got(c, "{"), "HEAD: no body");
    buf_reset(&c->got);
    say(c, ASK("GET", V2BETA1, ""));
    ok(has(c, "v=v2beta1"), "v2beta1");
    is_u64(w.local.n_conns, 1, "all over one connection");
    is_double(proxy_kit_metric(&w, "aggregator_discovery_peer_aggregated_cache_hits_total", NULL), 4, "counted");
    say(c, "GET /apis?pretty=1 HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " V2 "\r\n\r\n");
    ok(has(c, "{\n  \"kind\""), "pretty");
    proxy_kit_close(&w);
}

static void changed_locally(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nETag: \"L2\"\r\nContent-Length: 5\r\n\r\nlocal");
    ok(has(c, proxy_kit_document()), "200 means yes as well");
    ok(!got(c, "local"), "and its body is not the answer");
    is_str(w.cluster->seen_etag, "\"L2\"", "the news is passed on");
    proxy_kit_close(&w);
}

#define CORS(n) "Access-Control-" n ": o\r\n"

/* What counts for a browser is the verdict that the answer rests on, and not one that broke off before. */
static void verdict_breaks_off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, ASK("GET", V2, "Origin: https://k\r\n"));
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" CORS("1") CORS("2") CORS("3") CORS("4")
                                  CORS("5") CORS("6") CORS("7") CORS("8") "\r\nhalf");
    proxy_kit_settle(&w);
    hang_up(conn(&w.peers[0], 0), STREAM_CLOSE_ABORT);
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "a peer's verdict breaks off: the local server is asked after all");
    say(conn(&w.local, 0), "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n" CORS("Local") "\r\n");
    ok(has(c, proxy_kit_document()) && got(c, CORS("Local")), "its fields for a browser are there");
    ok(!got(c, CORS("1")) && !got(c, CORS("8")), "and no others");
    proxy_kit_close(&w);
}

/* The refusal comes in the form that the client asked for: our question had another Accept. */
static void denied(void)
{
    static const unsigned statuses[] = {401, 403};

    for (size_t i = 0; i < ROWS(statuses); i++) {
        char answer[100];
        struct proxy_kit w;
        struct played_end *s;

        (void)snprintf(answer, sizeof(answer), "HTTP/1.1 %u No\r\nContent-Length: 4\r\n\r\n", statuses[i]);
        proxy_kit_open(&w, 1);
        for (size_t round = 0; round < 2; round++) {
            struct played_end *c = client(&w);

            say(c, ASK("GET", V2, "User-Agent: curl/8\r\n"));
            s = conn(&w.local, 0);
            ok(has(s, "profile=nopeer") && has(s, "\r\n\r\n"), "%u: asked, %s", statuses[i],
               round == 0 ? "once" : "and a no is not remembered");
            buf_reset(&s->got);
            say(s, answer);
            say(s, "mine");
            ok(has(s, "\r\n\r\n") && got(s, "Accept: " V2 "\r\n") && got(s, "User-Agent: curl/8\r\n") &&
                   !got(s, "If-None-Match"),
               "%u: the client's own request follows", statuses[i]);
            buf_reset(&s->got);
            say(s, answer);
            say(s, "nope");
            ok(has(c, "nope") && got(c, " No\r\n") && !got(c, "mine"), "%u: and its answer", statuses[i]);
            ok(!got(c, "jobs"), "%u: without a word of the document", statuses[i]);
        }
        is_u64(w.local.n_conns, 1, "%u: all on one connection", statuses[i]);
        proxy_kit_close(&w);
    }
}

/* In the place of the local server, which is away. */
static void peer_denies(void)
{
    char *logged = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&logged, &n);
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.access_log.all = w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    w.peer_host = "cp-b";
    proxy_kit_start(&w);
    log_set_stream(log);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    say(conn(&w.peers[0], 0), "HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope");
    ok(has(c, "nope"), "a peer's no");
    proxy_kit_settle(&w);
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(logged, "peer=\"cp-b\"") != NULL, "is logged by its host: %s", logged);
    free(logged);
    proxy_kit_close(&w);
}

static void in_trouble(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy");
    ok(has(c, "HTTP/1.1 429 ") && has(c, "busy"), "the local server's trouble is relayed");
    proxy_kit_close(&w);
}

/* Lets the reader in; its document follows. */
static void allow(struct proxy_kit *w)
{
    (void)has(conn(&w->local, 0), "\r\n\r\n");
    say(conn(&w->local, 0), NOT_MODIFIED);
}

static void protobuf(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", PROTOBUF, ""));
    allow(&w);
    ok(until(&w, proxy_kit_waiting(&w)) && buf_len(&c->got) == 0, "not there yet: it waits");
    w.has_protobuf = true;
    proxy_kit_know(&w);
    proxy_kit_refreshed(&w);
    ok(has(c, "\r\n\r\n" PROXY_KIT_PROTOBUF), "the protobuf form");
    ok(got(c, "Content-Type: " PROTOBUF "\r\n") && got(c, "ETag: " PROXY_KIT_ETAG "\r\n") &&
           got(c, "Vary: Accept\r\n") && got(c, "Cache-Control: public\r\n"),
       "with its fields");
    buf_reset(&c->got);
    say(c, ASK("GET", PROTOBUF_V2BETA1 "," V2, "User-Agent: curl/8\r\n"));
    ok(has(c, PROXY_KIT_PROTOBUF) && got(c, PROTOBUF_V2BETA1 "\r\n"), "the first clause wins; it is never laid out");
    buf_reset(&c->got);
    say(c, ASK("GET", PROTOBUF, "If-None-Match: " PROXY_KIT_ETAG "\r\n"));
    ok(has(c, "HTTP/1.1 304 "), "the same tag as JSON's");
    buf_reset(&c->got);
    buf_reset(&conn(&w.local, 0)->got);
    say(c, ASK("HEAD", PROTOBUF, ""));
    allow(&w);
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\r\n\r\n") && !got(c, "merged"), "HEAD");
    is_int(w.cluster->wanted_protobuf, 1, "wanted once");
    proxy_kit_close(&w);
}

/* Laid out for people, and compressed if that is said to be long, be the compact form ever so small. */
static void pretty(void)
{
    static const struct {
        size_t elements;
        bool gzipped;
    } rows[] = {{10, false}, {10000, false}, {26300, true}, {100000, true}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct proxy_kit w;
        struct played_end *c;
        struct buf text;

        buf_init(&text, 1 << 20);
        buf_append_char(&text, '[');
        for (size_t k = 0; k < rows[i].elements; k++)
            buf_append_str(&text, k == 0 ? "1" : ",1");
        buf_append(&text, SLICE_LIT("]\0"));
        proxy_kit_init(&w, 1);
        w.document = text.p;
        w.document_is_long = rows[i].gzipped;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, ASK("GET", V2, "User-Agent: Wget/1\r\nAccept-Encoding: gzip\r\n"));
        allow(&w);
        ok(has(c, "\r\n0\r\n\r\n") && got(c, "Transfer-Encoding: chunked\r\n"), "%zu elements: sent in pieces",
           rows[i].elements);
        ok(got(c, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n") == rows[i].gzipped, "%zu: compressed or not",
           rows[i].elements);
        buf_reset(&c->got);
        say(c, ASK("GET", V2 ";pretty=1", ""));
        ok(has(c, "  1\n]\r\n0\r\n\r\n") && !got(c, "gzip"), "%zu: all of it", rows[i].elements);
        ok(buf_len(&c->got) > 5 * rows[i].elements, "%zu: each on its line", rows[i].elements);
        buf_reset(&c->got);
        buf_reset(&conn(&w.local, 0)->got);
        say(c, "HEAD /apis?pretty=true HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " V2 "\r\n\r\n");
        allow(&w);
        ok(has(c, "HTTP/1.1 200 ") && has(c, "\r\n\r\n") && !got(c, "  1"), "%zu: HEAD", rows[i].elements);
        proxy_kit_close(&w);
        buf_free(&text);
    }
}

/* What compresses to nearly nothing is never held up by its reader, and yet not made in one turn of the loop. */
static void pretty_in_turns(void)
{
    enum { ELEMENTS = 2 << 20, LEAST_TURNS = 5, LEAST_BYTES = 320 << 10 };
    struct proxy_kit w;
    struct played_end *c;
    struct buf text;
    unsigned turns = 0;
    size_t most = 0;

    buf_init(&text, 8 << 20);
    buf_append_char(&text, '[');
    for (size_t k = 0; k < ELEMENTS; k++)
        buf_append_str(&text, k == 0 ? "1" : ",1");
    buf_append(&text, SLICE_LIT("]\0"));
    proxy_kit_init(&w, 1);
    w.document = text.p;
    w.document_is_long = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, ASK("GET", V2, "User-Agent: Wget/1\r\nAccept-Encoding: gzip\r\n"));
    allow(&w);
    while (!got(c, "\r\n0\r\n\r\n") && turns < 100000) {
        loop_run_once(w.loop, 5);
        turns++;
        if (front_memory(w.front) > most)
            most = front_memory(w.front);
    }
    ok(got(c, "Content-Encoding: gzip") && turns >= LEAST_TURNS, "made in %u turns", turns);
    ok(most >= LEAST_BYTES, "its client is charged with what that takes (%zu bytes)", most);
    ok(front_memory(w.front) < most - LEAST_BYTES, "for as long (%zu bytes)", front_memory(w.front));
    proxy_kit_close(&w);
    buf_free(&text);
}

static void no_protobuf(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->no_protobuf = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, ASK("GET", PROTOBUF "," V2BETA1, ""));
    allow(&w);
    ok(has(c, proxy_kit_document()) && got(c, "Content-Type: " V2BETA1 "\r\n"), "no protobuf: what else is accepted");
    buf_reset(&c->got);
    buf_reset(&conn(&w.local, 0)->got);
    say(c, ASK("GET", PROTOBUF, ""));
    ok(has(conn(&w.local, 0), "Accept: " PROTOBUF "\r\n"), "nothing else is: the local server's");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlocal");
    ok(has(c, "\r\n\r\nlocal"), "answer");
    w.cluster->no_protobuf = false;
    buf_reset(&c->got);
    say(c, ASK("GET", PROTOBUF "," V2BETA1, ""));
    ok(until(&w, proxy_kit_waiting(&w)), "one that is waited for");
    proxy_kit_refreshed(&w);
    ok(has(c, proxy_kit_document()) && got(c, "Content-Type: " V2BETA1 "\r\n"), "and could not be made: the same");
    proxy_kit_close(&w);
}

/* Another one has wanted it, and has it, while this one was being judged. */
static void protobuf_meanwhile(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", PROTOBUF, ""));
    ok(has(conn(&w.local, 0), "GET /apis"), "it is judged");
    w.has_protobuf = w.cluster->no_protobuf = true;
    proxy_kit_know(&w);
    allow(&w);
    ok(has(c, "\r\n\r\n" PROXY_KIT_PROTOBUF), "the merged document, and not the local server's");
    proxy_kit_close(&w);
}

static void gone_while_waiting(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", PROTOBUF, ""));
    allow(&w);
    (void)until(&w, proxy_kit_waiting(&w));
    hang_up(c, STREAM_CLOSE_NOW);
    ok(until(&w, !proxy_kit_waiting(&w)), "a client that goes while it waits is forgotten");
    proxy_kit_close(&w);
}

static void verdict_fails(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local.refuse = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "no verdict, no document");
    ok(!got(c, "jobs"), "not a word of it");
    proxy_kit_close(&w);
}

static void peers_unread(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->unread_peers = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "before the peers were asked: 503");
    ok(until(&w, c->eof), "and the client had better ask elsewhere");
    is_u64(w.local.n_conns, 0, "the local server is not all there is");
    c = client(&w);
    say(c, ASK("GET", V2 ";profile=nopeer", ""));
    ok(has(conn(&w.local, 0), "GET /apis "), "whoever wants the local server alone gets it");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlocal");
    ok(has(c, "\r\n\r\nlocal"), "as ever");
    is_double(proxy_kit_metric(&w, "aggregator_discovery_nopeer_requests_total", NULL), 1, "counted");
    w.cluster->unread_peers = false;
    buf_reset(&c->got);
    say(c, ASK("GET", V2, ""));
    ok(has(conn(&w.local, 0), "If-None-Match"), "afterwards the local server is asked who may read");
    say(conn(&w.local, 0), NOT_MODIFIED);
    ok(has(c, proxy_kit_document()), "and the merged document comes");
    proxy_kit_close(&w);
}

static const struct {
    const char *name, *request;
} untouched[] = {
    {"legacy", ASK("GET", "application/json", "")},
    {"nopeer", ASK("GET", V2 ";profile=nopeer", "")},
    {"POST", ASK("POST", V2, "Content-Length: 0\r\n")},
    {"/apis/", "GET /apis/ HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n"},
};

static void passed_on(void)
{
    for (size_t i = 0; i < ROWS(untouched); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_open(&w, 1);
        c = client(&w);
        say(c, untouched[i].request);
        ok(has(conn(&w.local, 0), "\r\n\r\n"), "%s: goes to the local server", untouched[i].name);
        ok(!got(conn(&w.local, 0), "If-None-Match"), "%s: as it is", untouched[i].name);
        say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlocal");
        ok(has(c, "\r\n\r\nlocal"), "%s: whose answer it gets", untouched[i].name);
        proxy_kit_close(&w);
    }
}

/* Servers take no notice of it on a GET of discovery; the local one alone would deny what others have. */
static void with_more(void)
{
    static const char *const more[] = {ASK("GET", V2, "Content-Length: 1\r\n") "x",
                                       ASK("GET", V2, "Transfer-Encoding: chunked\r\n") "0\r\n\r\n",
                                       ASK("GET", V2, "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
                                       ASK("GET", V2, "Content-Length: 1\r\nExpect: 100-continue\r\n")};

    for (size_t i = 0; i < ROWS(more); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_open(&w, 1);
        c = client(&w);
        say(c, more[i]);
        ok(has(conn(&w.local, 0), "If-None-Match") && has(conn(&w.local, 0), "\r\n\r\n"), "%zu: may it be read", i);
        ok(!got(conn(&w.local, 0), "Content-Length") && !got(conn(&w.local, 0), "Upgrade") &&
               !got(conn(&w.local, 0), "chunked") && !got(conn(&w.local, 0), "Expect"),
           "%zu: by a GET as any", i);
        say(conn(&w.local, 0), NOT_MODIFIED);
        ok(has(c, proxy_kit_document()), "%zu: the merged document", i);
        proxy_kit_close(&w);
    }
}

/* Rules for paths tell /api from /api/, so a verdict on the one says nothing of the other; the document is the same. */
static void with_slash(void)
{
    static const char *const paths[] = {"/api", "/api/"};
    struct proxy_kit w;
    struct played_end *c, *s;
    char text[256];

    proxy_kit_open(&w, 1);
    c = client(&w);
    for (size_t i = 0; i < ROWS(paths); i++) {
        buf_reset(&c->got);
        (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n", paths[i]);
        say(c, text);
        s = conn(&w.local, 0);
        (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n", paths[i]);
        ok(has(s, text) && has(s, "If-None-Match"), "%s: the local server is asked", paths[i]);
        say(s, NOT_MODIFIED);
        ok(has(c, proxy_kit_document()), "%s: the merged document", paths[i]);
    }
    proxy_kit_close(&w);
}

static void old_verdict_after_reload(void)
{
    struct proxy_kit w;
    struct played_end *c;
    size_t before;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    proxy_kit_reload(&w, &w.opts); /* while the local server thinks */
    say(conn(&w.local, 0), NOT_MODIFIED);
    ok(has(c, proxy_kit_document()), "the verdict holds for its request");
    before = buf_len(&conn(&w.local, 0)->got);
    say(c, ASK("GET", V2, ""));
    ok(until(&w, buf_len(&conn(&w.local, 0)->got) > before), "and is asked for anew by the next");
    say(conn(&w.local, 0), NOT_MODIFIED);
    proxy_kit_settle(&w);
    proxy_kit_close(&w);
}

/* As kube-apiserver has it: it counts those who ask for the aggregated form by the path, and the others without. */
static void counted_by_path(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), NOT_MODIFIED);
    ok(has(c, proxy_kit_document()), "the aggregated form");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "apis"), 1, "is counted as such");
    say(c, ASK("GET", "application/json", ""));
    (void)has(conn(&w.local, 0), "Accept: application/json\r\n");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nlegacy");
    ok(has(c, "legacy"), "another form");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "apis"), 1, "is not");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", NULL), 2, "but among all");
    proxy_kit_close(&w);
}

int main(void)
{
    allowed();
    changed_locally();
    verdict_breaks_off();
    denied();
    peer_denies();
    in_trouble();
    protobuf();
    pretty();
    pretty_in_turns();
    no_protobuf();
    protobuf_meanwhile();
    gone_while_waiting();
    verdict_fails();
    peers_unread();
    passed_on();
    with_more();
    with_slash();
    old_verdict_after_reload();
    counted_by_path();
    return tap_end();
}
