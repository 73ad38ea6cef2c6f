/* SPDX-License-Identifier: Apache-2.0 */
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/plane.h"

enum { PREFACE_BYTES = 24, ANSWER_MOST = 600 };

static size_t number_of(const struct connection *c)
{
    return (size_t)(c - c->plane->connections);
}

void server_connected(struct sim_host *h, struct sim_sock *s, const struct tls_peer *shows, bool http2)
{
    struct plane *p = h->arg;
    struct connection *c = &p->connections[p->n_connections];

    if (p->n_connections == PLANE_CONNECTIONS) {
        sim_reset(s);
        sim_close(s);
        return;
    }
    p->n_connections++;
    c->plane = p;
    c->host = h;
    c->sock = s;
    c->with_cert = shows != NULL;
    c->http2 = http2;
    c->hop = h->hop && c->with_cert;
    plane_say(p, "connection %zu to %s, HTTP/%d, %s certificate%s", number_of(c), h->host, http2 ? 2 : 1,
              c->with_cert ? "with" : "without", c->hop ? ", to an mvproxy" : "");
    if (!http2)
        return;
    frame_setting(&c->out, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100);
    if (nghttp2_hd_inflate_new((nghttp2_hd_inflater **)&c->inflater) != 0)
        abort();
}

/* ---- what comes ---- */

/* What a head says, whatever the protocol. */
struct heard {
    char target[128], user[32], token[32];
    unsigned users, tokens;
    bool chunked, upgrade;
    uint64_t length;
};

static void hear(struct heard *h, struct slice name, struct slice value)
{
    if (slice_ieq(name, SLICE_LIT("x-remote-user"))) {
        h->users++;
        (void)snprintf(h->user, sizeof(h->user), "%.*s", (int)value.n, value.p);
    } else if (slice_ieq(name, SLICE_LIT("authorization"))) {
        h->tokens++;
        (void)snprintf(h->token, sizeof(h->token), "%.*s", (int)value.n, value.p);
    } else if (slice_ieq(name, SLICE_LIT(":path"))) {
        (void)snprintf(h->target, sizeof(h->target), "%.*s", (int)value.n, value.p);
    } else if (slice_ieq(name, SLICE_LIT("transfer-encoding"))) {
        h->chunked = true;
    } else if (slice_ieq(name, SLICE_LIT("upgrade"))) {
        h->upgrade = true;
    } else if (slice_ieq(name, SLICE_LIT("content-length"))) {
        (void)slice_u64(value, &h->length);
    }
}

static void check_identity(const struct connection *c, const struct ask *a, const struct heard *h)
{
    const struct plane *p = c->plane;
    const char *user = plane_user(a);
    char token[32];

    (void)snprintf(token, sizeof(token), "Bearer token-%u", plane_token(a));
    if (plane_refused_here(a))
        plane_fail(p, "request %u of nobody reached a server", a->k);
    if (user != NULL && (h->users != 1 || strcmp(h->user, user) != 0 || h->tokens != 0 || !c->with_cert))
        plane_fail(p, "request %u of %s came as %u users (%s), %u tokens, %s certificate", a->k, user, h->users,
                   h->user, h->tokens, c->with_cert ? "with" : "without");
    if (user == NULL && (h->users != 0 || (c->with_cert && !c->hop)))
        plane_fail(p, "request %u without an asserted user came as %u users (%s), %s certificate", a->k, h->users,
                   h->user, c->with_cert ? "with" : "without");
    if (user == NULL && (h->tokens != (a->token ? 1U : 0U) || (a->token && strcmp(h->token, token) != 0)))
        plane_fail(p, "request %u came with %u tokens (%s)", a->k, h->tokens, h->token);
}

static struct ask *ask_of(const struct connection *c, const struct heard *h)
{
    const char *k = strstr(h->target, "k=");
    struct ask *a;

