/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshake messages and alerts after the handshake: new keys, tickets, attempts to renegotiate. OpenSSL reads on until
 * it finds data, and new keys cost 27 bytes to ask for: 64 KB of them would hold the loop for 50 to 100 ms. Go's limit
 * is 16 without data in between.
 */
#ifndef MVPROXY_NET_TLS_MESSAGES_H
#define MVPROXY_NET_TLS_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed. Embedded in the connection. */
struct tls_messages {
    uint64_t since_ms; /* of the running minute */
    unsigned n;
};

/* `where` is what OpenSSL tells an info callback once the handshake is over. False: that was one too many. */
bool tls_messages_count(struct tls_messages *m, int where, uint64_t now_ms);
bool tls_messages_too_many(const struct tls_messages *m);

#endif
