/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the local server is ready for requests. Its /readyz is requested after each invalidation, and once a second.
 *
 *   READY ──invalidated──► READY, probed at once ──► state by the answer
 *   READY ──READINESS_BAD_LOOKS of those once a second without an answer, or naming etcd──► UNREACHABLE or STARTING
 *   READY ──lost───► UNREACHABLE, probed every READINESS_POLL_MS until there is an answer other than 5xx
 *
 * A server that came back is STARTING until its /readyz succeeds, however long that answer takes: until then
 * kube-apiserver refuses requests that it will allow a moment later (caches of RBAC and others are not filled). Without
 * its etcd kube-apiserver answers /version, discovery and what it has cached as ever, so no request need fail for a
 * long time, while writes hang; what waits there as it ceases to be READY for that reason, and only reads, is asked of
 * a peer. While no request has failed, any other failing check changes nothing: clients are served all the same. If we
 * may not read it (401, 403), or there is none (404), the server counts as ready.
 */
#ifndef MVPROXY_CLUSTER_READINESS_H
#define MVPROXY_CLUSTER_READINESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/api.h"

struct api;
struct origin;
struct readiness;

enum readiness_state {
    READINESS_READY, /* or not known to be otherwise */
    READINESS_UNREACHABLE,
    READINESS_STARTING,
};

/* Probes caused by failing requests: up to five in a row, then one every READINESS_SPACING_MS. */
enum {
    READINESS_POLL_MS = 200,
    READINESS_SPACING_MS = 50,
    READINESS_AHEAD_MS = 4 * READINESS_SPACING_MS,
    READINESS_TIMEOUT_MS = 2000
};
/*
 * Those once a second, with jitter. Two in a row are further apart than a second: so often kube-apiserver asks its etcd
 * at most, and repeats in between what it knows. A server that does not answer is known to be away in five seconds;
 * one whose answers take longer than a look waits, so that looks wait as long as other probes, in six.
 */
enum { READINESS_LOOK_MS = 1200, READINESS_LOOK_TIMEOUT_MS = 1400, READINESS_BAD_LOOKS = 2 };

/* Ends the process when out of memory. `changed` is called when the state is another, never from inside; may be NULL.
 */
struct readiness *readiness_new(struct api *a, void (*changed)(void *arg), void *arg);
void readiness_free(struct readiness *r); /* NULL is fine */
/* The origin to probe, referenced; a new one is probed at once. NULL: none, and the state is READY. */
void readiness_set_origin(struct readiness *r, struct origin *o);
/* A request or poll failed: the server may be gone, or a new process may be starting. Probes it. */
void readiness_invalidate(struct readiness *r);
/* Connecting failed: the state becomes UNREACHABLE at once. */
void readiness_lost(struct readiness *r);
enum readiness_state readiness_state(const struct readiness *r);
/* It has been ready since it could last not be reached: if it is STARTING it is no new process, for all we know. */
bool readiness_served(const struct readiness *r);
/* It is STARTING, and its /readyz names etcd among the checks that fail: this makes no new process of it either. */
bool readiness_etcd_fails(const struct readiness *r);
/*
 * Whether the server may not have read yet who may do what when a request was sent (`sent_ms`, by the loop's clock):
 * what it denied that client it may allow a moment later. So from UNREACHABLE on, until its /readyz names none of the
 * checks of that: an etcd that fails, or another check, makes no 403 of a server doubtful that has been READY.
 */
bool readiness_was_loading(const struct readiness *r, uint64_t sent_ms);
/*
 * What may be said to a peer of an answer of the server to what was sent then. LOADING: readiness_was_loading(). READY:
 * its /readyz was 200 before, and nothing has made that doubtful since. So it has read its CRDs, and what it lists is
 * all that there is. A server that counts as ready because it does not let its /readyz be read may be starting.
 */
enum api_word readiness_word(const struct readiness *r, uint64_t sent_ms);
/* A probe has had its end, or nobody probes: READY is more than a guess. */
bool readiness_asked(const struct readiness *r);
/* Why it is not READY; "" if it is. */
const char *readiness_failure(const struct readiness *r);
/* Milliseconds since the state changed. */
uint64_t readiness_age_ms(const struct readiness *r);
/* Milliseconds since it was READY last; of one that is not. */
uint64_t readiness_away_ms(const struct readiness *r);
/* "ready", "unreachable", "starting". Static. */
const char *readiness_name(enum readiness_state s);

#endif
