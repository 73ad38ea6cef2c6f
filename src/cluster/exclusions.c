/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/exclusions.h"

#include "back/back.h"
#include "base/buf.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/strmap.h"
#include "cluster/api.h"
#include "cluster/informer.h"
#include "kube/gvr.h"
#include "kube/jscan.h"
#include "kube/object.h"
#include "net/loop.h"

enum {
    CRD_PAGE = 20, /* custom resource definitions may be a megabyte each */
    CRD_LIST_CEILING = 64 << 20,
    CRD_BYTES = 4 << 20,
    APISERVICE_PAGE = 20, /* may be, too, by a bundle of CAs */
    APISERVICE_LIST_CEILING = 32 << 20,
    VERSIONS_MAX = 64, /* of one custom resource definition */
    GVS_MAX = 100000,
    REAPED_AT_ONCE = 500, /* in a turn: each is a line in the log */
};

/* One group/version. Counted, because several resources share it. */
struct gv {
    unsigned users;      /* objects that have it now */
    unsigned services;   /* of these, APIServices with a service */
    uint64_t gone_at_ms; /* when `users` became 0 */
    char name[];         /* "group/version" */
};

/* What one object contributes: each is there as long as it has users. */
struct contribution {
    size_t n;
    struct gv *gvs[];
};

/* One of the two collections. */
struct source {
    struct exclusions *owner;
    struct informer *informer;
    struct strmap *objects; /* key → contribution */
    size_t (*extract)(struct slice json, struct slice *group, struct slice versions[VERSIONS_MAX]);
};

struct exclusions {
    struct loop *loop;
    const struct exclusions_handler *handler;
    void *arg;
    struct source crds, services;
    struct strmap *gvs;     /* by their names */
    struct strmap *deleted; /* names of APIServices that counted in exclusions_registered(), until all peers are read */
    struct loop_timer *reap, *patience;
    bool settled, impatient;
};

/* ---- extraction ---- */

/* Every declared version: one that is not served is served by nobody, and a peer that says otherwise is behind. */
static size_t extract_crd(struct slice json, struct slice *group, struct slice versions[VERSIONS_MAX])
{
    struct jscan_value spec, list, element, name;
    struct jscan s;
    bool first;
    size_t n = 0;

    *group = object_text(json, SLICE_LIT("spec"), SLICE_LIT("group"));
    if (group->n == 0 || !jscan_get(json, SLICE_LIT("spec"), &spec) || spec.type != JSCAN_OBJECT ||
        !jscan_get(spec.raw, SLICE_LIT("versions"), &list) || list.type != JSCAN_ARRAY)
        return 0;
    jscan_init(&s, list.raw, JSCAN_MAX_DEPTH);
    if (!jscan_enter_array(&s, &first))
        return 0;
    while (n < VERSIONS_MAX && jscan_element(&s, &first) && jscan_value(&s, &element))
        if (element.type == JSCAN_OBJECT && jscan_get(element.raw, SLICE_LIT("name"), &name) &&
            name.type == JSCAN_STRING && !name.escaped)
            versions[n++] = slice_of(name.raw.p + 1, name.raw.n - 2);
    return n;
}

/* Without a service it only says that a server itself has the group/version. */
static size_t extract_service(struct slice json, struct slice *group, struct slice versions[VERSIONS_MAX])
{
    struct jscan_value spec, service;

    *group = object_text(json, SLICE_LIT("spec"), SLICE_LIT("group"));
    versions[0] = object_text(json, SLICE_LIT("spec"), SLICE_LIT("version"));
    if (group->n == 0 || versions[0].n == 0 || !jscan_get(json, SLICE_LIT("spec"), &spec) ||
        !jscan_get(spec.raw, SLICE_LIT("service"), &service) || service.type != JSCAN_OBJECT)
        return 0;
    return 1;
}

/* ---- set ---- */

static void arm_reap(struct exclusions *x)
{
    uint64_t now = loop_now_ms(x->loop), next = UINT64_MAX;
    size_t cursor = 0;
    struct slice key;
    void *value;

    while (strmap_next(x->gvs, &cursor, &key, &value)) {
        const struct gv *g = value;

        if (g->users == 0 && g->gone_at_ms + EXCLUSIONS_GRACE_MS < next)
            next = g->gone_at_ms + EXCLUSIONS_GRACE_MS;
    }
    if (next != UINT64_MAX)
        loop_timer_set(x->reap, next > now ? next - now + 1 : 1);
}

