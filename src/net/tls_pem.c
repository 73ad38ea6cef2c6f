/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_pem.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/random.h"

const char *tls_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return reason == NULL ? "unknown error" : reason;
}

/* Of what a file holds: in words of its reader, not in the library's. */
static const char *damage(void)
{
    unsigned long error = ERR_peek_last_error();

    if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE) {
        ERR_clear_error();
        return "nothing of the kind in PEM is in it: give another file";
    }
    if (ERR_GET_LIB(error) == ERR_LIB_PEM || ERR_GET_LIB(error) == ERR_LIB_ASN1) {
        ERR_clear_error();
        return "it is damaged or cut short: put the whole file in its place";
    }
    if (ERR_GET_LIB(error) == ERR_LIB_OSSL_DECODER) { /* of keys: what it missed it does not say */
        ERR_clear_error();
        return "no key in PEM can be read from it: give another file, or put the whole one in its place";
    }
    return tls_reason();
}

void tls_digest_add(struct tls_digest *d, struct slice data)
{
    unsigned char both[2 * HASH_SHA256_BYTES];

    memcpy(both, d->bytes, HASH_SHA256_BYTES);
    /* Without a digest it equals no other: random, so that a context is rather replaced than kept. */
    if (!hash_sha256(data, both + HASH_SHA256_BYTES) ||
        !hash_sha256(slice_of((const char *)both, sizeof(both)), d->bytes))
        for (size_t i = 0; i < sizeof(d->bytes); i++)
            d->bytes[i] = (unsigned char)random_u64();
}

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

/* The whole file, in memory that is wiped when it is freed. */
static BIO *read_file(const char *what, const char *path, struct tls_digest *d, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever it is, nobody waits for it */
    BIO *in = BIO_new(BIO_s_secmem());
    char *data = NULL;
    bool done = fd >= 0 && in != NULL && read_fd(fd, in);
    int error = fd >= 0 && in == NULL ? ENOMEM : errno;

    if (fd >= 0)
        close(fd);
    if (done) {
        long n = BIO_get_mem_data(in, &data);

        tls_digest_add(d, slice_of(data, (size_t)n));
        BIO_set_mem_eof_return(in, 0);
        ERR_clear_error();
        return in;
    }
    BIO_free(in);
    err_set(err, "%s %s: %s", what, path, strerror(error));
    return NULL;
}

/* Whether reading ended because there is no further block, and not in the middle of one. */
static bool ended_well(void)
{
    unsigned long e = ERR_peek_last_error();

    if (e != 0 && ERR_GET_REASON(e) != PEM_R_NO_START_LINE)
        return false;
    ERR_clear_error();
    return true;
}

/* ---- pairs ---- */

static bool read_chain(BIO *in, struct tls_pair *out)
{
    X509 *cert;

    out->cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
    out->chain = sk_X509_new_null();
    if (out->cert == NULL || out->chain == NULL)
        return false;
    while ((cert = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(out->chain, cert) == 0) {
            X509_free(cert);
            return false;
        }
    }
    return ended_well();
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

static bool read_key(BIO *in, const char *path, struct tls_pair *out, struct err *err)
{
    bool encrypted = false;

    out->key = PEM_read_bio_PrivateKey(in, NULL, no_passphrase, &encrypted);
    if (out->key != NULL)
        return true;
    if (encrypted) {
        ERR_clear_error();
        return err_set(err, "private key %s: it is encrypted, and there is nobody to ask for the passphrase", path);
    }
    return err_set(err, "private key %s: %s", path, damage());
}

void tls_pair_clear(struct tls_pair *p)
{
    X509_free(p->cert);
    sk_X509_pop_free(p->chain, X509_free);
    EVP_PKEY_free(p->key);
    *p = (struct tls_pair){NULL, NULL, NULL};
}

bool tls_pair_load(const char *cert_file, const char *key_file, struct tls_pair *out, struct tls_digest *d,
                   struct err *err)
{
    BIO *cert = read_file("certificate", cert_file, d, err);
    BIO *key = cert == NULL ? NULL : read_file("private key", key_file, d, err);
    bool good = key != NULL;

    *out = (struct tls_pair){NULL, NULL, NULL};
    if (good && !read_chain(cert, out))
        good = err_set(err, "certificate %s: %s", cert_file, damage());
    good = good && read_key(key, key_file, out, err);
    if (good && X509_check_private_key(out->cert, out->key) != 1)
        good = err_set(err, "private key %s: does not belong to certificate %s", key_file, cert_file);
    ERR_clear_error();
    BIO_free(cert);
    BIO_free(key);
    if (!good)
        tls_pair_clear(out);
    return good;
}

/* ---- bundles ---- */

static bool add_to_bundle(X509_STORE *store, STACK_OF(X509_NAME) * hints, X509 *cert)
{
    X509_NAME *name = hints == NULL ? NULL : X509_NAME_dup(X509_get_subject_name(cert));

    if (hints != NULL && (name == NULL || sk_X509_NAME_push(hints, name) == 0)) {
        X509_NAME_free(name);
        return false;
    }
    return X509_STORE_add_cert(store, cert) == 1;
}

bool tls_bundle_load(X509_STORE *store, STACK_OF(X509_NAME) * hints, const char *path, struct tls_digest *d,
                     struct err *err)
{
    BIO *in = read_file("CA bundle", path, d, err);
    unsigned count = 0;
    bool good = true;
    X509 *cert;

    if (in == NULL)
        return false;
    while (good && (cert = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL) {
        good = add_to_bundle(store, hints, cert);
        X509_free(cert);
        count++;
    }
    BIO_free(in);
    if (!good || !ended_well())
        return err_set(err, "CA bundle %s: certificate %u: %s", path, count + good, damage());
    return count > 0 || err_set(err, "CA bundle %s: no certificate in it", path);
}

/* ---- validity ---- */

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;

    return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

bool tls_pem_validity(const char *path, bool bundle, int64_t *not_before, int64_t *not_after)
{
    struct tls_digest unused = {{0}};
    BIO *in = read_file("certificate", path, &unused, NULL);
    X509 *cert;

    *not_before = *not_after = 0;
    while (in != NULL && (cert = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL) {
        int64_t end = seconds_of(X509_get0_notAfter(cert));

        if (end != 0 && (*not_after == 0 || (bundle ? end > *not_after : end < *not_after))) {
            *not_after = end;
            *not_before = seconds_of(X509_get0_notBefore(cert));
        }
        X509_free(cert);
    }
    BIO_free(in);
    ERR_clear_error();
    return *not_after != 0;
}
