/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells when one of a set of files may have changed, however that is done: written in place, renamed over, or through a
 * symbolic link that now leads elsewhere (kubelet-client-current.pem; the ..data folder of a Kubernetes volume).
 * inotify on every folder on the way, and a look at the files every minute for file systems without it.
 */
#ifndef MVPROXY_NET_FILE_WATCH_H
#define MVPROXY_NET_FILE_WATCH_H

#include "base/mem.h"

struct file_watch;
struct loop;

/*
 * Something is different and has been for a moment: to be judged, file_watch_done() follows, from in here or later. Not
 * called from inside a call into this module, and must not free the watch.
 */
typedef void file_watch_fn(void *arg);

MEM_CHECK struct file_watch *file_watch_new(struct loop *l, file_watch_fn *fn, void *arg);
void file_watch_free(struct file_watch *w);
/* Before the file is read: what changes from here on is noticed. It need not exist. Also later, and from inside fn. */
MEM_CHECK bool file_watch_add(struct file_watch *w, const char *path);
/* Starts to call fn. */
void file_watch_start(struct file_watch *w);
/*
 * What the files were found to be. Not good: they cannot be used yet (half written, say), and fn is called again after
 * a second, two, four ... up to a minute, and at every further change.
 */
void file_watch_done(struct file_watch *w, bool good);

#endif
