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
#include "proxy/judge.h"
#include "proxy/relay.h"
#include "proxy/rewrite.h"

enum {
    LOOK_SCHEMAS = 1000,        /* in one go: 1 ms, 4 of the longest ones */
    HOLD_UNANNOUNCED = 2 << 20, /* of an answer that does not say how long it is: less than may wait for a client */
};

static const struct slice media_types[] = {
    [NEGOTIATE_JSON] = SLICE_LIT("application/json"),
    [NEGOTIATE_YAML] = SLICE_LIT("application/yaml"),
    [NEGOTIATE_PROTOBUF] = SLICE_LIT("application/vnd.kubernetes.protobuf"),
};

struct heal {
    struct surface about;
    const struct disco_doc *merged;
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

static enum served_half half_with(const struct heal *h)
{
    return h->about.kind == SURFACE_RESOURCES && h->about.group.n == 0 ? SERVED_CORE : SERVED_APIS;
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
    const struct disco_doc *local = disco_half(served_local_disco(j->served), half_with(h) == SERVED_CORE);
    const struct disco_version *v, *own_version;

    h->merged = served_merged_doc(j->served, half_with(h));
    if (away)
        local = NULL;
    if (h->merged == NULL || (local == NULL && !away))
        return false;
    /* Made of the stored APIServices: a server that starts deletes those of what it lacks, whoever else has it. */
    if (h->about.kind == SURFACE_GROUPS)
        return h->merged != local || served_n_peers(j->served) > 0;
    if (h->about.kind == SURFACE_GROUP)
        return group_differs(j->served, local, disco_doc_group(h->merged, h->about.group));
    if (h->merged == local)
        return false;
    v = disco_doc_version(h->merged, h->about.group, h->about.version);
    own_version = local == NULL ? NULL : disco_doc_version(local, h->about.group, h->about.version);
    return v != NULL && (own_version == NULL || !disco_version_same(own_version, v));
}

static bool is_excluded(void *arg, struct slice group, struct slice version)
{
    return served_excluded(arg, group, version);
}

static size_t n_resources(const struct disco *d, enum served_half half, struct slice group, struct slice version)
{
    const struct disco_doc *doc = disco_half(d, half == SERVED_CORE);
    const struct disco_version *v = doc == NULL ? NULL : disco_doc_version(doc, group, version);

    return v == NULL ? 0 : v->n_resources;
}

/* The merged version has each resource that somebody has: who has as many has all of them. */
static bool is_outdone(void *arg, const struct schema_index *other, struct slice group, struct slice version)
{
    const struct served *s = arg;
    enum served_half half = group.n == 0 ? SERVED_CORE : SERVED_APIS;
    const struct disco_doc *merged = served_merged_doc(s, half);
    const struct disco_version *all = merged == NULL ? NULL : disco_doc_version(merged, group, version);

    if (all == NULL || n_resources(served_local_disco(s), half, group, version) >= all->n_resources)
        return false;
    for (size_t i = 0; i < served_n_peers(s); i++) {
        const struct served_peer *p = served_peer_at(s, i);

        if (p->life == SERVED_LIVE && schema_index_digest(p->last_schemas) == schema_index_digest(other) &&
            n_resources(p->disco, half, group, version) == all->n_resources)
            return true;
    }
    return false;
}

/* Most servers say the very same: one of them is enough. */
static void add_schemas(struct schema_merge *m, const struct schema_index **others, const struct schema_index *x)
{
    uint64_t digest = schema_index_digest(x);
    size_t i = 0;

    if (x == NULL || (m->base != NULL && schema_index_digest(m->base) == digest))
        return;
    while (i < m->n_others && schema_index_digest(others[i]) != digest)
        i++;
    if (i == m->n_others)
        others[m->n_others++] = x;
}

/* The indexes of everybody, those who say the same once. The array lives in the exchange's arena. */
static bool gather_schemas(const struct job *j, struct schema_merge *m)
{
    size_t n = served_n_peers(j->served);
    const struct schema_index **others = arena_alloc(exchange_arena(j->x), (n + 2) * sizeof(*others));

    *m = (struct schema_merge){.others = others, .excluded = is_excluded, .outdone = is_outdone, .arg = j->served};
    if (others == NULL)
        return false;
    add_schemas(m, others, served_local_schemas(j->served));
    /* Whose hash is named is asked for the document: rather one that is there. */
    for (size_t i = 0; i < n; i++)
        if (served_peer_at(j->served, i)->life == SERVED_LIVE)
            add_schemas(m, others, served_peer_at(j->served, i)->last_schemas);
    for (size_t i = 0; i < n; i++)
        if (served_peer_at(j->served, i)->life != SERVED_LIVE)
            add_schemas(m, others, served_peer_at(j->served, i)->last_schemas);
    m->unhashed = served_undiscovered_schemas(j->served);
    add_schemas(m, others, m->unhashed);
    return true;
}

/* Of many it is not known before they are merged, in steps. */
static bool lacks_schemas(const struct job *j)
{
    struct schema_merge m;

    if (!gather_schemas(j, &m))
        return false;
    m.base = served_local_schemas(j->served);
    return schema_merge_adds(&m, LOOK_SCHEMAS);
}

/* For a client that takes none of the three nothing is completed. */
static bool takes_a_form(const struct job *j, struct heal *h)
{
    return negotiate_plain(http_head_value(exchange_request(j->x), HTTP_ACCEPT),
                           NEGOTIATE_OFFER_YAML | NEGOTIATE_OFFER_PROTOBUF, &h->form);
}

static bool may_complete(const struct job *j, struct heal *h, bool away)
{
    if (h->about.kind == SURFACE_NONE || h->about.kind == SURFACE_CORE || exchange_wants_upgrade(j->x))
        return false;
    if (h->about.kind == SURFACE_SCHEMAS)
        return away || lacks_schemas(j);
    return differs(j, h, away) && takes_a_form(j, h);
}

/* ---- the answer, completed ---- */

static enum legacy_heal complete(const struct job *j, struct buf *out)
{
    const struct heal *h = j->heal;
    struct slice said = h->head->status == 200 ? buf_slice(&j->kept) : slice_of("", 0);

