/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes legacy discovery (`/apis`, `/apis/GROUP`, `/api/v1`, `/apis/GROUP/VERSION`): adds to one server's answer
 * what it lacks of the merged document. What the server wrote itself is not changed.
 */
#ifndef MVPROXY_KUBE_LEGACY_HEAL_H
#define MVPROXY_KUBE_LEGACY_HEAL_H

#include "base/buf.h"
#include "kube/disco.h"

enum legacy_heal {
    LEGACY_COMPLETE, /* the answer lacks nothing; nothing was written */
    LEGACY_HEALED,
    LEGACY_FAILED, /* not a valid answer, out of memory, over the buffer's ceiling or LIMIT_HEALED_WORK */
};

/* APIGroupList: groups and their versions, in the order of the merged document. */
enum legacy_heal legacy_heal_groups(struct slice answer, const struct disco_doc *merged, struct buf *out);
/* APIGroup. `answer` is empty if the server does not know the group or version; here and below. */
enum legacy_heal legacy_heal_group(struct slice answer, const struct disco_group *merged, struct buf *out);
/* APIResourceList: resources, subresources and verbs. */
enum legacy_heal legacy_heal_resources(struct slice answer, const struct disco_version *merged, struct buf *out);

#endif
