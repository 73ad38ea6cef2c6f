/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include <stdio.h>

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

const char *duration_text(uint64_t ms, char out[DURATION_BYTES])
{
    unsigned long long s = ms / 1000;

    if (s < 10)
        (void)snprintf(out, DURATION_BYTES, "%llu.%llus", s, (unsigned long long)(ms % 1000 / 100));
    else if (s < 2 * MINUTE)
        (void)snprintf(out, DURATION_BYTES, "%llus", s);
    else if (s < 2 * HOUR)
        (void)snprintf(out, DURATION_BYTES, "%llum%llus", s / MINUTE, s % MINUTE);
    else if (s < 2 * DAY)
        (void)snprintf(out, DURATION_BYTES, "%lluh%llum", s / HOUR, s / MINUTE % 60);
    else
        (void)snprintf(out, DURATION_BYTES, "%llud%lluh", s / DAY, s / HOUR % 24);
    return out;
}

const char *duration_left(int64_t seconds, char out[DURATION_BYTES])
{
    const char *unit = seconds < 2 * DAY ? "hour" : "day";
    long long n = (long long)seconds / (seconds < 2 * DAY ? HOUR : DAY);

    if (n < 1)
        (void)snprintf(out, DURATION_BYTES, "less than an hour");
    else
        (void)snprintf(out, DURATION_BYTES, "%lld %s%s", n, unit, n == 1 ? "" : "s");
    return out;
}
