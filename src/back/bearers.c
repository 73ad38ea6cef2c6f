/* SPDX-License-Identifier: Apache-2.0 */
#include "back/bearers.h"

#include "base/hash.h"
#include "http/credential.h"
#include "net/loop.h"

/* So long who shows a token that was taken is no stranger: not by one server's 401, which may not know it, nor by 503.
 * The second: so long his requests count where it pages (request_metrics.h), for in an outage no server takes any. */
enum { KNOWN_MS = 600000, TAKEN_MS = 86400000 };

/* A value that is no token is as good as none: its 403 is that of nobody. In whatever words one shows the same token,
 * it is one: else anybody who has one could have us make a connection for each. */
struct slice bearer_of(const struct http_head *head)
{
    struct slice found = SLICE_NONE;
    size_t n = 0;

    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id != HTTP_AUTHORIZATION)
            continue;
        found = head->fields[i].value;
        n++;
    }
    return n == 1 ? credential_token(found) : SLICE_NONE;
}

bool bearer_is_shared(const struct back_request *r)
{
    return r->opts.http2 == BACK_HTTP2_SHARED && r->opts.with_cert;
}

/*
 * A connection for a token is made only after some server has taken that token: else anybody could have us make one for
 * each of his requests, with a new invented token every time. That it was taken is shown by success or 403: errors may
 * come before anybody looks at the token (of kube-apiserver 400 for a bad timeout, 429 and 503 while it stops). A slot
 * is a token's seeded hash; two tokens that share one take turns over HTTP/1.1.
 */
struct bearer *bearer_slot(const struct back_request *r)
{
    return &r->back->bearers[r->bearer % LIMIT_ACCEPTED_BEARERS];
}

bool bearer_may_connect(const struct back_request *r)
{
    return bearer_is_shared(r) || bearer_slot(r)->accepted == r->bearer;
}

static bool was_taken_within(const struct back *b, uint64_t hash, uint64_t ms)
{
    const struct bearer *slot = &b->bearers[hash % LIMIT_ACCEPTED_BEARERS];

    return hash != 0 && slot->known == hash && loop_now_ms(b->loop) - slot->known_ms < ms;
}

uint64_t bearer_hash(const struct http_head *head)
{
    struct slice bearer = bearer_of(head);

    return bearer.n == 0 ? 0 : hash_seeded(bearer);
}

bool bearer_is_stranger(const struct back *b, const struct http_head *head)
{
    return !was_taken_within(b, bearer_hash(head), KNOWN_MS);
}

bool bearer_was_taken(const struct back *b, uint64_t hash)
{
    return was_taken_within(b, hash, TAKEN_MS);
}

bool bearer_answered(struct back_request *r)
{
    struct bearer *slot = bearer_slot(r);
    bool stranger = r->stranger;

    if (r->bearer == 0)
        return false;
    if (r->response.status < 300 || r->response.status == 403) {
        slot->accepted = slot->known = r->bearer;
        slot->known_ms = loop_now_ms(r->back->loop);
        r->stranger = false;
    } else if (slot->accepted == r->bearer) {
        slot->accepted = 0;
    }
    return stranger && !r->stranger;
}

void bearer_count(struct back_request *r, struct h2_load *of_all)
{
    r->stranger = !r->opts.own && !r->opts.with_cert;
    if (r->opts.http2 == BACK_HTTP1)
        return;
    /* What a CORS filter answers to OPTIONS, it answers before anybody looks at the token. */
    if (!bearer_is_shared(r) && r->opts.head->method_id != HTTP_OPTIONS)
        r->bearer = bearer_hash(r->opts.head);
    if (was_taken_within(r->back, r->bearer, KNOWN_MS))
        r->stranger = false;
    if (r->opts.lasting || (r->bearer == 0 && !bearer_is_shared(r)))
        return;
    r->load = bearer_is_shared(r) ? of_all : &bearer_slot(r)->load;
    h2_load_begin(r->load);
}
