/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_state.h"

#include "base/log.h"
#include "base/state.h"

static const char *const state_names[] = {
    [H2_SERVING] = "serving", [H2_ANNOUNCED] = "announced", [H2_LEAVING] = "leaving",
    [H2_PARTED] = "parted",   [H2_FAILING] = "failing",     [H2_CLOSED] = "closed",
};
static const uint32_t state_next[] = {
    [H2_SERVING] = STATE(H2_ANNOUNCED) | STATE(H2_PARTED) | STATE(H2_FAILING) | STATE(H2_CLOSED),
    [H2_ANNOUNCED] = STATE(H2_LEAVING) | STATE(H2_PARTED) | STATE(H2_FAILING) | STATE(H2_CLOSED),
    [H2_LEAVING] = STATE(H2_PARTED) | STATE(H2_FAILING) | STATE(H2_CLOSED),
    [H2_PARTED] = STATE(H2_FAILING) | STATE(H2_CLOSED),
    [H2_FAILING] = STATE(H2_CLOSED),
    [H2_CLOSED] = 0,
};
static const struct state_table states = STATE_TABLE("HTTP/2 connection", state_names, state_next);

void h2_conn_move(struct h2_conn *c, enum h2_state to)
{
    state_move(&states, &c->state, to);
}

void h2_conn_wake(struct h2_conn *c)
{
    if (c->state != H2_CLOSED)
        lifetime_queue(&c->work);
}

void h2_conn_expect(struct h2_conn *c)
{
    if (c->n_bodies + c->n_waiting == 0)
        c->stall_due_ms = loop_now_ms(c->fc->host->loop) + c->fc->limits.body_timeout_ms;
}

void h2_conn_fail(struct h2_conn *c, uint32_t code, enum front_close reason)
{
    if (c->state == H2_FAILING || c->state == H2_CLOSED)
        return;
    if (code != NGHTTP2_NO_ERROR)
        log_v(3, "HTTP/2 connection refused", LU("connection", c->fc->id), LT("client", stream_remote_text(c->stream)),
              LT("reason", front_close_name(reason)));
    c->close_reason = reason;
    h2_conn_move(c, H2_FAILING);
    c->failed_ms = loop_now_ms(c->fc->host->loop);
    if (nghttp2_session_terminate_session(c->session, code) != 0)
        c->no_memory = true;
    h2_conn_wake(c);
}

bool h2_conn_write(struct h2_conn *c, struct slice data)
{
    c->unwritable = c->unwritable || !stream_write(c->stream, data);
    c->written_ms = loop_now_ms(c->fc->host->loop);
    if (!c->unwritable)
        front_stats_sent(c->fc->host->stats, data.n);
    return !c->unwritable;
}
