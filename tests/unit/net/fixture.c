/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "lib/tap.h"

enum { GIVE_UP_MS = 60000, GIVE_UP_SOON_MS = 20000, DEFAULT_PIECE = 16000, COLLECT_MAX = 64 << 20 };

/* ---- certificates ---- */

static const char *cert_dir(void)
{
    static char dir[512];
    const char *build = getenv("top_builddir");
    const char *src = getenv("top_srcdir");
    char command[2048];
    int lock;

    if (dir[0] != '\0')
        return dir;
    snprintf(dir, sizeof(dir), "%s/tests/unit/net/certs.d", build == NULL ? "." : build);
    snprintf(command, sizeof(command), "mkdir -p '%s'", dir);
    if (system(command) != 0)
        tap_bail("mkdir %s", dir);
    snprintf(command, sizeof(command), "%s/.lock", dir);
    lock = open(command, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        tap_bail("lock %s: %s", command, strerror(errno));
    snprintf(command, sizeof(command), "python3 '%s/tests/lib/certs.py' '%s'", src == NULL ? "." : src, dir);
    if (system(command) != 0)
        tap_bail("certs.py failed");
    close(lock);
    return dir;
}

const char *cert_path(const char *name)
{
    static char paths[4][640];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", cert_dir(), name);
    return path;
}

char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "r");
    char *text = must_zalloc(1 << 20);

    if (f == NULL)
        tap_bail("%s: %s", path, strerror(errno));
    *n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

const char *scratch_file(const char *name, const char *data, size_t n)
{
    const char *path = cert_path(name);
    FILE *f = fopen(path, "w");

    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        tap_bail("%s: %s", path, strerror(errno));
    return path;
}

static struct tls_ctx *make_server(bool http2, bool hop)
{
    char crt[640], key[640], ca[640], rh[640];
    struct tls_server_opts o = {.cert_file = crt,
                                .key_file = key,
                                .client_ca_file = ca,
                                .requestheader_ca_file = rh,
                                .http2 = http2,
                                .hop = hop};
    struct err err = {""};
    struct tls_ctx *c;

    snprintf(crt, sizeof(crt), "%s", cert_path("node-a.crt"));
    snprintf(key, sizeof(key), "%s", cert_path("node-a.key"));
    snprintf(ca, sizeof(ca), "%s", cert_path("ca.crt"));
    snprintf(rh, sizeof(rh), "%s", cert_path("front-proxy-ca.crt"));
    c = tls_server_ctx_new(&o, &err);
    if (c == NULL)
        tap_bail("server context: %s", err.text);
    return c;
}

struct tls_ctx *server_ctx(bool http2)
{
    return make_server(http2, false);
}

struct tls_ctx *hop_server_ctx(bool http2)
{
    return make_server(http2, true);
}

static struct tls_ctx *make_client(const char *client, bool http2, bool hop)
{
    char crt[640] = "", key[640] = "", ca[640], name[128];
    struct tls_client_opts o = {.ca_file = ca, .server_name = "kubernetes.default.svc", .http2 = http2, .hop = hop};
    struct err err = {""};
    struct tls_ctx *c;

    snprintf(ca, sizeof(ca), "%s", cert_path("ca.crt"));
    if (client != NULL) {
        snprintf(name, sizeof(name), "%s.crt", client);
        snprintf(crt, sizeof(crt), "%s", cert_path(name));
        snprintf(name, sizeof(name), "%s.key", client);
        snprintf(key, sizeof(key), "%s", cert_path(name));
        o.cert_file = crt;
        o.key_file = key;
    }
    c = tls_client_ctx_new(&o, &err);
    if (c == NULL)
        tap_bail("client context: %s", err.text);
    return c;
}

struct tls_ctx *client_ctx(const char *client, bool http2)
{
    return make_client(client, http2, false);
}

struct tls_ctx *hop_client_ctx(const char *client, bool http2)
{
    return make_client(client, http2, true);
}

