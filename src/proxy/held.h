/* SPDX-License-Identifier: Apache-2.0 */
/* A short answer of a server, held back until its body says whether it is a denial (kube/denial.h). */
#ifndef MVPROXY_PROXY_HELD_H
#define MVPROXY_PROXY_HELD_H

#include "base/limits.h"
#include "kube/denial.h"
#include "proxy/job.h"

struct held {
    const struct http_head *head; /* valid until the on_end of the server's request is over */
    struct http_body body;
    size_t n;
    char text[LIMIT_DENIAL_BODY];
};

/* Whether it says itself that it is too long to be a denial. */
bool held_is_too_long(struct http_body body);
/* Begins to hold it, in j->held; or, without memory, the job is over: what nobody has read is not to be relayed. */
void held_start(struct job *j, const struct http_head *head, struct http_body body);
/* False: nothing is held (NULL), or this would make it too long, and is not. */
bool held_add(struct held *h, struct slice data);
struct slice held_bytes(const struct held *h);
/* Of the whole body. */
enum denial held_says(const struct held *h);

#endif
