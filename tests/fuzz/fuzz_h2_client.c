/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that says any bytes, in any pieces, over an HTTP/2 connection of ours: each request ends once, what it got
 * is in order, and the connection ends with its server.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "back/back.h"
#include "fuzz/fuzz.h"
#include "net/dial.h"
#include "net/loop.h"
#include "net/tls_internal.h"

enum { PAUSED = 1, ONE_BYTE = 2, CANCELS = 4, NO_SETTINGS = 8, UPLOADS = 16, CALLS = 6, UPLOAD_BYTES = 100000 };

struct outcome {
    struct back_request *r;
    struct http_head head;
    struct http_field host;
    uint64_t announced, bytes;
    size_t to_upload;
    unsigned knobs, events;
    bool headed, over;
};

/* ---- the owners of the requests ---- */

static void on_interim(void *arg, const struct http_head *head)
{
    struct outcome *o = arg;

    must_hold(!o->over && !o->headed && head->status >= 100 && head->status < 200 && head->status != 101);
}

static void check_fields(const struct http_head *h)
{
    for (size_t i = 0; i < h->n_fields; i++) {
        must_hold(h->fields[i].name.n > 0 && h->fields[i].name.p[0] != ':');
        must_hold(h->fields[i].id != HTTP_CONNECTION && h->fields[i].id != HTTP_TRANSFER_ENCODING);
        for (size_t k = 0; k < h->fields[i].value.n; k++)
            must_hold((unsigned char)h->fields[i].value.p[k] >= ' ' || h->fields[i].value.p[k] == '\t');
    }
}

static void maybe_cancel(struct outcome *o)
{
    if ((o->knobs & CANCELS) == 0 || ++o->events % 3 != 0)
        return;
    back_cancel(o->r);
    o->over = true;
}

static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct outcome *o = arg;

    must_hold(!o->over && !o->headed && head->status >= 200 && head->status <= 599);
    check_fields(head);
    o->headed = true;
    o->announced = body.kind == HTTP_BODY_LENGTH ? body.length : body.kind == HTTP_BODY_NONE ? 0 : UINT64_MAX;
    if ((o->knobs & PAUSED) != 0)
        back_pause(o->r);
    maybe_cancel(o);
}

static void on_body(void *arg, struct slice data)
{
    struct outcome *o = arg;

    must_hold(!o->over && o->headed && data.n > 0);
    o->bytes += data.n;
    must_hold(o->bytes <= o->announced);
    maybe_cancel(o);
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct outcome *o = arg;

    must_hold(!o->over && o->headed && (o->announced == UINT64_MAX || o->bytes == o->announced));
    check_fields(trailers);
    o->over = true;
}

static void on_failed(void *arg, const struct back_failure_info *info)
{
    struct outcome *o = arg;

    must_hold(!o->over && info->text != NULL && (info->why != BACK_FAIL_BODY || o->headed));
    o->over = true;
}

static void on_writable(void *arg)
{
    static const char piece[7000];
    struct outcome *o = arg;

    must_hold(!o->over && o->to_upload > 0);
    while (o->to_upload > 0 && !back_congested(o->r)) {
        size_t n = o->to_upload < sizeof(piece) ? o->to_upload : sizeof(piece);

        if (!back_write(o->r, slice_of(piece, n)))
            return;
        o->to_upload -= n;
    }
    maybe_cancel(o);
}

static const struct back_handler handler = {.on_interim = on_interim,
                                            .on_head = on_head,
                                            .on_body = on_body,
                                            .on_end = on_end,
                                            .on_writable = on_writable,
                                            .on_failed = on_failed};

/* ---- the network: one connection without TLS, on which HTTP/2 is agreed ---- */

struct dial {
    struct loop_deferred work;
    struct stream *s;
    dial_fn *fn;
    void *arg;
};

static struct dial only; /* used while s is set; a second one cannot be made */
static int server_fd = -1;

const char *__wrap_stream_alpn(const struct stream *s);
const char *__wrap_stream_alpn(const struct stream *s)
{
    (void)s;
    return "h2";
}

static void on_dialled(void *arg)
{
    struct dial *d = arg;

    d->fn(d->s, NULL, d->arg);
}

struct dial *dial_start(struct loop *l, const struct dial_opts *o, dial_fn *fn, void *arg)
{
    struct stream_opts so = {.fn = NULL};
    int fds[2];

