/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CA file that is replaced while we run: does the new one fit what servers show? Each is dialled with the context
 * made of the new file, and, if its certificate is refused, with the one in force.
 */
#ifndef MVPROXY_DAEMON_TRUST_TRIAL_H
#define MVPROXY_DAEMON_TRUST_TRIAL_H

#include "net/dial.h"

enum { TRUST_TRIAL_SERVERS = 16, TRUST_TRIAL_TIMEOUT_MS = 3000 };

enum trust_verdict {
    TRUST_FITS,    /* one shows what the new one believes; or the one in force does not believe any of them either */
    TRUST_UNFIT,   /* those who answer show what only the one in force believes */
    TRUST_UNKNOWN, /* nobody has answered */
};

struct trust_trial_opts {
    struct loop *loop;
    struct tls_ctx *fresh, *old;
    struct dial_opts way; /* `allow` and `egress` */
    /* Called once, never from inside a call into this module; the trial is over then. UNFIT: `server` is the first that
     * would not be reached any more, and why. Valid during the call. */
    void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why);
    void *arg;
};

struct trust_trial;

/* NULL when out of memory. */
MEM_CHECK struct trust_trial *trust_trial_new(const struct trust_trial_opts *o);
/* It is asked from now on. Text is copied. Those beyond TRUST_TRIAL_SERVERS, and for whom there is no memory, are not
 * asked. */
void trust_trial_ask(struct trust_trial *t, const char *server, const char *host, unsigned port);
/* Whether anybody was asked: else `done` is not called, and the trial is the caller's to free. */
bool trust_trial_asks(const struct trust_trial *t);
void trust_trial_free(struct trust_trial *t); /* no call any more; NULL is nothing */

#endif
