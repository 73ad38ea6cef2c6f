/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers `/apis` and `/api` with the merged documents of the snapshot, to exactly those clients to whom the local
 * kube-apiserver would give its own.
 */
#ifndef MVPROXY_PROXY_DISCO_SERVE_H
#define MVPROXY_PROXY_DISCO_SERVE_H

#include "proxy/job.h"

/* Answers, or forwards to the local server, as when the client asks for that server's own document. False, with nothing
 * done: the client wants legacy discovery. */
bool disco_serve(struct job *j);

#endif
