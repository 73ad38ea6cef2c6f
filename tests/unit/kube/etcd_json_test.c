/* SPDX-License-Identifier: Apache-2.0 */
/* Answers are those of etcd 3.4.23, as they came over its gateway. */
#include "kube/etcd_json.h"

#include <stdio.h>

#include "lib/tap.h"

#define HEADER                                                                                                         \
    "\"header\":{\"cluster_id\":\"2037210783374497686\",\"member_id\":\"13195394291058371180\",\"revision\":\"299\","  \
    "\"raft_term\":\"2\"}"
#define KV                                                                                                             \
    "{\"key\":\"L2Ev\",\"create_revision\":\"298\",\"mod_revision\":\"299\",\"version\":\"2\",\"value\":\"dmFsdWU=\"," \
    "\"lease\":\"77\"}"

static void test_requests(void)
{
    struct etcd_put put = {.key = SLICE_LIT("/a/"), .value = SLICE_LIT("value"), .lease = 77};
    struct buf b;

    buf_init(&b, 4096);
    ok(etcd_print_range(&b, SLICE_LIT("/a/"), 1001), "range");
    is_slice(buf_slice(&b), "{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"limit\":\"1001\"}", "of a prefix");
    buf_reset(&b);
    ok(etcd_print_watch(&b, SLICE_LIT("/a/"), 300), "watch");
    is_slice(buf_slice(&b), "{\"create_request\":{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"start_revision\":\"300\"}}",
             "of a prefix from a revision on");
    buf_reset(&b);
    ok(etcd_print_grant(&b, 15), "grant");
    is_slice(buf_slice(&b), "{\"TTL\":\"15\"}", "of a lease");
    buf_reset(&b);
    ok(etcd_print_lease(&b, 7668682379436570474), "keepalive");
    is_slice(buf_slice(&b), "{\"ID\":\"7668682379436570474\"}", "of a lease");
    buf_reset(&b);
    ok(etcd_print_put(&b, &put), "put");
    is_slice(buf_slice(&b),
             "{\"compare\":[{\"key\":\"L2Ev\",\"result\":\"EQUAL\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
             "\"success\":[{\"request_put\":{\"key\":\"L2Ev\",\"value\":\"dmFsdWU=\",\"lease\":\"77\"}}],"
             "\"failure\":[{\"request_range\":{\"key\":\"L2Ev\"}}]}",
             "where there is none");
    put.condition = ETCD_IF_LEASE;
    put.expected = 77;
    buf_reset(&b);
    ok(etcd_print_put(&b, &put) && strstr(b.p, "\"target\":\"LEASE\",\"lease\":\"77\"}]") != NULL, "where it is ours");
    put.condition = ETCD_IF_REVISION;
    put.expected = 5;
    buf_reset(&b);
    ok(etcd_print_put(&b, &put) && strstr(b.p, "\"target\":\"MOD\",\"mod_revision\":\"5\"}]") != NULL,
       "where nobody has written since");
    buf_free(&b);
    buf_init(&b, 20);
    ok(!etcd_print_put(&b, &put), "the ceiling holds");
    buf_free(&b);
}

static void test_headers(void)
{
    static const char *const refused[] = {
        "",
        "null",
        "[]",
        "{}",
        "<html>",
        "{\"header\":7}",
        "{\"header\":{}}",
        "{\"header\":{\"cluster_id\":\"0\"}}",
        "{\"header\":{\"cluster_id\":\"-1\"}}",
        "{\"header\":{\"cluster_id\":\"18446744073709551616\"}}",
        "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"x\"}}",
        "{" HEADER "}{",
        "{" HEADER,
        "{\"result\":{}}",
    };
    struct etcd_header h;
    struct err err;

    err_clear(&err);
    ok(etcd_read_header(SLICE_LIT("{" HEADER "}"), &h, &err), "an answer: %s", err.text);
    is_u64(h.cluster, 2037210783374497686u, "cluster");
    is_u64(h.member, 13195394291058371180u, "member");
    is_u64(h.revision, 299, "revision");
    ok(etcd_read_header(SLICE_LIT("{\"result\":{" HEADER "}}\n"), &h, &err) && h.revision == 299, "one of a stream");
    ok(etcd_read_header(SLICE_LIT("{\"header\":{\"cluster_id\":5}}"), &h, &err) && h.cluster == 5, "plain numbers");
    for (size_t i = 0; i < ROWS(refused); i++) {
        err_clear(&err);
        ok(!etcd_read_header(slice_str(refused[i]), &h, &err) && err_is_set(&err), "no answer: %s (%s)", refused[i],
           err.text);
    }
}

static void test_errors(void)
{
    static const struct {
        const char *text, *said;
        uint64_t code;
    } rows[] = {
        {"{\"error\":\"etcdserver: requested lease not found\",\"message\":\"etcdserver: requested lease not "
         "found\",\"code\":5}",
         "etcdserver: requested lease not found", 5},
        {"{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no "
         "leader\",\"http_status\":\"Service "
         "Unavailable\"}}",
         "etcdserver: no leader", 14},
        {"{\"error\":\"only this\"}", "only this", 0},
        {"{\"code\":\"x\"}", "", 0},
        {"Not Found\n", "", 0},
        {"", "", 0},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        uint64_t code = 99;

        is_slice(etcd_read_error(slice_str(rows[i].text), &code), rows[i].said, "says: %s", rows[i].text);
        is_u64(code, rows[i].code, "and its code");
    }
}

