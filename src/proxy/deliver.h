/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends answers of mvproxy's own with long bodies, piece by piece (JOB_SERVING).
 */
#ifndef MVPROXY_PROXY_DELIVER_H
#define MVPROXY_PROXY_DELIVER_H

#include "proxy/job.h"

/* Starts the answer. Its body is j->pretty, or else j->document, which must live as long as the job; a 304 or an answer
 * to HEAD has none. */
void deliver(struct job *j, const struct http_head *head, struct http_body body);
/* The client can take more bytes. */
void deliver_resume(struct job *j);

#endif
