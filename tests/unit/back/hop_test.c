/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that assert nobody, to servers before which an mvproxy may or may not stand: over a connection with the
 * certificate only if that connection has proved itself. And the last line: what does not fit its connection stays
 * here.
 */
#include "back/claims.h"
#include "base/clock.h"
#include "net/tls_peer.h"
#include "unit/back/h2_kit.h"

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define BEARER "Bearer token-bob"
#define ANSWERED "head(200) end"

/* From the next handshake on an mvproxy stands there, or none. Connections that are there stay what they are. */
static void become(struct back_kit *k, bool hop)
{
    tls_ctx_unref(k->server_tls);
    k->server_tls = hop ? hop_server_ctx(false) : server_ctx(false);
}

static void back_kit_of_peer(struct back_kit *k, bool hop)
{
    back_kit_open(k, true, 0);
    tls_ctx_unref(k->client_cert_tls);
    k->client_cert_tls = hop_client_ctx("front-proxy-client", false);
    back_kit_origin(k, &(struct origin_opts){.ping_after_ms = 0});
    become(k, hop);
    k->auto_reply = OK_ANSWER;
}

static void token_init(struct call *c, struct back_kit *k, const char *target)
{
    call_init(c, k, "GET", target);
    c->opts.hop = true;
    if (!http_head_add_id(&c->head, c->arena, HTTP_AUTHORIZATION, SLICE_LIT(BEARER)))
        tap_bail("no memory");
}

static void token_asks(struct back_kit *k, const char *target)
{
    struct call c;

    token_init(&c, k, target);
    call_send(&c);
    ok(call_is(&c, ANSWERED), "%s is answered", target);
    call_free(&c);
}

static void user_asks(struct back_kit *k, const char *target)
{
    struct call c;

    call_init(&c, k, "GET", target);
    c.opts.with_cert = true;
    call_send(&c);
    ok(call_is(&c, ANSWERED), "%s is answered", target);
    call_free(&c);
}

static bool shows_certificate(struct back_kit *k, size_t n)
{
    struct server_conn *c = back_kit_conn(k, n);

    return run_until(k->loop, c->failed || stream_is_open(c->s)) && stream_tls_peer(c->s)->present;
}

/* The nth connection's certificate, and what has come over it and nothing else. */
static void carried(struct back_kit *k, size_t n, bool certificate, const char *text)
{
    struct server_conn *c = back_kit_conn(k, n);

    is_int(shows_certificate(k, n), certificate, "certificate on connection %zu", n);
    if (text == NULL)
        is_str(conn_take(c), "", "not a byte on connection %zu", n);
    else
        ok(buf_has(&c->got, text), "%s came over connection %zu", text, n);
}

static void mvproxy_is_there(void)
{
    static struct back_kit k;

    back_kit_of_peer(&k, true);
    token_asks(&k, "/first");
    token_asks(&k, "/second");
    carried(&k, 0, true, "/first");
    carried(&k, 0, true, "/second");
    is_u64(k.n_conns, 1, "both over the one that has proved itself");
    user_asks(&k, "/user");
    carried(&k, 1, true, "/user");
    is_u64(k.n_conns, 2, "users are asserted over another");
    back_kit_close(&k);
}

static void bare_server(void)
{
    static struct back_kit k;

    back_kit_of_peer(&k, false);
    token_asks(&k, "/first");
    carried(&k, 0, true, NULL);
    carried(&k, 1, false, "/first");
    token_asks(&k, "/second");
    carried(&k, 1, false, "/second");
    is_u64(k.n_conns, 2, "nor is it asked again at once");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "no_mvproxy"), 1, "counted");
    user_asks(&k, "/user");
    carried(&k, 0, true, "/user");
    is_u64(k.n_conns, 2, "the connection that was made for nothing is good for who is asserted");
    back_kit_close(&k);
}

