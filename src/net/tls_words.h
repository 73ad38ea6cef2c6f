/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What failed in TLS, in words that say what to look for: the one place where the library's own are put into others.
 */
#ifndef MVPROXY_NET_TLS_WORDS_H
#define MVPROXY_NET_TLS_WORDS_H

#include <openssl/ssl.h>
#include <stdbool.h>

enum { TLS_WORDS_BYTES = 256 };

/* What we refuse ourselves, where OpenSSL asks us: reasons in its queue of errors, of ERR_LIB_USER. */
enum tls_words_reason {
    TLS_WORDS_LONG_HELLO = 100,
    TLS_WORDS_MANY_TICKETS,
    TLS_WORDS_DEAR_KEY,
    TLS_WORDS_MANY_CERTIFICATES,
};

/* Why a server's certificate was refused: "its CA is not in peer-ca-file". Verification has failed. `bundle` is the
 * option that names those CAs; may be NULL. */
void tls_words_refusal(SSL *ssl, const char *bundle, char out[TLS_WORDS_BYTES]);
/* The same of a client's, by the verdict of the bundles that clients are judged by: "no CA ... has signed it". */
const char *tls_words_client(long verdict);
/* Any other error of the library's queue; 0: none was there. `server`: whether we are that. */
const char *tls_words_error(unsigned long error, bool server);

#endif
