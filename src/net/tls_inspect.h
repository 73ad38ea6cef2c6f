/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be said of files of certificates and keys before they are used, for messages to people. Nothing here decides
 * whether somebody is trusted: that is OpenSSL's business, in the handshake.
 */
#ifndef MVPROXY_NET_TLS_INSPECT_H
#define MVPROXY_NET_TLS_INSPECT_H

#include "net/tls_ctx.h"

struct tls_file_facts {
    int error;                     /* errno if the file cannot be read, else 0 */
    bool has_certificate;          /* in PEM */
    bool has_key;                  /* a private key in PEM, encrypted or not */
    bool has_ca;                   /* one of the certificates may sign others */
    bool damaged;                  /* begins as PEM and does not end so */
    struct tls_validity valid;     /* of the first certificate, here and below */
    bool for_servers, for_clients; /* by its extended key usage */
};

void tls_inspect(const char *path, struct tls_file_facts *out);
/* Whether the certificate in this text is one that was valid and is not any more. */
bool tls_inspect_ended(struct slice pem);
/* Whether the first certificate is valid for this DNS name or IP address. */
bool tls_inspect_covers(const char *path, const char *name);
/* The last common name of the first certificate's subject. False: it has none, or it does not fit or is no plain text.
 */
bool tls_inspect_common_name(const char *path, char *out, size_t room);
/* Whether a CA of the bundle has signed the first certificate, directly or through those behind it, whatever the dates
 * and usages say. */
bool tls_inspect_signed(const char *path, const char *bundle);
/* The same of the CAs by which this context believes servers. */
bool tls_inspect_signed_in(const char *path, const struct tls_ctx *client);
/* The same of the CAs by which this context believes front proxies; false if it believes none. */
bool tls_inspect_signed_for(const char *path, const struct tls_ctx *server);
/* Whether the key belongs to the first certificate. */
bool tls_inspect_belongs(const char *cert, const char *key);
/* Whether two bundles have a certificate in common. */
bool tls_inspect_shared(const char *a, const char *b);

#endif
