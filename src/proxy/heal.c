/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/heal.h"

#include "base/limits.h"
#include "base/log.h"
#include "http/etag.h"
#include "http/negotiate.h"
#include "kube/disco_same.h"
#include "kube/legacy_heal.h"
#include "kube/legacy_proto.h"
#include "kube/schema_complete.h"
#include "kube/status.h"
#include "kube/surface.h"
#include "proxy/decide.h"
#include "proxy/deliver.h"
#include "proxy/forward.h"
#include "proxy/heal_denial.h"
#include "proxy/heal_schemas.h"
#include "proxy/judge.h"
#include "proxy/relay.h"
#include "proxy/rewrite.h"

enum {
    HOLD_UNANNOUNCED = 2 << 20, /* of an answer that does not say how long it is: less than may wait for a client */
};

static const struct slice media_types[] = {
    [NEGOTIATE_JSON] = SLICE_LIT("application/json"),
    [NEGOTIATE_YAML] = SLICE_LIT("application/yaml"),
    [NEGOTIATE_PROTOBUF] = SLICE_LIT("application/vnd.kubernetes.protobuf"),
};

struct heal {
    struct heal_subject of;
    bool completes;             /* there may be something to add */
    enum negotiate_format form; /* in which it is wanted; the server is asked for JSON */
    /* The answer that is held back, until all of it is there, in j->kept. NULL: it is relayed. */
    const struct http_head *head;
    struct http_body body;
    bool wanted;             /* to be completed; else, an error, only written in another form */
    enum legacy_heal result; /* what has become of it */
    bool encodes;            /* the next step writes it as protobuf */
    char etag[ETAG_BYTES];
};

/* ---- what is there to add? ---- */

/* Of which the answers of one server are not those of another. */
static bool is_legacy_discovery(enum surface_kind kind)
{
    return kind == SURFACE_GROUPS || kind == SURFACE_GROUP || kind == SURFACE_RESOURCES;
}

bool heal_is_legacy_discovery(struct slice path)
{
    return is_legacy_discovery(surface_of(path).kind);
}

/* Without what peers have, the answer would say that it does not exist. */
static bool waits_for_peers(enum surface_kind kind)
{
    return is_legacy_discovery(kind) || kind == SURFACE_SCHEMAS;
}

bool heal_waits_for_peers(struct slice path)
{
    return waits_for_peers(surface_of(path).kind);
}

/* A live peer is asked, which need not have what only the local server had. */
static bool is_away(const struct job *j)
{
    return cluster_fails_over(j->proxy->cluster) && cluster_local_state(j->proxy->cluster) != READINESS_READY;
}

/*
 * The versions, too, are made of the stored APIServices where one of the group is left: one that lacks some of them,
 * and starts, deletes those. Where all servers have the group alike nobody has done so. `local`: NULL: it is away.
 */
static bool group_differs(const struct served *s, const struct disco_doc *local, const struct disco_group *g)
{
    const struct disco_group *own;

    if (g == NULL || g->versions == NULL)
        return false; /* there is nothing to add */
    own = local == NULL ? NULL : disco_doc_group(local, g->name);
    if (own == NULL || own->hash != g->hash)
        return true;
    for (size_t i = 0; i < served_n_peers(s) && !served_excluded(s, g->name, g->versions->name); i++) {
        const struct disco *d = served_peer_at(s, i)->disco;

        own = d == NULL ? g : disco_doc_group(disco_apis(d), g->name);
        if (own == NULL || own->hash != g->hash)
            return true;
    }
    return false;
}

static bool differs(const struct job *j, struct heal *h, bool away)
{
    const struct disco_doc *local = disco_half(served_local_disco(j->served), heal_half(&h->of) == SERVED_CORE);
    const struct disco_version *v, *own_version;

    h->of.merged = served_merged_doc(j->served, heal_half(&h->of));
    if (away)
        local = NULL;
    if (h->of.merged == NULL || (local == NULL && !away))
        return false;
    /* Made of the stored APIServices: a server that starts deletes those of what it lacks, whoever else has it. */
    if (h->of.path.kind == SURFACE_GROUPS)
        return h->of.merged != local || served_n_peers(j->served) > 0;
    if (h->of.path.kind == SURFACE_GROUP)
        return group_differs(j->served, local, disco_doc_group(h->of.merged, h->of.path.group));
    if (h->of.merged == local)
        return false;
    v = disco_doc_version(h->of.merged, h->of.path.group, h->of.path.version);
    own_version = local == NULL ? NULL : disco_doc_version(local, h->of.path.group, h->of.path.version);
    return v != NULL && (own_version == NULL || !disco_version_same(own_version, v));
}

