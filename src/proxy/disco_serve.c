/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/disco_serve.h"

#include "http/etag.h"
#include "http/negotiate.h"
#include "kube/status.h"
#include "kube/surface.h"
#include "net/loop.h"
#include "proxy/deliver.h"
#include "proxy/disco_pretty.h"
#include "proxy/forward.h"
#include "proxy/judge.h"
#include "proxy/relay.h"

enum {
    WITHOUT_PROTOBUF = NEGOTIATE_OFFER_V2BETA1 | NEGOTIATE_OFFER_YAML,
    OFFERS = WITHOUT_PROTOBUF | NEGOTIATE_OFFER_PROTOBUF,
};

/* What our own verdict request asks for: the local server's document alone, so that its ETag can be compared with ours.
 */
#define VERDICT_ACCEPT                                                                                                 \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,"                             \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"                                            \
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

/* For who asks from a browser (kube-apiserver's --cors-allowed-origins), and for browsers (--strict-transport-security-
 * directives): its filters put them on every answer. */
#define CORS "Access-Control-"
#define HSTS "Strict-Transport-Security"
#define ORIGIN "Origin"
enum { MAX_FILTERED = 8 };

/* ---- the answer ---- */

static struct negotiated negotiate(const struct job *j, unsigned offers)
{
    return negotiate_discovery(http_head_value(exchange_request(j->x), HTTP_ACCEPT), offers);
}

static enum served_half half_of(const struct job *j)
{
    return surface_of(j->info.path).kind == SURFACE_CORE ? SERVED_CORE : SERVED_APIS;
}

/* NULL while there is none. JSON is YAML as well, so the same bytes are both. */
static const struct served_document *document_as(const struct job *j, enum negotiate_document d,
                                                 enum negotiate_format f)
{
    bool beta = d == NEGOTIATE_V2BETA1;

    if (f == NEGOTIATE_PROTOBUF)
        return served_merged_half(j->served, half_of(j), beta ? SERVED_V2BETA1_PROTOBUF : SERVED_V2_PROTOBUF);
    return served_merged_half(j->served, half_of(j), beta ? SERVED_V2BETA1 : SERVED_V2);
}

static bool add_filtered(const struct job *j, struct arena *a, struct http_head *h)
{
    static const struct slice hsts = SLICE_LIT(HSTS);

    for (size_t i = 0; i < j->n_filtered; i++)
        if (!http_head_add_field(h, a, &j->filtered[i]))
            return false;
    return j->proxy->hsts == NULL || http_head_add(h, a, hsts, slice_str(j->proxy->hsts));
}

/* Status and the fields that a 200 and its 304 have in common. */
static bool document_head(struct job *j, unsigned status, const struct served_document *doc, struct http_head *h)
{
    struct arena *a = exchange_arena(j->x);
    struct slice audit_id = job_answers_itself(j);

    if (!http_head_init(h, a, 8))
        return false;
    h->status = status;
    h->reason = http_reason(status);
    if ((audit_id.n > 0 && !http_head_add_id(h, a, HTTP_AUDIT_ID, audit_id)) || !add_filtered(j, a, h))
        return false;
    return http_head_add_id(h, a, HTTP_CACHE_CONTROL, SLICE_LIT("public")) &&
           http_head_add_id(h, a, HTTP_ETAG, doc->etag) && http_head_add_id(h, a, HTTP_VARY, SLICE_LIT("Accept"));
}

static bool content_fields(struct job *j, const struct negotiated *n, bool gzipped, struct http_head *h)
{
    struct arena *a = exchange_arena(j->x);

    return http_head_add_id(h, a, HTTP_CONTENT_TYPE, negotiate_content_type(n->document, n->format)) &&
           (!gzipped || (http_head_add_id(h, a, HTTP_CONTENT_ENCODING, SLICE_LIT("gzip")) &&
                         http_head_add_id(h, a, HTTP_VARY, SLICE_LIT("Accept-Encoding"))));
}

static void send_not_modified(struct job *j, const struct served_document *doc)
{
    struct http_head head;

    if (document_head(j, 304, doc, &head))
        deliver(j, &head, (struct http_body){HTTP_BODY_NONE, 0});
    else
        job_refuse(j, 503, STATUS_NO_MEMORY);
}