/* A server that is to be the last one: from the next connection on an mvproxy answers, and then it does not. */
static void leads_back(bool http2)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, true, 0);
    tls_ctx_unref(k.client_cert_tls);
    k.client_cert_tls = hop_client_ctx("front-proxy-client", http2);
    back_kit_origin(&k, &(struct origin_opts){.last = true});
    k.auto_reply = OK_ANSWER;
    become(&k, false);
    user_asks(&k, "/before");
    ok(!origin_loops(k.origin), "a server answers");
    become(&k, true);
    conn_close(&k.conns[0], STREAM_CLOSE_FLUSH);
    settle(k.loop);
    for (size_t i = 1; i <= 2; i++) {
        call_init(&c, &k, "GET", "/round");
        c.opts.with_cert = true;
        c.opts.http2 = http2 ? BACK_HTTP2_SHARED : BACK_HTTP1;
        call_send(&c);
        ok(call_is(&c, "failed: loop"), "refused, time %zu", i);
        carried(&k, i, true, NULL);
        ok(conn_closed(&k.conns[i]), "and the connection closed");
        call_free(&c);
    }
    ok(origin_loops(k.origin), "known");
    become(&k, false);
    user_asks(&k, "/after");
    ok(!origin_loops(k.origin), "and over");
    back_kit_close(&k);
}

/* What was true of one connection says nothing of the next. */
static void replaced_by_bare_server(void)
{
    static struct back_kit k;

    back_kit_of_peer(&k, true);
    token_asks(&k, "/first");
    carried(&k, 0, true, "/first");
    become(&k, false);
    conn_close(&k.conns[0], STREAM_CLOSE_FLUSH);
    settle(k.loop);
    token_asks(&k, "/second");
    carried(&k, 1, true, NULL);
    carried(&k, 2, false, "/second");
    back_kit_close(&k);
}

/* It goes while the request is on its way: sent again, it is a new connection's turn to prove itself. */
static void replaced_under_a_request(bool twice)
{
    static struct back_kit k;
    struct call c;

    back_kit_of_peer(&k, true);
    token_asks(&k, "/first");
    k.auto_reply = NULL;
    token_init(&c, &k, "/lost");
    call_send(&c);
    ok(conn_has(&k.conns[0], "/lost"), "it went out over the pooled connection");
    k.conns[0].answered = SIZE_MAX; /* as much as to say: no more */
    if (twice) {
        conn_close(&k.conns[0], STREAM_CLOSE_ABORT);
        ok(conn_has(back_kit_conn(&k, 1), "/lost"), "and again, to the same");
        carried(&k, 1, true, "/lost");
    }
    become(&k, false);
    k.auto_reply = OK_ANSWER;
    conn_close(&k.conns[twice], STREAM_CLOSE_ABORT);
    ok(call_is(&c, ANSWERED), "answered by the server that came");
    carried(&k, 1U + twice, true, NULL);
    carried(&k, 2U + twice, false, "/lost");
    call_free(&c);
    back_kit_close(&k);
}

