/* SPDX-License-Identifier: Apache-2.0 */
/* API servers that believe other front proxies than we do make us unready, and those that do not say so do not. */
#include "base/clock.h"
#include "kube/request_header.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define CERT "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n"
#define MAP(user)                                                                                                      \
    "{\"kind\":\"ConfigMap\",\"data\":{\"requestheader-client-ca-file\":\"" CERT                                       \
    "\",\"requestheader-username-headers\":\"[\\\"" user "\\\"]\"}}"
#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

static bool trusted(struct cluster_kit *w)
{
    char reason[200];

    return cluster_front_trusted(w->cluster, reason, sizeof(reason));
}

static void begin(struct cluster_kit *w, const char *map)
{
    cluster_kit_init(w, KIT_BASE);
    w->opts.front = (struct request_header){.headers = user_headers_default(), .ca = slice_str(PEM)};
    kube_set_map(w->local, map);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready but for that");
}

static void told(void)
{
    struct cluster_kit w;
    uint64_t asked;

    begin(&w, MAP("X-Remote-User"));
    ok(trusted(&w), "the same words");
    asked = kube_map_requests(w.local);
    sim_run_ms(w.loop, 600000);
    ok(kube_map_requests(w.local) - asked >= 8 && kube_map_requests(w.local) - asked <= 12, "asked once a minute");
    kube_set_map(w.local, MAP("X-Login"));
    sim_run_ms(w.loop, 70000);
    ok(!trusted(&w), "other words: not ready");
    is_double(cluster_kit_metric(&w, "mvproxy_requestheader_differs", NULL), 1, "and shown");
    kube_forbid(w.local, REQUEST_HEADER_PATH, 500);
    sim_run_ms(w.loop, 200000);
    ok(!trusted(&w), "while it cannot be read that stands");
    kube_forbid(w.local, NULL, 0);
    kube_set_map(w.local, MAP("X-Remote-User"));
    sim_run_ms(w.loop, 130000);
    ok(trusted(&w), "put right: ready");
    is_double(cluster_kit_metric(&w, "mvproxy_requestheader_differs", NULL), 0, "and shown, too");
    cluster_kit_end(&w);
}

/* At a reload it is asked at once: the words may have been put right here. */
static void put_right_here(void)
{
    static const struct slice login[] = {SLICE_LIT("X-Login")};
    struct user_headers headers = *user_headers_default();
    struct cluster_kit w;

    begin(&w, MAP("X-Login"));
    sim_run_ms(w.loop, 1000);
    ok(!trusted(&w), "other words");
    headers.username = login;
    headers.n_username = 1;
    w.opts.front.headers = &headers;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 1000);
    ok(trusted(&w), "a reload with theirs: ready at once");
    cluster_kit_end(&w);
}

/* Nobody is asserted any more: then their words are nobody's trouble. */
static void not_needed(void)
{
    struct cluster_kit w;

    begin(&w, MAP("X-Login"));
    sim_run_ms(w.loop, 1000);
    ok(!trusted(&w), "other words");
    w.opts.front.headers = NULL;
    cluster_update(w.cluster, &w.opts);
    ok(trusted(&w), "a reload without a certificate for clients: ready at once");
    cluster_kit_end(&w);
}

/* Or over there: while words differ each reload asks, and while they agree none does that changes none. */
static void put_right_there(void)
{
    struct cluster_kit w;
    uint64_t asked;

    begin(&w, MAP("X-Login"));
    sim_run_ms(w.loop, 1000);
    ok(!trusted(&w), "other words");
    kube_set_map(w.local, MAP("X-Remote-User"));
    asked = kube_map_requests(w.local);
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 1000);
    ok(trusted(&w), "a reload of the same here: ready at once");
    is_u64(kube_map_requests(w.local) - asked, 1, "asked once");
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 1000);
    is_u64(kube_map_requests(w.local) - asked, 1, "and not again without a difference");
    cluster_kit_end(&w);
}

/* A reload that changes any of the words asks, whichever it is. */
static void each_word(void)
{
    static const struct slice other[] = {SLICE_LIT("X-Other-")};
    const struct user_headers *as_ever = user_headers_default();
    struct user_headers changed[4];
    struct cluster_kit w;

    begin(&w, MAP("X-Remote-User"));
    sim_run_ms(w.loop, 1000);
    for (size_t i = 0; i < ROWS(changed); i++) {
        uint64_t asked = kube_map_requests(w.local);

        changed[i] = *as_ever;
        *(i == 0   ? &changed[i].username
          : i == 1 ? &changed[i].uid
          : i == 2 ? &changed[i].group
                   : &changed[i].extra_prefix) = other;
        *(i == 0   ? &changed[i].n_username
          : i == 1 ? &changed[i].n_uid
          : i == 2 ? &changed[i].n_group
                   : &changed[i].n_extra_prefix) = 1;
        w.opts.front.headers = &changed[i];
        cluster_update(w.cluster, &w.opts);
        sim_run_ms(w.loop, 1000);
        ok(kube_map_requests(w.local) > asked, "word %zu is another: asked", i);
        w.opts.front.headers = as_ever;
        cluster_update(w.cluster, &w.opts);
        sim_run_ms(w.loop, 1000);
        ok(trusted(&w), "as before");
    }
    cluster_kit_end(&w);
}

