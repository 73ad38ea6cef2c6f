/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under which names requests to servers say who asks: told to back/, which holds every head against its connection.
 * Besides the configured names those of before the last reload count, because requests under way still have them.
 */
#ifndef MVPROXY_DAEMON_CLAIMS_H
#define MVPROXY_DAEMON_CLAIMS_H

#include "back/claims.h"
#include "kube/user.h"

/* The text of the names is the owner's to keep. */
struct claims {
    struct user_headers now, also; /* also.username NULL: no others */
};

/* `also`: further names, of before a reload or of after it; NULL: none. */
void claims_set(struct claims *c, const struct user_headers *now, const struct user_headers *also);
/* A back_claims_fn; `claims` is a struct claims. */
void claims_of(const struct http_head *head, void *claims, struct back_claims *out);

#endif
