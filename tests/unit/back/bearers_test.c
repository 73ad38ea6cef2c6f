/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of tokens, for how long, and of whom it is not. */
#include "back/bearers.h"

#include <stdio.h>

#include "back/claims.h"
#include "base/clock.h"
#include "unit/back/h2_kit.h"

/* The 403 of who shows no token is nobody's: it makes him known no more than it makes a connection his. */
static void no_tokens(void)
{
    static const char *const values[] = {"Basic eDp5", "x",          "Bearer",     "Bearer ",
                                         "Bearer  x",  "Bearer x y", "bearer x  z"};

    for (size_t i = 0; i < ROWS(values); i++) {
        static struct back_h2_kit k;
        struct call c;

        h2_open(&k);
        h2_judge_bearer(&k, values[i], 403);
        h2_call_init(&c, &k, "/x", values[i]);
        ok(back_is_stranger(k.k.back, &c.head), "a stranger: %s", values[i]);
        call_free(&c);
        h2_judge_bearer(&k, "Bearer a", 403);
        h2_call_init(&c, &k, "/x", "Bearer a");
        ok(!back_is_stranger(k.k.back, &c.head), "who has a token is none");
        ok(http_head_add_id(&c.head, c.arena, HTTP_AUTHORIZATION, SLICE_LIT("")) && back_is_stranger(k.k.back, &c.head),
           "but with two of which one is empty");
        call_free(&c);
        h2_close(&k);
    }
}

/* kube-apiserver reads the scheme in any case: these are one token, which gets one connection. */
static void same_tokens(void)
{
    static const char *const values[] = {"Bearer a", "bearer a", "BEARER a", "Bearer a "};
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    h2_judge_bearer(&k, values[0], 200);
    for (size_t i = 0; i < ROWS(values); i++) {
        h2_call_init(&c, &k, "/x", values[i]);
        ok(!back_is_stranger(k.k.back, &c.head), "known: \"%s\"", values[i]);
        ok(slice_eq(bearer_of(&c.head), SLICE_LIT("a")), "as what it is");
        call_free(&c);
    }
    h2_close(&k);
}

/* An outage of ten minutes makes a stranger of everybody, and nobody uncounted; a day does. */
static void tokens_taken(void)
{
    static const struct {
        uint64_t after_s;
        bool stranger, taken;
    } rows[] = {{599, false, true}, {600, true, true}, {86399, true, true}, {86400, true, false}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        static struct back_h2_kit k;
        struct call c;
        uint64_t bearer;

        h2_open(&k);
        clock_fake(clock_us(), clock_wall_us());
        settle(k.k.loop);
        h2_call_init(&c, &k, "/x", "Bearer a");
        bearer = back_bearer(&c.head);
        ok(!back_bearer_was_taken(k.k.back, bearer), "nobody has taken it");
        h2_judge_bearer(&k, "Bearer a", 401);
        ok(!back_bearer_was_taken(k.k.back, bearer), "nor has who refuses it");
        h2_judge_bearer(&k, "Bearer a", 200);
        h2_judge_bearer(&k, "Bearer a", 503);
        clock_fake(clock_us() + rows[i].after_s * 1000000, clock_wall_us());
        settle(k.k.loop);
        is_int(back_is_stranger(k.k.back, &c.head), rows[i].stranger, "a stranger, %zu", i);
        is_int(back_bearer_was_taken(k.k.back, bearer), rows[i].taken, "taken, %zu", i);
        ok(!back_bearer_was_taken(k.k.back, bearer + LIMIT_ACCEPTED_BEARERS), "no other one of its slot");
        ok(!back_bearer_was_taken(k.k.back, 0), "nor none");
        call_free(&c);
        h2_close(&k);
        clock_real();
    }
}

/* Not even of the token that is kept where one without hash would be. */
static void answers_to_nobody(void)
{
    static struct back_h2_kit k;
    char text[32];
    struct call c;

    h2_open(&k);
    h2_call_init(&c, &k, "/x", "Bearer 0");
    for (unsigned n = 0; n == 0 || back_bearer(&c.head) % LIMIT_ACCEPTED_BEARERS != 0; n++) {
        (void)snprintf(text, sizeof(text), "Bearer %u", n);
        c.head.fields[c.head.n_fields - 1].value = slice_str(text);
    }
    h2_judge_bearer(&k, text, 200);
    ok(!back_is_stranger(k.k.back, &c.head), "a token that was taken");
    h2_judge_bearer(&k, "", 200);
    ok(!back_is_stranger(k.k.back, &c.head), "is not forgotten for who has none");
    call_free(&c);
    h2_close(&k);
}

/* A CORS filter answers before anybody looks at the token: 204, whatever that is. */
static void options(void)
{
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    h2_call_init(&c, &k, "/x", "Bearer a");
    c.head.method_id = HTTP_OPTIONS;
    c.opts.lasting = true;
    for (unsigned status = 204; status <= 403; status += 403 - 204) {
        struct back_request asked = {.back = k.k.back, .opts = c.opts, .response = {.status = status}};

        bearer_count(&asked, NULL);
        ok(!bearer_answered(&asked) && asked.stranger, "nothing is known");
        ok(back_is_stranger(k.k.back, &c.head), "OPTIONS, %u: still a stranger", status);
    }
    h2_judge_bearer(&k, "Bearer a", 200);
    ok(!back_is_stranger(k.k.back, &c.head), "GET: none");
    call_free(&c);
    h2_close(&k);
}

int main(void)
{
    no_tokens();
    same_tokens();
    tokens_taken();
    answers_to_nobody();
    options();
    return tap_end();
}
