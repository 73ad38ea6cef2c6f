/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery in its legacy form (`/apis`, `/apis/GROUP`, `/api/v1`, `/apis/GROUP/VERSION`): one server's answer, and
 * what it lacks of the merged document. What it says of its own stays as it wrote it.
 */
#ifndef MVPROXY_KUBE_LEGACY_HEAL_H
#define MVPROXY_KUBE_LEGACY_HEAL_H

#include "base/buf.h"
#include "kube/disco.h"

enum legacy_heal {
    LEGACY_COMPLETE, /* it lacks nothing; nothing was written */
    LEGACY_HEALED,
    LEGACY_FAILED, /* not such an answer, out of memory, over the buffer's ceiling or LIMIT_HEALED_WORK */
};

/* APIGroupList: groups and their versions, in the order of the merged document. */
enum legacy_heal legacy_heal_groups(struct slice answer, const struct disco_doc *merged, struct buf *out);
/* APIGroup. `answer` is empty where the server does not know the group; here and below. */
enum legacy_heal legacy_heal_group(struct slice answer, const struct disco_group *merged, struct buf *out);
/* APIResourceList: resources, subresources and verbs. */
enum legacy_heal legacy_heal_resources(struct slice answer, const struct disco_version *merged, struct buf *out);

#endif
