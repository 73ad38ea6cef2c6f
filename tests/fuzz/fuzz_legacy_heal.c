/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy discovery of one server, completed: the merged document, a byte 0xff, the server's answer (none: it knows
 * nothing). Whatever comes in, what comes out is JSON, lacks nothing any more, and has every name that the answer had.
 * What is written as protobuf is an envelope around a message.
 */
#include "base/buf.h"
#include "base/limits.h"
#include "fuzz/fuzz.h"
#include "kube/disco_parse.h"
#include "kube/jscan.h"
#include "kube/legacy_heal.h"
#include "kube/legacy_proto.h"
#include "kube/pbread.h"

static enum legacy_heal heal(unsigned call, struct slice answer, const struct disco_doc *merged, struct buf *out)
{
    const struct disco_group *g = disco_doc_groups(merged);

    if (call == 0)
        return legacy_heal_groups(answer, merged, out);
    if (g == NULL || g->versions == NULL)
        return LEGACY_COMPLETE;
    return call == 1 ? legacy_heal_group(answer, g, out) : legacy_heal_resources(answer, g->versions, out);
}

/* Names in the lists of an object: as many as `in`, at least. */
static size_t names_in(struct slice object, struct slice list, struct slice key)
{
    struct jscan_value array, element, name;
    struct jscan s;
    size_t n = 0;
    bool first;

    if (object.n == 0 || !jscan_get(object, list, &array) || array.type != JSCAN_ARRAY)
        return 0;
    jscan_init(&s, array.raw, JSCAN_MAX_DEPTH);
    must_hold(jscan_enter_array(&s, &first));
    while (jscan_element(&s, &first)) {
        must_hold(jscan_value(&s, &element));
        n += element.type == JSCAN_OBJECT && jscan_get(element.raw, key, &name);
    }
    must_hold(s.error == NULL);
    return n;
}

/* `ours`: all of it is. */
static void check_protobuf(struct slice text, bool ours)
{
    struct pb_field f, type, object;
    struct pbread r;
    struct buf out;
    bool good;

    buf_init(&out, 4 << 20);
    good = legacy_proto_encode(text, &out);
    must_hold(good || !ours);
    if (good) {
        must_hold(slice_has_prefix(buf_slice(&out), SLICE_LIT("k8s\0")));
        pbread_init(&r, slice_from(buf_slice(&out), 4));
        must_hold(pbread_next(&r, &type) && pb_is_bytes(&type, 1) && pbread_next(&r, &object) &&
                  pb_is_bytes(&object, 2) && pbread_next(&r, &f) && pbread_next(&r, &f) && !pbread_next(&r, &f));
        must_hold(r.error == NULL);
        pbread_init(&r, object.bytes);
        while (pbread_next(&r, &f))
            must_hold(f.number > 0 && f.number <= 10);
        must_hold(r.error == NULL);
    }
    buf_free(&out);
}

static void check(unsigned call, struct slice answer, const struct disco_doc *merged, struct slice text)
{
    static const struct slice lists[] = {SLICE_LIT("groups"), SLICE_LIT("versions"), SLICE_LIT("resources")};
    struct slice key = call == 1 ? SLICE_LIT("version") : SLICE_LIT("name");
    struct jscan_value v;
    struct jscan s;
    struct buf again;

    jscan_init(&s, text, JSCAN_MAX_DEPTH);
    must_hold(jscan_value(&s, &v) && v.type == JSCAN_OBJECT && jscan_end(&s));
    must_hold(names_in(text, lists[call], key) >= names_in(answer, lists[call], key));
    buf_init(&again, 4 << 20);
    must_hold(heal(call, text, merged, &again) == LEGACY_COMPLETE && buf_len(&again) == 0);
    buf_free(&again);
    check_protobuf(text, answer.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), document = SLICE_LIT("");
    unsigned call = fuzz_byte(&in) % 3;
    struct disco_doc *merged;
    struct err err;
    struct buf out;

    err_clear(&err);
    (void)slice_split(&in, '\xff', &document);
    if (in.p == NULL)
        in = SLICE_LIT("");
    check_protobuf(in, false);
    merged = disco_parse(document, &err);
    if (merged == NULL || in.n > LIMIT_HEALED_BYTES) {
        disco_doc_unref(merged);
        return 0;
    }
    buf_init(&out, 2 * LIMIT_HEALED_BYTES);
    switch (heal(call, in, merged, &out)) {
    case LEGACY_HEALED:
        check(call, in, merged, buf_slice(&out));
        break;
    case LEGACY_COMPLETE:
        must_hold(buf_len(&out) == 0);
        break;
    case LEGACY_FAILED:
        break;
    }
    buf_free(&out);
    disco_doc_unref(merged);
    return 0;
}