static void send_document(struct job *j, const struct negotiated *n, const struct served_document *doc)
{
    const struct http_head *request = exchange_request(j->x);
    bool gzip = negotiate_gzip(request), gzipped = gzip && doc->gzip.n > 0, good = true;
    struct http_body body = {.kind = HTTP_BODY_CHUNKED};
    struct http_head head;

    /* For people with curl or a browser; the entity tag stays that of the compact form, as with kube-apiserver. */
    if (negotiate_pretty(request, n)) {
        gzipped = gzip && doc->long_indented;
        j->pretty = disco_pretty_new(doc->body, gzipped, exchange_quota(j->x));
        good = j->pretty != NULL;
    } else {
        j->document = gzipped ? doc->gzip : doc->body;
        body = (struct http_body){HTTP_BODY_LENGTH, j->document.n};
    }
    if (good && document_head(j, 200, doc, &head) && content_fields(j, n, gzipped, &head))
        deliver(j, &head, body);
    else
        job_refuse(j, 503, STATUS_NO_MEMORY);
}

static void on_protobuf_there(void *arg);

static void answer(struct job *j, bool waited)
{
    struct negotiated n = negotiate(j, OFFERS);
    const struct served_document *doc = document_as(j, n.document, n.format);

    if (doc == NULL && !waited) {
        job_set_state(j, JOB_DECIDING);
        j->waiter = cluster_want_protobuf(j->proxy->cluster, on_protobuf_there, j);
        if (j->waiter != NULL)
            return;
        /* There is nothing to wait for: the documents have come since this request began, or cannot be made. */
        job_waited(j);
        doc = document_as(j, n.document, n.format);
    }
    if (doc == NULL) { /* it is too big to be put so, or there was no memory */
        n = negotiate(j, WITHOUT_PROTOBUF);
        doc = document_as(j, n.document, NEGOTIATE_JSON);
    }
    if (doc == NULL || n.document == NEGOTIATE_LEGACY) {
        forward_local(j);
        return;
    }
    request_metrics_discovery_hit(j->proxy->request_metrics);
    if (etag_matches(exchange_request(j->x), doc->etag))
        send_not_modified(j, doc);
    else
        send_document(j, &n, doc);
}

static void on_protobuf_there(void *arg)
{
    struct job *j = arg;

    job_waited(j);
    answer(j, true);
}

/* ---- may this client read it? ask the local server, or a peer's in its place ---- */

enum verdict {
    VERDICT_OTHER,   /* the server's own trouble: relayed */
    VERDICT_ALLOWED, /* 200, 304 */
    VERDICT_REFUSED, /* 401, 403 */
};

static enum verdict verdict_of(unsigned status)
{
    if (status == 200 || status == 304)
        return VERDICT_ALLOWED;
    return status == 401 || status == 403 ? VERDICT_REFUSED : VERDICT_OTHER;
}

static void keep_hsts(struct proxy *p, const struct http_head *head)
{
    const struct http_field *f = http_head_find_name(head, SLICE_LIT(HSTS));

    if (f != NULL && p->hsts != NULL && slice_eq(f->value, slice_str(p->hsts)))
        return;
    mem_free(p->hsts);
    p->hsts = f == NULL ? NULL : mem_slicedup(f->value);
}

/* They are the local server's to know, and go on what we answer in its place. */
static void keep_filtered(struct job *j, const struct http_head *head)
{
    struct arena *a = exchange_arena(j->x);
    struct http_field *kept = arena_alloc(a, MAX_FILTERED * sizeof(*kept));

    j->n_filtered = 0;
    j->filtered = kept;
    if (j->judge == NULL)
        keep_hsts(j->proxy, head);
    for (size_t i = 0; kept != NULL && i < head->n_fields && j->n_filtered < MAX_FILTERED; i++) {
        struct http_field f = head->fields[i];

        if (!slice_has_iprefix(f.name, SLICE_LIT(CORS)))
            continue;
        f.name = arena_copy(a, f.name);
        f.value = arena_copy(a, f.value);
        if (f.name.p != NULL && f.value.p != NULL)
            kept[j->n_filtered++] = f;
    }
}

