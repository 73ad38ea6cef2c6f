#include "proxy/disco_serve.h"

#include "back/retry.h"
#include "http/etag.h"
#include "http/negotiate.h"
#include "kube/status.h"
#include "net/loop.h"
#include "proxy/disco_pretty.h"
#include "proxy/forward.h"
#include "proxy/rewrite.h"

enum { DISCO_SERVE_PIECE = 64 << 10, PRETTY_PIECES = 2 /* made in one go */ };
enum { WITHOUT_PROTOBUF = NEGOTIATE_OFFER_V2BETA1, OFFERS = WITHOUT_PROTOBUF | NEGOTIATE_OFFER_PROTOBUF };

/* What our own verdict request asks for: the local server's document alone, so that its ETag can be compared with ours.
 */
#define VERDICT_ACCEPT                                                                                                 \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,"                             \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"                                            \
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

/* ---- the answer ---- */

static struct negotiated negotiate(const struct job *j, unsigned offers)
{
    return negotiate_discovery(http_head_value(exchange_request(j->x), HTTP_ACCEPT), offers);
}

/* NULL while there is none. */
static const struct served_document *document_as(const struct job *j, enum negotiate_document d,
                                                 enum negotiate_format f)
{
    if (f == NEGOTIATE_PROTOBUF)
        return served_merged(j->served, d == NEGOTIATE_V2BETA1 ? SERVED_V2BETA1_PROTOBUF : SERVED_V2_PROTOBUF);
    return served_merged(j->served, d == NEGOTIATE_V2BETA1 ? SERVED_V2BETA1 : SERVED_V2);
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
    if (audit_id.n > 0 && !http_head_add_id(h, a, HTTP_AUDIT_ID, audit_id))
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

static void send_pretty(struct job *j);

static void go_on(void *arg)
{
    send_pretty(arg);
}

static void send_pretty(struct job *j)
{
    struct slice piece;

    for (unsigned n = 0; !exchange_congested(j->x); n++) {
        if (disco_pretty_done(j->pretty)) {
            job_finish(j, NULL);
            return;
        }
        if (n == PRETTY_PIECES) {
            disco_pretty_later(j->pretty, j->proxy->loop, go_on, j);
            return;
        }
        if (!disco_pretty_next(j->pretty, &piece)) {
            job_abort(j, STATUS_NO_MEMORY);
            return;
        }
        if (piece.n > 0 && !exchange_body(j->x, piece))
            return; /* on_gone follows */
    }
}

static void send_prepared(struct job *j)
{
    while (j->document_sent < j->document.n) {
        struct slice piece = slice_from(j->document, j->document_sent);

        if (exchange_congested(j->x))
            return;
        if (piece.n > DISCO_SERVE_PIECE)
            piece.n = DISCO_SERVE_PIECE;
        if (!exchange_body(j->x, piece))
            return; /* on_gone follows */
        j->document_sent += piece.n;
    }
    job_finish(j, NULL);
}

void disco_serve_resume(struct job *j)
{
    if (j->pretty != NULL)
        send_pretty(j);
    else
        send_prepared(j);
}

static void respond(struct job *j, const struct http_head *head, struct http_body body)
{
    bool no_body = head->status == 304 || exchange_request(j->x)->method_id == HTTP_HEAD;

    j->account.status = head->status;
    job_set_state(j, JOB_SERVING);
    if (!exchange_respond(j->x, head, body))
        return;
    job_forget_request(j);
    if (no_body)
        job_finish(j, NULL);
    else
        disco_serve_resume(j);
}

static void send_not_modified(struct job *j, const struct served_document *doc)
{
    struct http_head head;

    if (document_head(j, 304, doc, &head))
        respond(j, &head, (struct http_body){HTTP_BODY_NONE, 0});
    else
        job_refuse(j, 503, STATUS_NO_MEMORY);
}

static void send_document(struct job *j, const struct negotiated *n, const struct served_document *doc)
{
    const struct http_head *request = exchange_request(j->x);
    bool gzipped = negotiate_gzip(request) && doc->gzip.n > 0, good = true;
    struct http_body body = {HTTP_BODY_CHUNKED, 0};
    struct http_head head;

    /* For people with curl or a browser; the entity tag stays that of the compact form, as with kube-apiserver. */
    if (negotiate_pretty(request, n)) {
        j->pretty = disco_pretty_new(doc->body, negotiate_gzip(request));
        good = j->pretty != NULL;
        gzipped = good && disco_pretty_gzipped(j->pretty);
    } else {
        j->document = gzipped ? doc->gzip : doc->body;
        body = (struct http_body){HTTP_BODY_LENGTH, j->document.n};
    }
    if (good && document_head(j, 200, doc, &head) && content_fields(j, n, gzipped, &head))
        respond(j, &head, body);
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
    }
    if (doc == NULL) { /* it is too big to be put so, or there was no memory */
        n = negotiate(j, WITHOUT_PROTOBUF);
        doc = document_as(j, n.document, NEGOTIATE_JSON);
    }
    if (doc == NULL || n.document == NEGOTIATE_LEGACY) {
        forward_local(j);
        return;
    }
    account_discovery_hit(j->proxy->account);
    if (etag_matches(exchange_request(j->x), doc->etag))
        send_not_modified(j, doc);
    else
        send_document(j, &n, doc);
}

