/* SPDX-License-Identifier: Apache-2.0 */
/* A question of our own that comes back: which requests carry the token, what is refused from then on, and until when.
 */
#include "back/loop_token.h"

#include "back/fetch.h"
#include "base/clock.h"
#include "unit/back/kit.h"

#include <string.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define LOOP_ANSWER "HTTP/1.1 508 Loop Detected\r\nContent-Length: 2\r\n\r\nno"

enum { NO_ANSWER };

static void on_done(void *arg, const struct fetch_result *r)
{
    unsigned *status = arg;

    *status = r->ok ? r->head->status : 1;
}

/* A question of our own; its answer's status. */
static unsigned ask(struct back_kit *k)
{
    const struct fetch_opts o = {.origin = k->origin,
                                 .method = SLICE_LIT("GET"),
                                 .target = SLICE_LIT("/livez"),
                                 .ceiling = 1000,
                                 .timeout_ms = 10000};
    unsigned status = NO_ANSWER;
    struct fetch *f = fetch_start(k->back, k->loop, &o, on_done, &status);

    ok(f != NULL, "asked");
    for (int i = 0; i < 10000 && status == NO_ANSWER; i++)
        loop_run_once(k->loop, 10);
    return status;
}

/* A client's request. */
static void asked_by_client(struct back_kit *k, const char *want, const char *name)
{
    struct call c;

    call_init(&c, k, "GET", "/version");
    call_send(&c);
    ok(call_is(&c, want), "%s", name);
    call_free(&c);
}

static void pass(uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
}

/* An aggregated API server that got to see it could play it back. */
static void where_it_goes(struct back_kit *k)
{
    static const struct {
        const char *target;
        bool carries;
    } targets[] = {{"/readyz", true},
                   {"/apis", true},
                   {"/api/v1/namespaces/kube-system/configmaps", true},
                   {"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", true},
                   {"/apis/metrics.k8s.io/v1beta1", false},
                   {"/apis/coordination.k8s.io.example.com/v1", false},
                   {"/openapi/v3/apis/metrics.k8s.io/v1beta1", false}};

    for (size_t i = 0; i < ROWS(targets); i++)
        is_int(loop_token_of(k->origin, slice_str(targets[i].target))[0] != '\0', targets[i].carries, "%s",
               targets[i].target);
}

static void comes_back(struct back_kit *k)
{
    const char *token = loop_token_of(k->origin, SLICE_LIT("/livez"));
    char wrong[64];

    is_u64(strlen(token), 32, "as long as it must be");
    (void)snprintf(wrong, sizeof(wrong), "%s", token);
    wrong[31] = wrong[31] == '0' ? '1' : '0';
    ok(!loop_token_came_back(k->origin, slice_str(wrong)), "another token, but for its last letter");
    ok(!loop_token_came_back(k->origin, slice_of(token, 31)), "a part of it");
    ok(!loop_token_came_back(k->origin, SLICE_LIT("")), "nothing");
    ok(!origin_loops(k->origin), "nothing has come back");

    ok(loop_token_came_back(k->origin, slice_str(token)), "ours");
    ok(origin_loops(k->origin), "it leads back");
    asked_by_client(k, "failed: loop", "a client's request is refused");
    k->auto_reply = LOOP_ANSWER;
    is_u64(ask(k), 508, "a question of ours is not");
    pass(LOOP_TOKEN_QUIET_MS * 3);
    is_u64(ask(k), 508, "refused for long");
    ok(origin_loops(k->origin), "an answer that says so ends nothing");
}

static void is_over(struct back_kit *k)
{
    (void)loop_token_came_back(k->origin, slice_str(loop_token_of(k->origin, SLICE_LIT("/livez"))));
    k->auto_reply = OK_ANSWER;
    is_u64(ask(k), 200, "somebody else answers");
    ok(origin_loops(k->origin), "one of several behind a balancer, perhaps");
    pass(LOOP_TOKEN_QUIET_MS);
    asked_by_client(k, "failed: loop", "time alone ends nothing");
    is_u64(ask(k), 200, "somebody else still answers");
    ok(!origin_loops(k->origin), "and nothing has come back since");
    asked_by_client(k, "head(200) end", "a client's request is sent");
    k->auto_reply = LOOP_ANSWER;
    is_u64(ask(k), 508, "an mvproxy on the way has noticed it");
    ok(origin_loops(k->origin), "and so is it here");
}

/* Whether what the server got from there on has the field. */
static bool carried(struct back_kit *k, size_t from)
{
    struct slice got = slice_from(buf_slice(&k->conns[0].got), from);

    return memmem(got.p, got.n, LOOP_TOKEN_FIELD ": ", strlen(LOOP_TOKEN_FIELD ": ")) != NULL;
}

/* Only questions of ours, and only to a server that is to be the last. */
static void who_carries_it(struct back_kit *k, bool last)
{
    size_t first;

    k->auto_reply = OK_ANSWER;
    (void)ask(k);
    is_int(carried(k, 0), last, "a question of ours");
    first = buf_len(&k->conns[0].got);
    asked_by_client(k, "head(200) end", "a client's request");
    ok(!carried(k, first), "does not");
}

int main(void)
{
    static struct back_kit k;

    back_kit_open(&k, false, 0);
    who_carries_it(&k, false);
    is_str(loop_token_of(k.origin, SLICE_LIT("/livez")), "", "no token for peers");
    back_kit_close(&k);
    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.last = true});
    who_carries_it(&k, true);
    where_it_goes(&k);
    comes_back(&k);
    is_over(&k);
    back_kit_close(&k);
    return tap_end();
}