static void test_leases(void)
{
    uint64_t id, ttl;

    ok(etcd_read_lease(SLICE_LIT("{" HEADER ",\"ID\":\"77\",\"TTL\":\"15\"}"), &id, &ttl) && id == 77 && ttl == 15,
       "granted");
    ok(etcd_read_lease(SLICE_LIT("{\"result\":{" HEADER ",\"ID\":\"77\",\"TTL\":\"14\"}}\n"), &id, &ttl) && ttl == 14,
       "kept");
    ok(etcd_read_lease(SLICE_LIT("{\"result\":{" HEADER ",\"ID\":\"77\"}}\n"), &id, &ttl) && ttl == 0,
       "expired: no TTL");
    ok(!etcd_read_lease(SLICE_LIT("{" HEADER "}"), &id, &ttl), "no lease");
    ok(!etcd_read_lease(SLICE_LIT("{\"ID\":[]}"), &id, &ttl), "no number");
    ok(!etcd_read_lease(SLICE_LIT("{\"ID\":\"77\""), &id, &ttl), "cut");
}

static void test_puts(void)
{
    static const struct {
        const char *name, *more; /* behind the header */
        enum etcd_put_result want;
    } rows[] = {
        {"it put", ",\"succeeded\":true,\"responses\":[{\"response_put\":{\"header\":{\"revision\":\"298\"}}}]",
         ETCD_PUT_DONE},
        {"nothing is there", ",\"responses\":[{\"response_range\":{\"header\":{}}}]", ETCD_PUT_NO_KEY},
        {"nor in the list", ",\"responses\":[{\"response_range\":{\"kvs\":[]}}]", ETCD_PUT_NO_KEY},
        {"it did not, and says what is there",
         ",\"responses\":[{\"response_range\":{\"header\":{\"revision\":\"299\"},\"kvs\":[" KV "],\"count\":\"1\"}}]",
         ETCD_PUT_OTHER},
        {"no responses", "", ETCD_PUT_MALFORMED},
        {"an empty list of them", ",\"responses\":[]", ETCD_PUT_MALFORMED},
        {"the wrong one", ",\"responses\":[{\"response_put\":{}}]", ETCD_PUT_MALFORMED},
        {"keys that are no list", ",\"responses\":[{\"response_range\":{\"kvs\":{}}}]", ETCD_PUT_MALFORMED},
        {"a number among them", ",\"responses\":[{\"response_range\":{\"kvs\":[7]}}]", ETCD_PUT_MALFORMED},
        {"a key that is none", ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":7}]}}]", ETCD_PUT_MALFORMED},
    };
    struct etcd_kv_text text;
    struct etcd_kv kv = {.lease = 0};
    char json[512];
    struct err err;

    etcd_kv_text_init(&text);
    for (size_t i = 0; i < ROWS(rows); i++) {
        err_clear(&err);
        (void)snprintf(json, sizeof(json), "{" HEADER "%s}", rows[i].more);
        ok(etcd_read_put(slice_str(json), &text, &kv, &err) == rows[i].want &&
               err_is_set(&err) == (rows[i].want == ETCD_PUT_MALFORMED) &&
               (rows[i].want != ETCD_PUT_OTHER || kv.lease == 77),
           "%s: %s", rows[i].name, err.text);
    }
    etcd_kv_text_free(&text);
}

/* What stands around keys and events, which etcd_cut takes away. */
static void test_heads(void)
{
    struct etcd_head h;
    struct err err = {""};

    ok(etcd_read_head(SLICE_LIT("{\"result\":{" HEADER ",\"created\":true}}"), true, &h, &err) && !h.canceled &&
           h.header.revision == 299,
       "the first of a watch");
    ok(etcd_read_head(SLICE_LIT("{" HEADER ",\"kvs\":[],\"count\":\"2\"}"), false, &h, &err) &&
           h.header.revision == 299,
       "a range");
    ok(etcd_read_head(SLICE_LIT("{\"result\":{" HEADER
                                ",\"canceled\":true,\"compact_revision\":\"338\",\"cancel_reason\":"
                                "\"x\"}}"),
                      true, &h, &err) &&
           h.canceled && h.compacted == 338,
       "compacted");
    is_slice(h.reason, "x", "with its reason");
    ok(etcd_read_head(SLICE_LIT("{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}"), true, &h,
                      &err) &&
           h.canceled,
       "an error ends it");
    is_slice(h.reason, "etcdserver: no leader", "and says why");
    ok(!etcd_read_head(SLICE_LIT("{}"), true, &h, &err), "nothing");
    ok(!etcd_read_head(SLICE_LIT("{\"result\":{\"created\":true}}"), true, &h, &err), "without a header");
    ok(!etcd_read_head(SLICE_LIT("{" HEADER ",\"kvs\":{}}"), false, &h, &err), "keys that are no list");
    ok(!etcd_read_head(SLICE_LIT("{" HEADER ",\"kvs\":[7]}"), false, &h, &err), "keys where there must be none");
    ok(!etcd_read_head(SLICE_LIT("{\"result\":{" HEADER ",\"compact_revision\":[]}}"), true, &h, &err), "no number");
}

int main(void)
{
    test_requests();
    test_headers();
    test_errors();
    test_leases();
    test_puts();
    test_heads();
    return tap_end();
}
