/* SPDX-License-Identifier: Apache-2.0 */
#include "front/exchange_conn.h"

#include "base/churn.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/state.h"
#include "front/clients.h"
#include "front/memory.h"
#include "front/vouched.h"
#include "net/loop.h"

static const char *const phase_names[] = {
    [EXCHANGE_UNUSED] = "unused", [EXCHANGE_ASKED] = "asked", [EXCHANGE_ANSWERING] = "answering",
    [EXCHANGE_DOOMED] = "doomed", [EXCHANGE_OVER] = "over",
};
static const uint32_t phase_next[] = {
    [EXCHANGE_UNUSED] = STATE(EXCHANGE_ASKED),
    [EXCHANGE_ASKED] = STATE(EXCHANGE_ANSWERING) | STATE(EXCHANGE_DOOMED) | STATE(EXCHANGE_OVER),
    [EXCHANGE_ANSWERING] = STATE(EXCHANGE_DOOMED) | STATE(EXCHANGE_OVER),
    [EXCHANGE_DOOMED] = STATE(EXCHANGE_OVER),
    [EXCHANGE_OVER] = STATE(EXCHANGE_ASKED), /* the next request of an HTTP/1.1 connection */
};
static const struct state_table phases = STATE_TABLE("exchange", phase_names, phase_next);

/* The only place where the phase changes; keeps the count of requests in flight. */
static void move(struct exchange *x, enum exchange_phase to)
{
    bool held = exchange_held(x);

    state_move(&phases, &x->phase, to);
    if (held && !exchange_held(x))
        front_stats_request_end(x->stats);
    else if (!held && exchange_held(x))
        front_stats_request_begin(x->stats);
}

static bool open_for_response(const struct exchange *x)
{
    return x->phase == EXCHANGE_ASKED || x->phase == EXCHANGE_ANSWERING;
}

static bool doom(struct exchange *x, const char *reason)
{
    if (!open_for_response(x))
        return false;
    x->doom_reason = reason;
    move(x, EXCHANGE_DOOMED);
    x->ops->doomed(x);
    return false;
}

/* ---- requests that are given up ---- */

/*
 * Each makes work for servers, and nothing holds its place there any more: so they can be had by the thousand in a
 * second. Not what was asked for long ago: there cannot be more of that, in the long run, than is under way at once.
 */
static bool is_soon(const struct exchange *x)
{
    return clock_us() - x->started_us < (uint64_t)TIMEOUT_SOON_MS * 1000;
}

/* It is over. */
static void account_for(struct exchange *x, bool given_up)
{
    uint64_t now = clock_us() / 1000;

    if (x->clients == NULL || x->account == 0 || !is_soon(x))
        return;
    if (given_up)
        front_stats_given_up(x->stats);
    if (given_up && !x->charged)
        churn_charge(clients_given_up(x->clients), x->account, now);
    else if (!given_up && x->charged)
        churn_refund(clients_given_up(x->clients), x->account, now);
}

/* Who has been beyond his budget is charged when he asks: else he could give up at once all that he asks for as soon as
 * there is room for one. */
bool exchange_may_ask(struct exchange *x, uint64_t account)
{
    uint64_t now = x->started_us / 1000;
    struct churn *given_up;

    x->account = account;
    if (x->clients == NULL || account == 0)
        return true;
    given_up = clients_given_up(x->clients);
    if (!churn_allows(given_up, account, now)) {
        front_stats_given_up_refused(x->stats);
        return false;
    }
    x->charged = churn_strained(given_up, account, now);
    if (x->charged)
        churn_charge(given_up, account, now);
    return true;
}

/* ---- the connection's face ---- */

void exchange_begin(struct exchange *x)
{
    x->sink = NULL;
    x->sink_arg = NULL;
    x->started_us = x->awaited_us = clock_us();
    x->awaited_bytes = 0;
    x->request_bytes = x->response_bytes = 0;
    x->answer = (struct http_body){HTTP_BODY_NONE, 0};
    x->bodyless = x->sent_away = false;
    x->doom_reason = NULL;
    x->behind = x->account = 0;
    x->charged = false;
    move(x, EXCHANGE_ASKED);
}

