/* SPDX-License-Identifier: Apache-2.0 */
/* Which certificate a client gets by the name that it asks for, and what a session is bound to. */
#include "net/tls_sni.h"

#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/tls_suites.h"
#include "unit/net/fixture.h"

/* ---- notation ---- */

static const struct {
    const char *text, *cert, *key, *patterns; /* cert NULL: refused */
} notations[] = {
    {"a.crt,a.key", "a.crt", "a.key", ""},
    {"a.crt,a.key:foo.example.com", "a.crt", "a.key", "foo.example.com"},
    {"a.crt,a.key:*.foo.com,foo.com", "a.crt", "a.key", "*.foo.com,foo.com"},
    {" a.crt , a.key : foo , bar ", "a.crt", "a.key", "foo , bar"},
    {"a.crt,a.key:::1", "a.crt", "a.key", "::1"},
    {"", NULL, NULL, NULL},
    {"a.crt", NULL, NULL, NULL},
    {"a.crt,", NULL, NULL, NULL},
    {",a.key", NULL, NULL, NULL},
    {"a.crt,a.key,b.key", NULL, NULL, NULL},
    {"a.crt,a.key:", NULL, NULL, NULL},
    {"a.crt,a.key: ", NULL, NULL, NULL},
    {"a.crt:a.key", NULL, NULL, NULL},
};

static void test_notation(void)
{
    struct tls_sni_spec spec;
    char *path, *text;

    for (size_t i = 0; i < ROWS(notations); i++) {
        struct err err = {""};
        bool good = tls_sni_parse(notations[i].text, &spec, &err);

        is_int(good, notations[i].cert != NULL, "\"%s\": %s", notations[i].text, good ? "taken" : err.text);
        ok(good != err_is_set(&err), "\"%s\": and a reason if it is not", notations[i].text);
        if (!good || notations[i].cert == NULL)
            continue;
        is_str(spec.cert_file, notations[i].cert, "certificate");
        is_str(spec.key_file, notations[i].key, "key");
        ok(slice_eq(spec.patterns, slice_str(notations[i].patterns)), "patterns");
    }
    path = malloc(TLS_SNI_PATH_BYTES + 1);
    text = malloc(TLS_SNI_PATH_BYTES + 16);
    if (path == NULL || text == NULL)
        tap_bail("memory");
    memset(path, 'x', TLS_SNI_PATH_BYTES);
    path[TLS_SNI_PATH_BYTES] = '\0';
    snprintf(text, TLS_SNI_PATH_BYTES + 16, "%s,key", path);
    ok(!tls_sni_parse(text, &spec, NULL), "a path that is too long");
    snprintf(text, TLS_SNI_PATH_BYTES + 16, "%s,key", path + 1);
    ok(tls_sni_parse(text, &spec, NULL), "and the longest that is not");
    free(path);
    free(text);
}

/* ---- choice ---- */

/* A pair of its own for each test of names: its CN is also its file's name. */
static void issue(const char *file, const char *cn, const char *sans)
{
    char command[4096], crt[640], key[640], sub[80];

    snprintf(sub, sizeof(sub), "%s.crt", file);
    snprintf(crt, sizeof(crt), "%s", cert_path(sub));
    snprintf(sub, sizeof(sub), "%s.key", file);
    snprintf(key, sizeof(key), "%s", cert_path(sub));
    snprintf(command, sizeof(command),
             "openssl req -x509 -newkey %s -nodes -days 30 -subj '/O=%s%s%s' %s%s%s -keyout '%s' -out '%s' 2>/dev/null",
             strcmp(file, "sni-rsa") == 0 ? "rsa:2048" : "ec -pkeyopt ec_paramgen_curve:P-256", file,
             cn[0] == '\0' ? "" : "/CN=", cn, sans[0] == '\0' ? "" : "-addext 'subjectAltName=", sans,
             sans[0] == '\0' ? "" : "'", key, crt);
    if (system(command) != 0)
        tap_bail("%s", command);
}

