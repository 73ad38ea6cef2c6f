/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/back/h2_kit.h"

#include <stdlib.h>

#include "back/bearers.h"
#include "net/listener.h"

enum { FRAME_BYTES = 16384 };

/* ---- what the server hears ---- */

static struct h2_asked *asked_by(struct h2_conn *c, int32_t id)
{
    for (size_t i = 0; i < c->n_asked; i++)
        if (c->asked[i].id == id)
            return &c->asked[i];
    return NULL;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *c = arg;
    struct h2_asked *a = &c->asked[c->n_asked++];

    (void)session;
    if (c->n_asked >= H2_KIT_STREAMS)
        tap_bail("too many requests");
    *a = (struct h2_asked){.id = frame->hd.stream_id};
    a->window = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
    buf_init(&a->head, 1 << 20);
    buf_init(&a->body, KIT_BODY);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *arg)
{
    struct h2_asked *a = asked_by(arg, id);

    (void)session;
    (void)flags;
    if (!buf_append(&a->body, slice_of((const char *)data, n)) && !((struct h2_conn *)arg)->k->k.short_of_memory)
        tap_bail("a body that is too large");
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct h2_asked *a = asked_by(arg, frame->hd.stream_id);

    (void)session;
    (void)flags;
    buf_printf(&a->head, "%.*s: %.*s\n", (int)name_len, (const char *)name, (int)value_len, (const char *)value);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *c = arg;
    struct h2_asked *a = asked_by(c, frame->hd.stream_id);

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        if (a != NULL)
            a->ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        break;
    case NGHTTP2_RST_STREAM:
        if (a != NULL) {
            a->reset = true;
            a->code = frame->rst_stream.error_code;
        }
        break;
    case NGHTTP2_PING:
        c->pings += (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
        break;
    case NGHTTP2_GOAWAY:
        c->goaways++;
        c->goaway_code = frame->goaway.error_code;
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (frame->hd.stream_id == 0)
            c->window += frame->window_update.window_size_increment;
        else if (a != NULL)
            a->window += frame->window_update.window_size_increment;
        break;
    default:
        break;
    }
    return 0;
}

/* ---- connections ---- */

static void say(struct h2_conn *c)
{
    const uint8_t *p;
    ssize_t n;

    while (c->s != NULL && !c->k->silent && (n = nghttp2_session_mem_send(c->session, &p)) > 0)
        if (!stream_write(c->s, slice_of((const char *)p, (size_t)n)))
            return;
}

static void on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct h2_conn *c = arg;
    struct slice in;

    c->eof = c->eof || ev == STREAM_EOF;
    c->failed = c->failed || ev == STREAM_FAILED;
    if (ev != STREAM_READABLE && ev != STREAM_OPENED)
        return;
    while ((in = stream_peek(s)).n > 0) {
        /* A client that fell back to HTTP/1.1 gets no answer. */
        if (strcmp(stream_alpn(s), "h2") == 0 &&
            nghttp2_session_mem_recv(c->session, (const uint8_t *)in.p, in.n) < 0 && !c->k->k.short_of_memory)
            tap_bail("the server does not understand the client");
        stream_consume(s, in.n);
    }
    say(c);
}

static nghttp2_session *session_new(struct h2_conn *c)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;
    nghttp2_session *session;
    nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, c->k->max_streams};

    if (nghttp2_session_callbacks_new(&cb) != 0)
        tap_bail("nghttp2");
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    if (nghttp2_option_new(&option) != 0)
        tap_bail("nghttp2");
    nghttp2_option_set_no_auto_window_update(option, c->k->holds);
    if (nghttp2_session_server_new2(&session, cb, c, option) != 0)
        tap_bail("nghttp2");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &settings, 1);
    return session;
}