static void on_protobuf_there(void *arg)
{
    struct job *j = arg;

    j->waiter = NULL;
    served_unref(j->served);
    j->served = served_ref(cluster_served(j->proxy->cluster));
    answer(j, true);
}

/* ---- may this client read it? ask the local server, or a peer's in its place ---- */

static enum verdict verdict_of(unsigned status)
{
    if (status == 200 || status == 304)
        return VERDICT_ALLOWED;
    return status == 401 || status == 403 ? VERDICT_REFUSED : VERDICT_OTHER;
}

static void on_verdict_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct job *j = arg;

    j->verdict = verdict_of(head->status);
    if (j->verdict != VERDICT_ALLOWED && j->judge == NULL)
        authz_cache_deny(j->proxy->authz, j->credential);
    if (j->verdict == VERDICT_OTHER && j->judge == NULL)
        forward_relay_head(j, head, body);
    if (head->status == 200 && j->judge == NULL)
        cluster_local_etag_seen(j->proxy->cluster, http_head_value(head, HTTP_ETAG));
}

static void on_verdict_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (j->verdict == VERDICT_OTHER && j->judge == NULL)
        forward_on_body(j, data);
}

static bool ask_another(struct job *j);

static void on_verdict_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;

    if (j->verdict == VERDICT_OTHER && j->judge == NULL) {
        forward_on_end(j, trailers);
        return;
    }
    j->back = NULL;
    job_drop_back(j);
    if (j->verdict == VERDICT_OTHER && ask_another(j))
        return;
    /* What was refused is our question, with our Accept: the client shall hear it in the form that it asked for. */
    if (j->verdict != VERDICT_ALLOWED) {
        forward_local(j);
        return;
    }
    /* A verdict of before a reload is good for this request only. */
    if (j->config == j->proxy->config)
        authz_cache_allow(j->proxy->authz, j->credential, loop_now_ms(j->proxy->loop),
                          j->config->discovery_authz_ttl_ms, j->audit.verdict);
    answer(j, false);
}

static void on_verdict_failed(void *arg, const struct back_failure_info *f)
{
    struct job *j = arg;
    bool lost = retry_server_is_lost(f->why);

    j->back = NULL;
    if (j->judge != NULL)
        cluster_peer_suspect(j->proxy->cluster, j->judge->id);
    else if (lost)
        cluster_local_failed(j->proxy->cluster, f->why != BACK_FAIL_UNANSWERED);
    if (j->state == JOB_RELAYING) {
        job_abort(j, "server broke off its response");
        return;
    }
    job_drop_back(j);
    if ((j->judge != NULL || lost) && ask_another(j))
        return;
    if (f->why == BACK_FAIL_TIMEOUT)
        job_refuse(j, 504, STATUS_GATEWAY_TIMEOUT);
    else if (f->why == BACK_FAIL_CLIENT)
        job_refuse(j, 429, STATUS_WASTEFUL);
    else if (f->why == BACK_FAIL_LOOP)
        job_refuse_loop(j);
    else
        job_refuse_unserved(j, STATUS_LOCAL_FAILED);
}

static const struct back_handler verdict_handler = {
    .on_head = on_verdict_head,
    .on_body = on_verdict_body,
    .on_end = on_verdict_end,
    .on_failed = on_verdict_failed,
};

/* The client's own request, with another Accept and a condition: replaces fields in place. */
static bool make_conditional(struct job *j)
{
    struct http_head *h = &j->request;
    struct arena *a = exchange_request_arena(j->x);
    struct slice etag = served_local_etag(j->served);
    size_t kept = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        if (h->fields[i].id != HTTP_ACCEPT && h->fields[i].id != HTTP_ACCEPT_ENCODING &&
            h->fields[i].id != HTTP_IF_NONE_MATCH)
            h->fields[kept++] = h->fields[i];
    h->n_fields = kept;
    return http_head_add_id(h, a, HTTP_ACCEPT, SLICE_LIT(VERDICT_ACCEPT)) &&
           (etag.n == 0 || http_head_add_id(h, a, HTTP_IF_NONE_MATCH, etag));
}

