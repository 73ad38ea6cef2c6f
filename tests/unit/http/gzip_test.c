/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip both ways, in pieces, under ceilings, damaged and truncated.
 */
#include <stdlib.h>

#include "http/gzip.h"
#include "lib/tap.h"

static bool collect(void *arg, struct slice text)
{
    return buf_append(arg, text);
}

static bool refuse(void *arg, struct slice text)
{
    (void)arg;
    (void)text;
    return false;
}

static char *noise(size_t n, unsigned letters)
{
    char *p = malloc(n);

    if (p == NULL)
        tap_bail("no memory");
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + (unsigned)rand() % letters);
    return p;
}

static void round_trip(size_t n, unsigned letters, size_t piece)
{
    char *text = noise(n + 1, letters);
    struct buf packed, back;
    struct gunzip *g = gunzip_new(n);
    enum gzip_result rc = GZIP_OK;

    if (g == NULL)
        tap_bail("no memory");
    buf_init(&packed, n * 2 + 1000);
    buf_init(&back, n + 1);
    is_int(gzip_deflate(slice_of(text, n), &packed), GZIP_OK, "%zu bytes packed", n);
    is_int(gzip_inflate(buf_slice(&packed), &back), GZIP_OK, "and back");
    ok(slice_eq(buf_slice(&back), slice_of(text, n)), "the same");
    buf_reset(&back);
    for (size_t at = 0; at < buf_len(&packed) && rc == GZIP_OK; at += piece) {
        struct slice in = slice_from(buf_slice(&packed), at);

        ok(at == 0 || !gunzip_complete(g), "not complete in the middle");
        in.n = in.n < piece ? in.n : piece;
        rc = gunzip_feed(g, in, collect, &back);
    }
    is_int(rc, GZIP_OK, "in pieces of %zu", piece);
    ok(gunzip_complete(g), "complete");
    ok(slice_eq(buf_slice(&back), slice_of(text, n)), "the same");
    gunzip_free(g);
    buf_free(&packed);
    buf_free(&back);
    free(text);
}

static void ceilings(void)
{
    size_t n = 50 << 20;
    char *zeros = calloc(1, n);
    struct buf packed, out, tight;
    struct gunzip *g = gunzip_new(1000000);

    if (zeros == NULL || g == NULL)
        tap_bail("no memory");
    buf_init(&packed, 1 << 20);
    buf_init(&out, 1000000);
    is_int(gzip_deflate(slice_of(zeros, n), &packed), GZIP_OK, "a bomb of %zu bytes", buf_len(&packed));
    is_int(gzip_inflate(buf_slice(&packed), &out), GZIP_TOO_LARGE, "stops at the ceiling");
    ok(buf_len(&out) <= 1000000, "with no more than that");
    buf_reset(&out);
    is_int(gunzip_feed(g, buf_slice(&packed), collect, &out), GZIP_TOO_LARGE, "in pieces too");
    is_int(gunzip_feed(g, buf_slice(&packed), collect, &out), GZIP_TOO_LARGE, "and stays so");
    ok(!gunzip_complete(g), "never complete");
    gunzip_free(g);
    buf_init(&tight, 100);
    is_int(gzip_deflate(slice_of(zeros, n), &tight), GZIP_TOO_LARGE, "packing has a ceiling too");
    buf_free(&tight);
    g = gunzip_new(UINT64_MAX);
    if (g == NULL)
        tap_bail("no memory");
    is_int(gunzip_feed(g, buf_slice(&packed), refuse, NULL), GZIP_STOPPED, "the receiver stops it");
    gunzip_free(g);
    buf_free(&packed);
    buf_free(&out);
    free(zeros);
}

static void damage(void)
{
    static const char text[] = "sphinx of black quartz, judge my vow; pack five dozen jugs";
    struct buf packed, two, out;
    char *copy;
    size_t n, wrong = 0;

    buf_init(&packed, 1000);
    buf_init(&two, 1000);
    buf_init(&out, 1000);
    if (gzip_deflate(slice_str(text), &packed) != GZIP_OK)
        tap_bail("no gzip");
    n = buf_len(&packed);
    for (size_t cut = 0; cut < n; cut++) {
        wrong += gzip_inflate(slice_of(packed.p, cut), &out) != GZIP_BROKEN;
        buf_reset(&out);
    }
    is_u64(wrong, 0, "truncated anywhere: broken");
    copy = malloc(n);
    if (copy == NULL)
        tap_bail("no memory");
    for (size_t i = 0; i < n; i++) {
        enum gzip_result rc;

        if (i >= 4 && i < 10)
            continue; /* time, extra flags and system mean nothing */
        memcpy(copy, packed.p, n);
        copy[i] = (char)(copy[i] ^ 0x20);
        rc = gzip_inflate(slice_of(copy, n), &out);
        if (rc == GZIP_OK)
            diag("byte %zu flipped went through", i);
        wrong += rc == GZIP_OK;
        buf_reset(&out);
    }
    is_u64(wrong, 0, "one bit flipped anywhere: noticed");
    free(copy);
    is_int(gzip_inflate(SLICE_LIT("plain text, not gzip"), &out), GZIP_BROKEN, "no gzip");
    is_int(gzip_inflate(SLICE_NONE, &out), GZIP_BROKEN, "nothing");
    ok(buf_append(&two, buf_slice(&packed)) && buf_append(&two, buf_slice(&packed)), "two members");
    buf_reset(&out);
    is_int(gzip_inflate(buf_slice(&two), &out), GZIP_OK, "are one text");
    is_u64(buf_len(&out), 2 * (sizeof(text) - 1), "of twice the length");
    ok(buf_append_str(&two, "garbage"), "garbage behind");
    buf_reset(&out);
    is_int(gzip_inflate(buf_slice(&two), &out), GZIP_BROKEN, "is refused");
    buf_free(&packed);
    buf_free(&two);
    buf_free(&out);
}

static void memory(void)
{
    struct buf out;
    size_t begun = 0;
    enum gzip_result rc = GZIP_MEMORY;

    for (uint64_t nth = 1; nth < 20 && rc != GZIP_OK; nth++) {
        buf_init(&out, 1000);
        mem_fail_nth(nth);
        rc = gzip_deflate(SLICE_LIT("text"), &out);
        mem_fail_nth(0);
        ok(rc == GZIP_OK || rc == GZIP_MEMORY, "packing, allocation %d", (int)nth);
        if (rc == GZIP_OK) {
            struct gunzip *g = NULL;

            for (uint64_t k = 1; k < 20 && g == NULL; k++) {
                mem_fail_nth(k);
                g = gunzip_new(1000);
                mem_fail_nth(0);
            }
            ok(g != NULL, "unpacking works in the end");
            gunzip_free(g);
        }
        buf_free(&out);
    }
    is_int(rc, GZIP_OK, "packing works in the end");
    /* So often that LeakSanitizer sees one that is lost: a register or the stack may still hold the last. */
    for (size_t i = 0; i < 50; i++) {
        mem_fail_nth(2);
        begun += gunzip_new(1000) != NULL;
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
    ceilings();
    damage();
    memory();
    return tap_end();
}
