/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/try_local.h"

#include "back/fetch.h"
#include "base/metric.h"
#include "daemon/wire.h"
#include "net/loop.h"

#include <string.h>

enum { TRY_TIMEOUT_MS = 3000, TRY_TURN_MS = 100, TRY_BODY_BYTES = 64 << 10 };

struct local_trial {
    const struct config *c;
    struct origin *local;
    struct fetch *fetch;
    local_trial_fn *fn;
    void *arg;
};

static bool says(const struct fetch_result *r, const char *words)
{
    return strstr(r->failure, words) != NULL;
}

/* The option that is wrong, NULL: none, though it may not answer, with *err set. */
static const char *judge(const struct local_trial *t, const struct fetch_result *r, struct err *err)
{
    if (origin_loops(t->local)) {
        (void)err_set(err,
                      "at %s an mvproxy answers, not a kube-apiserver, and requests would go round: let it lead "
                      "to kube-apiserver alone: an address of loopback is best, no virtual one and no load balancer",
                      t->c->apiserver);
        return "apiserver";
    }
    if (!r->ok && says(r, "does not speak TLS")) {
        (void)err_set(err, "what answers at %s does not speak TLS: give kube-apiserver's own address and --secure-port",
                      t->c->apiserver);
        return "apiserver";
    }
    if (r->ok)
        return NULL;
    if (!says(r, "certificate refused")) {
        (void)err_set(err, "kube-apiserver does not answer at %s (%s): is that the right address, and is it up?",
                      t->c->apiserver, r->failure);
        return NULL;
    }
    (void)err_set(err, "the certificate that %s shows is not believed (%s): %s", t->c->apiserver, r->failure,
                  says(r, "has expired") || says(r, "not valid yet")
                      ? "renew it, or set the clock of this machine"
                      : "give the CA that has signed kube-apiserver's --tls-cert-file, and see that "
                        "apiserver-tls-server-name is one of its names");
    return "apiserver-ca-file";
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct local_trial *t = arg;
    local_trial_fn *fn = t->fn;
    const char *option;
    struct err err = {.text = ""};

    option = judge(t, r, &err);
    arg = t->arg;
    t->fetch = NULL; /* it ends by itself */
    local_trial_end(t);
    fn(arg, option, &err);
}

struct local_trial *local_trial_begin(struct back *b, struct loop *l, const struct config *c, struct origin *local,
                                      local_trial_fn *fn, void *arg)
{
    const struct fetch_opts f = {
        .origin = local,
        .probe = true,
        .method = SLICE_LIT("GET"),
        .target = SLICE_LIT("/version"),
        .ceiling = TRY_BODY_BYTES,
        .timeout_ms = TRY_TIMEOUT_MS,
    };
    struct local_trial *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    *t = (struct local_trial){.c = c, .local = origin_ref(local), .fn = fn, .arg = arg};
    t->fetch = fetch_start(b, l, &f, on_answer, t);
    if (t->fetch != NULL)
        return t;
    local_trial_end(t);
    return NULL;
}

void local_trial_end(struct local_trial *t)
{
    if (t == NULL)
        return;
    fetch_cancel(&t->fetch);
    origin_unref(t->local);
    mem_free(t);
}

struct waiting {
    const char *option;
    struct err *err;
    bool over;
};

static void on_tried(void *arg, const char *option, const struct err *err)
{
    struct waiting *w = arg;

    *w->err = *err;
    w->option = option;
    w->over = true;
}

const char *try_local(const struct config *c, const struct trust *t, struct err *err)
{
    struct waiting w = {.err = err};
    struct metrics *m = metrics_new();
    struct loop *l = loop_new(m);
    struct back *b = back_new(l, m);
    struct origin *o = wire_local_origin(b, c, t, "");

    if (o != NULL && local_trial_begin(b, l, c, o, on_tried, &w) != NULL)
        while (!w.over)
            loop_run_once(l, TRY_TURN_MS);
    if (o != NULL)
        origin_unref(o);
    back_free(b);
    loop_free(l);
    metrics_free(m);
    return w.option;
}
