/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_kube_store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/jscan.h"

enum { CEILING = 256 << 20, BOOKMARK_MS = 60000, REGISTERED_MAX = 256 };

static const struct {
    const char *api_version, *kind, *list_kind;
} kinds[KUBE_KINDS] = {
    {"coordination.k8s.io/v1", "Lease", "LeaseList"},
    {"apiextensions.k8s.io/v1", "CustomResourceDefinition", "CustomResourceDefinitionList"},
    {"apiregistration.k8s.io/v1", "APIService", "APIServiceList"},
};

static void print_object(struct buf *b, enum kube_kind k, const struct kube_object *o, uint64_t version)
{
    buf_printf(
        b, "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%llu\"%s}%s}",
        kinds[k].api_version, kinds[k].kind, o->name, (unsigned long long)version, o->meta, o->members);
}

static bool watches(const struct kube_watch *w, enum kube_kind k, const char *line)
{
    return w->kind == k &&
           (k != KUBE_LEASE || w->label_126 == (strstr(line, "\"k8s.io/component\":\"kube-apiserver\"") != NULL));
}

static void send_line(struct kube_store *s, enum kube_kind k, struct slice line, uint64_t version)
{
    for (struct list_node *n = list_first(&s->watches); n != NULL; n = list_next(&s->watches, n)) {
        struct kube_watch *w = list_entry(n, struct kube_watch, node);

        if (watches(w, k, line.p) && version > w->from)
            sim_write(w->request, line);
    }
}

static void happen(struct kube_store *s, enum kube_kind k, const char *type, const struct kube_object *o)
{
    struct kube_event *e = must_zalloc(sizeof(*e));
    struct buf b;

    buf_init(&b, CEILING);
    do { /* a test may have meant this allocation to fail: not ours */
        buf_release(&b);
        buf_printf(&b, "{\"type\":\"%s\",\"object\":", type);
        print_object(&b, k, o, s->version);
        buf_append_str(&b, "}\n");
    } while (b.failed);
    e->kind = k;
    e->version = s->version;
    e->line = must_slicedup(buf_slice(&b));
    list_push_back(&s->events, &e->node);
    send_line(s, k, slice_str(e->line), s->version);
    buf_free(&b);
}

static struct kube_object *find(struct kube_store *s, enum kube_kind k, const char *name)
{
    for (struct list_node *n = list_first(&s->objects[k]); n != NULL; n = list_next(&s->objects[k], n)) {
        struct kube_object *o = list_entry(n, struct kube_object, node);

        if (strcmp(o->name, name) == 0)
            return o;
    }
    return NULL;
}

void kube_put(struct kube_store *s, enum kube_kind k, const char *name, const char *meta, const char *members)
{
    struct kube_object *o = find(s, k, name);
    bool is_new = o == NULL;

    if (is_new) {
        o = must_zalloc(sizeof(*o));
        o->name = must_strdup(name);
        o->since_ms = loop_now_ms(s->loop);
        list_push_back(&s->objects[k], &o->node);
    }
    mem_free(o->meta);
    mem_free(o->members);
    o->meta = must_strdup(meta);
    o->members = must_strdup(members);
    o->version = ++s->version;
    happen(s, k, is_new ? "ADDED" : "MODIFIED", o);
}

static void object_free(struct kube_object *o)
{
    mem_free(o->name);
    mem_free(o->meta);
    mem_free(o->members);
    mem_free(o);
}

void kube_delete(struct kube_store *s, enum kube_kind k, const char *name)
{
    struct kube_object *o = find(s, k, name);

    if (o == NULL)
        return;
    s->version++;
    happen(s, k, "DELETED", o);
    list_remove(&s->objects[k], &o->node);
    object_free(o);
}

bool kube_store_annotation(struct kube_store *s, const char *lease, const char *name, char *out, size_t n)
{
    const struct kube_object *o = find(s, KUBE_LEASE, lease);
    char key[100];
    const char *at;

    (void)snprintf(key, sizeof(key), "\"%s\":\"", name);
    at = o == NULL ? NULL : strstr(o->meta, key);
    at = at == NULL ? "" : at + strlen(key);
    (void)snprintf(out, n, "%.*s", (int)strcspn(at, "\""), at);
    return out[0] != '\0';
}

