/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A non-blocking byte stream over TCP or a Unix socket, with TLS or without: nobody above knows how the bytes move.
 *
 * Contract with the owner:
 *  - One callback, one event enum. It is never called from inside a call of the owner into this stream: what such a
 *    call provokes (a failure found while writing, say) is delivered later in the same turn, or, on streams that move
 *    much, when it is this one's turn.
 *  - After stream_close() the callback is never called again and the pointer is dead; memory goes after the turn.
 *  - What is written during a callback leaves together when the callback ends (one record, one send, where it fits);
 *    nothing waits for a later turn unless the socket is full.
 *  - Reading is enabled iff the set of pause reasons is empty. At most LIMIT_STREAM_INPUT decrypted bytes wait here.
 */
#ifndef MVPROXY_NET_STREAM_H
#define MVPROXY_NET_STREAM_H

#include <sys/socket.h>

#include "net/loop.h"

struct loop;
struct stream;
struct tls_ctx;
struct tls_peer;

enum stream_event {
    STREAM_OPENED,   /* connected and handshake done; exactly once, first (unless FAILED comes first) */
    STREAM_READABLE, /* bytes to peek at: new ones, or old ones after stream_resume() */
    STREAM_WRITABLE, /* stream_congested() was true and is no longer */
    STREAM_EOF,      /* orderly end of the other side (close_notify; FIN on a plain stream); every byte before it was
                        announced */
    STREAM_FAILED,   /* broken: reset, TLS error, FIN without close_notify, deadline. The owner must close it */
};

typedef void stream_fn(struct stream *s, enum stream_event ev, void *arg);

/* Why reading is paused; bits, so that two parties can hold a pause independently. */
enum stream_pause {
    STREAM_PAUSE_BODY = 1,     /* the consumer of the body is congested */
    STREAM_PAUSE_PIPELINE = 2, /* a request is being served; the next waits unread */
    STREAM_PAUSE_LIMIT = 4,    /* a limit of ours */
};

enum stream_close_how {
    STREAM_CLOSE_FLUSH, /* send what is queued and close_notify, then close; lingers at most TIMEOUT_LINGER_MS */
    STREAM_CLOSE_ABORT, /* drop what is queued and reset: the other side must see a broken stream */
    STREAM_CLOSE_NOW,   /* wait for nothing; close_notify if it can be sent without waiting */
};

struct stream_opts {
    stream_fn *fn;
    void *arg;
    struct tls_ctx *tls;           /* NULL: plain. The stream takes its own reference */
    const char *server_name;       /* connect with TLS: SNI and the name to verify; NULL: the context's */
    uint64_t open_timeout_ms;      /* for connect + handshake; 0: TIMEOUT_HANDSHAKE_MS */
    const struct sockaddr *client; /* accept: who a balancer says that it is; NULL: the other end of the fd */
    bool http2;                    /* connect with TLS: offers h2 before http/1.1, also if the context does not */
};

/* Takes over a connected, non-blocking fd as the server side. NULL (fd closed) when out of memory. */
MEM_CHECK struct stream *stream_accept(struct loop *l, int fd, const struct stream_opts *o);
/* Starts to connect. NULL when out of memory or of descriptors; every later failure is an event. */
MEM_CHECK struct stream *stream_connect(struct loop *l, const struct sockaddr *addr, socklen_t len,
                                        const struct stream_opts *o);
void stream_mark_known(struct stream *s); /* accept: its handshake waits for its turn apart from those of strangers */
/* Hands the stream to another owner; events from now on go there. Bytes that wait unread are announced to it again. */
void stream_set_owner(struct stream *s, stream_fn *fn, void *arg);
/*
 * What waits in it, in either direction, and an estimate of what TLS holds, is charged to `q` from now on, whoever owns
 * it, until its memory is freed, which is after it was closed; the quota before gets it back. NULL: nobody counts.
 * Where there is no room for what is written it fails (stream_lacks_memory()).
 */
void stream_charge(struct stream *s, struct quota *q);
/* `other`, too, is charged to whatever `s` is charged to, from now on until either ends. */
void stream_charge_along(struct stream *s, struct stream *other);
void stream_close(struct stream *s, enum stream_close_how how);
/* Somebody who does not own it ends it: its owner gets FAILED, with this for a failure. */
void stream_break(struct stream *s, const char *why);
/*
 * Calls fn once, when the descriptor is closed and all memory freed, whoever owned the stream: for who counts them. May
 * be set (NULL: no longer wanted) until then, also after stream_close() and after the stream was handed on.
 */
