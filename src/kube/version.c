/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/version.h"

#include <stdio.h>

#include "kube/jscan.h"

enum { DEPTH = 8, DIGITS_MAX = 4 };

static bool number(struct slice json, struct slice key, unsigned *out)
{
    struct jscan_value v;
    size_t n = 1;

    if (!jscan_get(json, key, &v) || v.type != JSCAN_STRING)
        return false;
    *out = 0;
    for (; n < v.raw.n && v.raw.p[n] >= '0' && v.raw.p[n] <= '9' && n <= DIGITS_MAX; n++)
        *out = *out * 10 + (unsigned)(v.raw.p[n] - '0');
    return n > 1;
}

bool version_parse(struct slice json, unsigned *major, unsigned *minor)
{
    struct jscan s;
    struct jscan_value v;

    jscan_init(&s, json, DEPTH);
    return jscan_value(&s, &v) && jscan_end(&s) && v.type == JSCAN_OBJECT && number(v.raw, SLICE_LIT("major"), major) &&
           number(v.raw, SLICE_LIT("minor"), minor);
}

static bool is_version_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
           c == '+' || c == '_';
}

bool version_text_valid(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!is_version_char(text.p[i]))
            return false;
    return text.n > 0;
}

static bool text(struct slice json, struct slice key, char out[VERSION_TEXT_BYTES])
{
    struct jscan_value v;

    if (!jscan_get(json, key, &v) || v.type != JSCAN_STRING || v.escaped || v.raw.n < 3 ||
        v.raw.n - 2 >= VERSION_TEXT_BYTES || !version_text_valid(slice_of(v.raw.p + 1, v.raw.n - 2)))
        return false;
    memcpy(out, v.raw.p + 1, v.raw.n - 2);
    out[v.raw.n - 2] = '\0';
    return true;
}

bool version_texts_read(struct slice json, struct version_texts *out)
{
    unsigned major, minor;
    struct jscan_value v;
    struct jscan s;

    memset(out, 0, sizeof(*out));
    jscan_init(&s, json, DEPTH);
    if (!jscan_value(&s, &v) || !jscan_end(&s) || v.type != JSCAN_OBJECT ||
        !text(v.raw, SLICE_LIT("gitVersion"), out->binary))
        return false;
    if (number(v.raw, SLICE_LIT("emulationMajor"), &major) && number(v.raw, SLICE_LIT("emulationMinor"), &minor))
        (void)snprintf(out->emulated, sizeof(out->emulated), "%u.%u", major, minor);
    return true;
}
