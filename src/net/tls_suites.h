/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cipher suites by the names that kube-apiserver's tls-cipher-suites takes (Go's crypto/tls, which are IANA's).
 */
#ifndef MVPROXY_NET_TLS_SUITES_H
#define MVPROXY_NET_TLS_SUITES_H

#include <stdbool.h>

struct buf;

enum tls_suite_kind {
    TLS_SUITE_UNKNOWN,
    TLS_SUITE_PREFERRED,
    TLS_SUITE_INSECURE, /* Go's InsecureCipherSuites() */
    TLS_SUITE_ALWAYS,   /* of TLS 1.3: may be named, and is on whether named or not */
    TLS_SUITE_MISSING,  /* kube-apiserver has it and the TLS library here has not (RC4, 3DES) */
};

enum tls_suite_kind tls_suite_kind(const char *name);

/*
 * The list (NULL-terminated; NULL or empty: the default) as OpenSSL takes it for TLS 1.2, in our order of preference,
 * as Go does it. False if no suite of TLS 1.2 is in it: then only TLS 1.3 can be spoken.
 */
bool tls_suites_for_tls12(const char *const *names, struct buf *out);
/* The suites of TLS 1.3, in the order of preference. */
const char *tls_suites_for_tls13(void);

#endif
