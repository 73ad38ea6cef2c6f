/*
 * The few fields of any Kubernetes object that list and watch need, without building a tree.
 */
#ifndef MVPROXY_CLUSTER_OBJECT_H
#define MVPROXY_CLUSTER_OBJECT_H

#include "base/mem.h"

enum { OBJECT_KEY_BYTES = 640 };

/* metadata.namespace "/" metadata.name (or the name alone) into `out`; p is NULL if there is none, or it is escaped or
 * too long. */
struct slice object_key(struct slice json, char out[OBJECT_KEY_BYTES]);
/* The plain text of a string member, e.g. ("spec", "group"); p is NULL if absent, no string, or escaped. Into the json.
 */
struct slice object_text(struct slice json, struct slice outer, struct slice inner);
/* metadata.continue of a list; p is NULL if absent or empty. */
struct slice object_continue(struct slice list);

#endif
