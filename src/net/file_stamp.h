/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stat(2) says of a file, to see later whether it is still the same.
 */
#ifndef MVPROXY_NET_FILE_STAMP_H
#define MVPROXY_NET_FILE_STAMP_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* All zeros: nothing there. */
struct file_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec written, changed;
};

/* Of what the path leads to. Take it before reading: what changes meanwhile shows at the next look. */
struct file_stamp file_stamp_of(const char *path);
bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b);

#endif
