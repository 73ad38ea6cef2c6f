/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of our own that have a long body, sent piece by piece (JOB_SERVING).
 */
#ifndef MVPROXY_PROXY_DELIVER_H
#define MVPROXY_PROXY_DELIVER_H

#include "proxy/job.h"

/* The body is j->pretty, or j->document, which must live as long as the job. None follows a 304 or a HEAD. */
void deliver(struct job *j, const struct http_head *head, struct http_body body);
/* The client takes bytes again. */
void deliver_resume(struct job *j);

#endif
