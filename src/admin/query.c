#include "admin/query.h"

static bool unescape(struct slice s, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        uint64_t code = (unsigned char)(s.p[i] == '+' ? ' ' : s.p[i]);

        if (s.p[i] == '%') {
            if (i + 2 >= s.n || !slice_hex_u64(slice_of(s.p + i + 1, 2), &code) || code == 0)
                return false;
            i += 2;
        }
        if (n + 1 >= size)
            return false;
        out[n++] = (char)code;
    }
    out[n] = '\0';
    return true;
}

bool admin_query_next(struct slice *rest, char *name, char *value, size_t size)
{
    struct slice pair;

    while (slice_split(rest, '&', &pair)) {
        size_t eq = slice_index(pair, '=');

        /* Go has refused the semicolon since 1.17. */
        if (pair.n > 0 && slice_index(pair, ';') == pair.n && unescape(slice_of(pair.p, eq), name, size) &&
            unescape(slice_from(pair, eq + 1), value, size))
            return true;
    }
    return false;
}

bool admin_query_has(struct slice query, const char *name)
{
    char found[256], value[256];

    while (admin_query_next(&query, found, value, sizeof(found)))
        if (strcmp(found, name) == 0)
            return true;
    return false;
}
