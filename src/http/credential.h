/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request shows a credential besides its connection's certificate, as kube-apiserver reads it. What it does
 * not read (Basic, a scheme alone, an empty token) is nothing: such a request is anonymous, and nobody may seem more by
 * it.
 */
#ifndef MVPROXY_HTTP_CREDENTIAL_H
#define MVPROXY_HTTP_CREDENTIAL_H

#include "http/head.h"

/*
 * Is this value of Authorization a token? "Bearer" in any case, one space, and something that is no space
 * (k8s.io/apiserver pkg/authentication/request/bearertoken). White space around it is what Go's strings.TrimSpace takes
 * for it.
 */
bool credential_is_bearer(struct slice authorization);
/* The token itself. Empty if there is none, or a space behind it: kube-apiserver does not read what follows that. */
struct slice credential_token(struct slice authorization);
/*
 * The first Authorization is a token, or the request is a WebSocket's and has one among its protocols
 * (pkg/authentication/request/websocket). Two of these, or one that is malformed, are an error to kube-apiserver, which
 * makes the answer 401: as far from anonymous as a token that nobody knows.
 */
bool credential_shown(const struct http_head *request);

#endif
