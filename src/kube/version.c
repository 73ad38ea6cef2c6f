#include "kube/version.h"

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
