/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of net/ share: certificates, pairs of connected streams that write down what happens to them, and a
 * plain OpenSSL client on a bare socket for what a well-behaved stream never does.
 */
#ifndef MVPROXY_TESTS_UNIT_NET_FIXTURE_H
#define MVPROXY_TESTS_UNIT_NET_FIXTURE_H

#include <openssl/ssl.h>

#include "base/buf.h"
#include "net/dial.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tls_ctx.h"
#include "net/tls_peer.h"

/* Path of a file of the standard set (tests/lib/certs.py), which is made at the first call; valid until four calls
 * later. */
const char *cert_path(const char *name);
/* The whole file as text; freed by the caller. */
char *read_file(const char *path, size_t *n);
/* Writes a file beside the certificates; its path as cert_path(). */
const char *scratch_file(const char *name, const char *data, size_t n);

/* Contexts that must work. `client` NULL: without certificate. */
struct tls_ctx *server_ctx(bool http2);
struct tls_ctx *client_ctx(const char *client, bool http2);
/* An mvproxy's listener, and who asks whether there is one. */
struct tls_ctx *hop_server_ctx(bool http2);
struct tls_ctx *hop_client_ctx(const char *client, bool http2);

/* One side of a connection. Zero it, set what is wanted, give it to pair_open(). */
struct end {
    struct loop *loop;
    struct stream *s;
    unsigned seen[5]; /* by enum stream_event */
    struct buf got;   /* consumed bytes, unless discard */
    uint64_t got_bytes;
    bool discard;
    const char *server_name; /* to dial with */
    unsigned port;           /* to dial to, 0: any */
    bool hoard;              /* leaves what comes where it is */
    bool echo;
    size_t send_left;   /* a pattern of so many bytes is sent, under flow control */
    size_t send_piece;  /* per write; 0 = 16000 */
    uint64_t send_pos;  /* of the pattern */
    uint64_t check_pos; /* of the pattern that is expected, when check */
    bool check, mismatch;
    bool finish_after; /* finish_writing when all is sent */
    int close_on;      /* 1 + event at which the stream is closed, 0: never */
    enum stream_close_how close_how;
    char failure[256];
    enum stream_event order[64]; /* the first events */
    size_t n_order;
    void (*hook)(struct end *e, enum stream_event ev); /* after the rest; may close */
};

void end_fn(struct stream *s, enum stream_event ev, void *arg);
void end_release(struct end *e); /* closes a stream that is left (ABORT) and frees */

/* Connects `client` (which dials) and `server` (which accepts) over loopback; returns at once. */
void pair_start(struct loop *l, struct end *client, struct end *server, struct tls_ctx *cctx, struct tls_ctx *sctx);
/* The same and runs until both are open or one failed. */
void pair_open(struct loop *l, struct end *client, struct end *server, struct tls_ctx *cctx, struct tls_ctx *sctx);
void pump(struct end *e); /* sends what may be sent */

/* Runs the loop until the condition holds; false (and a diagnostic) after a minute. */
#define run_until(l, cond)                                                                                             \
    ({                                                                                                                 \
        uint64_t give_up_ = deadline();                                                                                \
        while (!(cond) && !passed(give_up_))                                                                           \
            loop_run_once((l), 20);                                                                                    \
        bool held_ = (cond);                                                                                           \
        held_;                                                                                                         \
    })
uint64_t deadline(void);
bool passed(uint64_t deadline_ms);
/* A few idle turns: whatever was to happen at once has happened. */
void settle(struct loop *l);

/* A stream made of one end of a socket pair; *other gets the other end (non-blocking). */
struct stream *half_pair(struct loop *l, struct end *e, struct tls_ctx *ctx, int *other);
/* A client (server_name kubernetes) on a bare descriptor; handshakes with the stream at the other end while the loop
 * runs. */
SSL *bare_client(struct loop *l, int fd, const char *client, int max_version, SSL_SESSION *session);
/* Reads until n bytes came or it ends; the number of bytes, or -1 on a broken connection (errno as recv leaves it). */
ssize_t bare_read(struct loop *l, SSL *ssl, char *out, size_t n);
/* Sends n bytes of the pattern from `pos`, in records of at most `record` bytes, while the loop runs. */
bool bare_write(struct loop *l, SSL *ssl, uint64_t pos, size_t n, size_t record);

#endif
