/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates that a client shows, before anybody is known: how many, and keys that a signature can be checked with in
 * reasonable time. OpenSSL asks about neither: it takes 0.1 ms to parse each, and milliseconds for a signature by some
 * keys, which nobody has to have made. What is refused is in the thread's queue of errors as ERR_LIB_USER
 * (tls_words.h).
 */
#ifndef MVPROXY_NET_TLS_SHOWN_H
#define MVPROXY_NET_TLS_SHOWN_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* Of a server: more than LIMIT_CLIENT_CERTIFICATES in a handshake make it fail before they are parsed. */
void tls_shown_bound(SSL_CTX *ctx);
/* For that: how many a Certificate message holds, without its head; 0 for what is malformed. */
size_t tls_shown_count(const unsigned char *p, size_t n, bool tls13);

/* Of the client's own certificate: what Go's crypto/tls takes, and kube-apiserver with it. RSA of at most
 * LIMIT_CLIENT_RSA_BITS with an exponent below 2^31, P-256, P-384, P-521, Ed25519. */
bool tls_shown_key_good(X509 *cert);

#endif
