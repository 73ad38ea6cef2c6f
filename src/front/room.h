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
#include <stdint.h>

struct front_conn;
struct front_host;

/*
 * Something has waited for it for so long, of which it took less than a slow reader's rate; for who is not to be
 * indulged, something that had waited at the beginning waits still. To be asked again and again: the time begins with
 * the first look.
 */
bool room_is_slow_reader(struct front_conn *fc, uint64_t for_ms, bool indulged);
/* Ends one of at most `max` connections within this call. False: nobody can go now. It looks at some only, and at
 * others the next time. */
bool room_make(struct front_host *h, size_t max);

#endif
