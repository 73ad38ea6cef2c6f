/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers asked for themselves, several at once: one that is silent costs the others nothing, and many of them no more
 * than a minute and a half.
 */
#ifndef MVPROXY_CHECK_VISITS_H
#define MVPROXY_CHECK_VISITS_H

#include "check/scene.h"
#include "kube/version.h"

struct cluster;
struct served_peer;

enum visit_state {
    VISIT_NONE,    /* is not to be asked */
    VISIT_WAITING, /* is to be asked; afterwards: there was no time for it */
    VISIT_ASKED,   /* for its version */
    VISIT_READING, /* said it; its discovery is being read, and it is asked whether it is ready */
    VISIT_OVER,
};

struct visit {
    const struct served_peer *peer; /* borrowed */
    enum visit_state state;
    bool silent;            /* the running process has no answer of it: asked after the others */
    struct answer answer;   /* without body */
    struct version version; /* major 0: the answer was none */
    bool read;              /* its discovery was, too */
    char unready[320];      /* what its /readyz says, or why it says nothing; "": it is ready, or does not let us ask */
    bool etcd_fails;        /* it says that this is why */
    const char *other;      /* the known server that answers there instead; for the owner of the visit. NULL: none */
    uint64_t since_ms;
    struct answer ready;
    struct question question;
    struct buf body;
};

/* Until none is on its way, or waiting when a minute has passed. */
void visits_make(struct scene *s, struct cluster *c, struct visit *visits, size_t n);
/* How many of them write a record into the etcd of kube-apiserver's --etcd-servers: 1.36 and later do, whose feature
 * gate is on then (docs/internals/etcd.md), and those before which an mvproxy stands. */
size_t visits_with_records(const struct visit *visits, size_t n);

#endif
