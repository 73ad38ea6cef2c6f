/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <stdlib.h>
#include <unistd.h>

void random_bytes(void *p, size_t n)
{
    if (getentropy(p, n) != 0)
        abort(); /* a kernel without it: nothing here would be safe */
}

uint64_t random_u64(void)
{
    /* Drawn in batches: a choice among peers must not cost a system call. */
    static uint64_t batch[32];
    static size_t left;

    if (left == 0) {
        random_bytes(batch, sizeof(batch));
        left = sizeof(batch) / sizeof(batch[0]);
    }
    return batch[--left];
}

uint64_t random_below(uint64_t bound)
{
    /* Values below 2^64 mod bound are drawn again: they would favour small results. */
    uint64_t least = -bound % bound;
    uint64_t v;

    do
        v = random_u64();
    while (v < least);
    return v % bound;
}

void random_uuid(char out[37])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[16];

    random_bytes(raw, sizeof(raw));
    raw[6] = (unsigned char)((raw[6] & 0x0f) | 0x40);
    raw[8] = (unsigned char)((raw[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(raw); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[raw[i] >> 4];
        *out++ = digits[raw[i] & 0x0f];
    }
    *out = '\0';
}
