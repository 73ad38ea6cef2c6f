/*
 * Whether several servers sent the same /apis, byte for byte. Many large documents are compared in pieces, so that no
 * turn of the loop takes long.
 */
#ifndef MVPROXY_CLUSTER_ALIKE_H
#define MVPROXY_CLUSTER_ALIKE_H

#include "kube/disco.h"

struct alike {
    const struct disco *const *servers;
    size_t n, at, at_byte;
};

enum alike_answer { ALIKE_MORE, ALIKE_YES, ALIKE_NO };

/* The servers must outlive the comparison. */
void alike_init(struct alike *a, const struct disco *const *servers, size_t n);
/* Compares `budget` bytes and no more (8 MB are some 2 ms). MORE: again. Fewer than two servers are alike. */
enum alike_answer alike_step(struct alike *a, size_t budget);

#endif
