/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What contexts are made of: pairs and bundles in PEM files. What is parsed and what is fingerprinted are the same
 * bytes, whatever happens to the file meanwhile.
 */
#ifndef MVPROXY_NET_TLS_PEM_H
#define MVPROXY_NET_TLS_PEM_H

#include <openssl/ssl.h>

#include "base/err.h"
#include "net/tls_certs.h"

/* Grows with all that a context is made of: equal digests, equal contexts. */
struct tls_digest {
    unsigned char bytes[HASH_SHA256_BYTES];
};
void tls_digest_add(struct tls_digest *d, struct slice data);

/* A certificate, its intermediates and its key: the key belongs to the certificate. */
struct tls_pair {
    struct tls_certs *certs; /* of which: */
    X509 *cert;
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
};

/* False with *err naming file and cause; *out is then empty. Both files may be one. */
bool tls_pair_load(const char *cert_file, const char *key_file, struct tls_pair *out, struct tls_digest *d,
                   struct err *err);
void tls_pair_clear(struct tls_pair *p);

/* CAs, at least one, with a store of them. NULL with *err naming the file and which of them is damaged. */
struct tls_certs *tls_bundle_load(const char *path, struct tls_digest *d, struct err *err);

/* See tls_file_validity(). */
bool tls_pem_validity(const char *path, bool bundle, int64_t *not_before, int64_t *not_after);

/* Takes OpenSSL's last error, the closest to a cause that a person can do something about; valid for ever. */
const char *tls_reason(void);

#endif
