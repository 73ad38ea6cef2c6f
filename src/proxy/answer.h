/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an answer's head says of its server: the truth about the request, or only that this server does not serve it,
 * cannot now, or does not know who asks, which others may. Judges only; proxy/forward acts.
 */
#ifndef MVPROXY_PROXY_ANSWER_H
#define MVPROXY_PROXY_ANSWER_H

#include "kube/denial.h"
#include "proxy/job.h"

/* Another program than the server answers: its failures and its 503 say nothing of the server. */
bool answer_proves_nothing(const struct job *j);
/*
 * If we believed of a server that it serves this, and it says that it does not know the path (kube/denial.h), what we
 * know has drifted from what is, and its 404 or 405 would be a false one. `body`: the answer has one.
 */
enum denial answer_denies(const struct job *j, const struct http_head *head, bool body);
/* Of an answer that denies: the server starts or stops, and has not looked at the request. */
bool answer_is_not_read(const struct http_head *head);
/* Of a peer's mvproxy whose server could not be asked, or is only starting. */
bool answer_is_unready(const struct job *j, const struct http_head *head);
/*
 * One peer's 401 to an identity that we assert: it does not believe our front-proxy certificate, so that this is our
 * trouble and none of the user's.
 */
bool answer_distrusts_us(const struct job *j, const struct http_head *head);
/*
 * One peer's 401 to a token, where another one can be asked that is not an outlier: each server judges a token for
 * itself, by a webhook, an identity provider or a file that others may reach better. Before a 401 nothing was done,
 * whatever the method.
 */
bool answer_knows_nobody(const struct job *j, const struct http_head *head);

#endif
