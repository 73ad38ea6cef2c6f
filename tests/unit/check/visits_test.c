/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the servers that were asked should have a record in etcd. */
#include "check/visits.h"

#include "lib/tap.h"

int main(void)
{
    const struct visit visits[] = {
        {.answer = {.ok = true}, .version = {.major = 1, .minor = 35}},
        {.answer = {.ok = true}, .version = {.major = 1, .minor = 36}},
        {.answer = {.ok = true, .hop = "apiserver-c"}, .version = {.major = 1, .minor = 30}},
        {.answer = {.ok = true}, .version = {.major = 0}},
        {.answer = {.ok = false, .hop = "apiserver-d"}, .version = {.major = 1, .minor = 36}},
    };

    is_u64(visits_with_records(visits, 0), 0, "nobody");
    is_u64(visits_with_records(visits, 1), 0, "an old one without mvproxy");
    is_u64(visits_with_records(visits, 2), 1, "a new one writes it itself");
    is_u64(visits_with_records(visits, ROWS(visits)), 2, "an old one with mvproxy, and nobody who does not answer");
    return tap_end();
}