static const char *spec(const char *file, const char *patterns)
{
    static char specs[8][2048];
    static unsigned next;
    char *out = specs[next++ % 8], name[80], crt[640];

    snprintf(name, sizeof(name), "%s.crt", file);
    snprintf(crt, sizeof(crt), "%s", cert_path(name));
    snprintf(name, sizeof(name), "%s.key", file);
    snprintf(out, sizeof(specs[0]), "%s,%s%s%s", crt, cert_path(name), patterns[0] == '\0' ? "" : ":", patterns);
    return out;
}

static struct tls_ctx *ctx_with(const char *const *sni, const char *const *suites, struct err *err)
{
    char crt[640], key[640], ca[640];
    struct tls_server_opts o = {
        .cert_file = crt, .key_file = key, .client_ca_file = ca, .http2 = true, .sni = sni, .cipher_suites = suites};

    snprintf(crt, sizeof(crt), "%s", cert_path("node-a.crt"));
    snprintf(key, sizeof(key), "%s", cert_path("node-a.key"));
    snprintf(ca, sizeof(ca), "%s", cert_path("ca.crt"));
    return tls_server_ctx_new(&o, err);
}

/* A handshake of a client made as wanted; both ends are gone afterwards, *session is the client's. */
struct hello {
    const char *name; /* SNI, NULL: none */
    int version;
    const char *suites; /* TLS 1.2, OpenSSL's spelling */
    bool offer_h2;
    SSL_SESSION *session; /* to resume */
};

struct seen {
    bool done, resumed, h2;
    char org[64];
    SSL_SESSION *session;
};

static void note(SSL *ssl, struct seen *seen)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);
    const unsigned char *alpn;
    unsigned n;

    seen->resumed = SSL_session_reused(ssl) == 1;
    SSL_get0_alpn_selected(ssl, &alpn, &n);
    seen->h2 = n == 2;
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_organizationName, seen->org, sizeof(seen->org));
}

static void step(struct loop *l, SSL *ssl, struct seen *seen)
{
    uint64_t give_up = deadline();
    char c;

    while (!seen->done && !passed(give_up)) {
        int n = SSL_connect(ssl), error = SSL_get_error(ssl, n);

        seen->done = n == 1;
        if (n != 1 && error != SSL_ERROR_WANT_READ)
            return;
        loop_run_once(l, 1);
    }
    settle(l);
    SSL_read(ssl, &c, 1); /* the ticket of TLS 1.3 */
}

static struct seen greet(struct loop *l, struct tls_ctx *ctx, const struct hello *h)
{
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    struct end server = {.discard = true};
    struct seen seen = {.done = false};
    SSL *ssl = SSL_new(client);
    int fd;

    half_pair(l, &server, ctx, &fd);
    SSL_set_fd(ssl, fd);
    if (h->name != NULL)
        SSL_set_tlsext_host_name(ssl, h->name);
    if (h->version != 0)
        SSL_set_max_proto_version(ssl, h->version);
    if (h->suites != NULL)
        SSL_set_cipher_list(ssl, h->suites);
    if (h->offer_h2)
        SSL_set_alpn_protos(ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12);
    if (h->session != NULL)
        SSL_set_session(ssl, h->session);
    step(l, ssl, &seen);
    if (seen.done) {
        note(ssl, &seen);
        seen.session = SSL_get1_session(ssl);
        SSL_shutdown(ssl); /* or the session could not be resumed */
    }
    SSL_free(ssl);
    SSL_CTX_free(client);
    end_release(&server);
    close(fd);
    settle(l);
    return seen;
}

static const struct {
    const char *name, *org;
} choices[] = {
    {NULL, ""},
    {"nobody.example.org", ""},
    {"one.example.com", "sni-one"},          /* its own DNS name */
    {"ONE.Example.COM", "sni-one"},          /* names have no case */
    {"cn.example.com", "sni-one"},           /* its own CN */
    {"shared.example.com", "sni-one"},       /* of two the earlier, */
    {"given.example.com", "sni-three"},      /* but a name that was given trumps */
    {"twice.example.com", "sni-three"},      /* and of two given ones the earlier */
    {"www.wild.example.com", "sni-two"},     /* a wildcard */
    {"exact.wild.example.com", "sni-three"}, /* trumped by the whole name */
    {"a.www.wild.example.com", ""},          /* which stands for one label */
    {"wild.example.com", ""},                /* and not for none */
    {"two-only.example.com", ""},            /* given names replace the certificate's own */
    {"rsa.example.com", "sni-rsa"},          /* another kind of key */
    {"127.0.0.1", ""},                       /* RFC 6066: no literal addresses */
    {"192.0.2.1", ""},
};