/* Nobody with a certificate would get in: such a node must not be sent clients. */
static void foreign_clients(void)
{
#define WITH_CLIENTS(ca)                                                                                               \
    "{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"" ca "\",\"requestheader-client-ca-file\":\"" CERT         \
    "\",\"requestheader-username-headers\":\"[\\\"X-Remote-User\\\"]\"}}"
#define OTHER "-----BEGIN CERTIFICATE-----\\nBBBB\\n-----END CERTIFICATE-----\\n"
    char reason[200];
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.front =
        (struct request_header){.headers = user_headers_default(), .ca = slice_str(PEM), .client_ca = slice_str(PEM)};
    kube_set_map(w.local, WITH_CLIENTS(OTHER));
    cluster_kit_start(&w);
    is_int(cluster_front_clients(w.cluster, slice_str(PEM)), REQUEST_HEADER_UNKNOWN, "nobody has been asked");
    sim_run_ms(w.loop, 5000);
    is_int(cluster_front_clients(w.cluster, slice_str(PEM)), REQUEST_HEADER_DIFFERS, "they have another");
    ok(!trusted(&w), "clients of another CA: not ready");
    is_double(cluster_kit_metric(&w, "mvproxy_requestheader_differs", NULL), 1, "and shown");
    kube_set_map(w.local, WITH_CLIENTS(OTHER CERT));
    sim_run_ms(w.loop, 2000);
    is_int(cluster_front_clients(w.cluster, slice_str(PEM)), REQUEST_HEADER_DIFFERS, "nor have been again");
    cluster_front_ask(w.cluster);
    sim_run_ms(w.loop, 2000);
    is_int(cluster_front_clients(w.cluster, slice_str(PEM)), REQUEST_HEADER_AGREES, "they are when it is wanted");
    ok(trusted(&w), "one that both have: ready");
    w.opts.front.client_ca = SLICE_LIT("-----BEGIN CERTIFICATE-----\nCCCC\n-----END CERTIFICATE-----\n");
    ok(cluster_front_expected(w.cluster, reason, sizeof(reason)), "which is known");
    cluster_update(w.cluster, &w.opts);
    ok(trusted(&w) && !cluster_front_expected(w.cluster, reason, sizeof(reason)),
       "a reload with another: known before anybody is asked");
    is_str(reason, "client-ca-file: no API server has any certificate of it, so their clients get 401 here", "and why");
    sim_run_ms(w.loop, 1000);
    ok(!trusted(&w), "and noticed at once");
    w.opts.front.headers = NULL;
    cluster_update(w.cluster, &w.opts);
    ok(cluster_front_expected(w.cluster, reason, sizeof(reason)), "not where nobody is asserted");
    cluster_kit_end(&w);
}

/* Who sends words that no server knows loses his own groups with them, and may not read any more what differs. */
static void locked_out(void)
{
    static const struct slice login[] = {SLICE_LIT("X-Login")};
    struct user_headers headers = *user_headers_default();
    struct cluster_kit w;

    begin(&w, MAP("X-Remote-User"));
    sim_run_ms(w.loop, 1000);
    ok(trusted(&w), "the same words");
    headers.username = login;
    headers.n_username = 1;
    w.opts.front.headers = &headers;
    kube_forbid(w.local, REQUEST_HEADER_PATH, 403);
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 1000);
    ok(!trusted(&w), "compared with what they said before");
    kube_forbid(w.local, REQUEST_HEADER_PATH, 404);
    sim_run_ms(w.loop, 70000);
    ok(trusted(&w), "it is not there any more: nothing to compare with");
    cluster_kit_end(&w);
}

static void not_told(void)
{
    static const unsigned statuses[] = {401, 403, 404};

    for (size_t i = 0; i < ROWS(statuses); i++) {
        struct cluster_kit w;

        cluster_kit_init(&w, KIT_BASE);
        w.opts.front = (struct request_header){.headers = user_headers_default(), .ca = slice_str(PEM)};
        kube_set_map(w.local, MAP("X-Login"));
        kube_forbid(w.local, REQUEST_HEADER_PATH, statuses[i]);
        cluster_kit_start(&w);
        ok(cluster_kit_ready(&w, 2000), "ready");
        sim_run_ms(w.loop, 100000);
        ok(trusted(&w), "%u: who may not read it is not held up", statuses[i]);
        cluster_kit_end(&w);
    }
}

