/* SPDX-License-Identifier: Apache-2.0 */
#include "back/loop_token.h"

#include <stdio.h>

#include "back/origin.h"
#include "base/log.h"
#include "base/random.h"

enum { LOOP_DETECTED = 508 };

void loop_token_make(struct back *b)
{
    (void)snprintf(b->loop_token, sizeof(b->loop_token), "%016llx%016llx", (unsigned long long)random_u64(),
                   (unsigned long long)random_u64());
}

/* Of other groups kube-apiserver hands on what is asked, to the API server that an APIService names. */
static bool may_be_handed_on(struct slice target)
{
    return slice_has_prefix(target, SLICE_LIT("/openapi/")) ||
           (slice_has_prefix(target, SLICE_LIT("/apis/")) &&
            !slice_has_prefix(target, SLICE_LIT("/apis/coordination.k8s.io/")));
}

const char *loop_token_of(const struct origin *o, struct slice target)
{
    return o->opts.last && o->back != NULL && !may_be_handed_on(target) ? o->back->loop_token : "";
}

/* In a time that tells nothing of how much of it is right. */
static bool is_ours(const struct origin *o, struct slice value)
{
    unsigned char differs = 0;

    if (o->back == NULL || value.n != ORIGIN_TOKEN_BYTES)
        return false;
    for (size_t i = 0; i < ORIGIN_TOKEN_BYTES; i++)
        differs |= (unsigned char)(value.p[i] ^ o->back->loop_token[i]);
    return differs == 0;
}

static void comes_back(struct origin *o)
{
    if (!o->came_back)
        origin_say_loop(o);
    o->came_back = true;
    o->came_back_ms = loop_now_ms(o->back->loop);
    o->back->close_idle(o); /* what is between may send the next connection elsewhere */
}

bool loop_token_came_back(struct origin *o, struct slice value)
{
    if (!is_ours(o, value))
        return false;
    comes_back(o);
    return true;
}

bool loop_token_refuses(const struct origin *o, bool own)
{
    return o->came_back && !own;
}

void loop_token_answered(struct origin *o, unsigned status)
{
    if (!o->opts.last || o->back == NULL)
        return;
    if (status == LOOP_DETECTED) {
        comes_back(o);
        return;
    }
    if (!o->came_back || loop_now_ms(o->back->loop) - o->came_back_ms < LOOP_TOKEN_QUIET_MS)
        return;
    o->came_back = false;
    log_info("Server can be reached again", LT("server", o->server), LT("address", o->address));
}
