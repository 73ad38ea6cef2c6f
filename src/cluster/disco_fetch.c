/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/disco_fetch.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "cluster/api.h"
#include "cluster/legacy_walk.h"
#include "cluster/work.h"
#include "kube/disco_parse.h"
#include "kube/server_id.h"
#include "kube/user.h"
#include "net/loop.h"

#define ACCEPT_V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define ACCEPT_V2BETA1 "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

enum {
    STEP_BYTES = 256 << 10, /* of a document at a time: some 2 ms */
    LEGACY_ROOT_BYTES = 8 << 20,
    ETAG_BYTES_MAX = 512,
};

enum { CORE, APIS, HALVES };

enum form { FORM_NONE, FORM_AGGREGATED, FORM_LEGACY };

/* One of the two documents. */
struct half {
    struct disco_fetch *fetch;
    bool over, failed, not_modified, mvproxy;
    bool odd;           /* it says of itself that it is a discovery document, and is none that we can read */
    unsigned refused;   /* 401 or 403; 0: it was not */
    enum api_word word; /* of the root's answer */
    enum form form;
    struct fetch *root;
    struct buf legacy; /* the legacy root */
    struct legacy_walk *walk;
    struct disco_parser *parser;
    struct work work; /* parses */
    struct disco_doc *doc;
    char *old_etag;
    char etag[ETAG_BYTES_MAX];
    uint64_t connection; /* of the root's answer */
    struct err err;
};

struct disco_fetch {
    struct disco_fetch_opts o; /* without document and tags */
    disco_fetch_fn *fn;
    void *arg;
    struct disco *last;
    struct half halves[HALVES];
    struct loop_timer *deadline;
    struct loop_deferred turn; /* delivers */
    struct err err;
};

static void half_free(struct half *h)
{
    fetch_cancel(&h->root);
    legacy_walk_free(h->walk);
    work_cancel(api_work(h->fetch->o.api), &h->work);
    disco_parser_free(h->parser);
    buf_free(&h->legacy);
    disco_doc_unref(h->doc);
    mem_free(h->old_etag);
}

static void fetch_free(struct disco_fetch *f)
{
    loop_defer_cancel(api_loop(f->o.api), &f->turn);
    for (size_t i = 0; i < HALVES; i++)
        half_free(&f->halves[i]);
    loop_timer_free(f->deadline);
    disco_unref(f->last);
    origin_unref(f->o.origin);
    mem_free(f);
}

/* ---- the result ---- */

static size_t requests(const struct disco_fetch *f)
{
    size_t n = HALVES;

    for (size_t i = 0; i < HALVES; i++)
        n += f->halves[i].walk == NULL ? 0 : legacy_walk_asked(f->halves[i].walk);
    return n;
}

static void deliver_failure(struct disco_fetch *f)
{
    const struct half *core = &f->halves[CORE], *apis = &f->halves[APIS];
    const struct disco_fetch_result r = {
        .outcome = DISCO_FAILED,
        .failure = f->err.text,
        .refused = core->refused != 0 ? core->refused : apis->refused,
        .odd = core->odd || apis->odd,
        .requests = requests(f),
        .failed_paths = (unsigned)core->failed + (unsigned)apis->failed,
    };

    f->fn(f->arg, &r);
    fetch_free(f);
}

/* An answer without a usable ETag may still say the same as before. */
static bool same(const struct disco_doc *a, const struct disco_doc *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return disco_doc_form(a) == disco_doc_form(b) && slice_eq(disco_doc_raw(a), disco_doc_raw(b));
}

static const struct disco_doc *new_doc(const struct half *h, const struct disco_doc *old, bool *changed)
{
    if (h->not_modified || same(h->doc, old))
        return old;
    *changed = true;
    return h->doc;
}

static struct slice etag_now(const struct half *h)
{
    return slice_str(h->not_modified ? h->old_etag : h->etag);
}

static void deliver_documents(struct disco_fetch *f)
{
    const struct half *core = &f->halves[CORE], *apis = &f->halves[APIS];
    const struct disco_doc *core_doc, *apis_doc;
    struct disco_fetch_result r = {
        .outcome = DISCO_UNCHANGED,
        .core_etag = etag_now(core),
        .apis_etag = etag_now(apis),
        .mvproxy = core->mvproxy && apis->mvproxy,
        .word = apis->walk == NULL ? apis->word : API_WORD_NONE,
        .core_connection = core->connection,
        .requests = requests(f),
    };
    bool changed = f->last == NULL;
    struct disco *d = NULL;

    core_doc = new_doc(core, f->last == NULL ? NULL : disco_core(f->last), &changed);
    apis_doc = new_doc(apis, f->last == NULL ? NULL : disco_apis(f->last), &changed);
    if (changed) {
        d = disco_new(core_doc, apis_doc);
        if (d == NULL) {
            (void)err_set(&f->err, "out of memory");
            f->halves[APIS].failed = true;
            deliver_failure(f);
            return;
        }
        r.outcome = DISCO_CHANGED;
        r.disco = d;
    }
    f->fn(f->arg, &r);
    disco_unref(d);
    fetch_free(f);
}

