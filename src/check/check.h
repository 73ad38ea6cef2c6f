/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mvproxyctl check`: is everything that mvproxy stands on as it has to be? Looks at the configuration, the files that
 * it names, this machine, and asks the servers for itself, with the daemon's own code. Changes and publishes nothing.
 */
#ifndef MVPROXY_CHECK_CHECK_H
#define MVPROXY_CHECK_CHECK_H

#include <sys/types.h>

#include "check/findings.h"

struct json_object;

struct check_opts {
    const char *config_file;    /* NULL: the running process's, else: */
    const char *else_file;      /* this one, if it is there */
    const char *user;           /* as whom the service runs */
    bool before;                /* it does not run yet, and need not */
    const char *silence;        /* not `before`, and nobody answers: why; NULL: it runs, and said: */
    struct json_object *status; /* as the control socket gives them; NULL: not asked */
    struct json_object *config;
    pid_t pid;                   /* of who gave them; 0: not known here */
    const char *proc;            /* where this machine's /proc is; NULL: there */
    const char *systemctl;       /* the program; NULL: no systemd runs here */
    const char *pod_manifest;    /* where that of a static pod would be; NULL: nowhere */
    const char *server_manifest; /* the text of kube-apiserver's, which root alone may read; NULL: there is none */
};

/* Takes as long as servers need to answer: half a minute at most for the local one, ten seconds for each etcd, a minute
 * and a half for all peers. */
void check_run(const struct check_opts *o, struct findings *f);

#endif
