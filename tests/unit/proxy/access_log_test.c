/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests get a line in the access log. */
#include "proxy/access_log.h"

#include <stdio.h>

#include "lib/tap.h"

static const struct {
    const char *list[4];
    struct access_log want;
    const char *err; /* NULL: it is right */
} lists[] = {
    {{NULL}, {.all = false}, NULL},
    {{"all"}, {.all = true}, NULL},
    {{"true"}, {.all = true}, NULL},
    {{"false"}, {.all = false}, NULL},
    {{"errors", "slow=1500ms", "rerouted"}, {.errors = true, .slow_ms = 1500, .rerouted = true}, NULL},
    {{"slow=1m"}, {.slow_ms = 60000}, NULL},
    {{"slow=0s"}, {.all = false}, "\"slow=0s\" has no duration: write it such as slow=1s"},
    {{"slow=soon"}, {.all = false}, "\"slow=soon\" has no duration: write it such as slow=1s"},
    {{"slow"}, {.all = false}, "\"slow\" has no duration: write it such as slow=1s"},
    {{"all", "false"}, {.all = false}, "\"false\" is no filter: give all, rerouted, errors or slow=DURATION"},
    {{"reruted"}, {.all = false}, "\"reruted\" is no filter: did you mean rerouted?"},
    {{"7"}, {.all = false}, "\"7\" is no filter: give all, rerouted, errors or slow=DURATION"},
};

static void test_parse(void)
{
    for (size_t i = 0; i < ROWS(lists); i++) {
        struct access_log l = {.all = false};
        struct err err;
        bool good;

        err_clear(&err);
        good = access_log_parse(lists[i].list, &l, &err);
        ok(good == (lists[i].err == NULL), "row %zu", i);
        is_str(err.text, lists[i].err == NULL ? "" : lists[i].err, "what is said of row %zu", i);
        if (!good)
            continue;
        ok(l.all == lists[i].want.all && l.rerouted == lists[i].want.rerouted && l.errors == lists[i].want.errors &&
               l.slow_ms == lists[i].want.slow_ms,
           "the filters of row %zu", i);
        ok(access_log_on(&l) == (l.all || l.rerouted || l.errors || l.slow_ms > 0), "on or off in row %zu", i);
    }
}

enum { ALL = 1, REROUTED = 2, ERRORS = 4, SLOW = 8 };

/* By which single filter each is selected; of several, by any. */
static const struct {
    const char *name;
    struct request_summary entry;
    bool from_peer;
    uint64_t us;
    unsigned selected;
} requests[] = {
    {"an ordinary one", {.status = 200}, false, 999999, ALL},
    {"one that took a second", {.status = 200}, false, 1000000, ALL | SLOW},
    {"a watch of an hour", {.status = 200, .long_running = true}, false, 3600000000, ALL},
    {"one sent on", {.status = 200, .peer = "cp-b"}, false, 5, ALL | REROUTED},
    {"one sent here", {.status = 200}, true, 5, ALL | REROUTED},
    {"not found", {.status = 404}, false, 5, ALL},
    {"forbidden", {.status = 403}, false, 5, ALL},
    {"refused by us", {.status = 401, .why = "Unauthorized"}, false, 5, ALL},
    {"too many", {.status = 429, .why = "overloaded"}, false, 5, ALL | ERRORS},
    {"a server's error", {.status = 500}, false, 5, ALL | ERRORS},
    {"no peer", {.status = 503, .why = "no peer"}, false, 5, ALL | ERRORS},
    {"broken off", {.status = 200, .why = "server broke off its response"}, false, 5, ALL | ERRORS},
    {"left", {.status = 200, .why = ACCOUNT_CLIENT_GONE}, false, 5, ALL},
    {"left early", {.status = 0, .why = ACCOUNT_CLIENT_GONE}, false, 5, ALL},
};

static struct access_log with(unsigned filters)
{
    return (struct access_log){.all = (filters & ALL) != 0,
                               .rerouted = (filters & REROUTED) != 0,
                               .errors = (filters & ERRORS) != 0,
                               .slow_ms = (filters & SLOW) != 0 ? 1000 : 0};
}

static void test_select(void)
{
    for (size_t i = 0; i < ROWS(requests); i++) {
        unsigned wrong = 0;

        for (unsigned filters = 0; filters < 16; filters++) {
            struct access_log l = with(filters);

            wrong += access_log_selects(&l, &requests[i].entry, requests[i].from_peer, requests[i].us) !=
                     ((filters & requests[i].selected) != 0);
        }
        is_u64(wrong, 0, "%s", requests[i].name);
    }
}

/* What is drawn is the same for both ends; nothing but `all` is thinned out. */
static void test_sample(void)
{
    struct access_log l = {.all = true, .sample = 10}, other = {.all = true, .sample = 10, .errors = true};
    unsigned drawn = 0, half = 0, differ = 0, errors = 0, unnamed = 0;

    for (unsigned i = 0; i < 10000; i++) {
        char id[16];
        struct request_summary e = {.status = 200};
        bool here;

        (void)snprintf(id, sizeof(id), "%u", i);
        e.audit_id = slice_str(id);
        here = access_log_selects(&l, &e, false, 5);
        drawn += here;
        half += access_log_selects(&(struct access_log){.all = true, .sample = 2}, &e, false, 5);
        differ += here != access_log_selects(&other, &e, false, 5);
        e.status = 500;
        errors += access_log_selects(&l, &e, false, 5);
        e = (struct request_summary){.status = 200};
        unnamed += access_log_selects(&l, &e, false, 5);
    }
    ok(drawn > 800 && drawn < 1200, "one in ten of all: %u of 10000", drawn);
    ok(half > 4500 && half < 5500, "one in two: %u of 10000", half);
    is_u64(differ, 0, "the same on both proxies");
    is_u64(errors, 10000, "every error");
    ok(unnamed > 800 && unnamed < 1200, "by chance without an Audit-ID: %u of 10000", unnamed);
    l.rerouted = true;
    ok(access_log_selects(&l, &(struct request_summary){.status = 200, .peer = "cp-b"}, false, 5),
       "what a filter names");
}

int main(void)
{
    test_parse();
    test_select();
    test_sample();
    return tap_end();
}
