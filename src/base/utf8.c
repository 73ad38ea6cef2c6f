/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

size_t utf8_next(struct slice s, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c;
    size_t len;
    uint32_t v;

    if (s.n == 0)
        return 0;
    c = (unsigned char)s.p[0];
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    if (c < 0xc2 || c > 0xf4)
        return 0;
    len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (s.n < len)
        return 0;
    v = c & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        c = (unsigned char)s.p[i];
        if ((c & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (c & 0x3f);
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    *code = v;
    return len;
}

bool utf8_unprintable(uint32_t code)
{
    return code < ' ' || (code >= 0x7f && code <= 0xa0) || code == 0xad || code == 0x61c || code == 0x180e ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb);
}

void utf8_make_printable(char *text)
{
    struct slice rest = slice_str(text);
    char *out = text;

    while (rest.n > 0) {
        uint32_t code;
        size_t n = utf8_next(rest, &code);

        if (n == 0 || utf8_unprintable(code))
            *out++ = '?';
        else
            for (size_t i = 0; i < n; i++)
                *out++ = rest.p[i];
        rest = slice_from(rest, n == 0 ? 1 : n);
    }
    *out = '\0';
}

bool utf8_valid(struct slice s)
{
    uint32_t code;

    while (s.n > 0) {
        size_t len = utf8_next(s, &code);

        if (len == 0)
            return false;
        s = slice_from(s, len);
    }
    return true;
}
