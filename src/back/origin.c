/* SPDX-License-Identifier: Apache-2.0 */
#include "back/origin.h"

#include <stdio.h>

#include "base/contract.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/egress_proxy.h"
#include "net/stream.h"
#include "net/tls_ctx.h"

static const char *const close_texts[CLOSE_REASONS] = {
    [CLOSE_CONNECT_FAILED] = "connect_failed",
    [CLOSE_IDLE_TIMEOUT] = "idle_timeout",
    [CLOSE_BY_SERVER] = "closed_by_server",
    [CLOSE_UNSOLICITED] = "unsolicited_bytes",
    [CLOSE_NOT_REUSABLE] = "not_reusable",
    [CLOSE_CANCELLED] = "cancelled",
    [CLOSE_BROKEN] = "broken",
    [CLOSE_UPGRADED] = "upgraded",
    [CLOSE_ORIGIN_GONE] = "origin_gone",
    [CLOSE_SURPLUS] = "surplus",
    [CLOSE_ORIGIN_HANGS] = "origin_hangs",
    [CLOSE_NO_HOP] = "no_mvproxy",
    [CLOSE_NO_HTTP2] = "no_http2",
    [CLOSE_GOAWAY] = "goaway",
    [CLOSE_PROTOCOL] = "protocol_error",
    [CLOSE_FLOW_CONTROL] = "flow_control",
    [CLOSE_FLOOD] = "flood",
    [CLOSE_PING_TIMEOUT] = "ping_timeout",
    [CLOSE_MAKE_ROOM] = "make_room",
    [CLOSE_NO_MEMORY] = "no_memory",
};

const char *origin_close_text(enum close_reason why)
{
    return close_texts[why];
}

static struct metric *child(struct metric_family *f, const struct origin *o, const char *second)
{
    struct slice values[2] = {slice_str(o->server), slice_str(second)};

    return metric_child(f, values);
}

static void init_metrics(struct origin *o)
{
    struct back *b = o->back;

    o->m.conns[CONN_DIALLING] = child(b->conns, o, "dialling");
    o->m.conns[CONN_IDLE] = child(b->conns, o, "idle");
    o->m.conns[CONN_BUSY] = child(b->conns, o, "busy");
    o->m.connects = child(b->connects, o, "success");
    o->m.connect_failures = child(b->connects, o, "failure");
    o->m.reuses = child(b->reuses, o, "");
    o->m.retries = child(b->retries, o, "");
    o->m.streams = child(b->streams, o, "");
    o->m.retries_refused = child(b->retries_refused, o, "");
    (void)child(b->check.withheld, o, ""); /* 0 from the start: the first one is not to be overlooked */
    if (o->opts.sole)
        return; /* never ejected */
    o->m.ejections = child(b->ejections, o, "");
    o->m.ejected = child(b->ejected, o, "");
}

static char *address_text(const struct origin_opts *o)
{
    char text[512];
    bool is_unix = strncmp(o->host, "unix:", 5) == 0;
    int n;

    if (is_unix) /* a Host field needs a name: Go's clients send the same */
        n = snprintf(text, sizeof(text), "localhost");
    else
        n = snprintf(text, sizeof(text), strchr(o->host, ':') != NULL ? "[%s]:%u" : "%s:%u", o->host, o->port);
    return n < 0 || (size_t)n >= sizeof(text) ? NULL : mem_strdup(text);
}

/* Origins of one server share its series, which go with the last of them: host names come and go, and the room is
 * bounded. */
static void forget_metrics(struct origin *o)
{
    struct back *b = o->back;
    struct metric_family *const families[] = {b->closes,  b->failures, b->conns,           b->connects,
                                              b->reuses,  b->retries,  b->retries_refused, b->ejections,
                                              b->ejected, b->streams,  b->seconds,         b->check.withheld};

    if (o->server == NULL) /* it was never made */
        return;
    for (struct list_node *n = list_first(&b->origins); n != NULL; n = list_next(&b->origins, n))
        if (strcmp(list_entry(n, struct origin, node)->server, o->server) == 0)
            return;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        metric_forget(families[i], slice_str(o->server));
}

