/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/skew.h"

#include "admin/names.h"

struct skew {
    struct served *served;
    struct names *names;
    enum skew_state *by;
};

struct skew *skew_new(struct served *s)
{
    struct skew *k = mem_zalloc(sizeof(*k));

    if (k == NULL)
        return NULL;
    k->served = served_ref(s);
    k->names = names_new(s, true);
    k->by = mem_array(served_n_peers(s) + 1, sizeof(k->by[0]));
    if (k->names != NULL && k->by != NULL)
        return k;
    skew_free(k);
    return NULL;
}

void skew_free(struct skew *k)
{
    if (k == NULL)
        return;
    names_free(k->names);
    mem_free(k->by);
    served_unref(k->served);
    mem_free(k);
}

bool skew_gather(struct skew *k, bool *failed)
{
    return names_step(k->names, failed);
}

size_t skew_rows(const struct skew *k)
{
    return names_count(k->names);
}

/* A resource that exists only through its subresources is there too. */
static enum skew_state state_of(const struct disco *d, const struct gvr *g)
{
    if (d == NULL)
        return SKEW_UNKNOWN;
    return disco_resource(d, g) != NULL ? SKEW_SERVED : SKEW_ABSENT;
}

void skew_row(struct skew *k, size_t i, struct skew_row *out)
{
    bool served = false, absent = false;

    *out = (struct skew_row){.gvr = *names_at(k->names, i), .by = k->by, .n = served_n_peers(k->served) + 1};
    for (size_t s = 0; s < out->n; s++) {
        size_t alike = names_alike(k->names, s);

        k->by[s] = alike < s ? k->by[alike] : state_of(names_disco(k->served, s), &out->gvr);
        served = served || k->by[s] == SKEW_SERVED;
        absent = absent || k->by[s] == SKEW_ABSENT;
    }
    out->uneven = served && absent;
}
