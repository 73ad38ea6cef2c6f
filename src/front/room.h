/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who makes room when there are as many connections as may be: of an address that has more than its share, one that is
 * idle, silent, slow to take its answers, or drips what it asks; else, where all have about as many, the one that has
 * asked nothing for longest.
 */
#ifndef MVPROXY_FRONT_ROOM_H
#define MVPROXY_FRONT_ROOM_H

#include <stdbool.h>
#include <stddef.h>

struct front_host;

/* Ends one of at most `max` connections within this call. False: nobody can go now. It looks at some only, and at
 * others the next time. */
bool room_make(struct front_host *h, size_t max);

#endif