static void destroy(struct origin *o)
{
    tls_ctx_unref(o->opts.tls_cert);
    tls_ctx_unref(o->opts.tls_no_cert);
    egress_proxy_unref(o->opts.egress);
    if (o->back != NULL) {
        o->back->drop_pools(o);
        list_remove(&o->back->origins, &o->node);
        forget_metrics(o);
    }
    mem_free(o->name);
    mem_free(o->server);
    mem_free(o->host);
    mem_free(o->address);
    mem_free(o);
}

struct origin *origin_make(struct back *b, const struct origin_opts *opts)
{
    struct origin *o = mem_zalloc(sizeof(*o));

    if (o == NULL)
        return NULL;
    o->refs = 1;
    o->opts = *opts;
    o->opts.tls_cert = opts->tls_cert == NULL ? NULL : tls_ctx_ref(opts->tls_cert);
    o->opts.tls_no_cert = opts->tls_no_cert == NULL ? NULL : tls_ctx_ref(opts->tls_no_cert);
    if (opts->egress != NULL)
        egress_proxy_ref(opts->egress);
    if (o->opts.connect_timeout_ms == 0)
        o->opts.connect_timeout_ms = TIMEOUT_CONNECT_MS;
    if (o->opts.idle_timeout_ms == 0)
        o->opts.idle_timeout_ms = TIMEOUT_BACK_IDLE_MS;
    if (o->opts.ping_after_ms == 0)
        o->opts.ping_after_ms = TIMEOUT_H2_PING_MS;
    if (o->opts.ping_timeout_ms == 0)
        o->opts.ping_timeout_ms = TIMEOUT_H2_PONG_MS;
    if (o->opts.stall_timeout_ms == 0)
        o->opts.stall_timeout_ms = TIMEOUT_BODY_STALL_MS;
    o->name = mem_strdup(opts->name);
    o->server = mem_strdup(opts->server != NULL ? opts->server : opts->name);
    o->host = mem_strdup(opts->host);
    o->address = address_text(opts);
    o->opts.name = o->name;
    o->opts.server = o->server;
    o->opts.host = o->host;
    o->back = b;
    list_push_back(&b->origins, &o->node);
    if (o->name == NULL || o->server == NULL || o->host == NULL || o->address == NULL) {
        destroy(o);
        return NULL;
    }
    init_metrics(o);
    return o;
}

struct origin *origin_ref(struct origin *o)
{
    must_hold(o->refs > 0);
    o->refs++;
    return o;
}

void origin_use(struct origin *o)
{
    o->users++;
}

static void free_if_unused(struct origin *o)
{
    if (o->refs == 0 && o->users == 0)
        destroy(o);
}

void origin_release(struct origin *o)
{
    must_hold(o->users > 0);
    o->users--;
    free_if_unused(o);
}

/* Another of the same name may follow it: what nobody can choose any more is not told of. */
static void show_ejected(struct origin *o)
{
    bool out = o->health.out && o->refs > 0 && !o->retired;

    if (o->back == NULL || out == o->shown_out)
        return;
    o->shown_out = out;
    metric_add(o->m.ejected, out ? 1 : -1);
}

void origin_unref(struct origin *o)
{
    must_hold(o == NULL || o->refs > 0);
    if (o == NULL || --o->refs > 0)
        return;
    show_ejected(o);
    if (o->back != NULL && o->complete) {
        o->users++; /* closing must not free it under our feet */
        o->back->close_idle(o);
        o->users--;
    }
    free_if_unused(o);
}

/* Snapshots that somebody still looks at, and long requests, hold it for who knows how long. */
void origin_retire(struct origin *o)
{
    if (o == NULL)
        return;
    o->retired = true;
    show_ejected(o);
    origin_unref(o);
}

bool origin_same(const struct origin *a, const struct origin *b)
{
    const struct origin_opts *x = &a->opts, *y = &b->opts;

    return strcmp(a->name, b->name) == 0 && strcmp(a->server, b->server) == 0 && strcmp(a->host, b->host) == 0 &&
           x->port == y->port && x->tls_cert == y->tls_cert && x->tls_no_cert == y->tls_no_cert &&
           x->tls_required == y->tls_required && x->max_connections == y->max_connections &&
           x->connect_timeout_ms == y->connect_timeout_ms && x->idle_timeout_ms == y->idle_timeout_ms &&
           x->allow == y->allow && x->allow_arg == y->allow_arg && x->egress == y->egress;
}

const char *origin_name(const struct origin *o)
{
    return o->server;
}

const char *origin_address(const struct origin *o)
{
    return o->address;
}