void kube_put_lease(struct kube_store *s, const struct kube_lease *l)
{
    char meta[700], members[400], time[CLOCK_RFC3339_BYTES], address[300] = "", duration[64] = "", tag[100];

    /* Whoever renews a Lease leaves the tag in there. */
    if (l->tag != NULL)
        (void)snprintf(tag, sizeof(tag), "%s", l->tag);
    else
        (void)kube_store_annotation(s, l->name, LEASE_DISCOVERY_ANNOTATION, tag, sizeof(tag));
    clock_rfc3339(l->renew_us, time);
    if (l->address != NULL || tag[0] != '\0')
        (void)snprintf(address, sizeof(address),
                       ",\"annotations\":{\"kubernetes.io/peer-advertise-address\":\"%s\","
                       "\"mvproxy/peer-advertise-address\":\"%s\",\"" LEASE_DISCOVERY_ANNOTATION "\":\"%s\"}",
                       l->address == NULL ? "" : l->address, l->written == NULL ? "" : l->written, tag);
    if (l->duration_s > 0)
        (void)snprintf(duration, sizeof(duration), ",\"leaseDurationSeconds\":%u", l->duration_s);
    (void)snprintf(meta, sizeof(meta),
                   ",\"namespace\":\"%s\",\"uid\":\"u-%s\",\"labels\":{%s\"kubernetes.io/hostname\":\"%s\"}%s",
                   l->ns == NULL ? "kube-system" : l->ns, l->name,
                   l->no_label    ? ""
                   : l->label_126 ? "\"k8s.io/component\":\"kube-apiserver\","
                                  : "\"apiserver.kubernetes.io/identity\":\"kube-apiserver\",",
                   l->hostname == NULL ? "" : l->hostname, address);
    (void)snprintf(members, sizeof(members), ",\"spec\":{\"holderIdentity\":\"%s\",\"renewTime\":\"%s\"%s}",
                   l->holder == NULL ? "" : l->holder, time, duration);
    kube_put(s, KUBE_LEASE, l->name, meta, members);
}

static void print_crd(struct buf *b, const char *group, const char *versions)
{
    struct slice rest = slice_str(versions), version;
    bool first = true;

    buf_printf(b, ",\"spec\":{\"group\":\"%s\",\"scope\":\"Cluster\",\"versions\":[", group);
    while (slice_split(&rest, ' ', &version)) {
        buf_printf(b, "%s{\"name\":\"%.*s\",\"served\":true,\"storage\":%s}", first ? "" : ",", (int)version.n,
                   version.p, first ? "true" : "false");
        first = false;
    }
    buf_append_str(b, "]}");
}

void kube_put_crd(struct kube_store *s, const char *name, const char *group, const char *versions)
{
    struct buf b;
    char *text;

    buf_init(&b, CEILING);
    /* Memory may fail once, by order of a test, but it is not the server that is tested. */
    do {
        buf_release(&b);
        print_crd(&b, group, versions);
    } while (b.failed);
    text = must_slicedup(buf_slice(&b));
    kube_put(s, KUBE_CRD, name, "", text);
    mem_free(text);
    buf_free(&b);
}

void kube_put_apiservice(struct kube_store *s, const char *group, const char *version, bool service)
{
    char name[256], members[600];

    (void)snprintf(name, sizeof(name), "%s.%s", version, group);
    (void)snprintf(members, sizeof(members), ",\"spec\":{\"group\":\"%s\",\"version\":\"%s\"%s}", group, version,
                   service ? ",\"service\":{\"name\":\"svc\",\"namespace\":\"default\"}" : "");
    kube_put(s, KUBE_APISERVICE, name, "", members);
}

static const struct kube_object *object_at(const void *at)
{
    return *(const struct kube_object *const *)at;
}

/* Whatever order they came in: a server sorts them by the priorities in them. */
static int by_group_and_version(const void *a, const void *b)
{
    const char *x = object_at(a)->name, *y = object_at(b)->name;
    int order = strcmp(strchr(x, '.'), strchr(y, '.'));

    return order != 0 ? order : strcmp(x, y);
}