    switch (h->about.kind) {
    case SURFACE_GROUPS:
        return legacy_heal_groups(said, h->merged, out);
    case SURFACE_GROUP:
        return legacy_heal_group(said, disco_doc_group(h->merged, h->about.group), out);
    case SURFACE_RESOURCES:
        return legacy_heal_resources(said, disco_doc_version(h->merged, h->about.group, h->about.version), out);
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
    return h->about.kind == SURFACE_SCHEMAS ? LIMIT_SCHEMA_INDEX_BYTES : LIMIT_HEALED_BYTES;
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

static bool is_about_one(const struct heal *h)
{
    return h->about.kind == SURFACE_GROUP || h->about.kind == SURFACE_RESOURCES;
}

static bool is_in(const struct disco_doc *doc, const struct heal *h)
{
    if (doc == NULL)
        return false;
    return h->about.kind == SURFACE_GROUP ? disco_doc_group(doc, h->about.group) != NULL
                                          : disco_doc_version(doc, h->about.group, h->about.version) != NULL;
}

static bool is_in_local(const struct served *s, const struct heal *h)
{
    return is_in(disco_half(served_local_disco(s), half_with(h) == SERVED_CORE), h);
}

/* The local server has come back serving less, and its discovery has not been read since. */
static bool local_has_drifted(const struct job *j)
{
    const struct heal *h = j->heal;

    return j->judge == NULL && !j->looked_again && is_in_local(j->served, h) &&
           !served_excluded(j->served, h->about.group, h->about.version);
}

/* It has, but its discovery could not be read: if others may have it, what it had itself counts as while it is away. */
static bool is_unsettled(const struct job *j)
{
    const struct heal *h = j->heal;
    bool others = served_unknown_peer(j->served) || served_undiscovered(j->served, h->about.group, h->about.version);

    if (!j->unread || !is_about_one(h) || served_excluded(j->served, h->about.group, h->about.version))
        return false;
    for (size_t i = 0; i < served_n_peers(j->served) && !others; i++)
        others = is_in(disco_half(served_peer_at(j->served, i)->disco, half_with(h) == SERVED_CORE), h);
    return others && is_in_local(j->served, h);
}

/*
 * What a 404 becomes, a 503 with this message; NULL: it stays. Row 11 of the routing table: what nobody is known to
 * have may still be somebody's. `by_peer`: in place of the local server a peer says so.
 */
static const char *why_withheld(const struct served *s, const struct heal *h, bool by_peer)
{
    /* Nor is it known who there is: as for what is in the group (row 4). */
    if (served_peers_enabled(s) && !served_synced(s) && !served_forbidden(s))
        return STATUS_SYNCING;
    if (served_excluded(s, h->about.group, h->about.version))
        return NULL;
    /* It is somebody's: of a peer that has lapsed, or of the local server, in whose place a peer is asked? */
    if (is_in(h->merged, h))
        return (by_peer || !is_in_local(s, h)) && !served_live_peer_names(s, h->about.group, h->about.version)
                   ? STATUS_SERVERS_AWAY
                   : NULL;
    return served_unknown_peer(s) || served_undiscovered(s, h->about.group, h->about.version) ? STATUS_PEER_UNKNOWN
                                                                                              : NULL;
}

static bool is_wanted(const struct job *j, const struct http_head *head)
{
    const struct heal *h = j->heal;

    return h->completes && http_head_find(head, HTTP_CONTENT_ENCODING) == NULL &&
           (head->status == 200 || (head->status == 404 && is_about_one(h)));
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

/* Others have what the answering server lacks. */
static bool is_elsewhere(const struct job *j)
{
    const struct heal *h = j->heal;

    return is_in(h->merged, h) && (j->judge != NULL || !is_in_local(j->served, h)) &&
           !served_excluded(j->served, h->about.group, h->about.version);
}

/* Nobody had it when the request came, which may be long ago; by now somebody has it, or may. */
static bool is_outdated(const struct job *j)
{
    const struct served *now = cluster_served(j->proxy->cluster);
    struct heal h = *j->heal;

    if (j->judge != NULL || j->decided_anew || now == j->served || is_in(h.merged, &h))
        return false;
    h.merged = served_merged_doc(now, half_with(&h));
    return is_in(h.merged, &h) || why_withheld(now, &h, false) != NULL;
}

/* False: the 404 is true, or will be completed. */
static bool denied(struct job *j, const struct http_head *head)
{
    bool unsettled = j->judge == NULL && is_unsettled(j);
    const char *why;

    if (local_has_drifted(j)) {
        decide_again(j, &(struct gvr){j->heal->about.group, j->heal->about.version, SLICE_NONE});
        return true;
    }
    if (is_outdated(j)) {
        decide_anew(j);
        return true;
    }
    why = why_withheld(j->served, j->heal, j->judge != NULL || unsettled);
    if (why == NULL && unsettled && !is_wanted(j, head))
        why = STATUS_SYNCING;
    if (why != NULL) {
        job_refuse(j, 503, why);
        return true;
    }
    if (is_elsewhere(j) && !is_wanted(j, head)) { /* it will be no different if the client comes again */
        job_refuse(j, 406, STATUS_OTHER_FORM);
        return true;
    }
    return false;
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
    if (head->status == 404 && is_about_one(h) && denied(j, head))
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
    bool schemas = j->heal->about.kind == SURFACE_SCHEMAS;
    struct schema_merge m;

    if (schemas && gather_schemas(j, &m))
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
        .accept = h->completes && h->about.kind != SURFACE_SCHEMAS ? SLICE_LIT("application/json") : SLICE_NONE,
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
    h->about = surface_of(j->info.path);
    if (exchange_wants_upgrade(j->x) || exchange_request_body(j->x).kind != HTTP_BODY_NONE ||
        (is_legacy_discovery(h->about.kind) && !j->config->legacy_discovery)) {
        forward_local(j);
        return;
    }
    j->heal = h;
    if (waits_for_peers(h->about.kind) && !judge_peers_were_asked(j))
        return;
    if (h->about.kind == SURFACE_SCHEMAS && served_schemas_pending(j->served)) {
        job_refuse(j, 503, STATUS_SYNCING);
        return;
    }
    q = ask_for(j, is_away(j) || is_unsettled(j));
    judge_ask(j, &q);
}

const char *heal_outlook(const struct served *s, struct slice path, bool away)
{
    struct heal h = {.about = surface_of(path)};

    if (h.about.kind == SURFACE_SCHEMAS && served_schemas_pending(s))
        return STATUS_SYNCING;
    if (!is_about_one(&h) || (!away && is_in_local(s, &h)))
        return NULL;
    h.merged = served_merged_doc(s, half_with(&h));
    return why_withheld(s, &h, away);
}