/* ---- ends ---- */

/* Whatever the test does with its clock. */
static uint64_t real_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t deadline(void)
{
    return real_ms() + (getenv("TAP_STOP") != NULL ? GIVE_UP_SOON_MS : GIVE_UP_MS);
}

bool passed(uint64_t deadline_ms)
{
    if (real_ms() < deadline_ms)
        return false;
    diag("gave up waiting");
    return true;
}

void settle(struct loop *l)
{
    for (int i = 0; i < 20; i++)
        loop_run_once(l, i < 10 ? 0 : 2);
}

/* Neither the period of a record nor of a segment. */
static char pattern(uint64_t pos)
{
    return (char)((pos * 7 + pos / 251 + pos / 65521) & 0xff);
}

void pump(struct end *e)
{
    char piece[1 << 17];
    size_t want = e->send_piece == 0 ? DEFAULT_PIECE : e->send_piece;

    while (e->s != NULL && e->send_left > 0 && !stream_congested(e->s)) {
        size_t n = want < e->send_left ? want : e->send_left;

        if (n > sizeof(piece))
            n = sizeof(piece);
        for (size_t i = 0; i < n; i++)
            piece[i] = pattern(e->send_pos + i);
        if (!stream_write(e->s, slice_of(piece, n)))
            return;
        e->send_pos += n;
        e->send_left -= n;
    }
    if (e->s != NULL && e->send_left == 0 && e->finish_after) {
        e->finish_after = false;
        stream_finish_writing(e->s);
    }
}

static void take_input(struct end *e)
{
    struct slice in;

    while (!e->hoard && e->s != NULL && (in = stream_peek(e->s)).n > 0) {
        for (size_t i = 0; e->check && i < in.n; i++)
            if (in.p[i] != pattern(e->check_pos++))
                e->mismatch = true;
        if (!e->discard)
            buf_append(&e->got, in);
        if (e->echo && !stream_write(e->s, in))
            e->echo = false;
        e->got_bytes += in.n;
        stream_consume(e->s, in.n);
    }
}

void end_fn(struct stream *s, enum stream_event ev, void *arg)
{
    struct end *e = arg;

    if (e->s != s)
        tap_bail("callback of a stream that is not ours any more");
    e->seen[ev]++;
    if (e->n_order < ROWS(e->order))
        e->order[e->n_order++] = ev;
    if (ev == STREAM_FAILED)
        snprintf(e->failure, sizeof(e->failure), "%s", stream_failure(s));
    if (ev == STREAM_READABLE)
        take_input(e);
    if (ev == STREAM_OPENED || ev == STREAM_WRITABLE)
        pump(e);
    if (e->hook != NULL)
        e->hook(e, ev);
    if (e->s != NULL && e->close_on == 1 + (int)ev) {
        e->s = NULL;
        stream_close(s, e->close_how);
    }
}

void end_release(struct end *e)
{
    if (e->s != NULL)
        stream_close(e->s, STREAM_CLOSE_ABORT);
    e->s = NULL;
    buf_free(&e->got);
}

static void end_init(struct loop *l, struct end *e)
{
    e->loop = l;
    buf_init(&e->got, COLLECT_MAX);
}

static int listen_on_loopback(struct sockaddr_in *addr, unsigned port)
{
    socklen_t len = sizeof(*addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    *addr = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)addr, len) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)addr, &len) != 0)
        tap_bail("listen: %s", strerror(errno));
    return fd;
}

void pair_start(struct loop *l, struct end *client, struct end *server, struct tls_ctx *cctx, struct tls_ctx *sctx)
{
    struct stream_opts co = {.fn = end_fn, .arg = client, .tls = cctx, .server_name = client->server_name};
    struct stream_opts so = {.fn = end_fn, .arg = server, .tls = sctx};
    struct sockaddr_in addr;
    int listening = listen_on_loopback(&addr, client->port);
    int fd;

    end_init(l, client);
    end_init(l, server);
    client->s = stream_connect(l, (struct sockaddr *)&addr, sizeof(addr), &co);
    if (client->s == NULL)
        tap_bail("stream_connect");
    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        tap_bail("accept: %s", strerror(errno));
    close(listening);
    server->s = stream_accept(l, fd, &so);
    if (server->s == NULL)
        tap_bail("stream_accept");
}