static void print_registered(struct kube_store *s, struct buf *b)
{
    const struct list *l = &s->objects[KUBE_APISERVICE];
    const struct kube_object *sorted[REGISTERED_MAX];
    size_t n = 0;

    for (struct list_node *o = list_first(l); o != NULL && n < REGISTERED_MAX; o = list_next(l, o))
        sorted[n++] = list_entry(o, struct kube_object, node);
    qsort(sorted, n, sizeof(const struct kube_object *), by_group_and_version);
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s%s/%.*s:", i > 0 ? ";" : "", strchr(sorted[i]->name, '.') + 1,
                   (int)strcspn(sorted[i]->name, "."), sorted[i]->name);
}

uint64_t kube_registered_ms(struct kube_store *s, struct slice group, struct slice version)
{
    char name[256];
    const struct kube_object *o;

    (void)snprintf(name, sizeof(name), "%.*s.%.*s", (int)version.n, version.p, (int)group.n, group.p);
    o = find(s, KUBE_APISERVICE, name);
    return o == NULL ? 0 : o->since_ms;
}

char *kube_store_registered(struct kube_store *s)
{
    struct buf b;
    char *text;

    buf_init(&b, CEILING);
    do {
        buf_release(&b);
        print_registered(s, &b);
    } while (b.failed);
    text = must_slicedup(buf_slice(&b));
    buf_free(&b);
    return text;
}

static void forget_events(struct kube_store *s)
{
    struct list_node *n;

    while ((n = list_pop_front(&s->events)) != NULL) {
        struct kube_event *e = list_entry(n, struct kube_event, node);

        mem_free(e->line);
        mem_free(e);
    }
}

void kube_compact(struct kube_store *s)
{
    s->compacted = ++s->version;
    forget_events(s);
}

void kube_restore(struct kube_store *s, uint64_t versions)
{
    s->version = s->version > versions ? s->version - versions : 1;
    s->compacted = 0;
    forget_events(s);
    for (struct list_node *n = list_first(&s->servers); n != NULL; n = list_next(&s->servers, n))
        kube_server_break(n);
}

void kube_inject(struct kube_store *s, enum kube_kind k, const char *bytes)
{
    send_line(s, k, slice_str(bytes), UINT64_MAX);
}

void kube_deafen(struct kube_store *s)
{
    for (struct list_node *n = list_first(&s->watches); n != NULL; n = list_next(&s->watches, n)) {
        struct kube_watch *w = list_entry(n, struct kube_watch, node);

        w->from = UINT64_MAX;
        loop_timer_cancel(w->bookmark);
        loop_timer_cancel(w->end);
    }
}

size_t kube_watches(const struct kube_store *s, enum kube_kind k)
{
    size_t count = 0;

    for (struct list_node *n = list_first(&s->watches); n != NULL; n = list_next(&s->watches, n))
        count += list_entry(n, struct kube_watch, node)->kind == k;
    return count;
}

uint64_t kube_lists(const struct kube_store *s, enum kube_kind k)
{
    return s->lists[k];
}

/* ---- serving ---- */

static bool selected(enum kube_kind k, struct sim_request *q, const struct kube_object *o)
{
    struct slice by = sim_query(q, "labelSelector");

    return k != KUBE_LEASE || by.p == NULL ||
           strstr(o->meta, slice_has_prefix(by, SLICE_LIT("k8s.io"))
                               ? "\"k8s.io/component\":\"kube-apiserver\""
                               : "\"apiserver.kubernetes.io/identity\":\"kube-apiserver\"") != NULL;
}

