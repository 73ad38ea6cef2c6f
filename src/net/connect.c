/* SPDX-License-Identifier: Apache-2.0 */
#include "net/connect.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/contract.h"
#include "base/metric.h"
#include "base/state.h"
#include "net/connect_head.h"
#include "net/dial.h"
#include "net/egress_proxy.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/relay.h"
#include "net/stream_internal.h"

enum connect_state {
    CONNECT_DIALLING, /* the proxy */
    CONNECT_ASKING,   /* waits for its answer */
    CONNECT_OVER,
};

struct connect {
    struct loop *loop;
    struct lifetime life;
    struct egress_proxy *egress;
    enum connect_state state;
    egress_proxy_fn *fn;
    void *arg;
    char *target;
    uint64_t started_ms, deadline_ms;
    struct loop_timer *timer;
    struct lifetime_guest proxy; /* either of: */
    struct dial *dial;           /* DIALLING */
    struct stream *stream;       /* ASKING */
    struct connect_head head;
};

static const char *const state_names[] = {
    [CONNECT_DIALLING] = "dialling", [CONNECT_ASKING] = "asking", [CONNECT_OVER] = "over"};
static const uint32_t next_states[] = {
    [CONNECT_DIALLING] = STATE(CONNECT_ASKING) | STATE(CONNECT_OVER),
    [CONNECT_ASKING] = STATE(CONNECT_OVER),
    [CONNECT_OVER] = 0,
};
static const struct state_table states = STATE_TABLE("tunnel being made", state_names, next_states);

static void move(struct connect *c, enum connect_state to)
{
    state_move(&states, &c->state, to);
}

/* ---- counting ---- */

/* kube-apiserver's names and labels (apiserver/pkg/server/egressselector/metrics). */
static const char *const by_stage[] = {"protocol", "transport", "stage", NULL};
static const char *const by_transport[] = {"protocol", "transport", NULL};

/* The values for both. */
struct label_values {
    struct slice v[3];
};

static struct label_values values_of(const struct connect *c)
{
    bool uds = strncmp(egress_proxy_opts(c->egress)->host, "unix:", 5) == 0;

    return (struct label_values){{SLICE_LIT("http_connect"), slice_str(uds ? "uds" : "tcp"),
                                  slice_str(c->state == CONNECT_DIALLING ? "connect" : "proxy")}};
}

static void count_start(const struct connect *c)
{
    struct metrics *m = loop_metrics(c->loop);
    struct label_values values = values_of(c);

    if (m == NULL)
        return;
    metric_inc(
        metric_child(metric_family(m, METRIC_COUNTER, "apiserver_egress_dialer_dial_start_total",
                                   "Dials through an egress proxy that were begun.", by_transport, LIMIT_METRIC_SERIES),
                     values.v));
}

static void count_failure(const struct connect *c)
{
    struct metrics *m = loop_metrics(c->loop);
    struct label_values values = values_of(c);

    if (m == NULL)
        return;
    metric_inc(metric_child(metric_family(m, METRIC_COUNTER, "apiserver_egress_dialer_dial_failure_count",
                                          "Dials through an egress proxy that failed: it was not reached (connect), or "
                                          "did not open a tunnel (proxy).",
                                          by_stage, LIMIT_METRIC_SERIES),
                            values.v));
}

static void count_success(const struct connect *c)
{
    static const double bounds[] = {0.005, 0.025, 0.1, 0.5, 2.5, 12.5};
    struct metrics *m = loop_metrics(c->loop);
    struct label_values values = values_of(c);

    if (m == NULL)
        return;
    metric_observe(metric_child(metric_histogram_family(m, "apiserver_egress_dialer_dial_duration_seconds",
                                                        "Time until an egress proxy had opened a tunnel.", by_transport,
                                                        bounds, sizeof(bounds) / sizeof(bounds[0])),
                                values.v),
                   (double)(loop_now_ms(c->loop) - c->started_ms) / 1000.0);
}

/* ---- ends ---- */

static void free_connect(void *arg)
{
    struct connect *c = arg;

    must_hold(c->dial == NULL && c->stream == NULL); /* they would call it */
    egress_proxy_unref(c->egress);
    mem_free(c->target);
    mem_free(c);
}

static void leave_proxy(void *arg)
{
    struct connect *c = arg;

    if (c->dial != NULL)
        dial_cancel(c->dial);
    c->dial = NULL;
    if (c->stream != NULL)
        stream_close(c->stream, STREAM_CLOSE_NOW);
    c->stream = NULL;
}

