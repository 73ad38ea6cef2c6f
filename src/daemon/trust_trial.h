/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries whether a CA file that was replaced fits the certificates that servers show: each server is dialled with the
 * new context, and, if that refuses its certificate, with the one in use.
 */
#ifndef MVPROXY_DAEMON_TRUST_TRIAL_H
#define MVPROXY_DAEMON_TRUST_TRIAL_H

#include "net/dial.h"

enum { TRUST_TRIAL_SERVERS = 16, TRUST_TRIAL_TIMEOUT_MS = 3000 };

enum trust_verdict {
    TRUST_FITS,    /* the new one accepts a server; or neither accepts any, and all answered */
    TRUST_UNFIT,   /* the new one accepts no server, and the one in use accepts some */
    TRUST_UNKNOWN, /* neither accepts any server, and some did not answer */
};

struct trust_trial_opts {
    struct loop *loop;
    struct tls_ctx *fresh, *old;
    struct dial_opts way; /* only `allow`, its argument and `egress` */
    /* Called once, never from inside; the trial is freed after it. UNFIT: `server` is the first one that could not be
     * reached any more, and `why`. Valid during the call. */
    void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why);
    void *arg;
};

struct trust_trial;

/* NULL when out of memory. */
MEM_CHECK struct trust_trial *trust_trial_new(const struct trust_trial_opts *o);
/* Dials this server. Texts are copied. Servers beyond TRUST_TRIAL_SERVERS are left out, and so is one when out of
 * memory. */
void trust_trial_ask(struct trust_trial *t, const char *server, const char *host, unsigned port);
/* Whether any server was dialled. If not, `done` is not called, and the caller has to free the trial. */
bool trust_trial_asks(const struct trust_trial *t);
void trust_trial_free(struct trust_trial *t); /* `done` is not called; NULL is fine */

#endif
