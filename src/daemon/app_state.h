/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the process, shared by the files that run it: app.c builds it, reload.c replaces parts, drain.c ends it.
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
    APP_DELAYING, /* told to stop: not ready, but still serving (shutdown-delay-duration) */
    APP_DRAINING, /* the listener is closed, requests under way may finish (shutdown-grace-period) */
    APP_STOPPED,
};

struct app {
    struct app_args args;
    enum app_phase phase;
    struct config *config;
    struct config *config_before; /* before the reload: requests under way may use its identity headers; NULL: none */
    struct trust trust;
    char *hostname;

    struct metrics *metrics;
    struct process_metrics *process;
    struct changes *changes; /* recent events, for people */
    struct loop *loop;
    struct notify *notify;
    struct back *back;
    struct wire_surroundings around; /* the local origin and the networks are owned */
    struct claims claims;            /* the identity headers, for back/ */
    struct cluster *cluster;
    struct proxy *proxy;
    struct front *front;
    struct health *health;
    struct admin *admin;     /* NULL: admin-bind-address is empty, or admin_waits */
    struct control *control; /* NULL: control-socket is empty, or could not be made */
    uint64_t started_ms;

    struct loop_timer *heartbeat; /* watchdog and status line */
    struct loop_timer *drain_step;
    struct reload *reload;
    uint64_t drain_ends_ms, drain_missed_ms;
    struct addresses addresses; /* on which clients are served */
    bool inherited;             /* the listening sockets are inherited; another process may still be serving them */
    bool admin_waits;           /* another process has the admin listener's address, such as the one before us */
    unsigned held_beats;        /* heartbeats to wait at most before connections are accepted; 0: they are */
    bool ready_later;           /* READY=1 is sent to the service manager when they are accepted */
    char address_waits[192];    /* at the start: the error while another process has our address; "": we listen */
    struct loop_timer *address_retry;
    uint64_t address_ends_ms, address_taken_ms;
    char failed[224];            /* why the process ends by itself; "": it does not */
    bool withdrawn;              /* cluster_stop() is over, or took too long */
    char status[512];            /* last status line sent to the service manager */
    bool said_not_ready;         /* warned of not being ready since it last was */
    bool refused_for_files;      /* the refused reload had the running configuration: only its files were wrong */
    char reload_refused[1024];   /* why the last reload was refused; "" once one succeeds */
    char files_refused[512];     /* why changed certificate files are not used; "" once they are */
    uint64_t files_refused_hash; /* of all that was wrong */
    uint64_t reload_refused_ms, files_refused_ms; /* since when */

    struct expiry *expiry;
    struct file_watch *watch;        /* of certificates, keys and bundles */
    void (*on_files)(struct app *a); /* called when one of them has changed */
    struct reread *reread;
    struct metric *reload_ok, *reload_time, *config_hash, *files_ok, *files_changes, *ready;
};

void app_set_phase(struct app *a, enum app_phase phase);

#endif
