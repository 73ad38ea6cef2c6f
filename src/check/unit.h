/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager knows of the service: asked by systemctl(1), drop-ins included. */
#ifndef MVPROXY_CHECK_UNIT_H
#define MVPROXY_CHECK_UNIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { UNIT_NAME_BYTES = 256, UNIT_STATUS_BYTES = 1024 };

struct unit {
    bool loaded; /* else all else is empty */
    char name[UNIT_NAME_BYTES];
    char user[UNIT_NAME_BYTES];     /* empty: root */
    char status[UNIT_STATUS_BYTES]; /* what it said last, unless it runs */
    bool failing;                   /* started, and does not stay */
    bool disabled;                  /* nothing starts it at the next boot */
    bool gives_leave;               /* it sets ACLs before it starts */
    bool binds_low;                 /* it may take ports below 1024, or its socket takes them */
    uint64_t descriptors;           /* UINT64_MAX: no limit; 0: not told */
};

/*
 * Of the process, if it is of a unit of ours (pid 0: of mvproxy.service). proc: where the machine's /proc is.
 * systemctl: the program, NULL: none.
 */
void unit_read(const char *systemctl, const char *proc, pid_t pid, struct unit *out);

#endif