static void test_choice(struct loop *l)
{
    const char *const sni[] = {
        spec("sni-one", ""),
        spec("sni-two", "*.wild.example.com"),
        spec("sni-three", "given.example.com, exact.wild.example.com ,twice.example.com,192.0.2.1"),
        spec("sni-four", ""),
        spec("sni-two", "twice.example.com"),
        spec("sni-rsa", "RSA.example.com"),
        NULL,
    };
    struct err err = {""};
    struct tls_ctx *ctx = ctx_with(sni, NULL, &err);

    if (ctx == NULL)
        tap_bail("%s", err.text);
    for (size_t i = 0; i < ROWS(choices); i++) {
        for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
            struct hello h = {.name = choices[i].name, .version = version};
            struct seen seen = greet(l, ctx, &h);

            ok(seen.done, "%s: handshake", choices[i].name);
            is_str(seen.org, choices[i].org, "%s: certificate", choices[i].name);
            SSL_SESSION_free(seen.session);
        }
    }
    tls_ctx_unref(ctx);
}

/* A pattern that is an address: for who names nobody and connected to it. */
static void test_address(struct loop *l)
{
    const char *const sni[] = {spec("sni-one", "127.0.0.1,0:0:0:0:0:0:0:1"), NULL};
    struct tls_ctx *sctx = ctx_with(sni, NULL, NULL);
    char ca[640];
    struct tls_client_opts o = {.ca_file = ca, .server_name = "127.0.0.1"};
    struct end client = {.discard = true}, server = {.discard = true};
    struct tls_ctx *cctx;

    snprintf(ca, sizeof(ca), "%s", cert_path("sni-one.crt"));
    cctx = tls_client_ctx_new(&o, NULL);
    pair_open(l, &client, &server, cctx, sctx);
    /* node-a is not of this CA: only sni-one can have been shown, and it lacks the address. */
    ok(strstr(client.failure, "it is not for") != NULL, "the pair of the address (%s)", client.failure);
    end_release(&client);
    end_release(&server);
    settle(l);
    tls_ctx_unref(cctx);
    tls_ctx_unref(sctx);
}

struct visit {
    struct loop *loop;
    struct tls_ctx *tls;
    struct end server;
    char failure[256];
    bool over;
};

static void on_visitor(int fd, void *arg)
{
    struct visit *v = arg;
    struct stream_opts o = {.fn = end_fn, .arg = &v->server, .tls = v->tls};

    v->server.loop = v->loop;
    v->server.s = stream_accept(v->loop, fd, &o);
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct visit *v = arg;

    v->over = true;
    if (s != NULL)
        stream_close(s, STREAM_CLOSE_NOW);
    snprintf(v->failure, sizeof(v->failure), "%s", failure == NULL ? "none" : failure);
}

/* The same where the client's address is written in 16 bytes: a socket for both families has it so for IPv4 as well. */
static void test_address_of(struct loop *l, const char *bind, const char *host)
{
    const char *const sni[] = {spec("sni-one", "127.0.0.1,0:0:0:0:0:0:0:1"), NULL};
    struct visit v = {.loop = l, .server = {.discard = true}};
    struct err err = {""};
    struct listener *listener = listener_open(l, bind, 0, on_visitor, &v, &err);
    struct tls_client_opts o = {.server_name = "127.0.0.1"};
    struct dial_opts d = {.host = host, .timeout_ms = 60000};
    struct tls_ctx *cctx;
    char ca[640];

    if (listener == NULL) {
        diag("no IPv6 here: %s", err.text);
        return;
    }
    snprintf(ca, sizeof(ca), "%s", cert_path("sni-one.crt"));
    o.ca_file = ca;
    v.tls = ctx_with(sni, NULL, NULL);
    d.tls = cctx = tls_client_ctx_new(&o, NULL);
    d.port = listener_port(listener);
    if (dial_start(l, &d, on_dialled, &v) == NULL)
        tap_bail("dial");
    ok(run_until(l, v.over) && strstr(v.failure, "it is not for") != NULL, "the pair of %s (%s)", host, v.failure);
    listener_close(listener);
    end_release(&v.server);
    settle(l);
    tls_ctx_unref(cctx);
    tls_ctx_unref(v.tls);
}

