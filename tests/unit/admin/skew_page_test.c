/* SPDX-License-Identifier: Apache-2.0 */
/* The skew of versions on the status page: what is told, to whom it is opened, and how much of it there can be. */
#include "admin/skew_page.h"

#include <stdio.h>

#include "admin/skew.h"
#include "admin/status.h"
#include "base/clock.h"
#include "cluster/comparison.h"
#include "kube/disco.h"
#include "lib/disco_text.h"
#include "lib/tap.h"

enum { SERVERS = 100, GROUPS = 500, CEILING = 32 << 20, PIECE = 1 << 20 };

static void put_named(struct buf *b, const char *name, const char *singular, const char *verbs, const char *more)
{
    buf_printf(b,
               "{\"resource\":\"%s\",\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"K\"},"
               "\"scope\":\"Namespaced\",\"singularResource\":\"%s\",\"verbs\":[%s]%s}",
               name, singular, verbs, more);
}

static void put_resource(struct buf *b, const char *name, const char *verbs, const char *more)
{
    put_named(b, name, "k", verbs, more);
}

static void put_group(struct buf *b, const char *group, void (*resources)(struct buf *b))
{
    if (b->p[buf_len(b) - 1] == '}')
        buf_append_char(b, ',');
    buf_printf(b, "{\"metadata\":{\"name\":\"%s\"},\"versions\":[{\"version\":\"v1\",\"resources\":[", group);
    resources(b);
    buf_append_str(b, "],\"freshness\":\"Current\"}]}");
}

static void begin(struct buf *b)
{
    buf_init(b, CEILING);
    buf_append_str(b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                      "\"items\":[");
}

static struct disco *end(struct buf *b)
{
    struct disco *d;

    buf_append_str(b, "]}");
    d = disco_of_docs(NULL, disco_doc_of(buf_slice(b)));
    buf_free(b);
    return d;
}

static void older(struct buf *b)
{
    put_resource(b, "widgets", "\"get\",\"list\"", "");
}

/* As a server before 1.27. */
static void unnamed(struct buf *b)
{
    put_named(b, "widgets", "", "\"get\",\"list\"", "");
}

static void oldest(struct buf *b)
{
    older(b);
    buf_append_char(b, ',');
    put_named(b, "gizmos", "", "\"get\"", "");
}

static void newer(struct buf *b)
{
    put_resource(b, "widgets", "\"get\",\"list\",\"watch\"",
                 ",\"subresources\":[{\"subresource\":\"scale\",\"verbs\":[\"update\"]}]");
    buf_append_char(b, ',');
    put_resource(b, "gadgets<b>", "\"get\"", "");
}

static void newest(struct buf *b)
{
    newer(b);
    buf_append_char(b, ',');
    put_resource(b, "gizmos", "\"get\"", "");
}

/* The whole section; *pieces of it, *longest of them. */
static void make(struct served *s, struct buf *out, size_t *pieces, size_t *longest)
{
    struct skew_page *p = skew_page_new(s, "1 of 2 <b>", "local");
    bool more = true;

    if (p == NULL)
        tap_bail("out of memory");
    buf_init(out, CEILING);
    for (*pieces = *longest = 0; more; (*pieces)++) {
        size_t before = buf_len(out);

        more = skew_page_more(p, out);
        if (buf_len(out) - before > *longest)
            *longest = buf_len(out) - before;
    }
    skew_page_free(p);
    buf_append_char(out, '\0');
    ok(!out->failed, "it fits");
}