static void on_accept(struct back_kit *kit, int fd)
{
    struct back_h2_kit *k = list_entry(kit, struct back_h2_kit, k);
    struct h2_conn *c = calloc(1, sizeof(*c));
    struct stream_opts o = {.fn = on_event, .arg = c, .tls = kit->server_tls};

    if (c == NULL || k->n_conns >= H2_KIT_CONNS)
        tap_bail("too many connections");
    k->conns[k->n_conns++] = c;
    c->k = k;
    c->window = 65535;
    c->session = session_new(c);
    c->s = stream_accept(kit->loop, fd, &o);
    if (c->s == NULL && !kit->short_of_memory)
        tap_bail("stream_accept");
}

void h2_open(struct back_h2_kit *k)
{
    memset(k, 0, sizeof(*k));
    back_kit_open(&k->k, true, 0);
    tls_ctx_unref(k->k.server_tls);
    k->k.server_tls = server_ctx(true);
    k->k.on_accept = on_accept;
    k->max_streams = 100;
}

void h2_close(struct back_h2_kit *k)
{
    if (k->k.listener != NULL) /* what would come in from here on nobody would close */
        listener_close(k->k.listener);
    k->k.listener = NULL;
    for (size_t i = 0; i < k->n_conns; i++)
        h2_conn_close(k->conns[i], STREAM_CLOSE_NOW);
    back_kit_close(&k->k);
    for (size_t i = 0; i < k->n_conns; i++) {
        struct h2_conn *c = k->conns[i];

        for (size_t j = 0; j < c->n_asked; j++) {
            buf_free(&c->asked[j].head);
            buf_free(&c->asked[j].body);
        }
        nghttp2_session_del(c->session);
        free(c);
    }
}

void h2_conn_close(struct h2_conn *c, enum stream_close_how how)
{
    if (c->s != NULL)
        stream_close(c->s, how);
    c->s = NULL;
}

struct h2_conn *h2_conn(struct back_h2_kit *k, size_t n)
{
    if (!run_until(k->k.loop, k->n_conns > n))
        tap_bail("no connection %zu", n);
    return k->conns[n];
}

struct h2_asked *h2_asked(struct h2_conn *c, size_t n)
{
    if (!run_until(c->k->k.loop, c->n_asked > n && c->asked[n].ended))
        tap_bail("no request %zu", n);
    return &c->asked[n];
}

struct h2_asked *h2_asked_body(struct h2_conn *c, size_t n, size_t bytes)
{
    if (!run_until(c->k->k.loop, c->n_asked > n && buf_len(&c->asked[n].body) >= bytes))
        tap_bail("no %zu bytes of request %zu", bytes, n);
    return &c->asked[n];
}

bool h2_was_reset(struct h2_conn *c, size_t n)
{
    return run_until(c->k->k.loop, c->asked[n].reset);
}

bool h2_ended(struct h2_conn *c)
{
    return run_until(c->k->k.loop, c->eof || c->failed);
}

/* ---- what the server says ---- */

void h2_frame(struct h2_conn *c, unsigned type, unsigned flags, int32_t id, struct slice payload)
{
    unsigned char head[9] = {(unsigned char)(payload.n >> 16),
                             (unsigned char)(payload.n >> 8),
                             (unsigned char)payload.n,
                             (unsigned char)type,
                             (unsigned char)flags,
                             (unsigned char)((uint32_t)id >> 24),
                             (unsigned char)(id >> 16),
                             (unsigned char)(id >> 8),
                             (unsigned char)id};

    if (c->s == NULL || !stream_write(c->s, slice_of((const char *)head, sizeof(head))) ||
        !stream_write(c->s, payload)) {
        if (!c->k->k.short_of_memory && c->s == NULL)
            tap_bail("the server cannot write");
    }
}

/* Literal fields without indexing (RFC 7541 6.2.2), lengths below 2^14. */
static void put_text(struct buf *b, struct slice s)
{
    if (s.n < 127) {
        buf_append_char(b, (char)s.n);
    } else {
        buf_append_char(b, 127);
        buf_append_char(b, (char)(((s.n - 127) & 127) | 128));
        buf_append_char(b, (char)((s.n - 127) >> 7));
    }
    buf_append(b, s);
}

