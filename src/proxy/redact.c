/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/redact.h"

/* Parameters of the Kubernetes API (meta/v1 options, pod log and exec options) whose values are no secrets. */
static bool is_harmless(struct slice name)
{
    static const char *const names[] = {
        "allowWatchBookmarks",
        "container",
        "continue",
        "dryRun",
        "fieldManager",
        "fieldSelector",
        "fieldValidation",
        "follow",
        "force",
        "labelSelector",
        "limit",
        "limitBytes",
        "orphanDependents",
        "pretty",
        "previous",
        "propagationPolicy",
        "resourceVersion",
        "stderr",
        "stdin",
        "gracePeriodSeconds",
        "sendInitialEvents",
        "resourceVersionMatch",
        "sinceSeconds",
        "sinceTime",
        "stdout",
        "stream",
        "tailLines",
        "timeout",
        "timeoutSeconds",
        "timestamps",
        "tty",
        "watch",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_eq(name, slice_str(names[i])))
            return true;
    return false;
}

/* What has room: a path of 64 KiB leaves its beginning. */
static void append(struct slice s, struct buf *out)
{
    size_t room = out->ceiling - buf_len(out);

    if (s.n > room) {
        buf_append(out, slice_of(s.p, room));
        s = slice_from(s, room);
    }
    buf_append(out, s);
}

static void append_parameter(struct slice pair, struct buf *out)
{
    size_t eq = slice_index(pair, '=');

    if (eq == pair.n || is_harmless(slice_of(pair.p, eq)))
        append(pair, out);
    else {
        append(slice_of(pair.p, eq), out);
        append(SLICE_LIT("=..."), out);
    }
}

void redact_target(struct slice target, struct buf *out)
{
    struct slice rest = target, part;
    char before = '?';

    if (!slice_split(&rest, '?', &part))
        return;
    append(part, out);
    while (rest.p != NULL && slice_split(&rest, '&', &part)) {
        buf_append_char(out, before);
        append_parameter(part, out);
        before = '&';
    }
}
