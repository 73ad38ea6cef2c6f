/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses field and label selectors, as far as a request's name depends on them (apimachinery, pkg/fields, pkg/labels).
 */
#ifndef MVPROXY_KUBE_SELECTOR_H
#define MVPROXY_KUBE_SELECTOR_H

#include "base/mem.h"

struct selector_name {
    bool valid; /* the selector parses */
    bool exact; /* it has a term metadata.name=X (or ==X) */
    struct slice name;
};
/*
 * Of several such terms the first in the order of their text counts, since Kubernetes sorts the terms. False when out
 * of memory.
 */
bool selector_fields_name(struct arena *a, struct slice selector, struct selector_name *out);
/* Whether a label selector parses: requirements of the forms k, !k, k=v, k==v, k!=v, k>n, k<n, k in (a,b), k notin
 * (a,b). */
bool selector_labels_valid(struct slice selector);
/* Whether it may be a label's value or, without a prefix, its key: 1 to 63 letters, digits, '-', '_', '.', with a
 * letter or digit at both ends. */
bool selector_is_label(struct slice s);
/* Whether it is valid as one segment of a path: not "." or "..", no '/' and no '%'. */
bool selector_path_segment(struct slice name);

#endif
