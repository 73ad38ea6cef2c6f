/* SPDX-License-Identifier: Apache-2.0 */
/* Of back.h what simulated servers have no part in: budgets, loops, numbers that are only shown. */
#include <stdlib.h>

#include "back/back.h"
#include "back/loop_token.h"

const char *loop_token_of(const struct origin *o, struct slice target)
{
    (void)o;
    (void)target;
    return "";
}

bool loop_token_came_back(struct origin *o, struct slice value)
{
    (void)o;
    (void)value;
    return false;
}

size_t origin_in_flight(const struct origin *o)
{
    (void)o;
    return 0;
}

size_t origin_clients_in_flight(const struct origin *o)
{
    (void)o;
    return 0;
}

/* Whoever wants to repeat may. */
bool origin_may_repeat(const struct origin *o, bool stranger)
{
    return o != NULL || stranger;
}

void origin_note_repeat(struct origin *o, bool stranger)
{
    (void)o;
    (void)stranger;
}

void origin_note_refused_repeat(struct origin *o)
{
    (void)o;
}

bool back_write(struct back_request *r, struct slice data)
{
    (void)r;
    (void)data;
    abort();
}

void back_finish(struct back_request *r, const struct http_head *trailers)
{
    (void)r;
    (void)trailers;
    abort();
}

bool back_congested(const struct back_request *r)
{
    (void)r;
    return false;
}
