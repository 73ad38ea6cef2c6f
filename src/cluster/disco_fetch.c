/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/disco_fetch.h"

#include "base/err.h"
#include "cluster/api.h"
#include "cluster/disco_half.h"
#include "net/loop.h"

enum { CORE, APIS, HALVES };

struct side {
    struct disco_fetch *fetch;
    struct disco_half *half; /* NULL: answered */
    char *old_etag, *etag;
    struct disco_doc *doc;
    bool failed, refused, not_modified, mvproxy;
    uint64_t connection;
};

struct disco_fetch {
    struct disco_fetch_opts o; /* without documents and tags */
    disco_fetch_fn *fn;
    void *arg;
    struct disco *last;
    bool core_later; /* /api waits for the answer of /apis */
    bool core_asked;
    struct side sides[HALVES];
    struct loop_timer *deadline;
    struct err err;
};

static void fetch_free(struct disco_fetch *f)
{
    for (size_t i = 0; i < HALVES; i++) {
        struct side *s = &f->sides[i];

        if (s->half != NULL)
            disco_half_cancel(s->half);
        mem_free(s->old_etag);
        mem_free(s->etag);
        disco_doc_unref(s->doc);
    }
    if (f->deadline != NULL)
        loop_timer_free(f->deadline);
    disco_unref(f->last);
    origin_unref(f->o.origin);
    mem_free(f);
}

static void deliver(struct disco_fetch *f, const struct disco_fetch_result *r)
{
    f->fn(f->arg, r);
    fetch_free(f);
}

static void deliver_failure(struct disco_fetch *f)
{
    struct disco_fetch_result r = {
        .outcome = DISCO_FAILED,
        .failure = f->err.text,
        .refused = f->sides[CORE].refused || f->sides[APIS].refused,
        .failed_paths = (unsigned)f->sides[CORE].failed + (unsigned)f->sides[APIS].failed,
        .core_asked = f->core_asked,
    };

    deliver(f, &r);
}

/* What was known of this side before. */
static const struct disco_doc *old_doc(const struct disco_fetch *f, size_t i)
{
    if (f->last == NULL)
        return NULL;
    return i == CORE ? disco_core(f->last) : disco_apis(f->last);
}

/* An answer without a usable ETag may still say the same as before. */
static bool same(const struct disco_doc *a, const struct disco_doc *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return disco_doc_form(a) == disco_doc_form(b) && slice_eq(disco_doc_raw(a), disco_doc_raw(b));
}

static const struct disco_doc *new_doc(struct disco_fetch *f, size_t i, bool *changed)
{
    const struct side *s = &f->sides[i];

    if (s->not_modified || same(s->doc, old_doc(f, i)))
        return old_doc(f, i);
    *changed = true;
    return s->doc;
}

static struct slice etag_now(const struct side *s)
{
    return slice_str(s->not_modified ? s->old_etag : s->etag);
}

static void deliver_documents(struct disco_fetch *f)
{
    struct disco_fetch_result r = {.outcome = DISCO_UNCHANGED, .core_asked = f->core_asked};
    bool changed = f->last == NULL;
    const struct disco_doc *core = new_doc(f, CORE, &changed), *apis = new_doc(f, APIS, &changed);
    struct disco *d = NULL;

    if (changed) {
        d = disco_new(core, apis);
        if (d == NULL) {
            (void)err_set(&f->err, "out of memory");
            f->sides[APIS].failed = true;
            deliver_failure(f);
            return;
        }
        r.outcome = DISCO_CHANGED;
        r.disco = d;
    }
    r.core_etag = etag_now(&f->sides[CORE]);
    r.apis_etag = etag_now(&f->sides[APIS]);
    r.mvproxy = f->sides[CORE].mvproxy && f->sides[APIS].mvproxy;
    r.core_connection = f->sides[CORE].connection;
    f->fn(f->arg, &r);
    disco_unref(d);
    fetch_free(f);
}

static bool start_side(struct disco_fetch *f, size_t i);