/* Nothing calls back any more. */
static void end(struct connect *c)
{
    move(c, CONNECT_OVER);
    lifetime_retire(&c->life, free_connect, c);
}

static void fail(struct connect *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct connect *c, const char *fmt, ...)
{
    char why[256], text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    (void)snprintf(text, sizeof(text), "egress proxy %s: %s", egress_proxy_text(c->egress), why);
    count_failure(c);
    end(c);
    c->fn(-1, NULL, text, c->arg);
}

static void on_deadline(void *arg)
{
    fail(arg, "no answer to CONNECT in time");
}

static void granted(struct connect *c)
{
    struct stream *s = c->stream;
    struct relay *relay = NULL;
    int fd;

    /* It is our turn to speak in what follows, so this is not the target's (kube-apiserver refuses it as well). */
    if (stream_input_len(s) > 0) {
        fail(c, "unexpected bytes behind the answer to CONNECT");
        return;
    }
    c->stream = NULL;
    if (stream_is_tls(s))
        relay = relay_new(c->loop, s, &fd);
    else
        fd = stream_surrender(s);
    if (fd < 0) {
        fail(c, "out of memory or descriptors for a tunnel");
        return;
    }
    count_success(c);
    end(c);
    c->fn(fd, relay, NULL, c->arg);
}

/* ---- asking ---- */

static void read_answer(struct connect *c)
{
    char why[192];
    enum connect_verdict v = CONNECT_UNDECIDED;

    while (v == CONNECT_UNDECIDED) {
        struct slice in = stream_peek(c->stream);
        size_t used;

        if (in.n == 0)
            return;
        v = connect_head_feed(&c->head, in, &used);
        stream_consume(c->stream, used);
    }
    if (v == CONNECT_GRANTED) {
        granted(c);
        return;
    }
    connect_head_failure(&c->head, why, sizeof(why));
    fail(c, "CONNECT %s: %s", c->target, why);
}

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    struct connect *c = arg;

    if (ev == STREAM_READABLE)
        read_answer(c);
    else if (ev == STREAM_EOF)
        fail(c, "it closed the connection instead of answering CONNECT");
    else if (ev == STREAM_FAILED)
        fail(c, "lost before it answered CONNECT: %s", stream_failure(s));
}

static void on_proxy(struct stream *s, const char *failure, void *arg)
{
    struct connect *c = arg;
    uint64_t now = loop_now_ms(c->loop);
    char ask[1024];
    int n;

    c->dial = NULL;
    if (s == NULL) {
        fail(c, "%s", failure);
        return;
    }
    move(c, CONNECT_ASKING);
    c->stream = s;
    stream_set_owner(s, on_stream, c);
    n = snprintf(ask, sizeof(ask), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", c->target, c->target);
    if (n < 0 || (size_t)n >= sizeof(ask)) {
        fail(c, "the target's name is too long");
        return;
    }
    loop_timer_set(c->timer, c->deadline_ms > now ? c->deadline_ms - now : 0);
    (void)stream_write(s, slice_of(ask, (size_t)n)); /* a failure comes as an event */
}

static void *start(struct loop *l, struct egress_proxy *egress, const struct egress_proxy_request *r)
{
    const struct egress_proxy_opts *o = egress_proxy_opts(egress);
    struct dial_opts d = {.host = o->host, .port = o->port, .tls = o->tls, .timeout_ms = r->timeout_ms};
    struct connect *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->loop = l;
    c->egress = egress_proxy_ref(egress);
    c->fn = r->fn;
    c->arg = r->arg;
    c->started_ms = loop_now_ms(l);
    c->deadline_ms = c->started_ms + r->timeout_ms;
    c->target = mem_strdup(r->target);
    lifetime_init(&c->life, l, "tunnel being made");
    lifetime_guest(&c->life, &c->proxy, leave_proxy, c);
    c->timer = lifetime_timer(&c->life, on_deadline, c);
    if (c->target != NULL && c->timer != NULL)
        c->dial = dial_start(l, &d, on_proxy, c);
    if (c->dial == NULL) {
        end(c);
        return NULL;
    }
    count_start(c);
    return c;
}

static void cancel(void *tunnel)
{
    struct connect *c = tunnel;

    if (c->state != CONNECT_OVER)
        end(c);
}

struct egress_proxy *connect_egress_new(const struct egress_proxy_opts *o)
{
    static const struct egress_proxy_ops ops = {.start = start, .cancel = cancel};

    return egress_proxy_new(o, &ops);
}
