/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/frames.h"

#include <stdio.h>

void frames_add_head(struct bytes *b, unsigned flags, unsigned stream, const char *fields)
{
    struct slice rest = slice_str(fields), line;
    struct bytes block = {0};

    while (slice_split(&rest, '\n', &line) && line.n > 0) {
        size_t n = 1 + slice_index(slice_from(line, 1), ':'); /* a pseudo-header begins with one */
        char name[128];

        (void)snprintf(name, sizeof(name), "%.*s", (int)n, line.p);
        block_field(&block, name, slice_trim(slice_from(line, n + 1)));
    }
    frame_add(b, FRAME_HEADERS, flags | FRAME_END_HEADERS, stream, slice_of(block.p, block.n));
    bytes_free(&block);
}

void say_frames(struct played_end *e, struct bytes *b)
{
    say_bytes(e, slice_of(b->p, b->n));
    bytes_free(b);
}

bool frames_next(struct slice *rest, struct frame *frame)
{
    size_t whole;

    if (slice_has_prefix(*rest, SLICE_LIT(FRAMES_PREFACE)))
        *rest = slice_from(*rest, sizeof(FRAMES_PREFACE) - 1);
    if (!frame_first(&(struct bytes){.p = (char *)(uintptr_t)rest->p, .n = rest->n}, frame, &whole))
        return false;
    *rest = slice_from(*rest, whole);
    return true;
}
