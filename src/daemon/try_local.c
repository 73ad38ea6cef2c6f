/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/try_local.h"

#include "back/fetch.h"
#include "base/metric.h"
#include "daemon/wire.h"
#include "net/loop.h"

#include <string.h>

enum { TRY_TIMEOUT_MS = 3000, TRY_TURN_MS = 100, TRY_BODY_BYTES = 64 << 10 };

struct trial {
    const struct config *c;
    const struct origin *local;
    const char *option; /* that is wrong; NULL: none */
    struct err *err;
    bool over;
};

static bool says(const struct fetch_result *r, const char *words)
{
    return strstr(r->failure, words) != NULL;
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct trial *t = arg;

    t->over = true;
    if (origin_loops(t->local)) {
        (void)err_set(t->err,
                      "at %s an mvproxy answers, not a kube-apiserver, and requests would go round: let it lead "
                      "to kube-apiserver alone: an address of loopback is best, no virtual one and no load balancer",
                      t->c->apiserver);
        t->option = "apiserver";
        return;
    }
    if (!r->ok && says(r, "does not speak TLS")) {
        (void)err_set(t->err,
                      "what answers at %s does not speak TLS: give kube-apiserver's own address and --secure-port",
                      t->c->apiserver);
        t->option = "apiserver";
        return;
    }
    /* As OpenSSL says it of each certificate that is not believed; an alert is what the server says of ours. */
    if (r->ok || !says(r, "certificate") || says(r, "alert"))
        return;
    t->option = "apiserver-ca-file";
    (void)err_set(t->err, "the certificate that %s shows is not believed (%s): %s", t->c->apiserver, r->failure,
                  says(r, "has expired") || says(r, "not yet valid")
                      ? "renew it, or set the clock of this machine"
                      : "give the CA that has signed kube-apiserver's --tls-cert-file, and see that "
                        "apiserver-tls-server-name is one of its names");
}

static void ask(struct loop *l, struct back *b, struct origin *o, struct trial *t)
{
    const struct fetch_opts f = {
        .origin = o,
        .probe = true,
        .method = SLICE_LIT("GET"),
        .target = SLICE_LIT("/version"),
        .ceiling = TRY_BODY_BYTES,
        .timeout_ms = TRY_TIMEOUT_MS,
    };

    if (fetch_start(b, l, &f, on_answer, t) == NULL)
        return;
    while (!t->over)
        loop_run_once(l, TRY_TURN_MS);
}

const char *try_local(const struct config *c, const struct trust *t, struct err *err)
{
    struct trial trial = {.c = c, .err = err};
    struct metrics *m = metrics_new();
    struct loop *l = loop_new(m);
    struct back *b = back_new(l, m);
    struct origin *o = wire_local_origin(b, c, t, "");

    trial.local = o;
    if (o != NULL) {
        ask(l, b, o, &trial);
        origin_unref(o);
    }
    back_free(b);
    loop_free(l);
    metrics_free(m);
    return trial.option;
}
