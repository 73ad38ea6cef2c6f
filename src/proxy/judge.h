/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the client's question to the local server with the client's own credential, either only for the verdict whether
 * the client may read a document, or for an answer that is then completed. While the local server is away a live peer
 * is asked instead: it judges by the same RBAC objects from the same etcd.
 */
#ifndef MVPROXY_PROXY_JUDGE_H
#define MVPROXY_PROXY_JUDGE_H

#include "proxy/job.h"

struct judge_question {
    const struct back_handler *handler;
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
/* Sends the question; the answer goes to its handler. Failures before that are answered here. */
void judge_ask(struct job *j, const struct judge_question *q);
/* Changes the question for the next server, if one is asked. */
void judge_change(struct job *j, const struct judge_question *q);
/* Asks a peer that was not asked yet, or else the local server. False: none is left. No request may be under way. */
bool judge_ask_another(struct job *j);
/*
 * To be called with the head of each answer. True: it was a peer's 503, or its 401 to a client with a credential (each
 * server verifies these for itself, docs/internals/retry.md), and another peer is asked now.
 */
bool judge_doubts(struct job *j, const struct http_head *head);
/* For a question's handler, as on_failed: asks another server, or answers the client. */
void judge_failed(void *arg, const struct back_failure_info *f);

#endif