/* For a client that takes none of the three nothing is completed. */
static bool takes_a_form(const struct job *j, struct heal *h)
{
    return negotiate_plain(http_head_value(exchange_request(j->x), HTTP_ACCEPT),
                           NEGOTIATE_OFFER_YAML | NEGOTIATE_OFFER_PROTOBUF, &h->form);
}

static bool may_complete(const struct job *j, struct heal *h, bool away)
{
    if (h->of.path.kind == SURFACE_NONE || h->of.path.kind == SURFACE_CORE)
        return false;
    if (h->of.path.kind == SURFACE_SCHEMAS)
        return away || heal_schemas_lacking(j);
    return differs(j, h, away) && takes_a_form(j, h);
}

/* ---- the answer, completed ---- */

static enum legacy_heal complete(const struct job *j, struct buf *out)
{
    const struct heal *h = j->heal;
    struct slice said = h->head->status == 200 ? buf_slice(&j->kept) : slice_of("", 0);

    switch (h->of.path.kind) {
    case SURFACE_GROUPS:
        return legacy_heal_groups(said, h->of.merged, out);
    case SURFACE_GROUP:
        return legacy_heal_group(said, disco_doc_group(h->of.merged, h->of.path.group), out);
    case SURFACE_RESOURCES:
        return legacy_heal_resources(said, disco_doc_version(h->of.merged, h->of.path.group, h->of.path.version), out);
    case SURFACE_SCHEMAS: /* complete_schemas() */
    case SURFACE_CORE:
    case SURFACE_NONE:
        break;
    }
    return LEGACY_FAILED;
}

/* `error`: the body is the server's error in another form, for which the last one is as true. */
static bool is_of_the_body(const struct http_field *f, bool error)
{
    return f->id == HTTP_CONTENT_LENGTH || f->id == HTTP_CONTENT_TYPE || f->id == HTTP_ETAG ||
           slice_ieq(f->name, SLICE_LIT("Last-Modified")) || slice_ieq(f->name, SLICE_LIT("Accept-Ranges")) ||
           (!error && slice_ieq(f->name, SLICE_LIT("X-Content-Type-Options")));
}

/* The server's fields, but for those that are about its own body. */
static bool make_head(struct job *j, struct slice etag, struct http_head *out)
{
    struct rewrite_origin from = {.served_by = j->peer != NULL ? j->peer->id : NULL};
    struct arena *a = exchange_arena(j->x);
    size_t kept = 0;

    request_summary_note_answer(&j->summary, j->heal->head);
    if (!rewrite_response(j->heal->head, &from, a, out))
        return false;
    for (size_t i = 0; i < out->n_fields; i++)
        if (!is_of_the_body(&out->fields[i], !j->heal->wanted))
            out->fields[kept++] = out->fields[i];
    out->n_fields = kept;
    if (j->heal->wanted) {
        out->status = etag.n > 0 && etag_matches(exchange_request(j->x), etag) ? 304 : 200;
        out->reason = http_reason(out->status);
    }
    return http_head_add_id(out, a, HTTP_CONTENT_TYPE, media_types[j->heal->form]) &&
           (etag.n == 0 || http_head_add_id(out, a, HTTP_ETAG, etag));
}

/*
 * Of what is wanted: somebody has it. So it is completed, or else 503, but never relayed, and what its body says does
 * not matter.
 */
static bool is_false_404(const struct heal *h, const struct http_head *head)
{
    return h->wanted && head->status == 404;
}

static size_t most_held(const struct heal *h)
{
    return h->of.path.kind == SURFACE_SCHEMAS ? LIMIT_SCHEMA_INDEX_BYTES : LIMIT_HEALED_BYTES;
}

