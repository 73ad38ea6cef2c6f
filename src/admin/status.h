/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of this process and of the servers it knows: collected once, for everybody who asks (the HTML page,
 * /statusz, mvproxyctl), so that all of them say the same. Texts are borrowed, and live until the loop goes on, unless
 * it is said otherwise.
 */
#ifndef MVPROXY_ADMIN_STATUS_H
#define MVPROXY_ADMIN_STATUS_H

#include "base/buf.h"
#include "cluster/cluster_view.h"

struct changes;
struct served;
struct traffic;

enum {
    STATUS_CHECKS = 16,
    STATUS_WHY_BYTES = 256,
    STATUS_LISTENERS = 16,
    STATUS_HOST_BYTES = 300,
    STATUS_CERTS = 64,
    STATUS_DOUBTS = 4
};

struct status_check {
    const char *name; /* of the health check */
    char why[STATUS_WHY_BYTES];
    const char *look; /* where to look, and what to do about it */
};

struct status_certificate {
    const char *option, *file;
    int64_t not_after_s, remaining_s; /* wall clock; until then */
    bool soon;                        /* it has ended, or is in the last part of its life: to be renewed */
};

/* What is hardly as it is meant, and does not hinder. */
struct status_doubt {
    const char *name, *remedy; /* the name for scripts */
    char what[2 * STATUS_HOST_BYTES];
};

struct status {
    bool ready;
    struct status_check failing[STATUS_CHECKS];
    size_t n_failing;

    const char *phase, *version, *hostname;
    unsigned long pid;
    uint64_t up_ms;
    int64_t now_us, started_us; /* wall clock */
    char listeners[STATUS_LISTENERS][STATUS_HOST_BYTES];
    size_t n_listeners;
    size_t connections, requests, tunnels;
    size_t max_connections;                       /* 0: no limit */
    bool crowded;                                 /* new clients wait for one of these to end */
    bool full;                                    /* and that is so now; else less than ten seconds ago */
    const char *accept_failure;                   /* or because of this; NULL: they do not */
    size_t client_memory, client_memory_limit;    /* bytes; SIZE_MAX: no limit */
    size_t memory_ended;                          /* connections that ended for it in the last minute */
    const char *config_file;                      /* NULL: none */
    const char *reload_refused, *files_refused;   /* why; "": not */
    uint64_t reload_refused_ms, files_refused_ms; /* for how long they have been */
    const char *headers_more;                     /* what the API servers name beyond requestheader-*; NULL: nothing */

    struct status_doubt doubts[STATUS_DOUBTS];
    size_t n_doubts;

    struct cluster_view cluster; /* the servers */
    char failover[192], etcd[256];
    const char *advertised; /* HOST:PORT that peers are told; "": none */
    char peers_off[256];    /* why no peer is ever asked; "": they are */

    const char *skewed_resources; /* the option */

    struct status_certificate certificates[STATUS_CERTS];
    size_t n_certificates;

    const struct changes *changes; /* with what is disbelieved */
    const struct traffic *traffic;
    uint64_t now_ms;       /* the traffic's clock */
    struct served *served; /* to be compared; referenced */
    struct buf internals;  /* JSON, for who looks for an error of ours; empty: not asked for */
};

/* Frees what is in it. */
void status_end(struct status *s);

/* One JSON object. */
void status_json(const struct status *s, struct buf *out);
/* Lines for people: what /statusz adds to what Kubernetes' own have. */
void status_text(const struct status *s, struct buf *out);

/* "Ready", or "Not ready: CHECK: WHY; CHECK: WHY": the first line of all. */
void status_headline(const struct status *s, struct buf *out);

#endif