bool exchange_held(const struct exchange *x)
{
    return x->phase == EXCHANGE_ASKED || x->phase == EXCHANGE_ANSWERING || x->phase == EXCHANGE_DOOMED;
}

bool exchange_taken(const struct exchange *x)
{
    return x->sink != NULL || !exchange_held(x);
}

void exchange_await_body(struct exchange *x)
{
    x->awaited_us = clock_us();
    x->awaited_bytes = x->request_bytes;
}

bool exchange_is_slow(const struct exchange *x, uint64_t for_ms, bool indulged)
{
    uint64_t ms = (clock_us() - x->awaited_us) / 1000;

    return ms >= for_ms && (!indulged || x->request_bytes - x->awaited_bytes < ms / 1000 * LIMIT_SLOW_BODY_RATE);
}

void exchange_give_body(struct exchange *x, struct slice data)
{
    if (x->expects_continue && x->request_bytes == 0)
        exchange_await_body(x);
    x->request_bytes += data.n;
    if (open_for_response(x) && x->sink != NULL)
        x->sink->on_body(x->sink_arg, data);
}

void exchange_give_end(struct exchange *x, const struct http_head *trailers)
{
    if (open_for_response(x) && x->sink != NULL)
        x->sink->on_body_end(x->sink_arg, trailers);
}

void exchange_give_writable(struct exchange *x)
{
    if (open_for_response(x) && x->sink != NULL)
        x->sink->on_writable(x->sink_arg);
}

void exchange_give_gone(struct exchange *x, const char *reason)
{
    if (!exchange_held(x))
        return;
    move(x, EXCHANGE_OVER);
    account_for(x, true);
    if (x->sink != NULL)
        x->sink->on_gone(x->sink_arg, reason);
    exchange_forget_request(x);
}

/* ---- the proxy's face ---- */

const struct http_head *exchange_request(const struct exchange *x)
{
    return &x->request;
}

struct http_body exchange_request_body(const struct exchange *x)
{
    return x->request_body;
}

bool exchange_expects_continue(const struct exchange *x)
{
    return x->expects_continue;
}

bool exchange_wants_upgrade(const struct exchange *x)
{
    return x->wants_upgrade;
}

const struct exchange_client *exchange_client(const struct exchange *x)
{
    return &x->client;
}

struct arena *exchange_request_arena(struct exchange *x)
{
    return x->request_arena;
}

void exchange_forget_request(struct exchange *x)
{
    x->request.fields = NULL;
    x->request.n_fields = x->request.cap_fields = 0;
    if (x->request_arena != NULL)
        arena_pool_give(x->arenas, x->request_arena);
    x->request_arena = NULL;
}

struct arena *exchange_arena(struct exchange *x)
{
    return x->arena;
}

uint64_t exchange_started_us(const struct exchange *x)
{
    return x->started_us;
}

uint64_t exchange_response_bytes(const struct exchange *x)
{
    return x->response_bytes;
}

uint64_t exchange_request_bytes(const struct exchange *x)
{
    return x->request_bytes;
}

struct quota *exchange_quota(const struct exchange *x)
{
    return x->quota;
}

bool exchange_responded(const struct exchange *x)
{
    return x->phase == EXCHANGE_ANSWERING;
}

void exchange_attach(struct exchange *x, const struct exchange_sink *sink, void *arg)
{
    must_hold(exchange_held(x) && x->sink == NULL); /* one hears of its end, and only before that */
    x->sink = sink;
    x->sink_arg = arg;
}

void exchange_pause_body(struct exchange *x)
{
    if (exchange_held(x))
        x->ops->pause(x);
}

void exchange_resume_body(struct exchange *x)
{
    if (exchange_held(x))
        x->ops->resume(x);
}

bool exchange_interim(struct exchange *x, const struct http_head *head)
{
    if (x->phase != EXCHANGE_ASKED)
        return false;
    if (head->status < 100 || head->status > 199 || head->status == 101)
        return doom(x, "impossible interim response");
    if (head->status == 100)
        exchange_await_body(x);
    return x->ops->interim(x, head) || doom(x, "client cannot be written to");
}

