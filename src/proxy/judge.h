/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the client's question to the local server with the client's own credential, either only for the verdict whether
 * the client may read a document, or for an answer that is then completed. While the local server is away a live peer
 * is asked instead: it judges by the same RBAC objects from the same etcd.
 */
#ifndef MVPROXY_PROXY_JUDGE_H
#define MVPROXY_PROXY_JUDGE_H

#include "proxy/job.h"

/*
 * What becomes of the answer, of the server j->judge. While there is another to be asked, it is none of these: a peer's
 * 503; its 401 to a client with a credential (each server verifies these for itself, docs/internals/retry.md); and the
 * words of a server that stops or starts and has not looked at the request (kube/denial.h).
 */
struct judge_handler {
    /* False: nothing more of this answer is to be told, and the job may be over. */
    bool (*on_head)(struct job *j, const struct http_head *head, struct http_body body);
    void (*on_body)(struct job *j, struct slice data);
    void (*on_end)(struct job *j, const struct http_head *trailers); /* j->back is NULL */
    /* The answer ends here, and the next server is asked: forgets what there is of it. j->judge is still who gave it.
     * May change the question. NULL: there is nothing to do. */
    void (*before_next)(struct job *j);
};

struct judge_question {
    const struct judge_handler *handler;
    struct slice accept;        /* replaces the client's Accept; empty: the client's own */
    struct slice if_none_match; /* empty: none */
    bool whole;   /* the answer must be complete: without the client's conditions and ranges, and uncompressed */
    bool verdict; /* only the verdict is wanted: mvproxy answers something else */
    bool get;     /* sent as GET, whatever the client's method: a HEAD is answered from the answer to a GET */
};

/*
 * Clients take /apis as complete: with a document of the local server alone the namespace controller would leave
 * objects behind, kubectl would not know a resource type, and a RESTMapper would report a kind as missing. So until the
 * peers' discovery has been read (cluster_peers_synced()) the request is refused with 503, as those for resources are:
 * false.
 */
bool judge_peers_were_asked(struct job *j);
/* Whether a peer can be asked in place of the local server. `asserted`: the identity has to be asserted, which takes a
 * certificate. */
bool judge_may_be(const struct served_peer *p, bool asserted);
/* Sends the question; the answer goes to its handler. Who fails before that is followed by another server, or the
 * client is answered here. */
void judge_ask(struct job *j, const struct judge_question *q);
/* Changes the question for the next server, if one is asked. */
void judge_change(struct job *j, const struct judge_question *q);
/* Asks a peer that was not asked yet, or else the local server. False: none is left. */
bool judge_ask_another(struct job *j);

#endif
