/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the local server takes requests: asked at its /readyz, and only after an invalidation.
 *
 *   READY ──invalidated──► READY, asked at once ──► what the answer says
 *   READY ──lost───► UNREACHABLE, asked every READINESS_POLL_MS until the answer is neither a failure nor 5xx
 *
 * A server that came back is STARTING until its /readyz was good once, however long that takes to say so: until then
 * kube-apiserver refuses what it will allow a moment later (RBAC and other caches are not filled). Of one that never
 * went away /readyz is not asked, so that a check of it that fails for another reason changes nothing. Who may not ask
 * (401, 403), and a server without such a path (404), count as ready.
 */
#ifndef MVPROXY_CLUSTER_READINESS_H
#define MVPROXY_CLUSTER_READINESS_H

#include <stdbool.h>
#include <stdint.h>

struct api;
struct origin;
struct readiness;

enum readiness_state {
    READINESS_READY, /* or nothing speaks against it */
    READINESS_UNREACHABLE,
    READINESS_STARTING,
};

/* Of questions because of requests that failed five may come in a row, then one every SPACING. */
enum {
    READINESS_POLL_MS = 200,
    READINESS_SPACING_MS = 50,
    READINESS_AHEAD_MS = 4 * READINESS_SPACING_MS,
    READINESS_TIMEOUT_MS = 2000
};

/* Ends the process when out of memory. `changed` is called when the state is another, never from inside; may be NULL.
 */
struct readiness *readiness_new(struct api *a, void (*changed)(void *arg), void *arg);
void readiness_free(struct readiness *r); /* NULL is fine */
/* NULL: nobody is asked, and the state is READY. Another origin invalidates. Referenced. */
void readiness_set_origin(struct readiness *r, struct origin *o);
/* Something broke, or a poll of the server failed: it may be gone, or another process may be starting. */
void readiness_invalidate(struct readiness *r);
/* It certainly cannot be reached. */
void readiness_lost(struct readiness *r);
enum readiness_state readiness_state(const struct readiness *r);
/* Why it is not READY. */
const char *readiness_failure(const struct readiness *r);
/* Milliseconds since the state is what it is. */
uint64_t readiness_age_ms(const struct readiness *r);
/* "ready", "unreachable", "starting". Static. */
const char *readiness_name(enum readiness_state s);

#endif
