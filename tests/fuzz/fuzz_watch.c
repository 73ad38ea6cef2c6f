/* SPDX-License-Identifier: Apache-2.0 */
/* Watch streams: any pieces must give the events that the whole gives, and lines over the limit only themselves. */
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "kube/watch.h"

enum { LINE_LIMIT = 600 };

/* A digest of everything reported, order included. */
static uint64_t mix(uint64_t sum, struct slice s)
{
    static const unsigned char key[HASH_SIP_KEY_BYTES] = "fuzz_watch";

    return (sum << 7 | sum >> 57) ^ hash_siphash(key, s);
}

static uint64_t drain(struct watch_parser *p, uint64_t sum)
{
    struct watch_event ev;
    enum watch_result result;

    while ((result = watch_parser_next(p, &ev)) != WATCH_MORE) {
        must_hold(result != WATCH_NO_MEMORY);
        sum = sum * 31 + (uint64_t)result + 1;
        if (result != WATCH_EVENT)
            continue;
        must_hold(ev.object.n > 0 && ev.object.n <= LINE_LIMIT);
        must_hold(ev.resource_version.p != NULL && ev.message.p != NULL);
        sum = mix(sum * 31 + (uint64_t)ev.type, ev.object);
        sum = mix(sum, ev.resource_version);
        sum = mix(sum + ev.code, ev.message);
    }
    return sum;
}

static uint64_t read_stream(struct slice in, unsigned pieces)
{
    struct watch_parser *p = watch_parser_new(LINE_LIMIT);
    uint64_t sum = 0;

    must_hold(p != NULL);
    for (size_t at = 0; at < in.n;) {
        size_t n = pieces == 0 ? in.n - at : fuzz_piece(&pieces, in.n - at);

        watch_parser_feed(p, slice_of(in.p + at, n));
        sum = drain(p, sum);
        at += n;
    }
    watch_parser_free(p);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    unsigned pieces = fuzz_byte(&in) + 1u;

    must_hold(read_stream(in, 0) == read_stream(in, pieces));
    return 0;
}
