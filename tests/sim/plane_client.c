/* SPDX-License-Identifier: Apache-2.0 */
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/plane.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static const struct {
    const char *method, *target;
} targets[PLANE_TARGETS] = {
    [TO_LOCAL] = {"GET", "/api/v1/namespaces/d/pods?"},
    [TO_PEER] = {"GET", "/apis/batch/v1/namespaces/d/jobs?"},
    [TO_WRITE] = {"POST", "/api/v1/namespaces/d/pods?"},
    [TO_WRITE_PEER] = {"POST", "/apis/batch/v1/namespaces/d/jobs?"},
    [TO_WATCH] = {"GET", "/api/v1/namespaces/d/pods?watch=1&"},
    [TO_EXEC] = {"GET", "/api/v1/namespaces/d/pods/x/exec?"},
    [TO_APIS] = {"GET", "/apis?"},
    [TO_PRETTY] = {"GET", "/apis?pretty=1&"},
    [TO_GROUPS] = {"GET", "/apis?"},
    [TO_GROUP] = {"GET", "/apis/batch?"},
    [TO_RESOURCES] = {"GET", "/apis/batch/v1?"},
    [TO_SCHEMAS] = {"GET", "/openapi/v3?"},
    [TO_WATCH_PEER] = {"GET", "/apis/batch/v1/namespaces/d/jobs?watch=1&"},
    [TO_LOG] = {"GET", "/api/v1/namespaces/d/pods/x/log?follow=true&"},
    [TO_NOBODY] = {"GET", "/apis/nobody/v1/namespaces/d/things?"},
    [TO_READYZ] = {"GET", "/readyz?"},
};
#define ACCEPT "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

static size_t number_of(const struct client *c)
{
    return (size_t)(c - c->plane->clients);
}

struct client *client_new(struct plane *p, enum plane_cert cert, bool http2, uint32_t window)
{
    static const char *const ips[] = {"10.1.0.1", "10.1.0.2"};
    struct client *c = &p->clients[p->n_clients];

    if (p->n_clients == PLANE_CLIENTS || p->draining)
        return NULL;
    p->n_clients++;
    c->plane = p;
    c->cert = cert;
    c->http2 = http2;
    c->sock = sim_connect(p->net, ips[p->n_clients % 2], plane_shows(cert), http2);
    plane_say(p, "client %zu connects: certificate %d, HTTP/%d, window %u", number_of(c), (int)cert, http2 ? 2 : 1,
              window);
    if (!http2)
        return c;
    bytes_add(&c->out, slice_str(PREFACE));
    frame_setting(&c->out, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window > INT32_MAX ? 65535 : window);
    if (nghttp2_hd_inflate_new((nghttp2_hd_inflater **)&c->inflater) != 0)
        abort();
    return c;
}

/* ---- asking ---- */

/* What both protocols say in the same words. */
static void say_fields(const struct client *c, const struct ask *a, struct bytes *out)
{
    char token[32];

    (void)snprintf(token, sizeof(token), "Bearer token-%u", plane_token(a));
    if (a->token)
        head_field(out, c->http2, "authorization", token);
    if (a->remote)
        head_field(out, c->http2, "x-remote-user", a->user);
    if (a->to == TO_APIS || a->to == TO_PRETTY)
        head_field(out, c->http2, "accept", ACCEPT);
    if (a->special & ASK_GZIP)
        head_field(out, c->http2, "accept-encoding", "gzip");
    if (a->special & ASK_EXPECT && a->body > 0)
        head_field(out, c->http2, "expect", "100-continue");
    if (a->special & ASK_REROUTED)
        head_field(out, c->http2, "x-kubernetes-apiserver-rerouted", "true");
    if (a->special & ASK_IF_READY)
        head_field(out, c->http2, "x-mvproxy-if-ready", "true");
    if (a->special & ASK_MAY_DENY)
        head_field(out, c->http2, "x-mvproxy-may-deny", "true");
}

