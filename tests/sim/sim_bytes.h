/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of bytes in the C library's memory, for the test's ends of simulated connections, and HTTP/2 frames in it.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_BYTES_H
#define MVPROXY_TESTS_SIM_SIM_BYTES_H

#include "base/slice.h"

struct bytes {
    char *p;
    size_t n, room, dropped; /* before p, in the same piece of memory */
};

void bytes_add(struct bytes *b, struct slice s);
void bytes_say(struct bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bytes_drop(struct bytes *b, size_t n);
void bytes_free(struct bytes *b);
/* Where the first `what` ends; 0: it is not there. */
size_t bytes_past(const struct bytes *b, const char *what);
/* Takes the next field off the lines of an HTTP/1.1 head; false at its end. */
bool lines_field(struct slice *rest, struct slice *name, struct slice *value);
/* So many bytes (a multiple of four) of the body of request k, from its byte `from`: its number again and again. */
void bytes_pattern(struct bytes *b, unsigned k, size_t from, size_t n);
/* Whether this is what request k's body has at `from`. */
bool pattern_holds(struct slice s, unsigned k, size_t from);

enum { FRAME_HEAD = 9 };
struct frame {
    unsigned type, flags;
    uint32_t stream;
    struct slice payload; /* valid until the queue changes */
};
void frame_add(struct bytes *b, unsigned type, unsigned flags, uint32_t stream, struct slice payload);
void frame_u32(struct bytes *b, unsigned type, uint32_t stream, uint32_t value); /* RST_STREAM, WINDOW_UPDATE */
/* A setting, or an acknowledgement (id 0). */
void frame_setting(struct bytes *b, unsigned id, uint32_t value);
void frame_goaway(struct bytes *b, uint32_t last, uint32_t code);
/* One more field of a header block, never indexed nor compressed. */
void block_field(struct bytes *block, const char *name, struct slice value);
/* One more field of a head: of a block, or a line of HTTP/1.1. The name is to be in lower case. */
void head_field(struct bytes *b, bool http2, const char *name, const char *value);
/* The first frame, if all of it is there: bytes_drop() it then. */
bool frame_first(const struct bytes *b, struct frame *f, size_t *whole);

#endif
