/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_inspect.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "net/tls_internal.h"

/* The first certificate of a file, or NULL. */
static X509 *first_of(const struct tls_certs *c)
{
    return c == NULL ? NULL : sk_X509_value(c->all, 0);
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;

    return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static void take_certificate(X509 *cert, struct tls_file_facts *out)
{
    uint32_t usage = X509_get_extended_key_usage(cert); /* UINT32_MAX: it has none, so it may be used for anything */

    out->has_certificate = true;
    out->valid.not_before = seconds_of(X509_get0_notBefore(cert));
    out->valid.not_after = seconds_of(X509_get0_notAfter(cert));
    out->for_servers = (usage & (XKU_SSL_SERVER | XKU_ANYEKU)) != 0;
    out->for_clients = (usage & (XKU_SSL_CLIENT | XKU_ANYEKU)) != 0;
}

static bool has_ca(const struct tls_certs *c)
{
    int i = 0;

    while (i < sk_X509_num(c->all) && X509_check_ca(sk_X509_value(c->all, i)) == 0)
        i++;
    return i < sk_X509_num(c->all);
}

void tls_inspect(const char *path, struct tls_file_facts *out)
{
    struct tls_certs *c = tls_certs_read(path);

    *out = (struct tls_file_facts){0};
    if (c == NULL) {
        out->error = errno;
        return;
    }
    if (first_of(c) != NULL)
        take_certificate(first_of(c), out);
    out->has_ca = has_ca(c);
    out->has_key = c->has_key;
    out->damaged = c->error != 0;
    tls_certs_unref(c);
}

bool tls_inspect_ended(struct slice pem)
{
    BIO *in = pem.n > LIMIT_PEM_BYTES ? NULL : BIO_new_mem_buf(pem.p, (int)pem.n);
    X509 *cert = in == NULL ? NULL : PEM_read_bio_X509(in, NULL, NULL, NULL);
    bool ended = cert != NULL && seconds_of(X509_get0_notAfter(cert)) < clock_wall_us() / 1000000;

    X509_free(cert);
    BIO_free(in);
    ERR_clear_error();
    return ended;
}

bool tls_inspect_covers(const char *path, const char *name)
{
    struct tls_certs *c = tls_certs_read(path);
    X509 *first = first_of(c);
    bool covers =
        first != NULL && (X509_check_host(first, name, 0, 0, NULL) == 1 || X509_check_ip_asc(first, name, 0) == 1);

    tls_certs_unref(c);
    return covers;
}

bool tls_inspect_common_name(const char *path, char *out, size_t room)
{
    struct tls_certs *c = tls_certs_read(path);
    X509_NAME *subject = first_of(c) != NULL ? X509_get_subject_name(first_of(c)) : NULL;
    int at = -1, next, n = -1;
    unsigned char *text;

    while (subject != NULL && (next = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0)
        at = next;
    if (at >= 0)
        n = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    tls_certs_unref(c);
    if (n < 0)
        return false;
    if ((size_t)n < room && memchr(text, 0, (size_t)n) == NULL) {
        memcpy(out, text, (size_t)n);
        out[n] = '\0';
    } else {
        n = 0;
    }
    OPENSSL_free(text);
    return n > 0;
}

/* Whether one of the store's CAs has, or what stands in it itself. */
static bool is_signed_by(const char *path, X509_STORE *store)
{
    struct tls_certs *c = tls_certs_read(path);
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool is_signed = false;

    if (ctx != NULL && first_of(c) != NULL && X509_STORE_CTX_init(ctx, store, first_of(c), c->all) == 1) {
        X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_NO_CHECK_TIME);
        is_signed = X509_verify_cert(ctx) == 1;
    }
    X509_STORE_CTX_free(ctx);
    tls_certs_unref(c);
    ERR_clear_error();
    return is_signed;
}

bool tls_inspect_signed(const char *path, const char *bundle)
{
    struct tls_certs *cas = tls_certs_read(bundle);
    bool is_signed = cas != NULL && tls_certs_store(cas) != NULL && is_signed_by(path, cas->store);

    tls_certs_unref(cas);
    return is_signed;
}

bool tls_inspect_signed_in(const char *path, const struct tls_ctx *client)
{
    return is_signed_by(path, SSL_CTX_get_cert_store(client->ssl_ctx));
}

bool tls_inspect_signed_for(const char *path, const struct tls_ctx *server)
{
    return server->requestheader_ca != NULL && is_signed_by(path, server->requestheader_ca->store);
}

bool tls_inspect_belongs(const char *cert, const char *key)
{
    struct tls_digest unused = {{0}};
    struct tls_pair pair;
    bool belongs = tls_pair_load(cert, key, &pair, &unused, NULL);

    tls_pair_clear(&pair);
    return belongs;
}

static bool has(const struct tls_certs *c, const X509 *cert)
{
    int i = 0;

    while (i < sk_X509_num(c->all) && X509_cmp(sk_X509_value(c->all, i), cert) != 0)
        i++;
    return i < sk_X509_num(c->all);
}

bool tls_inspect_shared(const char *a, const char *b)
{
    struct tls_certs *some = tls_certs_read(a), *others = tls_certs_read(b);
    bool shared = false;

    for (int i = 0; some != NULL && others != NULL && i < sk_X509_num(some->all) && !shared; i++)
        shared = has(others, sk_X509_value(some->all, i));
    tls_certs_unref(some);
    tls_certs_unref(others);
    return shared;
}