void stream_on_closed(struct stream *s, void (*fn)(void *arg), void *arg);

/* A new message begins. Streams on which much comes share a part of each turn, so that the others are not held up; this
 * one is not among them until much comes again, but while turns are long. */
void stream_begin_message(struct stream *s);
/* There it has the turns of its address, with all others that say so; they live as long as it. NULL: its own. */
struct loop_turns *stream_share_turns(struct stream *s);
/* Or those of the client for whom it works: a hash, 0: its own. `known`: somebody has vouched for him. */
void stream_take_turns_of(struct stream *s, uint64_t whom, bool known);

/* The first contiguous piece of what waits, valid until the next call on this stream; n is 0 when nothing waits. */
struct slice stream_peek(struct stream *s);
void stream_consume(struct stream *s, size_t n);
size_t stream_input_len(const struct stream *s);
void stream_pause(struct stream *s, unsigned reasons);
/* When the set becomes empty and bytes wait, READABLE is delivered again, later in this turn or in the next. */
void stream_resume(struct stream *s, unsigned reasons);

/*
 * Queues bytes (copied, or encrypted at once when nothing is queued and the piece is large). False when the stream is
 * broken or LIMIT_STREAM_OUTPUT_HARD would be exceeded: the owner will get FAILED, or closes it himself.
 */
bool stream_write(struct stream *s, struct slice data);
/* More than LIMIT_STREAM_OUTPUT_HIGH unsent, or LIMIT_STREAM_WRITE_TURN in one callback: stop until WRITABLE. */
bool stream_congested(const struct stream *s);
size_t stream_unsent(const struct stream *s);
/* The same, and what the kernel has and the other side's has not acknowledged: asks it, one system call. */
size_t stream_unacknowledged(const struct stream *s);
/* Half-close: after what is queued, close_notify (and FIN); reading goes on. */
void stream_finish_writing(struct stream *s);

/* NULL-terminated facts, valid as long as the stream. */
const char *stream_remote_text(const struct stream *s); /* "10.0.0.1:34567", "[::1]:80", "unix" */
const char *stream_remote_ip(const struct stream *s);   /* without the port; "" for Unix sockets */
const char *stream_failure(const struct stream *s);     /* after FAILED: what happened; never secrets */
bool stream_lacks_memory(const struct stream *s);       /* after FAILED: for want of memory, or of room in its quota */
bool stream_was_left(const struct stream *s);           /* after FAILED: by a FIN without close_notify, maybe a cut */
const char *stream_alpn(const struct stream *s);        /* "h2", "http/1.1" or "" */
/*
 * This connection's handshake selected one of the TLS_HOP_ALPN names: on a connection that we made, an mvproxy is at
 * its other end. Of this connection only; another to the same address has to say so itself.
 */
bool stream_is_hop(const struct stream *s);
bool stream_is_tls(const struct stream *s);
bool stream_tls_resumed(const struct stream *s); /* the handshake was an abbreviated one */
bool stream_is_open(const struct stream *s);
/* True if nothing has come that was not consumed, and no end: asks the kernel, one system call. */
bool stream_is_quiet(const struct stream *s);
/* Bytes that the kernel has taken so far, as they go over the wire: a mark for stream_unread(). */
uint64_t stream_wire_bytes(const struct stream *s);
/*
 * True if it is certain that the other side's program has read nothing of what was written after the mark: none of it
 * left, or the other side ended (FIN or close_notify, not a reset) and had acknowledged none of it by then (RFC 9293:
 * the acknowledgement is in the same segment). Asks the kernel.
 */
bool stream_unread(const struct stream *s, uint64_t mark);
/* The other side's certificate, checked against the context's CAs at the handshake, or last by stream_judge_again();
 * never NULL (see tls_peer.h). */
const struct tls_peer *stream_tls_peer(const struct stream *s);
/*
 * Server: holds the client's certificate against the CAs of another server context: those of now. Changes the verdict
 * in what stream_tls_peer() gives, and nothing else. Costs what verifying a chain costs.
 */
void stream_judge_again(struct stream *s, const struct tls_ctx *c);
uint64_t stream_bytes_in(const struct stream *s);  /* decrypted */
uint64_t stream_bytes_out(const struct stream *s); /* before encryption */

#endif
