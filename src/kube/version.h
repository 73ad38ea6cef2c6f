/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of /version. */
#ifndef MVPROXY_KUBE_VERSION_H
#define MVPROXY_KUBE_VERSION_H

#include "base/slice.h"

/* From "major" and "minor", which distributions may decorate ("24+"). False: not such a document. */
bool version_parse(struct slice json, unsigned *major, unsigned *minor);

enum { VERSION_TEXT_BYTES = 64 };
struct version_texts {
    char binary[VERSION_TEXT_BYTES];   /* "v1.34.4" */
    char emulated[VERSION_TEXT_BYTES]; /* "1.33", as 1.34 and later say it; "" if it is not told */
};
/* Not empty, and nothing but what versions consist of. */
bool version_text_valid(struct slice text);
/* False: not such a document, or a version of other characters than versions have. *out is empty then. */
bool version_texts_read(struct slice json, struct version_texts *out);

#endif
