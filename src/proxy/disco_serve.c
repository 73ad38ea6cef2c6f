#include "proxy/disco_serve.h"

#include "base/buf.h"
#include "base/limits.h"
#include "http/etag.h"
#include "http/negotiate.h"
#include "kube/json_indent.h"
#include "kube/status.h"
#include "net/loop.h"
#include "proxy/forward.h"
#include "proxy/rewrite.h"

enum { DISCO_SERVE_PIECE = 64 << 10 };

/* What our own verdict request asks for: the local server's document alone, so that its ETag can be compared with ours.
 */
#define VERDICT_ACCEPT                                                                                                 \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,"                             \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"                                            \
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

/* ---- the answer ---- */

static struct negotiated negotiate(const struct job *j)
{
    return negotiate_discovery(http_head_value(exchange_request(j->x), HTTP_ACCEPT), NEGOTIATE_OFFER_V2BETA1);
}

static const struct served_document *wanted_document(const struct job *j, const struct negotiated *n)
{
    return served_merged(j->served, n->document == NEGOTIATE_V2BETA1 ? SERVED_V2BETA1 : SERVED_V2);
}

/* Status and the fields that a 200 and its 304 have in common. */
static bool document_head(struct job *j, unsigned status, const struct served_document *doc, struct http_head *h)
{
    struct arena *a = exchange_arena(j->x);

    if (!http_head_init(h, a, 8))
        return false;
    h->status = status;
    h->reason = http_reason(status);
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

/* For people with curl or a browser; the entity tag stays that of the compact form, as with kube-apiserver. */
static bool indent(struct job *j, struct slice body)
{
    j->scratch = arena_alloc(exchange_arena(j->x), sizeof(*j->scratch));
    if (j->scratch == NULL)
        return false;
    buf_init(j->scratch, LIMIT_DISCOVERY_BYTES);
    if (!json_indent(body, j->scratch))
        return false;
    j->document = buf_slice(j->scratch);
    return true;
}

void disco_serve_resume(struct job *j)
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

static void send_document(struct job *j, const struct negotiated *n, const struct served_document *doc)
{
    const struct http_head *request = exchange_request(j->x);
    bool match = etag_matches(request, doc->etag);
    bool pretty = !match && negotiate_pretty(request, n);
    bool gzipped = !match && !pretty && doc->gzip.n > 0 && negotiate_gzip(request);
    struct http_head head;
    struct http_body body = {HTTP_BODY_NONE, 0};

    j->document = gzipped ? doc->gzip : doc->body;
    if ((pretty && !indent(j, doc->body)) || !document_head(j, match ? 304 : 200, doc, &head) ||
        (!match && !content_fields(j, n, gzipped, &head))) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    if (!match)
        body = (struct http_body){HTTP_BODY_LENGTH, j->document.n};
    j->account.status = head.status;
    job_set_state(j, JOB_SERVING);
    if (match || request->method_id == HTTP_HEAD)
        j->document_sent = j->document.n;
    if (exchange_respond(j->x, &head, body))
        disco_serve_resume(j);
}

static void answer(struct job *j)
{
    struct negotiated n = negotiate(j);
    const struct served_document *doc = wanted_document(j, &n);

    account_discovery_hit(j->proxy->account);
    send_document(j, &n, doc);
}

/* ---- may this client read it? ask the local server ---- */

static void on_verdict_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct job *j = arg;

    if (head->status != 200 && head->status != 304) {
        authz_cache_deny(j->proxy->authz, j->credential);
        forward_relay_head(j, head, body);
        return;
    }
    j->verdict_allowed = true;
    if (head->status == 200)
        cluster_local_etag_seen(j->proxy->cluster, http_head_value(head, HTTP_ETAG));
}

static void on_verdict_body(void *arg, struct slice data)
{
    struct job *j = arg;

    if (!j->verdict_allowed)
        forward_on_body(j, data);
}

static void on_verdict_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;

    if (!j->verdict_allowed) {
        forward_on_end(j, trailers);
        return;
    }
    j->back = NULL;
    /* A verdict of before a reload is good for this request only. */
    if (j->config == j->proxy->config)
        authz_cache_allow(j->proxy->authz, j->credential, loop_now_ms(j->proxy->loop),
                          j->config->discovery_authz_ttl_ms);
    answer(j);
}

static void on_verdict_failed(void *arg, const struct back_failure_info *f)
{
    struct job *j = arg;

    j->back = NULL;
    if (j->state == JOB_RELAYING)
        job_abort(j, "server broke off its response");
    else if (f->why == BACK_FAIL_TIMEOUT)
        job_refuse(j, 504, STATUS_GATEWAY_TIMEOUT);
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
    struct arena *a = exchange_arena(j->x);
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

static void ask_local(struct job *j)
{
    struct rewrite_in in = {
        .head = exchange_request(j->x),
        .authn = &j->authn,
        .headers = &j->config->authn.headers,
        .target = REWRITE_LOCAL,
        .client_ip = exchange_client(j->x)->ip,
    };
    enum rewrite_result r = rewrite_request(&in, exchange_arena(j->x), &j->request);

    if (r == REWRITE_UNENCODABLE) {
        job_refuse(j, 401, STATUS_UNAUTHORIZED);
        return;
    }
    if (r != REWRITE_OK || !make_conditional(j)) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->target = origin_ref(j->config->local);
    job_set_state(j, JOB_ASKING);
    (void)forward_start(j, &verdict_handler, j->authn.kind == AUTHN_ASSERT, (struct http_body){HTTP_BODY_NONE, 0});
}

void disco_serve(struct job *j)
{
    struct negotiated n = negotiate(j);

    if (n.document != NEGOTIATE_LEGACY && n.profile.p != NULL && slice_eq(n.profile, SLICE_LIT("nopeer"))) {
        account_discovery_nopeer(j->proxy->account);
        forward_local(j);
        return;
    }
    /* A body on a GET is none of discovery's business: the local server shall say so. */
    if (n.document == NEGOTIATE_LEGACY || wanted_document(j, &n) == NULL || exchange_wants_upgrade(j->x) ||
        exchange_request_body(j->x).kind != HTTP_BODY_NONE) {
        forward_local(j);
        return;
    }
    if (!authn_credential_key(&j->authn, exchange_request(j->x), j->credential))
        job_refuse(j, 503, STATUS_NO_MEMORY);
    else if (authz_cache_allowed(j->proxy->authz, j->credential, loop_now_ms(j->proxy->loop)))
        answer(j);
    else
        ask_local(j);
}
