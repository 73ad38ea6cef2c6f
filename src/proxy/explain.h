/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For people (mvproxyctl explain): where a request would go and why, by the same function that decides for real ones
 * (proxy/route.h); and a list of the requests under way.
 */
#ifndef MVPROXY_PROXY_EXPLAIN_H
#define MVPROXY_PROXY_EXPLAIN_H

#include "base/buf.h"
#include "base/err.h"
#include "proxy/proxy.h"

enum { EXPLAIN_STATE_BYTES = 128, EXPLAIN_DOUBT_BYTES = 192 };

/* The present state of a server. */
struct explain_server {
    char state[EXPLAIN_STATE_BYTES]; /* as text */
    bool answers;                    /* false: it is known not to answer */
    const char *error;               /* the last error; NULL: none yet */
    uint64_t error_ms;               /* how long ago; if `failing`: for how long with this error */
    bool failing;                    /* the error persists */
    bool refuses;                    /* it does not answer, but something there does, with 5xx: an mvproxy before it */
    bool hangs;                      /* it does not answer, and takes requests: they wait there */
};

struct explain_query {
    const char *method, *target;
    const char *user; /* NULL: a request with a token, or without any credential */
    bool rerouted;    /* as if it came from a peer, with the loop mark */
    /* Fills *out for the server with that ID; false: nothing is known of it. NULL: of no server. */
    bool (*look)(void *arg, const char *id, struct explain_server *out);
    void *arg;
    const char *disbelieved; /* why servers do not accept identities that we assert now; NULL: they do */
    const char *doubted;     /* why such a user may be taken for somebody else; NULL: no known reason */
    const char *no_peers;    /* why peers cannot be asked; NULL: they can, or the feature gate is off */
};

/* Appends a JSON object. False, with *err set: method or target is not valid. Sends nothing and changes nothing. */
bool explain_request(struct proxy *p, const struct explain_query *q, struct buf *out, struct err *err);

enum { EXPLAIN_PATH_BYTES = 1024 };

/*
 * Appends a JSON object of the requests under way, the oldest first, `max` at most, and how many more there are.
 * Watches and others that run long come last: it is who should have ended by now that is looked for. A path longer than
 * EXPLAIN_PATH_BYTES is cut, and its length given as "pathBytes". The user is there if it is noted for others.
 */
void explain_under_way(const struct proxy *p, size_t max, struct buf *out);

#endif
