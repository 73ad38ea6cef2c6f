/* SPDX-License-Identifier: Apache-2.0 */
/* Streams through proxies: of each kind, of each way to misbehave. */
#include "net/connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "net/egress_proxy.h"
#include "unit/net/connect_kit.h"

enum { BULK = 3 << 20, MORE_THAN_ANY_BUFFER = 32 << 20 };

/* A target, a proxy before it, and what became of one dial. */
struct stage {
    struct loop *l;
    struct tls_ctx *proxy_server, *proxy_client, *sctx, *cctx;
    struct listener *target;
    struct end client, server;
    unsigned reached; /* connections that came to the target */
    struct connect_kit proxy;
    struct egress_proxy *egress;
    char path[128];
    unsigned calls;
    char failure[512];
};

static void on_target(int fd, void *arg)
{
    struct stage *st = arg;
    struct stream_opts o = {.fn = end_fn, .arg = &st->server, .tls = st->sctx};

    st->reached++;
    if (st->server.s != NULL) {
        close(fd);
        return;
    }
    st->server.s = stream_accept(st->l, fd, &o);
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct stage *st = arg;

    st->calls++;
    st->client.s = s;
    if (s == NULL) {
        snprintf(st->failure, sizeof(st->failure), "%s", failure);
        return;
    }
    stream_set_owner(s, end_fn, &st->client);
    pump(&st->client);
}

enum kind { PLAIN, UNDER_TLS, UNIX_SOCKET, KINDS };
static const char *const kind_names[] = {"TCP", "TLS", "Unix socket"};

static void open_stage(struct stage *st, struct loop *l, enum kind kind)
{
    struct egress_proxy_opts o = {.host = "127.0.0.1"};
    struct err err = {""};
    char dir[] = "/tmp/connect-test-XXXXXX";

    *st = (struct stage){.l = l, .sctx = server_ctx(false), .cctx = client_ctx("alice", false)};
    st->client = (struct end){.loop = l};
    st->server = (struct end){.loop = l};
    buf_init(&st->client.got, 1 << 20);
    buf_init(&st->server.got, 1 << 20);
    st->target = listener_open(l, "127.0.0.1", 0, on_target, st, &err);
    if (st->target == NULL)
        tap_bail("target: %s", err.text);
    if (kind == UNDER_TLS) {
        st->proxy_server = server_ctx(false);
        st->proxy_client = client_ctx("admin", false);
        o.tls = st->proxy_client;
    }
    if (kind == UNIX_SOCKET) {
        if (mkdtemp(dir) == NULL)
            tap_bail("mkdtemp");
        snprintf(st->path, sizeof(st->path), "unix:%s/socket", dir);
        o.host = st->path;
    }
    connect_kit_open(&st->proxy, l, kind == UNIX_SOCKET ? st->path + 5 : NULL, st->proxy_server);
    st->proxy.target_port = listener_port(st->target);
    o.port = kind == UNIX_SOCKET ? 0 : listener_port(st->proxy.listener);
    st->egress = connect_egress_new(&o);
}

static void clear_stage(struct stage *st)
{
    end_release(&st->client);
    end_release(&st->server);
    connect_kit_reset(&st->proxy);
    settle(st->l);
    st->client = (struct end){.loop = st->l};
    st->server = (struct end){.loop = st->l};
    buf_init(&st->client.got, 1 << 20);
    buf_init(&st->server.got, 1 << 20);
    st->calls = st->reached = st->proxy.accepted = 0;
    st->failure[0] = '\0';
}

static void close_stage(struct stage *st)
{
    clear_stage(st);
    listener_close(st->target);
    connect_kit_close(&st->proxy);
    egress_proxy_unref(st->egress);
    tls_ctx_unref(st->sctx);
    tls_ctx_unref(st->cctx);
    tls_ctx_unref(st->proxy_server);
    tls_ctx_unref(st->proxy_client);
    settle(st->l);
    if (st->path[0] != '\0') {
        unlink(st->path + 5);
        *strrchr(st->path, '/') = '\0';
        rmdir(st->path + 5);
    }
}

