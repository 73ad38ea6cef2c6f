/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local server is asked what the client asks, with the client's own credential: for its verdict on a reader, or for
 * an answer that is then completed. While it is away a live peer's judges in its place: by the same RBAC objects, out
 * of the same etcd.
 */
#ifndef MVPROXY_PROXY_JUDGE_H
#define MVPROXY_PROXY_JUDGE_H

#include "proxy/job.h"

struct judge_question {
    const struct back_handler *handler;
    struct slice accept;        /* instead of the client's; empty: the client's own */
    struct slice if_none_match; /* empty: none */
    bool whole;                 /* without the client's conditions, no part of it, and not compressed */
    bool verdict;               /* only that is wanted: our answer is another one */
    bool get;                   /* whatever its method: a HEAD is answered with what a GET says */
};

/*
 * A client takes /apis for all there is: a namespace controller would leave behind what it does not find, kubectl not
 * know a resource type, and a RESTMapper take a kind for one that does not exist. So nobody hears of the local server
 * alone before the peers have said what they serve: false, and refused with 503, as for resources.
 */
bool judge_peers_were_asked(struct job *j);
/* Whether a peer can be asked in place of the local server, by one that has to be asserted or not. */
bool judge_may_be(const struct served_peer *p, bool asserted);
/* The answer comes to the question's handler. What fails before is answered here. */
void judge_ask(struct job *j, const struct judge_question *q);
/* What the next one is asked, if there is one. */
void judge_change(struct job *j, const struct judge_question *q);
/* A peer that was not asked yet, or else the local server. False: nobody is left. Nothing may be under way. */
bool judge_ask_another(struct job *j);
/*
 * To be called with the head of an answer. True: it is a peer's 401 to a token, which each server judges for itself
 * (docs/internals/retry.md), or its 503, and another peer is asked now.
 */
bool judge_doubts(struct job *j, const struct http_head *head);
/* The on_failed of a question: asks another, or answers the client. */
void judge_failed(void *arg, const struct back_failure_info *f);

#endif
