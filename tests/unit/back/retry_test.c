/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table in docs/internals/retry.md, and that no combination of facts breaks its rules. */
#include "back/retry.h"

#include "lib/tap.h"

enum { FRESH = 0, ONCE = 1, ENOUGH = RETRY_MAX_HERE };

static const struct {
    const char *name;
    struct retry_case c;
    enum retry_verdict verdict;
} rows[] = {
    /* not sent: no connection, or one that the server had closed before */
    {"no connection, another candidate",
     {HTTP_POST, BACK_FAIL_CONNECT, .others = true, .affordable = true},
     RETRY_ELSEWHERE},
    {"no connection, no other", {HTTP_GET, BACK_FAIL_CONNECT, .affordable = true}, RETRY_ANSWER},
    {"pool full, another candidate", {HTTP_PUT, BACK_FAIL_BUSY, .others = true, .affordable = true}, RETRY_ELSEWHERE},
    {"pool full, no other", {HTTP_PUT, BACK_FAIL_BUSY, .affordable = true}, RETRY_ANSWER},
    {"not read: any method again", {HTTP_POST, BACK_FAIL_UNANSWERED, .affordable = true}, RETRY_HERE},
    {"not read, once more", {HTTP_PATCH, BACK_FAIL_UNANSWERED, .affordable = true, .repeated = ONCE}, RETRY_HERE},
    {"not read, often enough, another candidate",
     {HTTP_POST, BACK_FAIL_UNANSWERED, .others = true, .affordable = true, .repeated = ENOUGH},
     RETRY_ELSEWHERE},
    {"not read, often enough, no other",
     {HTTP_POST, BACK_FAIL_UNANSWERED, .affordable = true, .repeated = ENOUGH},
     RETRY_ANSWER},
    {"not read, its body not kept",
     {HTTP_POST, BACK_FAIL_UNANSWERED, .body_gone = true, .others = true, .affordable = true},
     RETRY_ANSWER},
    {"not read, an upgrade, another candidate",
     {HTTP_POST, BACK_FAIL_UNANSWERED, .upgrade = true, .others = true, .affordable = true},
     RETRY_ELSEWHERE},
    {"not read, of one that hangs, another candidate",
     {HTTP_POST, BACK_FAIL_UNANSWERED, .hangs = true, .others = true, .affordable = true},
     RETRY_ELSEWHERE},
    /* sent, and lost without an answer */
    {"safe: again", {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .affordable = true}, RETRY_HERE},
    {"HEAD is safe", {HTTP_HEAD, BACK_FAIL_UNANSWERED, .sent = true, .affordable = true}, RETRY_HERE},
    {"OPTIONS is safe", {HTTP_OPTIONS, BACK_FAIL_UNANSWERED, .sent = true, .affordable = true}, RETRY_HERE},
    {"safe, often enough, another candidate",
     {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .others = true, .affordable = true, .repeated = ENOUGH},
     RETRY_ELSEWHERE},
    {"safe, of one that hangs, another candidate",
     {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .hangs = true, .others = true, .affordable = true},
     RETRY_ELSEWHERE},
    {"safe, of one that hangs, no other",
     {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .hangs = true, .affordable = true},
     RETRY_ANSWER},
    {"safe, an upgrade, no other",
     {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .upgrade = true, .affordable = true},
     RETRY_ANSWER},
    {"an upgrade, another candidate",
     {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .upgrade = true, .others = true, .affordable = true},
     RETRY_ANSWER},
    {"POST", {HTTP_POST, BACK_FAIL_UNANSWERED, .sent = true, .others = true, .affordable = true}, RETRY_ANSWER},
    {"PATCH", {HTTP_PATCH, BACK_FAIL_UNANSWERED, .sent = true, .others = true, .affordable = true}, RETRY_ANSWER},
    {"PUT", {HTTP_PUT, BACK_FAIL_UNANSWERED, .sent = true, .others = true, .affordable = true}, RETRY_ANSWER},
    {"DELETE", {HTTP_DELETE, BACK_FAIL_UNANSWERED, .sent = true, .others = true, .affordable = true}, RETRY_ANSWER},
    {"unknown method",
     {HTTP_METHOD_OTHER, BACK_FAIL_UNANSWERED, .sent = true, .others = true, .affordable = true},
     RETRY_ANSWER},
    {"safe, with a body that was taken",
     {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true, .body_gone = true, .others = true, .affordable = true},
     RETRY_ANSWER},
    /* a head that is none */
    {"safe, bad head, another candidate",
     {HTTP_GET, BACK_FAIL_HEAD, .sent = true, .others = true, .affordable = true},
     RETRY_ELSEWHERE},
    {"safe, bad head, no other", {HTTP_GET, BACK_FAIL_HEAD, .sent = true, .affordable = true}, RETRY_ANSWER},
    {"POST, bad head", {HTTP_POST, BACK_FAIL_HEAD, .sent = true, .others = true, .affordable = true}, RETRY_ANSWER},
    /* never */
    {"no head in time", {HTTP_GET, BACK_FAIL_TIMEOUT, .sent = true, .others = true, .affordable = true}, RETRY_ANSWER},
    {"out of memory", {HTTP_GET, BACK_FAIL_MEMORY, .others = true, .affordable = true}, RETRY_ANSWER},
    {"the request's body is not as announced",
     {HTTP_GET, BACK_FAIL_BODY, .others = true, .affordable = true},
     RETRY_ANSWER},
    {"budget used up, not sent", {HTTP_GET, BACK_FAIL_CONNECT, .others = true}, RETRY_ANSWER},
    {"budget used up, sent", {HTTP_GET, BACK_FAIL_UNANSWERED, .sent = true}, RETRY_ANSWER},
    {"the response has begun",
     {HTTP_GET, BACK_FAIL_BODY, .relayed = true, .sent = true, .others = true, .affordable = true},
     RETRY_BREAK},
};

