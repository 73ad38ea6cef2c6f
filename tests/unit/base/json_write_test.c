/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

#include "lib/tap.h"

int main(void)
{
    struct json_write w, list, inner;
    struct buf out;

    buf_init(&out, 4096);
    w = json_open(&out, '{');
    json_text(&w, "text", "a \"b\"\n\xff");
    json_text(&w, "nothing", NULL);
    json_u64(&w, "u", UINT64_MAX);
    json_i64(&w, "i", -7);
    json_bool(&w, "yes", true);
    json_seconds(&w, "age", 61059);
    list = json_nested(&w, "list", '[');
    json_u64(&list, NULL, 1);
    inner = json_nested(&list, NULL, '{');
    json_close(&inner);
    json_slice(&list, NULL, SLICE_LIT(""));
    json_close(&list);
    json_raw(&w, "raw");
    buf_append_str(&out, "[]");
    json_close(&w);
    is_slice(
        buf_slice(&out),
        "{\"text\":\"a \\\"b\\\"\\n\xef\xbf\xbd\",\"nothing\":null,\"u\":18446744073709551615,\"i\":-7,\"yes\":true,"
        "\"age\":61.0,\"list\":[1,{},\"\"],\"raw\":[]}",
        "members, commas and escapes");
    buf_free(&out);
    return tap_end();
}
