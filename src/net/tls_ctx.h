/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts, reference-counted and immutable: a reload makes new ones and lets the old drain away.
 */
#ifndef MVPROXY_NET_TLS_CTX_H
#define MVPROXY_NET_TLS_CTX_H

#include "base/err.h"
#include "base/mem.h"

struct tls_ctx;

/*
 * How an mvproxy says in the handshake itself that it is one: "mvproxy/h2" and "mvproxy/http/1.1" mean the same
 * protocols as the names without the prefix. Who calls a peer offers them first; an mvproxy selects them for whoever
 * offers them, and any other server passes over names that it does not know (RFC 7301, 3.2).
 */
#define TLS_HOP_ALPN "mvproxy/"

struct tls_server_opts {
    const char *cert_file, *key_file;  /* PEM; the certificate may be a chain */
    const char *client_ca_file;        /* NULL: nobody is verified by it */
    const char *requestheader_ca_file; /* NULL likewise */
    /* The CAs of these, servers' with such a file, instead of the file; NULL: by the file. */
    const struct tls_ctx *client_ca_of, *requestheader_ca_of;
    bool http2;                       /* offer h2 before http/1.1 */
    bool hop;                         /* an mvproxy serves here: answers to TLS_HOP_ALPN names, see below */
    int min_version;                  /* 12 or 13; 0 = 12 */
    const char *const *cipher_suites; /* see tls_suites.h; NULL or empty: the default ones */
    const char *const *sni;           /* further pairs, see tls_sni.h; NULL-terminated, NULL: none */
};

struct tls_client_opts {
    const char *ca_file;         /* required, unless: */
    const struct tls_ctx *ca_of; /* the CAs of this one, a client's with a ca_file, instead of the file */
    const char *bundle_option;   /* which option ca_file comes from, for messages; static; NULL: none */
    bool system_roots;           /* the system's roots instead (never for servers: an egress proxy's certificate) */
    const char *cert_file, *key_file; /* both or none */
    const char *server_name;          /* SNI and name to verify */
    bool http2;                       /* offer h2, http/1.1; otherwise http/1.1 only */
    bool hop;                         /* offer the TLS_HOP_ALPN names before them */
};

/*
 * TLS 1.2 and 1.3, session resumption by tickets (which never outlive the context, so never cross a change of CA, and
 * hold for one server name only);
 * client certificates are asked for (CA hint = both bundles) and never required: an unknown, expired or odd one does
 * not fail the handshake, it only is not verified. NULL with *err naming file and cause.
 */
struct tls_ctx *tls_server_ctx_new(const struct tls_server_opts *o, struct err *err);
/* Verifies chain, dates, name and serverAuth usage; keeps sessions for resumption. */
struct tls_ctx *tls_client_ctx_new(const struct tls_client_opts *o, struct err *err);
/* References are for who makes connections; connections that are made have the context themselves. */
struct tls_ctx *tls_ctx_ref(struct tls_ctx *c);
void tls_ctx_unref(struct tls_ctx *c);

/* Made of the same bytes and settings, wherever they were read from: a reload keeps the old one then, and with it
 * connections and sessions. NULL is the same as NULL only. */
bool tls_ctx_same(const struct tls_ctx *a, const struct tls_ctx *b);

struct tls_validity {
    int64_t not_before, not_after; /* seconds since 1970 */
};
/*
 * Of a file of certificates: the first to end of a chain, the last to end of a bundle of CAs. False (and zeros) if
 * there is none in it or it cannot be read.
 */
bool tls_file_validity(const char *path, bool bundle, struct tls_validity *out);

#endif