static const struct {
    const char *name;
    enum http_method method;
    bool sent, harmless;
} answers[] = {
    {"GET", HTTP_GET, true, true},
    {"PUT", HTTP_PUT, true, false},
    {"DELETE", HTTP_DELETE, true, false},
    {"POST", HTTP_POST, true, false},
    {"PATCH", HTTP_PATCH, true, false},
    {"any other", HTTP_METHOD_OTHER, true, false},
    {"POST that was not sent", HTTP_POST, false, true},
};

static void check_rules(const struct retry_case *c, unsigned *broken)
{
    enum retry_verdict v = retry_decide(c);
    bool again = v == RETRY_HERE || v == RETRY_ELSEWHERE;

    *broken += again && c->sent && !http_method_is_safe(c->method);
    *broken += again && c->sent && c->upgrade;
    *broken += again && (c->relayed || c->body_gone || !c->affordable);
    *broken += (v == RETRY_BREAK) != c->relayed;
    *broken += v == RETRY_ELSEWHERE && !c->others;
    *broken += v == RETRY_HERE && (c->repeated >= RETRY_MAX_HERE || c->why != BACK_FAIL_UNANSWERED || c->hangs);
}

/* All methods, failures, facts and counts. */
static void every_combination(void)
{
    unsigned broken = 0, n = 0;

    for (unsigned m = HTTP_METHOD_OTHER; m <= HTTP_CONNECT; m++)
        for (unsigned why = BACK_FAIL_CONNECT; why <= BACK_FAIL_MEMORY; why++)
            for (unsigned bits = 0; bits < 1U << 6; bits++)
                for (unsigned repeated = 0; repeated <= RETRY_MAX_HERE; repeated++, n++) {
                    struct retry_case c = {
                        .method = (enum http_method)m,
                        .why = (enum back_failure)why,
                        .relayed = bits & 1,
                        .sent = bits & 2,
                        .body_gone = bits & 4,
                        .upgrade = bits & 8,
                        .others = bits & 16,
                        .affordable = bits & 32,
                        .repeated = repeated,
                    };

                    check_rules(&c, &broken);
                }
    is_u64(broken, 0, "no rule is broken in %u cases", n);
}

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++)
        is_int(retry_decide(&rows[i].c), rows[i].verdict, "%s", rows[i].name);
    every_combination();
    for (size_t i = 0; i < ROWS(answers); i++)
        ok(retry_is_harmless(answers[i].method, false, answers[i].sent) == answers[i].harmless, "Retry-After: %s",
           answers[i].name);
    for (unsigned why = BACK_FAIL_CONNECT; why <= BACK_FAIL_LOOP; why++)
        is_int(retry_server_is_lost((enum back_failure)why),
               why == BACK_FAIL_CONNECT || why == BACK_FAIL_UNANSWERED || why == BACK_FAIL_LOOP, "server lost: %s",
               back_failure_name((enum back_failure)why));
    ok(!retry_is_harmless(HTTP_GET, true, true), "Retry-After: an upgrade");
    ok(retry_is_harmless(HTTP_GET, true, false), "Retry-After: an upgrade that was not sent");
    return tap_end();
}
