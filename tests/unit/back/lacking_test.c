/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single steps on the way to a server that find no memory, or say no: a request fails and is told why, the next one is
 * served.
 */
#include <stdio.h>

#include "back/request.h"
#include "unit/back/kit.h"

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

/* ---- steps that fail ---- */

static unsigned adds, add_fails_at; /* fields of heads; the second: 0: none */
static const char *in_debt;         /* no connection is made for this client */

bool __real_http_head_add(struct http_head *h, struct arena *a, struct slice name, struct slice value);
bool __wrap_http_head_add(struct http_head *h, struct arena *a, struct slice name, struct slice value);
bool __real_http_head_add_id(struct http_head *h, struct arena *a, enum http_name id, struct slice value);
bool __wrap_http_head_add_id(struct http_head *h, struct arena *a, enum http_name id, struct slice value);
bool __real_request_may_dial(struct back_request *r);
bool __wrap_request_may_dial(struct back_request *r);

bool __wrap_http_head_add(struct http_head *h, struct arena *a, struct slice name, struct slice value)
{
    return ++adds != add_fails_at && __real_http_head_add(h, a, name, value);
}

bool __wrap_http_head_add_id(struct http_head *h, struct arena *a, enum http_name id, struct slice value)
{
    return ++adds != add_fails_at && __real_http_head_add_id(h, a, id, value);
}

bool __wrap_request_may_dial(struct back_request *r)
{
    return (in_debt == NULL || strcmp(r->opts.client, in_debt) != 0) && __real_request_may_dial(r);
}

/* ---- what we ask ourselves ---- */

/* True: whole. */
static bool fetch_it(struct back_kit *k, unsigned nth)
{
    static const struct http_field fields[] = {{SLICE_LIT("Accept"), SLICE_LIT("x/y"), HTTP_ACCEPT},
                                               {SLICE_LIT("X-More"), SLICE_LIT("more"), HTTP_NAME_OTHER}};
    struct fetch_opts o = {.origin = k->origin,
                           .method = SLICE_LIT("GET"),
                           .target = SLICE_LIT("/readyz"),
                           .fields = fields,
                           .n_fields = 2,
                           .ceiling = 1000,
                           .timeout_ms = 10000};
    struct back_kit_fetched g = {0};
    bool started;

    adds = 0;
    add_fails_at = nth;
    started = fetch_start(k->back, k->loop, &o, back_kit_fetched, &g) != NULL;
    add_fails_at = 0;
    if (started)
        ok(run_until(k->loop, g.calls > 0), "field %u: over", nth);
    if (g.ok)
        is_str(g.said, "hello", "whole");
    settle(k->loop);
    return g.ok;
}

static void fields(void)
{
    static struct back_kit k;
    unsigned nth, failed = 0, all;

    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.last = true});
    k.auto_reply = OK_ANSWER;
    ok(fetch_it(&k, 0), "with all fields");
    all = adds;
    ok(all >= 5, "there are %u", all);
    for (nth = 1; nth <= all; nth++)
        failed += !fetch_it(&k, nth);
    is_u64(failed, all, "without one there is no question");
    ok(fetch_it(&k, 0), "the next one is answered");
    for (size_t i = 0; i < k.n_conns; i++)
        ok(!buf_has(&k.conns[i].got, "GET") || buf_has(&k.conns[i].got, "X-More: more\r\n"), "none went out in part");
    back_kit_close(&k);
}

/* ---- who wastes connections ---- */

static void in_debt_still(void)
{
    static struct back_kit k;
    struct call held, other;

    back_kit_open(&k, false, 0);
    k.auto_reply = OK_ANSWER;
    in_debt = "10.0.0.1";
    call_init(&held, &k, "GET", "/held");
    held.opts.client = "10.0.0.1";
    call_send(&held);
    for (int i = 0; i < 40; i++)
        loop_run_once(k.loop, 10);
    is_u64(k.n_conns, 0, "no connection is made, however often it is looked");
    ok(held.r != NULL, "and the request waits");
    call_init(&other, &k, "POST", "/other");
    other.opts.client = "10.0.0.2";
    call_send(&other);
    ok(call_is(&other, "head(200) end"), "another client's is answered");
    in_debt = NULL;
    ok(call_is(&held, "head(200) end"), "and this one's when its client is out of debt");
    call_free(&held);
    call_free(&other);
    back_kit_close(&k);
}

int main(void)
{
    fields();
    in_debt_still();
    return tap_end();
}