/* A header that only they name is no trouble, but it is removed from requests for as long as they may believe it. */
static void named(void)
{
#define TWO MAP("X-Remote-User\\\",\\\"X-Login")
    static const struct slice header = SLICE_LIT("x-login");
    struct cluster_kit w;

    begin(&w, TWO);
    sim_run_ms(w.loop, 1000);
    ok(trusted(&w), "one more there: ready");
    is_str(cluster_front_more(w.cluster), "requestheader-username-headers: X-Login is not configured here",
           "it is named");
    ok(user_header_is_identity(cluster_front_named(w.cluster), header), "it is removed");
    kube_forbid(w.local, REQUEST_HEADER_PATH, 404);
    sim_run_ms(w.loop, 130000);
    ok(user_header_is_identity(cluster_front_named(w.cluster), header),
       "also when they have only deleted what they said");
    kube_forbid(w.local, NULL, 0);
    kube_set_map(w.local, "nonsense");
    sim_run_ms(w.loop, 130000);
    ok(user_header_is_identity(cluster_front_named(w.cluster), header), "or nobody understands them");
    kube_set_map(w.local, MAP("X-Remote-User"));
    sim_run_ms(w.loop, 130000);
    ok(!user_header_is_identity(cluster_front_named(w.cluster), header), "until they name it no more");
    ok(cluster_front_more(w.cluster) == NULL, "nor is there anything to say");
    cluster_kit_end(&w);
}

/* Who has waited long for the server asks it soon after it has come. */
static void late(void)
{
    static const struct slice header = SLICE_LIT("x-login");
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.front = (struct request_header){.headers = user_headers_default(), .ca = slice_str(PEM)};
    kube_set_map(w.local, TWO);
    kube_stop(w.local, false);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 200137);
    ok(!user_header_is_identity(cluster_front_named(w.cluster), header), "the server is away: nothing is known");
    kube_start(w.local, 0);
    ok(cluster_kit_ready(&w, 10000), "it comes, and we are ready");
    sim_run_ms(w.loop, 1000);
    ok(user_header_is_identity(cluster_front_named(w.cluster), header), "what it names is removed a second later");
    cluster_kit_end(&w);
}

/* Whether it is removed a second after an answer of which the nth allocation from its coming on fails; `failed`: it
 * did. */
static bool named_without_memory(uint64_t nth, bool *failed)
{
    static const struct slice header = SLICE_LIT("x-login");
    struct cluster_kit w;
    uint64_t asked;
    bool removed;

    begin(&w, MAP("X-Remote-User"));
    sim_run_ms(w.loop, 5000);
    kube_set_map(w.local, TWO);
    asked = kube_map_requests(w.local);
    while (kube_map_requests(w.local) == asked)
        sim_run_ms(w.loop, 1);
    mem_fail_nth(nth);
    sim_run_ms(w.loop, 5);
    mem_fail_nth(0);
    removed = user_header_is_identity(cluster_front_named(w.cluster), header);
    *failed |= !removed;
    sim_run_ms(w.loop, 1000);
    removed = user_header_is_identity(cluster_front_named(w.cluster), header);
    cluster_kit_end(&w);
    return removed;
}

/* Who lacks the memory to keep what they name asks again soon, not in a minute. */
static void without_memory(void)
{
    bool failed = false;

    for (uint64_t nth = 1; nth <= 12; nth++)
        ok(named_without_memory(nth, &failed), "allocation %d fails: it is removed a second later", (int)nth);
    ok(failed, "with one of them the answer is lost");
}

static void begin_asserting(struct cluster_kit *w, int64_t left_s)
{
    cluster_kit_init(w, KIT_BASE);
    w->opts.front = (struct request_header){.headers = user_headers_default(), .ca = slice_str(PEM)};
    w->opts.front_until_s = clock_wall_us() / 1000000 + left_s;
    kube_set_map(w->local, MAP("X-Remote-User"));
}

static bool says(struct cluster_kit *w, const char *words)
{
    char reason[200] = "";

    return !cluster_front_trusted(w->cluster, reason, sizeof(reason)) && strstr(reason, words) != NULL;
}

/* A front proxy of a CA or a name that the server does not accept gets 401, and so does each user with a certificate.
 */
