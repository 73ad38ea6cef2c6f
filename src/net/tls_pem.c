/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_pem.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/random.h"

const char *tls_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return reason == NULL ? "unknown error" : reason;
}

/* Of what a file holds: in words of its reader, not in the library's. */
static const char *damage(unsigned long error)
{
    const char *reason;

    if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE)
        return "nothing of the kind in PEM is in it: give another file";
    if (ERR_GET_LIB(error) == ERR_LIB_PEM || ERR_GET_LIB(error) == ERR_LIB_ASN1)
        return "it is damaged or cut short: put the whole file in its place";
    if (ERR_GET_LIB(error) == ERR_LIB_OSSL_DECODER) /* of keys: what it missed it does not say */
        return "no key in PEM can be read from it: give another file, or put the whole one in its place";
    reason = ERR_reason_error_string(error);
    return reason == NULL ? "unknown error" : reason;
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

/* NULL with *err. The digest is of the bytes that are parsed. */
static struct tls_certs *read_certs(const char *what, const char *path, struct tls_digest *d, struct err *err)
{
    struct tls_certs *c = tls_certs_read(path);

    if (c != NULL)
        tls_digest_add(d, slice_of((const char *)c->hash, sizeof(c->hash)));
    else
        err_set(err, "%s %s: %s", what, path, strerror(errno));
    return c;
}

/* ---- pairs ---- */

static bool read_chain(const char *path, struct tls_pair *out, struct tls_digest *d, struct err *err)
{
    unsigned long error;

    out->certs = read_certs("certificate", path, d, err);
    if (out->certs == NULL)
        return false;
    error = out->certs->error;
    out->cert = sk_X509_value(out->certs->all, 0);
    if (error == 0 && out->cert == NULL)
        error = ERR_PACK(ERR_LIB_PEM, 0, PEM_R_NO_START_LINE);
    if (error != 0)
        return err_set(err, "certificate %s: %s", path, damage(error));
    out->chain = sk_X509_dup(out->certs->all);
    if (out->chain == NULL)
        return err_set(err, "certificate %s: out of memory", path);
    (void)sk_X509_shift(out->chain);
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

static EVP_PKEY *parse_key(BIO *in, const char *path, struct err *err)
{
    bool encrypted = false;
    EVP_PKEY *key;

    ERR_clear_error();
    key = PEM_read_bio_PrivateKey(in, NULL, no_passphrase, &encrypted);
    if (key == NULL && encrypted)
        err_set(err, "private key %s: it is encrypted, and there is nobody to ask for the passphrase", path);
    else if (key == NULL)
        err_set(err, "private key %s: %s", path, damage(ERR_peek_last_error()));
    ERR_clear_error();
    return key;
}

/* Of the same bytes for the same certificate it is known, and known to belong to it. */
static bool read_key(const char *cert_file, const char *path, struct tls_pair *out, struct tls_digest *d,
                     struct err *err)
{
    struct tls_certs *c = out->certs;
    unsigned char hash[HASH_SHA256_BYTES];
    BIO *in = tls_file_read(path, hash);

    if (in == NULL)
        return err_set(err, "private key %s: %s", path, strerror(errno));
    tls_digest_add(d, slice_of((const char *)hash, sizeof(hash)));
    if (c->key == NULL || memcmp(c->key_hash, hash, sizeof(hash)) != 0)
        out->key = parse_key(in, path, err);
    else if (EVP_PKEY_up_ref(c->key) == 1)
        out->key = c->key;
    BIO_free(in);
    if (out->key == NULL || out->key == c->key)
        return out->key != NULL;
    if (X509_check_private_key(out->cert, out->key) != 1)
        return err_set(err, "private key %s: does not belong to certificate %s", path, cert_file);
    if (EVP_PKEY_up_ref(out->key) == 1) {
        EVP_PKEY_free(c->key);
        c->key = out->key;
        memcpy(c->key_hash, hash, sizeof(hash));
    }
    return true;
}

void tls_pair_clear(struct tls_pair *p)
{
    sk_X509_free(p->chain);
    tls_certs_unref(p->certs);
    EVP_PKEY_free(p->key);
    *p = (struct tls_pair){.cert = NULL};
}

bool tls_pair_load(const char *cert_file, const char *key_file, struct tls_pair *out, struct tls_digest *d,
                   struct err *err)
{
    bool good;

    *out = (struct tls_pair){.cert = NULL};
    good = read_chain(cert_file, out, d, err) && read_key(cert_file, key_file, out, d, err);
    ERR_clear_error();
    if (!good)
        tls_pair_clear(out);
    return good;
}

/* ---- bundles ---- */

struct tls_certs *tls_bundle_load(const char *path, struct tls_digest *d, struct err *err)
{
    struct tls_certs *c = read_certs("CA bundle", path, d, err);
    bool good = false;

    if (c == NULL)
        return NULL;
    if (c->error != 0)
        err_set(err, "CA bundle %s: certificate %d: %s", path, sk_X509_num(c->all) + 1, damage(c->error));
    else if (sk_X509_num(c->all) == 0)
        err_set(err, "CA bundle %s: no certificate in it", path);
    else if (tls_certs_store(c) == NULL)
        err_set(err, "CA bundle %s: out of memory", path);
    else
        good = true;
    if (good)
        return c;
    tls_certs_unref(c);
    return NULL;
}

/* ---- validity ---- */

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;

    return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

bool tls_pem_validity(const char *path, bool bundle, int64_t *not_before, int64_t *not_after)
{
    struct tls_certs *c = tls_certs_read(path);

    *not_before = *not_after = 0;
    for (int i = 0; c != NULL && i < sk_X509_num(c->all); i++) {
        const X509 *cert = sk_X509_value(c->all, i);
        int64_t end = seconds_of(X509_get0_notAfter(cert));

        if (end != 0 && (*not_after == 0 || (bundle ? end > *not_after : end < *not_after))) {
            *not_after = end;
            *not_before = seconds_of(X509_get0_notBefore(cert));
        }
    }
    tls_certs_unref(c);
    return *not_after != 0;
}
