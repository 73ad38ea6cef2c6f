/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/legacy_walk.h"

#include "cluster/api.h"

enum { PARALLEL = 8, LIST_BYTES = 8 << 20 };

struct step {
    struct legacy_walk *walk;
    struct fetch *fetch; /* NULL: free */
    size_t index;
};

struct legacy_walk {
    struct legacy_walk_opts o;
    struct disco_walk *plan;
    struct step steps[PARALLEL];
    size_t next, running;
};

static void cancel(struct legacy_walk *w)
{
    for (size_t i = 0; i < PARALLEL; i++)
        if (w->steps[i].fetch != NULL)
            fetch_cancel(w->steps[i].fetch);
    memset(w->steps, 0, sizeof w->steps);
}

static void fails(struct legacy_walk *w, const struct err *err)
{
    cancel(w);
    w->o.done(w->o.arg, err->text);
}

static bool ask_next(struct legacy_walk *w);

static void on_step(void *arg, const struct fetch_result *r)
{
    struct step *s = arg;
    struct legacy_walk *w = s->walk;
    struct slice path = disco_walk_path(w->plan, s->index);
    struct err err = {.text = ""}, ignored = {.text = ""};

    s->fetch = NULL;
    w->running--;
    /* The server itself is in trouble, not one of the groups: keep what was known before. */
    if (!r->ok) {
        (void)err_set(&err, "%.*s: %s", (int)(path.n > 100 ? 100 : path.n), path.p, r->failure);
        fails(w, &err);
        return;
    }
    if (r->head->status == 404)
        disco_walk_absent(w->plan, s->index);
    else if (r->head->status != 200 || !disco_walk_resources(w->plan, s->index, r->body, &ignored))
        disco_walk_unavailable(w->plan, s->index);
    if (!ask_next(w)) {
        (void)err_set(&err, "out of memory");
        fails(w, &err);
    } else if (w->running == 0) {
        w->o.done(w->o.arg, disco_walk_finish(w->plan, w->o.parser, &err) ? NULL : err.text);
    }
}

/* As many as may be under way. False when out of memory. */
static bool ask_next(struct legacy_walk *w)
{
    for (size_t i = 0; i < PARALLEL && w->next < disco_walk_count(w->plan); i++) {
        struct step *s = &w->steps[i];
        const struct api_request g = {
            .origin = w->o.origin,
            .peer = w->o.peer,
            .target = disco_walk_path(w->plan, w->next),
            .accept = SLICE_LIT("application/json"),
            .ceiling = LIST_BYTES,
            .timeout_ms = w->o.timeout_ms,
        };

        if (s->fetch != NULL)
            continue;
        *s = (struct step){.walk = w, .index = w->next};
        s->fetch = api_send(w->o.api, &g, on_step, s);
        if (s->fetch == NULL)
            return false;
        w->next++;
        w->running++;
    }
    return true;
}

struct legacy_walk *legacy_walk_start(const struct legacy_walk_opts *o, struct slice root, struct err *err)
{
    struct legacy_walk *w = mem_zalloc(sizeof *w);

    if (w != NULL) {
        w->o = *o;
        w->plan = disco_walk_new(o->kind);
        if (w->plan != NULL && disco_walk_root(w->plan, root, err) && ask_next(w)) {
            /* A server may have no group at all. */
            if (w->running > 0)
                return w;
            if (disco_walk_finish(w->plan, o->parser, err)) {
                o->done(o->arg, NULL);
                return w;
            }
        }
    }
    (void)err_set(err, "out of memory");
    legacy_walk_free(w);
    return NULL;
}

void legacy_walk_free(struct legacy_walk *w)
{
    if (w == NULL)
        return;
    cancel(w);
    disco_walk_free(w->plan);
    mem_free(w);
}
