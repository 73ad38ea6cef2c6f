/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of certificates, parsed. OpenSSL 3 takes a quarter of a millisecond for each certificate, nearly all of it for
 * decoding its public key. So the same bytes are parsed once: who reads them while somebody has them, as the TLS
 * contexts made of them do, is given the same. What nobody has can be parsed in steps.
 */
#ifndef MVPROXY_NET_TLS_CERTS_H
#define MVPROXY_NET_TLS_CERTS_H

#include "base/hash.h"
#include "base/step.h"

struct evp_pkey_st;   /* EVP_PKEY */
struct bio_st;        /* BIO */
struct stack_st_X509; /* STACK_OF(X509) */
struct x509_store_st; /* X509_STORE */

/* To be read, once it is parsed. */
struct tls_certs {
    struct tls_certs *next; /* of all that somebody has */
    unsigned refs;
    unsigned char hash[HASH_SHA256_BYTES]; /* of the file */
    struct bio_st *rest;                   /* what is not parsed yet; NULL: it is all */
    struct stack_st_X509 *all;             /* those before the first that is damaged */
    bool has_key;                          /* also a private key, encrypted or not */
    unsigned long error;                   /* OpenSSL's, of what is damaged; 0: nothing is */
    struct x509_store_st *store;           /* tls_certs_store() */
    struct evp_pkey_st *key; /* tls_pair_load()'s, NULL: none yet: the private key of the first, from a file */
    unsigned char key_hash[HASH_SHA256_BYTES]; /* with this hash */
};

/* Reads the file, and parses nothing. NULL with errno. */
struct tls_certs *tls_certs_begin(const char *path);
/* Parses one certificate. Never fails: see `error`. */
enum step tls_certs_step(struct tls_certs *c);
/* Both, in one go. */
struct tls_certs *tls_certs_read(const char *path);
void tls_certs_unref(struct tls_certs *c);
/* Trusts each of them as it is, self-signed or not: as Go's roots. Lives as long as *c. NULL: out of memory. */
struct x509_store_st *tls_certs_store(struct tls_certs *c);

/* Any file as it is, in memory that is wiped when it is freed, and its hash. NULL with errno. */
struct bio_st *tls_file_read(const char *path, unsigned char hash[HASH_SHA256_BYTES]);

#endif
