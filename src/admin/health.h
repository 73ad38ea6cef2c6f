/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /livez, /readyz and /healthz as kube-apiserver answers them (k8s.io/apiserver pkg/server/healthz), so that probes and
 * people find what they know: ?verbose, ?exclude=NAME, /readyz/NAME. The reason of a failure goes into the log; a list
 * of checks, which anybody may read, only says "reason withheld", and where it is told.
 */
#ifndef MVPROXY_ADMIN_HEALTH_H
#define MVPROXY_ADMIN_HEALTH_H

#include "base/buf.h"
#include "base/err.h"
#include "base/metric.h"

struct health;

/* True: well. False with *why. Called for every probe: cheap. */
typedef bool health_fn(void *arg, struct err *why);

enum health_endpoint { HEALTH_LIVEZ = 1, HEALTH_READYZ = 2, HEALTH_HEALTHZ = 4, HEALTH_ALL = 7 };

/* Ends the process when out of memory (start-up only), as health_add() does. Starts with the check "ping". */
struct health *health_new(void);
void health_free(struct health *h);
/* `endpoints`: bits of enum health_endpoint. `name` is copied: lower-case words joined by "-". In the order of the
 * list. */
void health_add(struct health *h, unsigned endpoints, const char *name, health_fn *fn, void *arg);

/* Is this path one of ours (an endpoint or a check below one)? */
bool health_is_path(struct slice path);
/* An endpoint itself, e.g. "/readyz", and not a check below it: what anybody may ask. */
bool health_is_public(struct slice path);
/* Runs the checks and appends the body (text/plain). The status: 200, 500, or 404 for a check that is not there. */
unsigned health_answer(struct health *h, struct slice path, struct slice query, struct buf *out);
/* Runs the checks of an endpoint, and calls fn for each that fails, with the reason. */
void health_each_failing(struct health *h, enum health_endpoint endpoint,
                         void (*fn)(const char *check, const char *why, void *arg), void *arg);
/* kubernetes_healthcheck and kubernetes_healthchecks_total, what kube-apiserver has at /metrics/slis. */
struct metrics *health_slis(struct health *h);

#endif
