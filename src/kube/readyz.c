/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/readyz.h"

static bool fails(struct slice body, const struct slice *lines, size_t n)
{
    struct slice line;

    while (slice_split(&body, '\n', &line))
        for (size_t i = 0; i < n; i++)
            if (slice_has_prefix(line, lines[i]))
                return true;
    return false;
}

struct slice readyz_failed(struct slice body)
{
    const struct slice mark = SLICE_LIT("[-]");
    struct slice line, name;

    while (slice_split(&body, '\n', &line)) {
        if (!slice_has_prefix(line, mark))
            continue;
        line = slice_from(line, mark.n);
        if (slice_split(&line, ' ', &name))
            return name;
    }
    return SLICE_NONE;
}

bool readyz_etcd_fails(struct slice body)
{
    static const struct slice lines[] = {
        SLICE_LIT("[-]etcd "),
        SLICE_LIT("[-]etcd-readiness "),
    };

    return fails(body, lines, sizeof(lines) / sizeof(lines[0]));
}

bool readyz_is_loading(struct slice body)
{
    static const struct slice lines[] = {
        SLICE_LIT("[-]informer-sync "),
        SLICE_LIT("[-]poststarthook/generic-apiserver-start-informers "),
        SLICE_LIT("[-]poststarthook/rbac/bootstrap-roles "),
    };

    return fails(body, lines, sizeof(lines) / sizeof(lines[0]));
}
