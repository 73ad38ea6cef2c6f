/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends mvproxy's own error answers, which are always a v1 Status.
 */
#ifndef MVPROXY_PROXY_REFUSE_H
#define MVPROXY_PROXY_REFUSE_H

#include "front/exchange.h"

enum refuse_flags {
    REFUSE_AGAIN = 1,       /* 429 and 503 get Retry-After, which makes client-go send the request again, whatever
                               its method; see retry_is_harmless() */
    REFUSE_TRY_ANOTHER = 2, /* 503 to a peer gets REWRITE_TRY_ANOTHER */
};

/* Answers with a Status and ends the exchange. `flags` of enum refuse_flags; `audit_id` may be SLICE_NONE. */
void refuse_exchange(struct exchange *x, unsigned status, const char *message, struct slice audit_id, unsigned flags);

#endif