static bool opened_or_failed(const struct end *e)
{
    return e->seen[STREAM_OPENED] > 0 || e->seen[STREAM_FAILED] > 0;
}

void pair_open(struct loop *l, struct end *client, struct end *server, struct tls_ctx *cctx, struct tls_ctx *sctx)
{
    pair_start(l, client, server, cctx, sctx);
    if (!run_until(l, opened_or_failed(client) && opened_or_failed(server)))
        diag("the pair did not open");
}

/* ---- bare ---- */

struct stream *half_pair(struct loop *l, struct end *e, struct tls_ctx *ctx, int *other)
{
    struct stream_opts o = {.fn = end_fn, .arg = e, .tls = ctx};
    struct sockaddr_in addr;
    int listening = listen_on_loopback(&addr, 0);
    int fd;

    end_init(l, e);
    *other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*other < 0 || connect(*other, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        tap_bail("connect: %s", strerror(errno));
    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    close(listening);
    if (fd < 0 || fcntl(*other, F_SETFL, O_NONBLOCK) != 0)
        tap_bail("accept: %s", strerror(errno));
    e->s = stream_accept(l, fd, &o);
    if (e->s == NULL)
        tap_bail("stream_accept");
    return e->s;
}

SSL *bare_client(struct loop *l, int fd, const char *client, int max_version, SSL_SESSION *session)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    uint64_t give_up = deadline();
    char name[128];
    SSL *ssl;

    if (max_version != 0)
        SSL_CTX_set_max_proto_version(ctx, max_version);
    if (client != NULL) {
        SSL_CTX_set_security_level(ctx, 0); /* or it would not show each certificate */
        snprintf(name, sizeof(name), "%s.crt", client);
        SSL_CTX_use_certificate_chain_file(ctx, cert_path(name));
        snprintf(name, sizeof(name), "%s.key", client);
        SSL_CTX_use_PrivateKey_file(ctx, cert_path(name), SSL_FILETYPE_PEM);
    }
    ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    SSL_set_fd(ssl, fd);
    if (session != NULL)
        SSL_set_session(ssl, session);
    for (;;) {
        int n = SSL_connect(ssl);
        int error = SSL_get_error(ssl, n);

        if (n == 1)
            return ssl;
        if ((error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) || passed(give_up)) {
            SSL_free(ssl);
            return NULL;
        }
        loop_run_once(l, 1);
    }
}

ssize_t bare_read(struct loop *l, SSL *ssl, char *out, size_t n)
{
    uint64_t give_up = deadline();
    size_t got = 0;

    while (got < n && !passed(give_up)) {
        int r = SSL_read(ssl, out + got, (int)(n - got));
        int error = SSL_get_error(ssl, r);

        if (r > 0)
            got += (size_t)r;
        else if (error == SSL_ERROR_ZERO_RETURN)
            break;
        else if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
            loop_run_once(l, 1);
        else
            return -1;
    }
    return (ssize_t)got;
}

bool bare_write(struct loop *l, SSL *ssl, uint64_t pos, size_t n, size_t record)
{
    uint64_t give_up = deadline();
    char piece[16384];

    while (n > 0) {
        size_t len = n < record ? n : record;

        for (size_t i = 0; i < len; i++)
            piece[i] = pattern(pos + i);
        while (SSL_write(ssl, piece, (int)len) <= 0) {
            if (SSL_get_error(ssl, -1) != SSL_ERROR_WANT_WRITE || passed(give_up))
                return false;
            loop_run_once(l, 1);
        }
        pos += len;
        n -= len;
    }
    return true;
}