/* RFC 9110 6.4.1, 15.3.5, 15.4.5: what has no content whatever the fields say. */
static void settle_answer(struct exchange *x, unsigned status, struct http_body body)
{
    x->bodyless = x->request.method_id == HTTP_HEAD || status == 204 || status == 304;
    x->answer = body;
    if (body.kind == HTTP_BODY_CLOSE)
        x->answer.kind = HTTP_BODY_CHUNKED;
    if (status == 204)
        x->answer.kind = HTTP_BODY_NONE;
    /* Nothing announced and nothing forbidden: an empty body, said so. */
    if (x->answer.kind == HTTP_BODY_NONE && !x->bodyless)
        x->answer = (struct http_body){HTTP_BODY_LENGTH, 0};
}

bool exchange_respond(struct exchange *x, const struct http_head *head, struct http_body body)
{
    if (x->phase != EXCHANGE_ASKED)
        return doom(x, "second response to one request");
    if (head->status < 200 || head->status > 999)
        return doom(x, "impossible response status");
    settle_answer(x, head->status, body);
    move(x, EXCHANGE_ANSWERING);
    return x->ops->respond(x, head) || doom(x, "client cannot be written to");
}

bool exchange_body(struct exchange *x, struct slice data)
{
    if (x->phase != EXCHANGE_ANSWERING)
        return doom(x, "response body before its head");
    if (data.n == 0)
        return true;
    if (x->bodyless)
        return doom(x, "body on a response that has none");
    if (x->answer.kind == HTTP_BODY_LENGTH && data.n > x->answer.length - x->response_bytes)
        return doom(x, "response longer than announced");
    x->response_bytes += data.n;
    return x->ops->body(x, data) || doom(x, "client cannot be written to");
}

void exchange_send_away(struct exchange *x)
{
    x->sent_away = true;
}

void exchange_of_peer(struct exchange *x)
{
    x->of_peer = true;
}

void exchange_vouch(struct exchange *x)
{
    if (x->turns == NULL || x->turns->known)
        return;
    x->turns->known = true;
    if (x->clients != NULL)
        vouched_add(clients_vouched(x->clients), slice_str(x->client.ip), x->started_us / 1000);
}

bool exchange_for_client(struct exchange *x, struct slice address)
{
    x->behind = hash_seeded(address) | 1;
    return x->heads == NULL || x->request_arena == NULL ||
           arena_charge(x->request_arena, memory_heads_of(x->heads, x->behind));
}

bool exchange_congested(const struct exchange *x)
{
    return open_for_response(x) && x->ops->congested(x);
}

/* An answer may wait for the client to take it for as long as that likes: the request has not to wait with it. */
static void end(struct exchange *x)
{
    move(x, EXCHANGE_OVER);
    account_for(x, false);
    exchange_forget_request(x);
}

void exchange_abort(struct exchange *x, const char *reason)
{
    if (!exchange_held(x))
        return;
    end(x);
    x->ops->abort(x, reason);
}

void exchange_finish(struct exchange *x, const struct http_head *trailers)
{
    if (x->phase == EXCHANGE_DOOMED) {
        exchange_abort(x, x->doom_reason);
    } else if (x->phase != EXCHANGE_ANSWERING) {
        exchange_abort(x, "response finished before its head");
    } else if (!x->bodyless && x->answer.kind == HTTP_BODY_LENGTH && x->response_bytes != x->answer.length) {
        exchange_abort(x, "response shorter than announced");
    } else {
        end(x);
        x->ops->finish(x, trailers);
    }
}

void exchange_reply(struct exchange *x, const struct http_head *head, struct slice body)
{
    struct http_body how = {HTTP_BODY_LENGTH, body.n};

    /* The length on a 304 would be that of the 200 it stands for, which nobody told us. */
    if (head->status == 304)
        how.kind = HTTP_BODY_NONE;
    if (exchange_respond(x, head, how) && !x->bodyless)
        exchange_body(x, body);
    exchange_finish(x, NULL);
}

struct stream *exchange_upgrade(struct exchange *x, const struct http_head *head)
{
    if (x->phase != EXCHANGE_ASKED || !x->wants_upgrade || head->status != 101) {
        exchange_abort(x, x->phase == EXCHANGE_DOOMED ? x->doom_reason : "impossible upgrade");
        return NULL;
    }
    end(x);
    return x->ops->upgrade(x, head);
}
