/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of /version. */
#ifndef MVPROXY_KUBE_VERSION_H
#define MVPROXY_KUBE_VERSION_H

#include "base/slice.h"

enum { VERSION_TEXT_BYTES = 64 };

/* What is not said, or in other characters than versions consist of, is "" or 0. */
struct version {
    char binary[VERSION_TEXT_BYTES];   /* "v1.34.4" */
    char emulated[VERSION_TEXT_BYTES]; /* "1.33", as 1.34 and later say it */
    unsigned major, minor;             /* both or none; distributions may decorate them ("24+") */
    /*
     * A number that is higher for a later release ("v1.34.4-x+y" → 1.34.4). It is about the APIs, so an older one that
     * is emulated (KEP-4330) counts, as its last patch release.
     */
    uint64_t release;
};

/* Not empty, and nothing but what versions consist of. */
bool version_text_valid(struct slice text);
/* False: not a JSON object. */
bool version_read(struct slice json, struct version *out);

#endif