static bool has(const struct buf *b, const char *text)
{
    if (strstr(b->p, text) != NULL)
        return true;
    diag("not found: %s", text);
    return false;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

static void test_small(void)
{
    struct disco *a, *b;
    struct served_peer peers[2];
    struct served_input in;
    struct served *s;
    struct buf text;
    size_t pieces, longest;

    begin(&text);
    put_group(&text, "apps", oldest);
    put_group(&text, "alike.example", unnamed);
    put_group(&text, "same.example", older);
    a = end(&text);
    begin(&text);
    put_group(&text, "apps", newest);
    put_group(&text, "alike.example", older);
    put_group(&text, "new<i>.example", older);
    put_group(&text, "same.example", older);
    b = end(&text);
    peers[0] = (struct served_peer){.id = "apiserver-b", .host = "cp<b>", .disco = b};
    peers[1] = (struct served_peer){.id = "apiserver-c"};
    in = (struct served_input){.local_id = "apiserver-a",
                               .local_host = "cp-a",
                               .local_etag = {SLICE_LIT("")},
                               .local = a,
                               .peers = peers,
                               .n_peers = 2};
    s = served_new(&in);
    make(s, &text, &pieces, &longest);
    ok(has(&text, "<th scope=\"col\"><bdi>cp-a</bdi></th><th scope=\"col\"><bdi>apiserver-c</bdi></th>"
                  "<th scope=\"col\"><bdi>cp&lt;b&gt;</bdi></th>"),
       "a column for each server, this one first, the others by host name");
    ok(has(&text,
           "<th scope=\"row\"><bdi>apps/v1</bdi></th><td class=\"good\">A</td><td class=\"dim\">?</td><td>B</td>"),
       "both serve it, described differently");
    ok(has(&text, "<th scope=\"row\"><bdi>new&lt;i&gt;.example/v1</bdi></th><td class=\"warning\">no</td>"
                  "<td class=\"dim\">?</td><td class=\"good\">yes</td>"),
       "one lacks it");
    ok(has(&text,
           "<th scope=\"row\"><bdi>widgets</bdi></th><td>get list</td><td>get list watch<br>/scale: update</td>"),
       "opened: verbs and subresources");
    ok(has(&text, "<th scope=\"row\"><bdi>gadgets&lt;b&gt;</bdi></th><td class=\"warning\">no</td><td>get</td>"),
       "and resources");
    ok(has(&text, "<li>A is served by: <bdi>cp-a</bdi></li>") &&
           has(&text, "<li>not known of: <bdi>apiserver-c</bdi></li>"),
       "which server is which");
    ok(has(&text,
           "<summary>2 group/versions are the same, with their schemas, on all servers that were read</summary>") &&
           has(&text, "<li><bdi>same.example/v1</bdi></li>"),
       "what is the same is only named");
    ok(has(&text, "<li><bdi>alike.example/v1</bdi></li>") && strstr(text.p, "gizmos") == NULL,
       "and what lacks nothing but a singular name");
    ok(has(&text, "<p>Skew: 1 of 2 &lt;b&gt;. skewed-resources is local.</p>"), "how many is what the status says");
    buf_free(&text);
    served_unref(s);
    disco_unref(a);
    disco_unref(b);
}

enum { COMPARED = 200 };
static const char *verb;

static void more_than_compared(struct buf *b)
{
    char name[32];

    for (int i = 0; i <= COMPARED; i++) {
        (void)snprintf(name, sizeof(name), "%sthing-%03d", i > 0 ? "" : "first-", i);
        put_resource(b, name, verb, "");
        if (i < COMPARED)
            buf_append_char(b, ',');
    }
}

/* Of one group/version so many resources are compared and no more. */
static void test_resources(void)
{
    struct served_peer peer = {.id = "apiserver-b"};
    struct served_input in = {.local_id = "apiserver-a", .local_etag = {SLICE_LIT("")}, .peers = &peer, .n_peers = 1};
    struct disco *docs[2];
    size_t pieces, longest;
    struct served *s;
    struct buf text;

    for (int i = 0; i < 2; i++) {
        verb = i == 0 ? "\"get\"" : "\"list\"";
        begin(&text);
        put_group(&text, "apps", more_than_compared);
        docs[i] = end(&text);
    }
    in.local = docs[0];
    peer.disco = docs[1];
    s = served_new(&in);
    make(s, &text, &pieces, &longest);
    is_u64(count_of(text.p, "thing-"), COMPARED, "those that are compared");
    ok(strstr(text.p, "thing-200") == NULL, "and not the last one");
    buf_free(&text);
    served_unref(s);
    disco_unref(docs[0]);
    disco_unref(docs[1]);
}

static void many(struct disco **even, struct disco **odd)
{
    char name[64];
    struct buf text;

    for (int side = 0; side < 2; side++) {
        begin(&text);
        for (int i = 0; i < GROUPS; i++) {
            (void)snprintf(name, sizeof(name), "group-%03d.example", i);
            put_group(&text, name, side == 0 ? older : newer);
        }
        *(side == 0 ? even : odd) = end(&text);
    }
}

/* How many resources are not everywhere. No step is long, and all are in order. */
static size_t by_resource(struct served *s)
{
    struct skew *k = skew_new(s);
    uint64_t longest = 0, steps = 0, began = clock_us();
    struct skew_row row, before = {.n = 0};
    size_t uneven = 0;
    bool failed = false, all;

    if (k == NULL)
        tap_bail("out of memory");
    do {
        uint64_t since = clock_us();

        all = skew_gather(k, &failed);
        longest = clock_us() - since > longest ? clock_us() - since : longest;
        steps++;
    } while (!all && !failed);
    ok(!failed && steps > SERVERS, "in %llu steps", (unsigned long long)steps);
    for (size_t i = 0; i < skew_rows(k); i++) {
        skew_row(k, i, &row);
        uneven += row.uneven && row.n == SERVERS;
        if (i > 0 && slice_cmp(before.gvr.group, row.gvr.group) > 0)
            ok(false, "out of order at %zu", i);
        before = row;
    }
    diag("%zu resources in %llu us, gathered in steps of at most %llu us", skew_rows(k),
         (unsigned long long)(clock_us() - began), (unsigned long long)longest);
    skew_free(k);
    return uneven;
}

/* Each server has a group of its own: the order has something to do. */
static void test_different(void)
{
    struct served_peer peers[SERVERS - 1];
    struct disco *docs[SERVERS];
    struct served_input in = {.local_id = "apiserver-0", .local_etag = {SLICE_LIT("")}, .n_peers = SERVERS - 1};
    struct served *s;
    struct buf text;

    for (int i = 0; i < SERVERS; i++) {
        char name[64];

        begin(&text);
        for (int k = 0; k <= i % 7; k++) {
            (void)snprintf(name, sizeof(name), "g%d.%02d.example", (i * 37 + k) % SERVERS, k);
            put_group(&text, name, older);
        }
        (void)snprintf(name, sizeof(name), "own-%02d.example", (i * 61) % SERVERS);
        put_group(&text, name, newer);
        docs[i] = end(&text);
        if (i > 0)
            peers[i - 1] = (struct served_peer){.id = "apiserver-x", .disco = docs[i]};
    }
    in.local = docs[0];
    in.peers = peers;
    s = served_new(&in);
    ok(by_resource(s) > SERVERS, "each has some of its own");
    served_unref(s);
    for (int i = 0; i < SERVERS; i++)
        disco_unref(docs[i]);
}

/* As the cluster layer counts, for the status. */
static void compare(struct served *s, size_t *all, size_t *uneven)
{
    struct comparison *c = comparison_new(s, NULL);

    if (c == NULL)
        tap_bail("out of memory");
    while (comparison_step(c, 100) == STEP_MORE)
        continue;
    *all = comparison_result(c)->gvs;
    *uneven = comparison_result(c)->uneven;
    comparison_free(c);
}

/* Every group differs, on every second server: as bad as it gets. */
static void test_large(void)
{
    struct disco *even = NULL, *odd = NULL;
    struct served_peer peers[SERVERS - 1];
    struct served_input in = {.local_id = "apiserver-0", .local_etag = {SLICE_LIT("")}};
    static char ids[SERVERS][32];
    size_t pieces, longest, all, uneven;
    uint64_t began;
    struct served *s;
    struct buf text;

    many(&even, &odd);
    for (int i = 0; i < SERVERS - 1; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "control-plane-%02d", i + 1);
        peers[i] = (struct served_peer){.id = ids[i], .disco = i % 2 == 0 ? odd : even};
    }
    in.local = even;
    in.peers = peers;
    in.n_peers = SERVERS - 1;
    s = served_new(&in);
    began = clock_us();
    make(s, &text, &pieces, &longest);
    diag("%zu bytes in %zu pieces of at most %zu bytes, %llu us", buf_len(&text), pieces, longest,
         (unsigned long long)(clock_us() - began));
    compare(s, &all, &uneven);
    ok(all == GROUPS && uneven == GROUPS, "the status says the same as the page: %zu of %zu", uneven, all);
    is_u64(by_resource(s), GROUPS, "one in each group is not everywhere");
    ok(pieces > 10, "in many pieces");
    ok(longest < PIECE, "none of them long");
    ok(buf_len(&text) < 16 << 20, "the whole is bounded");
    is_u64(count_of(text.p, "<tr class=\"more\">"), GROUPS, "all of it is there");
    is_u64(count_of(text.p, "</summary>\n<div class=\"scroll\""), GROUPS / 25 - 1,
           "in tables, all but one of them closed");
    ok(count_of(text.p, "<details>") == count_of(text.p, "</details>") &&
           count_of(text.p, "<tbody>") == count_of(text.p, "</tbody>") &&
           count_of(text.p, "<div ") == count_of(text.p, "</div>"),
       "each of which ends");
    ok(has(&text, " and 38 more</li>"), "long lists of servers are counted");
    ok(strstr(text.p, "are the same, with their schemas") == NULL, "nothing is the same");
    buf_free(&text);
    served_unref(s);
    disco_unref(even);
    disco_unref(odd);
}

