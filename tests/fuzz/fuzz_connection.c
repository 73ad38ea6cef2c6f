/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole client connection over a real socket: any pieces of the same bytes must lead to the same requests and the
 * same answers, the answers are HTTP, one for each request at most, and nothing is left when the client has gone.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/metric.h"
#include "front/front.h"
#include "fuzz/fuzz.h"
#include "http/h1_body.h"
#include "http/h1_parse.h"
#include "net/listener.h"
#include "net/loop.h"

enum { HEAD_CEILING = 4096, RECORD_CEILING = 1 << 20, TURNS = 2000, QUIET_TURNS = 6 };

struct fixture {
    struct loop *loop;
    struct front *front;
    struct metrics *metrics;
    struct sockaddr_un address;
    socklen_t address_len;
    struct exchange *x;
    struct buf requests; /* what the handler was given, as text */
    struct buf echo;     /* the body of the request being read */
    struct buf kinds;    /* of the requests, in their order: 'H' for HEAD, whose answer has no body, '-' */
};

struct run {
    struct buf requests, answers;
};

static struct fixture fix;

static void answer(struct exchange *x, struct slice body)
{
    struct http_head head = {.status = 200, .reason = SLICE_LIT("OK"), .minor = 1};

    exchange_reply(x, &head, body);
}

static void on_body(void *arg, struct slice data)
{
    (void)arg;
    must_hold(fix.x != NULL && data.n > 0);
    must_hold(buf_append(&fix.echo, data));
}

static void on_body_end(void *arg, const struct http_head *trailers)
{
    struct exchange *x = fix.x;

    (void)arg;
    must_hold(x != NULL);
    must_hold(buf_printf(&fix.requests, " body %zu", buf_len(&fix.echo)));
    must_hold(buf_append(&fix.requests, buf_slice(&fix.echo)));
    for (size_t i = 0; trailers != NULL && i < trailers->n_fields; i++)
        must_hold(
            buf_printf(&fix.requests, " trailer %.*s", (int)trailers->fields[i].name.n, trailers->fields[i].name.p));
    fix.x = NULL;
    answer(x, buf_slice(&fix.echo));
}

static void on_writable(void *arg)
{
    (void)arg;
}

static void on_gone(void *arg, const char *reason)
{
    (void)arg;
    must_hold(reason != NULL && fix.x != NULL);
    fix.x = NULL;
    must_hold(buf_printf(&fix.requests, " gone"));
}

static void on_request(struct exchange *x, void *arg)
{
    static const struct exchange_sink sink = {on_body, on_body_end, on_writable, on_gone};
    const struct http_head *head = exchange_request(x);

    (void)arg;
    must_hold(fix.x == NULL); /* one at a time */
    must_hold(buf_append_char(&fix.kinds, slice_eq(head->method, SLICE_LIT("HEAD")) ? 'H' : '-'));
    must_hold(buf_printf(&fix.requests, "\n%.*s %.*s %zu", (int)head->method.n, head->method.p, (int)head->target.n,
                         head->target.p, head->n_fields));
    if (exchange_request_body(x).kind == HTTP_BODY_NONE) {
        answer(x, SLICE_LIT("none"));
        return;
    }
    buf_reset(&fix.echo);
    fix.x = x;
    exchange_attach(x, &sink, NULL);
}

/* In place of net/listener's: ours has no address that a client could be told by. */
bool __wrap_listener_address_of(int fd, struct listen_address *out);
bool __wrap_listener_address_of(int fd, struct listen_address *out)
{
    (void)fd;
    *out = (struct listen_address){.host = "127.0.0.1"};
    return true;
}

static void set_up(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct front_opts o = {.listen = {.inherited = &fd, .n_inherited = 1},
                           .max_head_bytes = HEAD_CEILING,
                           .header_timeout_ms = 60000,
                           .idle_timeout_ms = 60000,
                           .handshake_timeout_ms = 60000,
                           .on_request = on_request};
    struct err err = {0};

    fix.address.sun_family = AF_UNIX;
    /* An abstract address of this process: nothing to clean up. */
    fix.address_len = (socklen_t)(sizeof(sa_family_t) + 1 +
                                  (size_t)snprintf(fix.address.sun_path + 1, sizeof(fix.address.sun_path) - 1,
                                                   "mvproxy-fuzz-%d", (int)getpid()));
    must_hold(fd >= 0);
    must_hold(bind(fd, (struct sockaddr *)&fix.address, fix.address_len) == 0);
    must_hold(listen(fd, 16) == 0);
    fix.loop = loop_new(NULL);
    fix.metrics = metrics_new();
    fix.front = front_new(fix.loop, fix.metrics, &o, &err);
    if (fix.front == NULL)
        fprintf(stderr, "%s\n", err.text);
    must_hold(fix.front != NULL);
    buf_init(&fix.requests, RECORD_CEILING);
    buf_init(&fix.echo, RECORD_CEILING);
    buf_init(&fix.kinds, RECORD_CEILING);
}

