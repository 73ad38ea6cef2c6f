/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the answer to /version.
 */
#ifndef MVPROXY_KUBE_VERSION_H
#define MVPROXY_KUBE_VERSION_H

#include "base/slice.h"

enum { VERSION_TEXT_BYTES = 64 };

/* Fields that are missing, or have characters that versions do not have, are "" or 0. */
struct version {
    char binary[VERSION_TEXT_BYTES];   /* "v1.34.4" */
    char emulated[VERSION_TEXT_BYTES]; /* "1.33"; "" if it is the binary's own, as servers that emulate nothing say */
    unsigned major, minor;             /* both or neither; distributions may append characters ("24+") */
    /*
     * A number that is higher for a later release ("v1.34.4-x+y": 1.34.4). It stands for the APIs, so if an older
     * version is emulated (KEP-4330) it is that of its last patch release.
     */
    uint64_t release;
};

/* Whether it is not empty and has only characters of versions. */
bool version_text_valid(struct slice text);
/* False: not a JSON object. */
bool version_read(struct slice json, struct version *out);

#endif
