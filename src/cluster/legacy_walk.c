/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/legacy_walk.h"

#include "base/contract.h"
#include "cluster/api.h"
#include "kube/schema_index.h"

/* The index of schemas is read in one turn: 5 ms for 4500 group/versions. */
enum { PARALLEL = 8, LIST_BYTES = 8 << 20, SCHEMAS_BYTES = 1 << 20 };

struct walk_step {
    struct legacy_walk *walk;
    struct fetch *fetch; /* NULL: free */
    size_t index;
};

struct legacy_walk {
    struct legacy_walk_opts o;
    struct disco_walk *plan;
    struct fetch *server; /* asked for its schemas first, and perhaps for its list again at the end */
    bool unavailable;     /* one of the group/versions is, or the server has become so */
    bool once_more;       /* those are asked for a second time */
    struct walk_step steps[PARALLEL];
    size_t next, running, asked;
};

static void cancel(struct legacy_walk *w)
{
    fetch_cancel(&w->server);
    for (size_t i = 0; i < PARALLEL; i++)
        fetch_cancel(&w->steps[i].fetch);
}

static void fails(struct legacy_walk *w, const struct err *err)
{
    cancel(w);
    w->o.done(w->o.arg, err->text);
}

static void walk_on(struct legacy_walk *w);

static void leave_out(struct legacy_walk *w, size_t i)
{
    disco_walk_unavailable(w->plan, i);
    w->unavailable = true;
}

/*
 * What the mvproxy before the server says itself: the server has not answered it. Its list may be there again when it
 * is asked for (ask_list_again), so that does not tell.
 */
static bool is_of_mvproxy(const struct legacy_walk *w, const struct http_head *head)
{
    return w->o.mvproxy && head->status != 200 && !api_through_mvproxy(head);
}

static void server_fails(struct legacy_walk *w, struct slice path, const struct fetch_result *r)
{
    struct err err = {.text = ""};
    char text[API_WHY_BYTES];

    (void)err_set(&err, "%.*s: %s", (int)(path.n > 100 ? 100 : path.n), path.p, api_why(r, text));
    fails(w, &err);
}

static void on_step(void *arg, const struct fetch_result *r)
{
    struct walk_step *s = arg;
    struct legacy_walk *w = s->walk;
    struct slice path = disco_walk_path(w->plan, s->index);
    struct err ignored = {.text = ""};

    s->fetch = NULL;
    must_hold(w->running > 0);
    w->running--;
    /* The server itself is in trouble, not one of the groups: keep what was known before. */
    if (!r->ok || is_of_mvproxy(w, r->head)) {
        server_fails(w, path, r);
        return;
    }
    if (r->head->status == 404)
        disco_walk_absent(w->plan, s->index);
    else if (r->head->status != 200 || !disco_walk_resources(w->plan, s->index, r->body, &ignored))
        leave_out(w, s->index);
    walk_on(w);
}

/* What has been answered is not asked for again. */
static void pass_over(struct legacy_walk *w)
{
    while (w->once_more && w->next < disco_walk_count(w->plan) && !disco_walk_is_unavailable(w->plan, w->next))
        w->next++;
}

/* As many as may be under way. False when out of memory. */
static bool ask_next(struct legacy_walk *w)
{
    pass_over(w);
    for (size_t i = 0; i < PARALLEL && w->next < disco_walk_count(w->plan); i++) {
        struct walk_step *s = &w->steps[i];
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
        *s = (struct walk_step){.walk = w, .index = w->next};
        s->fetch = api_send(w->o.api, &g, on_step, s);
        if (s->fetch == NULL)
            return false;
        w->next++;
        w->running++;
        w->asked++;
        pass_over(w);
    }
    return true;
}

static bool ask_server(struct legacy_walk *w, struct slice target, size_t ceiling, fetch_fn *done)
{
    const struct api_request g = {
        .origin = w->o.origin,
        .peer = w->o.peer,
        .target = target,
        .accept = SLICE_LIT("application/json"),
        .ceiling = ceiling,
        .timeout_ms = w->o.timeout_ms,
    };

    w->server = api_send(w->o.api, &g, done, w);
    w->asked++;
    return w->server != NULL;
}

