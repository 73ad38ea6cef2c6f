/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own error answers: v1 Status, the only form in which they leave the program.
 */
#ifndef MVPROXY_PROXY_REFUSE_H
#define MVPROXY_PROXY_REFUSE_H

#include "front/exchange.h"

enum refuse_flags {
    REFUSE_AGAIN = 1,       /* 429 and 503 carry Retry-After, so that client-go sends the request again by itself,
                               whatever its method; see retry_is_harmless() */
    REFUSE_TRY_ANOTHER = 2, /* 503 to a peer carries REWRITE_TRY_ANOTHER */
};

/* Answers with a Status and ends the exchange. `flags` of enum refuse_flags; `audit_id` may be NONE. */
void refuse_exchange(struct exchange *x, unsigned status, const char *message, struct slice audit_id, unsigned flags);

#endif
