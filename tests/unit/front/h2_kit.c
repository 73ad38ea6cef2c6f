/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/front/h2_kit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"
#include "net/stream_internal.h"

enum { TEXT_BYTES = 64 << 10, PIECE = 16 << 10 };

/* The byte at a place of every large body. */
static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)(i * 7 + i / 251);
}

static void add_up(unsigned *sum, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *sum = *sum * 31 + (unsigned char)p[i];
}

unsigned h2_kit_sum(uint64_t n)
{
    unsigned sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum = sum * 31 + byte_at(i);
    return sum;
}

const char *h2_kit_text(struct buf *b)
{
    static char text[TEXT_BYTES + 1];
    struct slice s = buf_slice(b);
    size_t n = s.n < TEXT_BYTES ? s.n : TEXT_BYTES;

    memcpy(text, s.p, n);
    text[n] = '\0';
    return text;
}

bool h2_kit_has(struct buf *b, const char *text)
{
    return strstr(h2_kit_text(b), text) != NULL;
}

/* ---- the proxy's part ---- */

struct http_head *h2_kit_head(struct held *h, unsigned status, const char *name, const char *value)
{
    struct http_head *head = front_kit_head(h->x, status, name, value);

    if (head == NULL)
        tap_bail("out of memory");
    return head;
}

void h2_kit_reply(struct held *h, unsigned status, const char *body)
{
    struct exchange *x = h->x;

    h->x = NULL;
    front_kit_reply(x, status, body);
}

uint64_t h2_kit_pump(struct held *h, uint64_t given, uint64_t total)
{
    char piece[PIECE];

    while (h->x != NULL && given < total && !exchange_congested(h->x)) {
        size_t n = total - given < PIECE ? (size_t)(total - given) : PIECE;

        for (size_t i = 0; i < n; i++)
            piece[i] = (char)byte_at(given + i);
        if (!exchange_body(h->x, slice_of(piece, n)))
            break;
        given += n;
    }
    return given;
}

static void on_body(void *arg, struct slice data)
{
    struct held *h = arg;

    h->body += data.n;
    add_up(&h->sum, data.p, data.n);
    if (h->body < 1000)
        buf_printf(&h->told, "body(%.*s) ", (int)data.n, data.p);
}

static void on_body_end(void *arg, const struct http_head *trailers)
{
    struct held *h = arg;

    h->ended = true;
    buf_append_str(&h->told, "end ");
    for (size_t i = 0; i < trailers->n_fields; i++)
        buf_printf(&h->told, "%.*s=%.*s ", (int)trailers->fields[i].name.n, trailers->fields[i].name.p,
                   (int)trailers->fields[i].value.n, trailers->fields[i].value.p);
    if (slice_eq(exchange_request(h->x)->target, SLICE_LIT("/whole")))
        h2_kit_reply(h, 200, "sync");
}

static void on_writable(void *arg)
{
    struct held *h = arg;

    h->writable++;
}

static void on_gone(void *arg, const char *reason)
{
    struct held *h = arg;

    h->gone++;
    h->x = NULL;
    buf_printf(&h->told, "gone(%s) ", reason);
}

static const struct exchange_sink sink = {on_body, on_body_end, on_writable, on_gone};

static void on_request(struct exchange *x, void *arg)
{
    struct front_h2_kit *k = arg;
    struct held *h;

    if (k->takes_us > 0)
        clock_fake(clock_us() + k->takes_us, clock_wall_us());
    if (k->quiet)
        return;
    if (slice_eq(exchange_request(x)->target, SLICE_LIT("/away")))
        exchange_send_away(x);
    if (slice_eq(exchange_request(x)->target, SLICE_LIT("/sync")) ||
        slice_eq(exchange_request(x)->target, SLICE_LIT("/away"))) {
        front_kit_reply(x, 200, "sync");
        return;
    }
    if (k->of_peer)
        exchange_of_peer(x);
    if (k->for_clients && !exchange_for_client(x, http_head_value(exchange_request(x), HTTP_X_FORWARDED_FOR))) {
        front_kit_reply(x, 429, "");
        return;
    }
    if ((k->accounts || k->for_clients) && !exchange_may_ask(x, 1))
        tap_bail("refused");
    if (k->n_held >= KIT_EXCHANGES)
        tap_bail("too many requests");
    h = &k->held[k->n_held++];
    memset(h, 0, sizeof(*h));
    buf_init(&h->told, TEXT_BYTES);
    h->x = x;
    exchange_attach(x, &sink, h);
    if (k->pause_all)
        exchange_pause_body(x);
}

/* ---- the client ---- */

static struct req *req_of(struct front_h2_kit *k, int32_t id)
{
    for (unsigned i = 0; i < k->n_req; i++)
        if (k->req[i].id == id)
            return &k->req[i];
    return NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct req *r = req_of(arg, frame->hd.stream_id);
    struct slice n = slice_of((const char *)name, name_len), v = slice_of((const char *)value, value_len);
    uint64_t status;