static uint64_t now_of(const struct origin *o)
{
    return loop_now_ms(o->back->loop);
}

void origin_heard(struct origin *o)
{
    o->heard_ms = now_of(o);
}

bool origin_hangs(const struct origin *o)
{
    return o->silent_ms > o->heard_ms;
}

uint64_t origin_patience_ms(const struct origin *o)
{
    return o->opts.ping_after_ms + o->opts.ping_timeout_ms;
}

/* One that hangs has no trial either: our own questions find out when it is back. */
bool origin_healthy(const struct origin *o)
{
    return o->back == NULL || !(health_is_out(&o->health, now_of(o)) || (origin_hangs(o) && !o->opts.sole));
}

const char *origin_ejection(const struct origin *o, uint64_t *for_ms)
{
    if (!o->health.out || o->back == NULL)
        return NULL;
    if (for_ms != NULL)
        *for_ms = now_of(o) - o->out_since_ms;
    return o->out_why;
}

bool origin_has_cert(const struct origin *o)
{
    return o->opts.tls_cert != NULL;
}

size_t origin_in_flight(const struct origin *o)
{
    return o->in_flight;
}

size_t origin_clients_in_flight(const struct origin *o)
{
    return o->in_flight - o->own_in_flight;
}

/* ---- health ---- */

/* A server that stays away is ejected every few seconds: that is said once, and then now and then, with how often. */
static void say_ejected(struct origin *o, bool first, const char *why)
{
    uint64_t now = now_of(o);

    o->out_unsaid++;
    if (!first && now - o->out_said_ms < ORIGIN_EJECTED_AGAIN_MS)
        return;
    log_warning(first ? "Outlier ejected" : "Outlier still ejected", LT("server", o->server), LT("address", o->address),
                LT("err", why), LU("forMilliseconds", o->health.until_ms - now), LU("times", o->out_unsaid),
                LU("sinceSeconds", (now - o->out_since_ms) / 1000));
    o->out_unsaid = 0;
    o->out_said_ms = now;
}

static void failed(struct origin *o, enum health_cause cause, const char *why)
{
    uint64_t now = now_of(o);
    bool was_out = o->health.out;

    if (o->opts.sole || !health_failed(&o->health, cause, now))
        return;
    if (!was_out)
        o->out_since_ms = now;
    (void)snprintf(o->out_why, sizeof(o->out_why), "%s", why);
    metric_inc(o->m.ejections);
    show_ejected(o);
    say_ejected(o, !was_out, why);
}

static void succeeded(struct origin *o, enum health_cause cause)
{
    if (!health_succeeded(&o->health, cause, now_of(o)))
        return;
    show_ejected(o);
    o->out_unsaid = 0;
    log_info("Outlier ejection ended", LT("server", o->server), LT("address", o->address),
             LU("afterSeconds", (now_of(o) - o->out_since_ms) / 1000));
}

void origin_connected(struct origin *o)
{
    if (o->reach != ORIGIN_REACHED)
        log_info("Server can be reached again", LT("server", o->server), LT("address", o->address));
    o->reach = ORIGIN_REACHED;
    metric_inc(o->m.connects);
    succeeded(o, HEALTH_CONNECT);
}

void origin_connect_failed(struct origin *o, const char *why)
{
    metric_inc(o->m.connect_failures);
    if (o->reach != ORIGIN_UNREACHABLE)
        log_v(2, "Server cannot be reached", LT("server", o->server), LT("address", o->address), LT("err", why));
    o->reach = ORIGIN_UNREACHABLE;
    failed(o, HEALTH_CONNECT, why);
}

void origin_say_loop(const struct origin *o)
{
    log_error("Requests to the API server come back: an mvproxy answers at its address, perhaps this one; they are "
              "refused until a kube-apiserver answers there",
              LT("server", o->server), LT("address", o->address));
}

/*
 * What answers said in the handshake that it is an mvproxy: this one, behind an address of somebody else (a virtual IP,
 * a load balancer, a rule of the packet filter), or another one whose requests come back to us. What is sent there
 * would go round for ever.
 */
bool origin_refuses(struct origin *o, const struct stream *s)
{
    if (!o->opts.last || !stream_is_hop(s))
        return false;
    metric_inc(o->m.connect_failures);
    if (o->reach != ORIGIN_LOOPS)
        origin_say_loop(o);
    o->reach = ORIGIN_LOOPS;
    o->back->close_idle(o);
    return true;
}

