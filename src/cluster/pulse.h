/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes whether a server answers, by requesting its /version twice a second, which also tells its version. A server
 * that dies or hangs is noticed within two seconds, shown to operators, and its discovery polled again; the local one
 * is asked whether it is ready (readiness.h). A peer's health (back/health.h) is judged by clients' requests, the local
 * server's by its readiness. Where requests, or polls of its discovery, know better than the last probe, the next one
 * is sent at once. Where a probe is not answered in time, and nothing else was since it was sent, the server hangs, it
 * seems: its connections are in doubt, and as a peer it is tried last until a byte comes (origin_suspect()). Any other
 * failure of a probe means nothing for where requests go.
 *
 * A peer without an mvproxy that has just come, or come back, denies what it will allow a moment later, as a local
 * server does. So with each probe that it answers its /readyz is asked as well, until that no longer says so; and until
 * it is good, for half a minute, as it has not read its CRDs before.
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
 * A server that hangs is known after the interval with its jitter and the timeout: two seconds at most. If there are
 * more than PULSE_SERVERS, each is probed less often, so that the total rate stays that of PULSE_SERVERS.
 */
enum { PULSE_INTERVAL_MS = 500, PULSE_TIMEOUT_MS = 1400, PULSE_SERVERS = 10, PULSE_MVPROXY_BYTES = 32 };
/* So long after the beginning of the last probe there is another one because others know better. */
enum { PULSE_EARLY_MS = 100 };
/* So long after a peer has come back its denials count, whatever is the matter with its /readyz: it may be refused,
 * too. */
enum { PULSE_LOADING_MS = 10000 };

/* So long its /readyz is asked that is not good, though it denies nothing wrongly: who has answered for longer has read
 * its CRDs, whatever it says. */
enum { PULSE_STEADY_MS = 30000 };

/* So long a failure, or who answers, lasts before it is told that it is another one than was told. */
enum { PULSE_REASON_MS = 5000 };

enum pulse_state { PULSE_UNKNOWN, PULSE_ANSWERS, PULSE_UNREACHABLE };

struct pulse_opts {
    struct api *api;
    bool peer;
    size_t (*servers)(void *arg); /* number of servers that are probed */
    void *servers_arg;
    /* Its state or its version changed, or, for PULSE_REASON_MS, the server that it says it is, or why it is
     * UNREACHABLE. Never called from inside. */
    void (*changed)(void *arg, enum pulse_state before);
    void *arg;
};

/* NULL when out of memory. Nothing is probed before pulse_set_origin(). */
MEM_CHECK struct pulse *pulse_new(const struct pulse_opts *o);
void pulse_free(struct pulse *p); /* NULL is fine */
/* The origin to probe, referenced; NULL: none. A new origin is probed at once. The state becomes UNKNOWN, unless the
 * address is the same (other certificates). */
void pulse_set_origin(struct pulse *p, struct origin *o);
/*
 * The server answered a request other than a probe, with less than 500. `sent_ms`: when that was sent, by the loop's
 * clock; 0 if not known. If it is UNREACHABLE, it is probed early. Until that has an answer it counts as answering if
 * the request was sent after the last probe had failed: what was under way before says nothing of who died since. But a
 * probe that was not answered in time proves more than that others are.
 */
void pulse_answered(struct pulse *p, uint64_t sent_ms);
/* A request failed: if it ANSWERS, or could not be reached and has been since, it is probed early. */
void pulse_doubt(struct pulse *p);
/*
 * Whether it is a peer that may not have read yet who may do what when a request was sent (`sent_ms`, by the loop's
 * clock): it is new or was away, and its /readyz has not been good since, or named another check only. Never one behind
 * an mvproxy, which knows better. p NULL: no.
 */
bool pulse_was_loading(const struct pulse *p, uint64_t sent_ms);

/* Fills *out; texts are valid until the loop goes on. p NULL: UNKNOWN. */
struct pulse_view {
    enum pulse_state state;
    uint64_t age_ms;            /* for how long it has been in this state; 0 if UNKNOWN */
    const char *failure;        /* UNREACHABLE: why */
    bool refuses;               /* UNREACHABLE: there is an answer, 5xx */
    bool hangs;                 /* UNREACHABLE: there is none, nor an error */
    const char *last_failure;   /* the last failure, however long ago; NULL: none */
    uint64_t last_failure_ms;   /* its age; UNREACHABLE: for how long with this failure */
    const struct version *says; /* the last version told; empty texts if none */
    uint64_t good_ms;           /* of a peer without an mvproxy that answers: since when (by the loop's clock) it is
                                 * known that its /readyz was good, since it came; 0: it is not */
    bool hop;                   /* the answer came through an mvproxy */
    const char *hop_id;         /* the server ID that this mvproxy says it is in front of; "" without */
    const char *mvproxy;        /* its version; "" if not told */
};
void pulse_look(const struct pulse *p, struct pulse_view *out);
/* "unknown", "answers", "unreachable". Static. */
const char *pulse_name(enum pulse_state s);

#endif
