/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/disco_half.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "cluster/api.h"
#include "cluster/work.h"
#include "kube/disco_legacy.h"
#include "kube/disco_parse.h"
#include "kube/server_id.h"
#include "kube/user.h"
#include "net/loop.h"

#define ACCEPT_V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define ACCEPT_V2BETA1 "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#define ACCEPT_JSON "application/json"

enum {
    STEP_BYTES = 256 << 10, /* of a document at a time: some 2 ms */
    WALK_PARALLEL = 8,
    LEGACY_ROOT_BYTES = 8 << 20,
    LEGACY_LIST_BYTES = 8 << 20,
    ETAG_BYTES_MAX = 512,
};

enum state {
    STATE_ASKING,  /* the root request is under way */
    STATE_WALKING, /* legacy: the group/versions are */
    STATE_PARSING, /* all bytes are there */
    STATE_OVER,    /* the result waits for the end of the turn */
};

enum form { FORM_NONE, FORM_AGGREGATED, FORM_LEGACY };

struct step {
    struct disco_half *half;
    struct fetch *fetch; /* NULL: free */
    size_t index;
};

struct disco_half {
    struct disco_half_opts o;
    disco_half_fn *fn;
    void *arg;
    struct loop *loop;
    enum state state;
    enum form form;
    struct fetch *root;
    struct buf legacy; /* the legacy root */
    struct disco_parser *parser;
    struct disco_walk *walk;
    struct step steps[WALK_PARALLEL];
    size_t next, running; /* of the walk */
    char etag[ETAG_BYTES_MAX];
    struct err err;
    bool failed, refused, not_modified, mvproxy;
    uint64_t connection; /* of the root's answer */
    struct disco_doc *doc;
    struct loop_deferred turn; /* delivers */
    struct work work;          /* parses */
};

static void half_free(struct disco_half *h)
{
    if (h->root != NULL)
        fetch_cancel(h->root);
    for (size_t i = 0; i < WALK_PARALLEL; i++)
        if (h->steps[i].fetch != NULL)
            fetch_cancel(h->steps[i].fetch);
    loop_defer_cancel(h->loop, &h->turn);
    work_cancel(api_work(h->o.api), &h->work);
    disco_parser_free(h->parser);
    disco_walk_free(h->walk);
    buf_free(&h->legacy);
    disco_doc_unref(h->doc);
    origin_unref(h->o.origin);
    mem_free(h);
}

static void deliver(void *arg)
{
    struct disco_half *h = arg;
    struct disco_half_result r = {
        .ok = !h->failed,
        .failure = h->failed ? h->err.text : NULL,
        .refused = h->refused,
        .not_modified = h->not_modified,
        .doc = h->doc,
        .etag = slice_str(h->etag),
        .mvproxy = h->mvproxy,
        .connection = h->connection,
    };

    h->doc = NULL;
    h->fn(h->arg, &r);
    half_free(h);
}

static void over(struct disco_half *h)
{
    if (h->state == STATE_OVER)
        return;
    h->state = STATE_OVER;
    loop_defer(h->loop, &h->turn, deliver, h);
}

static void fails(struct disco_half *h, const char *what, const char *why)
{
    h->failed = true;
    (void)err_set(&h->err, "%s: %s", what, why);
    over(h);
}

static const char *path(const struct disco_half *h)
{
    return h->o.core ? "/api" : "/apis";
}

/* -------------------------------------------------------------------------------------------------------- parsing */

static void parse_some(void *arg)
{
    struct disco_half *h = arg;

    switch (disco_parser_step(h->parser, STEP_BYTES, &h->doc, &h->err)) {
    case DISCO_STEP_MORE:
        work_add(api_work(h->o.api), &h->work, parse_some, h);
        return;
    case DISCO_STEP_DONE:
        over(h);
        return;
    case DISCO_STEP_FAILED:
        fails(h, path(h), "not a discovery document");
        return;
    }
}

static void start_parsing(struct disco_half *h)
{
    h->state = STATE_PARSING;
    work_add(api_work(h->o.api), &h->work, parse_some, h);
}

/* -------------------------------------------------------------------------------------------------- the legacy walk */

static void walk_on(struct disco_half *h);

static void walk_failed(struct disco_half *h, size_t index, const char *why)
{
    char what[128];
    struct slice p = disco_walk_path(h->walk, index);

    (void)snprintf(what, sizeof what, "%.*s", (int)(p.n > 100 ? 100 : p.n), p.p);
    fails(h, what, why);
}

static void on_step(void *arg, const struct fetch_result *r)
{
    struct step *s = arg;
    struct disco_half *h = s->half;
    struct err ignored = {.text = ""};

    s->fetch = NULL;
    h->running--;
    if (h->state == STATE_OVER)
        return;
    /* The server itself is in trouble, not one of the groups: keep what was known before. */
    if (!r->ok) {
        walk_failed(h, s->index, r->failure);
        return;
    }
    if (r->head->status == 404)
        disco_walk_absent(h->walk, s->index);
    else if (r->head->status != 200 || !disco_walk_resources(h->walk, s->index, r->body, &ignored))
        disco_walk_unavailable(h->walk, s->index);
    walk_on(h);
}

