/* SPDX-License-Identifier: Apache-2.0 */
/* Who has to go when too many connections have not asked anything. */
#include "front/clients.h"

#include <stdio.h>

#include "lib/tap.h"

static struct client_member members[200];

static void enter(struct clients *c, size_t i, const char *ip)
{
    members[i] = (struct client_member){.address = NULL};
    is_int(clients_enter(c, &members[i], slice_str(ip), 0), CLIENTS_WELCOME, "%s comes", ip);
}

/* The index of who has to go, -1 for nobody. */
static int surplus(struct clients *c, size_t newcomer, size_t max)
{
    struct client_member *m = clients_surplus(c, &members[newcomer], max);

    return m == NULL ? -1 : (int)(m - members);
}

static void leave_all(struct clients *c)
{
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        clients_leave(c, &members[i]);
    is_u64(clients_fresh(c), 0, "nobody is left");
}

static void test_limit(void)
{
    struct clients *c = clients_new(NULL);

    for (size_t i = 0; i < 2; i++)
        is_int(clients_enter(c, &members[i], SLICE_LIT("10.0.0.1"), 2), CLIENTS_WELCOME, "%zu of two", i + 1);
    is_int(clients_enter(c, &members[2], SLICE_LIT("10.0.0.1"), 2), CLIENTS_TOO_MANY, "a third one");
    clients_leave(c, &members[2]);
    is_u64(clients_fresh(c), 2, "is not counted");
    is_int(clients_enter(c, &members[2], SLICE_LIT("10.0.0.2"), 2), CLIENTS_WELCOME, "another address");
    clients_asked(c, &members[0]);
    clients_asked(c, &members[0]);
    is_u64(clients_fresh(c), 2, "who has asked is not fresh any more");
    is_int(clients_enter(c, &members[3], SLICE_LIT("10.0.0.1"), 2), CLIENTS_TOO_MANY, "but still there");
    clients_leave(c, &members[0]);
    is_int(clients_enter(c, &members[3], SLICE_LIT("10.0.0.1"), 2), CLIENTS_WELCOME, "until it leaves");
    for (size_t i = 4; i < 8; i++)
        is_int(clients_enter(c, &members[i], SLICE_LIT(""), 2), CLIENTS_WELCOME, "without address there is no limit");
    leave_all(c);
    clients_free(c);
}

static void test_surplus(void)
{
    struct clients *c = clients_new(NULL);

    enter(c, 0, "10.0.0.1"); /* honest, and the oldest */
    for (size_t i = 1; i < 10; i++)
        enter(c, i, "10.0.0.66");
    is_int(surplus(c, 9, 10), -1, "ten of ten: nobody goes");
    is_int(surplus(c, 9, 0), -1, "no limit");
    enter(c, 10, "10.0.0.66");
    is_int(surplus(c, 10, 10), 1, "the flood pushes out its own oldest, not the honest client");
    clients_leave(c, &members[1]);
    enter(c, 11, "10.0.0.2");
    is_int(surplus(c, 11, 10), 2, "an honest newcomer pushes out the flood's oldest");
    clients_leave(c, &members[2]);
    clients_asked(c, &members[3]);
    is_int(surplus(c, 11, 9), -1, "one that has asked makes room by itself");
    is_int(surplus(c, 11, 8), 4, "and is never pushed out");
    enter(c, 12, "10.0.0.2");
    is_int(surplus(c, 12, 6), 4, "nor has a newcomer to leave within his share");
    clients_renew(c, &members[4]);
    is_int(surplus(c, 12, 6), 5, "who is renewed comes after the others, of all and of his address");
    is_int(surplus(c, 10, 6), 5, "likewise");
    leave_all(c);
    clients_free(c);
}

static void test_many_addresses(void)
{
    struct clients *c = clients_new(NULL);
    char ip[48];

    for (size_t i = 0; i < 100; i++) {
        snprintf(ip, sizeof(ip), "10.0.1.%zu", i);
        enter(c, i, ip);
    }
    enter(c, 100, "10.0.2.1");
    is_int(surplus(c, 100, 100), 0, "one each: the oldest goes");
    clients_leave(c, &members[0]);
    is_int(surplus(c, 100, 50), 1, "also when there is less than one for each");
    enter(c, 101, "10.0.2.1");
    is_int(surplus(c, 101, 100), 100, "two of one address: its own oldest");
    enter(c, 102, "10.0.2.2");
    is_int(surplus(c, 102, 101), 1, "two of an address that came late are not searched for among so many");
    leave_all(c);
    clients_free(c);
}

