/* SPDX-License-Identifier: Apache-2.0 */
#include "base/contract.h"

#include "base/log.h"
#include "lib/died.h"
#include "lib/tap.h"

static void hold(void *arg)
{
    int *n = arg;

    must_hold(++*n == 1);
}

static void break_it(void *arg)
{
    int *n = arg;

    must_hold(*n == 17);
}

int main(void)
{
    int n = 0;
    char said[1024];

    hold(&n);
    ok(n == 1, "a condition that holds is evaluated once, and nothing follows");
    ok(died(break_it, &n, said, sizeof(said)), "one that does not ends the process");
    ok(strstr(said, "contract_test.c:") != NULL, "with the line");
    ok(strstr(said, "*n == 17") != NULL, "and the condition in the log");
    return tap_end();
}
