/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_kube.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "http/etag.h"
#include "kube/request_header.h"
#include "kube/server_id.h"
#include "kube/user.h"
#include "sim/sim_kube_store.h"

enum { CEILING = 256 << 20, RENEW_MS = 10000, RENEW_AGAIN_MS = 15, GVS = 64 };

struct gv {
    struct slice group, version, resources;
};

struct kube_server {
    struct list_node node;
    struct kube_store *store;
    struct sim_server *sim;
    char id[SERVER_ID_BYTES];
    const char *hop_ready;
    char *hostname, *address, *apis, *core_apis, *garbage, *forbidden, *hop, *hop_version, *failing;
    unsigned watches_forbidden, writes_forbidden, forbidden_status;
    enum kube_form form;
    struct gv gvs[GVS]; /* the first of `apis` */
    size_t n_gvs;
    struct buf core, document; /* as served in the current form (aggregated ones) */
    char core_etag[ETAG_BYTES], etag[ETAG_BYTES];
    struct loop_timer *renew;
    bool paused, unadvertised;
    bool (*extra)(void *arg, struct sim_request *q);
    void *extra_arg;
    int64_t skew_us;
    unsigned process, wrote, minor; /* the process that wrote its Lease last */
    const char *map, *schemas;
    struct list pages; /* printed since the last change */
    uint64_t schemas_unchanged, version_requests;
    size_t more_schemas;
    bool schemas_untagged, lists_registered;
    uint64_t map_requests;
    uint64_t discovery, not_modified, unmarked;
};

/* What is printed of `apis` and nothing else, is printed once. */
struct page {
    struct list_node node;
    char *path;
    struct buf body;
};

/* ---- documents ---- */

/* The next "group/version:resources" of the list; group is "" in "v1:pods". */
static bool next_gv(struct slice *rest, struct slice *group, struct slice *version, struct slice *resources)
{
    struct slice one, gv;

    if (!slice_split(rest, ';', &one))
        return false;
    one = slice_trim(one);
    *resources = one;
    if (!slice_split(resources, ':', &gv))
        gv = SLICE_NONE;
    *version = gv;
    if (slice_index(gv, '/') == gv.n)
        *group = SLICE_LIT("");
    else
        (void)slice_split(version, '/', group);
    return true;
}

static void print_resource(struct buf *b, struct slice group, struct slice version, struct slice name)
{
    struct slice sub = name, plain;
    bool with_sub = slice_index(name, '+') < name.n; /* "pods+resize" */

    if (with_sub)
        (void)slice_split(&sub, '+', &plain);
    else
        plain = name;
    buf_printf(
        b,
        "{\"resource\":\"%.*s\",\"responseKind\":{\"group\":\"%.*s\",\"version\":\"%.*s\",\"kind\":\"K%.*s\"},"
        "\"scope\":\"Namespaced\",\"singularResource\":\"%.*s\",\"verbs\":[\"create\",\"delete\",\"get\",\"list\","
        "\"watch\"]",
        (int)plain.n, plain.p, (int)group.n, group.p, (int)version.n, version.p, (int)plain.n, plain.p,
        (int)plain.n - 1, plain.p);
    if (with_sub)
        buf_printf(b, ",\"subresources\":[{\"subresource\":\"%.*s\",\"verbs\":[\"get\",\"patch\"]}]", (int)sub.n,
                   sub.p);
    buf_append_char(b, '}');
}

static void print_version(struct buf *b, struct slice group, struct slice version, struct slice resources)
{
    struct slice name;
    bool first = true;

    buf_printf(b, "{\"version\":\"%.*s\",\"resources\":[", (int)version.n, version.p);
    while (slice_split(&resources, ',', &name)) {
        if (!first)
            buf_append_char(b, ',');
        print_resource(b, group, version, name);
        first = false;
    }
    buf_append_str(b, "],\"freshness\":\"Current\"}");
}