/*
 * The server that is asked writes down who that was: by its Audit-ID our own line can be found there. The client's, or
 * that of our answer.
 */
static bool name_verdict(struct job *j)
{
    struct arena *a = exchange_arena(j->x);
    struct slice id = http_head_value(&j->request, HTTP_AUDIT_ID);
    bool named = id.n > 0;

    if (!named)
        id = account_own_audit_id(&j->account, a);
    j->audit.verdict = arena_copy(a, id);
    return named || id.n == 0 || http_head_add_id(&j->request, exchange_request_arena(j->x), HTTP_AUDIT_ID, id);
}

static void ask(struct job *j, const struct served_peer *judge)
{
    struct rewrite_in in = {
        .head = exchange_request(j->x),
        .authn = &j->authn,
        .headers = &j->config->authn.headers,
        .target = judge != NULL ? REWRITE_PEER : REWRITE_LOCAL,
        .client_ip = exchange_client(j->x)->ip,
        .believes_client = job_believes_client(j),
    };
    enum rewrite_result r = rewrite_request(&in, exchange_request_arena(j->x), &j->request);

    if (r == REWRITE_UNENCODABLE) {
        job_refuse(j, 401, STATUS_UNAUTHORIZED);
        return;
    }
    if (r != REWRITE_OK || !make_conditional(j) || !name_verdict(j)) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->judge = judge;
    *(judge != NULL ? &j->asked_peer : &j->asked_local) = true;
    j->target = origin_ref(judge != NULL ? judge->origin : j->config->local);
    job_set_state(j, JOB_ASKING);
    (void)forward_start(j, &verdict_handler, (struct http_body){HTTP_BODY_NONE, 0});
}

/*
 * While the local server cannot be asked, a live peer's judges in its place: by the same RBAC objects, out of the same
 * etcd. NULL: there is none.
 */
static const struct served_peer *substitute(const struct job *j)
{
    const struct served_peer *drained = NULL;
    size_t n = cluster_fails_over(j->proxy->cluster) && !j->authn.rerouted ? served_n_peers(j->served) : 0;
    size_t first = n == 0 ? 0 : (size_t)(j->proxy->dice >> 33) % n; /* cast anew for each request */

    for (size_t i = 0; i < n; i++) {
        const struct served_peer *p = served_peer_at(j->served, (first + i) % n);

        if (p->life != SERVED_LIVE || p->origin == NULL || !origin_healthy(p->origin) ||
            (!origin_has_cert(p->origin) && j->authn.kind == AUTHN_ASSERT))
            continue;
        if (!p->drained)
            return p;
        drained = p;
    }
    return drained;
}

static void ask_somebody(struct job *j)
{
    ask(j, cluster_local_state(j->proxy->cluster) == READINESS_READY ? NULL : substitute(j));
}

/* Whoever of the two was not asked yet. */
static bool ask_another(struct job *j)
{
    const struct served_peer *p = j->asked_peer ? NULL : substitute(j);

    if (p == NULL && j->asked_local)
        return false;
    ask(j, p);
    return true;
}

/*
 * A client takes /apis for all there is: a namespace controller would leave behind what it does not find, and kubectl
 * not know a resource type. So nobody hears of the local server alone before the peers were asked: 503, as for
 * resources.
 */
static bool complete(struct job *j)
{
    char why[128];

    if (cluster_peers_synced(j->proxy->cluster, why, sizeof why))
        return true;
    job_refuse_unserved(j, STATUS_SYNCING);
    return false;
}

void disco_serve(struct job *j)
{
    struct negotiated n = negotiate(j, OFFERS);

    if (n.document != NEGOTIATE_LEGACY && n.profile.p != NULL && slice_eq(n.profile, SLICE_LIT("nopeer"))) {
        account_discovery_nopeer(j->proxy->account);
        forward_local(j);
        return;
    }
    if (n.document != NEGOTIATE_LEGACY && !complete(j))
        return;
    /* A body on a GET is none of discovery's business: the local server shall say so. */
    if (n.document == NEGOTIATE_LEGACY || document_as(j, n.document, NEGOTIATE_JSON) == NULL ||
        exchange_wants_upgrade(j->x) || exchange_request_body(j->x).kind != HTTP_BODY_NONE) {
        forward_local(j);
        return;
    }
    if (!authn_credential_key(&j->authn, exchange_request(j->x), j->credential))
        job_refuse(j, 503, STATUS_NO_MEMORY);
    else if (authz_cache_allowed(j->proxy->authz, j->credential, loop_now_ms(j->proxy->loop))) {
        j->audit.verdict = arena_copy(exchange_arena(j->x), authz_cache_audit_id(j->proxy->authz, j->credential));
        answer(j, false);
    } else
        ask_somebody(j);
}