/* False: an allocation failed. */
static bool print_list(struct kube_store *s, enum kube_kind k, struct sim_request *q, struct buf *b)
{
    uint64_t limit = 0, skip = 0, index = 0, sent = 0;
    struct slice token = sim_query(q, "continue");
    bool more = false, whole;
    struct buf items;

    (void)slice_u64(sim_query(q, "limit"), &limit);
    if (token.p != NULL)
        (void)slice_u64(slice_from(token, 1), &skip);
    buf_init(&items, CEILING);
    for (struct list_node *n = list_first(&s->objects[k]); n != NULL; n = list_next(&s->objects[k], n), index++) {
        struct kube_object *o = list_entry(n, struct kube_object, node);

        if (index < skip || !selected(k, q, o))
            continue;
        more = limit > 0 && sent == limit;
        if (more)
            break;
        if (sent++ > 0)
            buf_append_char(&items, ',');
        print_object(&items, k, o, o->version);
    }
    buf_printf(b, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"%llu\"",
               kinds[k].list_kind, kinds[k].api_version, (unsigned long long)s->version);
    if (more)
        buf_printf(b, ",\"continue\":\"c%llu\"", (unsigned long long)index);
    buf_append_str(b, "},\"items\":[");
    buf_append(b, buf_slice(&items));
    buf_append_str(b, "]}\n");
    whole = !items.failed && !b->failed;
    buf_free(&items);
    return whole;
}

static void serve_list(struct kube_store *s, enum kube_kind k, struct sim_request *q)
{
    struct buf b;

    s->lists[k]++;
    buf_init(&b, CEILING);
    while (!print_list(s, k, q, &b))
        buf_release(&b);
    sim_reply(q, 200, "application/json", NULL, buf_slice(&b));
    buf_free(&b);
}

static void on_bookmark(void *arg)
{
    struct kube_watch *w = arg;
    char line[200];

    loop_timer_set(w->bookmark, BOOKMARK_MS);
    if (w->store->version < w->from)
        return;

    (void)snprintf(line, sizeof(line),
                   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"metadata\":{\"resourceVersion\":\"%llu\"}}}\n",
                   kinds[w->kind].kind, (unsigned long long)w->store->version);
    sim_write(w->request, slice_str(line));
}

static void on_end(void *arg)
{
    struct kube_watch *w = arg;

    sim_end(w->request);
}

static void watch_free(struct kube_watch *w)
{
    list_remove(&w->store->watches, &w->node);
    loop_timer_free(w->bookmark);
    loop_timer_free(w->end);
    mem_free(w);
}

void kube_store_gone(struct sim_request *q)
{
    if (sim_note(q) != NULL)
        watch_free(sim_note(q));
    sim_set_note(q, NULL);
}

/* Memory may fail once, by order of a test, but it is not the server that is tested. */
static struct loop_timer *timer(struct loop *l, loop_fn *fn, void *arg)
{
    struct loop_timer *t = loop_timer_new(l, fn, arg);

    if (t == NULL)
        t = loop_timer_new(l, fn, arg);
    if (t == NULL)
        abort();
    return t;
}

static void serve_watch(struct kube_store *s, enum kube_kind k, struct sim_request *q)
{
    static const char expired[] =
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
        "\"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\","
        "\"code\":410}}\n";
    struct kube_watch *w;
    uint64_t from = 0, seconds = 0;

    (void)slice_u64(sim_query(q, "resourceVersion"), &from);
    (void)slice_u64(sim_query(q, "timeoutSeconds"), &seconds);
    sim_head(q, 200, "application/json", NULL);
    if (from < s->compacted) {
        sim_write(q, SLICE_LIT(expired));
        sim_end(q);
        return;
    }
    w = must_zalloc(sizeof(*w));
    w->kind = k;
    w->request = q;
    w->from = from;
    w->label_126 = slice_has_prefix(sim_query(q, "labelSelector"), SLICE_LIT("k8s.io%2Fcomponent"));
    w->store = s;
    w->bookmark = timer(s->loop, on_bookmark, w);
    w->end = timer(s->loop, on_end, w);
    loop_timer_set(w->bookmark, BOOKMARK_MS);
    if (seconds > 0)
        loop_timer_set(w->end, seconds * 1000);
    list_push_back(&s->watches, &w->node);
    sim_set_note(q, w);
    for (struct list_node *n = list_first(&s->events); n != NULL; n = list_next(&s->events, n)) {
        struct kube_event *e = list_entry(n, struct kube_event, node);

        if (watches(w, e->kind, e->line) && e->kind == k && e->version > from)
            sim_write(q, slice_str(e->line));
    }
}

