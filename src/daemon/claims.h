/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the header fields that assert an identity in requests to servers. back/ checks every head against its
 * connection by them. Besides the configured names those before the last reload count, since requests under way may
 * still use them, and so they go on being removed from what clients send (proxy/rewrite.c).
 */
#ifndef MVPROXY_DAEMON_CLAIMS_H
#define MVPROXY_DAEMON_CLAIMS_H

#include "back/claims.h"
#include "kube/user.h"

/* The names are borrowed: their owner must keep them. */
struct claims {
    struct user_headers now, also; /* also.username NULL: no others */
};

/* `also`: the names before a reload, or after one that is being made; NULL: none. */
void claims_set(struct claims *c, const struct user_headers *now, const struct user_headers *also);
/* A back_claims_fn; `claims` is a struct claims. */
void claims_of(const struct http_head *head, void *claims, struct back_claims *out);

#endif