    if (k == NULL) { /* the proxy's own question whether somebody may read /apis */
        if ((h->users > 0) != c->with_cert && !c->hop)
            plane_fail(c->plane, "the connection is not one for %u users", h->users);
        return NULL;
    }
    a = plane_ask_by_number(c->plane, slice_str(k + 2));
    if (a == NULL)
        plane_fail(c->plane, "nobody asked for %s", h->target);
    check_identity(c, a, h);
    return a;
}

static struct served_ask *heard(struct connection *c, const struct heard *h, uint32_t stream)
{
    struct served_ask *s = &c->asks[c->n_asks];
    struct ask *a = ask_of(c, h);

    if (c->n_asks == PLANE_ASKS)
        abort();
    *s = (struct served_ask){.ask = a, .stream = stream, .chunked = h->chunked, .upgrade = h->upgrade};
    c->n_asks++;
    plane_say(c->plane, "connection %zu reads %s", number_of(c), h->target);
    if (a != NULL && (a->to == TO_WRITE || a->to == TO_WRITE_PEER)) {
        if (a->maybe_done)
            plane_fail(c->plane, "write %u was sent twice", a->k);
        a->maybe_done = true;
    }
    return s;
}

static void check_body(const struct connection *c, struct served_ask *s, struct slice data)
{
    if (s->ask == NULL ? data.n > 0 : !pattern_holds(data, s->ask->k, s->got))
        plane_fail(c->plane, "others' bytes in the body of request %u", s->ask == NULL ? 9999 : s->ask->k);
    s->got += data.n;
}

static void body_ends(const struct connection *c, struct served_ask *s)
{
    s->body_ended = true;
    if (s->ask != NULL && s->got != s->ask->body && !(s->got == 0 && target_is_document(s->ask->to)))
        plane_fail(c->plane, "request %u ended after %zu of %zu bytes", s->ask->k, s->got, s->ask->body);
}

static bool read_head1(struct connection *c)
{
    size_t n = bytes_past(&c->in, "\r\n\r\n");
    struct slice rest = slice_of(c->in.p, n), line, word;
    struct heard h = {.length = 0};
    struct served_ask *s;

    if (n == 0)
        return false;
    if (!slice_split(&rest, '\n', &line) || !slice_split(&line, ' ', &word) || !slice_split(&line, ' ', &word))
        plane_fail(c->plane, "connection %zu: no request", number_of(c));
    hear(&h, SLICE_LIT(":path"), word);
    while (lines_field(&rest, &word, &line))
        hear(&h, word, line);
    s = heard(c, &h, 0);
    bytes_drop(&c->in, n);
    s->body_left = h.chunked ? 0 : h.length;
    c->in_body = h.chunked || h.length > 0;
    if (!c->in_body)
        body_ends(c, s);
    return true;
}

static bool read_body1(struct connection *c)
{
    struct served_ask *s = &c->asks[c->n_asks - 1];
    size_t n = c->in.n, data;
    uint64_t size;

    if (s->chunked && s->body_left == 0) {
        n = bytes_past(&c->in, "\r\n");
        if (n == 0)
            return false;
        if (!slice_hex_u64(slice_of(c->in.p, n - 2), &size))
            plane_fail(c->plane, "connection %zu: a chunk of no size", number_of(c));
        if (size == 0)
            n = bytes_past(&c->in, "\r\n\r\n");
        if (n == 0)
            return false;
        bytes_drop(&c->in, n);
        s->body_left = size + 2;
        c->in_body = size > 0;
        if (size == 0)
            body_ends(c, s);
        return true;
    }
    if (n == 0)
        return false;
    n = n < s->body_left ? n : (size_t)s->body_left;
    data = !s->chunked ? n : s->body_left > 2 ? (s->body_left - 2 < n ? (size_t)s->body_left - 2 : n) : 0;
    check_body(c, s, slice_of(c->in.p, data));
    s->body_left -= n;
    bytes_drop(&c->in, n);
    if (s->body_left == 0 && !s->chunked) {
        c->in_body = false;
        body_ends(c, s);
    }
    return true;
}

