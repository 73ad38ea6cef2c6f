/* `/apis`: who gets the merged document, in which form, and what is asked of the local server for it. */
#include "net/loop.h"
#include "unit/proxy/world.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define V2BETA1 "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#define ASK(method, accept, more)                                                                                      \
    method " /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " accept "\r\n" more "\r\n"
#define NOT_MODIFIED "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n"

static void allowed(void)
{
    struct world w;
    struct side *c, *s;

    world_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, "If-None-Match: \"mine\"\r\nAccept-Encoding: gzip\r\n"));
    s = conn(&w.local, 0);
    ok(has(s, "GET /apis HTTP/1.1"), "the local server is asked");
    ok(got(s, "Authorization: Bearer t\r\n"), "with the client's credential");
    ok(got(s, "If-None-Match: \"L\"\r\n") && !got(s, "\"mine\""), "and our condition instead of the client's");
    ok(got(s, "profile=nopeer"), "for its own document");
    say(s, NOT_MODIFIED);
    ok(has(c, world_document()), "the merged document comes");
    ok(got(c, "ETag: " WORLD_ETAG "\r\n") && got(c, "Vary: Accept\r\n") && got(c, "Cache-Control: public\r\n"),
       "with its fields");
    ok(got(c, "Content-Type: " V2 "\r\n"), "and type");
    buf_reset(&c->got);
    say(c, ASK("GET", V2, "If-None-Match: " WORLD_ETAG "\r\n"));
    ok(has(c, "HTTP/1.1 304 "), "conditionally: 304, without asking again");
    ok(!got(c, "Content-Type") && got(c, "ETag: "), "with the fields of a 304");
    buf_reset(&c->got);
    say(c, ASK("HEAD", V2, ""));
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\r\n\r\n") && !got(c, "{"), "HEAD: no body");
    buf_reset(&c->got);
    say(c, ASK("GET", V2BETA1, ""));
    ok(has(c, "v=v2beta1"), "v2beta1");
    is_u64(w.local.n_conns, 1, "all for one question");
    is_double(world_metric(&w, "aggregator_discovery_peer_aggregated_cache_hits_total", NULL), 4, "counted");
    say(c, "GET /apis?pretty=1 HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " V2 "\r\n\r\n");
    ok(has(c, "{\n  \"kind\""), "pretty");
    world_close(&w);
}

static void changed_locally(void)
{
    struct world w;
    struct side *c;

    world_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nETag: \"L2\"\r\nContent-Length: 5\r\n\r\nlocal");
    ok(has(c, world_document()), "200 means yes as well");
    ok(!got(c, "local"), "and its body is not the answer");
    is_str(w.seen_etag, "\"L2\"", "the news is passed on");
    world_close(&w);
}

static void denied(void)
{
    struct world w;
    struct side *c;

    world_open(&w, 1);
    for (size_t i = 0; i < 2; i++) {
        c = client(&w);
        say(c, ASK("GET", V2, ""));
        (void)until(&w, i == 0 ? w.local.n_conns > 0 && got(&w.local.conns[0], "\r\n\r\n") : w.misses == 0);
        if (i == 1)
            (void)until(&w, buf_len(&w.local.conns[0].got) > 0);
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        buf_reset(&w.local.conns[0].got);
        say(conn(&w.local, 0), "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope");
        ok(has(c, "HTTP/1.1 403 ") && has(c, "nope"), "a no is relayed, %s", i == 0 ? "once" : "and not remembered");
        ok(!got(c, "jobs"), "without a word of the document");
    }
    world_close(&w);
}

static void verdict_fails(void)
{
    struct world w;
    struct side *c;

    world_init(&w, 1);
    w.local.refuse = true;
    world_start(&w);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "no verdict, no document");
    ok(!got(c, "jobs"), "not a word of it");
    world_close(&w);
}

static const struct {
    const char *name, *request;
} untouched[] = {
    {"legacy", ASK("GET", "application/json", "")},
    {"nopeer", ASK("GET", V2 ";profile=nopeer", "")},
    {"a body", ASK("GET", V2, "Content-Length: 1\r\n") "x"},
    {"POST", ASK("POST", V2, "Content-Length: 0\r\n")},
    {"/apis/", "GET /apis/ HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n"},
};

static void passed_on(void)
{
    for (size_t i = 0; i < ROWS(untouched); i++) {
        struct world w;
        struct side *c;

        world_open(&w, 1);
        c = client(&w);
        say(c, untouched[i].request);
        ok(has(conn(&w.local, 0), "\r\n\r\n"), "%s: goes to the local server", untouched[i].name);
        ok(!got(conn(&w.local, 0), "If-None-Match"), "%s: as it is", untouched[i].name);
        say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlocal");
        ok(has(c, "\r\n\r\nlocal"), "%s: whose answer it gets", untouched[i].name);
        world_close(&w);
    }
}

static void old_verdict_after_reload(void)
{
    struct world w;
    struct side *c;
    size_t before;

    world_open(&w, 1);
    c = client(&w);
    say(c, ASK("GET", V2, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    ok(proxy_update(w.proxy, &w.opts), "a reload while the local server thinks");
    say(conn(&w.local, 0), NOT_MODIFIED);
    ok(has(c, world_document()), "the verdict holds for its request");
    before = buf_len(&conn(&w.local, 0)->got);
    say(c, ASK("GET", V2, ""));
    ok(until(&w, buf_len(&conn(&w.local, 0)->got) > before), "and is asked for anew by the next");
    say(conn(&w.local, 0), NOT_MODIFIED);
    world_settle(&w);
    world_close(&w);
}

int main(void)
{
    allowed();
    changed_locally();
    denied();
    verdict_fails();
    passed_on();
    old_verdict_after_reload();
    return tap_end();
}