static void finish(struct legacy_walk *w)
{
    struct err err = {.text = ""};

    w->o.done(w->o.arg, disco_walk_finish(w->plan, w->o.parser, &err) ? NULL : err.text);
}

static void on_list_again(void *arg, const struct fetch_result *r)
{
    struct legacy_walk *w = arg;
    struct err err = {.text = ""};

    w->server = NULL;
    if (!api_answered(r, 200)) {
        (void)err_set(&err, "stopped serving discovery in the middle of it: %s",
                      r->ok ? "no list any more" : r->failure);
        fails(w, &err);
    } else if (w->once_more) {
        finish(w);
    } else {
        w->once_more = true;
        w->unavailable = false;
        w->next = 0;
        walk_on(w);
    }
}

/*
 * An mvproxy before the server answers 503 for it when it has gone, for all that was still to be asked: only where the
 * server still shows its list is it one of the group/versions that is unavailable. But it may have come back meanwhile:
 * what is unavailable when it is asked for once more is.
 */
static bool ask_list_again(struct legacy_walk *w)
{
    struct slice root = w->o.kind == DISCO_WALK_APIS ? SLICE_LIT("/apis") : SLICE_LIT("/api");

    return ask_server(w, root, LIST_BYTES, on_list_again);
}

static void walk_on(struct legacy_walk *w)
{
    struct err err = {.text = ""};

    if (!ask_next(w) || (w->running == 0 && w->unavailable && !ask_list_again(w))) {
        (void)err_set(&err, "out of memory");
        fails(w, &err);
    } else if (w->running == 0 && !w->unavailable) { /* a server may have no group at all */
        finish(w);
    }
}

static bool add_last(struct legacy_walk *w, struct err *err)
{
    const struct disco_group *g = w->o.last == NULL ? NULL : disco_doc_groups(w->o.last);

    for (; g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
            if (!disco_walk_also(w->plan, g->name, v->name, err))
                return false;
    return true;
}

static bool add_schemas(struct legacy_walk *w, const struct schema_index *x, struct err *err)
{
    struct slice group, version;

    for (size_t i = 0; i < schema_index_count(x); i++)
        if (schema_path_names(schema_index_at(x, i)->path, &group, &version) && group.n > 0 &&
            !disco_walk_also(w->plan, group, version, err))
            return false;
    return true;
}

/* A server that has no index (before 1.24), or does not show it to us, has only its list and what it had before. */
static void on_schemas(void *arg, const struct fetch_result *r)
{
    struct legacy_walk *w = arg;
    struct schema_index *x = NULL;
    struct err err = {.text = ""};

    w->server = NULL;
    if (api_answered(r, 200) && !schema_index_read(r->body, &x)) {
        (void)err_set(&err, "out of memory");
        fails(w, &err);
    } else if (!r->ok || is_of_mvproxy(w, r->head)) {
        server_fails(w, SLICE_LIT("/openapi/v3"), r);
    } else if (!add_schemas(w, x, &err) || !add_last(w, &err)) {
        fails(w, &err);
    } else {
        walk_on(w);
    }
    schema_index_unref(x);
}

struct legacy_walk *legacy_walk_start(const struct legacy_walk_opts *o, struct slice root, struct err *err)
{
    struct legacy_walk *w = mem_zalloc(sizeof(*w));

    if (w != NULL) {
        w->o = *o;
        w->plan = disco_walk_new(o->kind);
        if (w->plan != NULL && disco_walk_root(w->plan, root, err) &&
            (o->kind == DISCO_WALK_APIS ? ask_server(w, SLICE_LIT("/openapi/v3"), SCHEMAS_BYTES, on_schemas)
                                        : ask_next(w))) {
            if (w->server == NULL && w->running == 0)
                walk_on(w);
            return w;
        }
    }
    (void)err_set(err, "out of memory");
    legacy_walk_free(w);
    return NULL;
}

size_t legacy_walk_asked(const struct legacy_walk *w)
{
    return w->asked;
}

void legacy_walk_free(struct legacy_walk *w)
{
    if (w == NULL)
        return;
    cancel(w);
    disco_walk_free(w->plan);
    mem_free(w);
}
