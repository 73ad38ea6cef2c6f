/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges the head of a server's answer: whether it is the answer to the request, or only says that this server does not
 * serve it, cannot now, or does not know the user, while other servers may. Sends nothing; proxy/forward does.
 */
#ifndef MVPROXY_PROXY_ANSWER_H
#define MVPROXY_PROXY_ANSWER_H

#include "kube/denial.h"
#include "proxy/job.h"

/* Whether another program answers through the server (a subresource that reaches through to it, or an aggregated API):
 * its failures and 503s say nothing about the server's health. */
bool answer_proves_nothing(const struct job *j);
/*
 * Whether a server that should serve this by its discovery answers that it does not know the path (kube/denial.h): then
 * its discovery as known here is outdated, and the 404 or 405 would be false. `body`: the answer has one.
 */
enum denial answer_denies(const struct job *j, const struct http_head *head, bool body);
/* The job is about to be given another snapshot: whom it was sent to is judged by the one that it was sent by. */
void answer_remember(struct job *j);
/* Nobody was known to serve it when it was decided on; by now somebody does, or may. */
bool answer_is_outdated(const struct job *j);
/*
 * Whether the local server answers for what nobody was known to serve when the request came. answer_denies() of it:
 * somebody does by now, or may. The request has waited for long, at servers that did not answer.
 */
bool answer_is_of_nobodys(const struct job *j);
/* For an answer that denies: whether the server is starting or stopping, and has not read the request. */
bool answer_is_not_read(const struct http_head *head);
/* Whether it is from a peer's mvproxy whose server could not be reached, or is only starting (REWRITE_TRY_ANOTHER). */
bool answer_is_unready(const struct job *j, const struct http_head *head);
/*
 * Whether it is a peer's 401 to an identity that we assert: the peer does not accept our front-proxy certificate, which
 * is a fault of this configuration and not of the user; unless its body says that it is of what comes after
 * authentication (denial_knows_user()).
 */
bool answer_distrusts_us(const struct job *j, const struct http_head *head);
/*
 * Whether it is a peer's 401 to a token, and the next candidate can be asked and is no outlier. Each server verifies
 * tokens by itself, by a webhook, an identity provider or a file that other servers may reach better. Before a 401
 * nothing was done, whatever the method.
 */
bool answer_knows_nobody(const struct job *j, const struct http_head *head);
/*
 * Whether it is a 403, or a 401 to a token, of a server that has only just started, from which nobody can tell whom it
 * will allow (cluster_local_was_loading(), cluster_peer_was_loading()). Not what another program answers through it,
 * nor what asks how the server is. Nothing was done. `peer`: who answered, NULL: the local server.
 */
bool answer_is_premature(const struct job *j, const struct http_head *head, const struct served_peer *peer);

#endif
