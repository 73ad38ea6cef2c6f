/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/refuse.h"

#include "kube/status.h"
#include "proxy/rewrite.h"

enum { REFUSE_BODY_CEILING = 4096 };

/* What took too long (504) takes as long again, and is as much work again: client-go would repeat it ten times. */
static bool retry_helps(unsigned code)
{
    return code == 429 || code == 503;
}

static bool make_head(struct http_head *h, struct arena *a, const struct status *s, struct slice audit_id,
                      bool try_another)
{
    struct slice seconds;
    bool good;

    if (!http_head_init(h, a, 8))
        return false;
    h->status = s->code;
    h->reason = http_reason(s->code);
    good = http_head_add_id(h, a, HTTP_CACHE_CONTROL, SLICE_LIT("no-cache, private")) &&
           http_head_add_id(h, a, HTTP_CONTENT_TYPE, SLICE_LIT(STATUS_CONTENT_TYPE)) &&
           (audit_id.n == 0 || http_head_add_id(h, a, HTTP_AUDIT_ID, audit_id)) &&
           (!try_another || http_head_add(h, a, SLICE_LIT(REWRITE_TRY_ANOTHER), SLICE_LIT("true")));
    if (!good || s->retry_after == 0)
        return good;
    seconds = arena_printf(a, "%u", s->retry_after);
    return seconds.p != NULL && http_head_add_id(h, a, HTTP_RETRY_AFTER, seconds);
}

void own_answer_make(struct own_answer *r, struct exchange *x, unsigned status, const char *message,
                     struct slice audit_id, unsigned flags)
{
    struct status s = {.code = status_code(status), .message = slice_str(message)};

    s.retry_after = (flags & REFUSE_AGAIN) != 0 && retry_helps(s.code) ? STATUS_RETRY_AFTER : 0;
    buf_init(&r->body, REFUSE_BODY_CEILING);
    r->whole =
        make_head(&r->head, exchange_arena(x), &s, audit_id, s.code == 503 && (flags & REFUSE_TRY_ANOTHER) != 0) &&
        status_print(&s, &r->body);
}

void own_answer_send(struct own_answer *r, struct exchange *x)
{
    if (r->whole)
        exchange_reply(x, &r->head, buf_slice(&r->body));
    else
        exchange_abort(x, "out of memory");
    buf_free(&r->body);
}

void refuse_exchange(struct exchange *x, unsigned status, const char *message, struct slice audit_id, unsigned flags)
{
    struct own_answer r;

    own_answer_make(&r, x, status, message, audit_id, flags);
    own_answer_send(&r, x);
}
