/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads as data, and the byte classes.
 */
#include "base/limits.h"
#include "http/h1_check.h"
#include "http/head.h"
#include "lib/tap.h"

static void names(void)
{
    ok(http_name_of(SLICE_LIT("content-LENGTH")) == HTTP_CONTENT_LENGTH, "case is folded");
    for (enum http_name id = HTTP_NAME_OTHER + 1; id < HTTP_NAME_COUNT; id++) {
        struct slice text = http_name_text(id);

        is_int(http_name_of(text), id, "%.*s", (int)text.n, text.p);
        is_int(http_name_of(slice_of(text.p, text.n - 1)), HTTP_NAME_OTHER, "%.*s less one", (int)text.n, text.p);
    }
    is_int(http_name_of(SLICE_LIT("Content-Length ")), HTTP_NAME_OTHER, "a space more");
    is_int(http_name_of(SLICE_NONE), HTTP_NAME_OTHER, "nothing");
    is_int(http_name_of(SLICE_LIT("Sec-WebSocket-Protocol-And-More-And-More")), HTTP_NAME_OTHER, "long");
    is_slice(http_name_text(HTTP_NAME_OTHER), NULL, "no text for other names");
}

static void methods_and_reasons(void)
{
    static const struct {
        const char *text;
        enum http_method id;
        bool safe;
    } rows[] = {
        {"GET", HTTP_GET, true},         {"HEAD", HTTP_HEAD, true},        {"POST", HTTP_POST, false},
        {"PUT", HTTP_PUT, false},        {"PATCH", HTTP_PATCH, false},     {"DELETE", HTTP_DELETE, false},
        {"OPTIONS", HTTP_OPTIONS, true}, {"CONNECT", HTTP_CONNECT, false}, {"get", HTTP_METHOD_OTHER, false},
        {"", HTTP_METHOD_OTHER, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        is_int(http_method_of(slice_str(rows[i].text)), rows[i].id, "method %s", rows[i].text);
        ok(http_method_is_safe(rows[i].id) == rows[i].safe, "safe: %s", rows[i].text);
    }
    is_slice(http_reason(503), "Service Unavailable", "reason of 503");
    is_slice(http_reason(299), "Unknown", "reason of an odd status");
}

static void fields(void)
{
    struct arena *a = arena_new(1 << 20);
    struct http_head h;
    bool all = true;

    if (a == NULL || !http_head_init(&h, a, 2))
        tap_bail("no memory");
    is_int(h.minor, 1, "heads we make are HTTP/1.1");
    ok(http_head_add(&h, a, SLICE_LIT("host"), SLICE_LIT("h")), "add");
    ok(http_head_add_id(&h, a, HTTP_ETAG, SLICE_LIT("\"x\"")), "add by id");
    ok(http_head_add(&h, a, SLICE_LIT("X-A"), SLICE_LIT("1")), "grows");
    ok(http_head_add(&h, a, SLICE_LIT("x-a"), SLICE_LIT("2")), "repeated");
    is_slice(http_head_value(&h, HTTP_HOST), "h", "found whatever the spelling");
    is_slice(h.fields[1].name, "ETag", "canonical spelling");
    is_slice(http_head_value(&h, HTTP_DATE), NULL, "not there");
    is_slice(http_head_find_name(&h, SLICE_LIT("X-a"))->value, "1", "the first of two");
    is_null(http_head_find_name(&h, SLICE_LIT("X-")), "no such name");
    while (all && h.n_fields < LIMIT_HOP_FIELDS)
        all = http_head_add(&h, a, SLICE_LIT("X"), SLICE_LIT("y"));
    ok(all, "up to the limit");
    ok(!http_head_add(&h, a, SLICE_LIT("X"), SLICE_LIT("y")), "not beyond");
    is_u64(h.n_fields, LIMIT_HOP_FIELDS, "count");
    arena_free(a);
    a = arena_new(64);
    if (a == NULL)
        tap_bail("no memory");
    ok(!http_head_init(&h, a, 100), "an arena too small");
    arena_free(a);
}

static void bytes(void)
{
    static const char separators[] = "\"(),/:;<=>?@[\\]{} \t";
    unsigned token = 0, value = 0, wrong = 0;

    for (int c = 0; c < 256; c++) {
        char ch = (char)c;
        bool is_sep = c != 0 && strchr(separators, c) != NULL, is_ctl = c < 32 || c == 127, high = c > 127;

        token += h1_is_token(slice_of(&ch, 1));
        value += h1_is_value(slice_of(&ch, 1));
        wrong += h1_is_token(slice_of(&ch, 1)) != (!is_sep && !is_ctl && !high);
        wrong += h1_is_value(slice_of(&ch, 1)) != (!is_ctl || c == '\t');
    }
    is_int(wrong, 0, "classes follow RFC 9110");
    is_int(token, 77, "77 token characters");
    is_int(value, 224, "224 value bytes");
    ok(!h1_is_token(SLICE_NONE), "a token is not empty");
    ok(h1_is_value(SLICE_NONE), "a value may be");
}

static void copies(void)
{
    struct arena *from = arena_new(1 << 16), *a = arena_new(1 << 16);
    struct http_head h, copy;
    unsigned failed = 0;

    ok(from != NULL && a != NULL && http_head_init(&h, from, 0), "made");
    h.status = 404;
    h.reason = arena_copy(from, SLICE_LIT("Gone"));
    ok(http_head_add_id(&h, from, HTTP_ACCEPT, arena_copy(from, SLICE_LIT("x"))) &&
           http_head_add(&h, from, arena_copy(from, SLICE_LIT("X-More")), arena_copy(from, SLICE_LIT("y"))),
       "filled");
    ok(http_head_copy(&h, a, &copy), "copied");
    arena_free(from);
    is_u64(copy.status, 404, "status");
    ok(slice_eq(copy.reason, SLICE_LIT("Gone")), "reason");
    is_u64(copy.n_fields, 2, "fields");
    ok(slice_eq(http_head_value(&copy, HTTP_ACCEPT), SLICE_LIT("x")), "by id");
    ok(slice_eq(http_head_find_name(&copy, SLICE_LIT("x-more"))->value, SLICE_LIT("y")), "by name");
    for (uint64_t n = 1; n < 9; n++) {
        struct arena *small = arena_new_sized(1 << 16, 16);
        struct http_head again;

        mem_fail_nth(n);
        failed += !http_head_copy(&copy, small, &again);
        mem_fail_nth(0);
        arena_free(small);
    }
    ok(failed > 0, "without memory it says so, %u times", failed);
    arena_free(a);
}

int main(void)
{
    copies();
    names();
    methods_and_reasons();
    fields();
    bytes();
    return tap_end();
}