static void on_reap(void *arg)
{
    struct exclusions *x = arg;
    uint64_t now = loop_now_ms(x->loop);
    size_t cursor = 0;
    struct slice key;
    void *value;
    size_t reaped = 0;

    while (reaped < REAPED_AT_ONCE && strmap_next(x->gvs, &cursor, &key, &value)) {
        struct gv *g = value;

        /* Strictly older, as in kube-apiserver. */
        if (g->users > 0 || now - g->gone_at_ms <= EXCLUSIONS_GRACE_MS)
            continue;
        log_info("Group/version may come from peers again", LS("gv", key), LT("reason", "deleted five minutes ago"));
        (void)strmap_remove(x->gvs, key);
        mem_free(g);
        reaped++;
    }
    arm_reap(x);
    if (reaped > 0)
        x->handler->on_change(x->arg);
}

static struct gv *gv_new(struct exclusions *x, struct slice name)
{
    struct gv *g = strmap_count(x->gvs) < GVS_MAX ? mem_zalloc(sizeof(*g) + name.n + 1) : NULL;

    if (g == NULL || !strmap_put(x->gvs, name, g, NULL)) {
        log_error("Could not note a group/version that must not come from peers", LS("gv", name));
        mem_free(g);
        return NULL;
    }
    memcpy(g->name, name.p, name.n);
    log_info("Group/version is never taken from peers", LT("gv", g->name));
    return g;
}

/* NULL: not noted. */
static struct gv *use(struct exclusions *x, struct slice name, bool service, bool *changed)
{
    struct gv *g = strmap_get(x->gvs, name);
    bool is_new = g == NULL;

    if (is_new)
        g = gv_new(x, name);
    if (g == NULL)
        return NULL;
    *changed |= is_new || (service && g->services == 0);
    g->users++;
    g->services += service;
    return g;
}

static void unuse(struct exclusions *x, struct gv *g, bool service)
{
    must_hold(g->users > 0 && g->services >= service);
    g->services -= service;
    if (--g->users > 0)
        return;
    g->gone_at_ms = loop_now_ms(x->loop);
    log_info("Group/version is gone from the cluster, still not taken from peers for five minutes", LT("gv", g->name));
    if (!loop_timer_pending(x->reap)) /* else it waits for one that went earlier */
        loop_timer_set(x->reap, EXCLUSIONS_GRACE_MS + 1);
}

static void withdraw(struct source *s, struct contribution *c)
{
    for (size_t i = 0; c != NULL && i < c->n; i++)
        unuse(s->owner, c->gvs[i], s == &s->owner->services);
    mem_free(c);
}

/* "group/version"; p NULL: it cannot be one. */
static struct slice name_of(struct slice group, struct slice version, char out[GVR_KEY_BYTES])
{
    const struct gvr gv = {group, version, SLICE_LIT("")};
    struct slice key = version.n > 0 ? gvr_key(&gv, out) : SLICE_NONE;

    return key.p == NULL ? key : slice_of(key.p, key.n - 1); /* and a slash, and no resource */
}

/* What cannot be noted must not be taken back later. False: it could not. */
static bool note(struct source *s, struct contribution *c, struct slice group, struct slice version, bool *changed)
{
    char text[GVR_KEY_BYTES];
    struct slice name = name_of(group, version, text);
    struct gv *g = name.p == NULL ? NULL : use(s->owner, name, s == &s->owner->services, changed);

    if (g != NULL)
        c->gvs[c->n++] = g;
    return g != NULL || name.p == NULL;
}

/* ---- collections ---- */

/* Whether it counts in exclusions_registered(). */
static bool is_registered(const struct source *s, const struct contribution *c)
{
    return s == &s->owner->services && c != NULL && c->n == 0;
}