/* What turns out to be longer than may be held is let go at once. */
static bool fits(const struct heal *h, struct http_body body)
{
    return body.kind != HTTP_BODY_LENGTH || body.length <= most_held(h);
}

/* Room for all of it where that is known, so that it is not found out in the middle that there is none. */
static bool hold(struct job *j, const struct http_head *head, struct http_body body)
{
    size_t most = most_held(j->heal);

    if (body.kind != HTTP_BODY_LENGTH && most > HOLD_UNANNOUNCED)
        most = HOLD_UNANNOUNCED;
    buf_init(&j->kept, most);
    buf_charge(&j->kept, arena_quota(exchange_arena(j->x)));
    j->heal->head = head;
    j->heal->body = body;
    if (is_false_404(j->heal, head) || body.kind != HTTP_BODY_LENGTH || body.length == 0 ||
        buf_reserve(&j->kept, body.length) != NULL)
        return true;
    j->heal->head = NULL;
    buf_release(&j->kept);
    return false;
}

/* What is to be relayed is written in this form as well: the server was asked for another one. */
static enum step encode_it(struct job *j)
{
    struct buf out;

    buf_init(&out, 2 * most_held(j->heal));
    if (legacy_proto_encode(j->document.p != NULL ? j->document : buf_slice(&j->kept), &out)) {
        j->heal->result = LEGACY_HEALED;
        j->document = arena_copy(exchange_arena(j->x), buf_slice(&out));
    } else {
        j->heal->result = LEGACY_FAILED;
    }
    buf_free(&out);
    return STEP_DONE;
}

/* Parsing, merging, writing: a share of the turn, of which others have theirs. */
static enum step complete_it(void *arg)
{
    struct job *j = arg;
    struct heal *h = j->heal;
    struct buf out;

    if (h->encodes)
        return encode_it(j);
    buf_init(&out, 2 * most_held(h));
    h->result = h->wanted ? complete(j, &out) : LEGACY_COMPLETE;
    j->document = h->result == LEGACY_HEALED ? arena_copy(exchange_arena(j->x), buf_slice(&out)) : SLICE_NONE;
    buf_free(&out);
    h->encodes = h->form == NEGOTIATE_PROTOBUF && (h->result == LEGACY_COMPLETE || j->document.p != NULL);
    return h->encodes ? STEP_MORE : STEP_DONE;
}

/* The tag is as kube-openapi's: of the bytes. Only the index of schemas has one. */
static enum step complete_schemas(void *arg)
{
    struct job *j = arg;
    unsigned char digest[HASH_SHA512_BYTES];
    enum step s = schema_completion_step(j->schemas);

    if (s == STEP_FAILED)
        j->heal->result = LEGACY_FAILED;
    if (s != STEP_DONE)
        return s;
    j->heal->result = LEGACY_HEALED;
    j->document = schema_completion_text(j->schemas);
    schema_completion_sha512(j->schemas, digest);
    etag_from_sha512(digest, j->heal->etag);
    return STEP_DONE;
}

static void answer(struct job *j)
{
    struct http_head head;

    buf_release(&j->kept);
    if (j->document.p == NULL || !make_head(j, slice_str(j->heal->etag), &head))
        job_refuse(j, 503, STATUS_NO_MEMORY);
    else
        deliver(j, &head, (struct http_body){head.status == 304 ? HTTP_BODY_NONE : HTTP_BODY_LENGTH, j->document.n});
}

/* ---- the answer, relayed ---- */

/* The answer to our GET, for a client's HEAD: without its body. */
static void relay_head_only(struct job *j, const struct http_head *head)
{
    struct rewrite_origin from = {.served_by = j->peer != NULL ? j->peer->id : NULL};
    struct http_head out;

    request_summary_note_answer(&j->summary, head);
    if (rewrite_response(head, &from, exchange_arena(j->x), &out))
        deliver(j, &out, (struct http_body){HTTP_BODY_NONE, 0});
    else
        job_refuse(j, 503, STATUS_NO_MEMORY);
}

