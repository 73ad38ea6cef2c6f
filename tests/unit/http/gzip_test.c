/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip in pieces, under a ceiling, without memory.
 */
#include <stdlib.h>

#include "http/gzip.h"
#include "lib/tap.h"
#include "lib/unzip.h"

static char *noise(size_t n, unsigned letters)
{
    char *p = malloc(n);

    if (p == NULL)
        tap_bail("no memory");
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + (unsigned)rand() % letters);
    return p;
}

/* What one text becomes, given in pieces. */
static enum gzip_result pack(struct slice text, size_t piece, struct buf *out)
{
    struct gzipper *g = gzipper_new();
    enum gzip_result rc = g == NULL ? GZIP_MEMORY : GZIP_OK;
    bool last = false;

    while (rc == GZIP_OK && !last) {
        struct slice in = text;

        in.n = in.n < piece ? in.n : piece;
        text = slice_from(text, in.n);
        last = text.n == 0;
        rc = gzipper_feed(g, in, last, out);
    }
    gzipper_free(g);
    return rc;
}

static void round_trip(size_t n, unsigned letters, size_t piece)
{
    char *text = noise(n + 1, letters);
    struct buf packed, back;

    buf_init(&packed, n * 2 + 1000);
    buf_init(&back, n + 1);
    is_int(pack(slice_of(text, n), piece, &packed), GZIP_OK, "%zu bytes packed, in pieces of %zu", n, piece);
    ok(unzip(buf_slice(&packed), &back), "and back");
    ok(slice_eq(buf_slice(&back), slice_of(text, n)), "the same");
    buf_free(&packed);
    buf_free(&back);
    free(text);
}

static void ceiling(void)
{
    static char zeros[1 << 20];
    struct buf tight;

    buf_init(&tight, 100);
    is_int(pack(slice_of(zeros, sizeof(zeros)), sizeof(zeros), &tight), GZIP_TOO_LARGE, "packing has a ceiling");
    ok(buf_len(&tight) <= 100, "which holds");
    buf_free(&tight);
}

static void memory(void)
{
    struct buf out;
    size_t begun = 0;
    enum gzip_result rc = GZIP_MEMORY;

    for (uint64_t nth = 1; nth < 20 && rc != GZIP_OK; nth++) {
        buf_init(&out, 1000);
        mem_fail_nth(nth);
        rc = pack(SLICE_LIT("text"), 4, &out);
        mem_fail_nth(0);
        ok(rc == GZIP_OK || rc == GZIP_MEMORY, "packing, allocation %d", (int)nth);
        buf_free(&out);
    }
    is_int(rc, GZIP_OK, "packing works in the end");
    /* So often that LeakSanitizer sees one that is lost: a register or the stack may still hold the last. */
    for (size_t i = 0; i < 50; i++) {
        mem_fail_nth(2);
        begun += gzipper_new() != NULL;
        mem_fail_nth(0);
    }
    is_u64(begun, 0, "without zlib's memory none begins");
}

int main(void)
{
    srand(4020);
    round_trip(0, 1, 1);
    round_trip(1, 1, 1);
    round_trip(1000, 20, 1);
    round_trip(100000, 3, 977);
    round_trip(32 << 10, 1, 7);
    round_trip(300000, 26, 65536);
    ceiling();
    memory();
    return tap_end();
}
