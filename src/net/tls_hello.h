/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a ClientHello may be, which anybody may send: OpenSSL makes room for as many bytes as one announces (up to
 * 128 KiB) when it has read nine of them. What is refused here is in the thread's queue of errors as
 * ERR_LIB_USER (tls_words.h).
 */
#ifndef MVPROXY_NET_TLS_HELLO_H
#define MVPROXY_NET_TLS_HELLO_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads along what comes in the clear. Zeroed; embedded beside the SSL. */
struct tls_hello {
    const SSL *ssl;
    uint32_t message_left;
    uint16_t record_left;
    unsigned char record[5], message[4]; /* their heads, of which so many bytes have come: */
    unsigned char record_n, message_n;
    bool refused;
    bool over; /* no hello can come any more */
};

/* Server, when the SSL has its BIO: a hello of more than LIMIT_CLIENT_HELLO_BYTES, its head included, fails as it
 * begins. Until tls_hello_unwatch(), which the SSL must see before *h goes. */
void tls_hello_watch(struct tls_hello *h, SSL *ssl);
void tls_hello_unwatch(struct tls_hello *h);

/* For the watch: false once a hello is too long. `tls12`: that or less was agreed on. */
bool tls_hello_read(struct tls_hello *h, const unsigned char *p, size_t n, bool tls12);

/* In the callback for hellos: false for more tickets than LIMIT_CLIENT_TICKETS, each of which would be decrypted. */
bool tls_hello_tickets_good(SSL *ssl);

#endif
