/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the front counts, looked up once and bumped often; and the one list of reasons why a connection ends.
 */
#ifndef MVPROXY_FRONT_STATS_H
#define MVPROXY_FRONT_STATS_H

#include "base/mem.h"

struct front_stats;
struct metrics;

enum front_close {
    FRONT_CLOSE_CLIENT,           /* the client ended an idle connection */
    FRONT_CLOSE_CLIENT_REQUEST,   /* the client asked for it (Connection: close, HTTP/1.0) and got its answer */
    FRONT_CLOSE_CLIENT_GONE,      /* the client ended it in the middle of a request or of its answer */
    FRONT_CLOSE_STREAM_FAILED,    /* reset, TLS error, unreachable */
    FRONT_CLOSE_PROXY_HEADER,     /* a balancer's connection did not begin as it must (proxy-protocol-from) */
    FRONT_CLOSE_HANDSHAKE,        /* never got as far as a request: no or no good TLS handshake */
    FRONT_CLOSE_NO_REQUEST,       /* connected and sent nothing */
    FRONT_CLOSE_IDLE_TIMEOUT,     /* nothing more was asked */
    FRONT_CLOSE_HEADER_TIMEOUT,   /* a head that never ended */
    FRONT_CLOSE_BODY_TIMEOUT,     /* a body that never went on */
    FRONT_CLOSE_READ_TIMEOUT,     /* took nothing of an answer for too long */
    FRONT_CLOSE_BAD_REQUEST,      /* refused; framing no longer trusted */
    FRONT_CLOSE_FLOOD,            /* HTTP/2: more resets or control frames than anybody needs */
    FRONT_CLOSE_BODY_UNREAD,      /* answered before the client had sent its whole body */
    FRONT_CLOSE_RESPONSE_ABORTED, /* the response could not be completed; the client saw a broken stream */
    FRONT_CLOSE_REQUEST_LIMIT,    /* as many requests as one connection may make */
    FRONT_CLOSE_CLIENT_LIMIT,     /* as many connections as one address may have */
    FRONT_CLOSE_CROWDED_OUT,      /* too many, or too many that have not asked anything yet, and it was the one to go */
    FRONT_CLOSE_SLOW_READER,      /* too many, and it took what waited for it more slowly than anybody needs */
    FRONT_CLOSE_SENT_AWAY,        /* another server serves this client better now */
    FRONT_CLOSE_MEMORY,           /* clients together made us hold too much, and it was among the greediest */
    FRONT_CLOSE_NO_MEMORY,
    FRONT_CLOSE_DRAIN,    /* we are leaving */
    FRONT_CLOSE_SHUTDOWN, /* we left before it was through */
    FRONT_CLOSE_UPGRADED, /* not closed: the stream belongs to the tunnel now */
    FRONT_CLOSE_COUNT
};

/* Of 100 ms at most, each. */
enum front_pause { FRONT_PAUSE_CONNECTIONS, FRONT_PAUSE_DESCRIPTORS, FRONT_PAUSE_COUNT };

/* The label value, e.g. "idle_timeout". */
const char *front_close_name(enum front_close reason);

/* Ends the process when out of memory (start-up only). The registry must outlive it. */
struct front_stats *front_stats_new(struct metrics *m);
void front_stats_free(struct front_stats *s);

void front_stats_accepted(struct front_stats *s);
void front_stats_opened(struct front_stats *s, uint64_t handshake_us);
/* Every connection that was accepted ends here, once. */
void front_stats_closed(struct front_stats *s, enum front_close reason);
void front_stats_request_begin(struct front_stats *s);
void front_stats_request_end(struct front_stats *s);
/* How many connections have not asked anything yet. */
void front_stats_fresh(struct front_stats *s, size_t n);
/* Of all clients: bytes, shown as they are when somebody looks; it must outlive the stats. */
void front_stats_watch_memory(struct front_stats *s, struct metrics *m, const size_t *held);
void front_stats_memory_limit(struct front_stats *s, size_t most);
/* New clients are left waiting in the kernel's queue from now on, for want of what? */
void front_stats_accept_paused(struct front_stats *s, enum front_pause why);
/* A request that we answered ourselves, before the proxy saw it or because its body broke. */
void front_stats_refused(struct front_stats *s, unsigned status);
/* An answer that is given up because the client takes nothing of it. */
void front_stats_not_taken(struct front_stats *s);
/* A request that its client gave up soon; one that was refused because of those. */
void front_stats_given_up(struct front_stats *s);
void front_stats_given_up_refused(struct front_stats *s);
/* A connection or tunnel that makes room because its client takes what waits for it too slowly. */
void front_stats_slow_reader(struct front_stats *s);
/* Bytes inside TLS. */
void front_stats_received(struct front_stats *s, size_t n);
void front_stats_sent(struct front_stats *s, size_t n);
size_t front_stats_requests_in_flight(const struct front_stats *s);

#endif
