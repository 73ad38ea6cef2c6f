/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates by name (tls-sni-cert-key): which pair a client gets, by kube-apiserver's rules.
 */
#ifndef MVPROXY_NET_TLS_SNI_H
#define MVPROXY_NET_TLS_SNI_H

#include "base/err.h"
#include "base/mem.h"

enum { TLS_SNI_PATH_BYTES = 4096, TLS_SNI_MAX_PAIRS = 256 };

/* One value of the option, in kube-apiserver's notation: "cert,key" or "cert,key:pattern,pattern". */
struct tls_sni_spec {
    char cert_file[TLS_SNI_PATH_BYTES], key_file[TLS_SNI_PATH_BYTES];
    struct slice patterns; /* separated by commas, part of the text; empty: the certificate's own names */
};

bool tls_sni_parse(const char *text, struct tls_sni_spec *out, struct err *err);

#endif
