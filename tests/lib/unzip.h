/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was packed, unpacked: by zlib itself, for mvproxy unpacks nothing.
 */
#ifndef MVPROXY_TESTS_LIB_UNZIP_H
#define MVPROXY_TESTS_LIB_UNZIP_H

#include <zlib.h>

#include "base/buf.h"

/* Appends the text of one gzip member. False if it is not whole, damaged, followed by something, or too long for out.
 */
static inline bool unzip(struct slice in, struct buf *out)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)in.p, .avail_in = (unsigned)in.n};
    int rc = inflateInit2(&z, 15 + 16);

    while (rc == Z_OK) {
        unsigned char text[4096];

        z.next_out = text;
        z.avail_out = sizeof(text);
        rc = inflate(&z, Z_NO_FLUSH);
        if (!buf_append(out, slice_of((const char *)text, sizeof(text) - z.avail_out)))
            rc = Z_MEM_ERROR;
    }
    (void)inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_in == 0;
}

#endif