static void read_head2(struct connection *c, const struct frame *f)
{
    struct slice rest = f->payload;
    struct heard h = {.length = 0};
    int flags = 0;
    nghttp2_nv nv;

    while (rest.n > 0 || (flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, (const uint8_t *)rest.p, rest.n, 1);

        if (n < 0)
            plane_fail(c->plane, "connection %zu: a broken header block", number_of(c));
        rest = slice_from(rest, (size_t)n);
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
            hear(&h, slice_of((const char *)nv.name, nv.namelen), slice_of((const char *)nv.value, nv.valuelen));
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
    if (!c->leaving || f->stream <= c->last)
        (void)heard(c, &h, f->stream);
}

static struct served_ask *of_stream(struct connection *c, uint32_t stream)
{
    for (size_t i = 0; i < c->n_asks; i++)
        if (c->asks[i].stream == stream)
            return &c->asks[i];
    return NULL;
}

static void take_frame(struct connection *c, const struct frame *f)
{
    struct served_ask *s = of_stream(c, f->stream);
    char copy[8];

    switch (f->type) {
    case NGHTTP2_SETTINGS:
        if ((f->flags & NGHTTP2_FLAG_ACK) == 0)
            frame_setting(&c->out, 0, 0);
        break;
    case NGHTTP2_PING:
        memcpy(copy, f->payload.p, sizeof(copy));
        if ((f->flags & NGHTTP2_FLAG_ACK) == 0)
            frame_add(&c->out, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, slice_of(copy, sizeof(copy)));
        break;
    case NGHTTP2_HEADERS:
        if (s == NULL)
            read_head2(c, f);
        s = of_stream(c, f->stream);
        break;
    case NGHTTP2_DATA:
        if (s != NULL)
            check_body(c, s, f->payload);
        else if (!c->leaving)
            plane_fail(c->plane, "connection %zu: bytes on stream %u", number_of(c), f->stream);
        break;
    case NGHTTP2_RST_STREAM:
        if (s != NULL)
            s->state = ANSWERED;
        break;
    default:
        break;
    }
    if (s != NULL && (f->type == NGHTTP2_HEADERS || f->type == NGHTTP2_DATA) &&
        (f->flags & NGHTTP2_FLAG_END_STREAM) != 0)
        body_ends(c, s);
}

static void read_http2(struct connection *c)
{
    struct frame f;
    size_t whole;

    if (!c->preface) {
        if (c->in.n < PREFACE_BYTES)
            return;
        bytes_drop(&c->in, PREFACE_BYTES);
        c->preface = true;
    }
    while (frame_first(&c->in, &f, &whole)) {
        take_frame(c, &f);
        bytes_drop(&c->in, whole);
    }
}

void server_read(struct connection *c, size_t most)
{
    struct slice in;

    if (c->sock == NULL)
        return;
    in = sim_arrived(c->sock);
    in.n = in.n < most ? in.n : most;
    bytes_add(&c->in, in);
    sim_take(c->sock, in.n);
    if (c->http2)
        read_http2(c);
    else if (c->tunnel)
        bytes_drop(&c->in, c->in.n);
    else
        while (c->in_body ? read_body1(c) : read_head1(c)) {
        }
    /* Who has ended is not waited for. */
    if (sim_at_end(c->sock) || sim_was_reset(c->sock))
        server_hang_up(c, false);
}

/* ---- what goes ---- */

void server_send(struct connection *c, size_t most)
{
    size_t n;

    if (c->sock == NULL || c->out.n == 0)
        return;
    n = sim_send(c->sock, slice_of(c->out.p, c->out.n < most ? c->out.n : most));
    bytes_drop(&c->out, n);
    if (n > 0)
        plane_say(c->plane, "connection %zu sends %zu bytes, %zu are left", number_of(c), n, c->out.n);
}

static bool may_answer(const struct connection *c, size_t i)
{
    return c->sock != NULL && i < c->n_asks && c->asks[i].state != ANSWERED && (c->http2 || i == c->n_asks - 1);
}

/* Which body it is, and how long. */
static void choose_body(const struct connection *c, struct served_ask *s, unsigned status)
{
    enum plane_form document = s->ask == NULL || c->odd & ANSWER_RAW ? FORM_PATTERN : form_of_target(s->ask->to);
    bool none = (status == 204 || status == 304) && !(c->odd & ANSWER_BEYOND);

    s->form = s->ask == NULL || none ? FORM_EMPTY : status == 200 ? document : c->denies_by;
    s->answer_left = form_text(s->form).n;
    if (s->form == FORM_PATTERN && status == 200)
        s->answer_left = 4 + s->ask->k * 37 % ANSWER_MOST;
}

/* What both protocols say in the same words. */
static void say_fields(const struct connection *c, const struct served_ask *s, bool denied, struct bytes *out)
{
    char text[16];

    if (s->ask != NULL) {
        (void)snprintf(text, sizeof(text), "%u", s->ask->k);
        head_field(out, c->http2, "x-k", text);
        (void)snprintf(text, sizeof(text), "%u", s->form);
        head_field(out, c->http2, "x-form", text);
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)s->answer_left);
        head_field(out, c->http2, "x-bytes", text);
    }
    head_field(out, c->http2, "content-type",
               denied && c->odd & ANSWER_TEXT ? "text/plain; charset=utf-8" : "application/json");
    head_field(out, c->http2, "etag", TAG);
    if (denied && c->odd & ANSWER_TRY_ANOTHER)
        head_field(out, c->http2, "x-mvproxy-try-another", "true");
    if (denied && c->odd & ANSWER_UNSERVED)
        head_field(out, c->http2, "x-mvproxy-unserved", "true");
    if (c->odd & ANSWER_HOP)
        head_field(out, c->http2, "x-mvproxy-hop", "apiserver-b");
    if (c->odd & ANSWER_GZIP)
        head_field(out, c->http2, "content-encoding", "gzip");
}

