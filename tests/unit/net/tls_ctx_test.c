/* SPDX-License-Identifier: Apache-2.0 */
/* What files make a context, and what a client context insists on. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/tls_inspect.h"
#include "net/tls_internal.h"
#include "unit/net/fixture.h"

/* ---- files ---- */

static const char *path(char *out, const char *name)
{
    snprintf(out, 640, "%s", cert_path(name));
    return out;
}

static void refuses_server(const char *crt, const char *key, const char *ca, const char *want)
{
    char a[640], b[640], c[640];
    struct tls_server_opts o = {.cert_file = path(a, crt), .key_file = path(b, key)};
    struct err err = {""};
    struct tls_ctx *ctx;

    if (ca != NULL)
        o.client_ca_file = path(c, ca);
    ctx = tls_server_ctx_new(&o, &err);
    is_null(ctx, "%s + %s + %s: refused", crt, key, ca == NULL ? "-" : ca);
    ok(strstr(err.text, want) != NULL, "with \"%s\" (%s)", want, err.text);
    tls_ctx_unref(ctx);
}

static void test_files(void)
{
    char command[2048];
    char key[640];

    scratch_file("garbage.pem", "not a certificate\n", 18);
    scratch_file("half.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n", 33);
    scratch_file("empty.pem", "", 0);
    snprintf(command, sizeof(command), "openssl ec -aes128 -passout pass:secret -in '%s' -out '%s.enc' 2>/dev/null",
             path(key, "node-a.key"), key);
    if (system(command) != 0)
        tap_bail("openssl ec");
    refuses_server("no-such.crt", "node-a.key", NULL, "no-such.crt: No such file");
    refuses_server("garbage.pem", "node-a.key", NULL, "give another file");
    refuses_server("half.pem", "node-a.key", NULL, "damaged or cut short");
    refuses_server("node-a.crt", "no-such.key", NULL, "no-such.key: No such file");
    refuses_server("node-a.crt", "garbage.pem", NULL, "give another file");
    refuses_server("node-a.crt", "node-b.key", NULL, "node-b.key: does not belong to");
    refuses_server("node-a.crt", "node-a.key.enc", NULL, "encrypted");
    refuses_server("node-a.crt", "node-a.key", "no-such-ca.crt", "no-such-ca.crt: No such file");
    refuses_server("node-a.crt", "node-a.key", "garbage.pem", "no certificate in it");
    refuses_server("node-a.crt", "node-a.key", "empty.pem", "no certificate in it");
    refuses_server("node-a.crt", "node-a.key", "half.pem", "damaged or cut short");
}

static void test_client_files(void)
{
    char a[640], b[640], c[640];
    struct tls_client_opts o = {.ca_file = path(a, "no-such.crt"), .server_name = "x"};
    struct err err = {""};

    is_null(tls_client_ctx_new(&o, &err), "client: no CA file");
    ok(strstr(err.text, "no-such.crt: No such file") != NULL, "and why (%s)", err.text);
    err_clear(&err);
    o.ca_file = path(a, "ca.crt");
    o.cert_file = path(b, "alice.crt");
    o.key_file = path(c, "admin.key");
    is_null(tls_client_ctx_new(&o, &err), "client: a pair that is none");
    ok(strstr(err.text, "does not belong to") != NULL, "and why (%s)", err.text);
}

static void test_validity(void)
{
    struct tls_validity v;
    size_t n;
    char *new, *old, both[16384];

    ok(tls_file_validity(cert_path("node-a.crt"), false, &v), "a certificate has an end");
    ok(v.not_after > (int64_t)time(NULL) && v.not_before <= (int64_t)time(NULL), "and it is in date");
    ok(tls_file_validity(cert_path("expired.crt"), false, &v), "so has an expired one");
    is_int(v.not_after, 1577923200, "2020-01-02T00:00:00Z");
    is_int(v.not_before, 1577836800, "2020-01-01T00:00:00Z");
    new = read_file(cert_path("ca.crt"), &n);
    old = read_file(cert_path("expired.crt"), &n);
    snprintf(both, sizeof(both), "%s%s", new, old);
    scratch_file("both.pem", both, strlen(both));
    ok(tls_file_validity(cert_path("both.pem"), false, &v) && v.not_after == 1577923200, "a chain: the first to end");
    ok(tls_file_validity(cert_path("both.pem"), true, &v) && v.not_after > (int64_t)time(NULL), "a bundle: the last");
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"expired.crt", "node-a.crt", "node-a.key"};
        char *text = read_file(cert_path(names[i]), &n);

        is_int(tls_inspect_ended(slice_of(text, n)), i == 0, "%s: whether it has ended", names[i]);
        mem_free(text);
    }
    ok(!tls_inspect_ended(SLICE_LIT("nonsense")), "nonsense has not ended");
    ok(!tls_file_validity(cert_path("node-a.key"), false, &v) && v.not_after == 0, "a key has none");
    ok(!tls_file_validity(cert_path("no-such.crt"), false, &v), "nor has what is not there");
    free(new);
    free(old);
}