static void deliver(void *arg)
{
    struct disco_fetch *f = arg;

    if (f->halves[CORE].failed || f->halves[APIS].failed)
        deliver_failure(f);
    else
        deliver_documents(f);
}

static bool all_over(const struct disco_fetch *f)
{
    return f->halves[CORE].over && f->halves[APIS].over;
}

static void over(struct half *h)
{
    struct disco_fetch *f = h->fetch;

    h->over = true;
    if (h->failed)
        (void)err_set(&f->err, "%s", h->err.text);
    if (all_over(f))
        loop_defer(api_loop(f->o.api), &f->turn, deliver, f);
}

static const char *path(const struct half *h)
{
    return h == &h->fetch->halves[CORE] ? "/api" : "/apis";
}

static void fails(struct half *h, const char *why)
{
    h->failed = true;
    (void)err_set(&h->err, "%s: %s", path(h), why);
    over(h);
}

static void on_deadline(void *arg)
{
    struct disco_fetch *f = arg;

    if (all_over(f))
        return;
    for (size_t i = 0; i < HALVES; i++)
        f->halves[i].failed = f->halves[i].failed || !f->halves[i].over;
    (void)err_set(&f->err, "no complete answer in time");
    deliver_failure(f);
}

/* ---- parsing ---- */

static enum step parse_some(void *arg)
{
    struct half *h = arg;

    return disco_parser_step(h->parser, STEP_BYTES, &h->doc, &h->err);
}

static void parsed(void *arg, bool done)
{
    struct half *h = arg;

    h->odd = !done && h->form == FORM_AGGREGATED;
    if (done)
        over(h);
    else
        fails(h, "not a discovery document");
}

static void start_parsing(struct half *h)
{
    work_start(api_work(h->fetch->o.api), &h->work, parse_some, parsed, h);
}

static void on_walked(void *arg, const char *failure)
{
    struct half *h = arg;

    if (failure == NULL) {
        start_parsing(h);
        return;
    }
    (void)err_set(&h->err, "%s", failure);
    fails(h, failure);
}

static void start_walk(struct half *h)
{
    const struct disco_fetch_opts *o = &h->fetch->o;
    const struct legacy_walk_opts w = {
        .api = o->api,
        .origin = o->origin,
        .peer = o->peer,
        .mvproxy = h->mvproxy,
        .kind = h == &h->fetch->halves[CORE] ? DISCO_WALK_API : DISCO_WALK_APIS,
        .parser = h->parser,
        .last = h->fetch->last == NULL ? NULL : disco_apis(h->fetch->last),
        .timeout_ms = o->timeout_ms,
        .done = on_walked,
        .arg = h,
    };

    h->walk = legacy_walk_start(&w, buf_slice(&h->legacy), &h->err);
    buf_release(&h->legacy);
    if (h->walk == NULL)
        fails(h, "not a legacy discovery document");
}

/* ---- the answer ---- */

/* The answer says what it is; parameters may come in any order and more may be there (client-go tolerates the same). */
static enum form form_of(const struct http_head *head)
{
    struct slice rest = http_head_value(head, HTTP_CONTENT_TYPE), part;
    bool json = false, group = false, version = false, as = false;

    while (slice_split(&rest, ';', &part)) {
        part = slice_trim(part);
        json = json || slice_ieq(part, SLICE_LIT("application/json"));
        group = group || slice_eq(part, SLICE_LIT("g=apidiscovery.k8s.io"));
        version = version || slice_eq(part, SLICE_LIT("v=v2")) || slice_eq(part, SLICE_LIT("v=v2beta1"));
        as = as || slice_eq(part, SLICE_LIT("as=APIGroupDiscoveryList"));
    }
    if (!json)
        return FORM_NONE;
    return group && version && as ? FORM_AGGREGATED : FORM_LEGACY;
}

static bool on_piece(void *arg, const struct http_head *head, struct slice piece)
{
    struct half *h = arg;

    if (head->status != 200)
        return true; /* the body of an error says nothing that we need */
    if (h->form == FORM_NONE)
        h->form = form_of(head);
    switch (h->form) {
    case FORM_AGGREGATED:
        h->odd = !disco_parser_feed(h->parser, piece, &h->err);
        return !h->odd;
    case FORM_LEGACY:
        return buf_append(&h->legacy, piece) ||
               err_set(&h->err, "the legacy document is over %u bytes", (unsigned)LEGACY_ROOT_BYTES);
    case FORM_NONE:
        break;
    }
    return err_set(&h->err, "the answer is not JSON");
}