static bool walk_one(struct disco_half *h, struct step *s)
{
    struct api_request g = {
        .origin = h->o.origin,
        .peer = h->o.peer,
        .target = disco_walk_path(h->walk, h->next),
        .accept = SLICE_LIT(ACCEPT_JSON),
        .ceiling = LEGACY_LIST_BYTES,
        .timeout_ms = h->o.timeout_ms,
    };

    s->half = h;
    s->index = h->next++;
    s->fetch = api_send(h->o.api, &g, on_step, s);
    h->running += s->fetch != NULL;
    return s->fetch != NULL;
}

static void walk_on(struct disco_half *h)
{
    for (size_t i = 0; i < WALK_PARALLEL && h->next < disco_walk_count(h->walk); i++)
        if (h->steps[i].fetch == NULL && !walk_one(h, &h->steps[i])) {
            fails(h, path(h), "out of memory");
            return;
        }
    if (h->running > 0)
        return;
    if (!disco_walk_finish(h->walk, h->parser, &h->err))
        fails(h, path(h), "cannot convert the legacy documents");
    else
        start_parsing(h);
}

static void start_walk(struct disco_half *h)
{
    h->state = STATE_WALKING;
    h->walk = disco_walk_new(h->o.core ? DISCO_WALK_API : DISCO_WALK_APIS);
    if (h->walk == NULL)
        fails(h, path(h), "out of memory");
    else if (!disco_walk_root(h->walk, buf_slice(&h->legacy), &h->err))
        fails(h, path(h), "not a legacy discovery document");
    else
        walk_on(h);
    buf_release(&h->legacy);
}

/* ------------------------------------------------------------------------------------------------------- the root */

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
    struct disco_half *h = arg;

    if (head->status != 200)
        return true; /* the body of an error says nothing that we need */
    if (h->form == FORM_NONE)
        h->form = form_of(head);
    switch (h->form) {
    case FORM_AGGREGATED:
        return disco_parser_feed(h->parser, piece, &h->err);
    case FORM_LEGACY:
        return buf_append(&h->legacy, piece) ||
               err_set(&h->err, "the legacy document is over %u bytes", (unsigned)LEGACY_ROOT_BYTES);
    case FORM_NONE:
        break;
    }
    return err_set(&h->err, "the answer is not JSON");
}

static void keep_etag(struct disco_half *h, const struct http_head *head)
{
    struct slice etag = http_head_value(head, HTTP_ETAG);

    if (h->form != FORM_AGGREGATED || etag.n >= sizeof h->etag)
        return;
    if (etag.n > 0)
        memcpy(h->etag, etag.p, etag.n);
    h->etag[etag.n] = '\0';
}

/* Only a peer is asked with marks, and only to marks an mvproxy answers so. */
static bool says_hop(const struct disco_half *h, const struct http_head *head)
{
    const struct http_field *f = http_head_find_name(head, SLICE_LIT(USER_HOP));

    return h->o.peer && f != NULL && server_id_valid(f->value);
}

static void on_status(struct disco_half *h, unsigned status)
{
    char why[32];

    if (status == 304 && h->o.if_none_match.n > 0) {
        h->not_modified = true;
        over(h);
        return;
    }
    if (status == 404 && h->o.core) {
        over(h);
        return;
    }
    h->refused = status == 401 || status == 403;
    (void)snprintf(why, sizeof why, "answered %u", status);
    fails(h, path(h), why);
}

static void on_root(void *arg, const struct fetch_result *r)
{
    struct disco_half *h = arg;

    h->root = NULL;
    h->mvproxy = r->ok && says_hop(h, r->head);
    h->connection = r->connection;
    if (!r->ok)
        fails(h, path(h), r->failure);
    else if (r->head->status != 200)
        on_status(h, r->head->status);
    else if (h->form == FORM_AGGREGATED) {
        keep_etag(h, r->head);
        start_parsing(h);
    } else if (h->form == FORM_LEGACY)
        start_walk(h);
    else
        fails(h, path(h), "empty answer");
}

struct disco_half *disco_half_start(const struct disco_half_opts *o, disco_half_fn *fn, void *arg)
{
    struct disco_half *h = mem_zalloc(sizeof *h);
    struct api_request g = {
        .origin = o->origin,
        .peer = o->peer,
        .target = o->core ? SLICE_LIT("/api") : SLICE_LIT("/apis"),
        .accept = SLICE_LIT(ACCEPT_V2 ";profile=nopeer," ACCEPT_V2BETA1 ";profile=nopeer," ACCEPT_V2 "," ACCEPT_V2BETA1
                                      "," ACCEPT_JSON),
        .if_none_match = o->if_none_match,
        .ceiling = LIMIT_DISCOVERY_BYTES,
        .timeout_ms = o->timeout_ms,
        .on_piece = on_piece,
    };

    if (h == NULL)
        return NULL;
    h->o = *o;
    h->fn = fn;
    h->arg = arg;
    h->loop = api_loop(o->api);
    h->o.origin = origin_ref(o->origin);
    buf_init(&h->legacy, LEGACY_ROOT_BYTES);
    h->parser = disco_parser_new();
    if (h->parser != NULL)
        h->root = api_send(o->api, &g, on_root, h);
    if (h->root != NULL)
        return h;
    half_free(h);
    return NULL;
}

void disco_half_cancel(struct disco_half *h)
{
    half_free(h);
}