static void test_broken_pairs(void)
{
    static const char *const want[] = {"does not belong to", "no-such.crt", "is not CERT,KEY"};
    char mixed[2048], first[640];
    const char *const rows[][2] = {{mixed, NULL}, {spec("no-such", "x"), NULL}, {"nonsense", NULL}};

    snprintf(first, sizeof(first), "%s", cert_path("sni-one.crt"));
    snprintf(mixed, sizeof(mixed), "%s,%s", first, cert_path("sni-two.key"));
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct err err = {""};

        is_null(ctx_with(rows[i], NULL, &err), "%s: refused", rows[i][0]);
        ok(strstr(err.text, want[i]) != NULL, "with \"%s\" (%s)", want[i], err.text);
    }
}

/* sni-one's certificate with something behind it. */
static void write_chain(const char *path, const char *behind)
{
    FILE *in = fopen(cert_path("sni-one.crt"), "r"), *out = fopen(path, "w");
    char text[16384];
    size_t n = in == NULL ? 0 : fread(text, 1, sizeof(text), in);

    if (out == NULL || n == 0 || fwrite(text, 1, n, out) != n || fputs(behind, out) < 0 || fclose(out) != 0)
        tap_bail("chain");
    (void)fclose(in);
}

static void test_chains(void)
{
    static const struct {
        const char *name, *behind;
        bool fine;
    } rows[] = {
        {"nothing more", "", true},
        {"words", "no block at all\n", true},
        {"half a block", "-----BEGIN CERTIFICATE-----\nMIIB\n", false},
        {"a block of rubbish", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", false},
        {"a block of no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", false},
    };
    char path[640], key[640], pair[1300];
    const char *const sni[] = {pair, NULL};

    (void)snprintf(path, sizeof(path), "%s", cert_path("sni-chain.tmp"));
    (void)snprintf(key, sizeof(key), "%s", cert_path("sni-one.key"));
    (void)snprintf(pair, sizeof(pair), "%s,%s", path, key);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct err err = {""};
        struct tls_ctx *ctx;

        write_chain(path, rows[i].behind);
        ctx = ctx_with(sni, NULL, &err);
        ok((ctx != NULL) == rows[i].fine, "a certificate, and behind it %s (%s)", rows[i].name, err.text);
        if (ctx != NULL)
            tls_ctx_unref(ctx);
    }
    (void)unlink(path);
}

/* ---- sessions ---- */

static void test_sessions(struct loop *l, int version)
{
    const char *const sni[] = {spec("sni-one", ""), spec("sni-two", "*.wild.example.com"), NULL};
    struct tls_ctx *ctx = ctx_with(sni, NULL, NULL), *again = ctx_with(sni, NULL, NULL);
    struct hello h = {.name = "one.example.com", .version = version};
    struct seen first = greet(l, ctx, &h), next;
    static const char *const others[] = {"cn.example.com", "www.wild.example.com", "nobody.example.org", NULL};

    h.session = first.session;
    next = greet(l, ctx, &h);
    ok(next.resumed, "%x: resumed under the same name", version);
    SSL_SESSION_free(next.session);
    for (size_t i = 0; i < ROWS(others); i++) {
        h.name = others[i];
        next = greet(l, ctx, &h);
        ok(next.done && !next.resumed, "%x: not resumed under %s", version, others[i] == NULL ? "none" : others[i]);
        SSL_SESSION_free(next.session);
    }
    h.name = "one.example.com";
    next = greet(l, again, &h);
    ok(next.done && !next.resumed, "%x: nor by another context of the same files: another listener, say", version);
    ok(tls_ctx_same(ctx, again), "although they are the same");
    SSL_SESSION_free(next.session);
    SSL_SESSION_free(first.session);
    tls_ctx_unref(ctx);
    tls_ctx_unref(again);
}

/* ---- suites ---- */