    (void)session;
    (void)flags;
    if (r == NULL)
        return 0;
    if (slice_eq(n, SLICE_LIT(":status")) && slice_u64(v, &status)) {
        if (status < 200)
            r->interim = (unsigned)status;
        else
            r->status = (unsigned)status;
    }
    buf_printf(frame->headers.cat == NGHTTP2_HCAT_HEADERS && r->status >= 200 && n.p[0] != ':' && r->body_bytes > 0
                   ? &r->trailers
                   : &r->fields,
               "%.*s: %.*s\n", (int)n.n, n.p, (int)v.n, v.p);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct front_h2_kit *k = arg;
    struct req *r = req_of(k, frame->hd.stream_id);

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        k->goaways++;
        k->goaway_code = frame->goaway.error_code;
        k->goaway_last = frame->goaway.last_stream_id;
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
        k->pings++;
    } else if (frame->hd.type == NGHTTP2_SETTINGS) {
        k->settings++;
    } else if (r != NULL && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)) {
        r->ended = r->ended || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *arg)
{
    struct front_h2_kit *k = arg;
    struct req *r = req_of(k, id);

    (void)session;
    (void)flags;
    k->received += n;
    r->body_bytes += n;
    add_up(&r->sum, (const char *)data, n);
    if (r->body_bytes < 1000)
        buf_append(&r->body, slice_of((const char *)data, n));
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct req *r = req_of(arg, id);

    (void)session;
    if (r != NULL) {
        r->closed = true;
        r->code = code;
    }
    return 0;
}

static ssize_t read_upload(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length, uint32_t *flags,
                           nghttp2_data_source *source, void *arg)
{
    struct req *r = source->ptr;
    size_t n = r->upload - r->sent < length ? (size_t)(r->upload - r->sent) : length;
    nghttp2_nv nv = {(uint8_t *)(uintptr_t) "x-sum", (uint8_t *)(uintptr_t) "abc", 5, 3, 0};

    if (((struct front_h2_kit *)arg)->hold_bodies)
        return NGHTTP2_ERR_DEFERRED;
    for (size_t i = 0; i < n; i++)
        buf[i] = byte_at(r->sent + i);
    r->sent += n;
    if (r->sent == r->upload) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (r->upload_trailer) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(session, id, &nv, 1);
        }
    }
    return (ssize_t)n;
}

void h2_kit_raw(struct front_h2_kit *k, const void *bytes, size_t n)
{
    if (k->end != CLIENT_OPEN)
        return;
    for (size_t at = 0; at < n && k->end == CLIENT_OPEN;) {
        size_t piece = k->trickle ? 1 : n - at;

        if (!stream_write(k->s, slice_of((const char *)bytes + at, piece)))
            k->end = CLIENT_BROKEN;
        at += piece;
        if (k->trickle)
            loop_run_once(k->front.loop, 0);
    }
}

void h2_kit_flush(struct front_h2_kit *k)
{
    const uint8_t *p;
    ssize_t n;

    while (k->session != NULL && !k->hold_output && k->end == CLIENT_OPEN && !stream_congested(k->s) &&
           (n = nghttp2_session_mem_send(k->session, &p)) > 0)
        h2_kit_raw(k, p, (size_t)n);
}

static void on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct front_h2_kit *k = arg;
    struct slice in;

    switch (ev) {
    case STREAM_OPENED:
        k->opened = true;
        break;
    case STREAM_READABLE:
        while ((in = stream_peek(s)).n > 0) {
            if (k->session != NULL && nghttp2_session_mem_recv(k->session, (const uint8_t *)in.p, in.n) < 0)
                k->end = CLIENT_BROKEN;
            stream_consume(s, in.n);
        }
        break;
    case STREAM_WRITABLE:
        break;
    case STREAM_EOF:
        if (k->end == CLIENT_OPEN)
            k->end = CLIENT_EOF;
        break;
    case STREAM_FAILED:
        k->end = CLIENT_BROKEN;
        break;
    }
    if (!k->trickle)
        h2_kit_flush(k);
}

static nghttp2_session *make_session(struct front_h2_kit *k, bool manual)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;
    nghttp2_session *session;

    if (nghttp2_session_callbacks_new(&cb) != 0 || nghttp2_option_new(&option) != 0)
        tap_bail("nghttp2");
    nghttp2_option_set_no_auto_window_update(option, manual);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    if (nghttp2_session_client_new2(&session, cb, k, option) != 0)
        tap_bail("nghttp2");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0);
    return session;
}

static bool is_open(void *arg)
{
    struct front_h2_kit *k = arg;

    return k->opened || k->end != CLIENT_OPEN;
}

