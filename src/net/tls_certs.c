/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_certs.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/limits.h"

enum { MAX_CHAIN_DEPTH = 10 }; /* intermediates between a certificate and its CA */

static struct tls_certs *known; /* all that somebody has: whoever may read these bytes may have them */

/* ---- files ---- */

static bool read_fd(int fd, BIO *out)
{
    char piece[4096];
    size_t total = 0;
    ssize_t n;

    while ((n = read(fd, piece, sizeof(piece))) > 0 && total <= LIMIT_PEM_BYTES) {
        total += (size_t)n;
        if (BIO_write(out, piece, (int)n) != (int)n) {
            errno = ENOMEM;
            n = -1;
            break;
        }
    }
    OPENSSL_cleanse(piece, sizeof(piece));
    if (n > 0)
        errno = EFBIG;
    return n == 0;
}

static BIO *read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever it is, nobody waits for it */
    BIO *in = BIO_new(BIO_s_secmem());
    bool done = fd >= 0 && in != NULL && read_fd(fd, in);
    int error = fd >= 0 && in == NULL ? ENOMEM : errno;

    if (fd >= 0)
        (void)close(fd);
    if (done) {
        BIO_set_mem_eof_return(in, 0);
        ERR_clear_error();
        return in;
    }
    BIO_free(in);
    errno = error;
    return NULL;
}

static bool hash_of(BIO *in, unsigned char out[HASH_SHA256_BYTES])
{
    char *data = NULL;
    long n = BIO_get_mem_data(in, &data);

    return hash_sha256(slice_of(data, (size_t)n), out);
}

BIO *tls_file_read(const char *path, unsigned char hash[HASH_SHA256_BYTES])
{
    BIO *in = read_file(path);

    if (in == NULL || hash_of(in, hash))
        return in;
    BIO_free(in);
    errno = ENOMEM;
    return NULL;
}

/* ---- certificates ---- */

static struct tls_certs *find(const unsigned char hash[HASH_SHA256_BYTES])
{
    struct tls_certs *c = known;

    while (c != NULL && memcmp(c->hash, hash, sizeof(c->hash)) != 0)
        c = c->next;
    return c;
}

/* Takes `in`. */
static struct tls_certs *add(BIO *in, const unsigned char hash[HASH_SHA256_BYTES])
{
    struct tls_certs *c = mem_zalloc(sizeof(*c));
    STACK_OF(X509) *all = c == NULL ? NULL : sk_X509_new_null();

    if (all == NULL) {
        mem_free(c);
        BIO_free(in);
        errno = ENOMEM;
        return NULL;
    }
    *c = (struct tls_certs){.next = known, .refs = 1, .rest = in, .all = all};
    memcpy(c->hash, hash, sizeof(c->hash));
    known = c;
    return c;
}

struct tls_certs *tls_certs_begin(const char *path)
{
    unsigned char hash[HASH_SHA256_BYTES];
    BIO *in = tls_file_read(path, hash);
    struct tls_certs *c = in == NULL ? NULL : find(hash);

    if (in == NULL)
        return NULL;
    if (c == NULL)
        return add(in, hash);
    BIO_free(in);
    c->refs++;
    return c;
}

void tls_certs_unref(struct tls_certs *c)
{
    struct tls_certs **at = &known;

    must_hold(c == NULL || c->refs > 0);
    if (c == NULL || --c->refs > 0)
        return;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    BIO_free(c->rest);
    X509_STORE_free(c->store);
    EVP_PKEY_free(c->key);
    sk_X509_pop_free(c->all, X509_free);
    mem_free(c);
}

/* Reads its extensions, for whoever compares or verifies. False: not all of it is understood. */
static bool is_whole(X509 *cert)
{
    (void)X509_check_purpose(cert, -1, 0);
    return (X509_get_extension_flags(cert) & EXFLAG_INVALID) == 0 && X509_get0_pubkey(cert) != NULL;
}

static X509 *decode(const unsigned char *der, long n)
{
    return d2i_X509(NULL, &der, n);
}

static void take(struct tls_certs *c, const char *header, const unsigned char *der, long n)
{
    X509 *cert = header[0] == '\0' ? decode(der, n) : NULL; /* nor is one encrypted */

    /* Where it finds no memory for a key, or an extension, OpenSSL leaves that out. */
    if (cert != NULL && !is_whole(cert)) {
        X509_free(cert);
        cert = decode(der, n);
    }
    if (cert == NULL) {
        c->error = ERR_PACK(ERR_LIB_PEM, 0, ERR_R_ASN1_LIB);
        return;
    }
    (void)is_whole(cert);
    if (sk_X509_push(c->all, cert) > 0)
        return;
    X509_free(cert);
    c->error = ERR_PACK(ERR_LIB_CRYPTO, 0, ERR_R_MALLOC_FAILURE);
}

static bool is_certificate(const char *name)
{
    return strcmp(name, PEM_STRING_X509) == 0 || strcmp(name, PEM_STRING_X509_OLD) == 0;
}

static void end(struct tls_certs *c)
{
    unsigned long error = ERR_peek_last_error();

    /* That there is no further block, and not that one has no end. Of some allocations that fail nothing is said. */
    if (c->error == 0 && (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE))
        c->error = error != 0 ? error : ERR_PACK(ERR_LIB_CRYPTO, 0, ERR_R_MALLOC_FAILURE);
    BIO_free(c->rest);
    c->rest = NULL;
}

enum step tls_certs_step(struct tls_certs *c)
{
    char *name, *header;
    unsigned char *der;
    long n;

    if (c->rest == NULL)
        return STEP_DONE;
    ERR_clear_error();
    if (PEM_read_bio(c->rest, &name, &header, &der, &n) == 1) {
        c->has_key = c->has_key || strstr(name, "PRIVATE KEY") != NULL;
        if (c->error == 0 && is_certificate(name))
            take(c, header, der, n);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_clear_free(der, (size_t)n);
    } else {
        end(c);
    }
    ERR_clear_error();
    return c->rest == NULL ? STEP_DONE : STEP_MORE;
}

struct tls_certs *tls_certs_read(const char *path)
{
    struct tls_certs *c = tls_certs_begin(path);

    while (c != NULL && tls_certs_step(c) == STEP_MORE)
        continue;
    return c;
}

/* ---- whom they make believed ---- */

static X509_STORE *make_store(STACK_OF(X509) * all)
{
    X509_STORE *store = X509_STORE_new();

    if (store == NULL)
        return NULL;
    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
    X509_STORE_set_depth(store, MAX_CHAIN_DEPTH);
    for (int i = 0; i < sk_X509_num(all); i++) {
        if (X509_STORE_add_cert(store, sk_X509_value(all, i)) == 1)
            continue;
        X509_STORE_free(store);
        return NULL;
    }
    return store;
}

X509_STORE *tls_certs_store(struct tls_certs *c)
{
    if (c->store == NULL)
        c->store = make_store(c->all);
    return c->store;
}
