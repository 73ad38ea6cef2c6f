/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 as far as the stories of memory_test.c need it, in memory of its own: frames with fields that are not
 * compressed to send, and a walk over those that came.
 */
#ifndef MVPROXY_TESTS_UNIT_PROXY_FRAMES_H
#define MVPROXY_TESTS_UNIT_PROXY_FRAMES_H

#include "base/slice.h"

#define FRAMES_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum { FRAME_DATA, FRAME_HEADERS, FRAME_RST = 3, FRAME_SETTINGS, FRAME_GOAWAY = 7 };
enum { FRAME_END_STREAM = 1, FRAME_END_HEADERS = 4 };

struct frames {
    size_t n;
    char bytes[2000];
};

/* Each appends a frame to *f. */
void frames_add(struct frames *f, unsigned type, unsigned flags, unsigned stream, struct slice payload);
/* `fields`: "name: value\n" lines. */
void frames_add_head(struct frames *f, unsigned flags, unsigned stream, const char *fields);

struct frame {
    unsigned type, flags, stream;
    struct slice payload;
};

/* Takes the first whole frame off *rest (and a preface before it); false if there is none. */
bool frames_next(struct slice *rest, struct frame *frame);

#endif
