/* Queries, as Go reads them. */
#include "admin/query.h"

#include "lib/tap.h"

static const struct {
    const char *query, *want; /* "name=value|..." */
} rows[] = {
    {"", ""},
    {"a", "a=|"},
    {"a=b", "a=b|"},
    {"a=b&c=d&&e", "a=b|c=d|e=|"},
    {"a=b=c", "a=b=c|"},
    {"=x", "=x|"},
    {"a%20b=c+d", "a b=c d|"},
    {"%61=%2B%26", "a=+&|"},
    {"a=%&b=%2&c=%zz&d=e", "d=e|"},
    {"a=%00&d=e", "d=e|"},
    {"a;b=c&d=e", "d=e|"},
    {"0123456789012345678901234567890123456789=1&d=e", "d=e|"},
};

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct slice rest = slice_str(rows[i].query);
        char name[32], value[32];
        struct buf got;

        buf_init(&got, 1000);
        buf_append_str(&got, "");
        while (admin_query_next(&rest, name, value, sizeof(name)))
            buf_printf(&got, "%s=%s|", name, value);
        is_slice(slice_of(buf_len(&got) == 0 ? "" : buf_slice(&got).p, buf_len(&got)), rows[i].want, "\"%s\"",
                 rows[i].query);
        buf_free(&got);
    }
    ok(admin_query_has(SLICE_LIT("x&verbose=0"), "verbose"), "has");
    ok(!admin_query_has(SLICE_LIT("verbos&verbosee"), "verbose"), "has not");
    return tap_end();
}
