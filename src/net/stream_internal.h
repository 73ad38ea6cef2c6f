/* SPDX-License-Identifier: Apache-2.0
 * The inside of a stream, shared by stream*.c. Who is below calls those above only by what it was given (ops, works):
 *   stream_life.c   how it begins, and how its owner lets go of it
 *   stream_tls.c    transport: an SSL that sits on tls_bio; towards servers under a bufferevent
 *   stream_plain.c  transport: bytes as they are
 *   stream_bulk.c   streams that move much take turns
 *   stream_out.c    what was written, until the kernel has it
 *   stream.c        state, delivery of events, what came in, the end; beside it stream_facts.c, what can be asked
 */
#ifndef MVPROXY_NET_STREAM_INTERNAL_H
#define MVPROXY_NET_STREAM_INTERNAL_H

#include <event2/event_struct.h>

#include "base/buf.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/stream.h"

struct evbuffer;

enum stream_state {
    STREAM_CONNECTING,  /* waits for the kernel's connect */
    STREAM_HANDSHAKING, /* waits for the transport to say stream_opened() */
    STREAM_OPEN,
    STREAM_BROKEN,    /* waits for its owner to close it */
    STREAM_FLUSHING,  /* closed by its owner: waits for the kernel to take the rest */
    STREAM_LINGERING, /* all sent: waits for the other side's FIN, so that no reset overtakes what was sent */
    STREAM_CLOSED,    /* nobody's any more: waits to be closed and freed */
};

/* What bulk_work is to do when it is the stream's turn, besides delivery. */
enum stream_due { STREAM_DUE_READ = 1, STREAM_DUE_SEND = 2 };

struct stream_ops {
    /* The socket is connected. Ends, now or later, with stream_opened() or stream_broke(). */
    void (*start)(struct stream *s);
    /* Interest in input on or off. Switching on also finds bytes that were left inside. */
    void (*set_reading)(struct stream *s, bool on);
    /* Read again in this turn, whatever epoll says. Ends with input, EOF, stream_broke() or stream_read_idle(). */
    void (*look_again)(struct stream *s);
    /* Read what waits in the kernel, within this call; the owner is not told. */
    void (*read_now)(struct stream *s);
    /* Turns plain bytes into what goes on the wire, at the end of s->out. False: out of memory or broken. */
    bool (*encode)(struct stream *s, struct slice data);
    void (*encode_end)(struct stream *s);              /* the same for the orderly end */
    void (*charge)(struct stream *s, struct quota *q); /* what it holds, as stream_charge(); may be NULL */
    /* The descriptor is about to be closed: no event may be left. */
    void (*detach)(struct stream *s);
    void (*release)(struct stream *s); /* after the turn: nothing of it is on the stack any more; may be NULL */
};