/* ---- client ---- */

struct client_row {
    const char *name;
    const char *server_crt, *server_key;
    const char *server_name; /* of the connection; NULL: the context's */
    const char *failure;     /* NULL: opens */
};

static const struct client_row client_rows[] = {
    {"the context's name", "node-a.crt", "node-a.key", NULL, NULL},
    {"another of its names", "node-a.crt", "node-a.key", "localhost", NULL},
    {"an IPv4 address", "node-a.crt", "node-a.key", "127.0.0.1", NULL},
    {"an IPv6 address", "node-a.crt", "node-a.key", "::1", NULL},
    {"a name it lacks", "node-a.crt", "node-a.key", "example.com", "it is not for example.com"},
    {"an address it lacks", "node-a.crt", "node-a.key", "192.0.2.1", "it is not for 192.0.2.1"},
    {"its CN only", "node-a.crt", "node-a.key", "kube-apiserver", "it is not for kube-apiserver"},
    {"a foreign CA", "foreign-server.crt", "foreign-server.key", NULL, "its CA is not in the bundle"},
    {"a client's certificate", "alice.crt", "alice.key", NULL, "it must not be used by servers (extended key usage)"},
};

static void test_client_verifies(struct loop *l)
{
    struct tls_ctx *cctx = client_ctx("alice", false);

    for (size_t i = 0; i < ROWS(client_rows); i++) {
        const struct client_row *r = &client_rows[i];
        char crt[640], key[640];
        struct tls_server_opts o = {.cert_file = path(crt, r->server_crt), .key_file = path(key, r->server_key)};
        struct err err = {""};
        struct tls_ctx *sctx = tls_server_ctx_new(&o, &err);
        struct end client = {.server_name = r->server_name};
        struct end server = {.discard = true};

        if (sctx == NULL)
            tap_bail("%s", err.text);
        pair_open(l, &client, &server, cctx, sctx);
        is_int(client.seen[STREAM_OPENED], r->failure == NULL, "%s: %s", r->name,
               r->failure == NULL ? "accepted" : "refused");
        if (r->failure != NULL) {
            ok(strstr(client.failure, r->failure) != NULL, "%s: because (%s)", r->name, client.failure);
            ok(run_until(l, server.seen[STREAM_FAILED] == 1), "%s: the server is told", r->name);
        }
        end_release(&client);
        end_release(&server);
        settle(l);
        tls_ctx_unref(sctx);
    }
    tls_ctx_unref(cctx);
}