static void test_suite_names(void)
{
    static const struct {
        const char *name;
        enum tls_suite_kind kind;
    } rows[] = {
        {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", TLS_SUITE_PREFERRED},
        {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", TLS_SUITE_PREFERRED},
        {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", TLS_SUITE_PREFERRED},
        {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", TLS_SUITE_PREFERRED},
        {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", TLS_SUITE_INSECURE},
        {"TLS_RSA_WITH_AES_128_GCM_SHA256", TLS_SUITE_INSECURE},
        {"TLS_RSA_WITH_RC4_128_SHA", TLS_SUITE_MISSING},
        {"TLS_AES_128_GCM_SHA256", TLS_SUITE_ALWAYS},
        {"ECDHE-RSA-AES128-GCM-SHA256", TLS_SUITE_UNKNOWN},
        {"tls_aes_128_gcm_sha256", TLS_SUITE_UNKNOWN},
        {"", TLS_SUITE_UNKNOWN},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        is_int(tls_suite_kind(rows[i].name), rows[i].kind, "\"%s\"", rows[i].name);
}

static void suite_case(struct loop *l, const char *const *suites, const struct hello *h, bool done, const char *what)
{
    struct tls_ctx *ctx = ctx_with(NULL, suites, NULL);
    struct seen seen = greet(l, ctx, h);

    is_int(seen.done, done, "%s", what);
    SSL_SESSION_free(seen.session);
    tls_ctx_unref(ctx);
}

static void test_suites(struct loop *l)
{
    static const char *const one[] = {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", NULL};
    static const char *const only13[] = {"TLS_AES_256_GCM_SHA384", NULL};
    static const char *const cbc[] = {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", NULL};
    static const char *const both[] = {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
                                       "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", NULL};
    struct hello aes128 = {.version = TLS1_2_VERSION, .suites = "ECDHE-ECDSA-AES128-GCM-SHA256"};
    struct hello aes256 = {.version = TLS1_2_VERSION, .suites = "ECDHE-ECDSA-AES256-GCM-SHA384"};
    struct hello old = {.version = TLS1_2_VERSION, .suites = "ECDHE-ECDSA-AES128-SHA", .offer_h2 = true};
    struct hello any = {.version = TLS1_2_VERSION, .offer_h2 = true};
    struct hello tls13 = {.version = TLS1_3_VERSION};
    struct tls_ctx *ctx;
    struct seen seen;

    suite_case(l, NULL, &aes128, true, "by default AES-128-GCM");
    suite_case(l, NULL, &aes256, true, "and AES-256-GCM");
    suite_case(l, NULL, &old, false, "but nothing with CBC");
    suite_case(l, one, &aes256, true, "one suite: that one");
    suite_case(l, one, &aes128, false, "one suite: no other");
    suite_case(l, one, &tls13, true, "one suite: TLS 1.3 all the same");
    suite_case(l, only13, &tls13, true, "only suites of TLS 1.3: TLS 1.3");
    suite_case(l, only13, &any, false, "only suites of TLS 1.3: no TLS 1.2");
    ctx = ctx_with(NULL, both, NULL);
    seen = greet(l, ctx, &any);
    ok(seen.done && seen.h2, "the better one is taken, whatever the order: HTTP/2");
    SSL_SESSION_free(seen.session);
    seen = greet(l, ctx, &old);
    ok(seen.done && !seen.h2, "no HTTP/2 with CBC (RFC 9113)");
    SSL_SESSION_free(seen.session);
    tls_ctx_unref(ctx);
    suite_case(l, cbc, &old, true, "CBC for who asks for it");
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    issue("sni-one", "cn.example.com", "DNS:one.example.com,DNS:shared.example.com,DNS:given.example.com,IP:127.0.0.9");
    issue("sni-two", "", "DNS:two-only.example.com");
    issue("sni-three", "three", "DNS:three.example.com");
    issue("sni-four", "Not A Name", "DNS:shared.example.com");
    issue("sni-rsa", "", "");
    test_notation();
    test_choice(l);
    test_address(l);
    test_address_of(l, "::1", "::1");
    test_address_of(l, "::", "127.0.0.1");
    test_broken_pairs();
    test_chains();
    test_sessions(l, TLS1_2_VERSION);
    test_sessions(l, TLS1_3_VERSION);
    test_suite_names();
    test_suites(l);
    loop_free(l);
    return tap_end();
}
