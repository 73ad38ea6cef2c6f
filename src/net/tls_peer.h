/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the other side's certificate says, as plain data: the layers above never see an OpenSSL type.
 */
#ifndef MVPROXY_NET_TLS_PEER_H
#define MVPROXY_NET_TLS_PEER_H

#include "base/slice.h"

enum { TLS_PEER_MAX_ORGS = 64 };

struct tls_peer {
    bool present;             /* a certificate was shown */
    bool client_ca;           /* chains to client-ca-file, is in date, has clientAuth usage */
    bool requestheader_ca;    /* the same for requestheader-client-ca-file */
    struct slice common_name; /* the last CN, as Go reads it; may hold any bytes */
    struct slice orgs[TLS_PEER_MAX_ORGS];
    size_t n_orgs;
    bool too_many_orgs;  /* more than fit: treat the certificate as not verified */
    struct slice uid;    /* subject attribute 1.3.6.1.4.1.57683.2 (Kubernetes 1.33+), or empty */
    char sha256[65];     /* lower-case hex of the DER, NUL-terminated */
    int64_t not_after;   /* seconds since 1970; a request after it is not authenticated by this certificate */
    const char *why_not; /* when present and neither CA fits: a short reason for the log */
};

#endif