static void disbelieved(void)
{
    struct cluster_kit w;

    begin_asserting(&w, 1000000);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_forbid(w.local, "/", 401);
    sim_run_ms(w.loop, 40000);
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 3000);
    kube_forbid(w.local, "/", 401);
    sim_run_ms(w.loop, 9000);
    ok(trusted(&w), "a server that has another CA for a moment: nothing is lost");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 100000);
    kube_forbid(w.local, "/", 401);
    sim_run_ms(w.loop, 50000);
    ok(says(&w, "does not believe this front proxy"), "for longer: not ready, and said so");
    is_double(cluster_kit_metric(&w, "mvproxy_front_proxy_disbelieved", NULL), 1, "and shown");
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 100000);
    ok(says(&w, "does not believe this front proxy"), "while it is away that stands");
    kube_forbid(w.local, NULL, 0);
    kube_start(w.local, 0);
    sim_run_ms(w.loop, 6000);
    ok(trusted(&w), "believed again: ready soon");
    is_double(cluster_kit_metric(&w, "mvproxy_front_proxy_disbelieved", NULL), 0, "and shown, too");
    cluster_kit_end(&w);
}

static void disbelieved_at_start(void)
{
    static const unsigned statuses[] = {401, 403};

    for (size_t i = 0; i < ROWS(statuses); i++) {
        struct cluster_kit w;

        begin_asserting(&w, 1000000);
        kube_forbid(w.local, "/", statuses[i]);
        cluster_kit_start(&w);
        sim_run_ms(w.loop, 500);
        ok(says(&w, "has not believed this front proxy so far"), "%u from the start: said at once", statuses[i]);
        is_double(cluster_kit_metric(&w, "mvproxy_front_proxy_disbelieved", NULL), 0,
                  "though it may be a server that starts");
        ok(!cluster_kit_ready(&w, 100000), "never ready");
        ok(says(&w, statuses[i] == 401 ? "answers 401" : "answers 403"), "and said why");
        kube_forbid(w.local, NULL, 0);
        ok(cluster_kit_ready(&w, 40000), "until that is put right");
        ok(trusted(&w), "and believed");
        cluster_kit_end(&w);
    }
}

/* A server without our groups lets anybody read discovery, and so does not refuse everything. */
static void without_groups(void)
{
    struct cluster_kit w;

    begin_asserting(&w, 1000000);
    kube_forbid(w.local, "/api/v1/namespaces", 403);
    kube_forbid_watches(w.local, 403);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 15000);
    ok(says(&w, "answers 403 to system:masters"), "who refuses system:masters has not read the groups");
    cluster_kit_end(&w);
}

/* Who is not in system:masters may lack rights, and who has them may be refused one thing. */
static void only_rights(void)
{
    static const char *const plain[] = {"system:authenticated", NULL};
    struct cluster_kit w;

    begin_asserting(&w, 1000000);
    w.opts.groups = plain;
    kube_forbid(w.local, "/", 403);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "403 without system:masters: ready");
    sim_run_ms(w.loop, 100000);
    ok(trusted(&w), "for good");
    cluster_kit_end(&w);
    begin_asserting(&w, 1000000);
    kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "403 for the Leases alone: ready");
    sim_run_ms(w.loop, 100000);
    ok(trusted(&w), "for good");
    cluster_kit_end(&w);
}

/* That it is over is told by whoever watches dates. */
static void expired(void)
{
    struct cluster_kit w;

    begin_asserting(&w, 60);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_forbid(w.local, "/", 401);
    sim_run_ms(w.loop, 50000);
    ok(!trusted(&w), "refused before its end: not believed");
    sim_run_ms(w.loop, 11000);
    ok(trusted(&w), "at its end: not said twice");
    sim_run_ms(w.loop, 10000);
    is_double(cluster_kit_metric(&w, "mvproxy_front_proxy_disbelieved", NULL), 0, "nor shown");
    cluster_kit_end(&w);
    begin_asserting(&w, -1);
    kube_forbid(w.local, "/", 401);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "over from the start: its 401 is waited for by nobody");
    sim_run_ms(w.loop, 50000);
    ok(trusted(&w), "nor said twice");
    cluster_kit_end(&w);
}

/* Nobody is asserted: then 401 says nothing. */
static void without_pair(void)
{
    struct cluster_kit w;

    begin_asserting(&w, 1000000);
    cluster_kit_start(&w);
    kube_forbid(w.local, "/", 401);
    sim_run_ms(w.loop, 100000);
    ok(!trusted(&w), "refused");
    w.opts.front_until_s = 0;
    cluster_update(w.cluster, &w.opts);
    ok(trusted(&w), "a reload without a pair: well at once");
    sim_run_ms(w.loop, 100000);
    ok(trusted(&w), "for good");
    cluster_kit_end(&w);
}

int main(void)
{
    disbelieved();
    disbelieved_at_start();
    without_groups();
    only_rights();
    expired();
    without_pair();
    told();
    put_right_here();
    not_needed();
    put_right_there();
    each_word();
    foreign_clients();
    locked_out();
    named();
    late();
    without_memory();
    not_told();
    return tap_end();
}
