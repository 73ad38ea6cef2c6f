/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/trust_trial.h"

#include <stdio.h>
#include <string.h>

#include "net/egress_proxy.h"
#include "net/tls_ctx.h"

enum { WHY_BYTES = 192 };

enum answer { ANSWER_NONE, ANSWER_FITS, ANSWER_ONLY_OLD, ANSWER_NEITHER, ANSWER_SILENT };

struct asked {
    struct trust_trial *trial;
    struct dial *dial; /* NULL: over */
    char *server, *host;
    unsigned port;
    bool with_old;
    enum answer answer;
    char why[WHY_BYTES]; /* the new one refused it */
};

struct trust_trial {
    struct trust_trial_opts o;
    struct asked asked[TRUST_TRIAL_SERVERS];
    size_t n;
};

struct trust_trial *trust_trial_new(const struct trust_trial_opts *o)
{
    struct trust_trial *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->o = *o;
    t->o.fresh = tls_ctx_ref(o->fresh);
    t->o.old = tls_ctx_ref(o->old);
    if (o->way.egress != NULL)
        egress_proxy_ref(o->way.egress);
    return t;
}

void trust_trial_free(struct trust_trial *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->n; i++) {
        if (t->asked[i].dial != NULL)
            dial_cancel(t->asked[i].dial);
        mem_free(t->asked[i].server);
        mem_free(t->asked[i].host);
    }
    tls_ctx_unref(t->o.fresh);
    tls_ctx_unref(t->o.old);
    egress_proxy_unref(t->o.way.egress);
    mem_free(t);
}

static size_t count(const struct trust_trial *t, enum answer a)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += t->asked[i].answer == a;
    return n;
}

/* One that fits is enough: so the file is theirs, and who has not got a certificate of it yet is to get one. */
static void judge(struct trust_trial *t)
{
    const struct asked *lost = NULL;
    enum trust_verdict v = TRUST_FITS;

    if (count(t, ANSWER_FITS) == 0) {
        if (count(t, ANSWER_NONE) > 0)
            return;
        for (size_t i = t->n; i > 0; i--)
            if (t->asked[i - 1].answer == ANSWER_ONLY_OLD)
                lost = &t->asked[i - 1];
        v = lost != NULL ? TRUST_UNFIT : count(t, ANSWER_SILENT) > 0 ? TRUST_UNKNOWN : TRUST_FITS;
    }
    t->o.done(t->o.arg, v, lost == NULL ? "" : lost->server, lost == NULL ? "" : lost->why);
    trust_trial_free(t);
}

static void on_dialled(struct stream *s, const char *failure, void *arg);

static void dial(struct asked *q)
{
    const struct trust_trial *t = q->trial;
    struct dial_opts d = t->o.way;

    d.host = q->host;
    d.port = q->port;
    d.tls = q->with_old ? t->o.old : t->o.fresh;
    d.timeout_ms = TRUST_TRIAL_TIMEOUT_MS;
    q->dial = dial_start(t->o.loop, &d, on_dialled, q);
    if (q->dial == NULL)
        q->answer = ANSWER_SILENT;
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct asked *q = arg;
    bool refused = s == NULL && strstr(failure, "certificate refused") != NULL;

    q->dial = NULL;
    if (s != NULL)
        stream_close(s, STREAM_CLOSE_NOW);
    if (s != NULL)
        q->answer = q->with_old ? ANSWER_ONLY_OLD : ANSWER_FITS;
    else if (!refused)
        q->answer = ANSWER_SILENT;
    else if (q->with_old)
        q->answer = ANSWER_NEITHER;
    else {
        (void)snprintf(q->why, sizeof(q->why), "%s", failure);
        q->with_old = true;
        dial(q);
    }
    judge(q->trial);
}

void trust_trial_ask(struct trust_trial *t, const char *server, const char *host, unsigned port)
{
    struct asked *q = &t->asked[t->n];

    if (t->n == TRUST_TRIAL_SERVERS)
        return;
    *q = (struct asked){.trial = t, .server = mem_strdup(server), .host = mem_strdup(host), .port = port};
    if (q->server != NULL && q->host != NULL)
        dial(q);
    if (q->dial != NULL) {
        t->n++;
        return;
    }
    mem_free(q->server);
    mem_free(q->host);
}

bool trust_trial_asks(const struct trust_trial *t)
{
    return t->n > 0;
}