static bool on_object(void *arg, struct slice key, struct slice json)
{
    struct source *s = arg;
    struct exclusions *x = s->owner;
    struct slice group, versions[VERSIONS_MAX];
    size_t n = s->extract(json, &group, versions);
    struct contribution *c = mem_zalloc(sizeof(*c) + n * sizeof(c->gvs[0]));
    void *old = NULL;
    bool changed = false, whole = true;

    if (c == NULL || !strmap_put(s->objects, key, c, &old)) {
        mem_free(c);
        return false;
    }
    if (s == &x->services)
        (void)strmap_remove(x->deleted, key);
    /* The new ones first, so that what stays is never counted as gone. */
    for (size_t i = 0; i < n; i++)
        whole = note(s, c, group, versions[i], &changed) && whole;
    changed |= is_registered(s, c) != is_registered(s, old);
    withdraw(s, old);
    if (changed)
        x->handler->on_change(x->arg);
    if (informer_synced(s->informer))
        x->handler->on_event(x->arg);
    return whole || strmap_count(x->gvs) >= GVS_MAX;
}

static bool is_named(const struct exclusions *x, struct slice name, struct slice *group, struct slice *version);

/*
 * An older server deletes the APIServices of what it lacks when it starts, though others go on serving that: the name
 * still holds. That of a custom resource does not, it is gone for all.
 */
static void keep_name(struct exclusions *x, struct slice name)
{
    struct slice group, version;

    if (is_named(x, name, &group, &version) && strmap_count(x->deleted) < GVS_MAX &&
        !strmap_put(x->deleted, name, x, NULL))
        log_error("Out of memory for the name of a deleted APIService", LS("apiservice", name));
}

static void on_gone(void *arg, struct slice key)
{
    struct source *s = arg;
    struct exclusions *x = s->owner;
    struct contribution *c = strmap_remove(s->objects, key);

    if (is_registered(s, c))
        keep_name(x, key);
    withdraw(s, c);
    if (s == &x->services) /* a custom resource's stays excluded for now */
        x->handler->on_change(x->arg);
    x->handler->on_event(x->arg);
}

static bool answered(const struct source *s)
{
    return informer_synced(s->informer) || informer_refused(s->informer) != 0;
}

static void look_whether_settled(struct exclusions *x)
{
    if (x->settled || !(x->impatient || (answered(&x->crds) && answered(&x->services))))
        return;
    x->settled = true;
    if (!exclusions_synced(x))
        log_warning("Custom resources and aggregated APIs cannot be read: what peers say of them is believed for now",
                    LT("customresourcedefinitions", informer_failure(x->crds.informer)),
                    LT("apiservices", informer_failure(x->services.informer)));
    x->handler->on_change(x->arg);
}

static void on_synced(void *arg)
{
    struct source *s = arg;
    struct exclusions *x = s->owner;

    look_whether_settled(x);
    /* What was made just before they were listed is no event; the local server may not have been serving it yet. */
    if (exclusions_count(x) > 0)
        x->handler->on_event(x->arg);
}

static void on_health(void *arg, const char *why)
{
    struct source *s = arg;

    (void)why;
    look_whether_settled(s->owner);
}

static void on_patience(void *arg)
{
    struct exclusions *x = arg;

    x->impatient = true;
    look_whether_settled(x);
}

static const struct informer_handler informer_handler = {
    .on_object = on_object, .on_gone = on_gone, .on_synced = on_synced, .on_health = on_health};

static bool source_init(struct source *s, struct exclusions *x, const struct informer_opts *o)
{
    s->owner = x;
    s->objects = strmap_new();
    if (s->objects != NULL)
        s->informer = informer_new(o, &informer_handler, s);
    return s->informer != NULL;
}

static void source_free(struct source *s)
{
    size_t cursor = 0;
    struct slice key;
    void *value;

    informer_free(s->informer);
    if (s->objects == NULL)
        return;
    while (strmap_next(s->objects, &cursor, &key, &value))
        mem_free(value);
    strmap_free(s->objects);
}

/* ---- whole ---- */

struct exclusions *exclusions_new(struct api *api, const struct exclusions_handler *h, void *arg)
{
    struct exclusions *x = mem_zalloc(sizeof(*x));
    const struct informer_opts crds = {
        .api = api,
        .name = "customresourcedefinitions",
        .path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        .unscoped = true,
        .page = CRD_PAGE,
        .list_ceiling = CRD_LIST_CEILING,
        .object_limit = CRD_BYTES,
    };
    const struct informer_opts services = {
        .api = api,
        .name = "apiservices",
        .path = "/apis/apiregistration.k8s.io/v1/apiservices",
        .unscoped = true,
        .page = APISERVICE_PAGE,
        .list_ceiling = APISERVICE_LIST_CEILING,
        .object_limit = LIMIT_APISERVICE_BYTES,
    };