/* Names of an mvproxy are selected where both know them, and mean the protocols that everybody knows. */
static void test_alpn_of_a_hop(struct loop *l)
{
    static const struct {
        bool server_hop, server_http2, client_hop, client_http2;
        const char *want;
        bool hop;
    } rows[] = {
        {true, true, true, true, "h2", true},          {true, true, true, false, "http/1.1", true},
        {true, false, true, true, "http/1.1", true},   {true, true, false, true, "h2", false},
        {true, true, false, false, "http/1.1", false}, {false, true, true, true, "h2", false},
        {false, true, true, false, "http/1.1", false}, {false, false, true, true, "http/1.1", false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct tls_ctx *sctx =
            rows[i].server_hop ? hop_server_ctx(rows[i].server_http2) : server_ctx(rows[i].server_http2);
        struct tls_ctx *cctx = rows[i].client_hop ? hop_client_ctx("alice", rows[i].client_http2)
                                                  : client_ctx("alice", rows[i].client_http2);
        struct end client = {.discard = true};
        struct end server = {.discard = true};

        pair_open(l, &client, &server, cctx, sctx);
        is_str(stream_alpn(client.s), rows[i].want, "hop ALPN %zu, client", i);
        is_str(stream_alpn(server.s), rows[i].want, "hop ALPN %zu, server", i);
        is_int(stream_is_hop(client.s), rows[i].hop, "hop %zu, client", i);
        is_int(stream_is_hop(server.s), rows[i].hop, "hop %zu, server", i);
        end_release(&client);
        end_release(&server);
        settle(l);
        tls_ctx_unref(sctx);
        tls_ctx_unref(cctx);
    }
}

static void test_alpn(struct loop *l)
{
    static const struct {
        bool server, client;
        const char *want;
    } rows[] = {{true, true, "h2"}, {true, false, "http/1.1"}, {false, true, "http/1.1"}, {false, false, "http/1.1"}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct tls_ctx *sctx = server_ctx(rows[i].server);
        struct tls_ctx *cctx = client_ctx(NULL, rows[i].client);
        struct end client = {.discard = true};
        struct end server = {.discard = true};

        pair_open(l, &client, &server, cctx, sctx);
        is_str(stream_alpn(client.s), rows[i].want, "ALPN %d %d, client", rows[i].server, rows[i].client);
        is_str(stream_alpn(server.s), rows[i].want, "ALPN %d %d, server", rows[i].server, rows[i].client);
        end_release(&client);
        end_release(&server);
        settle(l);
        tls_ctx_unref(sctx);
        tls_ctx_unref(cctx);
    }
}

static void test_min_version(struct loop *l)
{
    char crt[640], key[640];
    struct tls_server_opts o = {
        .cert_file = path(crt, "node-a.crt"), .key_file = path(key, "node-a.key"), .min_version = 13};
    struct err err = {""};
    struct tls_ctx *sctx = tls_server_ctx_new(&o, &err);
    struct end server = {.discard = true};
    int fd;

    half_pair(l, &server, sctx, &fd);
    is_null(bare_client(l, fd, NULL, TLS1_2_VERSION, NULL), "min_version 13 refuses TLS 1.2");
    end_release(&server);
    close(fd);
    settle(l);
    tls_ctx_unref(sctx);
}

/* How the next connection of this client context to the same address goes. */
static bool resumes(struct loop *l, struct tls_ctx *cctx, struct tls_ctx *sctx, unsigned port, const char *name)
{
    struct end client = {.server_name = name, .port = port};
    struct end server = {.discard = true, .echo = true};
    bool resumed;

    pair_open(l, &client, &server, cctx, sctx);
    client.send_left = 10;
    pump(&client);
    run_until(l, client.got_bytes == 10);
    resumed = stream_tls_resumed(client.s);
    stream_close(client.s, STREAM_CLOSE_ABORT);
    client.s = NULL;
    end_release(&client);
    end_release(&server);
    settle(l);
    return resumed;
}

static unsigned free_port(void)
{
    struct loop *l = loop_new(NULL);
    struct err err = {""};
    struct listener *listener = listener_open(l, "127.0.0.1", 0, NULL, NULL, &err);
    unsigned port = listener_port(listener);

    listener_close(listener);
    loop_free(l);
    return port;
}

/* Both ends keep the session; what stands there is said anew in each handshake. */
static void test_hop_is_not_resumed(struct loop *l, int version)
{
    struct tls_ctx *sctx = hop_server_ctx(true), *cctx = hop_client_ctx("alice", false);
    unsigned port = free_port();

    SSL_CTX_set_max_proto_version(cctx->ssl_ctx, version);
    for (unsigned i = 0; i < 4; i++) {
        struct end client = {.port = port};
        struct end server = {.discard = true, .echo = true};

        sctx->hop = i % 2 == 0;
        pair_open(l, &client, &server, cctx, sctx);
        is_int(stream_tls_resumed(client.s), i > 0, "handshake %u is resumed", i);
        is_int(stream_is_hop(client.s), i % 2 == 0, "handshake %u tells who is there", i);
        is_str(stream_alpn(client.s), "http/1.1", "handshake %u, protocol", i);
        client.send_left = 10;
        pump(&client);
        ok(run_until(l, client.got_bytes == 10), "and with the bytes the ticket");
        stream_close(client.s, STREAM_CLOSE_ABORT);
        client.s = NULL;
        end_release(&client);
        end_release(&server);
        settle(l);
    }
    tls_ctx_unref(sctx);
    tls_ctx_unref(cctx);
}

static void test_client_resumes(struct loop *l)
{
    struct tls_ctx *sctx = server_ctx(false);
    struct tls_ctx *cctx = client_ctx("alice", false);
    struct tls_ctx *other = client_ctx("alice", false);
    unsigned port = free_port();

    ok(!resumes(l, cctx, sctx, port, NULL), "the first connection is a full handshake");
    ok(resumes(l, cctx, sctx, port, NULL), "the second is resumed");
    ok(resumes(l, cctx, sctx, port, NULL), "and the third, although each was cut off");
    ok(!resumes(l, cctx, sctx, port, "localhost"), "not under another name");
    ok(!resumes(l, cctx, sctx, free_port(), NULL), "not to another address");
    ok(!resumes(l, other, sctx, port, NULL), "not with another context");
    tls_ctx_unref(sctx);
    tls_ctx_unref(cctx);
    tls_ctx_unref(other);
}

static struct tls_ctx *server_of(const char *pair, const char *ca, const char *requestheader_ca, int version)
{
    char crt[640], key[640], client[640], rh[640], name[64];
    struct tls_server_opts o = {.cert_file = crt, .key_file = key, .min_version = version};
    struct err err = {""};

    snprintf(name, sizeof(name), "%s.crt", pair);
    path(crt, name);
    snprintf(name, sizeof(name), "%s.key", pair);
    path(key, name);
    if (ca != NULL)
        o.client_ca_file = path(client, ca);
    if (requestheader_ca != NULL)
        o.requestheader_ca_file = path(rh, requestheader_ca);
    return tls_server_ctx_new(&o, &err);
}

/* Whether two contexts made from these are the same; both are released. */
static bool same_of(struct tls_ctx *a, struct tls_ctx *b)
{
    bool same = tls_ctx_same(a, b);

    is_int(tls_ctx_same(b, a), same, "either way round");
    tls_ctx_unref(a);
    tls_ctx_unref(b);
    return same;
}

static void both_bundles(const char *name, bool reversed)
{
    static char text[2 << 20];
    size_t n = 0;

    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(cert_path((i == 0) != reversed ? "ca.crt" : "front-proxy-ca.crt"), "r");

        if (f == NULL)
            tap_bail("no CA");
        n += fread(text + n, 1, sizeof(text) - n, f);
        fclose(f);
    }
    (void)scratch_file(name, text, n);
}