static struct dial_opts dial_through(struct stage *st)
{
    return (struct dial_opts){.host = "127.0.0.1",
                              .port = listener_port(st->target),
                              .tls = st->cctx,
                              .egress = st->egress,
                              .timeout_ms = 10000};
}

/* True when both sides have a stream. */
static bool play(struct stage *st, const struct dial_opts *o)
{
    if (dial_start(st->l, o, on_dialled, st) == NULL)
        tap_bail("dial_start");
    is_int(st->calls, 0, "nobody is called from inside");
    return run_until(st->l, st->calls == 1 && (st->client.s == NULL || st->server.seen[STREAM_OPENED] > 0)) &&
           st->client.s != NULL;
}

/* ---- carrying ---- */

static void test_round_trip(struct stage *st, const char *name)
{
    struct dial_opts o = dial_through(st);
    char want[128];

    st->client = (struct end){.loop = st->l, .send_left = BULK, .finish_after = true, .discard = true, .check = true};
    st->server = (struct end){.loop = st->l, .send_left = BULK, .discard = true, .check = true};
    ok(play(st, &o), "%s: a server is reached (%s)", name, st->failure);
    snprintf(want, sizeof(want), "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", o.port, o.port);
    is_slice(buf_slice(&st->proxy.request), want, "%s: what the proxy was asked", name);
    snprintf(want, sizeof(want), "127.0.0.1:%u", o.port);
    is_str(st->client.s == NULL ? "" : stream_remote_text(st->client.s), want, "%s: the other side is the server",
           name);
    ok(run_until(st->l, st->server.seen[STREAM_EOF] == 1), "%s: the server sees the client's end", name);
    is_u64(st->server.got_bytes, BULK, "%s: after every byte", name);
    ok(run_until(st->l, st->client.got_bytes == BULK), "%s: and its bytes still come through", name);
    ok(!st->server.mismatch && !st->client.mismatch, "%s: all as they were sent", name);
    stream_finish_writing(st->server.s);
    ok(run_until(st->l, st->client.seen[STREAM_EOF] == 1), "%s: and its end", name);
    is_int(st->client.seen[STREAM_FAILED] + st->server.seen[STREAM_FAILED], 0, "%s: nothing failed", name);
    clear_stage(st);
}

static void test_close(struct stage *st, const char *name)
{
    static const char words[] = "the last words";
    struct dial_opts o = dial_through(st);

    ok(play(st, &o), "%s: open", name);
    ok(stream_write(st->client.s, SLICE_LIT(words)), "%s: something is written", name);
    stream_close(st->client.s, STREAM_CLOSE_FLUSH);
    st->client.s = NULL;
    ok(run_until(st->l, st->server.seen[STREAM_EOF] == 1), "%s: a flushing close arrives as an end", name);
    is_slice(buf_slice(&st->server.got), words, "%s: after what was written", name);
    clear_stage(st);

    ok(play(st, &o), "%s: open again", name);
    stream_close(st->client.s, STREAM_CLOSE_ABORT);
    st->client.s = NULL;
    ok(run_until(st->l, st->server.seen[STREAM_FAILED] == 1), "%s: an abort arrives as a failure", name);
    is_int(st->server.seen[STREAM_EOF], 0, "%s: not as an end", name);
    clear_stage(st);

    st->server.hoard = true;
    ok(play(st, &o), "%s: and again", name);
    ok(stream_write(st->server.s, SLICE_LIT(words)), "%s: the server speaks", name);
    ok(run_until(st->l, st->client.seen[STREAM_READABLE] > 0), "%s: and is heard", name);
    stream_close(st->server.s, STREAM_CLOSE_ABORT);
    st->server.s = NULL;
    ok(run_until(st->l, st->client.seen[STREAM_FAILED] == 1), "%s: the server's abort arrives (%s)", name,
       st->client.failure);
    is_slice(buf_slice(&st->client.got), words, "%s: after what it said before", name);
    clear_stage(st);
}

