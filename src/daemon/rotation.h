/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation of certificates while the process runs: watches their files, which are read again when they change
 * (reread.h), and keeps the record of expiry (expiry.h) up to date.
 */
#ifndef MVPROXY_DAEMON_ROTATION_H
#define MVPROXY_DAEMON_ROTATION_H

#include "base/mem.h"

struct app;
struct buf;
struct config;
struct file_watch;

/*
 * A watch over every file of the configuration, not started yet. It notices changes from now on. When a file has
 * changed `changed` is called, which must lead to rotation_done(). NULL when out of memory.
 */
MEM_CHECK struct file_watch *rotation_watch(struct app *a, const struct config *c, void (*changed)(struct app *a));
/* `ok`: all files are in use. Else each line of *errors says why not, and they are tried again after a while. */
void rotation_done(struct app *a, bool ok, const struct buf *errors);
/* The configuration of this watch has been committed: takes over `w` as a->watch and starts it. */
void rotation_replace(struct app *a, struct file_watch *w);
/* Changed files have been put in use: logs and counts that, and reads their expiry. `changed`: as trust_keep_same(). */
void rotation_changed(struct app *a, unsigned changed);

#endif
