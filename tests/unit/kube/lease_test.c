/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"

#define ID "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe"
#define META "\"name\":\"" ID "\",\"namespace\":\"kube-system\",\"uid\":\"u-1\",\"resourceVersion\":\"77\","
#define LABELS                                                                                                         \
    "\"labels\":{\"apiserver.kubernetes.io/identity\":\"kube-apiserver\",\"kubernetes.io/hostname\":\"cp-a\"},"
#define NOTES "\"annotations\":{\"kubernetes.io/peer-advertise-address\":\"10.0.0.2:6443\",\"x\":\"y\"}"
#define SPEC                                                                                                           \
    "\"spec\":{\"holderIdentity\":\"" ID                                                                               \
    "_b\",\"leaseDurationSeconds\":3600,\"renewTime\":\"2026-11-21T05:11:35.303239Z\"}"
#define WHOLE                                                                                                          \
    "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{" META LABELS NOTES "}," SPEC "}"

static void test_parse(struct arena *a)
{
    struct lease l;
    struct err err = {""};
    int64_t renewed;

    ok(lease_parse(a, SLICE_LIT(WHOLE), &l, &err), "a Lease parses: %s", err.text);
    is_slice(l.name, ID, "name");
    is_slice(l.ns, "kube-system", "namespace");
    is_slice(l.uid, "u-1", "uid");
    is_slice(l.resource_version, "77", "resourceVersion");
    is_slice(l.identity_label, "kube-apiserver", "identity label");
    is_slice(l.hostname_label, "cp-a", "hostname label");
    is_slice(l.advertise, "10.0.0.2:6443", "annotation");
    is_slice(l.holder, ID "_b", "holder");
    ok(l.has_duration && l.duration_s == 3600, "duration");
    ok(clock_parse_rfc3339(SLICE_LIT("2026-11-21T05:11:35.303239Z"), &renewed) && l.has_renew_time &&
           l.renew_us == renewed,
       "renewTime");
    ok(lease_parse(a, SLICE_LIT("{\"metadata\":{\"name\":\"x\"}}\n"), &l, &err), "a bare one parses");
    ok(l.holder.p != NULL && l.holder.n == 0 && !l.has_duration && !l.has_renew_time, "with nothing in it");
    ok(lease_parse(a, SLICE_LIT("{\"metadata\":{\"name\":\"x\",\"labels\":null,\"annotations\":null},\"spec\":null}"),
                   &l, &err),
       "nulls are absent");
    is_slice(l.advertise, "", "nothing");
    ok(lease_parse(a, SLICE_LIT("{\"metadata\":{\"name\":\"x\"},\"spec\":{\"holderIdentity\":\"x_1\\u0000y\"}}"), &l,
                   &err),
       "a NUL in a text");
    is_slice(l.holder, "x_1", "ends it");
}

/* What anybody may put there is not looked at; what is too large for an identity is none. */
static void test_large(struct arena *a)
{
    static char text[LIMIT_LEASE_BYTES + 100];
    struct lease l;
    struct err err = {""};
    size_t n = (size_t)snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"x\",\"managedFields\":[");

    memset(text + n, '[', 50);
    memset(text + n + 50, ']', 50);
    n += 100;
    n += (size_t)snprintf(text + n, sizeof(text) - n, "],\"namespace\":\"s\"}}");
    ok(lease_parse(a, slice_of(text, n), &l, &err), "fifty levels of managed fields: %s", err.text);
    is_slice(l.ns, "s", "and what stands behind them");
    memset(text + n, ' ', sizeof(text) - n);
    arena_reset(a);
    ok(lease_parse(a, slice_of(text, LIMIT_LEASE_BYTES), &l, &err), "16 KiB are a Lease");
    ok(!lease_parse(a, slice_of(text, LIMIT_LEASE_BYTES + 1), &l, &err), "a byte more is none");
    is_str(err.text, "a Lease of more than 16 KiB", "and why");
}

