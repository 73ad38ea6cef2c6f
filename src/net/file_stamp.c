/* SPDX-License-Identifier: Apache-2.0 */
#include "net/file_stamp.h"

#include <sys/stat.h>

struct file_stamp file_stamp_of(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return (struct file_stamp){0};
    return (struct file_stamp){
        .dev = st.st_dev,
        .ino = st.st_ino,
        .size = st.st_size,
        .written = st.st_mtim,
        .changed = st.st_ctim,
    };
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && same_time(a->written, b->written) &&
           same_time(a->changed, b->changed);
}