static void ask_http1(struct client *c, const struct ask *a, const char *target)
{
    bytes_say(&c->out, "%s %s HTTP/1.1\r\nHost: api\r\n", targets[a->to].method, target);
    say_fields(c, a, &c->out);
    if (a->to == TO_EXEC)
        bytes_say(&c->out, "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n");
    if (a->body == 0) {
        bytes_say(&c->out, "\r\n");
    } else if (a->k % 2 == 0) {
        bytes_say(&c->out, "Content-Length: %zu\r\n\r\n", a->body);
        bytes_pattern(&c->out, a->k, 0, a->body);
    } else {
        bytes_say(&c->out, "Transfer-Encoding: chunked\r\n\r\n");
        for (size_t at = 0, n; at < a->body; at += n) {
            n = a->body - at < 100 ? a->body - at : 100;
            bytes_say(&c->out, "%zx\r\n", n);
            bytes_pattern(&c->out, a->k, at, n);
            bytes_say(&c->out, "\r\n");
        }
        bytes_say(&c->out, "0\r\n\r\n");
    }
}

static void ask_http2(struct client *c, const struct ask *a, const char *target)
{
    uint32_t id = (uint32_t)c->n_asks * 2 + 1;
    struct bytes block = {0}, body = {0};
    char text[32];

    block_field(&block, ":method", slice_str(targets[a->to].method));
    block_field(&block, ":scheme", SLICE_LIT("https"));
    block_field(&block, ":authority", SLICE_LIT("api"));
    block_field(&block, ":path", slice_str(target));
    say_fields(c, a, &block);
    (void)snprintf(text, sizeof(text), "%zu", a->body);
    if (a->body > 0 && a->k % 8 != 1)
        block_field(&block, "content-length", slice_str(text));
    frame_add(&c->out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | (a->body == 0 ? NGHTTP2_FLAG_END_STREAM : 0), id,
              slice_of(block.p, block.n));
    bytes_pattern(&body, a->k, 0, a->body);
    for (size_t at = 0, n; at < a->body; at += n) {
        n = a->body - at < 150 ? a->body - at : 150;
        frame_add(&c->out, NGHTTP2_DATA, at + n == a->body ? NGHTTP2_FLAG_END_STREAM : 0, id, slice_of(body.p + at, n));
    }
    bytes_free(&block);
    bytes_free(&body);
}

static bool takes_a_body(const struct ask *a)
{
    switch (a->to) {
    case TO_WRITE:
    case TO_WRITE_PEER:
    case TO_WATCH:
    case TO_WATCH_PEER:
    case TO_LOG:
        return true;
    case TO_EXEC:
        return false;
    default:
        return (a->special & ASK_BODY) != 0;
    }
}

struct ask *client_ask(struct client *c, enum plane_target to, bool token, bool remote, size_t body)
{
    struct plane *p = c->plane;
    struct ask *a = &p->asks[p->n_asks];
    char target[96];

    if (c->sock == NULL || p->n_asks == PLANE_ASKS || c->n_asks == PLANE_ASKS)
        return NULL;
    *a = (struct ask){
        .k = (unsigned)p->n_asks++, .to = to, .token = token, .remote = remote, .cert = c->cert, .special = c->special};
    (void)snprintf(a->user, sizeof(a->user), "remote-%u", a->k);
    a->body = takes_a_body(a) ? body : 0;
    (void)snprintf(target, sizeof(target), "%sk=%u", targets[to].target, a->k);
    plane_say(p, "client %zu asks %u: %s %s%s%s, body of %zu, special %#x", number_of(c), a->k, targets[to].method,
              target, token ? ", token" : "", remote ? ", X-Remote-User" : "", a->body, a->special);
    if (c->http2)
        ask_http2(c, a, target);
    else
        ask_http1(c, a, target);
    c->asks[c->n_asks++] = a;
    return a;
}

void client_send(struct client *c, size_t most)
{
    size_t n;

    if (c->sock == NULL || c->out.n == 0)
        return;
    n = sim_send(c->sock, slice_of(c->out.p, c->out.n < most ? c->out.n : most));
    bytes_drop(&c->out, n);
    if (n > 0)
        plane_say(c->plane, "client %zu sends %zu bytes, %zu are left", number_of(c), n, c->out.n);
}