struct stream {
    struct loop *loop;
    struct lifetime life;
    const struct stream_ops *ops;
    stream_fn *fn;
    void *arg;
    void (*on_closed)(void *arg);
    void *on_closed_arg;
    enum stream_state state;
    int fd;
    unsigned pauses;                 /* enum stream_pause */
    unsigned pending;                /* events to deliver, 1 << enum stream_event */
    bool delivering, reading;        /* fn is on the stack; what set_reading was told last */
    bool full;                       /* LIMIT_STREAM_INPUT was reached */
    bool in_eof, left, lacks_memory; /* stream_was_left(), stream_lacks_memory() */
    bool peer_ended;                 /* FIN or close_notify was read, even if sending has failed since */
    bool send_blocked;               /* the kernel is full: wait for on_writable */
    bool send_broken;                /* a send failed; what was received before is still to be read */
    bool fin_sent, congested;
    int send_error;              /* errno of the failed send */
    bool finish, finish_encoded; /* nothing will be written after what is queued; the orderly end is in s->out */
    size_t written;              /* since the last flush */
    bool bulk, crumbs;   /* much came at the last look, or tiny records wait inside: it waits for its part of a turn */
    bool held;           /* waits to be read: epoll is not asked meanwhile */
    unsigned due;        /* enum stream_due */
    struct evbuffer *in; /* decrypted, not consumed; NULL while there is nothing, unless a bufferevent has it */
    bool in_is_lent;     /* by a bufferevent */
    size_t in_known;     /* length of in that was accounted for, and charged */
    struct quota *quota;
    struct stream *along, *leader; /* charged to the same quota: who follows this one; whom it follows */
    struct buf gather;             /* small writes of the running callback, plain */
    struct buf out;                /* ready for the wire */
    struct event *writable;        /* made when it is first waited for, gone when all is sent */
    struct event readable;
    struct loop_timer *timer; /* opening, lingering */
    struct lifetime_work deliver_work, flush_work, exit_work, bulk_work;
    struct loop_deferred closing;
    struct loop_turns turns;                      /* of bulk_work */
    char *failure;                                /* NULL on a broken stream: out of memory */
    struct tls_conn *tls;                         /* stream_tls.c's; NULL for plain */
    uint64_t bytes_in, bytes_out, wire_out, whom; /* the last: of stream_take_turns_of() */
    bool tunnelled;                               /* through a proxy */
    char *carrier_failure;                        /* why the relay below ended; its bytes are read first */
    void (*carrier_fn)(void *arg, bool reset);    /* the relay below, told when the descriptor is closed */
    void *carrier_arg;
    char remote[64], remote_ip[48];
};

const struct stream_ops *stream_plain_transport(void);

/* The one function that changes the state. */
void stream_move(struct stream *s, enum stream_state to);
/* For transports: what happened. Each only takes note, and delivery follows. */
void stream_opened(struct stream *s);
void stream_got_eof(struct stream *s);
void stream_read_fin(struct stream *s); /* recv said 0 */
/* The transport found nothing to read: if sending has failed, now is the time to say so. */
void stream_read_idle(struct stream *s);
void stream_broke(struct stream *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void stream_broke_for_memory(struct stream *s);
/* s->in, made if there is none; NULL when out of memory. */
struct evbuffer *stream_input(struct stream *s);
void stream_drop_empty_input(struct stream *s);
/* Accounts for what was added to s->in. */
void stream_got_input(struct stream *s);
/* Whether to go on taking in bytes. */
bool stream_wants_input(const struct stream *s);
/* Calls the owner for all that is pending. Only from a callback of libevent, never below a call of the owner. */
void stream_deliver(struct stream *s);
void stream_deliver_later(struct stream *s); /* at the end of the turn, or, if it moves much, in its turn */
/* Among those that move much: does what is due (enum stream_due), and delivers. */
void stream_in_turn(struct stream *s, unsigned due);
void stream_forget_writable(struct stream *s);
void stream_out_release(struct stream *s); /* gives the buffers of what was written back */
void stream_flush_later(struct stream *s); /* at the end of the callback */
void stream_update_reading(struct stream *s);
/* Ends it; the descriptor is closed, and memory freed, at the end of this turn or, of very many, of one to come. */
void stream_destroy(struct stream *s, bool reset);
void stream_linger(struct stream *s);

/*
 * For tunnels through proxies. As stream_connect(), but over a descriptor that reaches the server already. `addr` is
 * the server's address, or NULL and `name` says what to call it. NULL (fd closed) when out of memory.
 */
MEM_CHECK struct stream *stream_adopt(struct loop *l, int fd, const struct sockaddr *addr, const char *name,
                                      const struct stream_opts *o);
/* The descriptor of a plain open stream that holds nothing, the caller's now; the stream is closed. */
int stream_surrender(struct stream *s);
/* fn is called when the stream's descriptor is closed; `reset`: the other side must see a broken stream. */
void stream_carried(struct stream *s, void (*fn)(void *arg, bool reset), void *arg);
/*
 * Its carrier is gone, and does not want to be called any more. `failure`, if not NULL, is why: the end of what waits
 * in the descriptor is then no orderly one.
 */
void stream_carrier_lost(struct stream *s, const char *failure);
void stream_describe(struct stream *s, const struct sockaddr *addr); /* the texts about the other side's address */

#endif