/* Addresses of those who have asked make no share smaller. */
static void test_share_of_fresh(void)
{
    struct clients *c = clients_new(NULL);
    char ip[48];

    for (size_t i = 0; i < 10; i++) {
        snprintf(ip, sizeof(ip), "10.0.1.%zu", i);
        enter(c, i, ip);
        clients_asked(c, &members[i]);
    }
    enter(c, 10, "10.0.2.1");
    enter(c, 11, "10.0.2.1");
    for (size_t i = 12; i < 18; i++)
        enter(c, i, "10.0.0.66");
    enter(c, 18, "10.0.2.2");
    is_int(surplus(c, 18, 8), 12, "two of eight are no more than a share of three, six are");
    leave_all(c);
    clients_free(c);
}

/* As far as is searched, and one further: so many of one each stand before two of one address. */
static void test_search_ends(void)
{
    for (size_t before = 31; before <= 32; before++) {
        struct clients *c = clients_new(NULL);
        char ip[48];

        for (size_t i = 0; i < before; i++) {
            snprintf(ip, sizeof(ip), "10.0.1.%zu", i);
            enter(c, i, ip);
        }
        enter(c, before, "10.0.2.1");
        enter(c, before + 1, "10.0.2.1");
        enter(c, before + 2, "10.0.2.2");
        is_int(surplus(c, before + 2, before + 2), before == 31 ? 31 : 0, "%zu before: %s", before,
               before == 31 ? "seen" : "the oldest goes");
        ok(clients_silent_surplus(c, before + 2) == (before == 31 ? &members[31] : NULL), "likewise at the limit");
        leave_all(c);
        clients_free(c);
    }
}

/* Of six descriptors with three addresses, and one to come, one would be a share. */
static void test_shares(void)
{
    struct clients *c = clients_new(NULL);

    enter(c, 0, "10.0.0.1");
    enter(c, 1, "10.0.0.2");
    for (size_t i = 2; i < 6; i++)
        enter(c, i, "10.0.0.66");
    ok(!clients_has_surplus(c, &members[0], 6), "one is no more than a share");
    ok(clients_has_surplus(c, &members[5], 6), "four are");
    ok(!clients_has_surplus(c, &members[5], 16), "but not of so many");
    ok(clients_silent_surplus(c, 6) == &members[2], "the oldest of the four that has asked nothing");
    clients_asked(c, &members[2]);
    ok(clients_silent_surplus(c, 6) == &members[3], "is the next when that asks");
    for (size_t i = 3; i < 6; i++)
        clients_asked(c, &members[i]);
    ok(clients_silent_surplus(c, 6) == NULL, "and there is none when all have");
    clients_leave(c, &members[5]);
    clients_leave(c, &members[4]);
    ok(!clients_has_surplus(c, &members[2], 6), "nor is one more than a share a surplus");
    leave_all(c);
    clients_free(c);
}

/* Twice a share is not yet much more than the others have. */
static void test_even(void)
{
    static struct client_member many[1100];
    struct clients *c = clients_new(NULL);

    ok(clients_are_even(c, 6), "nobody is there");
    enter(c, 0, "10.0.0.1");
    clients_asked(c, &members[0]);
    for (size_t i = 2; i < 8; i++) {
        enter(c, i, "10.0.0.66");
        clients_asked(c, &members[i]);
    }
    ok(clients_are_even(c, 6), "six where three would be a share");
    enter(c, 8, "10.0.0.66");
    clients_asked(c, &members[8]);
    ok(!clients_are_even(c, 6), "seven are too many");
    ok(clients_are_even(c, 9), "not where four would be one");
    clients_leave(c, &members[8]);
    ok(clients_are_even(c, 6), "one leaves");
    leave_all(c);
    ok(clients_are_even(c, 1), "all do");
    for (size_t i = 0; i < ROWS(many); i++)
        if (clients_enter(c, &many[i], SLICE_LIT("10.0.0.2"), 0) == CLIENTS_WELCOME)
            clients_asked(c, &many[i]);
    ok(!clients_are_even(c, 50000), "more than are counted");
    for (size_t i = ROWS(many) - 1; i > 1000; i--) {
        clients_leave(c, &many[i]);
        if (i == 1023 || i == 1022)
            is_int(clients_are_even(c, 50000), i == 1022, "%zu are %s", i, i == 1022 ? "few of many" : "not counted");
    }
    ok(!clients_are_even(c, 900), "but not of so many");
    for (size_t i = 0; i <= 1000; i++)
        clients_leave(c, &many[i]);
    ok(clients_are_even(c, 1), "all leave");
    clients_free(c);
}