void client_window(struct client *c, uint32_t more)
{
    if (!c->http2 || c->sock == NULL)
        return;
    plane_say(c->plane, "client %zu opens its windows by %u", number_of(c), more);
    frame_u32(&c->out, NGHTTP2_WINDOW_UPDATE, 0, more);
    for (size_t i = 0; i < c->n_asks; i++)
        if (c->asks[i] != NULL && !c->ended[i])
            frame_u32(&c->out, NGHTTP2_WINDOW_UPDATE, (uint32_t)i * 2 + 1, more);
}

void client_reset_stream(struct client *c, size_t i, uint32_t code)
{
    if (!c->http2 || c->sock == NULL || i >= c->n_asks || c->asks[i] == NULL)
        return;
    plane_say(c->plane, "client %zu resets the stream of %u with code %u", number_of(c), c->asks[i]->k, code);
    frame_u32(&c->out, NGHTTP2_RST_STREAM, (uint32_t)i * 2 + 1, code);
    c->asks[i] = NULL;
}

void client_hang_up(struct client *c, bool reset)
{
    if (c->sock == NULL)
        return;
    plane_say(c->plane, "client %zu %s", number_of(c), reset ? "resets its connection" : "closes its connection");
    if (reset)
        sim_reset(c->sock);
    sim_close(c->sock);
    c->sock = NULL;
}

void client_free(struct client *c)
{
    client_hang_up(c, false);
    bytes_free(&c->out);
    bytes_free(&c->in);
    if (c->inflater != NULL)
        nghttp2_hd_inflate_del(c->inflater);
    c->inflater = NULL;
}

/* ---- the answers ---- */

static bool is_ended(const struct client *c)
{
    return sim_at_end(c->sock) || sim_was_reset(c->sock) || sim_abandoned(c->sock);
}

bool client_over(const struct client *c)
{
    if (c->sock == NULL || c->spoiled || is_ended(c))
        return true;
    for (size_t i = 0; i < c->n_asks; i++)
        if (c->asks[i] != NULL && !c->ended[i])
            return false;
    return true;
}

/* What a server says of its answer; n 0 where nothing is said. */
struct said {
    uint64_t status;
    struct slice number; /* whose it is */
    struct slice form, bytes, etag;
};

/* The head of an answer to asks[i]. */
static void check_head(struct client *c, size_t i, const struct said *said)
{
    const struct ask *a = c->asks[i];
    struct slice number = said->number;
    uint64_t status = said->status, form = FORM_PATTERN, due = 0;

    if (a == NULL)
        return;
    c->theirs[i] = number.n > 0;
    /* Of one that is completed the proxy replaces the tag. */
    c->completed[i] = status == 200 && form_of_target(a->to) != FORM_PATTERN && !slice_eq(said->etag, SLICE_LIT(TAG));
    if (number.n > 0 && (!slice_u64(said->form, &form) || form >= PLANE_FORMS || !slice_u64(said->bytes, &due)))
        plane_fail(c->plane, "client %zu got an odd head for %u", number_of(c), a->k);
    c->form[i] = (enum plane_form)form;
    c->due[i] = status == 204 || status == 304 ? 0 : (size_t)due;
    plane_say(c->plane, "client %zu is answered %u: %llu%s", number_of(c), a->k, (unsigned long long)status,
              number.n == 0     ? ""
              : c->completed[i] ? " by a server and completed"
                                : " by a server");
    if (number.n > 0 && plane_ask_by_number(c->plane, number) != a)
        plane_fail(c->plane, "client %zu got the answer to %.*s for %u", number_of(c), (int)number.n, number.p, a->k);
    if (status == 200 && plane_refused_here(a))
        plane_fail(c->plane, "client %zu proved nobody, and was served", number_of(c));
}

static void check_body(struct client *c, size_t i, struct slice data)
{
    const struct ask *a = c->asks[i];

    if (a != NULL && c->theirs[i] && !a->rubbish &&
        !(c->completed[i] ? form_holds_completed(data, form_of_target(a->to), c->got[i])
                          : form_holds(data, c->form[i], a->k, c->got[i])))
        plane_fail(c->plane, "client %zu got others' bytes in the answer to %u", number_of(c), a->k);
    c->got[i] += data.n;
}