static void test_refused(struct arena *a)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "not JSON"},
        {"{", "not JSON"},
        {"[]", "not a JSON object"},
        {"null", "JSON"},
        {"{}", "without a name"},
        {"{\"metadata\":{\"name\":\"\"}}", "without a name"},
        {"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}", "not a Lease"},
        {"{\"kind\":3,\"metadata\":{\"name\":\"x\"}}", "kind is not a string"},
        {"{\"metadata\":[]}", "metadata is not an object"},
        {"{\"metadata\":{\"name\":7}}", "name is not a string"},
        {"{\"metadata\":{\"name\":\"x\",\"labels\":[]}}", "labels is not an object"},
        {"{\"metadata\":{\"name\":\"x\",\"labels\":{\"apiserver.kubernetes.io/identity\":1}}}", "is not a string"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":1}", "spec is not an object"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"leaseDurationSeconds\":\"1\"}}", "not an integer"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"leaseDurationSeconds\":1.5}}", "not an integer"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"leaseDurationSeconds\":-1}}", "out of range"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"leaseDurationSeconds\":99999999999}}", "out of range"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"renewTime\":\"now\"}}", "not a time"},
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{\"renewTime\":5}}", "not a string"},
        {"{\"metadata\":{\"name\":\"x\"}} x", "JSON"},
        {"{\"metadata\":{\"name\":\"\xff\"}}", "not JSON"},
    };
    struct arena *tiny = arena_new(8);
    struct lease l;
    struct err err;

    for (size_t i = 0; i < ROWS(rows); i++) {
        err_clear(&err);
        ok(!lease_parse(a, slice_str(rows[i].text), &l, &err), "refused: %s", rows[i].text);
        ok(strstr(err.text, rows[i].why) != NULL, "because '%s' (said: '%s')", rows[i].why, err.text);
    }
    if (tiny != NULL) {
        err_clear(&err);
        ok(!lease_parse(tiny, SLICE_LIT(WHOLE), &l, &err) && strstr(err.text, "memory") != NULL, "short of memory");
        arena_free(tiny);
    }
}

static void test_identity(void)
{
    const struct lease good = {
        .ns = SLICE_LIT("kube-system"),
        .name = SLICE_LIT(ID),
        .identity_label = SLICE_LIT("kube-apiserver"),
        .holder = SLICE_LIT(ID "_b"),
    };
    struct lease l = good;

    is_null(lease_refusal(&l), "an identity Lease");
    l.name = SLICE_LIT("apiserver-07a5ea9b9b072c4a5f3d1c3702");
    l.holder = SLICE_LIT("apiserver-07a5ea9b9b072c4a5f3d1c3702_0c8914f7");
    is_null(lease_refusal(&l), "of 1.26, with hex digits");
    l.name = SLICE_LIT("kube-apiserver-c4vwjftbvpc5os2vvzle4qg27a");
    l.holder = SLICE_LIT("kube-apiserver-c4vwjftbvpc5os2vvzle4qg27a_1");
    is_null(lease_refusal(&l), "of before, with the older prefix");
    {
        char id[LEASE_NAME_BYTES];

        l.hostname_label = SLICE_LIT("kind-control-plane");
        l.identity_label = SLICE_LIT("");
        l.component_label = SLICE_LIT("kube-apiserver");
        is_null(lease_refusal(&l), "with the label of 1.26");
        ok(lease_is_126(&l), "that version's");
        lease_server_id(&l, id);
        is_str(id, "apiserver-c7uylvfxlbqccnk6myfkwetzze", "stands for the server that the host always has");
        l.hostname_label = SLICE_LIT("other");
        lease_server_id(&l, id);
        is_str(id, "kube-apiserver-c4vwjftbvpc5os2vvzle4qg27a", "but only under the name of that host");
    }
    {
        static const char *const holders[] = {"", ID "_", "somebody", "other_b"};

        for (size_t i = 0; i < ROWS(holders); i++) {
            l = good;
            l.holder = slice_str(holders[i]);
            ok(lease_refusal(&l) != NULL, "the holder \"%s\" is not such a Lease's", holders[i]);
            l.name = SLICE_LIT("apiserver-c7uylvfxlbqccnk6myfkwetzze");
            l.hostname_label = SLICE_LIT("kind-control-plane");
            is_null(lease_refusal(&l), "but stays in that of the host that it is named by");
            l.hostname_label = SLICE_LIT("other");
            ok(lease_refusal(&l) != NULL, "not of another host");
            l.name = SLICE_LIT("kube-apiserver-c4vwjftbvpc5os2vvzle4qg27a");
            l.hostname_label = SLICE_LIT("kind-control-plane");
            is_null(lease_refusal(&l), "as it does in 1.26");
        }
    }
#define REFUSED(field, value, name)                                                                                    \
    do {                                                                                                               \
        l = good;                                                                                                      \
        l.field = SLICE_LIT(value);                                                                                    \
        ok(lease_refusal(&l) != NULL, "refused: %s", name);                                                            \
    } while (0)
    REFUSED(ns, "default", "another namespace");
    REFUSED(ns, "", "no namespace");
    REFUSED(identity_label, "", "no label");
    REFUSED(identity_label, "kube-controller-manager", "another component");
    REFUSED(name, "apiserver-", "only the prefix");
    REFUSED(name, "apiserver-../x", "a name with a path");
    REFUSED(name, "apiserver-A", "a name with capitals");
    REFUSED(name, "cp-a", "any other name");
    REFUSED(name, "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a name too long");
    REFUSED(holder, "", "no holder");
    REFUSED(holder, ID, "a holder that is only the name");
    REFUSED(holder, ID "_", "a holder without its random part");
    REFUSED(holder, ID "x_b", "a holder with another name");
    REFUSED(holder, "other_b", "somebody else's holder");
}