static void give_head(struct connection *c, struct served_ask *s, unsigned status)
{
    unsigned k = s->ask == NULL ? 0 : s->ask->k;
    struct bytes block = {0};
    char text[16];

    choose_body(c, s, status);
    s->state = ANSWERING;
    s->answer_chunked = s->ask != NULL && (k % 3 == 0 || target_is_watch(s->ask->to));
    if (c->http2) {
        (void)snprintf(text, sizeof(text), "%u", status);
        block_field(&block, ":status", slice_str(text));
        say_fields(c, s, status != 200, &block);
        frame_add(&c->out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, s->stream, slice_of(block.p, block.n));
        bytes_free(&block);
        return;
    }
    bytes_say(&c->out, "HTTP/1.1 %u Status\r\n", status);
    say_fields(c, s, status != 200, &c->out);
    if (s->answer_chunked)
        bytes_say(&c->out, "Transfer-Encoding: chunked\r\n\r\n");
    else
        bytes_say(&c->out, "Content-Length: %llu\r\n\r\n", (unsigned long long)s->answer_left);
}

static void give_body(struct connection *c, struct served_ask *s, size_t n)
{
    struct bytes body = {0};

    form_add(&body, s->form, s->ask == NULL ? 0 : s->ask->k, s->sent, n);
    if (c->http2) {
        frame_add(&c->out, NGHTTP2_DATA, 0, s->stream, slice_of(body.p, n));
    } else if (s->answer_chunked) {
        bytes_say(&c->out, "%zx\r\n", n);
        bytes_add(&c->out, slice_of(body.p, n));
        bytes_say(&c->out, "\r\n");
    } else {
        bytes_add(&c->out, slice_of(body.p, n));
    }
    s->sent += n;
    s->answer_left -= n;
    bytes_free(&body);
}

static void give_end(struct connection *c, struct served_ask *s)
{
    bool trailers = (c->odd & ANSWER_TRAILERS) != 0;
    struct bytes block = {0};

    s->state = ANSWERED;
    if (trailers)
        head_field(&block, c->http2, "x-trailer", "t");
    if (c->http2)
        frame_add(&c->out, trailers ? NGHTTP2_HEADERS : NGHTTP2_DATA,
                  NGHTTP2_FLAG_END_STREAM | (trailers ? NGHTTP2_FLAG_END_HEADERS : 0), s->stream,
                  slice_of(block.p, block.n));
    else if (s->answer_chunked)
        bytes_say(&c->out, "0\r\n%.*s\r\n", (int)block.n, block.p);
    bytes_free(&block);
}