/* Who is silent at thousands of addresses makes nobody's share smaller, but for the places that he has. */
static void test_silent_addresses(void)
{
    struct clients *c = clients_new(NULL);
    char ip[48];

    for (size_t i = 0; i < 50; i++) {
        enter(c, i, "10.0.0.1");
        clients_asked(c, &members[i]);
    }
    for (size_t i = 50; i < 150; i++) {
        snprintf(ip, sizeof(ip), "10.0.1.%zu", i);
        enter(c, i, ip);
    }
    ok(!clients_has_surplus(c, &members[0], 200), "50 of 100 that are left, and one other may come");
    ok(clients_has_surplus(c, &members[0], 190), "of 90 they are more than a share");
    clients_asked(c, &members[50]);
    ok(clients_has_surplus(c, &members[0], 200), "and where another one has asked");
    clients_leave(c, &members[50]);
    ok(!clients_has_surplus(c, &members[0], 200), "until it leaves");
    leave_all(c);
    clients_free(c);
}

/* A share may be less than one: then who comes from thousands of addresses must not drive out who has one connection.
 */
static void test_small_shares(void)
{
    struct clients *c = clients_new(NULL);
    char ip[48];

    for (size_t i = 0; i < 100; i++) {
        snprintf(ip, sizeof(ip), "10.0.1.%zu", i);
        enter(c, i, ip);
    }
    ok(!clients_has_surplus(c, &members[0], 100), "one each is nobody's surplus");
    ok(clients_silent_surplus(c, 100) == NULL, "nor that of who is silent");
    enter(c, 100, "10.0.1.99");
    ok(clients_has_surplus(c, &members[100], 100), "two are");
    ok(clients_silent_surplus(c, 100) == NULL, "but a short look does not see them");
    leave_all(c);
    clients_free(c);
}

static void test_no_memory(void)
{
    uint64_t nth = 1;
    enum clients_verdict v;

    for (;; nth++) {
        struct clients *c;

        mem_fail_nth(nth);
        c = clients_new(NULL);
        v = c == NULL ? CLIENTS_NO_MEMORY : clients_enter(c, &members[0], SLICE_LIT("10.0.0.1"), 1);
        mem_fail_nth(0);
        if (c != NULL)
            clients_leave(c, &members[0]);
        clients_free(c);
        if (v == CLIENTS_WELCOME)
            break;
        is_int(v, CLIENTS_NO_MEMORY, "allocation %u fails", (unsigned)nth);
    }
    ok(nth > 2, "all of them");
}

/* What its connections give up in a second is counted together. */
static void cancelled(void)
{
    struct client_member two[2] = {0}, gone = {0};
    struct clients *c = clients_new(NULL);

    if (c == NULL || clients_enter(c, &two[0], SLICE_LIT("10.0.0.1"), 2) != CLIENTS_WELCOME ||
        clients_enter(c, &two[1], SLICE_LIT("10.0.0.1"), 2) != CLIENTS_WELCOME)
        tap_bail("no memory");
    ok(clients_may_cancel(&two[0], 5000, 2) && clients_may_cancel(&two[1], 5999, 2), "as many as may be");
    ok(!clients_may_cancel(&two[0], 5999, 2), "no more");
    ok(clients_may_cancel(&two[0], 6000, 2) && clients_may_cancel(&two[1], 6000, 2), "a second later as many");
    ok(!clients_may_cancel(&two[1], 6000, 2), "and no more again");
    ok(clients_may_cancel(&gone, 6000, 0), "of nobody's address nothing is counted");
    clients_leave(c, &two[0]);
    clients_leave(c, &two[1]);
    clients_free(c);
}

/* An address is forgotten with the last that has to do with it. */
static void test_gone(void)
{
    struct client_member two[2] = {0}, nobody = {0};
    struct clients *c = clients_new(NULL);

    for (size_t i = 0; i < 2; i++)
        is_int(clients_enter(c, &two[i], SLICE_LIT("10.0.0.1"), 0), CLIENTS_WELCOME, "one of two");
    for (size_t i = 0; i < 2; i++)
        clients_leave(c, &two[i]);
    ok(!clients_may_cancel(&two[1], 5000, 0), "what they have given up is counted");
    clients_gone(c, &two[0]);
    ok(two[0].address == NULL, "nothing points to an address that may go");
    clients_gone(c, &nobody);
    clients_gone(c, &two[0]);
    ok(clients_may_cancel(&two[1], 5999, 2),
       "which the other one still has: who is nobody's, or gone, changes nothing");
    ok(!clients_may_cancel(&two[1], 5999, 2), "nor what it has given up");
    clients_gone(c, &two[1]);
    two[0] = nobody;
    is_int(clients_enter(c, &two[0], SLICE_LIT("10.0.0.1"), 1), CLIENTS_WELCOME, "then it is new");
    clients_leave(c, &two[0]);
    clients_gone(c, &two[0]);
    clients_free(c);
}

int main(void)
{
    test_limit();
    test_surplus();
    test_many_addresses();
    test_share_of_fresh();
    test_search_ends();
    test_shares();
    test_even();
    test_silent_addresses();
    test_small_shares();
    test_no_memory();
    cancelled();
    test_gone();
    return tap_end();
}
