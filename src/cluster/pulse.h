/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a server there? Asked for its /version twice a second, which costs it nothing and says which version it is; so
 * that a server that dies, or hangs, is noticed within two seconds by those who look, and by discovery. It says nothing
 * of the origin's health (back/health.h): that is judged by the requests of clients.
 *
 *   UNKNOWN ──an answer──► ANSWERS ──no answer, or 5xx──► UNREACHABLE ──an answer──► ANSWERS
 */
#ifndef MVPROXY_CLUSTER_PULSE_H
#define MVPROXY_CLUSTER_PULSE_H

#include "base/mem.h"
#include "kube/version.h"

struct api;
struct origin;
struct pulse;

/*
 * Who hangs is known after an interval with its jitter and the timeout: two seconds at most. Slower than the timeout
 * is nobody who works. More than PULSE_SERVERS are asked less often: all together as often as these.
 */
enum { PULSE_INTERVAL_MS = 500, PULSE_TIMEOUT_MS = 1400, PULSE_SERVERS = 10, PULSE_MVPROXY_BYTES = 32 };

enum pulse_state { PULSE_UNKNOWN, PULSE_ANSWERS, PULSE_UNREACHABLE };

struct pulse_opts {
    struct api *api;
    bool peer;
    size_t (*servers)(void *arg); /* how many are asked */
    /* It answers again, or does so no longer; or answers as another version. Never from inside. */
    void (*changed)(void *arg, enum pulse_state before);
    void *arg;
};

/* NULL when out of memory. Asks nobody without an origin. */
MEM_CHECK struct pulse *pulse_new(const struct pulse_opts *o);
void pulse_free(struct pulse *p); /* NULL is fine */
/* NULL: nobody. Another origin is asked at once, and its state is UNKNOWN; at the same address, by other certificates,
 * what is known stays until it has answered. Referenced. */
void pulse_set_origin(struct pulse *p, struct origin *o);

/* What is known; texts live until the loop goes on. NULL is fine, and has state UNKNOWN. */
struct pulse_view {
    enum pulse_state state;
    uint64_t age_ms;            /* since when it is so; 0 if unknown */
    const char *failure;        /* UNREACHABLE: why */
    const char *last_failure;   /* the last that there was, maybe long ago; NULL: none */
    uint64_t last_failure_ms;   /* its age; UNREACHABLE: for how long it has been this one */
    const struct version *says; /* the last that was told; empty texts if nothing was */
    bool hop;                   /* an mvproxy answers for it */
    const char *hop_id;         /* the ID of the server that it stands before, as it says; "" without hop */
    const char *mvproxy;        /* its version; "" if not told */
};
void pulse_look(const struct pulse *p, struct pulse_view *out);
/* "unknown", "answers", "unreachable". Static. */
const char *pulse_name(enum pulse_state s);

#endif
