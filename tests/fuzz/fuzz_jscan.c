/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON scanner: what it accepts lies inside the text, and whatever json-c in its strict mode refuses, it refuses.
 */
#include <json-c/json.h>

#include "fuzz/fuzz.h"
#include "kube/jscan.h"

enum { DEPTH = 16 };

static void walk(struct jscan *s, const struct slice *text, unsigned *budget)
{
    enum jscan_type type;
    struct jscan_value key, value;
    bool first;

    if (!jscan_peek(s, &type) || *budget == 0)
        return;
    --*budget;
    if (type == JSCAN_OBJECT && jscan_enter_object(s, &first)) {
        while (jscan_member(s, &first, &key)) {
            must_hold(key.raw.p > text->p && key.raw.p + key.raw.n <= text->p + text->n);
            walk(s, text, budget);
        }
    } else if (type == JSCAN_ARRAY && jscan_enter_array(s, &first)) {
        while (jscan_element(s, &first))
            walk(s, text, budget);
    } else if (jscan_value(s, &value)) {
        must_hold(value.raw.n > 0 && value.raw.p >= text->p && value.raw.p + value.raw.n <= text->p + text->n);
    }
}

static bool json_c_accepts(struct slice in)
{
    struct json_tokener *t = json_tokener_new_ex(JSCAN_MAX_DEPTH);
    struct json_object *root;
    bool fine;

    must_hold(t != NULL);
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    root = json_tokener_parse_ex(t, in.p, (int)in.n);
    /* A number at the very end waits for more. */
    if (json_tokener_get_error(t) == json_tokener_continue)
        root = json_tokener_parse_ex(t, " ", 1);
    fine = json_tokener_get_error(t) == json_tokener_success;
    json_object_put(root);
    json_tokener_free(t);
    return fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    struct arena *a = arena_new(1 << 20);
    struct jscan_value whole, found;
    struct slice text;
    unsigned budget = 100000;
    struct jscan s;
    bool accepted;

    must_hold(a != NULL);
    jscan_init(&s, in, DEPTH);
    accepted = jscan_value(&s, &whole) && jscan_end(&s);
    must_hold(accepted || s.error != NULL);
    if (accepted) {
        must_hold(json_c_accepts(in));
        if (whole.type == JSCAN_STRING)
            must_hold(jscan_text(a, &whole, &text) && jscan_text_eq(&whole, text));
        if (whole.type == JSCAN_OBJECT && jscan_get(whole.raw, SLICE_LIT("a"), &found))
            must_hold(found.raw.n > 0);
        jscan_init(&s, in, DEPTH);
        walk(&s, &in, &budget);
        must_hold(s.error == NULL);
    }
    arena_free(a);
    return 0;
}
