/* SPDX-License-Identifier: Apache-2.0 */
/* A time for people: two units at most, none of them 0 in front. */
#include "base/duration.h"

#include "lib/tap.h"

int main(void)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } rows[] = {
        {0, "0.0s"},           {49, "0.0s"},
        {9999, "9.9s"},        {10000, "10s"},
        {119999, "119s"},      {120000, "2m0s"},
        {252999, "4m12s"},     {7199999, "119m59s"},
        {7200000, "2h0m"},     {11100000, "3h5m"},
        {172799999, "47h59m"}, {172800000, "2d0h"},
        {198000000, "2d7h"},   {UINT64_MAX, "213503982334d14h"},
    };
    char text[DURATION_BYTES];

    for (size_t i = 0; i < ROWS(rows); i++)
        is_str(duration_text(rows[i].ms, text), rows[i].text, "%llu ms", (unsigned long long)rows[i].ms);
    is_str(duration_left(0, text), "less than an hour", "nothing left");
    is_str(duration_left(3600, text), "1 hour", "one hour");
    is_str(duration_left(172799, text), "47 hours", "below two days");
    is_str(duration_left(172800, text), "2 days", "two days");
    return tap_end();
}
