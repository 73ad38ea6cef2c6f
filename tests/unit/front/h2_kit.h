/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/2 client of a front, made with nghttp2, and a proxy that holds many exchanges at once and does what the test
 * says. In the loop of unit/front/kit.h.
 */
#ifndef MVPROXY_TESTS_UNIT_FRONT_H2_KIT_H
#define MVPROXY_TESTS_UNIT_FRONT_H2_KIT_H

#include <nghttp2/nghttp2.h>

#include "unit/front/kit.h"

/* The client's preface with empty SETTINGS, for connections without a session. */
#define KIT_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"

enum { KIT_EXCHANGES = 400, KIT_REQUESTS = 400 };
enum { KIT_LARGE = 10 << 20 }; /* bytes of a body that no window holds */

/* What the proxy holds, in the order in which the requests came. */
struct held {
    struct exchange *x; /* NULL when it is over */
    struct buf told;    /* "body end trailer:name=value writable gone(reason)"; bodies as counts */
    uint64_t body;      /* bytes */
    unsigned sum;       /* of them */
    unsigned gone, writable;
    bool ended;
};

/* What the client asked for. */
struct req {
    int32_t id;
    unsigned status, interim;
    struct buf fields, trailers; /* "name: value\n" */
    struct buf body;             /* only its first bytes */
    uint64_t body_bytes;
    unsigned sum;
    bool ended, closed;
    uint32_t code;         /* of its closing */
    uint64_t upload, sent; /* bytes of body to send; UINT64_MAX: no end yet */
    bool upload_trailer;
};

struct front_h2_kit {
    struct front_kit front;
    struct held held[KIT_EXCHANGES];
    unsigned n_held;
    bool quiet;         /* the handler neither attaches nor answers */
    bool of_peer;       /* it says that the connection is a peer's */
    bool for_clients;   /* it says so of the client that x-forwarded-for names, and refuses as it is told */
    bool accounts;      /* what is given up is on one account */
    bool pause_all;     /* it pauses the bodies */
    bool answer_in_end; /* the sink answers when the body ends */
    uint64_t takes_us;  /* so much is the clock turned by each request (clock_fake()) */

    struct stream *s;
    nghttp2_session *session;
    bool opened, trickle;
    bool hold_bodies; /* of the requests that are asked then, for good */
    bool hold_output; /* h2_kit_flush() does nothing: the test sends what the session has */
    enum client_end end;
    struct req req[KIT_REQUESTS];
    unsigned n_req;
    unsigned goaways, pings, settings;
    uint32_t goaway_code;
    int32_t goaway_last;
    uint64_t received; /* DATA bytes */
};

/* change k->front.opts, then h2_kit_start(). */
void h2_kit_init(struct front_h2_kit *k);
void h2_kit_start(struct front_h2_kit *k);
void h2_kit_end(struct front_h2_kit *k);
/* A connection, with a session unless raw. `manual`: windows open only by the test. */
void h2_kit_connect(struct front_h2_kit *k, bool raw, bool manual);
void h2_kit_connect_from(struct front_h2_kit *k, unsigned char n); /* raw, from 127.0.0.n */
void h2_kit_disconnect(struct front_h2_kit *k);
/* Sends what the session has to send. */
void h2_kit_flush(struct front_h2_kit *k);
void h2_kit_raw(struct front_h2_kit *k, const void *bytes, size_t n);

/* `fields`: "name: value\n" lines, added to :method, :scheme, :path and :authority (those with NULL are left out).
 * `upload`: bytes of body, 0: END_STREAM at once. */
struct req *h2_kit_ask(struct front_h2_kit *k, const char *method, const char *path, const char *authority,
                       const char *fields, uint64_t upload);
struct req *h2_kit_get(struct front_h2_kit *k, const char *path);

bool h2_kit_held(struct front_h2_kit *k, unsigned n);
bool h2_kit_closed(struct front_h2_kit *k, struct req *r);
bool h2_kit_status(struct front_h2_kit *k, struct req *r);
bool h2_kit_told(struct front_h2_kit *k, struct held *h, const char *text);
bool h2_kit_ended(struct front_h2_kit *k);
bool h2_kit_until(struct front_h2_kit *k, bool (*done)(void *arg), void *arg);
void h2_kit_settle(struct front_h2_kit *k);
/* So much later: timers fire in real time, and what they find is judged by the clock that this turns (clock_fake()). */
void h2_kit_later(struct front_h2_kit *k, uint64_t ms);
/* Text with NUL; valid until the next call. */
const char *h2_kit_text(struct buf *b);
bool h2_kit_has(struct buf *b, const char *text);

/* HEADERS of the nth request of a raw connection in so many bytes, nearly each of which is a field of 4000 by header
 * compression. of: in x-forwarded-for; NULL: without. */
enum { KIT_DEAR_BYTES = 16384, KIT_DEAR_VALUE = 4000 };
void h2_kit_append_dear_head(struct buf *b, unsigned nth, size_t bytes, const char *of);

/* The proxy's part. */
struct http_head *h2_kit_head(struct held *h, unsigned status, const char *name, const char *value);
void h2_kit_reply(struct held *h, unsigned status, const char *body);
/* A GET on a connection whose windows only the test opens, with a head and no body yet: k->held[0]. The clock stands.
 */
struct req *h2_kit_answering(struct front_h2_kit *k);
/* Gives bytes until `total` were given or the exchange is congested; the new sum. */
uint64_t h2_kit_pump(struct held *h, uint64_t given, uint64_t total);
unsigned h2_kit_sum(uint64_t n);

struct h2_kit_story {
    const char *name;
    void (*run)(struct front_h2_kit *k); /* the front is started; options change with front_update() */
};

/* Each before a front of its own; `only`: just the story of this name, NULL: all. */
void h2_kit_run(const struct h2_kit_story *stories, size_t n, const char *only);

#endif
