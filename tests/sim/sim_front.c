/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_front.h"

#include <stdlib.h>

#include "base/clock.h"
#include "net/tls_peer.h"

struct exchange {
    struct sim_front *front;
    struct sim_request *q;
    struct exchange_client client;
    struct tls_peer tls;
    struct http_head request; /* without what tells us who asks */
    const struct exchange_sink *sink;
    void *arg;
    uint64_t started_us, bytes;
    bool responded, over;
};

/* ---- the request ---- */

static void identify(struct exchange *x)
{
    struct slice user = sim_header(x->q, SIM_USER);

    x->tls = (struct tls_peer){.present = true, .not_after = INT64_MAX, .sha256 = "00"};
    if (sim_with_cert(x->q)) {
        x->tls.requestheader_ca = true;
        x->tls.common_name = SLICE_LIT("front-proxy-client");
    } else if (user.n > 0) {
        x->tls.client_ca = true;
        x->tls.common_name = user;
    } else {
        x->tls.present = false;
    }
    x->client = (struct exchange_client){.address = "10.9.0.1:50000",
                                         .ip = "10.9.0.1",
                                         .tls = &x->tls,
                                         .protocol = "HTTP/1.1",
                                         .connection_id = x->front->requests,
                                         .sequence = 1};
}

static bool copy_request(struct exchange *x)
{
    const struct http_head *from = sim_request_head(x->q);
    struct arena *a = sim_arena(x->q);

    /* Memory may fail once, by order of a test. */
    if (!http_head_init(&x->request, a, from->n_fields + 1) && !http_head_init(&x->request, a, from->n_fields + 1))
        return false;
    x->request.method = from->method;
    x->request.method_id = from->method_id;
    x->request.target = from->target;
    x->request.minor = from->minor;
    for (size_t i = 0; i < from->n_fields; i++)
        if (!slice_ieq(from->fields[i].name, SLICE_LIT(SIM_USER)) &&
            !http_head_add(&x->request, a, from->fields[i].name, from->fields[i].value) &&
            !http_head_add(&x->request, a, from->fields[i].name, from->fields[i].value))
            return false;
    return true;
}

static void serve(void *arg, struct sim_request *q)
{
    struct sim_front *f = arg;
    struct exchange *x = arena_alloc(sim_arena(q), sizeof(*x));

    if (x == NULL)
        x = arena_alloc(sim_arena(q), sizeof(*x));
    if (x == NULL)
        abort();
    f->requests++;
    *x = (struct exchange){.front = f, .q = q, .started_us = clock_us()};
    identify(x);
    if (!copy_request(x))
        abort();
    sim_set_note(q, x);
    f->handle(x, f->arg);
}

/* The client has its answer, or went without. */
static void gone(void *arg, struct sim_request *q)
{
    struct exchange *x = sim_note(q);

    (void)arg;
    if (x == NULL || x->over)
        return;
    x->over = true;
    x->sink->on_gone(x->arg, "client went");
}

void sim_front_open(struct sim_front *f, struct back *net, struct loop *l, const char *address)
{
    f->loop = l;
    f->server = sim_server_new(net, l, address, serve, f);
    f->server->gone = gone;
    f->server->mvproxy = true;
}

const struct http_head *exchange_request(const struct exchange *x)
{
    return &x->request;
}

struct arena *exchange_request_arena(struct exchange *x)
{
    return sim_arena(x->q);
}

struct arena *exchange_arena(struct exchange *x)
{
    return sim_arena(x->q);
}

/* What was forgotten may not be read: its fields are gone. */
void exchange_forget_request(struct exchange *x)
{
    x->request.n_fields = 0;
}

struct http_body exchange_request_body(const struct exchange *x)
{
    (void)x;
    return (struct http_body){.kind = HTTP_BODY_NONE};
}

bool exchange_expects_continue(const struct exchange *x)
{
    (void)x;
    return false;
}

bool exchange_wants_upgrade(const struct exchange *x)
{
    (void)x;
    return false;
}

const struct exchange_client *exchange_client(const struct exchange *x)
{
    return &x->client;
}

uint64_t exchange_started_us(const struct exchange *x)
{
    return x->started_us;
}

uint64_t exchange_response_bytes(const struct exchange *x)
{
    return x->bytes;
}

uint64_t exchange_request_bytes(const struct exchange *x)
{
    (void)x;
    return 0;
}

void exchange_attach(struct exchange *x, const struct exchange_sink *sink, void *arg)
{
    x->sink = sink;
    x->arg = arg;
}

void exchange_pause_body(struct exchange *x)
{
    (void)x;
}

void exchange_resume_body(struct exchange *x)
{
    (void)x;
}

struct quota *exchange_quota(const struct exchange *x)
{
    (void)x;
    return NULL;
}

bool exchange_for_client(struct exchange *x, struct slice address)
{
    (void)x;
    (void)address;
    return true;
}

bool exchange_may_ask(struct exchange *x, uint64_t account)
{
    (void)x;
    (void)account;
    return true;
}

void exchange_vouch(struct exchange *x)
{
    (void)x;
}

void exchange_of_peer(struct exchange *x)
{
    (void)x;
}

/* ---- the answer ---- */

bool exchange_interim(struct exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
    return true;
}

bool exchange_respond(struct exchange *x, const struct http_head *head, struct http_body body)
{
    (void)body;
    if (x->responded)
        abort(); /* two answers to one request */
    x->responded = true;
    sim_relay_head(x->q, head);
    return true;
}

bool exchange_body(struct exchange *x, struct slice data)
{
    x->bytes += data.n;
    sim_write(x->q, data);
    return true;
}

bool exchange_congested(const struct exchange *x)
{
    (void)x;
    return false;
}

void exchange_finish(struct exchange *x, const struct http_head *trailers)
{
    (void)trailers;
    x->over = true;
    sim_end(x->q);
}

void exchange_send_away(struct exchange *x)
{
    (void)x;
}

void exchange_reply(struct exchange *x, const struct http_head *head, struct slice body)
{
    (void)exchange_respond(x, head, (struct http_body){.kind = HTTP_BODY_CHUNKED});
    (void)exchange_body(x, body);
    exchange_finish(x, NULL);
}

void exchange_abort(struct exchange *x, const char *reason)
{
    (void)reason;
    x->over = true;
    sim_fail(x->q);
}

struct stream *exchange_upgrade(struct exchange *x, const struct http_head *head)
{
    (void)x;
    (void)head;
    abort(); /* nobody here asks for it */
}

bool exchange_responded(const struct exchange *x)
{
    return x->responded;
}
