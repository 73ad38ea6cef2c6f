/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of an origin's health from the requests that went there (nothing is sent for it), and how many of them
 * may be repeated. Pure: time comes in as milliseconds.
 *
 * Advice only. An origin that is out is tried last, not never: the last candidate always is.
 */
#ifndef MVPROXY_BACK_HEALTH_H
#define MVPROXY_BACK_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HEALTH_MAX_FAILURES = 5, /* requests that fail in a row; attempts to connect: the first */
    HEALTH_CONNECT_OUT_MS = 200,
    HEALTH_CONNECT_OUT_MAX_MS = 5000,
    HEALTH_REQUEST_OUT_MS = 1000,
    HEALTH_REQUEST_OUT_MAX_MS = 30000,
    HEALTH_TRIAL_MS = 5000,   /* for the one request that tries it to be answered */
    HEALTH_STABLE_MS = 60000, /* without trouble: the next time out is a first one again */

    BUDGET_SECONDS = 10,
    BUDGET_PERCENT = 20,  /* of the requests of that time may be repeated */
    BUDGET_MINIMUM = 100, /* and so many in any case, for an origin that gets few */
};

enum health_cause { HEALTH_CONNECT, HEALTH_REQUEST };

/* Zeroed: in good health. */
struct health {
    bool out;
    enum health_cause cause;
    unsigned failures; /* of requests, in a row */
    unsigned times;    /* out, without a stable time between: each longer than the one before */
    uint64_t until_ms; /* out: no trial before */
    uint64_t trial_until_ms;
    uint64_t back_ms; /* since when it is no longer out */
};

/* Whether requests should rather go elsewhere: out, and not due for a trial. */
bool health_is_out(const struct health *h, uint64_t now_ms);
/* A request goes there: if a trial is due, this is it. */
void health_try(struct health *h, uint64_t now_ms);
/* True if it is out because of this, once more. What began before it went out, or beside its trial, counts no more. */
bool health_failed(struct health *h, enum health_cause cause, uint64_t now_ms);
/* True if it was out and is no longer. A connection proves nothing about requests that fail (HEALTH_CONNECT). */
bool health_succeeded(struct health *h, enum health_cause cause, uint64_t now_ms);

struct budget_second {
    uint64_t second;
    unsigned requests, repeated;
};

/* Zeroed: nothing happened yet. */
struct budget {
    struct budget_second past[BUDGET_SECONDS];
};

void budget_request(struct budget *b, uint64_t now_ms);
bool budget_allows(const struct budget *b, uint64_t now_ms);
void budget_spend(struct budget *b, uint64_t now_ms);

#endif
