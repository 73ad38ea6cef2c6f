/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the admin listener that wait for their part of a turn: libevent's HTTP server would let every connection
 * that has asked have its answer in the same turn, while clients of the API wait. They are answered one after the
 * other; one that takes long is made over several turns.
 */
#ifndef MVPROXY_ADMIN_ASKED_H
#define MVPROXY_ADMIN_ASKED_H

#include "base/mem.h"

struct asked;
struct evhttp_request;
struct loop;

enum { ASKED_TURN_US = 2000 }; /* nothing further is begun in a turn after so long */

struct asked_fns {
    /* Makes a part of an answer; it may keep something at *work, which is NULL at first. True: there is nothing more to
     * make. NULL: there never is. */
    bool (*make)(struct evhttp_request *req, void **work, void *arg);
    /* Answers, once; `work` is its own now. */
    void (*send)(struct evhttp_request *req, void *work, void *arg);
    /* The request is gone; not for NULL. */
    void (*drop)(void *work);
};

/* NULL when out of memory. */
MEM_CHECK struct asked *asked_new(struct loop *l, const struct asked_fns *fns, void *arg);
/* NULL is fine. Who waits goes with his connection. */
void asked_free(struct asked *a);
/* From libevent's callback for the request. Without memory it is answered at once. */
void asked_add(struct asked *a, struct evhttp_request *req);

#endif
