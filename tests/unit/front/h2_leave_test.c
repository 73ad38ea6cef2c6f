/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an HTTP/2 connection whose client takes the rest slowly: each event that can come second. */
#include "unit/front/h2_kit.h"

#include <unistd.h>

#include "lib/tap.h"

/*
 * The client has said goodbye, takes the rest slowly, and leaves: its end is read in the very turn in which the timer
 * that looks after the rest is due. What closes the connection first must be what frees it, whoever comes second:
 * however much of the rest is still with us, with the kernels, or with the client.
 */
static void leave_when_timer_is_due(struct kit *k, uint64_t total)
{
    enum { LONGER_THAN_A_LOOK_US = 110 * 1000 };
    struct held *h = &k->held[k->n_held];
    uint64_t given = 0;

    kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, KIT_LARGE);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, kit_get(k, "/x")->id, KIT_LARGE);
    kit_held(k, k->n_held + 1);
    nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    kit_flush(k);
    kit_settle(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    exchange_respond(h->x, kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (unsigned turns_in_vain = 0; given < total && turns_in_vain < 20; turns_in_vain++) {
        uint64_t before = given;

        given = kit_pump(h, given, total);
        if (given > before)
            turns_in_vain = 0;
        loop_run_once(k->w.loop, 1);
    }
    exchange_finish(h->x, NULL);
    kit_settle(k);
    stream_finish_writing(k->s); /* close_notify leaves when the next turn begins */
    usleep(LONGER_THAN_A_LOOK_US);
    kit_settle(k);
    stream_close(k->s, STREAM_CLOSE_ABORT);
    k->s = NULL;
    kit_disconnect(k);
    ok(world_empty(&k->w), "%u KB: the end of the stream and the timer in one turn", (unsigned)(total >> 10));
}

/* From less to more than the kernels take, in steps smaller than what a stream holds. */
static void test_leaves_when_timer_is_due(struct kit *k)
{
    for (uint64_t total = 3 << 20; total < 5 << 20; total += 100 << 10)
        leave_when_timer_is_due(k, total);
}

static const struct kit_story stories[] = {
    {"leaves when the timer is due", test_leaves_when_timer_is_due},
};

int main(int argc, char **argv)
{
    kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    return tap_end();
}
