/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BIO below a stream's SSL. Reading: one recv per turn of the loop into the loop's receive area, whose rest waits
 * there, or in a copy once somebody else needs the area. Writing: everything is taken and collected in the stream's
 * out buffer, so SSL_write and the handshake never see a full socket.
 */
#ifndef MVPROXY_NET_TLS_BIO_H
#define MVPROXY_NET_TLS_BIO_H

#include <openssl/bio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct stream;

/* Zeroed, then tls_bio_init(). Embedded in the TLS connection. */
struct tls_bio {
    struct stream *stream;
    struct buf kept;   /* own copy of what was left in the receive area */
    size_t start, end; /* what waits: in kept, or in the receive area while we hold it */
    uint64_t recv_turn;
    bool eof;       /* the other side's FIN was read */
    int recv_error; /* errno of a failed recv, ENOMEM when the copy could not be made */
};

/* The method table; it must outlive the BIOs made of it. NULL when out of memory. */
BIO_METHOD *tls_bio_method(void);
void tls_bio_init(struct tls_bio *b, struct stream *s);
/* The BIO for SSL_set_bio; NULL when out of memory. */
BIO *tls_bio_attach(struct tls_bio *b, const BIO_METHOD *method);
/* From now on reads and writes fail: the stream lets go of its descriptor. Frees what waits. `bio` may be NULL. */
void tls_bio_detach(struct tls_bio *b, BIO *bio);
/* Ciphertext waits here, and epoll knows nothing of it. */
bool tls_bio_has_input(const struct tls_bio *b);
size_t tls_bio_input_len(const struct tls_bio *b);
/* The same, after looking into the kernel for more. False also at the end and for an error: eof, recv_error. */
bool tls_bio_look(struct tls_bio *b);
/* Nothing more will be read: what waits is forgotten, and reading fails as if the socket had. */
void tls_bio_refuse(struct tls_bio *b);
/* Allows one more recv in this turn. */
void tls_bio_recv_again(struct tls_bio *b);

#endif
