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

static void break_it_with_log(void *arg)
{
    log_set_format(LOG_JSON);
    log_set_buffered(true);
    log_info("Waits");
    break_it(arg);
}

static void words_that_break(const char *file, int line, const char *what)
{
    (void)file;
    (void)line;
    must_hold(what == NULL);
}

static void break_it_in_words(void *arg)
{
    contract_set_words(words_that_break);
    break_it(arg);
}

int main(void)
{
    int n = 0;
    char said[1024];
    const char *waiting;

    hold(&n);
    ok(n == 1, "a condition that holds is evaluated once, and nothing follows");
    ok(died(break_it, &n, said, sizeof(said)), "one that does not ends the process");
    ok(strstr(said, "contract_test.c:") != NULL, "with the line");
    ok(strstr(said, "*n == 17") != NULL, "and the condition");
    ok(died(break_it_with_log, &n, said, sizeof(said)), "so it is in a process with a log");
    waiting = strstr(said, "Waits");
    ok(waiting != NULL && strstr(waiting, "\"msg\":\"An invariant does not hold\"") != NULL,
       "it is a line of it, behind what waits there");
    ok(strstr(said, "\"caller\":\"contract_test.c:") != NULL && strstr(said, "\"condition\":\"*n == 17\"") != NULL,
       "with place and condition");
    ok(died(break_it_in_words, &n, said, sizeof(said)),
       "one that breaks while another is said ends the process as well");
    ok(strstr(said, "what == NULL") != NULL, "and is said by itself");
    return tap_end();
}
