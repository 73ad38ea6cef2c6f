/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 as far as a test over proxy_kit needs it: the frames of sim/sim_bytes.h, over a played_end. */
#ifndef MVPROXY_TESTS_UNIT_PROXY_FRAMES_H
#define MVPROXY_TESTS_UNIT_PROXY_FRAMES_H

#include "sim/sim_bytes.h"
#include "unit/proxy/kit.h"

#define FRAMES_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum { FRAME_DATA, FRAME_HEADERS, FRAME_RST = 3, FRAME_SETTINGS, FRAME_GOAWAY = 7 };
enum { FRAME_END_STREAM = 1, FRAME_END_HEADERS = 4 };

/* `fields`: "name: value\n" lines. */
void frames_add_head(struct bytes *b, unsigned flags, unsigned stream, const char *fields);
/* Says them, and frees them. */
void say_frames(struct played_end *e, struct bytes *b);
/* Takes the first whole frame off *rest (and a preface before it); false if there is none. */
bool frames_next(struct slice *rest, struct frame *frame);

#endif