static void refuse(struct served_ask *s)
{
    s->refused = true;
    if (s->ask != NULL)
        s->ask->maybe_done = false;
}

void server_answer(struct connection *c, size_t i, unsigned status, size_t most)
{
    struct served_ask *s = &c->asks[i];
    size_t n;

    if (!may_answer(c, i))
        return;
    if (s->state == UNANSWERED && s->upgrade && status == 200) {
        plane_say(c->plane, "connection %zu switches protocols", number_of(c));
        bytes_say(&c->out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
        s->state = ANSWERED;
        c->tunnel = true;
    } else if (s->state == UNANSWERED) {
        plane_say(c->plane, "connection %zu answers %u: %u", number_of(c), s->ask == NULL ? 9999 : s->ask->k, status);
        if (status >= 400)
            refuse(s);
        give_head(c, s, status);
    } else if (s->answer_left > 0) {
        n = s->answer_left < most ? (size_t)s->answer_left : most;
        plane_say(c->plane, "connection %zu gives %zu bytes for %u", number_of(c), n, s->ask->k);
        give_body(c, s, n);
    } else {
        give_end(c, s);
    }
}

void server_end_answer(struct connection *c, size_t i)
{
    while (may_answer(c, i))
        server_answer(c, i, 200, SIZE_MAX);
}

void server_refuse_stream(struct connection *c, size_t i, uint32_t code)
{
    if (!c->http2 || !may_answer(c, i))
        return;
    plane_say(c->plane, "connection %zu resets the stream of %u with code %u", number_of(c),
              c->asks[i].ask == NULL ? 9999 : c->asks[i].ask->k, code);
    if ((code == NGHTTP2_REFUSED_STREAM || code == NGHTTP2_HTTP_1_1_REQUIRED) && c->asks[i].state == UNANSWERED)
        refuse(&c->asks[i]);
    frame_u32(&c->out, NGHTTP2_RST_STREAM, c->asks[i].stream, code);
    c->asks[i].state = ANSWERED;
}

void server_goaway(struct connection *c)
{
    uint32_t last = 0;

    if (!c->http2 || c->sock == NULL || c->leaving)
        return;
    for (size_t i = 0; i < c->n_asks; i++)
        if (i < c->n_asks / 2 || c->asks[i].state != UNANSWERED)
            last = c->asks[i].stream;
    plane_say(c->plane, "connection %zu sends GOAWAY, last stream %u", number_of(c), last);
    frame_goaway(&c->out, last, NGHTTP2_NO_ERROR);
    c->leaving = true;
    c->last = last;
    for (size_t i = 0; i < c->n_asks; i++)
        if (c->asks[i].stream > last) {
            refuse(&c->asks[i]);
            c->asks[i].state = ANSWERED;
        }
}

void server_rubbish(struct connection *c, unsigned seed)
{
    if (c->sock == NULL)
        return;
    plane_say(c->plane, "connection %zu sends rubbish", number_of(c));
    bytes_say(&c->out, "HTTP/1.1 2000 \r\n%c\r\n\r\n", (int)(seed % 255) + 1);
    for (size_t i = 0; i < c->n_asks; i++)
        if (c->asks[i].ask != NULL && (i == c->n_asks - 1 || c->http2))
            c->asks[i].ask->rubbish = true;
}

void server_hang_up(struct connection *c, bool reset)
{
    if (c->sock == NULL)
        return;
    plane_say(c->plane, "connection %zu is %s by the server", number_of(c), reset ? "reset" : "closed");
    if (reset)
        sim_reset(c->sock);
    sim_close(c->sock);
    c->sock = NULL;
}

void server_free(struct connection *c)
{
    server_hang_up(c, false);
    bytes_free(&c->out);
    bytes_free(&c->in);
    if (c->inflater != NULL)
        nghttp2_hd_inflate_del(c->inflater);
    c->inflater = NULL;
}
