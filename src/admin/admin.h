/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin listener: metrics, health, z-pages and a status page, over libevent's evhttp. Read-only: GET and HEAD.
 *
 *   /                       status page (HTML)            /metrics       Prometheus or OpenMetrics
 *   /livez /readyz /healthz see health.h                  /metrics/slis  results of the health checks
 *   /statusz /flagz         see zpages.h
 *
 * On a loopback address it is plain HTTP; anywhere else it is TLS with the serving pair. Who may read what: access.h.
 */
#ifndef MVPROXY_ADMIN_ADMIN_H
#define MVPROXY_ADMIN_ADMIN_H

#include "admin/health.h"
#include "base/err.h"
#include "base/metric.h"

struct admin;
struct loop;
struct status;
struct tls_ctx;

/* Called once per option with its name and effective value (never a secret). */
typedef void admin_flag_fn(void *each_arg, const char *name, const char *value);

struct admin_opts {
    const char *bind_address; /* literal address, no brackets */
    unsigned port;            /* 0 picks one */
    struct tls_ctx *tls; /* made without http2; a reference is taken. May be NULL on loopback, where it is not used */
    uint64_t handshake_timeout_ms; /* 0: the default; tests take less */
    const char *version;
    struct metrics *metrics;
    struct health *health;
    /* The effective options, for /flagz: calls each() for every one, in the order of names. */
    void (*flags)(admin_flag_fn *each, void *each_arg, void *arg);
    /* Collects the state that / and /statusz show; the admin listener ends it. False when out of memory. */
    bool (*status)(struct status *out, void *arg);
    void *arg; /* for all */
};

/*
 * Binds and serves. `health` and `metrics` must outlive it, the text of `o` is copied. NULL with *err: one line, also
 * for an address that others can reach while there is no TLS context; errno is EADDRINUSE if somebody listens there.
 */
struct admin *admin_new(struct loop *l, const struct admin_opts *o, struct err *err);
/* New connections get the new context; the rest of the options cannot change. */
void admin_update(struct admin *a, struct tls_ctx *tls);
unsigned admin_port(const struct admin *a);
/* Closes the listener and every connection. */
void admin_free(struct admin *a);

#endif
