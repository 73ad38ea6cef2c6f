/* SPDX-License-Identifier: Apache-2.0 */
/* A proxy's answer to CONNECT: the same verdict however it is cut, and nothing of it that a terminal could mind. */
#include "base/limits.h"
#include "fuzz/fuzz.h"
#include "net/connect_head.h"

static enum connect_verdict feed(struct connect_head *h, struct slice in, bool whole, size_t *used)
{
    enum connect_verdict v = CONNECT_UNDECIDED;
    unsigned state = 1;
    size_t n;

    *h = (struct connect_head){0};
    for (*used = 0; *used < in.n && v == CONNECT_UNDECIDED; *used += n) {
        size_t piece = whole ? in.n : fuzz_piece(&state, in.n - *used);

        v = connect_head_feed(h, slice_of(in.p + *used, piece), &n);
        must_hold(n > 0 && n <= piece);
    }
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    struct connect_head a, b;
    size_t used, used_again;
    enum connect_verdict v = feed(&a, in, true, &used);
    char text[256], again[256];

    must_hold(feed(&b, in, false, &used_again) == v && used == used_again);
    must_hold(used <= LIMIT_CONNECT_HEAD_BYTES + 1);
    must_hold(v != CONNECT_UNDECIDED || used == size);
    if (v == CONNECT_GRANTED) {
        must_hold(used >= 16 && memcmp(data, "HTTP/1.", 7) == 0 && memcmp(data + 8, " 200", 4) == 0);
        must_hold(memcmp(data + used - 4, "\r\n\r\n", 4) == 0);
    }
    if (v == CONNECT_REFUSED) {
        connect_head_failure(&a, text, sizeof(text));
        connect_head_failure(&b, again, sizeof(again));
        must_hold(strcmp(text, again) == 0 && text[0] != '\0');
        for (const char *p = text; *p != '\0'; p++)
            must_hold(*p >= ' ' && *p < 0x7f);
    }
    return 0;
}
