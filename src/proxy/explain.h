/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For people: what would be done with a request and why, by the very function that decides (proxy/route.h); and which
 * requests are under way.
 */
#ifndef MVPROXY_PROXY_EXPLAIN_H
#define MVPROXY_PROXY_EXPLAIN_H

#include "base/buf.h"
#include "base/err.h"
#include "proxy/proxy.h"

enum { EXPLAIN_STATE_BYTES = 128, EXPLAIN_DOUBT_BYTES = 192 };

/* How a server is just now. */
struct explain_server {
    char state[EXPLAIN_STATE_BYTES]; /* in words */
    bool answers;                    /* false: it is known that it does not */
    const char *error;               /* the last; NULL: there was none */
    uint64_t error_ms;               /* how long ago; failing: for how long it has been this one */
    bool failing;                    /* the error is what is the matter now */
};

struct explain_query {
    const char *method, *target;
    const char *user; /* NULL: a request with a token, or without any credential */
    bool rerouted;    /* as if a peer had sent it */
    /* False: nothing is known of the server with that ID. NULL: of none. */
    bool (*look)(void *arg, const char *id, struct explain_server *out);
    void *arg;
    const char *disbelieved; /* why servers do not accept our word for a user now; NULL: they do */
    const char *doubted;     /* why such a user may not be who he is taken for; NULL: nothing speaks against it */
    const char *no_peers;    /* why peers cannot be asked; NULL: they can, or the feature gate is off */
};

/* Appends a JSON object. False with *err: it is no request. Sends nothing and changes nothing. */
bool explain_request(struct proxy *p, const struct explain_query *q, struct buf *out, struct err *err);

enum { EXPLAIN_PATH_BYTES = 1024 };

/* Appends a JSON array of what is under way, the oldest first, `max` at most. A longer path than EXPLAIN_PATH_BYTES is
 * cut, and its length told ("pathBytes"). */
void explain_under_way(const struct proxy *p, size_t max, struct buf *out);

#endif