/* from: 127.0.0.n; 0: any. */
static struct stream *reach(struct front_h2_kit *k, unsigned char from)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)front_port(k->front.front)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct stream_opts o = {.fn = on_event, .arg = k, .tls = k->front.client_tls};

    int fd;

    if (from == 0)
        return stream_connect(k->front.loop, (struct sockaddr *)&addr, sizeof(addr), &o);
    fd = client_raw_from(&k->front, from);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        tap_bail("O_NONBLOCK");
    return stream_adopt(k->front.loop, fd, NULL, "server", &o);
}

static void connect_from(struct front_h2_kit *k, unsigned char from)
{
    k->opened = false;
    k->end = CLIENT_OPEN;
    k->goaways = k->pings = k->settings = 0;
    k->received = 0;
    k->s = reach(k, from);
    if (k->s == NULL || !front_kit_until(&k->front, is_open, k) || k->end != CLIENT_OPEN)
        tap_bail("client cannot connect");
    if (strcmp(stream_alpn(k->s), "h2") != 0)
        tap_bail("no h2: %s", stream_alpn(k->s));
}

void h2_kit_connect_from(struct front_h2_kit *k, unsigned char n)
{
    connect_from(k, n);
    k->session = NULL;
}

void h2_kit_connect(struct front_h2_kit *k, bool raw, bool manual)
{
    connect_from(k, 0);
    k->session = raw ? NULL : make_session(k, manual);
    h2_kit_flush(k);
}

void h2_kit_disconnect(struct front_h2_kit *k)
{
    if (k->s != NULL)
        stream_close(k->s, STREAM_CLOSE_NOW);
    k->s = NULL;
    k->end = CLIENT_EOF;
    nghttp2_session_del(k->session);
    k->session = NULL;
    for (unsigned i = 0; i < k->n_req; i++) {
        buf_free(&k->req[i].fields);
        buf_free(&k->req[i].trailers);
        buf_free(&k->req[i].body);
    }
    k->n_req = 0;
}

static nghttp2_nv nv_of(struct slice n, struct slice v)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)n.p, (uint8_t *)(uintptr_t)v.p, n.n, v.n,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

struct req *h2_kit_ask(struct front_h2_kit *k, const char *method, const char *path, const char *authority,
                       const char *fields, uint64_t upload)
{
    static nghttp2_nv nva[LIMIT_HOP_FIELDS + 8];
    size_t n = 0;
    struct slice rest = slice_str(fields), line;
    struct req *r = &k->req[k->n_req++];
    nghttp2_data_provider provider = {.source.ptr = r, .read_callback = read_upload};

    if (k->n_req >= KIT_REQUESTS)
        tap_bail("too many requests");
    memset(r, 0, sizeof(*r));
    buf_init(&r->fields, TEXT_BYTES);
    buf_init(&r->trailers, TEXT_BYTES);
    buf_init(&r->body, TEXT_BYTES);
    r->upload = upload;
    r->upload_trailer = strstr(path == NULL ? "" : path, "trailer") != NULL;
    nva[n++] = nv_of(SLICE_LIT(":method"), slice_str(method));
    if (path != NULL) {
        nva[n++] = nv_of(SLICE_LIT(":scheme"), SLICE_LIT("https"));
        nva[n++] = nv_of(SLICE_LIT(":path"), slice_str(path));
    }
    if (authority != NULL)
        nva[n++] = nv_of(SLICE_LIT(":authority"), slice_str(authority));
    while (n < sizeof(nva) / sizeof(*nva) && rest.n > 0 && slice_split(&rest, '\n', &line) && line.n > 0) {
        size_t colon = slice_index(line, ':');

        nva[n++] = nv_of(slice_of(line.p, colon), slice_from(line, colon + 2));
    }
    r->id = nghttp2_submit_request(k->session, NULL, nva, n, upload > 0 ? &provider : NULL, r);
    if (r->id < 0)
        tap_bail("cannot ask: %s", nghttp2_strerror(r->id));
    h2_kit_flush(k);
    return r;
}

struct req *h2_kit_get(struct front_h2_kit *k, const char *path)
{
    return h2_kit_ask(k, "GET", path, "h", NULL, 0);
}

/* ---- waiting ---- */

struct goal {
    struct front_h2_kit *k;
    struct req *r;
    struct held *h;
    const char *text;
    unsigned n;
};

static bool held_reached(void *arg)
{
    struct goal *g = arg;

    return g->k->n_held >= g->n || g->k->end != CLIENT_OPEN;
}

bool h2_kit_held(struct front_h2_kit *k, unsigned n)
{
    struct goal g = {.k = k, .n = n};

    return front_kit_until(&k->front, held_reached, &g) && k->n_held == n;
}