static void test_expiry(void)
{
    struct lease l = {.has_duration = true, .has_renew_time = true, .duration_s = 10, .renew_us = 1000000};

    ok(!lease_expired(&l, 11000000), "at its end it still holds");
    ok(lease_expired(&l, 11000001), "a microsecond later it does not");
    l.has_renew_time = false;
    ok(lease_expired(&l, 0), "never renewed");
    l.has_renew_time = true;
    l.has_duration = false;
    ok(lease_expired(&l, 0), "no duration");
    l = (struct lease){
        .has_duration = true, .has_renew_time = true, .duration_s = INT32_MAX, .renew_us = INT64_MAX - 5};
    ok(!lease_expired(&l, INT64_MAX), "no overflow");
}

static void test_print(struct arena *a)
{
    struct lease l, back;
    struct err err = {""};
    struct buf out;

    buf_init(&out, 8192);
    if (!lease_parse(a, SLICE_LIT(WHOLE), &l, &err))
        tap_bail("%s", err.text);
    ok(lease_print(&l, &out), "printed");
    ok(lease_parse(a, buf_slice(&out), &back, &err), "and read back: %s", err.text);
    ok(slice_eq(l.name, back.name) && slice_eq(l.ns, back.ns) && slice_eq(l.uid, back.uid) &&
           slice_eq(l.holder, back.holder) && slice_eq(l.resource_version, back.resource_version) &&
           slice_eq(l.identity_label, back.identity_label) && slice_eq(l.hostname_label, back.hostname_label) &&
           slice_eq(l.advertise, back.advertise) && l.duration_s == back.duration_s && l.renew_us == back.renew_us,
       "the same");
    l.uid = l.resource_version = l.advertise = l.hostname_label = SLICE_LIT("");
    l.has_renew_time = false;
    buf_reset(&out);
    ok(lease_print(&l, &out), "a new one is printed");
    is_slice(buf_slice(&out),
             "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"" ID
             "\",\"namespace\":\"kube-system\",\"labels\":{\"apiserver.kubernetes.io/"
             "identity\":\"kube-apiserver\"}},\"spec\":{"
             "\"holderIdentity\":\"" ID "_b\",\"leaseDurationSeconds\":3600}}\n",
             "without preconditions");
    l.resource_version = SLICE_LIT("78");
    l.has_renew_time = true;
    l.renew_us = 0;
    buf_reset(&out);
    ok(lease_print_renewal(&l, &out), "a renewal is printed");
    is_slice(buf_slice(&out),
             "{\"metadata\":{\"labels\":{\"apiserver.kubernetes.io/"
             "identity\":\"kube-apiserver\"},\"resourceVersion\":\"78\"},\"spec\":{"
             "\"holderIdentity\":\"" ID
             "_b\",\"leaseDurationSeconds\":3600,\"renewTime\":\"1970-01-01T00:00:00.000000Z\"}}\n",
             "as a merge patch");
    l.uid = SLICE_LIT("u\"1");
    buf_reset(&out);
    ok(lease_print_delete(&l, &out), "a deletion is printed");
    is_slice(buf_slice(&out),
             "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"preconditions\":{\"uid\":\"u\\\"1\","
             "\"resourceVersion\":\"78\"}}\n",
             "with its preconditions");
    buf_free(&out);
}

int main(void)
{
    struct arena *a = arena_new(1 << 20);

    test_parse(a);
    test_large(a);
    test_refused(a);
    test_identity();
    test_expiry();
    test_print(a);
    arena_free(a);
    return tap_end();
}