static void test_same(void)
{
    struct tls_ctx *one = server_ctx(true);

    ok(tls_ctx_same(one, one) && !tls_ctx_same(one, NULL) && !tls_ctx_same(NULL, one), "itself, and nothing");
    ok(same_of(one, server_ctx(true)), "the same files, read again");
    ok(!same_of(server_ctx(true), server_ctx(false)), "another choice of protocols");
    ok(!same_of(server_ctx(true), client_ctx("alice", true)), "server and client");
    ok(same_of(client_ctx("alice", false), client_ctx("alice", false)), "clients");
    ok(!same_of(client_ctx("alice", false), client_ctx("admin", false)), "of another user");
    ok(!same_of(client_ctx("alice", false), client_ctx(NULL, false)), "of nobody");
    ok(same_of(server_of("node-a", "ca.crt", NULL, 12), server_of("node-a", "ca.crt", NULL, 12)), "one bundle");
    ok(!same_of(server_of("node-a", "ca.crt", NULL, 12), server_of("node-b", "ca.crt", NULL, 12)), "another pair");
    ok(!same_of(server_of("node-a", "ca.crt", NULL, 12), server_of("node-a", "ca.crt", NULL, 13)), "another version");
    ok(!same_of(server_of("node-a", "ca.crt", NULL, 12), server_of("node-a", NULL, "ca.crt", 12)), "another purpose");
    ok(!same_of(server_of("node-a", "ca.crt", NULL, 12), server_of("node-a", "front-proxy-ca.crt", NULL, 12)),
       "another CA");
    both_bundles("both.crt", false);
    both_bundles("reversed.crt", true);
    both_bundles("again.crt", false);
    ok(!same_of(server_of("node-a", "ca.crt", NULL, 12), server_of("node-a", "both.crt", NULL, 12)), "one CA more");
    ok(!same_of(server_of("node-a", "both.crt", NULL, 12), server_of("node-a", "reversed.crt", NULL, 12)),
       "bytes count: two CAs in another order");
    ok(same_of(server_of("node-a", "both.crt", NULL, 12), server_of("node-a", "again.crt", NULL, 12)),
       "names do not: a copy of the bundle");
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    test_files();
    test_client_files();
    test_validity();
    test_client_verifies(l);
    test_alpn(l);
    test_alpn_of_a_hop(l);
    test_hop_is_not_resumed(l, TLS1_2_VERSION);
    test_hop_is_not_resumed(l, TLS1_3_VERSION);
    test_min_version(l);
    test_client_resumes(l);
    test_same();
    loop_free(l);
    return tap_end();
}
