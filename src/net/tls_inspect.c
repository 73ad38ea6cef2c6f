/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "net/tls_internal.h"

/* NULL with errno. Wiped when it is freed: keys are looked at, too. */
static BIO *open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    BIO *in = BIO_new(BIO_s_secmem());
    char piece[4096];
    ssize_t n = -1;

    while (fd >= 0 && in != NULL && (n = read(fd, piece, sizeof(piece))) > 0)
        if (BIO_write(in, piece, (int)n) != (int)n || BIO_pending(in) > LIMIT_PEM_BYTES)
            break;
    OPENSSL_cleanse(piece, sizeof(piece));
    if (fd >= 0)
        close(fd);
    if (n == 0)
        return in;
    BIO_free(in);
    return NULL;
}

static STACK_OF(X509) * read_all(const char *path)
{
    STACK_OF(X509) *all = sk_X509_new_null();
    BIO *in = open_file(path);
    X509 *cert;

    while (in != NULL && all != NULL && (cert = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL)
        if (sk_X509_push(all, cert) == 0) {
            X509_free(cert);
            break;
        }
    BIO_free(in);
    ERR_clear_error();
    return all;
}

static void free_all(STACK_OF(X509) * all)
{
    sk_X509_pop_free(all, X509_free);
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

void tls_inspect(const char *path, struct tls_file_facts *out)
{
    char *name, *header;
    unsigned char *data;
    BIO *in;
    long n;

    *out = (struct tls_file_facts){0};
    errno = 0;
    in = open_file(path);
    if (in == NULL) {
        out->error = errno != 0 ? errno : EIO;
        return;
    }
    while (PEM_read_bio(in, &name, &header, &data, &n) == 1) {
        const unsigned char *at = data;
        X509 *cert = strcmp(name, PEM_STRING_X509) == 0 ? d2i_X509(NULL, &at, n) : NULL;

        if (cert != NULL && !out->has_certificate)
            take_certificate(cert, out);
        out->has_ca = out->has_ca || (cert != NULL && X509_check_ca(cert) != 0);
        out->damaged = out->damaged || (cert == NULL && strcmp(name, PEM_STRING_X509) == 0);
        out->has_key = out->has_key || strstr(name, "PRIVATE KEY") != NULL;
        X509_free(cert);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_clear_free(data, (size_t)n);
    }
    out->damaged = out->damaged || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE;
    ERR_clear_error();
    BIO_free(in);
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
    STACK_OF(X509) *all = read_all(path);
    X509 *first = sk_X509_num(all) > 0 ? sk_X509_value(all, 0) : NULL;
    bool covers =
        first != NULL && (X509_check_host(first, name, 0, 0, NULL) == 1 || X509_check_ip_asc(first, name, 0) == 1);

    free_all(all);
    return covers;
}

bool tls_inspect_common_name(const char *path, char *out, size_t room)
{
    STACK_OF(X509) *all = read_all(path);
    X509_NAME *subject = sk_X509_num(all) > 0 ? X509_get_subject_name(sk_X509_value(all, 0)) : NULL;
    int at = -1, next, n = -1;
    unsigned char *text;

    while (subject != NULL && (next = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0)
        at = next;
    if (at >= 0)
        n = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    free_all(all);
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
    STACK_OF(X509) *all = read_all(path);
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool is_signed = false;

    if (store != NULL && ctx != NULL && sk_X509_num(all) > 0 &&
        X509_STORE_CTX_init(ctx, store, sk_X509_value(all, 0), all) == 1) {
        X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_NO_CHECK_TIME | X509_V_FLAG_PARTIAL_CHAIN);
        is_signed = X509_verify_cert(ctx) == 1;
    }
    X509_STORE_CTX_free(ctx);
    free_all(all);
    ERR_clear_error();
    return is_signed;
}

bool tls_inspect_signed(const char *path, const char *bundle)
{
    STACK_OF(X509) *roots = read_all(bundle);
    X509_STORE *store = X509_STORE_new();
    bool is_signed;

    for (int i = 0; store != NULL && i < sk_X509_num(roots); i++)
        (void)X509_STORE_add_cert(store, sk_X509_value(roots, i));
    is_signed = is_signed_by(path, store);
    X509_STORE_free(store);
    free_all(roots);
    return is_signed;
}

bool tls_inspect_signed_in(const char *path, const struct tls_ctx *client)
{
    return is_signed_by(path, SSL_CTX_get_cert_store(client->ssl_ctx));
}

bool tls_inspect_belongs(const char *cert, const char *key)
{
    STACK_OF(X509) *all = read_all(cert);
    BIO *in = open_file(key);
    EVP_PKEY *k = in == NULL ? NULL : PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)"");
    bool belongs = k != NULL && sk_X509_num(all) > 0 && X509_check_private_key(sk_X509_value(all, 0), k) == 1;

    EVP_PKEY_free(k);
    BIO_free(in);
    free_all(all);
    ERR_clear_error();
    return belongs;
}

bool tls_inspect_shared(const char *a, const char *b)
{
    STACK_OF(X509) *some = read_all(a), *others = read_all(b);
    bool shared = false;

    for (int i = 0; i < sk_X509_num(some); i++)
        for (int k = 0; k < sk_X509_num(others); k++)
            shared = shared || X509_cmp(sk_X509_value(some, i), sk_X509_value(others, k)) == 0;
    free_all(some);
    free_all(others);
    return shared;
}