/* Its orderly end: what a server broke off must not look whole, unless we may have ended it ourselves. */
static void check_end(struct client *c, size_t i)
{
    const struct ask *a = c->asks[i];
    bool known = a != NULL && c->theirs[i] && !a->rubbish && !c->completed[i] &&
                 !(c->plane->ends_watches && target_is_watch(a->to));

    c->ended[i] = true;
    if (known && c->got[i] != c->due[i])
        plane_fail(c->plane, "client %zu got %zu of %zu bytes of the answer to %u", number_of(c), c->got[i], c->due[i],
                   a->k);
}

static void drop(struct client *c, size_t n)
{
    bytes_drop(&c->in, n);
}

/* The value of a field of an HTTP/1.1 head, n 0 if there is none. */
static struct slice field_of(struct slice head, const char *name)
{
    struct slice key, value;

    while (lines_field(&head, &key, &value))
        if (slice_ieq(key, slice_str(name)))
            return value;
    return SLICE_LIT("");
}

static void end_http1(struct client *c)
{
    check_end(c, c->n_answered++);
    c->in_body = false;
}

static bool read_head1(struct client *c)
{
    size_t n = bytes_past(&c->in, "\r\n\r\n"), i = c->n_answered;
    struct slice head = slice_of(c->in.p, n), length;
    struct said said;

    if (n == 0)
        return false;
    if (n < 12 || !slice_u64(slice_of(head.p + 9, 3), &said.status))
        plane_fail(c->plane, "client %zu got no answer, but %.*s", number_of(c), (int)n, head.p);
    if (said.status == 100) {
        drop(c, n);
        return true;
    }
    if (i == c->n_asks) { /* a complaint about what was no request yet */
        if (said.status < 400)
            plane_fail(c->plane, "client %zu got an answer that nobody asked for", number_of(c));
        c->spoiled = true;
        drop(c, c->in.n);
        return false;
    }
    said.number = field_of(head, "X-K");
    said.form = field_of(head, "X-Form");
    said.bytes = field_of(head, "X-Bytes");
    said.etag = field_of(head, "Etag");
    check_head(c, i, &said);
    length = field_of(head, "Content-Length");
    c->chunked = field_of(head, "Transfer-Encoding").n > 0;
    c->tunnel = said.status == 101;
    c->in_body = said.status != 101 && said.status != 204 && said.status != 304;
    c->left = c->chunked ? 0 : UINT64_MAX;
    if (length.n > 0 && !slice_u64(length, &c->left))
        plane_fail(c->plane, "client %zu got an odd Content-Length", number_of(c));
    drop(c, n);
    if (!c->in_body || c->left == 0)
        if (!c->chunked || !c->in_body)
            end_http1(c);
    return true;
}

/* c->left counts what is left of a chunk and the line behind it. */
static bool read_chunk_size(struct client *c)
{
    size_t n = bytes_past(&c->in, "\r\n");
    uint64_t size;

    if (n == 0)
        return false;
    if (!slice_hex_u64(slice_of(c->in.p, n - 2), &size))
        plane_fail(c->plane, "client %zu got a chunk of no size", number_of(c));
    if (size == 0) {
        n = bytes_past(&c->in, "\r\n\r\n");
        if (n == 0)
            return false;
        drop(c, n);
        end_http1(c);
        return true;
    }
    drop(c, n);
    c->left = size + 2;
    return true;
}

static bool read_body1(struct client *c)
{
    size_t n = c->in.n, data;

    if (c->chunked && c->left == 0)
        return read_chunk_size(c);
    if (n == 0)
        return false;
    n = n < c->left ? n : (size_t)c->left;
    data = !c->chunked ? n : c->left > 2 ? (c->left - 2 < n ? (size_t)c->left - 2 : n) : 0;
    check_body(c, c->n_answered, slice_of(c->in.p, data));
    c->left -= n;
    drop(c, n);
    if (c->left == 0 && !c->chunked)
        end_http1(c);
    return true;
}

static void read_http1(struct client *c)
{
    while (c->tunnel ? c->in.n > 0 : c->in_body ? read_body1(c) : read_head1(c))
        if (c->tunnel)
            drop(c, c->in.n);
}

