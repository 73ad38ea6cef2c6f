/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

static unsigned char fold(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Eight bytes at once: those that differ must do so in the bit of the case only, and be letters. */
static bool word_ieq(const char *a, const char *b)
{
    const uint64_t ones = 0x0101010101010101, tops = ones << 7;
    uint64_t u, v, other, lower, letters;

    memcpy(&u, a, sizeof(u));
    memcpy(&v, b, sizeof(v));
    other = u ^ v;
    if ((other & ~(ones * 0x20)) != 0)
        return false;
    lower = (u | ones * 0x20) & ~tops;
    /* No byte can carry into the next: all are below 0x80 before the addition. */
    letters = (lower + ones * (0x80 - 'a')) & ~(lower + ones * (0x7f - 'z')) & ~u & tops;
    return (other << 2 & ~letters) == 0;
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
    for (; prefix.n - i >= 8; i += 8)
        if (!word_ieq(s.p + i, prefix.p + i))
            return false;
    if (i > 0 && i < prefix.n) /* the last eight again, rather than what is left one by one */
        return word_ieq(s.p + prefix.n - 8, prefix.p + prefix.n - 8);
    while (i < prefix.n && fold(s.p[i]) == fold(prefix.p[i]))
        i++;
    return i == prefix.n;
}

bool slice_has_suffix(struct slice s, struct slice suffix)
{
    return suffix.n == 0 || (s.n >= suffix.n && slice_eq(slice_of(s.p + s.n - suffix.n, suffix.n), suffix));
}

bool slice_is_of(struct slice s, const char *others)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!alnum && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return s.n > 0;
}

int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n == 0 ? 0 : memcmp(a.p, b.p, n);

    if (d != 0)
        return d;
    return (a.n > b.n) - (a.n < b.n);
}

int slice_cmp_at(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
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

struct slice slice_u64_text(uint64_t v, char out[SLICE_U64_BYTES])
{
    size_t at = SLICE_U64_BYTES;

    do
        out[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    return slice_of(out + at, SLICE_U64_BYTES - at);
}

int slice_hex_digit(char c)
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
        int d = slice_hex_digit(s.p[i]);

        if (d < 0)
            return false;
        v = v << 4 | (unsigned)d;
    }
    *value = v;
    return true;
}
