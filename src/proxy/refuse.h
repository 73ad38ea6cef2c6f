/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends mvproxy's own error answers, which are always a v1 Status.
 */
#ifndef MVPROXY_PROXY_REFUSE_H
#define MVPROXY_PROXY_REFUSE_H

#include "base/buf.h"
#include "front/exchange.h"
#include "http/head.h"

enum refuse_flags {
    REFUSE_AGAIN = 1,       /* 429 and 503 get Retry-After, which makes client-go send the request again, whatever
                               its method; see retry_is_harmless() */
    REFUSE_TRY_ANOTHER = 2, /* 503 to a peer gets REWRITE_TRY_ANOTHER */
};

/* A Status that is to be sent. */
struct own_answer {
    struct http_head head;
    struct buf body;
    bool whole; /* false: out of memory, and the exchange will be aborted */
};

/* `flags` of enum refuse_flags; `audit_id` may be SLICE_NONE. To be sent, always: that frees it. */
void own_answer_make(struct own_answer *r, struct exchange *x, unsigned status, const char *message,
                     struct slice audit_id, unsigned flags);
/* Ends the exchange. */
void own_answer_send(struct own_answer *r, struct exchange *x);
/* Both. */
void refuse_exchange(struct exchange *x, unsigned status, const char *message, struct slice audit_id, unsigned flags);

#endif