void h2_headers(struct h2_conn *c, int32_t id, const char *fields, bool end)
{
    enum { END_STREAM = 1, END_HEADERS = 4 };
    struct slice rest = slice_str(fields), line;
    struct buf b;

    buf_init(&b, 1 << 20);
    while (slice_split(&rest, '\n', &line) && line.n > 0) {
        size_t colon = 1 + slice_index(slice_from(line, 1), ':');

        buf_append_char(&b, 0);
        put_text(&b, slice_of(line.p, colon));
        put_text(&b, slice_from(line, colon + 2));
    }
    h2_frame(c, NGHTTP2_HEADERS, END_HEADERS | (end ? END_STREAM : 0), id, buf_slice(&b));
    buf_free(&b);
}

void h2_data(struct h2_conn *c, int32_t id, const char *text, bool end)
{
    h2_frame(c, NGHTTP2_DATA, end ? NGHTTP2_FLAG_END_STREAM : 0, id, slice_str(text));
}

void h2_bulk(struct h2_conn *c, int32_t id, size_t n)
{
    static char bytes[FRAME_BYTES];

    memset(bytes, 'x', sizeof(bytes));
    while (n > 0) {
        size_t piece = n < sizeof(bytes) ? n : sizeof(bytes);

        h2_frame(c, NGHTTP2_DATA, 0, id, slice_of(bytes, piece));
        n -= piece;
    }
}

static void put_u32(unsigned char *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(v >> (24 - 8 * i));
}

void h2_rst(struct h2_conn *c, int32_t id, uint32_t code)
{
    unsigned char payload[4];

    put_u32(payload, code);
    h2_frame(c, NGHTTP2_RST_STREAM, 0, id, slice_of((const char *)payload, sizeof(payload)));
}

void h2_goaway(struct h2_conn *c, int32_t last, uint32_t code)
{
    unsigned char payload[8];

    put_u32(payload, (uint32_t)last);
    put_u32(payload + 4, code);
    h2_frame(c, NGHTTP2_GOAWAY, 0, 0, slice_of((const char *)payload, sizeof(payload)));
}

void h2_settings(struct h2_conn *c, uint16_t id, uint32_t value)
{
    unsigned char payload[6] = {(unsigned char)(id >> 8), (unsigned char)id};

    put_u32(payload + 2, value);
    h2_frame(c, NGHTTP2_SETTINGS, 0, 0, slice_of((const char *)payload, sizeof(payload)));
}

void h2_open_windows(struct h2_conn *c, int32_t id, uint32_t by)
{
    if (nghttp2_submit_window_update(c->session, NGHTTP2_FLAG_NONE, id, (int32_t)by) != 0 ||
        nghttp2_submit_window_update(c->session, NGHTTP2_FLAG_NONE, 0, (int32_t)by) != 0)
        tap_bail("nghttp2");
    say(c);
}

/* ---- requests ---- */

void h2_judge_bearer(struct back_h2_kit *k, const char *bearer, unsigned status)
{
    struct call c;
    struct back_request asked = {.back = k->k.back, .response = {.status = status}};

    h2_call_init(&c, k, "/", bearer);
    asked.opts = c.opts;
    asked.opts.lasting = true;
    bearer_count(&asked, NULL);
    (void)bearer_answered(&asked);
    call_free(&c);
}

void h2_call_init(struct call *c, struct back_h2_kit *k, const char *target, const char *bearer)
{
    call_init(c, &k->k, "GET", target);
    c->opts.with_cert = bearer == NULL;
    c->opts.http2 = bearer == NULL ? BACK_HTTP2_SHARED : BACK_HTTP2_SAME_BEARER;
    if (bearer != NULL && bearer[0] != '\0' &&
        !http_head_add_id(&c->head, c->arena, HTTP_AUTHORIZATION, slice_str(bearer)))
        tap_bail("no memory");
}

void h2_call_send(struct call *c, struct back_h2_kit *k, const char *target, const char *bearer)
{
    h2_call_init(c, k, target, bearer);
    call_send(c);
}
