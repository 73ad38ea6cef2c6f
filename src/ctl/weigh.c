/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/weigh.h"

/* Of json-c 0.16 on 64 bits, with what malloc adds, and while a list or table grows. */
enum { OBJECT_BYTES = 800, LIST_BYTES = 200, MEMBER_BYTES = 160, VALUE_BYTES = 100, PLAIN_COPIES = 3 };

/* Behind the string that begins at i. */
static size_t skip_string(struct slice text, size_t i)
{
    for (i++; i < text.n && text.p[i] != '"'; i++)
        i += text.p[i] == '\\';
    return i + 1;
}

size_t weigh_json(struct slice text)
{
    size_t weight = PLAIN_COPIES * text.n + VALUE_BYTES;

    for (size_t i = 0; i < text.n; i++) {
        switch (text.p[i]) {
        case '"':
            i = skip_string(text, i) - 1;
            break;
        case '{':
            weight += OBJECT_BYTES;
            break;
        case '[':
            weight += LIST_BYTES;
            break;
        case ':':
            weight += MEMBER_BYTES;
            break;
        case ',':
            weight += VALUE_BYTES;
            break;
        default:
            break;
        }
    }
    return weight;
}