/* Versions of one group must follow each other in `apis`. */
static void print_document(struct buf *b, const char *form, const char *apis)
{
    struct slice rest = slice_str(apis), group, version, resources, open = SLICE_NONE;
    bool any = false;

    buf_printf(
        b, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/%s\",\"metadata\":{},\"items\":[",
        form);
    while (next_gv(&rest, &group, &version, &resources)) {
        if (any && slice_eq(group, open))
            buf_append_char(b, ',');
        else
            buf_printf(b, "%s{\"metadata\":{\"name\":\"%.*s\"},\"versions\":[", any ? "]}," : "", (int)group.n,
                       group.p);
        print_version(b, group, version, resources);
        open = group;
        any = true;
    }
    buf_append_str(b, any ? "]}]}\n" : "]}\n");
}

/* As kube-apiserver: of the document without kind and apiVersion, and without the line feed. */
static void make_etag(const struct buf *b, char out[ETAG_BYTES])
{
    unsigned char digest[HASH_SHA512_BYTES];
    struct slice text = buf_slice(b);
    char *metadata = memmem(text.p, text.n, ",\"metadata\"", 11);

    /* Without kind and apiVersion, and without an allocation, which may be meant to fail just now. */
    *metadata = '{';
    (void)hash_sha512(slice_of(metadata, (size_t)(text.p + text.n - 1 - metadata)), digest);
    *metadata = ',';
    etag_from_sha512(digest, out);
}

static void rebuild_one(struct buf *b, const char *form, const char *apis)
{
    /* Memory may fail once, by order of a test, but it is not the server that is tested. */
    do {
        buf_release(b);
        print_document(b, form, apis);
    } while (b->failed);
}

static void forget_pages(struct kube_server *k)
{
    struct list_node *n;

    while ((n = list_pop_front(&k->pages)) != NULL) {
        struct page *page = list_entry(n, struct page, node);

        mem_free(page->path);
        buf_free(&page->body);
        mem_free(page);
    }
}

static const struct buf *find_page(const struct kube_server *k, struct slice path)
{
    for (struct list_node *n = list_first(&k->pages); n != NULL; n = list_next(&k->pages, n)) {
        const struct page *page = list_entry(n, struct page, node);

        if (slice_eq(path, slice_str(page->path)))
            return &page->body;
    }
    return NULL;
}

/* Takes over what is in the buffer. */
static const struct buf *keep_page(struct kube_server *k, struct slice path, const struct buf *b)
{
    struct page *page = must_zalloc(sizeof(*page));

    page->path = must_slicedup(path);
    page->body = *b;
    list_push_back(&k->pages, &page->node);
    return &page->body;
}

static void rebuild(struct kube_server *k)
{
    const char *form = k->form == KUBE_V2BETA1 ? "v2beta1" : "v2";
    struct slice rest = slice_str(k->apis);
    struct gv *v = k->gvs;

    while (v < k->gvs + GVS && next_gv(&rest, &v->group, &v->version, &v->resources))
        v++;
    k->n_gvs = (size_t)(v - k->gvs);
    forget_pages(k);
    rebuild_one(&k->core, form, k->core_apis);
    rebuild_one(&k->document, form, k->apis);
    make_etag(&k->core, k->core_etag);
    make_etag(&k->document, k->etag);
}

/* ---- legacy ---- */

