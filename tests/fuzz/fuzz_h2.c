/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a client sends over an HTTP/2 connection: every exchange ends once, and the connection ends with its client.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/metric.h"
#include "front/exchange_conn.h"
#include "front/h2_conn.h"
#include "fuzz/fuzz.h"

enum { PAUSED = 1, SILENT = 2, ONE_BYTE = 4, NO_PREFACE = 8, HELD = 64 };

struct scene {
    struct front_host host;
    struct front_conn fc;
    struct exchange *held[HELD];
    unsigned n_held, begun, over;
    unsigned knobs;
    bool started, closed, gone;
};

/* ---- the front's part: the harness is the front of one connection ---- */

static struct scene *scene_of(struct front_conn *fc)
{
    return list_entry(fc, struct scene, fc);
}

void front_conn_close(struct front_conn *fc, enum front_close reason, enum stream_close_how how)
{
    must_hold(!scene_of(fc)->closed && front_close_name(reason) != NULL);
    scene_of(fc)->closed = true;
    front_stats_closed(fc->host->stats, reason);
    stream_close(fc->stream, how);
}

uint64_t front_conn_count_request(struct front_conn *fc)
{
    return ++fc->requests;
}

bool front_conn_must_wait(const struct front_conn *fc)
{
    return memory_refuses(&fc->memory);
}

void front_conn_idle(struct front_conn *fc, bool idle)
{
    must_hold(!idle || !scene_of(fc)->closed);
}

void front_conn_give_away(struct front_conn *fc)
{
    (void)fc;
    must_hold(false);
}

static void on_descriptor(void *arg)
{
    ((struct scene *)arg)->gone = true;
}

static void on_handshake(struct stream *s, enum stream_event ev, void *arg)
{
    struct scene *sc = arg;

    (void)s;
    if (ev == STREAM_OPENED) {
        front_stats_opened(sc->host.stats, 0);
        sc->started = h2_conn_start(&sc->fc);
        must_hold(sc->started);
    } else if (!sc->started) {
        front_conn_close(&sc->fc, FRONT_CLOSE_HANDSHAKE, STREAM_CLOSE_NOW);
    }
}

/* ---- the proxy's part ---- */

static void let_go(struct scene *sc, struct exchange *x)
{
    sc->over++;
    for (unsigned i = 0; i < sc->n_held; i++)
        if (sc->held[i] == x)
            sc->held[i] = NULL;
}

struct sink_arg {
    struct scene *sc;
    struct exchange *x;
};

static void on_body(void *arg, struct slice data)
{
    struct sink_arg *a = arg;

    if (data.n % 7 == 3)
        exchange_pause_body(a->x);
}

static void on_body_end(void *arg, const struct http_head *trailers)
{
    (void)arg;
    must_hold(trailers != NULL);
}

static void on_writable(void *arg)
{
    must_hold(arg != NULL);
}

static void on_gone(void *arg, const char *reason)
{
    struct sink_arg *a = arg;

    must_hold(reason != NULL);
    let_go(a->sc, a->x);
}

static struct http_head head_of(struct exchange *x, unsigned status)
{
    struct http_head h;

    must_hold(http_head_init(&h, exchange_arena(x), 2));
    h.status = status;
    must_hold(http_head_add(&h, exchange_arena(x), SLICE_LIT("X-Answer"), SLICE_LIT("yes")));
    return h;
}

static void check_request(struct exchange *x)
{
    const struct http_head *h = exchange_request(x);
    unsigned hosts = 0;

    must_hold(h->method.n > 0 && h->target.n > 0 && (h->target.p[0] == '/' || h->target.p[0] == '*'));
    for (size_t i = 0; i < h->n_fields; i++) {
        must_hold(h->fields[i].name.n > 0 && h->fields[i].name.p[0] != ':');
        must_hold(h->fields[i].id != HTTP_CONNECTION && h->fields[i].id != HTTP_TRANSFER_ENCODING);
        hosts += h->fields[i].id == HTTP_HOST;
        for (size_t k = 0; k < h->fields[i].value.n; k++)
            must_hold((unsigned char)h->fields[i].value.p[k] >= ' ' || h->fields[i].value.p[k] == '\t');
    }
    must_hold(hosts == 1);
}

