/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole connection to a server that sends any bytes, in any pieces: the request ends once, as one who reads it all at
 * once would see it; and the next request gets its own answer, whether on the same connection or on another.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "back/back.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "net/loop.h"

enum { SEEN_CEILING = 1 << 20, TURNS = 500 };

struct fixture {
    struct loop *loop;
    struct back *back;
    struct origin *origin;
    int listening;
};

struct outcome {
    struct back_request *request;
    struct buf seen; /* head, body and end, or the failure */
    struct http_body body;
    size_t body_bytes;
    bool over, failed;
};

static struct fixture fix;
static const char marker[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nMARKER";

static void on_interim(void *arg, const struct http_head *head)
{
    struct outcome *o = arg;

    must_hold(!o->over && head->status >= 100 && head->status < 200 && head->status != 101);
}

static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct outcome *o = arg;

    must_hold(!o->over && head->status >= 200 && head->status <= 599);
    o->body = body;
    must_hold(buf_printf(&o->seen, "%u %zu ", head->status, head->n_fields));
}

static void on_body(void *arg, struct slice data)
{
    struct outcome *o = arg;

    must_hold(!o->over && data.n > 0);
    o->body_bytes += data.n;
    must_hold(o->body.kind != HTTP_BODY_NONE);
    must_hold(o->body.kind != HTTP_BODY_LENGTH || o->body_bytes <= o->body.length);
    must_hold(buf_append(&o->seen, data));
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct outcome *o = arg;

    must_hold(!o->over);
    must_hold(o->body.kind != HTTP_BODY_LENGTH || o->body_bytes == o->body.length);
    o->over = true;
    must_hold(buf_printf(&o->seen, " end %zu", trailers->n_fields));
}

static void on_failed(void *arg, const struct back_failure_info *info)
{
    struct outcome *o = arg;

    must_hold(!o->over && info->text != NULL);
    o->over = o->failed = true;
}

static void turn(void)
{
    loop_run_once(fix.loop, 0);
    loop_run_once(fix.loop, 0);
}

static void set_up(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char host[sizeof("unix:") + sizeof(address.sun_path)];
    struct origin_opts o = {.name = "server", .host = host, .port = 1};

    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/mvproxy-fuzz-%d", (int)getpid());
    snprintf(host, sizeof(host), "unix:%s", address.sun_path);
    unlink(address.sun_path);
    fix.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must_hold(fix.listening >= 0);
    must_hold(bind(fix.listening, (struct sockaddr *)&address, sizeof(address)) == 0);
    must_hold(listen(fix.listening, 16) == 0);
    fix.loop = loop_new(NULL);
    fix.back = back_new(fix.loop, NULL);
    fix.origin = origin_new(fix.back, &o);
    must_hold(fix.origin != NULL);
}

/* The path is wanted as long as the process dials. */
static void forget_path(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/tmp/mvproxy-fuzz-%d", (int)getpid());
    unlink(path);
}

static void begin(struct outcome *o, struct http_head *head)
{
    static const struct back_handler handler = {
        .on_interim = on_interim, .on_head = on_head, .on_body = on_body, .on_end = on_end, .on_failed = on_failed};
    struct back_opts opts = {.origin = fix.origin, .head = head, .handler = &handler, .arg = o};

    *o = (struct outcome){.over = false};
    buf_init(&o->seen, SEEN_CEILING);
    o->request = back_start(fix.back, &opts);
    must_hold(o->request != NULL);
}

/* 1: a request has come on this connection; 0: its end; -1: nothing yet. */
static int asked(int fd)
{
    char piece[4096];
    ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

    return n > 0 ? 1 : n == 0 ? 0 : -1;
}

/* The connection on which the request comes; those that were given up before are in the queue, too. */
static int next_connection(int old)
{
    int fd = -1, state = -1;

    for (int i = 0; i < TURNS && state <= 0; i++) {
        turn();
        if (old >= 0 && asked(old) > 0)
            return old;
        if (fd < 0)
            fd = accept4(fix.listening, NULL, NULL, SOCK_CLOEXEC);
        state = fd < 0 ? -1 : asked(fd);
        if (state > 0 && asked(fd) == 0)
            state = 0;
        if (state == 0) {
            close(fd);
            fd = -1;
        }
    }
    must_hold(state > 0);
    return fd;
}

static void say(int fd, struct slice in, unsigned pieces)
{
    while (in.n > 0) {
        size_t n = pieces == 0 ? in.n : fuzz_piece(&pieces, in.n);
        ssize_t sent = send(fd, in.p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        turn();
        if (sent <= 0 && errno != EAGAIN)
            return;
        in = slice_from(in, sent > 0 ? (size_t)sent : 0);
    }
    turn();
}

/*
 * The next request: whatever was said before, it gets what is said to it. The one before may still be under way on a
 * connection of its own, sent again and then given up, which waits for its answer to drop it.
 */
static void expect_own_answer(int old, struct http_head *head)
{
    struct outcome o;
    int fd = old;

    begin(&o, head);
    for (unsigned given_up = 0; given_up < 3 && !o.over; given_up++) {
        int next = next_connection(fd);

        if (fd != old && next != fd)
            close(fd);
        fd = next;
        say(fd, slice_str(marker), 0);
        for (int i = 0; i < TURNS && !o.over; i++)
            turn();
    }
    must_hold(o.over && !o.failed);
    must_hold(slice_eq(buf_slice(&o.seen), SLICE_LIT("200 1 MARKER end 0")));
    buf_free(&o.seen);
    if (fd != old)
        close(fd);
}

static void run(struct outcome *o, struct slice in, unsigned pieces, bool head_request, bool ends)
{
    struct http_field host = {SLICE_LIT("Host"), SLICE_LIT("h"), HTTP_HOST};
    struct http_head head = {.method = SLICE_LIT("GET"),
                             .method_id = HTTP_GET,
                             .target = SLICE_LIT("/"),
                             .minor = 1,
                             .fields = &host,
                             .n_fields = 1,
                             .cap_fields = 1};
    struct http_head first = head;
    int fd;

    if (head_request) {
        first.method = SLICE_LIT("HEAD");
        first.method_id = HTTP_HEAD;
    }
    begin(o, &first);
    fd = next_connection(-1);
    say(fd, in, pieces);
    if (ends)
        shutdown(fd, SHUT_WR);
    for (int i = 0; i < 4; i++)
        turn();
    /* Unanswered on a new connection it may be asked again elsewhere; here that is as good as a failure. */
    if (!o->over)
        back_cancel(o->request);
    o->failed = o->failed || !o->over;
    expect_own_answer(fd, &head);
    close(fd);
    for (int i = 0; i < 4; i++)
        turn();
    while ((fd = accept4(fix.listening, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    uint8_t knob = fuzz_byte(&in);
    unsigned pieces = fuzz_byte(&in) + 1u;
    struct outcome whole, cut;

    if (fix.loop == NULL) {
        set_up();
        atexit(forget_path);
    }
    if (in.n > 16384)
        return 0;
    run(&whole, in, 0, (knob & 1) != 0, (knob & 2) != 0);
    run(&cut, in, pieces, (knob & 1) != 0, (knob & 2) != 0);
    must_hold(whole.failed == cut.failed);
    must_hold(whole.failed || slice_eq(buf_slice(&whole.seen), buf_slice(&cut.seen)));
    buf_free(&whole.seen);
    buf_free(&cut.seen);
    return 0;
}
