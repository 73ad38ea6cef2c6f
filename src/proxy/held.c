/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/held.h"

#include "kube/status.h"

bool held_is_too_long(struct http_body body)
{
    return body.kind == HTTP_BODY_LENGTH && body.length > LIMIT_DENIAL_BODY;
}

void held_start(struct job *j, const struct http_head *head, struct http_body body)
{
    j->held = arena_alloc(exchange_arena(j->x), sizeof(*j->held));
    if (j->held == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->held->head = head;
    j->held->body = body;
    j->held->n = 0;
}

bool held_add(struct held *h, struct slice data)
{
    if (h == NULL || data.n > LIMIT_DENIAL_BODY - h->n)
        return false;
    memcpy(h->text + h->n, data.p, data.n);
    h->n += data.n;
    return true;
}

struct slice held_bytes(const struct held *h)
{
    return slice_of(h->text, h->n);
}

enum denial held_says(const struct held *h)
{
    return denial_by_body(h->head->status, held_bytes(h));
}
