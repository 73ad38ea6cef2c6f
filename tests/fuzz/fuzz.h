/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the harnesses share. A harness does not only wait for a crash: it states what must hold, with must_hold()
 * (base/contract.h).
 */
#ifndef MVPROXY_TESTS_FUZZ_FUZZ_H
#define MVPROXY_TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/contract.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One byte off the front as a knob of the harness; 0 when there is none. */
static inline uint8_t fuzz_byte(struct slice *in)
{
    uint8_t b;

    if (in->n == 0)
        return 0;
    b = (uint8_t)in->p[0];
    *in = slice_of(in->p + 1, in->n - 1);
    return b;
}

/* The length of the next piece when input arrives in pieces: 1 to 16 bytes, from a running state. */
static inline size_t fuzz_piece(unsigned *state, size_t left)
{
    size_t n;

    *state = *state * 1103515245u + 12345u;
    n = 1 + (*state >> 16) % 16;
    return n < left ? n : left;
}

#endif