static void reply_status(struct sim_request *q, unsigned code)
{
    char body[80];

    (void)snprintf(body, sizeof(body), "{\"kind\":\"Status\",\"code\":%u}\n", code);
    sim_reply(q, code, "application/json", NULL, slice_str(body));
}

static void reply_lease(struct sim_request *q, unsigned code, const struct kube_object *o)
{
    struct buf b;

    buf_init(&b, CEILING);
    print_object(&b, KUBE_LEASE, o, o->version);
    sim_reply(q, code, "application/json", NULL, buf_slice(&b));
    buf_free(&b);
}

static bool read_lease(const struct kube_object *o, struct arena *a, struct lease *out)
{
    struct err err = {.text = ""};
    struct buf b;
    bool ok;

    buf_init(&b, CEILING);
    print_object(&b, KUBE_LEASE, o, o->version);
    ok = lease_parse(a, arena_copy(a, buf_slice(&b)), out, &err);
    buf_free(&b);
    return ok;
}

bool kube_get_lease(struct kube_store *s, const char *name, struct arena *a, struct lease *out)
{
    const struct kube_object *o = find(s, KUBE_LEASE, name);

    return o != NULL && (read_lease(o, a, out) || read_lease(o, a, out));
}

bool kube_has_lease(struct kube_store *s, const char *name)
{
    return find(s, KUBE_LEASE, name) != NULL;
}

bool kube_lease_has_address(struct kube_store *s, const char *name)
{
    char address[300];

    return kube_store_annotation(s, name, LEASE_ADVERTISE_ANNOTATION, address, sizeof(address));
}

uint64_t kube_lease_writes(const struct kube_store *s, const char *method)
{
    if (strcmp(method, "TAG") == 0)
        return s->tags;
    return strcmp(method, "POST") == 0 ? s->posts : strcmp(method, "PATCH") == 0 ? s->patches : s->deletes;
}

uint64_t kube_lease_reads(const struct kube_store *s)
{
    return s->reads;
}

/* A text by its path in an object, "" if it is not there. */
static struct slice at(struct arena *a, struct slice json, const char *const *path)
{
    struct jscan_value v = {.raw = json};
    struct slice text;

    for (; *path != NULL; path++)
        if (!jscan_get(v.raw, slice_str(*path), &v))
            return SLICE_LIT("");
    return jscan_text(a, &v, &text) ? text : SLICE_LIT("");
}

/* Memory may fail once, by order of a test, but it is not the server that is tested. */
static const char *text_of(struct arena *a, struct slice s)
{
    const char *text = NULL;

    while (s.n > 0 && text == NULL)
        text = arena_copy(a, s).p;
    return text;
}

struct arena *kube_arena(void)
{
    struct arena *a = arena_new(CEILING);

    return a != NULL ? a : arena_new(CEILING);
}

static void store_lease(struct kube_store *s, struct arena *a, const struct lease *l)
{
    const struct kube_lease k = {
        .name = text_of(a, l->name),
        .hostname = text_of(a, l->hostname_label),
        .holder = text_of(a, l->holder),
        .address = text_of(a, l->advertise),
        .written = text_of(a, l->written),
        .tag = text_of(a, l->discovery),
        .renew_us = l->renew_us,
        .duration_s = (unsigned)l->duration_s,
        .no_label = l->identity_label.n + l->component_label.n == 0,
        .label_126 = l->component_label.n > 0,
    };

    kube_put_lease(s, &k);
}

static void patch_lease(struct kube_store *s, struct arena *a, struct lease *l, struct slice body)
{
    static const char *const advertise[] = {"metadata", "annotations", LEASE_ADVERTISE_ANNOTATION, NULL};
    static const char *const written[] = {"metadata", "annotations", LEASE_WRITTEN_ANNOTATION, NULL};
    static const char *const tag[] = {"metadata", "annotations", LEASE_DISCOVERY_ANNOTATION, NULL};
    static const char *const holder[] = {"spec", "holderIdentity", NULL}, *const time[] = {"spec", "renewTime", NULL};
    struct slice text;

    text = at(a, body, advertise);
    if (text.n > 0)
        l->advertise = text;
    text = at(a, body, written);
    if (text.n > 0)
        l->written = text;
    text = at(a, body, holder);
    if (text.n > 0)
        l->holder = text;
    (void)clock_parse_rfc3339(at(a, body, time), &l->renew_us);
    text = at(a, body, tag);
    if (text.n > 0) {
        l->discovery = text;
        s->tags++;
    } else {
        s->patches++;
    }
    store_lease(s, a, l);
}

