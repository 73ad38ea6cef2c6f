/* SPDX-License-Identifier: Apache-2.0 */
/* Answers are those of etcd 3.4.23, as they came over its gateway, in pieces of every size. */
#include "kube/etcd_cut.h"

#include "base/base64.h"
#include "lib/tap.h"

#define HEADER                                                                                                         \
    "\"header\":{\"cluster_id\":\"2037210783374497686\",\"member_id\":\"13195394291058371180\",\"revision\":\"299\","  \
    "\"raft_term\":\"2\"}"
#define KV                                                                                                             \
    "{\"key\":\"L2Ev\",\"create_revision\":\"298\",\"mod_revision\":\"299\",\"version\":\"2\",\"value\":\"dmFsdWU=\"," \
    "\"lease\":\"77\"}"
#define EVENTS "{\"kv\":" KV "},{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2Ev\",\"mod_revision\":\"352\"}}"

enum { TOLD_BYTES = 1000, MANY = 1000 };

/* What was told, as text. */
struct told {
    struct buf text;
    size_t keys, refuse_at; /* 0: none */
    bool refuse_head;
};

static bool on_head(void *arg, const struct etcd_head *h)
{
    struct told *t = arg;

    buf_printf(&t->text, "[%llu%s%.*s]", (unsigned long long)h->header.revision, h->canceled ? " canceled " : "",
               (int)h->reason.n, h->reason.p);
    return !t->refuse_head;
}

static bool on_kv(void *arg, const struct etcd_kv *kv)
{
    struct told *t = arg;

    if (t->keys++ < 3)
        buf_printf(&t->text, "%.*s=%.*s %llu %llu%s%s;", (int)kv->key.n, kv->key.p, (int)kv->value.n, kv->value.p,
                   (unsigned long long)kv->lease, (unsigned long long)kv->revision, kv->deleted ? " deleted" : "",
                   kv->too_large ? " too large" : "");
    return t->keys != t->refuse_at;
}

static const struct etcd_cut_handler handler = {.on_head = on_head, .on_kv = on_kv};

/* Ends with "!" and what is wrong. */
static void cut(struct told *t, bool watch, struct slice answer, size_t piece)
{
    struct etcd_cut c;
    bool good = true;

    t->keys = 0;
    buf_init(&t->text, TOLD_BYTES);
    etcd_cut_begin(&c, watch, &handler, t);
    for (size_t at = 0, n; good && at < answer.n; at += n) {
        n = answer.n - at < piece ? answer.n - at : piece;
        good = etcd_cut_feed(&c, slice_of(answer.p + at, n));
    }
    if (!good || !etcd_cut_end(&c))
        buf_printf(&t->text, "!%s", c.err.text);
    etcd_cut_free(&c);
}

static const struct {
    const char *name, *answer, *want;
    bool watch;
} rows[] = {
    {"a range", "{" HEADER ",\"kvs\":[" KV "," KV "],\"count\":\"2\"}", "[299]/a/=value 77 299;/a/=value 77 299;",
     false},
    {"of nothing", "{" HEADER "}", "[299]", false},
    {"an empty one", "{" HEADER ",\"kvs\":[]}", "[299]", false},
    {"no answer", "", "!not an answer of etcd: not JSON: truncated", false},
    {"of somebody else", "<html>", "!not an answer of etcd: not JSON: a value was expected", false},
    {"keys that are no list", "{" HEADER ",\"kvs\":{}}", "!", false},
    {"keys that were not found", "{" HEADER ",\"k\\u0076s\":[" KV "]}", "!", false},
    {"keys before the header", "{\"kvs\":[" KV "]," HEADER "}", "!not an answer of etcd: no usable header", false},
    {"a range that was cut", "{" HEADER ",\"kvs\":[" KV, "!", false},
    {"one behind the keys", "{" HEADER ",\"kvs\":[" KV "]",
     "[299]/a/=value 77 299;!not an answer of etcd: not JSON: truncated", false},
    {"a number", "{" HEADER ",\"kvs\":[7]}", "!not an answer of etcd: an element is no object", false},
    {"no key", "{" HEADER ",\"kvs\":[{\"key\":7}]}",
     "!not an answer of etcd: a key or value that is not base64, or too long", false},
    {"no base64", "{" HEADER ",\"kvs\":[{\"key\":\"L2E\"}]}",
     "!not an answer of etcd: a key or value that is not base64, or too long", false},
    {"an escape", "{" HEADER ",\"kvs\":[{\"key\":\"\\u0041\"}]}",
     "!not an answer of etcd: a key or value that is not base64, or too long", false},
    {"no value", "{" HEADER ",\"kvs\":[{\"key\":\"L2Ev\",\"value\":\"*\"}]}",
     "!not an answer of etcd: a key or value that is not base64, or too long", false},
    {"no lease", "{" HEADER ",\"kvs\":[{\"key\":\"L2Ev\",\"lease\":\"-7\"}]}",
     "!not an answer of etcd: a number out of range", false},
    {"no revision", "{" HEADER ",\"kvs\":[{\"key\":\"L2Ev\",\"mod_revision\":[]}]}",
     "!not an answer of etcd: a number out of range", false},
    {"the first line of a watch", "{\"result\":{" HEADER ",\"created\":true}}", "[299]", true},
    {"an empty line", "", "", true},
    {"events", "{\"result\":{" HEADER ",\"events\":[" EVENTS "]}}", "[299]/a/=value 77 299;/a/= 0 352 deleted;", true},
    {"a watch that ends", "{\"result\":{" HEADER ",\"canceled\":true,\"cancel_reason\":\"x\"}}", "[299 canceled x]",
     true},
    {"an error", "{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}", "[0 canceled no leader]", true},
    {"an event without a key", "{\"result\":{" HEADER ",\"events\":[{}]}}",
     "!not an answer of etcd: an event without a key", true},
    {"events of somebody else", "{\"x\":{" HEADER ",\"events\":[" EVENTS "]}}", "!not an answer of etcd: no result",
     true},
};