static void keep_etag(struct half *h, const struct http_head *head)
{
    struct slice etag = http_head_value(head, HTTP_ETAG);

    if (etag.n == 0 || etag.n >= sizeof(h->etag))
        return;
    memcpy(h->etag, etag.p, etag.n); /* before a zero, for there is one answer */
}

static void on_status(struct half *h, unsigned status)
{
    struct err why = {.text = ""};

    h->not_modified = status == 304 && h->old_etag[0] != '\0';
    /* A server need not have /api. */
    if (h->not_modified || (status == 404 && h == &h->fetch->halves[CORE])) {
        over(h);
        return;
    }
    h->refused = status == 401 || status == 403 ? status : 0;
    (void)err_set(&why, "answered %u", status);
    fails(h, why.text);
}

/* At its address another server answers, whose document says nothing of this one: somebody has written that address. */
static bool is_anothers(struct half *h, const struct http_head *head)
{
    const struct http_field *f = http_head_find_name(head, SLICE_LIT(USER_HOP));
    char id[SERVER_ID_BYTES];
    struct err why = {.text = ""};
    const char *name;

    if (!h->mvproxy || h->fetch->o.another == NULL)
        return false;
    memcpy(id, f->value.p, SERVER_ID_CHARS);
    id[SERVER_ID_CHARS] = '\0';
    name = h->fetch->o.another(h->fetch->o.arg, id);
    if (name == NULL)
        return false;
    (void)err_set(&why, "the address leads to %s", name);
    fails(h, why.text);
    return true;
}

static void on_root(void *arg, const struct fetch_result *r)
{
    struct half *h = arg;

    h->root = NULL;
    /* Only a peer is asked with marks, and only to marks an mvproxy answers so. */
    h->mvproxy = r->ok && h->fetch->o.peer && api_through_mvproxy(r->head);
    h->word = h->mvproxy ? api_word(r->head) : API_WORD_NONE;
    h->connection = r->connection;
    if (!r->ok)
        fails(h, r->failure);
    else if (is_anothers(h, r->head))
        return;
    else if (r->head->status != 200)
        on_status(h, r->head->status);
    else if (h->form == FORM_AGGREGATED) {
        keep_etag(h, r->head);
        start_parsing(h);
    } else if (h->form == FORM_LEGACY)
        start_walk(h);
    else
        fails(h, "empty answer");
}

static bool start_half(struct disco_fetch *f, size_t i, struct slice etag)
{
    struct half *h = &f->halves[i];
    const struct api_request g = {
        .origin = f->o.origin,
        .peer = f->o.peer,
        .target = slice_str(path(h)),
        .accept = SLICE_LIT(ACCEPT_V2 ";profile=nopeer," ACCEPT_V2BETA1 ";profile=nopeer," ACCEPT_V2 "," ACCEPT_V2BETA1
                                      ",application/json"),
        .if_none_match = etag,
        .ceiling = LIMIT_DISCOVERY_BYTES,
        .timeout_ms = f->o.timeout_ms,
        .on_piece = on_piece,
    };

    buf_init(&h->legacy, LEGACY_ROOT_BYTES);
    h->parser = disco_parser_new();
    if (h->parser != NULL && f->o.peer)
        disco_parser_judge(h->parser, i == CORE);
    h->old_etag = mem_slicedup(etag);
    if (h->parser != NULL && h->old_etag != NULL)
        h->root = api_send(f->o.api, &g, on_root, h);
    return h->root != NULL;
}

struct disco_fetch *disco_fetch_start(const struct disco_fetch_opts *o, disco_fetch_fn *fn, void *arg)
{
    struct disco_fetch *f = mem_zalloc(sizeof(*f));

    if (f == NULL)
        return NULL;
    f->o = (struct disco_fetch_opts){.api = o->api,
                                     .origin = origin_ref(o->origin),
                                     .peer = o->peer,
                                     .timeout_ms = o->timeout_ms,
                                     .another = o->another,
                                     .arg = o->arg};
    f->last = o->last == NULL ? NULL : disco_ref(o->last);
    f->fn = fn;
    f->arg = arg;
    f->halves[CORE].fetch = f->halves[APIS].fetch = f;
    f->deadline = loop_timer_new(api_loop(o->api), on_deadline, f);
    if (f->deadline == NULL || !start_half(f, CORE, o->core_etag) || !start_half(f, APIS, o->apis_etag)) {
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
