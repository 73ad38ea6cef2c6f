/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/judge.h"

#include "back/retry.h"
#include "base/contract.h"
#include "http/credential.h"
#include "kube/status.h"
#include "proxy/alternatives.h"
#include "proxy/answer.h"
#include "proxy/held.h"
#include "proxy/relay.h"

/* In the exchange's arena. */
struct judging {
    struct judge_question question;
    const struct served_peer *asked[ROUTE_MAX_CANDIDATES];
    size_t n_asked;
    bool asked_local;
};

/* What would make of a document its compressed form, a part, or nothing (RFC 9110 13.1, 14.2). */
static bool is_about_form(const struct http_field *f)
{
    static const struct slice names[] = {
        {"Range", sizeof("Range") - 1},
        {"If-Range", sizeof("If-Range") - 1},
        {"If-Match", sizeof("If-Match") - 1},
        {"If-Modified-Since", sizeof("If-Modified-Since") - 1},
        {"If-Unmodified-Since", sizeof("If-Unmodified-Since") - 1},
    };

    for (size_t i = 0; f->id == HTTP_NAME_OTHER && i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_ieq(f->name, names[i]))
            return true;
    return f->id == HTTP_ACCEPT_ENCODING || f->id == HTTP_IF_NONE_MATCH;
}

static bool is_replaced(const struct judge_question *q, const struct http_field *f)
{
    return f->id == HTTP_EXPECT || (f->id == HTTP_ACCEPT && q->accept.n > 0) || (q->whole && is_about_form(f));
}

/* The client's own request, in another form: replaces fields in place. */
static bool rephrase(struct job *j)
{
    const struct judge_question *q = &j->judging->question;
    struct http_head *h = &j->request;
    struct arena *a = exchange_request_arena(j->x);
    size_t kept = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        if (!is_replaced(q, &h->fields[i]))
            h->fields[kept++] = h->fields[i];
    h->n_fields = kept;
    if (q->get) {
        h->method = SLICE_LIT("GET");
        h->method_id = HTTP_GET;
    }
    return (q->accept.n == 0 || http_head_add_id(h, a, HTTP_ACCEPT, q->accept)) &&
           (q->if_none_match.n == 0 || http_head_add_id(h, a, HTTP_IF_NONE_MATCH, q->if_none_match));
}

/*
 * The server that is asked writes down who that was: by its Audit-ID our own line can be found there. The client's, or
 * that of our answer.
 */
static bool name_verdict(struct job *j)
{
    struct arena *a = exchange_arena(j->x);

    if (!request_summary_name_head(&j->summary, &j->request, a, exchange_request_arena(j->x)))
        return false;
    j->audit.verdict = arena_copy(a, http_head_value(&j->request, HTTP_AUDIT_ID));
    return true;
}

static const struct back_handler *handler(void); /* of what comes back: at the end */

static void ask(struct job *j, const struct served_peer *judge)
{
    struct judging *g = j->judging;

    if (!relay_rewrite(j, judge, false))
        return;
    if (!rephrase(j) || (g->question.verdict && !name_verdict(j))) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->judge = judge;
    j->sent_ms = loop_now_ms(j->proxy->loop);
    g->asked_local |= judge == NULL;
    must_hold(g->n_asked < ROUTE_MAX_CANDIDATES || judge == NULL);
    if (judge != NULL)
        g->asked[g->n_asked++] = judge;
    job_set_state(j, JOB_ASKING);
    relay_start(j, judge, handler(), (struct http_body){HTTP_BODY_NONE, 0});
}

bool judge_peers_were_asked(struct job *j)
{
    char why[128];

    if (cluster_peers_synced(j->proxy->cluster, why, sizeof(why)))
        return true;
    job_refuse_unserved(j, STATUS_SYNCING);
    return false;
}

bool judge_may_be(const struct served_peer *p, bool asserted)
{
    return p->life == SERVED_LIVE && p->origin != NULL && (origin_has_cert(p->origin) || !asserted);
}

static bool was_asked(const struct judging *g, const struct served_peer *p)
{
    for (size_t i = 0; i < g->n_asked; i++)
        if (g->asked[i] == p)
            return true;
    return false;
}

/* Outliers come last, behind who is drained; not never: anybody's slow requests can make one of a server that is well.
 */
static unsigned rank(const struct served_peer *p)
{
    if (!origin_healthy(p->origin))
        return 2;
    return p->drained ? 1 : 0;
}

/* The best of those that were not asked yet; NULL: there is none. */
static const struct served_peer *substitute(const struct job *j)
{
    size_t n = cluster_fails_over(j->proxy->cluster) && !j->authn.rerouted ? served_n_peers(j->served) : 0;
    size_t first = n == 0 ? 0 : (size_t)exchange_started_us(j->x) % n; /* as good as dice, and the same each time */
    const struct served_peer *best = NULL;

    for (size_t i = 0; i < n && j->judging->n_asked < ROUTE_MAX_CANDIDATES; i++) {
        const struct served_peer *p = served_peer_at(j->served, (first + i) % n);

        if (judge_may_be(p, j->authn.kind == AUTHN_ASSERT) && !was_asked(j->judging, p) &&
            (best == NULL || rank(p) < rank(best)))
            best = p;
    }
    return best;
}

void judge_ask(struct job *j, const struct judge_question *q)
{
    j->judging = arena_zalloc(exchange_arena(j->x), sizeof(*j->judging));
    if (j->judging == NULL) {
        job_refuse(j, 503, STATUS_NO_MEMORY);
        return;
    }
    j->judging->question = *q;
    ask(j, cluster_local_state(j->proxy->cluster) == READINESS_READY ? NULL : substitute(j));
}

void judge_change(struct job *j, const struct judge_question *q)
{
    j->judging->question = *q;
}

