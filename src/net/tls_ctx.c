#include "net/tls_ctx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

#include "net/tls_bio.h"
#include "net/tls_internal.h"

/* Like Go's defaults, which kube-apiserver uses: forward secrecy and AEAD, AES-128 first. */
static const char tls13_suites[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char tls12_ciphers[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                                    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                                    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char curves[] = "X25519:P-256:P-384";

enum { SESSION_LIFETIME_S = 3600 };

/* ----------------------------------------------------------------------------------------------------- files */

/* The last error is the closest to the cause that a person can do something about. */
static const char *openssl_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return reason == NULL ? "unknown error" : reason;
}

static bool readable(const char *what, const char *path, struct err *err)
{
    FILE *f = fopen(path, "r");

    if (f == NULL)
        return err_set(err, "%s %s: %s", what, path, strerror(errno));
    fclose(f);
    return true;
}

/* Never asks a terminal; remembers that it was needed. */
static int no_passphrase(char *out, int size, int writing, void *arg)
{
    (void)out;
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

static bool use_key(SSL_CTX *ctx, const char *path, struct err *err)
{
    bool encrypted = false;
    int done;

    if (!readable("private key", path, err))
        return false;
    ERR_clear_error();
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
    done = SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    if (encrypted)
        return err_set(err, "private key %s: it is encrypted, and there is nobody to ask for the passphrase", path);
    if (done == 1)
        return true;
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return err_set(err, "private key %s: does not belong to the certificate", path);
    return err_set(err, "private key %s: %s", path, openssl_reason());
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;

    return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static void note_expiry(struct tls_ctx *c, X509 *cert)
{
    int64_t t = cert == NULL ? 0 : seconds_of(X509_get0_notAfter(cert));

    if (t != 0 && (c->not_after == 0 || t < c->not_after))
        c->not_after = t;
}

static bool use_pair(struct tls_ctx *c, const char *cert_file, const char *key_file, struct err *err)
{
    STACK_OF(X509) *chain = NULL;

    if (!readable("certificate", cert_file, err))
        return false;
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(c->ssl_ctx, cert_file) != 1)
        return err_set(err, "certificate %s: %s", cert_file, openssl_reason());
    if (!use_key(c->ssl_ctx, key_file, err))
        return false;
    if (SSL_CTX_check_private_key(c->ssl_ctx) != 1) {
        ERR_clear_error();
        return err_set(err, "private key %s: does not belong to certificate %s", key_file, cert_file);
    }
    note_expiry(c, SSL_CTX_get0_certificate(c->ssl_ctx));
    SSL_CTX_get0_chain_certs(c->ssl_ctx, &chain);
    for (int i = 0; i < sk_X509_num(chain); i++)
        note_expiry(c, sk_X509_value(chain, i));
    return true;
}

/* Adds what the bundle holds to the store and, if not NULL, its subjects to `hints`. */
static bool load_bundle(X509_STORE *store, STACK_OF(X509_NAME) * hints, const char *path, struct err *err)
{
    FILE *f = fopen(path, "r");
    unsigned count = 0;
    bool good = true;
    X509 *cert;

    if (f == NULL)
        return err_set(err, "CA bundle %s: %s", path, strerror(errno));
    ERR_clear_error();
    while (good && (cert = PEM_read_X509(f, NULL, NULL, NULL)) != NULL) {
        X509_NAME *name = hints == NULL ? NULL : X509_NAME_dup(X509_get_subject_name(cert));

        good = X509_STORE_add_cert(store, cert) == 1;
        if (hints != NULL && (name == NULL || sk_X509_NAME_push(hints, name) == 0)) {
            X509_NAME_free(name);
            good = false;
        }
        X509_free(cert);
        count++;
    }
    fclose(f);
    if (!good || (ERR_peek_last_error() != 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE))
        return err_set(err, "CA bundle %s: certificate %u: %s", path, count + good, openssl_reason());
    ERR_clear_error();
    return count > 0 || err_set(err, "CA bundle %s: no certificate in it", path);
}

static X509_STORE *new_store(void)
{
    X509_STORE *store = X509_STORE_new();

    /* What the bundle holds is trusted as it is, self-signed or not: as Go's roots. */
    if (store != NULL)
        X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
    return store;
}

/* ---------------------------------------------------------------------------------------------------- common */

static void ctx_free(struct tls_ctx *c)
{
    SSL_CTX_free(c->ssl_ctx);
    X509_STORE_free(c->client_ca);
    X509_STORE_free(c->requestheader_ca);
    BIO_meth_free(c->bio_method);
    tls_sessions_free(c->sessions);
    mem_free(c->server_name);
    mem_free(c);
}

static struct tls_ctx *ctx_new(bool server, int min_version, const char *ciphers, struct err *err)
{
    struct tls_ctx *c = must_zalloc(sizeof(*c));
    SSL_CTX *ctx;

    c->refs = 1;
    c->server = server;
    c->bio_method = tls_bio_method();
    c->ssl_ctx = ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (ctx == NULL || c->bio_method == NULL) {
        err_set(err, "TLS: %s", openssl_reason());
        ctx_free(c);
        return NULL;
    }
    SSL_CTX_set_app_data(ctx, c);
    SSL_CTX_set_min_proto_version(ctx, min_version == 13 ? TLS1_3_VERSION : TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    /* What the certificate file holds is the chain; the CA that we judge others by is not ours to send. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_timeout(ctx, SESSION_LIFETIME_S);
    if (SSL_CTX_set1_groups_list(ctx, curves) != 1 || SSL_CTX_set_ciphersuites(ctx, tls13_suites) != 1 ||
        SSL_CTX_set_cipher_list(ctx, ciphers == NULL ? tls12_ciphers : ciphers) != 1) {
        err_set(err, "cipher suites %s: %s", ciphers == NULL ? tls12_ciphers : ciphers, openssl_reason());
        ctx_free(c);
        return NULL;
    }
    return c;
}

struct tls_ctx *tls_ctx_ref(struct tls_ctx *c)
{
    c->refs++;
    return c;
}

void tls_ctx_unref(struct tls_ctx *c)
{
    if (c != NULL && --c->refs == 0)
        ctx_free(c);
}

int64_t tls_ctx_not_after(const struct tls_ctx *c)
{
    return c->not_after;
}

/* ---------------------------------------------------------------------------------------------------- server */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
                           unsigned inlen, void *arg)
{
    const struct tls_ctx *c = arg;
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    const unsigned char *from = c->http2 ? ours : ours + 3;
    unsigned n = (unsigned)(sizeof(ours) - 1) - (c->http2 ? 0U : 3U);
    unsigned char *chosen;

    (void)ssl;
    /* Who names protocols and none of ours is refused (RFC 7301, 3.2), as by kube-apiserver. */
    if (SSL_select_next_proto(&chosen, outlen, from, n, in, inlen) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Any certificate may shake hands; tls_identity.c judges it afterwards, once, against both bundles. */
static int accept_any_client(X509_STORE_CTX *store, void *arg)
{
    (void)arg;
    X509_STORE_CTX_set_error(store, X509_V_OK);
    return 1;
}

static bool load_client_cas(struct tls_ctx *c, const struct tls_server_opts *o, struct err *err)
{
    STACK_OF(X509_NAME) *hints = sk_X509_NAME_new_null();
    bool good = hints != NULL;

    if (!good)
        return err_set(err, "out of memory");
    if (o->client_ca_file != NULL) {
        c->client_ca = new_store();
        good = c->client_ca != NULL && load_bundle(c->client_ca, hints, o->client_ca_file, err);
    }
    if (good && o->requestheader_ca_file != NULL) {
        c->requestheader_ca = new_store();
        good = c->requestheader_ca != NULL && load_bundle(c->requestheader_ca, hints, o->requestheader_ca_file, err);
    }
    if (!good) {
        sk_X509_NAME_pop_free(hints, X509_NAME_free);
        return err_set(err, "out of memory");
    }
    SSL_CTX_set_client_CA_list(c->ssl_ctx, hints);
    return true;
}

struct tls_ctx *tls_server_ctx_new(const struct tls_server_opts *o, struct err *err)
{
    struct tls_ctx *c = ctx_new(true, o->min_version, o->ciphers, err);

    if (c == NULL)
        return NULL;
    c->http2 = o->http2;
    if (!use_pair(c, o->cert_file, o->key_file, err) || !load_client_cas(c, o, err)) {
        ctx_free(c);
        return NULL;
    }
    if (c->client_ca != NULL || c->requestheader_ca != NULL) {
        SSL_CTX_set_verify(c->ssl_ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(c->ssl_ctx, accept_any_client, NULL);
    }
    SSL_CTX_set_alpn_select_cb(c->ssl_ctx, choose_protocol, c);
    tls_tickets_enable(c->ssl_ctx);
    return c;
}

/* ---------------------------------------------------------------------------------------------------- client */

struct tls_ctx *tls_client_ctx_new(const struct tls_client_opts *o, struct err *err)
{
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    struct tls_ctx *c = ctx_new(false, 12, NULL, err);
    X509_STORE *store = new_store();

    if (c == NULL || store == NULL || !load_bundle(store, NULL, o->ca_file, err))
        goto fail;
    SSL_CTX_set_cert_store(c->ssl_ctx, store); /* takes the reference */
    store = NULL;
    if (o->cert_file != NULL && !use_pair(c, o->cert_file, o->key_file, err))
        goto fail;
    if (o->server_name != NULL)
        c->server_name = must_strdup(o->server_name);
    c->http2 = o->http2;
    SSL_CTX_set_verify(c->ssl_ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(c->ssl_ctx, o->http2 ? both : both + 3,
                                (unsigned)(sizeof(both) - 1) - (o->http2 ? 0U : 3U)) != 0)
        goto fail;
    c->sessions = tls_sessions_new();
    if (c->sessions == NULL)
        goto fail;
    tls_sessions_watch(c);
    return c;

fail:
    err_set(err, "TLS: out of memory");
    X509_STORE_free(store);
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
