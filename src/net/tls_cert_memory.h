/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a certificate takes once it was read and looked at: by whoever is charged for what he shows.
 */
#ifndef MVPROXY_NET_TLS_CERT_MEMORY_H
#define MVPROXY_NET_TLS_CERT_MEMORY_H

#include <openssl/x509.h>
#include <stddef.h>

/* In bytes: an upper bound, about twice what an ordinary one takes. 0 for NULL. */
size_t tls_cert_memory(const X509 *cert);

#endif
