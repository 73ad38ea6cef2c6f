/* SPDX-License-Identifier: Apache-2.0 */
#include "back/retry.h"

/* Failures that another attempt would only repeat, or that are not the server's. */
static bool is_final(enum back_failure why)
{
    return why == BACK_FAIL_MEMORY || why == BACK_FAIL_TIMEOUT || why == BACK_FAIL_BODY || why == BACK_FAIL_IDENTITY ||
           why == BACK_FAIL_CLIENT;
}

enum retry_verdict retry_decide(const struct retry_case *c)
{
    if (c->relayed)
        return RETRY_BREAK;
    if (is_final(c->why) || c->body_gone || !c->affordable || !retry_is_harmless(c->method, c->upgrade, c->sent))
        return RETRY_ANSWER;
    /* A pool that is full, a server that hangs, cannot be reached or talks nonsense is no better a moment later. */
    if (c->why == BACK_FAIL_UNANSWERED && !c->upgrade && !c->hangs && c->repeated < RETRY_MAX_HERE)
        return RETRY_HERE;
    return c->others ? RETRY_ELSEWHERE : RETRY_ANSWER;
}

bool retry_server_is_lost(enum back_failure why)
{
    return why == BACK_FAIL_CONNECT || why == BACK_FAIL_LOOP || why == BACK_FAIL_UNANSWERED;
}

bool retry_is_of_client(enum back_failure why)
{
    return why == BACK_FAIL_CLIENT || why == BACK_FAIL_MEMORY;
}

bool retry_is_harmless(enum http_method method, bool upgrade, bool sent)
{
    return !sent || (http_method_is_safe(method) && !upgrade);
}