    if (!o->http2 || server_fd >= 0)
        return NULL;
    must_hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    server_fd = fds[1];
    only = (struct dial){.s = stream_accept(l, fds[0], &so), .fn = fn, .arg = arg};
    must_hold(only.s != NULL);
    loop_defer(l, &only.work, on_dialled, &only);
    return &only;
}

void dial_cancel(struct dial *d)
{
    (void)d;
    must_hold(false); /* it is over in the turn in which it began */
}

/* ---- the scene ---- */

struct scene {
    struct loop *loop;
    struct back *back;
    struct origin *origin;
    struct outcome calls[CALLS];
    unsigned knobs;
};

static void ask(struct scene *sc)
{
    for (size_t i = 0; i < CALLS; i++) {
        struct outcome *o = &sc->calls[i];
        struct back_opts opts = {.origin = sc->origin,
                                 .with_cert = true,
                                 .http2 = BACK_HTTP2_SHARED,
                                 .head = &o->head,
                                 .handler = &handler,
                                 .arg = o};

        o->knobs = sc->knobs;
        o->host = (struct http_field){SLICE_LIT("Host"), SLICE_LIT("h"), HTTP_HOST};
        o->head = (struct http_head){.method = i == 1 ? SLICE_LIT("HEAD") : SLICE_LIT("GET"),
                                     .method_id = i == 1 ? HTTP_HEAD : HTTP_GET,
                                     .target = SLICE_LIT("/"),
                                     .fields = &o->host,
                                     .n_fields = 1,
                                     .minor = 1};
        if ((sc->knobs & UPLOADS) != 0 && i % 2 == 0) {
            o->head.method = SLICE_LIT("POST");
            o->head.method_id = HTTP_POST;
            o->to_upload = i == 0 ? 5 : UPLOAD_BYTES;
            opts.body = (struct http_body){HTTP_BODY_LENGTH, o->to_upload};
        }
        o->r = back_start(sc->back, &opts);
        must_hold(o->r != NULL);
    }
}

static void turn(struct scene *sc)
{
    char bytes[4096];

    loop_run_once(sc->loop, 0);
    while (read(server_fd, bytes, sizeof(bytes)) > 0)
        continue;
}

static void resume(struct scene *sc)
{
    for (size_t i = 0; i < CALLS; i++)
        if (!sc->calls[i].over)
            back_resume(sc->calls[i].r);
}

static void feed(struct scene *sc, struct slice in)
{
    unsigned pieces = 1, n = 0;

    while (in.n > 0) {
        size_t piece = (sc->knobs & ONE_BYTE) != 0 ? fuzz_piece(&pieces, in.n) : in.n;
        ssize_t sent = send(server_fd, in.p, piece, MSG_NOSIGNAL);

        if (sent <= 0)
            break;
        in = slice_from(in, (size_t)sent);
        turn(sc);
        if (++n % 4 == 0)
            resume(sc);
    }
    for (unsigned i = 0; i < 4; i++)
        turn(sc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char settings[] = "\0\0\0\4\0\0\0\0";
    struct slice in = slice_of((const char *)data, size);
    struct scene sc = {.knobs = fuzz_byte(&in), .loop = loop_new(NULL)};
    struct tls_ctx ctx = {.refs = 1};
    bool over = false;

    sc.back = back_new(sc.loop, NULL);
    sc.origin = origin_new(sc.back, &(struct origin_opts){.name = "server", .host = "h", .port = 1, .tls_cert = &ctx});
    must_hold(sc.origin != NULL);
    ask(&sc);
    turn(&sc);
    if ((sc.knobs & NO_SETTINGS) == 0)
        feed(&sc, slice_of(settings, sizeof(settings)));
    feed(&sc, in);
    close(server_fd);
    for (unsigned i = 0; i < 20 && !over; i++) {
        loop_run_once(sc.loop, 0);
        resume(&sc);
        over = true;
        for (size_t k = 0; k < CALLS; k++)
            over = over && sc.calls[k].over;
    }
    must_hold(over && origin_in_flight(sc.origin) == 0);
    server_fd = -1;
    origin_unref(sc.origin);
    loop_run_once(sc.loop, 0);
    back_free(sc.back);
    loop_run_once(sc.loop, 0);
    loop_free(sc.loop);
    must_hold(ctx.refs == 1); /* on a busy machine what ends may take more than a turn */
    return 0;
}