/* Does the answer of /apis come from the process whose /api is known? One that is over takes its connections with it;
 * an older connection than that of /api's last answer cannot lead to a newer process. */
static bool core_holds(const struct disco_fetch *f)
{
    const struct side *apis = &f->sides[APIS];

    return apis->not_modified && apis->mvproxy == f->o.mvproxy && apis->connection > 0 &&
           apis->connection <= f->o.core_connection;
}

/* /apis has been answered. */
static void see_to_core(struct disco_fetch *f)
{
    struct side *core = &f->sides[CORE];

    f->core_later = false;
    if (f->sides[APIS].failed)
        return;
    if (core_holds(f)) {
        core->not_modified = true;
        core->mvproxy = f->o.mvproxy;
        core->connection = f->o.core_connection;
    } else if (!start_side(f, CORE)) {
        core->failed = true;
        (void)err_set(&f->err, "out of memory");
    }
}

static void on_half(void *arg, const struct disco_half_result *r)
{
    struct side *s = arg;
    struct disco_fetch *f = s->fetch;

    s->half = NULL;
    s->failed = !r->ok;
    s->refused = !r->ok && r->refused;
    s->not_modified = r->ok && r->not_modified;
    s->mvproxy = r->ok && r->mvproxy;
    s->connection = r->connection;
    s->doc = r->doc;
    s->etag = mem_slicedup(r->etag);
    if (!r->ok)
        (void)err_set(&f->err, "%s", r->failure);
    else if (s->etag == NULL)
        s->failed = !err_set(&f->err, "out of memory");
    if (f->core_later)
        see_to_core(f);
    if (f->sides[CORE].half != NULL || f->sides[APIS].half != NULL)
        return;
    if (f->sides[CORE].failed || f->sides[APIS].failed)
        deliver_failure(f);
    else
        deliver_documents(f);
}

static void on_deadline(void *arg)
{
    struct disco_fetch *f = arg;

    for (size_t i = 0; i < HALVES; i++)
        f->sides[i].failed = f->sides[i].failed || f->sides[i].half != NULL;
    (void)err_set(&f->err, "no complete answer in time");
    deliver_failure(f);
}

static bool start_side(struct disco_fetch *f, size_t i)
{
    struct side *s = &f->sides[i];
    const struct disco_half_opts h = {
        .api = f->o.api,
        .origin = f->o.origin,
        .peer = f->o.peer,
        .core = i == CORE,
        .if_none_match = slice_str(s->old_etag),
        .timeout_ms = f->o.timeout_ms,
    };

    f->core_asked = f->core_asked || i == CORE;
    s->half = disco_half_start(&h, on_half, s);
    return s->half != NULL;
}

static bool start_sides(struct disco_fetch *f, const struct disco_fetch_opts *o)
{
    struct side *core = &f->sides[CORE], *apis = &f->sides[APIS];

    core->fetch = apis->fetch = f;
    core->old_etag = mem_slicedup(o->core_etag);
    apis->old_etag = mem_slicedup(o->apis_etag);
    f->core_later = o->apis_first;
    return core->old_etag != NULL && apis->old_etag != NULL && (o->apis_first || start_side(f, CORE)) &&
           start_side(f, APIS);
}

struct disco_fetch *disco_fetch_start(const struct disco_fetch_opts *o, disco_fetch_fn *fn, void *arg)
{
    struct disco_fetch *f = mem_zalloc(sizeof *f);

    if (f == NULL)
        return NULL;
    f->o = *o;
    f->o.last = NULL;
    f->o.core_etag = f->o.apis_etag = SLICE_NONE;
    f->o.origin = origin_ref(o->origin);
    f->last = o->last == NULL ? NULL : disco_ref(o->last);
    f->fn = fn;
    f->arg = arg;
    f->deadline = loop_timer_new(api_loop(o->api), on_deadline, f);
    if (f->deadline == NULL || !start_sides(f, o)) {
        fetch_free(f);
        return NULL;
    }
    loop_timer_set(f->deadline, o->timeout_ms);
    return f;
}

void disco_fetch_cancel(struct disco_fetch *f)
{
    fetch_free(f);
}