/* Where only the beginning of what is wanted is given, the reason may be any. */
static bool is_wanted(struct slice told, const char *want)
{
    size_t n = strlen(want);

    return n > 0 && want[n - 1] == '!' ? told.n > n && slice_has_prefix(told, slice_str(want))
                                       : slice_eq(told, slice_str(want));
}

static void test_rows(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct slice answer = slice_str(rows[i].answer);
        bool same = true;
        struct told t = {.keys = 0};

        for (size_t piece = 1; same && piece <= answer.n + 1; piece++) {
            cut(&t, rows[i].watch, answer, piece);
            same = is_wanted(buf_slice(&t.text), rows[i].want);
            if (!same)
                diag("pieces of %zu: %.*s", piece, (int)buf_len(&t.text), t.text.p);
            buf_free(&t.text);
        }
        ok(same, "%s", rows[i].name);
    }
}

/* A turn of the loop reads what comes in, and not all of it when the last byte is there. */
static void test_at_once(void)
{
    struct told t = {.keys = 0};
    struct etcd_cut c;
    bool good, each = true;

    buf_init(&t.text, TOLD_BYTES);
    etcd_cut_begin(&c, false, &handler, &t);
    good = etcd_cut_feed(&c, SLICE_LIT("{" HEADER ",\"kvs\":[" KV));
    for (size_t i = 1; good && i < MANY; i++) {
        good = etcd_cut_feed(&c, SLICE_LIT("," KV));
        each = each && t.keys == i;
    }
    ok(good && each, "each of many keys is told when the next begins");
    ok(etcd_cut_feed(&c, SLICE_LIT("]}")) && etcd_cut_end(&c) && t.keys == MANY, "all of them");
    ok(buf_len(&c.list.items) == 0 && buf_len(&c.list.frame) < TOLD_BYTES, "and nothing is kept");
    etcd_cut_free(&c);
    buf_free(&t.text);
}

static void test_too_large(void)
{
    static const struct {
        const char *name, *begin, *end, *want;
        bool watch;
    } larges[] = {
        {"a range", "{" HEADER ",\"kvs\":[{\"key\":\"L2Ev\",\"mod_revision\":\"5\",\"value\":\"",
         "\",\"lease\":\"77\"}," KV "]}", "[299]/a/= 0 5 too large;/a/=value 77 299;", false},
        {"a watch", "{\"result\":{" HEADER ",\"events\":[{\"type\":\"PUT\",\"kv\":{\"key\":\"L2Ev\",\"value\":\"",
         "\"}}]}}", "[299]/a/= 0 0 too large;", true},
        {"a key", "{" HEADER ",\"kvs\":[{\"key\":\"", "\"}]}", "[299]= 0 0 too large;", false},
        {"no event", "{\"result\":{" HEADER ",\"events\":[{\"x\":\"", "\"}]}}",
         "!not an answer of etcd: a key is missing", true},
        {"no object", "{" HEADER ",\"kvs\":[\"", "\"]}", "!not an answer of etcd: a key is missing", false},
    };

    for (size_t i = 0; i < ROWS(larges); i++) {
        struct told t = {.keys = 0};
        struct buf answer;

        buf_init(&answer, 1 << 20);
        buf_append_str(&answer, larges[i].begin);
        for (size_t n = 0; n < 100000; n++)
            buf_append_str(&answer, "AAAA");
        buf_append_str(&answer, larges[i].end);
        cut(&t, larges[i].watch, buf_slice(&answer), 1000);
        is_slice(buf_slice(&t.text), larges[i].want, "a value of a megabyte: %s", larges[i].name);
        buf_free(&t.text);
        buf_free(&answer);
    }
}

static void test_refusing(void)
{
    const struct slice answer = SLICE_LIT("{" HEADER ",\"kvs\":[" KV "," KV "," KV "]}");
    struct told t = {.refuse_head = true};

    cut(&t, false, answer, answer.n);
    is_slice(buf_slice(&t.text), "[299]!", "who refuses the head gets nothing");
    buf_free(&t.text);
    t = (struct told){.refuse_at = 2};
    cut(&t, false, answer, answer.n);
    is_slice(buf_slice(&t.text), "[299]/a/=value 77 299;/a/=value 77 299;!", "nor what is behind a key");
    buf_free(&t.text);
}

int main(void)
{
    test_rows();
    test_at_once();
    test_too_large();
    test_refusing();
    return tap_end();
}
