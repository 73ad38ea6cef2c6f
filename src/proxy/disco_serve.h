/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `/apis` and `/api` from the snapshot, to exactly those whom the local kube-apiserver would give its own.
 */
#ifndef MVPROXY_PROXY_DISCO_SERVE_H
#define MVPROXY_PROXY_DISCO_SERVE_H

#include "proxy/job.h"

/* Answers, or forwards to the local server when the client asks for its document. False: for discovery in its legacy
 * form. */
bool disco_serve(struct job *j);

#endif