static void test_back_pressure(struct stage *st, const char *name)
{
    struct dial_opts o = dial_through(st);
    size_t left;

    st->client = (struct end){.loop = st->l, .hoard = true, .check = true, .discard = true};
    st->server = (struct end){.loop = st->l, .send_left = MORE_THAN_ANY_BUFFER};
    ok(play(st, &o), "%s: open", name);
    stream_pause(st->client.s, STREAM_PAUSE_BODY);
    do {
        left = st->server.send_left;
        settle(st->l);
        settle(st->l);
    } while (st->server.send_left < left);
    ok(left > MORE_THAN_ANY_BUFFER / 2, "%s: who does not read stops the server (%zu bytes on the way)", name,
       MORE_THAN_ANY_BUFFER - left);
    st->client.hoard = false;
    stream_resume(st->client.s, STREAM_PAUSE_BODY);
    ok(run_until(st->l, st->client.got_bytes == MORE_THAN_ANY_BUFFER), "%s: and lets it go on", name);
    ok(!st->client.mismatch, "%s: nothing is lost", name);
    clear_stage(st);
}

static void test_proxy_dies(struct stage *st, const char *name)
{
    struct dial_opts o = dial_through(st);

    st->client = (struct end){.loop = st->l, .discard = true};
    st->server = (struct end){.loop = st->l, .send_left = MORE_THAN_ANY_BUFFER};
    ok(play(st, &o) && run_until(st->l, st->client.got_bytes > BULK), "%s: in the middle of a body", name);
    connect_kit_reset(&st->proxy);
    ok(run_until(st->l, st->client.seen[STREAM_FAILED] == 1), "%s: the proxy's death is a failure (%s)", name,
       st->client.failure);
    is_int(st->client.seen[STREAM_EOF], 0, "%s: never an end", name);
    clear_stage(st);
}

static void test_wrong_server(struct stage *st, const char *name)
{
    struct dial_opts o = dial_through(st);

    o.server_name = "somebody.else";
    st->client.send_left = 100;
    ok(!play(st, &o), "%s: a server with the wrong certificate is no server", name);
    ok(strstr(st->failure, "certificate refused: it is not for") != NULL, "%s: which is said (%s)", name, st->failure);
    settle(st->l);
    is_u64(st->server.got_bytes, 0, "%s: and it was sent nothing", name);
    clear_stage(st);
}

static void test_cancel(struct stage *st, const char *name)
{
    struct dial_opts o = dial_through(st);

    for (int turns = 0; turns < 25; turns++) {
        struct dial *d = dial_start(st->l, &o, on_dialled, st);

        for (int t = 0; t < turns && st->calls == 0; t++)
            loop_run_once(st->l, 1);
        if (st->calls == 0)
            dial_cancel(d);
        settle(st->l);
        clear_stage(st);
    }
    ok(true, "%s: a dial may be cancelled at any time", name);
}

/* True if there was a stream on both sides. */
static bool play_without_memory(struct stage *st, uint64_t nth)
{
    struct dial_opts o = dial_through(st);
    uint64_t give_up = deadline();
    struct dial *d;
    bool open;

    o.timeout_ms = 300; /* what was lost at the proxy or at the server is not told */
    mem_fail_nth(nth);
    d = dial_start(st->l, &o, on_dialled, st);
    while (d != NULL && st->calls == 0 && !passed(give_up))
        loop_run_once(st->l, 20);
    settle(st->l);
    mem_fail_nth(0);
    open = st->client.s != NULL && st->client.seen[STREAM_FAILED] == 0;
    if (d != NULL && (st->calls != 1 || (st->client.s == NULL && st->failure[0] == '\0')))
        ok(false, "allocation %llu: no stream and no reason", (unsigned long long)nth);
    clear_stage(st);
    return open;
}

