/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the admin listener that wait for their part of a turn: each answer is made whole, and libevent's HTTP
 * server would let every connection that has asked have one in the same turn, while clients of the API wait.
 */
#ifndef MVPROXY_ADMIN_ASKED_H
#define MVPROXY_ADMIN_ASKED_H

#include "base/mem.h"

struct asked;
struct evhttp_request;
struct loop;

enum { ASKED_TURN_US = 2000 }; /* no further answer is begun in a turn after so long */

typedef void asked_fn(struct evhttp_request *req, void *arg);

/* `fn` answers a request, once for each. NULL when out of memory. */
MEM_CHECK struct asked *asked_new(struct loop *l, asked_fn *fn, void *arg);
/* NULL is fine. Who waits goes with his connection. */
void asked_free(struct asked *a);
/* From libevent's callback for the request. Without memory it is answered at once. */
void asked_add(struct asked *a, struct evhttp_request *req);

#endif