    if (x == NULL)
        return NULL;
    x->loop = api_loop(api);
    x->handler = h;
    x->arg = arg;
    x->crds.extract = extract_crd;
    x->services.extract = extract_service;
    x->gvs = strmap_new();
    x->deleted = strmap_new();
    x->reap = loop_timer_new(x->loop, on_reap, x);
    x->patience = loop_timer_new(x->loop, on_patience, x);
    if (x->gvs == NULL || x->deleted == NULL || x->reap == NULL || x->patience == NULL ||
        !source_init(&x->crds, x, &crds) || !source_init(&x->services, x, &services)) {
        exclusions_free(x);
        return NULL;
    }
    loop_timer_set(x->patience, EXCLUSIONS_PATIENCE_MS);
    return x;
}

void exclusions_free(struct exclusions *x)
{
    size_t cursor = 0;
    struct slice key;
    void *value;

    if (x == NULL)
        return;
    source_free(&x->crds);
    source_free(&x->services);
    while (x->gvs != NULL && strmap_next(x->gvs, &cursor, &key, &value))
        mem_free(value);
    strmap_free(x->gvs);
    strmap_free(x->deleted);
    loop_timer_free(x->reap);
    loop_timer_free(x->patience);
    mem_free(x);
}

void exclusions_restart(struct exclusions *x)
{
    informer_restart(x->crds.informer);
    informer_restart(x->services.informer);
}

void exclusions_retry(struct exclusions *x)
{
    informer_retry(x->crds.informer);
    informer_retry(x->services.informer);
}

bool exclusions_settled(const struct exclusions *x)
{
    return x->settled;
}

bool exclusions_synced(const struct exclusions *x)
{
    return informer_synced(x->crds.informer) && informer_synced(x->services.informer);
}

size_t exclusions_count(const struct exclusions *x)
{
    return strmap_count(x->gvs);
}

bool exclusions_next(const struct exclusions *x, size_t *cursor, struct slice *gv, bool *aggregated)
{
    void *value;

    if (!strmap_next(x->gvs, cursor, gv, &value))
        return false;
    *aggregated = ((const struct gv *)value)->services > 0;
    return true;
}

size_t exclusions_n_services(const struct exclusions *x)
{
    return strmap_count(x->services.objects) + strmap_count(x->deleted);
}

static bool is_excluded(const struct exclusions *x, struct slice group, struct slice version)
{
    char text[GVR_KEY_BYTES];
    struct slice name = name_of(group, version, text);

    return name.p != NULL && strmap_get(x->gvs, name) != NULL;
}

/* kube-apiserver sees to it that an APIService's name is VERSION.GROUP; the core group's is empty. */
static bool is_named(const struct exclusions *x, struct slice name, struct slice *group, struct slice *version)
{
    *group = name;
    return slice_split(group, '.', version) && version->n > 0 && !is_excluded(x, *group, *version);
}

bool exclusions_registered(const struct exclusions *x, struct exclusions_cursor *at, struct slice *group,
                           struct slice *version)
{
    struct slice key;
    void *value;

    while (strmap_next(x->services.objects, &at->stored, &key, &value)) {
        const struct contribution *c = value;

        if (c->n == 0 && is_named(x, key, group, version))
            return true;
    }
    while (strmap_next(x->deleted, &at->deleted, &key, &value))
        if (is_named(x, key, group, version))
            return true;
    return false;
}

void exclusions_all_read(struct exclusions *x)
{
    size_t cursor = 0;
    struct slice key;
    void *value;

    while (strmap_next(x->deleted, &cursor, &key, &value))
        (void)strmap_remove(x->deleted, key);
}

void exclusions_describe(const struct exclusions *x, struct buf *out)
{
    size_t cursor = 0;
    bool first = true, aggregated;
    struct slice gv;

    buf_append_str(out, "{\"informers\":[");
    informer_describe(x->crds.informer, out);
    buf_append_char(out, ',');
    informer_describe(x->services.informer, out);
    buf_append_str(out, "],\"groupVersions\":[");
    while (exclusions_next(x, &cursor, &gv, &aggregated)) {
        buf_append_quoted(out, first ? "" : ",", gv);
        first = false;
    }
    buf_append_str(out, "]}");
}