static void test_memory(struct stage *st, const char *name)
{
    uint64_t before = mem_calls(), calls;
    unsigned whole = 0;

    ok(play_without_memory(st, 0), "%s: with memory enough", name);
    calls = mem_calls() - before;
    for (uint64_t n = 1; n <= calls; n++)
        whole += play_without_memory(st, n);
    ok(whole < calls, "%s: each of %llu allocations may fail (%u did no harm)", name, (unsigned long long)calls, whole);
    ok(play_without_memory(st, 0), "%s: and then it works again", name);
}

/* ---- bad proxies ---- */

static const struct {
    const char *name, *answer;
    enum proxy_then then;
    const char *want;
} bad[] = {
    {"refusal", "HTTP/1.1 403 Filtered\r\nContent-Length: 100000\r\n\r\n", PROXY_STAYS,
     "it answered \"HTTP/1.1 403 Filtered\""},
    {"refusal and close", "HTTP/1.0 502 Bad Gateway\r\n\r\n<html>", PROXY_CLOSES,
     "it answered \"HTTP/1.0 502 Bad Gateway\""},
    {"garbage", "220 mail.example.org ESMTP\r\n", PROXY_STAYS, "not HTTP/1"},
    {"close at once", "", PROXY_CLOSES, "closed the connection instead of answering"},
    {"close in the head", "HTTP/1.1 200 OK\r\nVia: ", PROXY_CLOSES, "closed the connection instead of answering"},
    {"reset", "HTTP/1.1 2", PROXY_RESETS, "lost before it answered"},
    {"bytes behind the head", "HTTP/1.1 200 OK\r\n\r\nno server hello", PROXY_STAYS,
     "unexpected bytes behind the answer"},
};

static void test_bad(struct stage *st, const char *kind, size_t piece)
{
    struct dial_opts o = dial_through(st);
    struct connect_kit *p = &st->proxy;
    struct slice good = p->answer;

    p->piece = piece;
    for (size_t i = 0; i < ROWS(bad); i++) {
        /* In pieces the head is over before what follows it is there: then it is the server's hello that is wrong. A
         * Unix socket knows no reset. */
        const char * or = strstr(bad[i].want, "behind") != NULL ? "TLS handshake" : "instead of answering";

        p->answer = slice_str(bad[i].answer);
        p->then = bad[i].then;
        ok(!play(st, &o), "%s, %s: no stream", kind, bad[i].name);
        ok(strstr(st->failure, bad[i].want) != NULL || strstr(st->failure, or) != NULL, "%s, %s: said (%s)", kind,
           bad[i].name, st->failure);
        is_int(st->reached, 0, "%s, %s: nobody reached", kind, bad[i].name);
        clear_stage(st);
    }
    p->answer = good;
    p->then = PROXY_CARRIES;
    ok(play(st, &o), "%s: a good answer in pieces of %zu (%s)", kind, piece, st->failure);
    p->piece = 0;
    clear_stage(st);
}

static void test_huge_head(struct stage *st)
{
    static char text[LIMIT_CONNECT_HEAD_BYTES + 100] = "HTTP/1.1 200 OK\r\nX: ";
    struct dial_opts o = dial_through(st);
    struct slice good = st->proxy.answer;

    memset(text + strlen(text), 'x', sizeof(text) - 1 - strlen(text));
    st->proxy.answer = slice_str(text);
    st->proxy.then = PROXY_STAYS;
    ok(!play(st, &o) && strstr(st->failure, "too large") != NULL, "a huge head (%s)", st->failure);
    st->proxy.answer = good;
    st->proxy.then = PROXY_CARRIES;
    clear_stage(st);
}

static void test_silence(struct stage *st)
{
    struct dial_opts o = dial_through(st);
    struct slice good = st->proxy.answer;

    o.timeout_ms = 200;
    st->proxy.answer = SLICE_NONE;
    st->proxy.then = PROXY_STAYS;
    ok(!play(st, &o), "a silent proxy");
    ok(strstr(st->failure, "egress proxy 127.0.0.1:") != NULL && strstr(st->failure, "time") != NULL,
       "is given up (%s)", st->failure);
    st->proxy.answer = good;
    st->proxy.then = PROXY_CARRIES;
    clear_stage(st);
}

