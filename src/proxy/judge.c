/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/judge.h"

#include "back/retry.h"
#include "kube/status.h"
#include "proxy/alternatives.h"
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
    return (f->id == HTTP_ACCEPT && q->accept.n > 0) || (q->whole && is_about_form(f));
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
    g->asked_local |= judge == NULL;
    if (judge != NULL)
        g->asked[g->n_asked++] = judge;
    job_set_state(j, JOB_ASKING);
    relay_start(j, judge, g->question.handler, (struct http_body){HTTP_BODY_NONE, 0});
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

bool judge_ask_another(struct job *j)
{
    const struct served_peer *p = substitute(j);

    if (p == NULL && j->judging->asked_local)
        return false;
    ask(j, p);
    return true;
}

/* Before a 401 and a 503 nothing was done, whatever was asked. 401 is the truth only for who does not say who he is. */
static bool is_for_another(const struct job *j, const struct http_head *head)
{
    bool anonymous = j->authn.kind == AUTHN_PASS && http_head_find(exchange_request(j->x), HTTP_AUTHORIZATION) == NULL;

    return j->judge != NULL && (head->status == 503 || (head->status == 401 && !anonymous));
}

bool judge_doubts(struct job *j, const struct http_head *head)
{
    const struct served_peer *next = is_for_another(j, head) && alternatives_affordable(j) ? substitute(j) : NULL;

    if (next == NULL)
        return false;
    alternatives_spend(j);
    j->unauthorized |= head->status == 401;
    job_drop_back(j);
    ask(j, next);
    return true;
}

void judge_failed(void *arg, const struct back_failure_info *f)
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
    if ((j->judge != NULL || lost) && judge_ask_another(j))
        return;
    if (f->why == BACK_FAIL_TIMEOUT)
        job_refuse(j, 504, STATUS_GATEWAY_TIMEOUT);
    else if (f->why == BACK_FAIL_CLIENT)
        job_refuse(j, 429, STATUS_WASTEFUL);
    else if (f->why == BACK_FAIL_LOOP)
        job_refuse_loop(j);
    else
        job_refuse_unserved(j, job_local_failed_text(j));
}
