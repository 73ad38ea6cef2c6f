/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes from where somebody was let in is known, and nobody else. */
#include <unistd.h>

#include "lib/tap.h"
#include "unit/front/kit.h"

static unsigned marked;

void __real_stream_mark_known(struct stream *s);
void __wrap_stream_mark_known(struct stream *s);
void __wrap_stream_mark_known(struct stream *s)
{
    marked++;
    __real_stream_mark_known(s);
}

static void ask(struct front_kit *k, struct front_client *c, bool vouched)
{
    unsigned handled = k->handled;

    client_ask(c, "/held");
    (void)front_kit_handled(k, handled + 1);
    if (vouched)
        exchange_vouch(k->x);
    respond_whole(k, 200, "done");
    (void)client_ends_in(c, "done");
    (void)client_take(c);
}

static void test_known(struct front_kit *k)
{
    struct front_client c[3];
    int other;

    marked = 0;
    front_kit_start(k);
    client_open(k, &c[0]);
    ask(k, &c[0], false);
    client_open(k, &c[1]);
    is_u64(marked, 0, "for whom nobody has vouched is not known, nor are others of his address");
    ask(k, &c[1], true);
    client_open(k, &c[2]);
    is_u64(marked, 1, "who comes from the address of one who was let in is");
    other = client_raw_from(k, 9);
    front_kit_settle(k);
    is_u64(front_connections(k->front), 4, "another one comes from elsewhere");
    is_u64(marked, 1, "who is not");
    close(other);
    for (size_t i = 0; i < ROWS(c); i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static const struct front_kit_story stories[] = {
    {"known", test_known},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