static void on_request(struct exchange *x, void *arg)
{
    static const struct exchange_sink sink = {on_body, on_body_end, on_writable, on_gone};
    struct scene *sc = arg;
    struct http_head h = head_of(x, 200);
    struct sink_arg *a = arena_alloc(exchange_arena(x), sizeof(*a));

    sc->begun++;
    check_request(x);
    must_hold(a != NULL);
    *a = (struct sink_arg){sc, x};
    if (sc->n_held >= HELD || sc->begun % 4 == 1) {
        sc->over++;
        exchange_reply(x, &h, SLICE_LIT("answer"));
        return;
    }
    exchange_attach(x, &sink, a);
    sc->held[sc->n_held++] = x;
    if ((sc->knobs & PAUSED) != 0)
        exchange_pause_body(x);
}

/* One step of one exchange, so that they are in all states while more comes in. */
static void step(struct scene *sc, unsigned n)
{
    struct exchange *x = sc->n_held == 0 ? NULL : sc->held[n % sc->n_held];
    struct http_head h;

    if (x == NULL)
        return;
    h = head_of(x, 200);
    exchange_resume_body(x);
    if (!exchange_responded(x)) {
        (void)exchange_respond(x, &h, (struct http_body){HTTP_BODY_CHUNKED, 0});
    } else if (n % 3 == 0) {
        let_go(sc, x);
        exchange_finish(x, n % 2 == 0 ? &h : NULL);
    } else if (n % 11 == 1) {
        let_go(sc, x);
        exchange_abort(x, "step");
    } else if (!exchange_congested(x)) {
        (void)exchange_body(x, SLICE_LIT("some bytes of a body"));
    }
}

/* ---- the client's part ---- */

static void turn(struct scene *sc, int fd)
{
    char bytes[4096];

    loop_run_once(sc->host.loop, 0);
    while ((sc->knobs & SILENT) == 0 && read(fd, bytes, sizeof(bytes)) > 0)
        continue;
}

static void feed(struct scene *sc, int fd, struct slice in)
{
    unsigned pieces = 1, n = 0;

    while (in.n > 0 && !sc->closed) {
        size_t piece = (sc->knobs & ONE_BYTE) != 0 ? fuzz_piece(&pieces, in.n) : in.n;
        ssize_t sent = send(fd, in.p, piece, MSG_NOSIGNAL);

        if (sent <= 0)
            break;
        in = slice_from(in, (size_t)sent);
        turn(sc, fd);
        step(sc, n++);
    }
    for (unsigned i = 0; i < 6; i++) {
        turn(sc, fd);
        step(sc, n++);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    struct slice in = slice_of((const char *)data, size);
    struct metrics *metrics = metrics_new();
    struct scene sc = {.knobs = fuzz_byte(&in)};
    struct stream_opts o = {.fn = on_handshake, .arg = &sc};
    int fds[2];

    must_hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    sc.host = (struct front_host){
        .loop = loop_new(NULL), .stats = front_stats_new(metrics), .on_request = on_request, .arg = &sc};
    buf_init(&sc.host.scratch, 1 << 20);
    sc.host.arenas.ceiling = LIMIT_EXCHANGE_ARENA;
    sc.fc = (struct front_conn){.host = &sc.host,
                                .limits = {.max_head_bytes = 16 << 10,
                                           .header_timeout_ms = 60000,
                                           .idle_timeout_ms = 60000,
                                           .body_timeout_ms = 60000,
                                           .linger_timeout_ms = 60000}};
    memory_enter(NULL, &sc.fc.memory, NULL);
    sc.fc.stream = stream_accept(sc.host.loop, fds[0], &o);
    must_hold(sc.fc.stream != NULL);
    stream_charge(sc.fc.stream, &sc.fc.memory.held);
    front_stats_accepted(sc.host.stats);
    stream_on_closed(sc.fc.stream, on_descriptor, &sc);
    if ((sc.knobs & NO_PREFACE) == 0)
        feed(&sc, fds[1], slice_of(preface, sizeof(preface)));
    feed(&sc, fds[1], in);
    close(fds[1]);
    for (unsigned i = 0; i < 200 && !sc.gone; i++)
        loop_run_once(sc.host.loop, 1);
    must_hold(sc.closed && sc.gone);
    loop_run_once(sc.host.loop, 0);
    must_hold(sc.begun == sc.over);
    must_hold(front_stats_requests_in_flight(sc.host.stats) == 0);
    loop_free(sc.host.loop);
    must_hold(sc.fc.memory.held.held == 0);
    front_stats_free(sc.host.stats);
    arena_pool_free(&sc.host.arenas);
    buf_free(&sc.host.scratch);
    metrics_free(metrics);
    return 0;
}
