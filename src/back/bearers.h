/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose requests may share an HTTP/2 connection, and what is remembered of tokens for that: whether a server took them
 * last time, and how many requests with them are under way.
 */
#ifndef MVPROXY_BACK_BEARERS_H
#define MVPROXY_BACK_BEARERS_H

#include "back/request.h"

/* The one Authorization, if it is a token (http/credential.h); NONE: with several nobody knows which one counts. */
struct slice bearer_of(const struct http_head *head);
/* With the certificate, and who asks stands in the request. */
bool bearer_is_shared(const struct back_request *r);
/* What is remembered of its token, or of another of the same slot. */
struct bearer *bearer_slot(const struct back_request *r);
/* May a connection be made for it? */
bool bearer_may_connect(const struct back_request *r);
/* A new request: what it has to do with others, before it is placed. `of_all`: the load that everybody's belong to. */
void bearer_count(struct back_request *r, struct h2_load *of_all);
/* Nobody knows that who asks so may do anything at all: no certificate, no token that a server took lately. */
bool bearer_is_stranger(const struct back *b, const struct http_head *head);
/* Of that of bearer_of(), for bearer_was_taken(); 0: there is none. */
uint64_t bearer_hash(const struct http_head *head);
/* Some server has taken it within a day: unlike who is a stranger this is to outlast an outage. */
bool bearer_was_taken(const struct back *b, uint64_t hash);
/* Its final head is here: remembers whether its token was taken. True: which makes a stranger one who is known. */
bool bearer_answered(struct back_request *r);

#endif
