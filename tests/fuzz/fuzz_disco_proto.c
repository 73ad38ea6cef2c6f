/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery documents in protobuf form: whatever parses can be written, in any steps, and reads back the same. */
#include "fuzz/fuzz.h"
#include "kube/disco_parse.h"
#include "lib/proto_check.h"

static const char *const api_versions[] = {[DISCO_V2] = DISCO_GROUP "/v2", [DISCO_V2BETA1] = DISCO_GROUP "/v2beta1"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    size_t budget = 1 + 64 * (size_t)fuzz_byte(&in);
    struct disco_doc *doc;
    struct err err;

    err_clear(&err);
    doc = disco_parse(in, &err);
    if (doc == NULL)
        return 0;
    for (enum disco_form form = DISCO_V2; form <= DISCO_V2BETA1; form++) {
        struct buf whole, cut;

        buf_init(&whole, 64 << 20);
        buf_init(&cut, 64 << 20);
        must_hold(pb_encode(doc, SIZE_MAX, form, &whole));
        must_hold(pb_encode(doc, budget, form, &cut));
        must_hold(slice_eq(buf_slice(&whole), buf_slice(&cut)));
        must_hold(pb_agrees(buf_slice(&whole), doc, api_versions[form]));
        buf_free(&whole);
        buf_free(&cut);
    }
    disco_doc_unref(doc);
    return 0;
}
