/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that move much take turns. A turn of the loop that reads 64 KB of each of a hundred streams, encrypts and
 * sends it, takes ten milliseconds, and whoever asks for little waits for two of them. So a stream on which much has
 * come is read and written in the part of the turn that such streams share (loop_bulk()), one after the other; those of
 * one client address have the turns of one, where the front says so. While turns are long so are all streams of whom
 * nobody knows: a thousand little things of theirs make a turn as long.
 */
#include "net/stream_bulk.h"

#include "base/contract.h"
#include "net/stream_out.h"

enum {
    MUCH_BYTES = 16 << 10,  /* at one look: not the only one of this message, as likely as not */
    LITTLE_BYTES = 2 << 10, /* the stream has become an interactive one, or its end has come */
};

static void set_held(struct stream *s, bool held)
{
    if (s->held == held)
        return;
    s->held = held;
    if (s->reading)
        s->ops->set_reading(s, !held);
}

static void bulk_work(void *arg)
{
    struct stream *s = arg;
    unsigned due = s->due;

    must_hold(s->state != STREAM_CLOSED);
    s->due = 0;
    set_held(s, false);
    if (due & STREAM_DUE_SEND) {
        s->send_blocked = false;
        stream_flush(s);
    }
    if (due & STREAM_DUE_READ && stream_wants_input(s))
        s->ops->read_now(s);
    stream_deliver(s);
}

void stream_bulk_init(struct stream *s)
{
    lifetime_work_init(&s->life, &s->bulk_work, LOOP_BULK, bulk_work, s);
}

void stream_mark_known(struct stream *s)
{
    s->turns.known = true;
}

struct loop_turns *stream_share_turns(struct stream *s)
{
    if (s->remote_ip[0] == '\0')
        return NULL;
    s->turns = (struct loop_turns){.of = slice_str(s->remote_ip)};
    lifetime_work_share(&s->bulk_work, &s->turns);
    return &s->turns;
}

static bool is_of_stranger(const struct stream *s)
{
    return s->bulk_work.node.turns != NULL && !s->turns.known;
}

bool stream_read_later(struct stream *s)
{
    if (!s->bulk && !(is_of_stranger(s) && loop_is_strained(s->loop)))
        return false;
    stream_in_turn(s, STREAM_DUE_READ);
    set_held(s, true);
    return true;
}

void stream_received(struct stream *s, size_t n)
{
    if (n >= MUCH_BYTES)
        s->bulk = true;
    else if (n < LITTLE_BYTES)
        s->bulk = false;
}

void stream_take_turns_of(struct stream *s, uint64_t whom, bool known)
{
    s->whom = whom;
    s->turns = (struct loop_turns){slice_of((const char *)&s->whom, sizeof(s->whom)), known};
    lifetime_work_share(&s->bulk_work, whom != 0 ? &s->turns : NULL);
}

/* While turns are long who moved much before is taken to do so again: it is such messages that make them long. */
void stream_begin_message(struct stream *s)
{
    if (!s->crumbs && !loop_is_strained(s->loop))
        s->bulk = false;
}
