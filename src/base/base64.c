/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool base64_append(struct buf *out, struct slice data)
{
    const unsigned char *p = (const unsigned char *)data.p;

    for (size_t i = 0; i < data.n; i += 3) {
        size_t have = data.n - i < 3 ? data.n - i : 3;
        uint32_t v = (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (have > 2 ? p[i + 2] : 0);
        char group[4] = {alphabet[v >> 18], alphabet[v >> 12 & 63], have > 1 ? alphabet[v >> 6 & 63] : '=',
                         have > 2 ? alphabet[v & 63] : '='};

        if (!buf_append(out, slice_of(group, sizeof(group))))
            return false;
    }
    return !out->failed;
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* One group of four, of which the last `padding` are '='. */
static bool decode_group(const char *p, size_t padding, struct buf *out)
{
    uint32_t v = 0;
    char bytes[3];

    for (size_t i = 0; i < 4; i++) {
        int d = i < 4 - padding ? digit(p[i]) : 0;

        if (d < 0)
            return false;
        v = v << 6 | (uint32_t)d;
    }
    if ((padding == 1 && (v & 0xff) != 0) || (padding == 2 && (v & 0xffff) != 0))
        return false;
    bytes[0] = (char)(v >> 16);
    bytes[1] = (char)(v >> 8);
    bytes[2] = (char)v;
    return buf_append(out, slice_of(bytes, 3 - padding));
}

bool base64_decode(struct slice text, struct buf *out)
{
    size_t padding = 0;

    if (text.n % 4 != 0)
        return false;
    while (padding < 2 && padding < text.n && text.p[text.n - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < text.n; i += 4)
        if (!decode_group(text.p + i, i + 4 == text.n ? padding : 0, out))
            return false;
    return true;
}
