/* SPDX-License-Identifier: Apache-2.0 */
/* "METHOD target": what is accepted holds no NUL, and is the same when read again. */
#include "fuzz/fuzz.h"
#include "kube/reqinfo.h"

static void check(const struct reqinfo *r, struct slice target)
{
    const struct slice all[] = {r->verb,        r->group, r->version,  r->ns,       r->resource,
                                r->subresource, r->name,  r->raw_path, r->raw_query};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        must_hold(all[i].p != NULL);
    must_hold(r->path.p != NULL && slice_index(r->path, '\0') == r->path.n);
    must_hold(r->raw_path.n + r->raw_query.n <= target.n);
    if (!r->is_resource)
        must_hold(r->group.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), target = in, method = SLICE_NONE;
    struct arena *a = arena_new(1 << 20);
    struct reqinfo r, again;
    enum reqinfo_result result;

    must_hold(a != NULL);
    (void)slice_split(&target, ' ', &method);
    result = reqinfo_parse(a, method, target, &r);
    must_hold(result == reqinfo_parse(a, method, target, &again));
    if (result == REQINFO_OK) {
        check(&r, target);
        must_hold(slice_eq(r.verb, again.verb) && slice_eq(r.name, again.name) && slice_eq(r.resource, again.resource));
    }
    arena_free(a);
    return 0;
}