static bool is_for_head(const struct job *j)
{
    return j->heal->completes && exchange_request(j->x)->method_id == HTTP_HEAD;
}

/* What was held back goes on as it came. False: the job is over. */
static bool let_go(struct job *j)
{
    struct heal *h = j->heal;
    const struct http_head *head = h->head;

    h->head = NULL;
    if (is_for_head(j)) {
        relay_head_only(j, head);
        return false;
    }
    if (!relay_held(j, head, h->body, buf_slice(&j->kept)))
        return false;
    buf_release(&j->kept);
    return true;
}

/* The same when all of it is there: piece by piece, for it may be more than may wait for the client at once. */
static void relay_whole(struct job *j)
{
    struct rewrite_origin from = {.served_by = j->peer != NULL ? j->peer->id : NULL};
    const struct http_head *head = j->heal->head;
    struct http_head out;

    request_summary_note_answer(&j->summary, head);
    j->document = buf_slice(&j->kept);
    if (is_for_head(j))
        relay_head_only(j, head);
    else if (rewrite_response(head, &from, exchange_arena(j->x), &out))
        deliver(j, &out, (struct http_body){HTTP_BODY_LENGTH, j->document.n});
    else
        job_refuse(j, 503, STATUS_NO_MEMORY);
}

static bool is_wanted(const struct job *j, const struct http_head *head)
{
    const struct heal *h = j->heal;

    return h->completes && http_head_find(head, HTTP_CONTENT_ENCODING) == NULL &&
           (head->status == 200 || (head->status == 404 && heal_is_about_one(&h->of)));
}

static bool is_json(const struct http_head *head)
{
    return slice_ieq(http_head_value(head, HTTP_CONTENT_TYPE), media_types[NEGOTIATE_JSON]);
}

/* Nothing is to be added to an error, but the server was asked for JSON, and the client takes protobuf. */
static bool is_rewritten(const struct heal *h, const struct http_head *head, struct http_body body)
{
    return h->completes && h->form == NEGOTIATE_PROTOBUF && is_json(head) && body.kind != HTTP_BODY_NONE &&
           http_head_find(head, HTTP_CONTENT_ENCODING) == NULL;
}

/*
 * The server was asked for JSON, which is YAML 1.2 as well. Who takes YAML only is told so, in an error and where there
 * was nothing to add as in what is completed. NULL: out of memory.
 */
static const struct http_head *as_accepted(const struct job *j, const struct http_head *head)
{
    struct arena *a = exchange_arena(j->x);
    struct http_head *as_yaml;

    if (!j->heal->completes || j->heal->form != NEGOTIATE_YAML || !is_json(head))
        return head;
    as_yaml = arena_alloc(a, sizeof(*as_yaml));
    if (as_yaml == NULL || !http_head_copy(head, a, as_yaml))
        return NULL;
    for (size_t i = 0; i < as_yaml->n_fields; i++)
        if (as_yaml->fields[i].id == HTTP_CONTENT_TYPE)
            as_yaml->fields[i].value = media_types[NEGOTIATE_YAML];
    return as_yaml;
}

static bool on_head(struct job *j, const struct http_head *head, struct http_body body)
{
    struct heal *h = j->heal;

    head = as_accepted(j, head);
    if (head == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return false;
    }
    j->peer = j->judge;
    j->summary.peer = j->peer != NULL ? j->peer->host : NULL;
    if (head->status == 404 && heal_is_about_one(&h->of) && heal_denied(j, &h->of, is_wanted(j, head)))
        return false;
    h->wanted = is_wanted(j, head);
    if ((h->wanted || is_rewritten(h, head, body)) && (is_false_404(h, head) || fits(h, body)) && hold(j, head, body))
        return true;
    if (is_for_head(j)) {
        relay_head_only(j, head);
        return false;
    }
    return relay_head(j, head, body);
}

static void on_body(struct job *j, struct slice data)
{
    const struct http_head *head = j->heal->head;

    if (head != NULL && (is_false_404(j->heal, head) || buf_append(&j->kept, data)))
        return;
    if (j->heal->head == NULL || let_go(j))
        relay_body(j, data);
}

