#include "base/slice.h"

static unsigned char fold(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

bool slice_ieq(struct slice a, struct slice b)
{
    return a.n == b.n && slice_has_iprefix(a, b);
}

bool slice_has_prefix(struct slice s, struct slice prefix)
{
    return s.n >= prefix.n && slice_eq(slice_of(s.p, prefix.n), prefix);
}

bool slice_has_iprefix(struct slice s, struct slice prefix)
{
    size_t i = 0;

    if (s.n < prefix.n)
        return false;
    /* Most are equal as they stand, or differ at once. */
    while (i < prefix.n && s.p[i] == prefix.p[i])
        i++;
    while (i < prefix.n && fold(s.p[i]) == fold(prefix.p[i]))
        i++;
    return i == prefix.n;
}

bool slice_has_suffix(struct slice s, struct slice suffix)
{
    return suffix.n == 0 || (s.n >= suffix.n && slice_eq(slice_of(s.p + s.n - suffix.n, suffix.n), suffix));
}

int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n == 0 ? 0 : memcmp(a.p, b.p, n);

    if (d != 0)
        return d;
    return (a.n > b.n) - (a.n < b.n);
}

size_t slice_index(struct slice s, char c)
{
    const char *hit = s.n == 0 ? NULL : memchr(s.p, c, s.n);

    return hit == NULL ? s.n : (size_t)(hit - s.p);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice s)
{
    while (s.n > 0 && is_blank(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool slice_split(struct slice *rest, char sep, struct slice *field)
{
    /* Stands for the empty field behind a separator at the very end, which an empty input must not be taken for. */
    static const char last_empty[] = "";
    size_t at;

    if (rest->n == 0) {
        bool owed = rest->p == last_empty;

        *field = slice_of(rest->p, 0);
        *rest = SLICE_NONE;
        return owed;
    }
    at = slice_index(*rest, sep);
    *field = slice_of(rest->p, at);
    if (at == rest->n)
        *rest = SLICE_NONE;
    else if (at + 1 == rest->n)
        *rest = slice_of(last_empty, 0);
    else
        *rest = slice_of(rest->p + at + 1, rest->n - at - 1);
    return true;
}

bool slice_u64(struct slice s, uint64_t *value)
{
    uint64_t v = 0;

    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (unsigned)(s.p[i] - '0'), &v))
            return false;
    }
    *value = v;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)fold(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool slice_hex_u64(struct slice s, uint64_t *value)
{
    uint64_t v = 0;

    if (s.n == 0 || s.n > 16)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        int d = hex_digit(s.p[i]);

        if (d < 0)
            return false;
        v = v << 4 | (unsigned)d;
    }
    *value = v;
    return true;
}