struct req *h2_kit_answering(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct req *r;

    h2_kit_connect(k, false, true);
    clock_fake(clock_us(), clock_wall_us());
    r = h2_kit_get(k, "/x");
    if (!h2_kit_held(k, 1))
        tap_bail("no request");
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    return r;
}

static bool req_closed(void *arg)
{
    struct goal *g = arg;

    return g->r->closed || g->k->end != CLIENT_OPEN;
}

bool h2_kit_closed(struct front_h2_kit *k, struct req *r)
{
    struct goal g = {.k = k, .r = r};

    return front_kit_until(&k->front, req_closed, &g) && r->closed;
}

static bool has_status(void *arg)
{
    struct goal *g = arg;

    return g->r->status != 0 || g->k->end != CLIENT_OPEN;
}

bool h2_kit_status(struct front_h2_kit *k, struct req *r)
{
    struct goal g = {.k = k, .r = r};

    return front_kit_until(&k->front, has_status, &g) && r->status != 0;
}

static bool was_told(void *arg)
{
    struct goal *g = arg;

    return strstr(h2_kit_text(&g->h->told), g->text) != NULL;
}

bool h2_kit_told(struct front_h2_kit *k, struct held *h, const char *text)
{
    struct goal g = {.k = k, .h = h, .text = text};

    return front_kit_until(&k->front, was_told, &g);
}

static bool has_ended(void *arg)
{
    struct front_h2_kit *k = arg;

    return k->end != CLIENT_OPEN;
}

bool h2_kit_ended(struct front_h2_kit *k)
{
    return front_kit_until(&k->front, has_ended, k);
}

bool h2_kit_until(struct front_h2_kit *k, bool (*done)(void *arg), void *arg)
{
    return front_kit_until(&k->front, done, arg);
}

void h2_kit_settle(struct front_h2_kit *k)
{
    front_kit_settle(&k->front);
}

void h2_kit_later(struct front_h2_kit *k, uint64_t ms)
{
    front_kit_pass(&k->front, ms);
}

/* ---- life ---- */

void h2_kit_init(struct front_h2_kit *k)
{
    memset(k, 0, sizeof(*k));
    front_kit_init_http2(&k->front);
    k->front.opts.on_request = on_request;
    k->front.opts.arg = k;
}

void h2_kit_start(struct front_h2_kit *k)
{
    front_kit_start(&k->front);
}

void h2_kit_end(struct front_h2_kit *k)
{
    if (k->s != NULL)
        h2_kit_disconnect(k);
    if (k->front.front != NULL)
        front_kit_empty(&k->front);
    front_kit_end(&k->front);
    for (unsigned i = 0; i < k->n_held; i++)
        buf_free(&k->held[i].told);
}

void h2_kit_run(const struct h2_kit_story *stories, size_t n, const char *only)
{
    static struct front_h2_kit k;

    for (size_t i = 0; i < n; i++) {
        if (only != NULL && strcmp(only, stories[i].name) != 0)
            continue;
        diag("%s", stories[i].name);
        h2_kit_init(&k);
        h2_kit_start(&k);
        stories[i].run(&k);
        h2_kit_end(&k);
    }
}

void h2_kit_append_dear_head(struct buf *b, unsigned nth, size_t bytes, const char *of)
{
    static const unsigned char request[] = {0x82, 0x87, 0x84, 0x01, 1, 'h'};
    static const unsigned char field[] = {
        0x40, 1, 'a', 0x7f, (KIT_DEAR_VALUE - 127) % 128 | 128, (KIT_DEAR_VALUE - 127) / 128};
    static char value[KIT_DEAR_VALUE], again[KIT_DEAR_BYTES];
    static const char forwarded[] = "\0\17x-forwarded-for"; /* a literal that the table does not keep */
    size_t first = nth == 0 ? sizeof(field) + sizeof(value) : 0;
    size_t address = of == NULL ? 0 : sizeof(forwarded) + strlen(of);
    size_t length = sizeof(request) + address + first + bytes;
    unsigned char head[9] = {0, (unsigned char)(length >> 8), (unsigned char)length, 1, 5, 0, 0,
                             0, (unsigned char)(2 * nth + 1)};

    memset(value, 'v', sizeof(value));
    memset(again, 0xbe, sizeof(again)); /* the newest entry of the dynamic table */
    buf_append(b, slice_of((const char *)head, sizeof(head)));
    buf_append(b, slice_of((const char *)request, sizeof(request)));
    if (of != NULL) {
        buf_append(b, slice_of(forwarded, sizeof(forwarded) - 1));
        buf_append_char(b, (char)strlen(of));
        buf_append_str(b, of);
    }
    if (nth == 0) {
        buf_append(b, slice_of((const char *)field, sizeof(field)));
        buf_append(b, slice_of(value, sizeof(value)));
    }
    buf_append(b, slice_of(again, bytes));
}