static bool precondition(struct slice wanted, struct slice is)
{
    return wanted.n == 0 || slice_eq(wanted, is);
}

static void change_lease(struct kube_store *s, struct arena *a, const char *name, struct sim_request *q)
{
    static const char *const meta_uid[] = {"metadata", "uid", NULL},
                             *const meta_version[] = {"metadata", "resourceVersion", NULL},
                             *const pre_uid[] = {"preconditions", "uid", NULL},
                             *const pre_version[] = {"preconditions", "resourceVersion", NULL};
    bool delete = slice_eq(sim_method(q), SLICE_LIT("DELETE"));
    struct lease l;

    if (!kube_get_lease(s, name, a, &l))
        reply_status(q, 404);
    else if (!precondition(at(a, sim_body(q), delete ? pre_uid : meta_uid), l.uid) ||
             !precondition(at(a, sim_body(q), delete ? pre_version : meta_version), l.resource_version))
        reply_status(q, 409);
    else if (delete) {
        s->deletes++;
        kube_delete(s, KUBE_LEASE, name);
        reply_status(q, 200);
    } else {
        patch_lease(s, a, &l, sim_body(q));
        reply_lease(q, 200, find(s, KUBE_LEASE, name));
    }
}

static void create_lease(struct kube_store *s, struct arena *a, struct sim_request *q)
{
    struct err err = {.text = ""};
    struct lease l;

    if (!lease_parse(a, sim_body(q), &l, &err))
        reply_status(q, 400);
    else if (find(s, KUBE_LEASE, text_of(a, l.name)) != NULL)
        reply_status(q, 409);
    else {
        s->posts++;
        store_lease(s, a, &l);
        reply_lease(q, 201, find(s, KUBE_LEASE, text_of(a, l.name)));
    }
}

void kube_store_serve_lease(struct kube_store *s, struct slice name, struct sim_request *q)
{
    struct arena *a = kube_arena();
    const char *text = name.p == NULL ? NULL : text_of(a, name);

    s->reads += slice_eq(sim_method(q), SLICE_LIT("GET"));
    if (text == NULL)
        create_lease(s, a, q);
    else if (!slice_eq(sim_method(q), SLICE_LIT("GET")))
        change_lease(s, a, text, q);
    else if (find(s, KUBE_LEASE, text) == NULL)
        reply_status(q, 404);
    else
        reply_lease(q, 200, find(s, KUBE_LEASE, text));
    arena_free(a);
}

void kube_store_serve(struct kube_store *s, enum kube_kind k, struct sim_request *q)
{
    if (slice_eq(sim_query(q, "watch"), SLICE_LIT("true")))
        serve_watch(s, k, q);
    else
        serve_list(s, k, q);
}

struct kube_store *kube_store_new(struct loop *l)
{
    struct kube_store *s = must_zalloc(sizeof(*s));

    s->loop = l;
    s->version = 100;
    for (size_t k = 0; k < KUBE_KINDS; k++)
        list_init(&s->objects[k]);
    list_init(&s->events);
    list_init(&s->watches);
    list_init(&s->servers);
    return s;
}

void kube_store_free(struct kube_store *s)
{
    struct list_node *n;

    while ((n = list_first(&s->watches)) != NULL)
        kube_store_gone(list_entry(n, struct kube_watch, node)->request);
    for (size_t k = 0; k < KUBE_KINDS; k++)
        while ((n = list_pop_front(&s->objects[k])) != NULL)
            object_free(list_entry(n, struct kube_object, node));
    forget_events(s);
    kube_servers_free(s);
    mem_free(s);
}