/* Takes what has been answered; false at the end of the connection. */
static bool receive(int fd, struct buf *answers)
{
    char piece[4096];
    ssize_t n;

    while ((n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
        must_hold(buf_append(answers, slice_of(piece, (size_t)n)));
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

static void turn(void)
{
    loop_run_once(fix.loop, 0);
    loop_run_once(fix.loop, 0);
}

static void run(struct run *r, struct slice in, unsigned pieces)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), turns = 0, quiet;
    bool open = true;

    buf_init(&r->requests, RECORD_CEILING);
    buf_init(&r->answers, 4 * RECORD_CEILING);
    buf_reset(&fix.requests);
    buf_reset(&fix.kinds);
    must_hold(fd >= 0 && connect(fd, (struct sockaddr *)&fix.address, fix.address_len) == 0);
    while (in.n > 0 && open && turns++ < TURNS) {
        size_t n = pieces == 0 ? in.n : fuzz_piece(&pieces, in.n);
        ssize_t sent = send(fd, in.p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        in = slice_from(in, sent > 0 ? (size_t)sent : 0);
        turn();
        open = receive(fd, &r->answers) && (sent > 0 || errno == EAGAIN);
    }
    /* An end is a client that has gone, and ends what it asked: it comes when all is quiet. */
    for (quiet = 0, turns = 0; turns < TURNS && open && quiet < QUIET_TURNS; turns++) {
        size_t before = buf_len(&r->answers) + buf_len(&fix.requests);

        turn();
        open = receive(fd, &r->answers);
        quiet = buf_len(&r->answers) + buf_len(&fix.requests) == before ? quiet + 1 : 0;
    }
    close(fd);
    for (turns = 0; turns < TURNS && front_connections(fix.front) > 0; turns++)
        turn();
    must_hold(front_connections(fix.front) == 0 && front_exchanges(fix.front) == 0 && fix.x == NULL);
    must_hold(buf_append(&r->requests, buf_slice(&fix.requests)));
}

/* The answers are responses, as many as there were requests and at most one refusal, which is the last. */
static void read_answers(struct slice text, struct slice kinds)
{
    struct arena *a = arena_new(1 << 20);
    struct h1_parser *p = h1_parser_new(H1_RESPONSE, HEAD_CEILING);

    must_hold(a != NULL && p != NULL);
    while (text.n > 0) {
        struct http_head head;
        size_t used;
        uint64_t length = 0;

        arena_reset(a);
        h1_parser_begin(p, a, &head);
        must_hold(h1_parser_feed(p, text, &used) == H1_DONE);
        text = slice_from(text, used);
        must_hold(head.status >= 200);
        must_hold(h1_content_length(&head, &length));
        if (head.status != 200) {
            must_hold(text.n == length || text.n == 0); /* of HEAD it is not the handler who knows */
            break;
        }
        must_hold(kinds.n > 0);
        if (kinds.p[0] != 'H') {
            must_hold(length <= text.n);
            text = slice_from(text, (size_t)length);
        }
        kinds = slice_from(kinds, 1);
    }
    h1_parser_free(p);
    arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    unsigned pieces = fuzz_byte(&in) + 1u;
    struct run whole, cut;

    if (fix.loop == NULL)
        set_up();
    if (in.n > 16384)
        return 0;
    run(&whole, in, 0);
    read_answers(buf_slice(&whole.answers), buf_slice(&fix.kinds));
    run(&cut, in, pieces);
    read_answers(buf_slice(&cut.answers), buf_slice(&fix.kinds));
    must_hold(slice_eq(buf_slice(&whole.requests), buf_slice(&cut.requests)));
    buf_free(&whole.requests);
    buf_free(&whole.answers);
    buf_free(&cut.requests);
    buf_free(&cut.answers);
    return 0;
}
