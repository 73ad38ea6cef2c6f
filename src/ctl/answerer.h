/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever answers at the control socket, as the kernel knows him. The process is the service user's, and may have been
 * taken over: root opens what it names with that user's rights only.
 */
#ifndef MVPROXY_CTL_ANSWERER_H
#define MVPROXY_CTL_ANSWERER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { ANSWERER_GROUPS = 256 };

struct answerer {
    pid_t pid; /* 0: not of this PID namespace */
    uid_t uid;
    gid_t gid, groups[ANSWERER_GROUPS];
    size_t n_groups;
};

/* Of a connected socket: who listens there. */
bool answerer_of(int fd, struct answerer *out, struct err *err);
/*
 * Gives up root's rights for those of the answerer, for good, if this process is root's and the answerer's is not. The
 * real user stays root: a process of the answerer's can neither trace nor signal this one.
 */
bool answerer_become(const struct answerer *a, struct err *err);

#endif