static void copy_if(const nghttp2_nv *nv, const char *name, char *to, size_t room)
{
    if (nv->namelen == strlen(name) && memcmp(nv->name, name, nv->namelen) == 0)
        (void)snprintf(to, room, "%.*s", (int)nv->valuelen, (const char *)nv->value);
}

static void read_head2(struct client *c, const struct frame *f, size_t i)
{
    struct slice rest = f->payload;
    char status[16] = "", number[16] = "", form[16] = "", bytes[16] = "", etag[16] = "";
    struct said said = {.status = 0};
    int flags = 0;
    nghttp2_nv nv;

    while (rest.n > 0 || (flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, (const uint8_t *)rest.p, rest.n, 1);

        if (n < 0)
            plane_fail(c->plane, "client %zu got a broken header block", number_of(c));
        rest = slice_from(rest, (size_t)n);
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0)
            continue;
        copy_if(&nv, ":status", status, sizeof(status));
        copy_if(&nv, "x-k", number, sizeof(number));
        copy_if(&nv, "x-form", form, sizeof(form));
        copy_if(&nv, "x-bytes", bytes, sizeof(bytes));
        copy_if(&nv, "etag", etag, sizeof(etag));
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
    (void)slice_u64(slice_str(status), &said.status);
    said.number = slice_str(number);
    said.form = slice_str(form);
    said.bytes = slice_str(bytes);
    said.etag = slice_str(etag);
    if (said.status >= 200)
        check_head(c, i, &said);
}

static void take_frame(struct client *c, const struct frame *f)
{
    size_t i = f->stream / 2;
    bool of_stream = f->stream % 2 == 1 && i < c->n_asks;

    switch (f->type) {
    case NGHTTP2_SETTINGS:
        if ((f->flags & NGHTTP2_FLAG_ACK) == 0)
            frame_setting(&c->out, 0, 0);
        break;
    case NGHTTP2_PING:
        if ((f->flags & NGHTTP2_FLAG_ACK) == 0) {
            char copy[8];

            memcpy(copy, f->payload.p, sizeof(copy));
            frame_add(&c->out, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, slice_of(copy, sizeof(copy)));
        }
        break;
    case NGHTTP2_GOAWAY: {
        const unsigned char *p = (const unsigned char *)f->payload.p;
        uint32_t last = ((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]) & 0x7fffffff;

        plane_say(c->plane, "client %zu is told to go away, from stream %u", number_of(c), last);
        for (size_t k = last / 2 + 1; last < INT32_MAX && k < c->n_asks; k++)
            c->ended[k] = true;
        c->spoiled |= last < INT32_MAX; /* what is asked behind it will not be answered */
        break;
    }
    case NGHTTP2_HEADERS:
        if (!of_stream)
            plane_fail(c->plane, "client %zu got an answer on stream %u", number_of(c), f->stream);
        read_head2(c, f, i);
        break;
    case NGHTTP2_DATA:
        if (!of_stream)
            plane_fail(c->plane, "client %zu got bytes on stream %u", number_of(c), f->stream);
        check_body(c, i, f->payload);
        break;
    case NGHTTP2_RST_STREAM:
        if (of_stream)
            c->ended[i] = true;
        break;
    default:
        break;
    }
    if (of_stream && (f->type == NGHTTP2_HEADERS || f->type == NGHTTP2_DATA) &&
        (f->flags & NGHTTP2_FLAG_END_STREAM) != 0)
        check_end(c, i);
}

void client_read(struct client *c, size_t most)
{
    struct slice in;
    struct frame f;
    size_t whole;

    if (c->sock == NULL)
        return;
    in = sim_arrived(c->sock);
    in.n = in.n < most ? in.n : most;
    bytes_add(&c->in, in);
    if (in.n > 0)
        plane_say(c->plane, "client %zu reads %zu bytes", number_of(c), in.n);
    sim_take(c->sock, in.n);
    if (!c->http2) {
        read_http1(c);
        return;
    }
    while (frame_first(&c->in, &f, &whole)) {
        take_frame(c, &f);
        drop(c, whole);
    }
}