/* ---- addresses and names ---- */

static bool judge(const struct sockaddr *addr, void *arg)
{
    (void)arg;
    return addr->sa_family == AF_INET &&
           ((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr == htonl(0x7f000001);
}

static void asked(struct stage *st, const char *host, bool (*allow)(const struct sockaddr *, void *), const char *want)
{
    struct dial_opts o = dial_through(st);
    char text[128];

    o.host = host;
    o.port = 6443;
    o.allow = allow;
    (void)snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", want, want);
    ok(play(st, &o), "%s is dialled (%s)", host, st->failure);
    is_slice(buf_slice(&st->proxy.request), text, "%s: as %s", host, want);
    clear_stage(st);
}

static void test_targets(struct stage *st)
{
    struct dial_opts o = dial_through(st);

    asked(st, "::1", NULL, "[::1]:6443");
    asked(st, "kube.example.invalid", NULL, "kube.example.invalid:6443");
    asked(st, "localhost", judge, "127.0.0.1:6443"); /* resolved and judged here */
    o.allow = judge;
    o.host = "127.0.0.2";
    ok(!play(st, &o) && strstr(st->failure, "not allowed") != NULL, "an address that is not allowed (%s)", st->failure);
    is_int(st->proxy.accepted, 0, "is not even asked for");
    clear_stage(st);
    o = dial_through(st);
    o.host = "unix:/nowhere";
    ok(!play(st, &o) && strstr(st->failure, "Unix socket") != NULL, "a Unix socket is no target (%s)", st->failure);
    clear_stage(st);
}

static double figure(struct metrics *m, const char *name, const char *stage)
{
    static const char *const names[] = {"protocol", "transport", "stage", NULL};
    struct slice values[] = {SLICE_LIT("http_connect"), SLICE_LIT("tcp"), slice_str(stage)};

    return metric_value(metric_child(metric_family(m, METRIC_COUNTER, name, "", names, 10), values));
}

static void test_counts(void)
{
    struct metrics *m = metrics_new();
    struct loop *l = loop_new(m);
    struct stage st;
    struct dial_opts o;

    open_stage(&st, l, PLAIN);
    o = dial_through(&st);
    ok(play(&st, &o), "counted: one that works");
    clear_stage(&st);
    st.proxy.answer = SLICE_LIT("HTTP/1.1 403 No\r\n\r\n");
    st.proxy.then = PROXY_STAYS;
    ok(!play(&st, &o), "counted: one that is refused");
    clear_stage(&st);
    connect_kit_reset(&st.proxy);
    listener_pause(st.proxy.listener);
    o.timeout_ms = 100;
    ok(!play(&st, &o), "counted: one without answer");
    is_double(figure(m, "apiserver_egress_dialer_dial_start_total", ""), 3, "begun");
    is_double(figure(m, "apiserver_egress_dialer_dial_failure_count", "proxy"), 2, "failed by the answer");
    listener_resume(st.proxy.listener);
    close_stage(&st);
    loop_free(l);
    metrics_free(m);
}

int main(void)
{
    struct loop *l = loop_new(NULL);
    struct stage st;

    for (enum kind k = PLAIN; k < KINDS; k++) {
        open_stage(&st, l, k);
        test_round_trip(&st, kind_names[k]);
        if (k == UNDER_TLS)
            is_str(st.proxy.client_cn, "kubernetes-admin", "the proxy got its client certificate");
        test_close(&st, kind_names[k]);
        test_back_pressure(&st, kind_names[k]);
        test_proxy_dies(&st, kind_names[k]);
        test_wrong_server(&st, kind_names[k]);
        test_cancel(&st, kind_names[k]);
        test_memory(&st, kind_names[k]);
        test_bad(&st, kind_names[k], 0);
        test_bad(&st, kind_names[k], 1);
        if (k == PLAIN) {
            test_huge_head(&st);
            test_silence(&st);
            test_targets(&st);
        }
        close_stage(&st);
    }
    loop_free(l);
    test_counts();
    return tap_end();
}
