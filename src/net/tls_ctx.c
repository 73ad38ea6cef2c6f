/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_ctx.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/limits.h"
#include "net/tls_bio.h"
#include "net/tls_internal.h"
#include "net/tls_shown.h"
#include "net/tls_suites.h"

/* The first is for OpenSSL 3.5 and later: post-quantum key exchange, as by Go 1.24. */
static const char *const curves[] = {"X25519MLKEM768:X25519:P-256:P-384", "X25519:P-256:P-384"};

enum {
    HINTS_BYTES = 12 << 10, /* of CAs' names in a CertificateRequest: an mvproxy takes 16 KiB, and TLS 64 KiB */
    SESSION_LIFETIME_S = 3600,
};

static bool use_pair(struct tls_ctx *c, const char *cert_file, const char *key_file, struct err *err)
{
    struct tls_pair pair;
    bool done;

    if (!tls_pair_load(cert_file, key_file, &pair, &c->digest, err))
        return false;
    ERR_clear_error();
    done = SSL_CTX_use_cert_and_key(c->ssl_ctx, pair.cert, pair.key, pair.chain, 1) == 1 ||
           err_set(err, "certificate %s: %s", cert_file, tls_reason());
    c->own = pair.certs;
    pair.certs = NULL;
    tls_pair_clear(&pair);
    return done;
}

/* ---- common ---- */

static void release(struct tls_ctx *c)
{
    tls_certs_unref(c->own);
    tls_certs_unref(c->client_ca);
    tls_certs_unref(c->requestheader_ca);
    tls_certs_unref(c->server_ca);
    BIO_meth_free(c->bio_method);
    tls_sni_free(c->sni);
    tls_sessions_free(c->sessions);
    mem_free(c->server_name);
    mem_free(c);
}

/*
 * The callbacks of OpenSSL use the struct, and every SSL holds its SSL_CTX. So that one holds the struct: it goes with
 * the last connection that began with it, whoever made the SSL and whatever has replaced the context since.
 */
static void on_ssl_ctx_freed(void *parent, void *c, CRYPTO_EX_DATA *data, int index, long n, void *arg)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)n;
    (void)arg;
    if (c != NULL)
        release(c);
}

static int field(void)
{
    static int number = -1;

    if (number < 0)
        number = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_ssl_ctx_freed);
    return number;
}

static bool new_ssl_ctx(struct tls_ctx *c)
{
    c->ssl_ctx = SSL_CTX_new(c->server ? TLS_server_method() : TLS_client_method());
    if (c->ssl_ctx != NULL && field() >= 0 && SSL_CTX_set_ex_data(c->ssl_ctx, field(), c) == 1)
        return true;
    SSL_CTX_free(c->ssl_ctx); /* knows nothing of it yet */
    release(c);
    return false;
}

static void ctx_free(struct tls_ctx *c)
{
    SSL_CTX_free(c->ssl_ctx);
}

static void fold_number(struct tls_ctx *c, int n)
{
    tls_digest_add(&c->digest, slice_of((const char *)&n, sizeof(n)));
}

static bool set_groups(SSL_CTX *ctx)
{
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
        ERR_clear_error();
        if (SSL_CTX_set1_groups_list(ctx, curves[i]) == 1)
            return true;
    }
    return false;
}

/* A list without any suite of TLS 1.2 leaves TLS 1.3, as with Go. */
static bool set_suites(struct tls_ctx *c, const char *const *names, struct err *err)
{
    struct buf list;
    bool tls12, good;

    buf_init(&list, 4096);
    tls12 = tls_suites_for_tls12(names, &list);
    tls_digest_add(&c->digest, buf_slice(&list));
    good = buf_append_char(&list, '\0') && (!tls12 || SSL_CTX_set_cipher_list(c->ssl_ctx, buf_slice(&list).p) == 1) &&
           (tls12 || SSL_CTX_set_min_proto_version(c->ssl_ctx, TLS1_3_VERSION) == 1) &&
           SSL_CTX_set_ciphersuites(c->ssl_ctx, tls_suites_for_tls13()) == 1;
    buf_free(&list);
    return good || err_set(err, "cipher suites: %s", tls_reason());
}