static void legacy_groups(struct kube_server *k, struct buf *b)
{
    char *registered = k->lists_registered ? kube_store_registered(k->store) : NULL;
    struct slice rest = slice_str(registered != NULL ? registered : k->apis), group, version, resources;
    bool first = true;

    buf_append_str(b, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
    while (next_gv(&rest, &group, &version, &resources)) {
        buf_printf(b, "%s{\"name\":\"%.*s\",\"versions\":[{\"groupVersion\":\"%.*s/%.*s\",\"version\":\"%.*s\"}],",
                   first ? "" : ",", (int)group.n, group.p, (int)group.n, group.p, (int)version.n, version.p,
                   (int)version.n, version.p);
        buf_printf(b, "\"preferredVersion\":{\"groupVersion\":\"%.*s/%.*s\",\"version\":\"%.*s\"}}", (int)group.n,
                   group.p, (int)version.n, version.p, (int)version.n, version.p);
        first = false;
    }
    buf_append_str(b, "]}");
    mem_free(registered);
}

static void legacy_resources(struct buf *b, struct slice gv, struct slice resources)
{
    struct slice name;
    bool first = true;

    buf_printf(b, "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"%.*s\",\"resources\":[",
               (int)gv.n, gv.p);
    while (slice_split(&resources, ',', &name)) {
        struct slice plain = slice_of(name.p, slice_index(name, '+')), sub = slice_from(name, plain.n + 1);

        buf_printf(b,
                   "%s{\"name\":\"%.*s\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"K%.*s\",\"verbs\":["
                   "\"get\",\"list\",\"delete\"]}",
                   first ? "" : ",", (int)plain.n, plain.p, (int)plain.n, plain.p);
        if (sub.n > 0)
            buf_printf(
                b,
                ",{\"name\":\"%.*s/%.*s\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"K%.*s\",\"verbs\":["
                "\"get\",\"patch\"]}",
                (int)plain.n, plain.p, (int)sub.n, sub.p, (int)plain.n, plain.p);
        first = false;
    }
    buf_append_str(b, "]}");
}

static bool legacy_body(const struct kube_server *k, struct slice path, struct buf *b)
{
    struct slice rest = slice_str(k->apis), group, version, resources;
    char want[300];

    if (slice_eq(path, SLICE_LIT("/api")))
        return buf_append_str(b, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}");
    if (slice_eq(path, SLICE_LIT("/api/v1"))) {
        rest = slice_str(k->core_apis);
        (void)next_gv(&rest, &group, &version, &resources);
        legacy_resources(b, SLICE_LIT("v1"), resources);
        return true;
    }
    while (next_gv(&rest, &group, &version, &resources)) {
        (void)snprintf(want, sizeof(want), "/apis/%.*s/%.*s", (int)group.n, group.p, (int)version.n, version.p);
        if (slice_eq(path, slice_str(want))) {
            legacy_resources(b, slice_from(slice_str(want), 6), resources);
            return true;
        }
    }
    return false;
}

static void serve_legacy_groups(struct kube_server *k, struct sim_request *q)
{
    struct buf b;

    buf_init(&b, CEILING);
    do {
        buf_release(&b);
        legacy_groups(k, &b);
    } while (b.failed);
    sim_reply(q, 200, "application/json", NULL, buf_slice(&b));
    buf_free(&b);
}

static const struct buf *print_page(struct kube_server *k, struct slice path)
{
    struct buf b;
    bool known;

    buf_init(&b, CEILING);
    do {
        buf_release(&b);
        known = legacy_body(k, path, &b);
    } while (b.failed);
    return known ? keep_page(k, path, &b) : NULL;
}

static void serve_legacy(struct kube_server *k, struct sim_request *q)
{
    struct slice path = sim_path(q);
    const struct buf *page;

    if (slice_eq(path, SLICE_LIT("/apis"))) {
        serve_legacy_groups(k, q);
        return;
    }
    page = find_page(k, path);
    if (page == NULL)
        page = print_page(k, path);
    if (page != NULL)
        sim_reply(q, 200, "application/json", NULL, buf_slice(page));
    else
        sim_reply(q, 404, "application/json", NULL, SLICE_LIT("{\"kind\":\"Status\",\"code\":404}"));
}

/* ---- serving ---- */

static bool contains(struct slice text, const char *what)
{
    return text.n > 0 && memmem(text.p, text.n, what, strlen(what)) != NULL;
}

static void serve_discovery(struct kube_server *k, struct sim_request *q)
{
    bool core = slice_eq(sim_path(q), SLICE_LIT("/api"));
    struct slice accept = sim_header(q, "Accept"), known = sim_header(q, "If-None-Match");
    const char *etag = core ? k->core_etag : k->etag;
    const char *want = k->form == KUBE_V2BETA1 ? ";v=v2beta1;" : ";v=v2;";
    char type[120];

    k->discovery++;
    if (!core && k->garbage != NULL)
        sim_reply(q, 200, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "\"garbage\"",
                  slice_str(k->garbage));
    else if (k->form == KUBE_LEGACY || !contains(accept, want))
        serve_legacy(k, q);
    else if (slice_eq(known, slice_str(etag))) {
        k->not_modified++;
        sim_reply(q, 304, "application/json", etag, SLICE_NONE);
    } else {
        (void)snprintf(type, sizeof(type), "application/json;g=apidiscovery.k8s.io%sas=APIGroupDiscoveryList", want);
        sim_reply(q, 200, type, etag, buf_slice(core ? &k->core : &k->document));
    }
}

static void note_identity(struct kube_server *k, const struct sim_request *q)
{
    bool marked = slice_eq(sim_header(q, USER_MARK_REROUTED), SLICE_LIT("true")) &&
                  slice_eq(sim_header(q, USER_MARK_PROXIED), SLICE_LIT("true"));
    bool local = k->node.prev == &k->store->servers.head; /* the first one made is the local one */
    bool named = slice_eq(sim_header(q, "X-Remote-User"), SLICE_LIT("system:apiserver")) && sim_with_cert(q);

    k->unmarked += !named || (!local && !marked) || (local && marked);
}

static void serve_version(struct kube_server *k, struct sim_request *q)
{
    char body[120];

    k->version_requests++;
    (void)snprintf(body, sizeof(body), "{\"major\":\"1\",\"minor\":\"%u+\",\"gitVersion\":\"v1.%u.0-sim\"}\n", k->minor,
                   k->minor);
    sim_reply(q, 200, "application/json", NULL, slice_str(body));
}

static void print_schemas(const struct kube_server *k, struct buf *b)
{
    struct slice rest = slice_str(k->lists_registered ? k->apis : "apps/v1"), group, version, resources;
    const char *before = "";

    buf_append_str(b, "{\"paths\":{");
    while (next_gv(&rest, &group, &version, &resources)) {
        buf_printf(b, "%s\"apis/%.*s/%.*s\":{\"serverRelativeURL\":\"/openapi/v3/apis/%.*s/%.*s?hash=%s\"}", before,
                   (int)group.n, group.p, (int)version.n, version.p, (int)group.n, group.p, (int)version.n, version.p,
                   k->schemas);
        before = ",";
    }
    for (size_t i = 0; i < k->more_schemas; i++)
        buf_printf(b, ",\"apis/crd%05zu.example.com/v1\":{\"serverRelativeURL\":\"/openapi/v3/x?hash=%0128zu\"}", i, i);
    buf_append_str(b, "}}");
}

static const struct buf *schemas_page(struct kube_server *k)
{
    const struct buf *page = find_page(k, SLICE_LIT("/openapi/v3"));
    struct buf b;

    if (page != NULL)
        return page;
    buf_init(&b, CEILING);
    do {
        buf_release(&b);
        print_schemas(k, &b);
    } while (b.failed);
    return keep_page(k, SLICE_LIT("/openapi/v3"), &b);
}

static void serve_schemas(struct kube_server *k, struct sim_request *q)
{
    char etag[80];

    (void)snprintf(etag, sizeof(etag), "\"%s\"", k->schemas);
    if (slice_eq(sim_header(q, "If-None-Match"), slice_str(etag))) {
        k->schemas_unchanged++;
        sim_reply(q, 304, "application/json", etag, SLICE_NONE);
    } else {
        sim_reply(q, 200, "application/json", k->schemas_untagged ? NULL : etag, buf_slice(schemas_page(k)));
    }
}

static void serve_unready(const struct kube_server *k, struct sim_request *q)
{
    char text[128];

    (void)snprintf(text, sizeof(text), "[+]ping ok\n[-]%s failed: reason withheld\nreadyz check failed\n", k->failing);
    sim_reply(q, 500, "text/plain", NULL, slice_str(text));
}

static void serve(void *arg, struct sim_request *q)
{
    struct kube_server *k = arg;
    struct slice path = sim_path(q);

    note_identity(k, q);
    if (k->forbidden != NULL && slice_has_prefix(path, slice_str(k->forbidden)) && k->forbidden_status == 0)
        return;
    if (k->forbidden != NULL && slice_has_prefix(path, slice_str(k->forbidden)))
        sim_reply(q, k->forbidden_status, "application/json", NULL, SLICE_LIT("{\"kind\":\"Status\"}"));
    else if (k->failing != NULL && slice_eq(path, SLICE_LIT("/readyz")))
        serve_unready(k, q);
    else if (k->watches_forbidden != 0 && sim_query(q, "watch").n > 0)
        sim_reply(q, k->watches_forbidden, "application/json", NULL, SLICE_LIT("{\"kind\":\"Status\"}"));
    else if (k->writes_forbidden != 0 && !slice_eq(sim_method(q), SLICE_LIT("GET")))
        sim_reply(q, k->writes_forbidden, "application/json", NULL, SLICE_LIT("{\"kind\":\"Status\"}"));
    else if (slice_eq(path, SLICE_LIT("/version")))
        serve_version(k, q);
    else if (slice_eq(path, SLICE_LIT("/openapi/v3")) && k->schemas != NULL)
        serve_schemas(k, q);
    else if (slice_has_prefix(path, SLICE_LIT(LEASE_COLLECTION_PATH "/")))
        kube_store_serve_lease(k->store, slice_from(path, sizeof(LEASE_COLLECTION_PATH)), q);
    else if (slice_eq(path, SLICE_LIT(LEASE_COLLECTION_PATH)) && slice_eq(sim_method(q), SLICE_LIT("POST")))
        kube_store_serve_lease(k->store, SLICE_NONE, q);
    else if (slice_eq(path, SLICE_LIT(LEASE_COLLECTION_PATH)))
        kube_store_serve(k->store, KUBE_LEASE, q);
    else if (slice_eq(path, SLICE_LIT("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")))
        kube_store_serve(k->store, KUBE_CRD, q);
    else if (slice_eq(path, SLICE_LIT("/apis/apiregistration.k8s.io/v1/apiservices")))
        kube_store_serve(k->store, KUBE_APISERVICE, q);
    else if (slice_eq(path, SLICE_LIT(REQUEST_HEADER_PATH)) && k->map != NULL) {
        k->map_requests++;
        sim_reply(q, 200, "application/json", NULL, slice_str(k->map));
    } else if (slice_eq(path, SLICE_LIT("/api")) || slice_eq(path, SLICE_LIT("/apis")))
        serve_discovery(k, q);
    else if (k->extra != NULL && k->extra(k->extra_arg, q))
        ;
    else if (slice_eq(path, SLICE_LIT("/readyz")))
        sim_reply(q, 200, "text/plain", NULL, SLICE_LIT("ok"));
    else
        serve_legacy(k, q);
    if (k->hop != NULL && sim_header(q, USER_MARK_REROUTED).p != NULL)
        sim_field(q, USER_HOP, k->hop);
    if (k->hop_version != NULL && sim_header(q, USER_MARK_REROUTED).p != NULL)
        sim_field(q, USER_HOP_VERSION, k->hop_version);
    if (k->hop_ready != NULL && sim_header(q, USER_MARK_REROUTED).p != NULL)
        sim_field(q, USER_HOP_READY, k->hop_ready);
}

static void gone(void *arg, struct sim_request *q)
{
    (void)arg;
    kube_store_gone(q);
}

/* ---- lives ---- */

/* What others have written into the Lease stays in it. */
static void keep_address(struct kube_server *k, char advertise[300], char written[300], struct kube_lease *l)
{
    l->address = NULL;
    if (!kube_store_annotation(k->store, l->name, LEASE_ADVERTISE_ANNOTATION, advertise, 300))
        return;
    (void)kube_store_annotation(k->store, l->name, LEASE_WRITTEN_ANNOTATION, written, 300);
    l->address = advertise;
    l->written = written;
}

static void renew(void *arg)
{
    struct kube_server *k = arg;
    char holder[100], older[SERVER_ID_BYTES_126], advertise[300], written[300];
    struct kube_lease l = {
        .name = k->id, .hostname = k->hostname, .holder = holder, .address = k->address, .duration_s = 3600};

    l.label_126 = k->minor == 26 && server_id_126_from_hostname(slice_str(k->hostname), older);
    if (l.label_126)
        l.name = older;
    (void)snprintf(holder, sizeof(holder), "%s_process-%u", l.name, k->process);
    l.renew_us = clock_wall_us() + k->skew_us;
    if (k->unadvertised)
        keep_address(k, advertise, written, &l);
    /* A process whose Lease was deleted makes it anew and renews it at once. */
    loop_timer_set(k->renew,
                   k->paused || k->wrote != k->process || kube_has_lease(k->store, l.name) ? RENEW_MS : RENEW_AGAIN_MS);
    if (!k->paused)
        kube_put_lease(k->store, &l);
    k->wrote = k->paused ? k->wrote : k->process;
}

void kube_start_again(struct kube_server *k, int64_t skew_us)
{
    k->skew_us = skew_us;
    k->sim->fault = SIM_FINE;
    renew(k);
}

void kube_start(struct kube_server *k, int64_t skew_us)
{
    k->process++;
    kube_start_again(k, skew_us);
}

void kube_stop(struct kube_server *k, bool graceful)
{
    loop_timer_cancel(k->renew);
    if (graceful)
        kube_delete(k->store, KUBE_LEASE, k->id);
    k->sim->fault = SIM_REFUSE;
    sim_server_break(k->sim);
}

void kube_set_skew(struct kube_server *k, int64_t skew_us)
{
    k->skew_us = skew_us;
}

void kube_pause_renewal(struct kube_server *k, bool pause)
{
    k->paused = pause;
}

struct kube_server *kube_server_new(struct kube_store *s, struct back *b, const char *hostname, const char *address,
                                    const char *apis)
{
    struct kube_server *k = must_zalloc(sizeof(*k));

    k->store = s;
    k->minor = 34;
    k->hostname = must_strdup(hostname);
    k->address = must_strdup(address);
    k->apis = must_strdup(apis);
    k->core_apis = must_strdup("v1:pods+exec,services,configmaps");
    list_init(&k->pages);
    k->renew = loop_timer_new(s->loop, renew, k);
    if (k->renew == NULL || !server_id_from_hostname(slice_str(hostname), k->id))
        abort();
    buf_init(&k->core, CEILING);
    buf_init(&k->document, CEILING);
    rebuild(k);
    k->sim = sim_server_new(b, s->loop, address, serve, k);
    k->sim->gone = gone;
    list_push_back(&s->servers, &k->node);
    return k;
}

static void server_free(struct kube_server *k)
{
    mem_free(k->hostname);
    mem_free(k->address);
    mem_free(k->apis);
    mem_free(k->core_apis);
    mem_free(k->garbage);
    mem_free(k->hop);
    mem_free(k->hop_version);
    mem_free(k->forbidden);
    mem_free(k->failing);
    buf_free(&k->core);
    buf_free(&k->document);
    forget_pages(k);
    loop_timer_free(k->renew);
    mem_free(k);
}

void kube_server_break(struct list_node *n)
{
    sim_server_break(list_entry(n, struct kube_server, node)->sim);
}

void kube_servers_free(struct kube_store *s)
{
    struct list_node *n;

    while ((n = list_pop_front(&s->servers)) != NULL)
        server_free(list_entry(n, struct kube_server, node));
}

struct sim_server *kube_sim(struct kube_server *k)
{
    return k->sim;
}

const char *kube_id(const struct kube_server *k)
{
    return k->id;
}

static void set_text(char **slot, const char *text)
{
    mem_free(*slot);
    *slot = text == NULL ? NULL : must_strdup(text);
}

void kube_set_apis(struct kube_server *k, const char *apis)
{
    set_text(&k->apis, apis);
    rebuild(k);
}

void kube_set_core(struct kube_server *k, const char *resources)
{
    set_text(&k->core_apis, resources);
    rebuild(k);
}

void kube_set_form(struct kube_server *k, enum kube_form f)
{
    k->form = f;
    rebuild(k);
}

void kube_list_registered(struct kube_server *k)
{
    k->lists_registered = true;
    forget_pages(k);
}

void kube_set_map(struct kube_server *k, const char *body)
{
    k->map = body;
}

uint64_t kube_map_requests(const struct kube_server *k)
{
    return k->map_requests;
}

void kube_set_minor(struct kube_server *k, unsigned minor)
{
    k->minor = minor;
}

void kube_set_hop(struct kube_server *k, const char *value)
{
    set_text(&k->hop, value);
}

void kube_set_hop_version(struct kube_server *k, const char *value)
{
    set_text(&k->hop_version, value);
}

void kube_set_hop_ready(struct kube_server *k, const char *value)
{
    k->hop_ready = value;
}

void kube_set_schemas(struct kube_server *k, const char *hash)
{
    k->schemas = hash;
    forget_pages(k);
}

void kube_add_schemas(struct kube_server *k, size_t n)
{
    k->more_schemas = n;
    forget_pages(k);
}

void kube_untag_schemas(struct kube_server *k)
{
    k->schemas_untagged = true;
}

uint64_t kube_version_requests(const struct kube_server *k)
{
    return k->version_requests;
}

uint64_t kube_schemas_unchanged(const struct kube_server *k)
{
    return k->schemas_unchanged;
}

static bool lists(struct slice resources, struct slice name, struct slice sub)
{
    struct slice one, plain;

    while (slice_split(&resources, ',', &one)) {
        plain = slice_of(one.p, slice_index(one, '+'));
        if (slice_eq(plain, name))
            return sub.n == 0 || (plain.n < one.n && slice_eq(slice_from(one, plain.n + 1), sub));
    }
    return false;
}

bool kube_serves_sub(const struct kube_server *k, const struct gvr *gvr, struct slice sub)
{
    struct slice rest = slice_str(gvr->group.n == 0 ? k->core_apis : k->apis), group, version, resources;

    for (size_t i = 0; gvr->group.n > 0 && i < k->n_gvs; i++)
        if (slice_eq(k->gvs[i].group, gvr->group) && slice_eq(k->gvs[i].version, gvr->version))
            return lists(k->gvs[i].resources, gvr->resource, sub);
    while ((gvr->group.n == 0 || k->n_gvs == GVS) && next_gv(&rest, &group, &version, &resources))
        if (slice_eq(group, gvr->group) && slice_eq(version, gvr->version))
            return lists(resources, gvr->resource, sub);
    return false;
}

bool kube_serves(const struct kube_server *k, const struct gvr *gvr)
{
    return kube_serves_sub(k, gvr, SLICE_LIT(""));
}

bool kube_knows(const struct kube_server *k, struct slice wanted_group, struct slice wanted_version)
{
    struct slice rest = slice_str(wanted_group.n == 0 ? k->core_apis : k->apis), group, version, resources;

    while (next_gv(&rest, &group, &version, &resources))
        if (slice_eq(group, wanted_group) && (wanted_version.n == 0 || slice_eq(version, wanted_version)))
            return true;
    return false;
}

void kube_set_extra(struct kube_server *k, bool (*extra)(void *arg, struct sim_request *q), void *arg)
{
    k->extra = extra;
    k->extra_arg = arg;
}

void kube_set_unadvertised(struct kube_server *k)
{
    k->unadvertised = true;
}

void kube_set_garbage(struct kube_server *k, const char *body)
{
    set_text(&k->garbage, body);
}

void kube_forbid(struct kube_server *k, const char *path_prefix, unsigned status)
{
    set_text(&k->forbidden, path_prefix);
    k->forbidden_status = status;
}

void kube_fail_check(struct kube_server *k, const char *check)
{
    set_text(&k->failing, check);
}

void kube_forbid_writes(struct kube_server *k, unsigned status)
{
    k->writes_forbidden = status;
}

void kube_forbid_watches(struct kube_server *k, unsigned status)
{
    k->watches_forbidden = status;
}

uint64_t kube_discovery_requests(const struct kube_server *k)
{
    return k->discovery;
}

uint64_t kube_not_modified(const struct kube_server *k)
{
    return k->not_modified;
}

struct slice kube_document(const struct kube_server *k)
{
    return buf_slice(&k->document);
}

const char *kube_etag(const struct kube_server *k)
{
    return k->etag;
}

uint64_t kube_unmarked(const struct kube_server *k)
{
    return k->unmarked;
}