/* Dials for one request only: upgrades. */
static void upgrade_to_bare_server(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_of_peer(&k, false);
    k.auto_reply = NULL;
    token_init(&c, &k, "/exec");
    c.opts.upgrade = true;
    if (!http_head_add_id(&c.head, c.arena, HTTP_UPGRADE, SLICE_LIT("SPDY/3.1")))
        tap_bail("no memory");
    call_send(&c);
    ok(conn_has(back_kit_conn(&k, 1), "/exec"), "it went out");
    carried(&k, 0, true, NULL);
    carried(&k, 1, false, "/exec");
    conn_say(&k.conns[1], "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    ok(call_is(&c, "upgraded(101)"), "upgraded");
    stream_close(c.upgraded, STREAM_CLOSE_NOW);
    call_free(&c);
    back_kit_close(&k);
}

static void crowd(bool hop)
{
    enum { N = 20 };
    static struct back_kit k;
    struct call c[N];

    back_kit_of_peer(&k, hop);
    for (size_t i = 0; i < N; i++) {
        token_init(&c[i], &k, "/crowd");
        call_send(&c[i]);
    }
    for (size_t i = 0; i < N; i++) {
        ok(call_is(&c[i], ANSWERED), "answered, request %zu", i);
        call_free(&c[i]);
    }
    for (size_t i = 0; i < k.n_conns; i++)
        if (buf_len(&k.conns[i].got) == 0 && !shows_certificate(&k, i))
            ok(true, "never used, connection %zu", i);
        else if (!hop && shows_certificate(&k, i))
            carried(&k, i, true, NULL);
        else
            is_int(shows_certificate(&k, i), hop, "certificate on connection %zu", i);
    back_kit_close(&k);
}

/* Somebody puts an mvproxy before it: seen at once where a connection is made anyway, else after a while. */
static void mvproxy_comes(bool by_user)
{
    static struct back_kit k;
    struct call c;

    back_kit_of_peer(&k, false);
    token_asks(&k, "/first");
    become(&k, true);
    for (size_t i = 0; i < 2; i++)
        conn_close(&k.conns[i], STREAM_CLOSE_FLUSH);
    settle(k.loop);
    if (by_user)
        user_asks(&k, "/user");
    else
        clock_fake(clock_us() + TIMEOUT_BARE_MS * 1000ULL, clock_wall_us());
    token_init(&c, &k, "/second");
    call_send(&c);
    for (uint64_t end = deadline(); c.r != NULL && !passed(end);)
        loop_run_once(k.loop, 5);
    ok(buf_has(&c.log, ANSWERED), "/second is answered");
    carried(&k, k.n_conns - 1, true, "/second");
    call_free(&c);
    back_kit_close(&k);
    clock_real();
}

/* Without a certificate to show there is nothing to prove, and without TLS nobody can. */
static void nothing_to_show(void)
{
    static struct back_kit k;

    back_kit_of_peer(&k, true);
    tls_ctx_unref(k.client_cert_tls);
    k.client_cert_tls = NULL;
    back_kit_origin(&k, &(struct origin_opts){.tls_required = true});
    token_asks(&k, "/first");
    carried(&k, 0, false, "/first");
    k.client_cert_tls = client_ctx("alice", false);
    back_kit_close(&k);
    back_kit_open(&k, false, 0);
    k.auto_reply = OK_ANSWER;
    token_asks(&k, "/plain");
    back_kit_close(&k);
}

/* Its own context is missing: it goes neither in the clear nor with the certificate. */
static void no_way_back(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_of_peer(&k, false);
    tls_ctx_unref(k.client_tls);
    k.client_tls = NULL;
    back_kit_origin(&k, &(struct origin_opts){.tls_required = true});
    token_init(&c, &k, "/first");
    call_send(&c);
    ok(call_is(&c, "failed: connect"), "it fails");
    is_str(c.failure_text, "peer-ca-file or proxy-client-cert-file is not configured", "and says why");
    carried(&k, 0, true, NULL);
    call_free(&c);
    k.client_tls = client_ctx(NULL, false);
    back_kit_close(&k);
}

/* ---- HTTP/2 ---- */

static void open_h2(struct back_h2_kit *k, bool hop)
{
    h2_open(k);
    tls_ctx_unref(k->k.client_cert_tls);
    k->k.client_cert_tls = hop_client_ctx("front-proxy-client", false);
    back_kit_origin(&k->k, &(struct origin_opts){.ping_after_ms = 0});
    tls_ctx_unref(k->k.server_tls);
    k->k.server_tls = hop ? hop_server_ctx(true) : server_ctx(true);
    h2_judge_bearer(k, BEARER, 200);
}

static void watch(struct call *c, struct back_h2_kit *k, const char *target)
{
    h2_call_init(c, k, target, BEARER);
    c->opts.hop = true;
    call_send(c);
}

static void over_http2(bool hop)
{
    static struct back_h2_kit k;
    struct call c[3];
    size_t n = hop ? 0 : 1;

    open_h2(&k, hop);
    for (size_t i = 0; i < 3; i++)
        watch(&c[i], &k, "/watch");
    for (size_t i = 0; i < 3; i++) {
        struct h2_asked *a = h2_asked(h2_conn(&k, n), i);

        ok(buf_has(&a->head, "authorization: " BEARER), "request %zu is on connection %zu", i, n);
        h2_headers(k.conns[n], a->id, ":status: 200\n", true);
        ok(call_is(&c[i], ANSWERED), "and answered");
        call_free(&c[i]);
    }
    is_int(stream_tls_peer(k.conns[n]->s)->present, hop, "certificate where an mvproxy is there");
    is_u64(k.n_conns, n + 1, "one connection for all");
    if (!hop)
        is_u64(k.conns[0]->n_asked, 0, "not a request on the one that proved nothing");
    h2_close(&k);
}

/* It does not speak HTTP/2 either: what was dialled for that is as good as any for who is asserted over HTTP/1.1. */
static void http2_to_bare_http1(void)
{
    static struct back_h2_kit k;
    struct call c;

    memset(&k, 0, sizeof(k));
    back_kit_of_peer(&k.k, false);
    h2_judge_bearer(&k, BEARER, 200);
    watch(&c, &k, "/watch");
    ok(call_is(&c, ANSWERED), "a watch is answered");
    call_free(&c);
    carried(&k.k, 0, true, NULL);
    carried(&k.k, 1, false, "/watch");
    is_u64(k.k.n_conns, 2, "over another connection");
    user_asks(&k.k, "/user");
    carried(&k.k, 0, true, "/user");
    is_u64(k.k.n_conns, 2, "the first one is not wasted");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "no_mvproxy"), 1, "counted");
    back_kit_close(&k.k);
}

