/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/query.h"

#include "kube/selector.h"

static bool escapes_well_formed(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '%' && (s.n - i < 3 || slice_hex_digit(s.p[i + 1]) < 0 || slice_hex_digit(s.p[i + 2]) < 0))
            return false;
    return true;
}

bool query_unescape(struct arena *a, struct slice s, bool plus, struct slice *out)
{
    char *to;
    size_t n = 0;

    *out = SLICE_LIT("");
    if (!escapes_well_formed(s))
        return false;
    if (slice_index(s, '%') == s.n && (!plus || slice_index(s, '+') == s.n)) {
        if (s.n > 0)
            *out = s;
        return true;
    }
    to = arena_alloc(a, s.n);
    if (to == NULL) {
        *out = SLICE_NONE;
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            to[n++] = (char)(slice_hex_digit(s.p[i + 1]) * 16 + slice_hex_digit(s.p[i + 2]));
            i += 2;
        } else {
            to[n++] = plus && s.p[i] == '+' ? ' ' : s.p[i];
        }
    }
    *out = slice_of(to, n);
    return true;
}

void query_begin(struct query_iter *it, struct arena *a, struct slice raw)
{
    *it = (struct query_iter){.arena = a, .rest = raw};
}

bool query_next(struct query_iter *it, struct slice *key, struct slice *value)
{
    struct slice pair;
    size_t eq;

    while (!it->no_memory && slice_split(&it->rest, '&', &pair)) {
        if (pair.n == 0 || slice_index(pair, ';') != pair.n)
            continue;
        eq = slice_index(pair, '=');
        *value = SLICE_LIT(""); /* not reached when the key is malformed */
        if (query_unescape(it->arena, slice_of(pair.p, eq), true, key) &&
            query_unescape(it->arena, slice_from(pair, eq + 1), true, value))
            return true;
        it->no_memory = key->p == NULL || value->p == NULL;
    }
    return false;
}

/* The first value of each ListOptions field whose decoding can fail or matters here. */
struct raw_options {
    struct slice watch, field_selector, label_selector, timeout_seconds, limit;
};

static void keep_first(struct slice *field, struct slice value)
{
    if (field->p == NULL)
        *field = value;
}

static bool collect(struct arena *a, struct slice raw, struct raw_options *o)
{
    struct query_iter it;
    struct slice key, value;

    *o = (struct raw_options){.watch = SLICE_NONE};
    query_begin(&it, a, raw);
    while (query_next(&it, &key, &value)) {
        if (slice_eq(key, SLICE_LIT("watch")))
            keep_first(&o->watch, value);
        else if (slice_eq(key, SLICE_LIT("fieldSelector")))
            keep_first(&o->field_selector, value);
        else if (slice_eq(key, SLICE_LIT("labelSelector")))
            keep_first(&o->label_selector, value);
        else if (slice_eq(key, SLICE_LIT("timeoutSeconds")))
            keep_first(&o->timeout_seconds, value);
        else if (slice_eq(key, SLICE_LIT("limit")))
            keep_first(&o->limit, value);
    }
    return !it.no_memory;
}

/* strconv.ParseInt(s, 10, 64): an optional sign, then decimal digits within range. */
static bool go_int64(struct slice s)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t v;

    if (negative || (s.n > 0 && s.p[0] == '+'))
        s = slice_from(s, 1);
    return slice_u64(s, &v) && v <= (uint64_t)INT64_MAX + (negative ? 1 : 0);
}

/*
 * Absent, "0" and "false" in any case are false, everything else, also "", is true. The decoder folds case as Unicode
 * does, under which the long s (U+017F) is an 's'; the fallback only lower-cases.
 */
static bool watch_value(struct slice v, bool folded)
{
    if (v.p == NULL || slice_eq(v, SLICE_LIT("0")) || slice_ieq(v, SLICE_LIT("false")))
        return false;
    return !(folded && v.n == 6 && slice_ieq(slice_of(v.p, 3), SLICE_LIT("fal")) &&
             slice_eq(slice_of(v.p + 3, 2), SLICE_LIT("\xc5\xbf")) && (v.p[5] == 'e' || v.p[5] == 'E'));
}

bool query_list_options(struct arena *a, struct slice raw, struct list_options *out)
{
    struct raw_options o;
    struct selector_name found = {.name = SLICE_LIT("")};
    bool decoded;

    *out = (struct list_options){.name = SLICE_LIT("")};
    if (!collect(a, raw, &o))
        return false;
    decoded = (o.timeout_seconds.p == NULL || go_int64(o.timeout_seconds)) &&
              (o.limit.p == NULL || go_int64(o.limit)) && selector_labels_valid(o.label_selector);
    if (decoded && o.field_selector.n > 0) {
        if (!selector_fields_name(a, o.field_selector, &found))
            return false;
        decoded = found.valid;
    }
    out->watch = watch_value(o.watch, decoded);
    if (decoded && found.exact && selector_path_segment(found.name))
        out->name = found.name;
    return true;
}