static bool set_up(struct tls_ctx *c, int min_version, const char *const *cipher_suites, struct err *err)
{
    SSL_CTX *ctx = c->ssl_ctx;

    if (c->bio_method == NULL)
        return err_set(err, "TLS: %s", tls_reason());
    SSL_CTX_set_min_proto_version(ctx, min_version == 13 ? TLS1_3_VERSION : TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    /* What the certificate file holds is the chain; the CA that we judge others by is not ours to send. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_timeout(ctx, SESSION_LIFETIME_S);
    SSL_CTX_set_max_cert_list(ctx, c->server ? LIMIT_CLIENT_CHAIN_BYTES : LIMIT_SERVER_CHAIN_BYTES);
    fold_number(c, c->server);
    fold_number(c, min_version);
    if (!set_groups(ctx))
        return err_set(err, "TLS: %s", tls_reason());
    return set_suites(c, cipher_suites, err);
}

static struct tls_ctx *ctx_new(bool server, int min_version, const char *const *cipher_suites, struct err *err)
{
    struct tls_ctx *c = must_zalloc(sizeof(*c));

    c->refs = 1;
    c->server = server;
    c->bio_method = tls_bio_method();
    if (!new_ssl_ctx(c)) {
        err_set(err, "TLS: %s", tls_reason());
        return NULL;
    }
    if (set_up(c, min_version, cipher_suites, err))
        return c;
    ctx_free(c);
    return NULL;
}

struct tls_ctx *tls_ctx_ref(struct tls_ctx *c)
{
    must_hold(c->refs > 0);
    c->refs++;
    return c;
}

void tls_ctx_unref(struct tls_ctx *c)
{
    must_hold(c == NULL || c->refs > 0);
    if (c != NULL && --c->refs == 0)
        ctx_free(c);
}

bool tls_ctx_same(const struct tls_ctx *a, const struct tls_ctx *b)
{
    return a == b || (a != NULL && b != NULL && memcmp(&a->digest, &b->digest, sizeof(a->digest)) == 0);
}

bool tls_file_validity(const char *path, bool bundle, struct tls_validity *out)
{
    return tls_pem_validity(path, bundle, &out->not_before, &out->not_after);
}

/* Protocol names in the order of preference, as they go over the wire (RFC 7301, 3.1). */
struct protocols {
    const unsigned char *names;
    unsigned n;
};

#define PROTOCOLS(text)                                                                                                \
    {                                                                                                                  \
        (const unsigned char *)(text), sizeof(text) - 1                                                                \
    }
#define HOP_HTTP2 "\x0a" TLS_HOP_ALPN "h2"
#define HOP_HTTP1 "\x10" TLS_HOP_ALPN "http/1.1"
#define PLAIN_HTTP2 "\x02h2"
#define PLAIN_HTTP1 "\x08http/1.1"

static const struct protocols *protocols_of(bool hop, bool http2)
{
    static const struct protocols lists[2][2] = {
        {PROTOCOLS(PLAIN_HTTP1), PROTOCOLS(PLAIN_HTTP2 PLAIN_HTTP1)},
        {PROTOCOLS(HOP_HTTP1 PLAIN_HTTP1), PROTOCOLS(HOP_HTTP2 HOP_HTTP1 PLAIN_HTTP2 PLAIN_HTTP1)},
    };

    return &lists[hop][http2];
}

/* ---- server ---- */

/* RFC 9113, 9.2.2: no HTTP/2 over TLS 1.2 with a suite that lacks AEAD or forward secrecy. */
static bool fit_for_http2(SSL *ssl)
{
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);

    if (SSL_version(ssl) >= TLS1_3_VERSION || cipher == NULL)
        return true;
    return SSL_CIPHER_is_aead(cipher) == 1 && SSL_CIPHER_get_kx_nid(cipher) == NID_kx_ecdhe;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
                           unsigned inlen, void *arg)
{
    const struct tls_ctx *c = arg;
    const struct protocols *ours = protocols_of(c->hop, c->http2 && fit_for_http2(ssl));
    unsigned char *chosen;

    /* Who names protocols and none of ours is refused (RFC 7301, 3.2), as by kube-apiserver. */
    if (SSL_select_next_proto(&chosen, outlen, ours->names, ours->n, in, inlen) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/*
 * Any certificate may shake hands; tls_identity.c judges it afterwards against both bundles. But with its key a
 * signature is checked before that.
 */
static int accept_any_client(X509_STORE_CTX *store, void *arg)
{
    (void)arg;
    if (!tls_shown_key_good(X509_STORE_CTX_get0_cert(store))) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_INVALID_PURPOSE); /* alert: unsupported_certificate, as Go's */
        return 0;
    }
    X509_STORE_CTX_set_error(store, X509_V_OK);
    return 1;
}

/* Which CAs a client may be of; one that is renewed has one name. */
static bool add_hints(STACK_OF(X509_NAME) * hints, const struct tls_certs *cas, size_t *bytes)
{
    const X509_NAME *last = NULL;

    for (int i = 0; cas != NULL && i < sk_X509_num(cas->all) && *bytes <= HINTS_BYTES; i++) {
        const X509_NAME *subject = X509_get_subject_name(sk_X509_value(cas->all, i));
        X509_NAME *name;

        if (last != NULL && X509_NAME_cmp(last, subject) == 0)
            continue;
        last = subject;
        name = X509_NAME_dup(subject);
        if (name == NULL || sk_X509_NAME_push(hints, name) == 0) {
            X509_NAME_free(name);
            return false;
        }
        *bytes += 2 + (size_t)i2d_X509_NAME(name, NULL);
    }
    return true;
}

/* Those of `of`, or of the file. NULL with a reason. */
static struct tls_certs *client_cas(struct tls_ctx *c, struct tls_certs *of, const char *file, struct err *err)
{
    if (of == NULL)
        return tls_bundle_load(file, &c->digest, err);
    tls_digest_add(&c->digest, slice_of((const char *)of->hash, sizeof(of->hash)));
    of->refs++;
    return of;
}

static bool load_client_cas(struct tls_ctx *c, const struct tls_server_opts *o, struct err *err)
{
    struct tls_certs *client_of = o->client_ca_of == NULL ? NULL : o->client_ca_of->client_ca,
                     *front_of = o->requestheader_ca_of == NULL ? NULL : o->requestheader_ca_of->requestheader_ca;
    STACK_OF(X509_NAME) * hints;
    size_t bytes = 0;

    fold_number(c, o->client_ca_file != NULL ? 1 : 0);
    if (o->client_ca_file != NULL && (c->client_ca = client_cas(c, client_of, o->client_ca_file, err)) == NULL)
        return false;
    if (o->requestheader_ca_file != NULL &&
        (c->requestheader_ca = client_cas(c, front_of, o->requestheader_ca_file, err)) == NULL)
        return false;
    hints = sk_X509_NAME_new_null();
    if (hints == NULL || !add_hints(hints, c->client_ca, &bytes) || !add_hints(hints, c->requestheader_ca, &bytes)) {
        sk_X509_NAME_pop_free(hints, X509_NAME_free);
        return err_set(err, "out of memory");
    }
    while (bytes > HINTS_BYTES && sk_X509_NAME_num(hints) > 0)
        X509_NAME_free(sk_X509_NAME_pop(hints));
    SSL_CTX_set_client_CA_list(c->ssl_ctx, hints);
    return true;
}

static bool load_sni(struct tls_ctx *c, const char *const *specs, struct err *err)
{
    if (specs == NULL || specs[0] == NULL)
        return true;
    c->sni = tls_sni_new(specs, &c->digest, err);
    return c->sni != NULL;
}

struct tls_ctx *tls_server_ctx_new(const struct tls_server_opts *o, struct err *err)
{
    struct tls_ctx *c = ctx_new(true, o->min_version, o->cipher_suites, err);

    if (c == NULL)
        return NULL;
    c->http2 = o->http2;
    c->hop = o->hop;
    fold_number(c, o->http2);
    fold_number(c, o->hop);
    if (!use_pair(c, o->cert_file, o->key_file, err) || !load_client_cas(c, o, err) || !load_sni(c, o->sni, err)) {
        ctx_free(c);
        return NULL;
    }
    if (c->client_ca != NULL || c->requestheader_ca != NULL) {
        SSL_CTX_set_verify(c->ssl_ctx, SSL_VERIFY_PEER, NULL);
        tls_shown_bound(c->ssl_ctx);
        SSL_CTX_set_cert_verify_callback(c->ssl_ctx, accept_any_client, NULL);
    }
    SSL_CTX_set_alpn_select_cb(c->ssl_ctx, choose_protocol, c);
    tls_tickets_enable(c);
    tls_sni_enable(c);
    return c;
}

/* ---- client ---- */

bool tls_offer_http2(const struct tls_ctx *c, SSL *ssl)
{
    const struct protocols *p = protocols_of(c->hop, true);

    return SSL_set_alpn_protos(ssl, p->names, p->n) == 0;
}

static bool offer_protocols(struct tls_ctx *c, const struct tls_client_opts *o)
{
    const struct protocols *p = protocols_of(o->hop, o->http2);

    c->http2 = o->http2;
    c->hop = o->hop;
    fold_number(c, o->http2);
    fold_number(c, o->hop);
    return SSL_CTX_set_alpn_protos(c->ssl_ctx, p->names, p->n) == 0;
}

/* Whom a client believes. False with a reason. */
static bool load_server_cas(struct tls_ctx *c, const struct tls_client_opts *o, struct err *err)
{
    if (o->ca_of != NULL) { /* all clients' digests are the same before the CAs */
        c->digest = o->ca_of->cas;
        c->server_ca = o->ca_of->server_ca;
        c->server_ca->refs++;
    } else if (!o->system_roots) {
        c->server_ca = tls_bundle_load(o->ca_file, &c->digest, err);
        if (c->server_ca == NULL)
            return false;
    }
    c->cas = c->digest;
    if (c->server_ca == NULL)
        return SSL_CTX_set_default_verify_paths(c->ssl_ctx) == 1;
    SSL_CTX_set1_cert_store(c->ssl_ctx, c->server_ca->store);
    return true;
}

struct tls_ctx *tls_client_ctx_new(const struct tls_client_opts *o, struct err *err)
{
    struct tls_ctx *c = ctx_new(false, 12, NULL, err);

    if (c == NULL || !load_server_cas(c, o, err))
        goto fail;
    if (o->cert_file != NULL && !use_pair(c, o->cert_file, o->key_file, err))
        goto fail;
    if (o->server_name != NULL)
        c->server_name = must_strdup(o->server_name);
    c->bundle_option = o->bundle_option;
    tls_digest_add(&c->digest, slice_str(o->server_name));
    fold_number(c, o->cert_file != NULL);
    fold_number(c, o->system_roots);
    SSL_CTX_set_verify(c->ssl_ctx, SSL_VERIFY_PEER, NULL);
    if (!offer_protocols(c, o))
        goto fail;
    c->sessions = tls_sessions_new();
    if (c->sessions == NULL || !tls_sessions_watch(c->sessions, c->ssl_ctx))
        goto fail;
    return c;

fail:
    err_set(err, "TLS: out of memory");
    if (c != NULL)
        ctx_free(c);
    return NULL;
}

static bool expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    unsigned char ip[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, ip) == 1 || inet_pton(AF_INET6, name, ip) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1; /* RFC 6066, 3: no literal address in SNI */
    /* As Go: only the subject alternative names count, never the CN. */
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(ssl, name) == 1 && X509_VERIFY_PARAM_set1_host(param, name, 0) == 1;
}

SSL *tls_ctx_new_ssl(struct tls_ctx *c, const char *name)
{
    SSL *ssl = SSL_new(c->ssl_ctx);

    if (name == NULL)
        name = c->server_name;
    /* Without a name to expect anybody under the CA would do. */
    if (ssl != NULL && !c->server && (name == NULL || !expect_name(ssl, name))) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}