static void completed(void *arg, bool done)
{
    struct job *j = arg;

    (void)done;
    if (j->heal->result != LEGACY_HEALED) {
        schema_completion_free(j->schemas);
        j->schemas = NULL;
    }
    if (j->heal->result == LEGACY_FAILED)
        log_v(3, "Discovery of the server relayed without what others have", LS("path", j->info.path),
              LU("bytes", buf_len(&j->kept)));
    if (j->heal->result == LEGACY_HEALED)
        answer(j);
    else if (is_false_404(j->heal, j->heal->head))
        job_refuse(j, 503, STATUS_NO_MEMORY);
    else
        relay_whole(j);
}

/* The request to the server is over, and with it the head that it has given. */
static bool keep_head(struct job *j)
{
    struct http_head *copy = arena_alloc(exchange_arena(j->x), sizeof(*copy));

    if (copy == NULL || !http_head_copy(j->heal->head, exchange_arena(j->x), copy))
        return false;
    j->heal->head = copy;
    return true;
}

/*
 * Only of a document: with trailers, which no API server has, it goes on as it came, but without them if it is more
 * than may wait for a client at once.
 */
static bool is_relayed_with(const struct job *j, const struct http_head *trailers)
{
    const struct heal *h = j->heal;

    return h->head == NULL || (trailers != NULL && trailers->n_fields > 0 && !is_false_404(h, h->head) &&
                               buf_len(&j->kept) <= HOLD_UNANNOUNCED);
}

static void start_completing(struct job *j)
{
    bool schemas = j->heal->of.path.kind == SURFACE_SCHEMAS;
    struct schema_merge m;

    if (schemas && heal_schemas_gather(j, &m))
        j->schemas =
            schema_completion_new(buf_slice(&j->kept), &m, 2 * most_held(j->heal), arena_quota(exchange_arena(j->x)));
    if (!schemas || j->schemas != NULL) {
        work_start(&j->proxy->work, &j->work, schemas ? complete_schemas : complete_it, completed, j);
    } else {
        j->heal->result = LEGACY_FAILED;
        completed(j, false);
    }
}

static void on_end(struct job *j, const struct http_head *trailers)
{
    if (is_relayed_with(j, trailers)) {
        if (j->heal->head == NULL || let_go(j))
            relay_end(j, trailers);
    } else if (keep_head(j)) {
        start_completing(j);
    } else {
        job_refuse(j, 503, STATUS_NO_MEMORY);
    }
}

static void before_next(struct job *j);

static struct judge_question ask_for(struct job *j, bool away)
{
    static const struct judge_handler handler = {
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
        .before_next = before_next,
    };
    struct heal *h = j->heal;

    h->completes = may_complete(j, h, away);
    return (struct judge_question){
        .handler = &handler,
        .accept = h->completes && h->of.path.kind != SURFACE_SCHEMAS ? SLICE_LIT("application/json") : SLICE_NONE,
        .whole = h->completes,
        .get = h->completes,
    };
}

/*
 * What is held of an answer that was broken off is nobody's: neither the next server's question nor its answer. And
 * the next one is a peer, of which more is to be completed.
 */
static void before_next(struct job *j)
{
    struct judge_question q;

    j->heal->head = NULL;
    buf_release(&j->kept);
    if (j->judge == NULL) {
        q = ask_for(j, true);
        judge_change(j, &q);
    }
}

void heal(struct job *j)
{
    struct heal *h = arena_zalloc(exchange_arena(j->x), sizeof(*h));
    struct judge_question q;

    if (h == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    h->of.path = surface_of(j->info.path);
    if (is_legacy_discovery(h->of.path.kind) && !j->config->legacy_discovery) {
        forward_local(j);
        return;
    }
    j->heal = h;
    j->bare = true;
    if (waits_for_peers(h->of.path.kind) && !judge_peers_were_asked(j))
        return;
    if (h->of.path.kind == SURFACE_SCHEMAS && served_schemas_pending(j->served)) {
        job_refuse(j, 503, STATUS_SYNCING);
        return;
    }
    q = ask_for(j, is_away(j) || heal_is_unsettled(j, &h->of));
    judge_ask(j, &q);
}
