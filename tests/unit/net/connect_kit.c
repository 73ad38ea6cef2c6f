/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/connect_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/tap.h"

static void on_server(struct stream *s, enum stream_event ev, void *arg);

static void forward(struct stream *from, struct stream *to)
{
    struct slice in;

    while (from != NULL && to != NULL && (in = stream_peek(from)).n > 0) {
        if (stream_congested(to)) {
            stream_pause(from, STREAM_PAUSE_BODY);
            return;
        }
        if (!stream_write(to, in))
            return;
        stream_consume(from, in.n);
    }
}

static void drop(struct stream **s, enum stream_close_how how)
{
    if (*s != NULL)
        stream_close(*s, how);
    *s = NULL;
}

static void connect_target(struct connect_kit *p)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)p->target_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct stream_opts o = {.fn = on_server, .arg = p};

    p->server = stream_connect(p->l, (struct sockaddr *)&in, sizeof(in), &o);
    p->carrying = true;
}

static void answer(struct connect_kit *p)
{
    size_t n = p->answer.n - p->answered;

    if (p->piece != 0 && n > p->piece)
        n = p->piece;
    if (n > 0 && !stream_write(p->client, slice_of(p->answer.p + p->answered, n)))
        return;
    p->answered += n;
    if (p->answered < p->answer.n || p->carrying)
        return;
    if (p->then == PROXY_CARRIES)
        connect_target(p);
    else if (p->then == PROXY_CLOSES)
        drop(&p->client, STREAM_CLOSE_FLUSH);
    else if (p->then == PROXY_RESETS)
        drop(&p->client, STREAM_CLOSE_ABORT);
}

static bool is_asked(const struct connect_kit *p)
{
    return buf_len(&p->request) > 4 && memcmp(buf_slice(&p->request).p + buf_len(&p->request) - 4, "\r\n\r\n", 4) == 0;
}

static void read_request(struct connect_kit *p)
{
    struct slice in;

    while ((in = stream_peek(p->client)).n > 0 && !is_asked(p)) {
        buf_append(&p->request, slice_of(in.p, 1));
        stream_consume(p->client, 1);
    }
}

static void end_other(struct stream *from, bool *ended, struct stream *to)
{
    if (from == NULL || !*ended || stream_input_len(from) > 0 || to == NULL)
        return;
    stream_finish_writing(to);
}

static void on_client(struct stream *s, enum stream_event ev, void *arg)
{
    struct connect_kit *p = arg;

    if (ev == STREAM_OPENED)
        snprintf(p->client_cn, sizeof(p->client_cn), "%.*s", (int)stream_tls_peer(s)->common_name.n,
                 stream_tls_peer(s)->common_name.n == 0 ? "" : stream_tls_peer(s)->common_name.p);
    if (ev == STREAM_READABLE && !is_asked(p))
        read_request(p);
    if (ev == STREAM_EOF)
        p->client_ended = true;
    if (ev == STREAM_FAILED) {
        drop(&p->client, STREAM_CLOSE_ABORT);
        drop(&p->server, STREAM_CLOSE_ABORT);
        return;
    }
    if (ev == STREAM_WRITABLE && p->server != NULL)
        stream_resume(p->server, STREAM_PAUSE_BODY);
    forward(p->client, p->server);
    end_other(p->client, &p->client_ended, p->server);
}

static void on_server(struct stream *s, enum stream_event ev, void *arg)
{
    struct connect_kit *p = arg;

    (void)s;
    if (ev == STREAM_EOF)
        p->server_ended = true;
    if (ev == STREAM_FAILED) {
        drop(&p->server, STREAM_CLOSE_ABORT);
        drop(&p->client, STREAM_CLOSE_ABORT);
        return;
    }
    if (ev == STREAM_WRITABLE && p->client != NULL)
        stream_resume(p->client, STREAM_PAUSE_BODY);
    forward(p->server, p->client);
    forward(p->client, p->server);
    end_other(p->server, &p->server_ended, p->client);
    end_other(p->client, &p->client_ended, p->server);
}

static void on_accept(int fd, void *arg)
{
    struct connect_kit *p = arg;
    struct stream_opts o = {.fn = on_client, .arg = p, .tls = p->tls};

    p->accepted++;
    connect_kit_reset(p);
    p->client = stream_accept(p->l, fd, &o);
}

/* One piece per look, so that each comes by itself. */
static void on_tick(void *arg)
{
    struct connect_kit *p = arg;

    if (p->client != NULL && is_asked(p) && !p->carrying)
        answer(p);
    loop_timer_set(p->tick, p->piece == 0 || p->client == NULL ? 1 : 0);
}

static int unix_socket(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&un, sizeof(un)) != 0 || listen(fd, 5) != 0)
        tap_bail("listen on %s: %s", path, strerror(errno));
    return fd;
}

void connect_kit_open(struct connect_kit *p, struct loop *l, const char *path, struct tls_ctx *tls)
{
    struct err err = {""};

    *p = (struct connect_kit){.l = l, .tls = tls, .answer = SLICE_LIT("HTTP/1.1 200 OK\r\n\r\n")};
    buf_init(&p->request, 4096);
    p->listener = path == NULL ? listener_open(l, "127.0.0.1", 0, on_accept, p, &err)
                               : listener_adopt(l, unix_socket(path), on_accept, p, &err);
    p->tick = loop_timer_new(l, on_tick, p);
    if (p->listener == NULL || p->tick == NULL)
        tap_bail("proxy: %s", err.text);
    loop_timer_set(p->tick, 1);
}

void connect_kit_reset(struct connect_kit *p)
{
    drop(&p->client, STREAM_CLOSE_ABORT);
    drop(&p->server, STREAM_CLOSE_ABORT);
    buf_reset(&p->request);
    p->answered = 0;
    p->carrying = p->client_ended = p->server_ended = false;
}

void connect_kit_close(struct connect_kit *p)
{
    connect_kit_reset(p);
    listener_close(p->listener);
    loop_timer_free(p->tick);
    buf_free(&p->request);
}
