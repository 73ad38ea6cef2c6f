/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates change while we run, and they end. Their files are watched and read again when they change (reread.h);
 * what is going to expire is said (expiry.h).
 */
#ifndef MVPROXY_DAEMON_ROTATION_H
#define MVPROXY_DAEMON_ROTATION_H

#include "base/mem.h"

struct app;
struct buf;
struct config;
struct file_watch;

/*
 * A watch over every file of the configuration, from now on but not started. When one has changed `changed` is called,
 * which is to judge them: rotation_done(). NULL when out of memory.
 */
MEM_CHECK struct file_watch *rotation_watch(struct app *a, const struct config *c, void (*changed)(struct app *a));
/* Whether all of them are in use; if not, each line of *errors says why, and they are tried again after a while. */
void rotation_done(struct app *a, bool ok, const struct buf *errors);
/* The watch in force is this one now, and starts: its configuration has been committed. Takes it over. */
void rotation_replace(struct app *a, struct file_watch *w);
/* The certificates in force may be others now. */
void rotation_changed(struct app *a);

#endif