static void ask_next(struct job *j, const struct served_peer *p)
{
    job_drop_back(j);
    if (j->judging->question.handler->before_next != NULL)
        j->judging->question.handler->before_next(j);
    ask(j, p);
}

bool judge_ask_another(struct job *j)
{
    const struct served_peer *p = substitute(j);

    if (p == NULL && j->judging->asked_local)
        return false;
    ask_next(j, p);
    return true;
}

/* ---- an answer that is not for the client ---- */

/* Before a 401 and a 503 nothing was done, whatever was asked. 401 is the truth only for who does not say who he is. */
static bool is_for_another(const struct job *j, const struct http_head *head)
{
    bool anonymous = j->authn.kind == AUTHN_PASS &&
                     !credential_is_bearer(http_head_value(exchange_request(j->x), HTTP_AUTHORIZATION));

    return j->judge != NULL && (head->status == 503 || (head->status == 401 && !anonymous));
}

static bool doubts(struct job *j, const struct http_head *head)
{
    const struct served_peer *next = is_for_another(j, head) && alternatives_affordable(j) ? substitute(j) : NULL;

    if (next == NULL)
        return false;
    alternatives_spend(j);
    j->unauthorized |= head->status == 401;
    ask_next(j, next);
    return true;
}

/* An aggregated server may say for itself that it stops or starts, again and again: there is a budget. */
static bool may_pass_on(const struct job *j)
{
    return (substitute(j) != NULL || !j->judging->asked_local) && alternatives_affordable(j);
}

/* A server that has only just started does not know yet who may read it. */
static bool is_premature(struct job *j, const struct http_head *head)
{
    if (!answer_is_premature(j, head, j->judge))
        return false;
    if (may_pass_on(j)) {
        alternatives_spend(j);
        return judge_ask_another(j);
    }
    job_drop_back(j);
    job_refuse_unserved(j, STATUS_LOADING);
    return true;
}

/* Whether this server may only have said that it is stopping or starting. */
static bool is_to_be_read(const struct job *j, const struct http_head *head, struct http_body body)
{
    struct slice type = http_head_value(head, HTTP_CONTENT_TYPE);

    return answer_is_not_read(head) && !held_is_too_long(body) &&
           denial_by_head(head->status, type, body.kind != HTTP_BODY_NONE) == DENIAL_NEEDS_BODY && may_pass_on(j);
}

/* It has not looked at the request. False: it has, or nobody else can be asked, and its answer is the answer. */
static bool passes_on(struct job *j, const struct held *held)
{
    if (held_says(held) == DENIAL_NONE || !may_pass_on(j))
        return false;
    if (j->judge != NULL)
        cluster_peer_suspect(j->proxy->cluster, j->judge->id);
    else
        cluster_local_failed(j->proxy->cluster, false);
    alternatives_spend(j);
    return judge_ask_another(j);
}

/* ---- an answer ---- */

/* What was held back is the question's, as it came. False: the job is over. */
static bool let_go(struct job *j, const struct held *held)
{
    const struct judge_handler *h = j->judging->question.handler;

    if (!h->on_head(j, held->head, held->body))
        return false;
    if (held->n > 0)
        h->on_body(j, held_bytes(held));
    return true;
}

static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct job *j = arg;

    if (doubts(j, head) || is_premature(j, head))
        return;
    if (is_to_be_read(j, head, body))
        held_start(j, head, body);
    else
        (void)j->judging->question.handler->on_head(j, head, body);
}

static void on_body(void *arg, struct slice data)
{
    struct job *j = arg;
    struct held *held = j->held;

    if (held_add(held, data))
        return;
    j->held = NULL;
    if (held == NULL || let_go(j, held))
        j->judging->question.handler->on_body(j, data);
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct job *j = arg;
    struct held *held = j->held;

    j->back = NULL;
    j->held = NULL;
    if (held == NULL || (!passes_on(j, held) && let_go(j, held)))
        j->judging->question.handler->on_end(j, trailers);
}

/* Nobody takes over what was given up at the local server: that may still answer, however late. */
static void stay(struct job *j)
{
    j->stays = true;
    ask(j, NULL);
}

static void on_failed(void *arg, const struct back_failure_info *f)
{
    struct job *j = arg;
    bool lost = retry_server_is_lost(f->why), of_client = retry_is_of_client(f->why);

    j->back = NULL;
    j->held = NULL;
    if (j->judge != NULL && !of_client)
        cluster_peer_suspect(j->proxy->cluster, j->judge->id);
    else if (lost)
        cluster_local_failed(j->proxy->cluster, f->why != BACK_FAIL_UNANSWERED);
    if (j->state == JOB_RELAYING) {
        job_abort(j, "server broke off its response");
        return;
    }
    job_drop_back(j);
    if (!of_client && (j->judge != NULL || lost || f->why == BACK_FAIL_GIVEN_UP) && judge_ask_another(j))
        return;
    if (f->why == BACK_FAIL_GIVEN_UP && !j->authn.rerouted)
        stay(j);
    else if (f->why == BACK_FAIL_TIMEOUT)
        job_refuse(j, 504, STATUS_GATEWAY_TIMEOUT);
    else if (f->why == BACK_FAIL_CLIENT)
        job_refuse(j, 429, STATUS_WASTEFUL);
    else if (f->why == BACK_FAIL_MEMORY)
        job_refuse(j, 503, STATUS_NO_MEMORY);
    else if (f->why == BACK_FAIL_LOOP)
        job_refuse_loop(j);
    else
        job_refuse_unserved(j, job_local_failed_text(j));
}

static const struct back_handler *handler(void)
{
    static const struct back_handler asked = {
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
        .on_failed = on_failed,
    };

    return &asked;
}
