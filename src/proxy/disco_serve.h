/*
 * `/apis` from the snapshot, to exactly those whom the local kube-apiserver would give its own.
 */
#ifndef MVPROXY_PROXY_DISCO_SERVE_H
#define MVPROXY_PROXY_DISCO_SERVE_H

#include "proxy/job.h"

/* Answers, or forwards to the local server when the client asks for something else than the merged document. */
void disco_serve(struct job *j);
/* The client takes bytes again (JOB_SERVING). */
void disco_serve_resume(struct job *j);

#endif