bool origin_unreachable(const struct origin *o)
{
    return o->reach == ORIGIN_UNREACHABLE;
}

bool origin_loops(const struct origin *o)
{
    return o->reach == ORIGIN_LOOPS || o->came_back;
}

/*
 * It is frozen, or its host is gone, and connections do not tell. Those that are idle are closed; on HTTP/2 it is asked
 * at once, and gets nothing new until a byte comes. Not more often: a server that is merely slow to answer who asked
 * would lose its idle connections each time. What waits for an answer waits on, since a server that was frozen may go
 * on, but after ping_timeout_ms what another server can answer is asked there. Nobody waits longer than a client of the
 * server's own would: ping_after_ms and ping_timeout_ms after its last byte each connection of HTTP/2 ends, and over
 * HTTP/1.1, where nothing can be asked beside requests, whatever is under way.
 */
void origin_suspect(struct origin *o)
{
    uint64_t now;

    if (o->back == NULL)
        return;
    now = now_of(o);
    if (!origin_hangs(o))
        o->silent_ms = now;
    else if (now - o->silent_ms >= o->opts.ping_timeout_ms)
        o->back->is_silent(o);
    if (now < o->suspect_again_ms)
        return;
    o->suspect_again_ms = now + TIMEOUT_SUSPECT_MS;
    log_v(4, "Connections to server suspected", LT("server", o->server), LT("address", o->address));
    o->back->doubt(o);
}

enum back_failure origin_failure(const struct origin *o)
{
    return o->reach == ORIGIN_LOOPS ? BACK_FAIL_LOOP : BACK_FAIL_CONNECT;
}

void origin_request_failed(struct origin *o, enum back_failure why, const char *text)
{
    /* What broke in a body had an answer before; connecting is counted where it is done. */
    if (why == BACK_FAIL_HEAD || why == BACK_FAIL_TIMEOUT || why == BACK_FAIL_UNANSWERED)
        failed(o, HEALTH_REQUEST, text);
}

void origin_answered(struct origin *o, unsigned status)
{
    /*
     * What a server says that is not up, or a proxy before one: any other answer is one, errors included. Also 504,
     * which anybody has from kube-apiserver for the asking (`?timeout=1ns`, before it looks who that is).
     */
    if (status == 502 || status == 503)
        failed(o, HEALTH_REQUEST, "502 or 503 again and again");
    else
        succeeded(o, HEALTH_REQUEST);
}

void origin_note_time(struct origin *o, uint64_t us)
{
    if (o->back == NULL)
        return;
    if (o->m.seconds == NULL)
        o->m.seconds = metric_child(o->back->seconds, (struct slice[]){slice_str(o->server)});
    metric_observe(o->m.seconds, (double)us / 1e6);
}

void origin_note_close(struct origin *o, enum close_reason why, const char *detail, const char *protocol,
                       uint64_t served)
{
    struct slice labels[2] = {slice_str(o->server), slice_str(close_texts[why])};

    metric_inc(metric_child(o->back->closes, labels));
    log_v(4, "Connection to server closed", LT("server", o->server), LT("reason", close_texts[why]),
          LT("detail", detail), LT("protocol", protocol), LU("requests", served));
}

/* ---- retry budget ---- */

void origin_note_request(struct origin *o, bool own, bool proves_nothing)
{
    uint64_t now = now_of(o);

    o->in_flight++;
    o->own_in_flight += own;
    if (proves_nothing)
        return;
    health_try(&o->health, now);
}

void origin_note_over(struct origin *o, bool own)
{
    must_hold(o->in_flight > 0 && (!own || o->own_in_flight > 0));
    o->in_flight--;
    o->own_in_flight -= own;
}

void origin_note_deposit(struct origin *o, bool stranger)
{
    budget_request(stranger ? &o->strangers : &o->budget, now_of(o));
}

bool origin_may_repeat(const struct origin *o, bool stranger)
{
    return o->back != NULL && budget_allows(stranger ? &o->strangers : &o->budget, now_of(o));
}

void origin_note_repeat(struct origin *o, bool stranger)
{
    if (o->back != NULL)
        budget_spend(stranger ? &o->strangers : &o->budget, now_of(o));
}

void origin_note_refused_repeat(struct origin *o)
{
    if (o->back != NULL)
        metric_inc(o->m.retries_refused);
}
