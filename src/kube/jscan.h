/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small strict JSON scanner (RFC 8259). It returns the extents of values and builds no tree, which would take too
 * long for discovery documents (json-c: 11-20 ms per MB). It validates what it passes over: syntax, UTF-8, escapes,
 * depth. It does not recurse.
 */
#ifndef MVPROXY_KUBE_JSCAN_H
#define MVPROXY_KUBE_JSCAN_H

#include "base/err.h"
#include "base/mem.h"

enum jscan_type { JSCAN_OBJECT, JSCAN_ARRAY, JSCAN_STRING, JSCAN_NUMBER, JSCAN_TRUE, JSCAN_FALSE, JSCAN_NULL };

/* A value's extent in the text. For a string `raw` includes the quotes. */
struct jscan_value {
    enum jscan_type type;
    bool escaped; /* a string with at least one backslash */
    struct slice raw;
};

struct jscan {
    struct slice text;
    size_t pos;
    size_t limit;              /* scanning past this position is an error ("too big"); text.n: no limit */
    unsigned depth, max_depth; /* containers open around pos, entered or being skipped; max_depth <= JSCAN_MAX_DEPTH */
    const char *error;         /* sticky; static text, NULL if none */
};
/* Schemas of real CRDs nest deeply: two levels for each field within a field. */
enum { JSCAN_MAX_DEPTH = 512 };

void jscan_init(struct jscan *s, struct slice text, unsigned max_depth);

/* All of these return false at an error (s->error set), and jscan_member() and jscan_element() at an end as well
 * (s->error NULL). */

/* Reads one value of any type, with all that is in it. */
bool jscan_value(struct jscan *s, struct jscan_value *out);
/* The type of the next value, without reading it. */
bool jscan_peek(struct jscan *s, enum jscan_type *type);
/* Enters a container, whose members or elements are then read by the next two functions until they return false: it has
 * been left then. `*first` belongs to the caller and is set here. */
bool jscan_enter_object(struct jscan *s, bool *first);
bool jscan_enter_array(struct jscan *s, bool *first);
/* Reads the key and the colon; the value must then be read or entered. */
bool jscan_member(struct jscan *s, bool *first, struct jscan_value *key);
/* True if an element follows, which must then be read or entered. */
bool jscan_element(struct jscan *s, bool *first);
/* Whether only white space is left. */
bool jscan_end(struct jscan *s);

/* A string's text, without quotes and decoded: points into the JSON if it has no escapes, else into the arena. False:
 * not a string, or out of memory. */
bool jscan_text(struct arena *a, const struct jscan_value *v, struct slice *out);
/* Whether a string value equals `s` after decoding. Allocates nothing. */
bool jscan_text_eq(const struct jscan_value *v, struct slice s);
/* The whole text is one object. False, with *err set. */
bool jscan_object(struct slice text, unsigned max_depth, struct slice *object, struct err *err);
/* Looks up one key of an object's text (already validated); false if absent. Of two of the same name the first counts.
 */
bool jscan_get(struct slice object, struct slice key, struct jscan_value *out);
/* The same of n keys in one pass: those that are not there have no text (raw.p is NULL), nor has anything of what is no
 * object. Of two of the same name the first counts. */
void jscan_get_each(struct slice object, const struct slice *keys, struct jscan_value *values, size_t n);
/* A string member as it stands between its quotes; "" if there is none. For names, versions and addresses: what has
 * escapes is none of these. */
struct slice jscan_get_inside(struct slice object, struct slice key);

#endif
