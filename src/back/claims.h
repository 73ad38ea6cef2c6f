/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks, as the heads of requests say it: told to back/, which knows no names, by those who do. There is one set of
 * names: what goes out is held against its connection by it, and who passes a client's request on removes them by it.
 */
#ifndef MVPROXY_BACK_CLAIMS_H
#define MVPROXY_BACK_CLAIMS_H

#include "back/back.h"

/* What a head says about who asks, under the names that are configured. */
struct back_claims {
    unsigned users;  /* fields that name a user */
    unsigned others; /* further fields of an identity: UID, groups, extras */
};
typedef void back_claims_fn(const struct http_head *head, void *arg, struct back_claims *out);
struct metric_family;

/* What is checked before a head goes out, and what was withheld. */
struct back_check {
    back_claims_fn *claims; /* NULL: nothing */
    void *arg;
    struct metric_family *withheld;
};

/*
 * The last line: each head that goes out is held against its connection. With certificate: one user, or nobody where an
 * mvproxy has proved itself; without: nobody. What does not fit is not sent (BACK_FAIL_IDENTITY), and counted. Which
 * names count is for others to know: they count as they did when the request was started. Without a function nothing is
 * checked.
 */
void back_set_claims(struct back *b, back_claims_fn *fn, void *arg);
/* Whether a field of this name would count now: who starts a request in this turn must not leave a client's in it. */
bool back_name_claims(const struct back *b, struct slice name);

/* The request's token, as a hash, which goes on when the head is gone; 0: none, or several. */
uint64_t back_bearer(const struct http_head *request);
/* Some server has taken it within a day (back/bearers.h). */
bool back_bearer_was_taken(const struct back *b, uint64_t bearer);

#endif
