/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that run the program's life share: app.c builds it, reload.c replaces parts of it, drain.c ends it.
 */
#ifndef MVPROXY_DAEMON_APP_STATE_H
#define MVPROXY_DAEMON_APP_STATE_H

#include "base/metric.h"
#include "daemon/addresses.h"
#include "daemon/app_args.h"
#include "daemon/claims.h"
#include "daemon/notify.h"
#include "daemon/wire.h"
#include "net/loop.h"

struct admin;
struct changes;
struct control;
struct expiry;
struct file_watch;
struct health;
struct process_metrics;
struct reload;
struct reread;

enum app_phase {
    APP_SERVING,
    APP_DELAYING, /* told to stop: unready, still serving (shutdown-delay-duration) */
    APP_DRAINING, /* the listener is closed, what is under way may finish (shutdown-grace-period) */
    APP_STOPPED,
};

struct app {
    struct app_args args;
    enum app_phase phase;
    struct config *config;
    struct config *config_before; /* its names of identity headers may be in requests under way; NULL: none */
    struct trust trust;
    char *hostname;

    struct metrics *metrics;
    struct process_metrics *process;
    struct changes *changes; /* what happened lately, for people */
    struct loop *loop;
    struct notify *notify;
    struct back *back;
    struct wire_surroundings around; /* the local origin and the networks are ours */
    struct claims claims;            /* what back/ is told */
    struct cluster *cluster;
    struct proxy *proxy;
    struct front *front;
    struct health *health;
    struct admin *admin;     /* NULL: admin-bind-address is empty */
    struct control *control; /* NULL: control-socket is empty, or could not be made */
    uint64_t started_ms;

    struct loop_timer *heartbeat; /* watchdog and status line */
    struct loop_timer *drain_step;
    struct reload *reload;
    uint64_t drain_ends_ms, drain_missed_ms;
    struct addresses addresses; /* that are listened on */
    bool inherited;             /* the listening sockets; another process may be serving it still */
    bool admin_waits;           /* for the process before us to let go of its address */
    unsigned held_beats;        /* heartbeats to wait at most before connections are accepted from it */
    bool ready_later;           /* the service manager hears that we are ready when they are accepted */
    char address_waits[192];    /* at the start: who listens where we shall is not gone yet; "": we listen */
    struct loop_timer *address_retry;
    uint64_t address_ends_ms, address_taken_ms;
    char failed[224];         /* why the process ends by itself; "": it does not */
    bool withdrawn;           /* what we had published is gone, or it took too long */
    char status[512];         /* as last told to the service manager */
    bool said_not_ready;      /* as a warning, since it was ready last */
    bool refused_for_files;   /* alone: what the running configuration names is what was to be loaded */
    char reload_refused[256]; /* why the last reload was; empty once one succeeds */
    char files_refused[512];  /* why changed certificate files were not taken; empty once they are */
    uint64_t reload_refused_ms, files_refused_ms; /* since when */

    struct expiry *expiry;
    struct file_watch *watch;        /* of certificates, keys and bundles */
    void (*on_files)(struct app *a); /* when one of them has changed */
    struct reread *reread;
    struct metric *reload_ok, *reload_time, *config_hash, *files_ok, *files_changes;
};

void app_set_phase(struct app *a, enum app_phase phase);

#endif
