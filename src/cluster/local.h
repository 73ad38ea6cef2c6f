/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local kube-apiserver: what it serves and whether it answers (server.h), whether it is ready (readiness.h), its
 * Lease as it is seen, and how much of that is still true. There are three doubts:
 *
 * - Trouble: it ceased or began to be ready, or the Leases' watch through it broke or works again. What it serves is
 *   another process's, maybe, until a poll has succeeded that began later (`read`).
 * - A restart: after the watch broke its discovery is answered over a newer connection than before.
 * - What CRDs and aggregated APIs there are: a server that is not ready may list none yet, and while it is away there
 *   may be others. Its peers are polled again and again meanwhile, since in their Leases nothing can be read.
 *
 *   THERE ──not ready──► GONE ──another document──► ANOTHER
 *   GONE, ANOTHER ──ready, and read since the last trouble──► THERE
 */
#ifndef MVPROXY_CLUSTER_LOCAL_H
#define MVPROXY_CLUSTER_LOCAL_H

#include "cluster/cluster_env.h"
#include "cluster/readiness.h"
#include "cluster/server.h"

enum local_life {
    LOCAL_THERE,   /* or not known to be otherwise */
    LOCAL_GONE,    /* it was not ready, and has not been read since it is */
    LOCAL_ANOTHER, /* likewise, and its document is another one since */
};

struct local_handler {
    /* Its discovery, as refresh_opts.on_end. `restarted`: another process answers. */
    void (*polled)(void *arg, bool ok, bool restarted);
    void (*readiness)(void *arg, bool ready); /* its state is another */
    bool (*watched)(void *arg);               /* whether it is seen that it goes, or can never be seen */
    size_t (*poll_peers)(void *arg);          /* since it is gone; returns how many there are */
};

/* Read-only; server, its discovery and readiness may be used through their functions. */
struct local {
    const struct cluster_env *env;
    const struct local_handler *handler;
    void *arg;
    struct server *server;
    struct readiness *readiness;
    enum local_life life;
    uint64_t gone_ms;         /* since when it is not THERE */
    struct loop_timer *peers; /* meanwhile: they are polled again */
    bool read;                /* its discovery, since it was last in trouble */
    uint64_t trouble_ms;      /* when that was */
    bool suspect;             /* the Leases' watch broke or works again: another process may answer */
    uint64_t connection;      /* of its last good poll */
    int64_t renew_us;         /* of its Lease, as it was seen last */
    uint64_t renewed_ms;      /* when it was seen to change; 0: never */
};

/* Ends the process when out of memory. Nothing is asked before server_set_origin() and readiness_set_origin(). */
struct local *local_new(const struct cluster_env *env, const struct local_handler *h, void *arg);
void local_free(struct local *l); /* NULL is fine */

/* The Leases' watch broke or works again: the first sign that the server goes, and that there is a new one, maybe of
 * another version. */
void local_watch_changed(struct local *l);
/* Its Lease was seen. Whether it was renewed since it was seen last. */
bool local_lease_seen(struct local *l, int64_t renew_us);
uint64_t local_lease_ms(const struct local *l); /* since it was seen to change; UINT64_MAX: never */

/* cluster_peers_answer(). */
bool local_peers_answer(const struct local *l);
uint64_t local_gone_ms(const struct local *l); /* since it is not THERE */

#endif
