/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/version.h"

#include <stdio.h>

#include "kube/jscan.h"

enum { DEPTH = 8, DIGITS_MAX = 6, MINOR_SHIFT = 20, PATCH_MAX = (1 << MINOR_SHIFT) - 1 };

/* The next number, at most six digits; anything else ends it. */
static bool take_number(struct slice *text, uint64_t *out)
{
    size_t n = 0;

    *out = 0;
    while (n < text->n && n < DIGITS_MAX && text->p[n] >= '0' && text->p[n] <= '9')
        *out = *out * 10 + (uint64_t)(text->p[n++] - '0');
    *text = slice_from(*text, n);
    return n > 0;
}

static bool take_pair(struct slice object, struct slice major_key, struct slice minor_key, uint64_t pair[2])
{
    struct slice major = jscan_get_inside(object, major_key), minor = jscan_get_inside(object, minor_key);

    return take_number(&major, &pair[0]) && take_number(&minor, &pair[1]);
}

bool version_text_valid(struct slice text)
{
    return slice_is_of(text, ".-+_");
}

static uint64_t release_number(uint64_t major, uint64_t minor, uint64_t patch)
{
    return major << 2 * MINOR_SHIFT | minor << MINOR_SHIFT | patch;
}

static uint64_t release_of(struct slice text)
{
    uint64_t part[3] = {0};

    if (!slice_has_prefix(text, SLICE_LIT("v")))
        return 0;
    text = slice_from(text, 1);
    for (size_t i = 0; i < 3 && take_number(&text, &part[i]) && text.n > 0 && text.p[0] == '.'; i++)
        text = slice_from(text, 1);
    return release_number(part[0], part[1], part[2]);
}

bool version_read(struct slice json, struct version *out)
{
    struct slice object, binary;
    uint64_t pair[2], emulated;

    *out = (struct version){.release = 0};
    if (!jscan_object(json, DEPTH, &object, NULL))
        return false;
    binary = jscan_get_inside(object, SLICE_LIT("gitVersion"));
    out->release = release_of(binary);
    if (binary.n < sizeof(out->binary) && version_text_valid(binary))
        memcpy(out->binary, binary.p, binary.n);
    if (take_pair(object, SLICE_LIT("major"), SLICE_LIT("minor"), pair)) {
        out->major = (unsigned)pair[0];
        out->minor = (unsigned)pair[1];
    }
    if (take_pair(object, SLICE_LIT("emulationMajor"), SLICE_LIT("emulationMinor"), pair)) {
        emulated = release_number(pair[0], pair[1], PATCH_MAX);
        if (emulated >> MINOR_SHIFT != out->release >> MINOR_SHIFT)
            (void)snprintf(out->emulated, sizeof(out->emulated), "%u.%u", (unsigned)pair[0], (unsigned)pair[1]);
        if (emulated < out->release)
            out->release = emulated;
    }
    return true;
}