static void http2_is_replaced(void)
{
    static struct back_h2_kit k;
    struct call c;
    struct h2_asked *a;

    open_h2(&k, true);
    watch(&c, &k, "/watch");
    (void)h2_asked(h2_conn(&k, 0), 0);
    tls_ctx_unref(k.k.server_tls);
    k.k.server_tls = server_ctx(true);
    h2_goaway(k.conns[0], 0, NGHTTP2_NO_ERROR); /* the stream is above it: not looked at */
    a = h2_asked(h2_conn(&k, 2), 0);
    is_u64(h2_conn(&k, 1)->n_asked, 0, "the next one with certificate proved nothing");
    ok(!stream_tls_peer(k.conns[2]->s)->present, "and the one after shows none");
    h2_headers(k.conns[2], a->id, ":status: 200\n", true);
    ok(call_is(&c, ANSWERED), "answered");
    call_free(&c);
    h2_close(&k);
}

/* ---- the last line ---- */

struct claimed {
    unsigned users, others;
};

static void claims(const struct http_head *head, void *arg, struct back_claims *out)
{
    (void)head;
    out->users = ((struct claimed *)arg)->users;
    out->others = ((struct claimed *)arg)->others;
}

static void withheld(void)
{
    static const struct {
        bool with_cert, hop, is_hop;
        struct claimed claimed;
        bool goes;
    } rows[] = {
        {true, false, false, {1, 0}, true},  {true, false, false, {1, 5}, true},   {true, false, false, {0, 0}, false},
        {true, false, false, {2, 0}, false}, {true, false, false, {0, 3}, false},  {true, false, true, {0, 0}, false},
        {false, false, false, {0, 0}, true}, {false, false, false, {1, 0}, false}, {false, false, false, {0, 1}, false},
        {false, true, true, {0, 0}, true},   {false, true, true, {1, 0}, false},   {false, true, true, {0, 1}, false},
        {false, true, false, {0, 0}, true},  {false, true, false, {1, 0}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static struct back_kit k;
        struct claimed claimed = rows[i].claimed;
        struct call c;

        back_kit_of_peer(&k, rows[i].is_hop);
        back_set_claims(k.back, claims, &claimed);
        call_init(&c, &k, "GET", "/");
        c.opts.with_cert = rows[i].with_cert;
        c.opts.hop = rows[i].hop;
        call_send(&c);
        ok(call_is(&c, rows[i].goes ? ANSWERED : "failed: identity"), "row %zu", i);
        is_double(back_kit_metric(&k, "mvproxy_back_requests_withheld_total", NULL), rows[i].goes ? 0 : 1,
                  "counted, row %zu", i);
        is_double(back_kit_metric(&k, "mvproxy_back_retries_total", NULL), 0, "nobody tries again, row %zu", i);
        ok(rows[i].goes || !c.failure.request_sent, "nothing was sent, row %zu", i);
        for (size_t n = 0; !rows[i].goes && n < k.n_conns; n++)
            is_u64(buf_len(&k.conns[n].got), 0, "not a byte, row %zu", i);
        ok(origin_ejection(k.origin, NULL) == NULL, "which is not the server's fault");
        call_free(&c);
        back_kit_close(&k);
    }
}

/* A reload gives a name a meaning while a request waits that has had it from its client all along. */
static void named_while_it_waits(void)
{
    static struct back_kit k;
    struct claimed claimed = {0, 0};
    struct call c;

    back_kit_of_peer(&k, false);
    back_set_claims(k.back, claims, &claimed);
    ok(!back_name_claims(k.back, SLICE_LIT("X-Login")), "a name that means nothing");
    call_init(&c, &k, "GET", "/");
    call_send(&c);
    claimed.others = 1;
    ok(back_name_claims(k.back, SLICE_LIT("X-Login")), "means something now");
    ok(call_is(&c, ANSWERED), "the request of before goes");
    is_double(back_kit_metric(&k, "mvproxy_back_requests_withheld_total", NULL), 0, "nothing is withheld");
    call_free(&c);
    back_kit_close(&k);
}

/* What its client sent to be somebody else's is in the head, or the head does not go. */
static void without_its_impersonation(void)
{
    for (unsigned had = 0; had < 4; had++) {
        static struct back_kit k;
        struct claimed claimed = {1, 0};
        struct call c;

        back_kit_of_peer(&k, false);
        back_set_claims(k.back, claims, &claimed);
        call_init(&c, &k, "GET", "/");
        if (!http_head_add(&c.head, c.arena, SLICE_LIT("Impersonate-User"), SLICE_LIT("bob")) ||
            !http_head_add(&c.head, c.arena, SLICE_LIT("impersonate-group"), SLICE_LIT("dev")))
            tap_bail("no memory");
        c.opts.with_cert = true;
        c.opts.impersonations = had;
        call_send(&c);
        ok(call_is(&c, had <= 2 ? ANSWERED : "failed: identity"), "2 of %u", had);
        is_double(back_kit_metric(&k, "mvproxy_back_requests_withheld_total", NULL), had <= 2 ? 0 : 1,
                  "counted, 2 of %u", had);
        call_free(&c);
        back_kit_close(&k);
    }
}

static void withheld_on_http2(void)
{
    static struct back_h2_kit k;
    struct claimed claimed = {1, 0};
    struct call c;

    open_h2(&k, true);
    back_set_claims(k.k.back, claims, &claimed);
    watch(&c, &k, "/watch");
    ok(call_is(&c, "failed: identity"), "a token's request that names a user");
    call_free(&c);
    h2_call_send(&c, &k, "/user", NULL);
    ok(buf_has(&h2_asked(h2_conn(&k, 1), 0)->head, "/user"), "with the certificate it may");
    is_u64(k.conns[0]->n_asked, 0, "and has to be the only one");
    call_free(&c);
    claimed.users = 0;
    h2_call_send(&c, &k, "/nobody", NULL);
    ok(call_is(&c, "failed: identity"), "with the certificate it must");
    call_free(&c);
    h2_close(&k);
}

/* ---- memory ---- */

/* However the dial of a connection that proves nothing fails, the request ends and nobody sees it with a certificate.
 */
static bool without_memory(unsigned nth)
{
    static struct back_kit k;
    struct call c[3];
    bool all = true;

    back_kit_of_peer(&k, false);
    k.short_of_memory = true;
    for (size_t i = 0; i < 3; i++) {
        token_init(&c[i], &k, "/scarce");
        c[i].opts.upgrade = i == 2;
        c[i].opts.head_timeout_ms = 200; /* where it is the server that has no memory */
        call_send(&c[i]);
    }
    mem_fail_nth(nth);
    for (size_t i = 0; i < 2; i++)
        ok(call_over(&c[i]), "over, %u", nth);
    (void)back_kit_conn(&k, 0);
    settle(k.loop);
    mem_fail_nth(0);
    for (size_t i = 0; i < 3; i++) {
        all = all && (i == 2 || buf_has(&c[i].log, ANSWERED));
        call_free(&c[i]);
    }
    for (size_t i = 0; i < k.n_conns; i++)
        if (k.conns[i].s != NULL && stream_is_open(k.conns[i].s) && shows_certificate(&k, i))
            is_u64(buf_len(&k.conns[i].got), 0, "nothing with certificate, %u", nth);
    back_kit_close(&k);
    return all;
}

int main(void)
{
    mvproxy_is_there();
    bare_server();
    replaced_by_bare_server();
    replaced_under_a_request(false);
    replaced_under_a_request(true);
    upgrade_to_bare_server();
    leads_back(false);
    leads_back(true);
    crowd(false);
    crowd(true);
    mvproxy_comes(false);
    mvproxy_comes(true);
    nothing_to_show();
    no_way_back();
    over_http2(false);
    over_http2(true);
    http2_to_bare_http1();
    http2_is_replaced();
    withheld();
    without_its_impersonation();
    named_while_it_waits();
    withheld_on_http2();
    for (unsigned nth = 1; nth < 200; nth++)
        if (without_memory(nth) && nth > 150)
            break;
    return tap_end();
}