/*
 * The local server's trouble is the client's answer, and so is the refusal of a peer that judges in its place: there is
 * nobody who could say it in the form that the client asked for.
 */
static bool is_passed_on(const struct job *j)
{
    return j->judge == NULL ? j->verdict == VERDICT_OTHER : j->verdict == VERDICT_REFUSED;
}

static bool on_verdict_head(struct job *j, const struct http_head *head, struct http_body body)
{
    j->verdict = verdict_of(head->status);
    if (j->verdict != VERDICT_ALLOWED && j->judge == NULL)
        authz_cache_deny(j->proxy->authz, j->credential);
    if (is_passed_on(j)) {
        j->peer = j->judge;
        j->summary.peer = j->peer != NULL ? j->peer->host : NULL;
        return relay_head(j, head, body);
    }
    if (j->verdict == VERDICT_ALLOWED)
        keep_filtered(j, head);
    if (head->status == 200 && j->judge == NULL && half_of(j) == SERVED_APIS)
        cluster_local_etag_seen(j->proxy->cluster, http_head_value(head, HTTP_ETAG));
    return true;
}

static void on_verdict_body(struct job *j, struct slice data)
{
    if (is_passed_on(j))
        relay_body(j, data);
}

static void on_verdict_end(struct job *j, const struct http_head *trailers)
{
    if (is_passed_on(j)) {
        relay_end(j, trailers);
        return;
    }
    job_drop_back(j);
    if (j->verdict == VERDICT_OTHER && judge_ask_another(j))
        return;
    /* What was refused is our question, with our Accept: the client shall hear it in the form that it asked for. */
    if (j->verdict != VERDICT_ALLOWED) {
        forward_local(j);
        return;
    }
    /* A peer's verdict, or one of before a reload, is good for this request only. */
    if (j->judge == NULL && j->config == j->proxy->config)
        authz_cache_allow(j->proxy->authz, j->credential, loop_now_ms(j->proxy->loop),
                          j->config->discovery_authz_ttl_ms, j->audit.verdict);
    answer(j, false);
}

static const struct judge_handler verdict_handler = {
    .on_head = on_verdict_head,
    .on_body = on_verdict_body,
    .on_end = on_verdict_end,
};

/* A verdict is about one path. False when out of memory. */
static bool name_credential(struct job *j)
{
    if (!authn_credential_key(&j->authn, exchange_request(j->x), j->credential))
        return false;
    /* Another digest as good as the first. */
    j->credential[0] ^= (unsigned char)(half_of(j) << 1 | slice_has_suffix(j->info.path, SLICE_LIT("/")));
    return true;
}

/* What is allowed to an origin only the server knows, and it is on its answer. */
static bool is_known_reader(const struct job *j)
{
    return http_head_find_name(exchange_request(j->x), SLICE_LIT(ORIGIN)) == NULL &&
           authz_cache_allowed(j->proxy->authz, j->credential, loop_now_ms(j->proxy->loop));
}

bool disco_serve(struct job *j)
{
    struct negotiated n = negotiate(j, OFFERS);
    struct judge_question q;

    if (n.document == NEGOTIATE_LEGACY)
        return false;
    if (n.profile.p != NULL && slice_eq(n.profile, SLICE_LIT("nopeer"))) {
        request_metrics_discovery_nopeer(j->proxy->request_metrics);
        forward_local(j);
        return true;
    }
    if (!judge_peers_were_asked(j))
        return true;
    if (document_as(j, n.document, NEGOTIATE_JSON) == NULL) {
        forward_local(j);
        return true;
    }
    j->bare = true;
    q = (struct judge_question){
        .handler = &verdict_handler,
        .accept = SLICE_LIT(VERDICT_ACCEPT),
        .if_none_match = served_local_etag(j->served, half_of(j)),
        .whole = true,
        .verdict = true,
    };
    if (!name_credential(j))
        job_refuse(j, 503, STATUS_NO_MEMORY);
    else if (is_known_reader(j)) {
        j->audit.verdict = arena_copy(exchange_arena(j->x), authz_cache_audit_id(j->proxy->authz, j->credential));
        answer(j, false);
    } else
        judge_ask(j, &q);
    return true;
}