/* One that has begun says so. */
static void short_of_memory(struct served *s)
{
    unsigned said = 0;
    bool whole = false;

    for (uint64_t n = 1; !whole; n++) {
        struct skew_page *p = skew_page_new(s, "1 of 2 <b>", "local");
        struct buf out;

        buf_init(&out, CEILING);
        buf_append_str(&out, " "); /* its own memory is there */
        if (p == NULL || buf_reserve(&out, PIECE) == NULL)
            tap_bail("out of memory");
        mem_fail_nth(n);
        while (skew_page_more(p, &out))
            ;
        mem_fail_nth(0);
        buf_append_char(&out, '\0');
        said += strstr(out.p, "<p>Out of memory: the servers could not be compared.</p>\n</section>\n") != NULL;
        whole = said < n && strstr(out.p, "</section>\n") != NULL;
        if (!whole && said < n)
            ok(false, "place %llu: %s", (unsigned long long)n, out.p);
        skew_page_free(p);
        buf_free(&out);
    }
    ok(said > 0, "out of memory: which is said (%u places)", said);
}

static void test_memory(void)
{
    struct served_input in = {.local_id = "apiserver-0", .local_etag = {SLICE_LIT("")}};
    struct served *s = served_new(&in);
    struct skew_page *p;
    uint64_t n = 1;

    for (mem_fail_nth(n); (p = skew_page_new(s, "1 of 2 <b>", "local")) == NULL; mem_fail_nth(++n))
        ;
    mem_fail_nth(0);
    ok(n > 1, "without memory there is none (%llu places)", (unsigned long long)n);
    skew_page_free(p);
    short_of_memory(s);
    served_unref(s);
}

int main(void)
{
    test_small();
    test_resources();
    test_large();
    test_different();
    test_memory();
    return tap_end();
}
