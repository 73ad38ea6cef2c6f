/* SPDX-License-Identifier: Apache-2.0 */
/* The admin listener over real sockets: in the clear on loopback, over TLS elsewhere, and who is let in. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin/connections.h"
#include "base/clock.h"
#include "base/log.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "net/loop_internal.h"
#include "net/stream_internal.h"
#include "unit/admin/kit.h"

/* ---- certificates ---- */

static void make_certs(void)
{
    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');a.issue('foreign-ca', 'x', is_ca=True, eku='');"
                        "a.issue('server', 's', ca='ca', eku='serverAuth', sans=('localhost',));"
                        "a.issue('admin', 'admin', ('system:masters',), ca='ca');"
                        "a.issue('monitor', 'm', ('system:monitoring',), ca='ca');"
                        "a.issue('alice', 'alice', ('dev',), ca='ca');"
                        "a.issue('expired', 'm', ('system:monitoring',), ca='ca', start='20200101000000Z', "
                        "end='20200201000000Z');"
                        "a.issue('foreign', 'admin', ('system:masters',), ca='foreign-ca')");
}

static const char *file(const char *name, const char *suffix)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s%s", folder(), name, suffix);
    return path;
}

static struct tls_ctx *server_tls(void)
{
    struct tls_server_opts o = {
        .cert_file = file("server", ".crt"), .key_file = file("server", ".key"), .client_ca_file = file("ca", ".crt")};
    struct err err = {""};
    struct tls_ctx *c = tls_server_ctx_new(&o, &err);

    if (c == NULL)
        tap_bail("TLS: %s", err.text);
    return c;
}

static struct tls_ctx *client_tls(const char *who)
{
    struct tls_client_opts o = {.ca_file = file("ca", ".crt"), .server_name = "localhost"};
    struct err err = {""};
    struct tls_ctx *c;

    if (who != NULL) {
        o.cert_file = file(who, ".crt");
        o.key_file = file(who, ".key");
    }
    c = tls_client_ctx_new(&o, &err);
    if (c == NULL)
        tap_bail("TLS: %s", err.text);
    return c;
}

/* ---- tests ---- */

static void test_manners(void)
{
    struct admin_kit k;
    const char *a;

    admin_kit_init(&k, "127.0.0.1", NULL);
    ok(has(get(&k, NULL, "/nothing"), "HTTP/1.1 404 "), "an unknown path");
    a = ask(&k, NULL, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    ok(has(a, "HTTP/1.1 405 ") && has(a, "Allow: GET, HEAD\r\n"), "POST");
    a = ask(&k, NULL, "HEAD /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ok(has(a, "Content-Length: 2\r\n"), "HEAD has the length");
    is_str(body_of(a), "", "and no body");
    a = ask(&k, NULL, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    ok(has(a, "HTTP/1.1 403 ") && strstr(a, "process_") == NULL, "a foreign Host gets nothing");
    ok(has(a, "forbidden: the Host header "), "and is told why");
    ok(has(get(&k, NULL, "/metrics"), "mvproxy_admin_requests_total{path=\"other\",code=\"404\"} 1\n"),
       "requests are counted");
    admin_kit_end(&k);
}

static void test_errors(void)
{
    struct admin_kit k;
    struct admin_opts o;
    struct err err = {""};

    admin_kit_init(&k, "127.0.0.1", NULL);
    o = k.opts;
    o.port = admin_port(k.admin);
    ok(admin_new(k.loop, &o, &err) == NULL && has(err.text, "Address already in use"), "a port in use: %s", err.text);
    err_clear(&err);
    o.bind_address = "0.0.0.0";
    o.port = 0;
    ok(admin_new(k.loop, &o, &err) == NULL && has(err.text, "0.0.0.0"), "never in the clear for others: %s", err.text);
    admin_kit_end(&k);
}

static void expect(struct admin_kit *k, const char *who, const char *path, const char *status_line)
{
    struct tls_ctx *tls = client_tls(who);

    ok(has(get(k, tls, path), status_line), "%s reads %s: %s", who == NULL ? "somebody" : who, path, status_line);
    tls_ctx_unref(tls);
}

static unsigned lines_with(const char *text, const char *words)
{
    unsigned n = 0;

    for (const char *at = text; at != NULL && (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

/* Somebody scrapes with a certificate that is not taken: he is told why, and so is the log, now and then. */
static void test_not_taken(void)
{
    static const char line[] =
        "\"Client certificate refused by the admin listener\" client=\"127.0.0.1\" path=\"/metrics\" why=";
    struct tls_ctx *tls = server_tls();
    struct admin_kit k;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    admin_kit_init(&k, "0.0.0.0", tls);
    log_set_stream(f);
    expect(&k, NULL, "/metrics", "\na client certificate is needed\n");
    expect(&k, "foreign", "/livez", "HTTP/1.1 200 ");
    fflush(f);
    is_u64(lines_with(text, "Client certificate"), 0, "who shows none, or asks what everybody may, is not told of");
    expect(&k, "expired", "/metrics", "\nthe client certificate is not accepted: the certificate has expired\n");
    expect(&k, "foreign", "/metrics", "\nthe client certificate is not accepted: ");
    expect(&k, "alice", "/metrics", "HTTP/1.1 403 ");
    fflush(f);
    is_u64(lines_with(text, line), 1, "three of them are one line");
    ok(has(text, "why=\"the certificate has expired\" timesSinceLastLine=1\n"), "with why: %s", text);
    clock_fake(clock_us() + 21000000, clock_wall_us());
    expect(&k, "alice", "/metrics", "HTTP/1.1 403 ");
    fflush(f);
    is_u64(lines_with(text, line), 2, "and later another");
    ok(has(text, "why=\"it names neither system:monitoring nor system:masters\" timesSinceLastLine=3\n"), "%s", text);
    clock_real();
    log_set_stream(stderr);
    admin_kit_end(&k);
    tls_ctx_unref(tls);
    fclose(f);
    free(text);
}

static void test_tls(void)
{
    struct tls_ctx *tls = server_tls(), *other;
    struct admin_kit k;
    const char *a;

    admin_kit_init(&k, "0.0.0.0", tls);
    expect(&k, NULL, "/readyz", "HTTP/1.1 200 ");
    expect(&k, NULL, "/readyz/ping", "HTTP/1.1 401 ");
    expect(&k, NULL, "/metrics", "HTTP/1.1 401 ");
    expect(&k, NULL, "/", "HTTP/1.1 401 ");
    expect(&k, "foreign", "/metrics", "HTTP/1.1 401 ");
    expect(&k, "alice", "/metrics", "HTTP/1.1 403 ");
    expect(&k, "alice", "/metrics", "must name system:monitoring or system:masters");
    expect(&k, "alice", "/livez", "HTTP/1.1 200 ");
    expect(&k, "monitor", "/metrics", "HTTP/1.1 200 ");
    expect(&k, "admin", "/", "HTTP/1.1 200 ");
    expect(&k, "admin", "/readyz/ping", "HTTP/1.1 200 ");
    a = get(&k, NULL, "/livez");
    ok(strstr(a, "200 OK") == NULL, "nothing in the clear");
    other = server_tls();
    admin_update(k.admin, other);
    tls_ctx_unref(other);
    expect(&k, "admin", "/metrics", "HTTP/1.1 200 ");
    admin_kit_end(&k);
    tls_ctx_unref(tls);
}

/* A connection that was taken under a context which is replaced before its first byte comes. */
static void test_context_replaced(void)
{
    struct tls_ctx *tls = server_tls(), *client = client_tls(NULL), *other = server_tls();
    struct admin_kit k;
    int fd;

    admin_kit_init(&k, "0.0.0.0", tls);
    tls_ctx_unref(tls);
    fd = dial_admin(&k);
    for (int i = 0; i < 10; i++)
        loop_run_once(k.loop, 1);
    admin_update(k.admin, other);
    tls_ctx_unref(other);
    ok(has(ask_over(&k, fd, client, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
           "HTTP/1.1 200 "),
       "a handshake that begins after its context was replaced");
    tls_ctx_unref(client);
    admin_kit_end(&k);
}

struct rotation {
    struct admin_kit *k;
    struct loop_deferred turn;
    unsigned turns_left;
    bool done;
};

static void rotate_in_its_turn(void *arg)
{
    struct rotation *r = arg;
    struct tls_ctx *other;

    if (r->turns_left-- > 0) {
        loop_defer(r->k->loop, &r->turn, rotate_in_its_turn, r);
        return;
    }
    other = server_tls();
    admin_update(r->k->admin, other);
    tls_ctx_unref(other);
    r->done = true;
}

/* The same before and after each step of a handshake, and of what follows it, whichever of them meet in a turn. */
static void test_context_replaced_anywhere(void)
{
    enum { TURNS = 32 };
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct tls_ctx *tls = server_tls(), *client = client_tls(NULL);
    struct admin_kit k;
    unsigned during = 0, failed = 0;

    admin_kit_init(&k, "0.0.0.0", tls);
    tls_ctx_unref(tls);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct rotation r = {.k = &k, .turns_left = turn};

        loop_defer(k.loop, &r.turn, rotate_in_its_turn, &r);
        failed += !has(ask_over(&k, dial_admin(&k), client, request), "HTTP/1.1 200 ");
        during += r.done;
        loop_defer_cancel(k.loop, &r.turn);
    }
    ok(failed == 0 && during > 3, "a context that is replaced in any turn: %u times before the answer's end", during);
    tls_ctx_unref(client);
    admin_kit_end(&k);
}

/* Somebody else's handshake, which takes what a turn has for all of them, again and again. */
struct busy {
    struct loop *loop;
    struct loop_deferred step;
};

static void spend(void *arg)
{
    struct busy *b = arg;
    uint64_t end = clock_us() + HANDSHAKE_TURN_US;

    while (clock_us() < end)
        ;
    fair_queue_add(loop_handshakes(b->loop), &b->step, FAIR_OWN, SLICE_LIT("10.0.0.1"), FAIR_LAST);
}

/* The handshake of one client of the admin listener, how many steps of handshakes wait at most, and whether it ends. */
static size_t waiting_in_handshake(struct admin_kit *k, struct tls_ctx *tls, bool *answered)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct admin_client c = {.over = false};
    struct stream_opts o = {.fn = admin_client_on_event, .arg = &c, .tls = tls};
    struct stream *s = stream_adopt(k->loop, dial_admin(k), NULL, "admin", &o);
    uint64_t end = clock_ms() + PATIENCE_MS;
    size_t most = 0, n;

    buf_init(&c.in, ANSWER_BYTES);
    if (s == NULL || !stream_write(s, slice_str(request)))
        tap_bail("no client");
    while (!c.over && clock_ms() < end) {
        loop_run_once(k->loop, 20);
        n = fair_queue_waiting(loop_handshakes(k->loop));
        most = n > most ? n : most;
    }
    *answered = slice_has_prefix(buf_slice(&c.in), SLICE_LIT("HTTP/1.1 200 "));
    stream_close(s, STREAM_CLOSE_NOW);
    buf_free(&c.in);
    return most;
}

static void test_handshakes_take_turns(void)
{
    struct tls_ctx *tls = server_tls(), *client = client_tls(NULL);
    struct busy busy;
    struct admin_kit k;
    bool answered;
    size_t most;

    admin_kit_init(&k, "0.0.0.0", tls);
    busy = (struct busy){.loop = k.loop, .step = {.fn = spend, .arg = &busy}};
    spend(&busy);
    most = waiting_in_handshake(&k, client, &answered);
    is_u64(most, 2, "a handshake with the admin listener waits for its part of a turn");
    ok(answered, "and has it");
    fair_queue_cancel(loop_handshakes(k.loop), &busy.step);
    is_u64(fair_queue_waiting(loop_handshakes(k.loop)), 0, "nobody is left there");
    tls_ctx_unref(tls);
    tls_ctx_unref(client);
    admin_kit_end(&k);
}

/* ---- handshake messages after the handshake ---- */

static bool is_closed(struct admin_kit *k, int fd)
{
    char bytes[512];

    for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end;) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0); /* an alert first, where there was something to refuse */

        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        loop_run_once(k->loop, 20);
    }
    return false;
}

static SSL *shake_hands(struct admin_kit *k, int fd)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    int n;

    SSL_CTX_free(ctx);
    SSL_set_fd(ssl, fd);
    for (uint64_t end = clock_ms() + PATIENCE_MS; (n = SSL_connect(ssl)) != 1 && clock_ms() < end;)
        loop_run_once(k->loop, 20);
    if (n != 1)
        tap_bail("no handshake");
    return ssl;
}

/* All in one piece. */
static void change_keys(SSL *ssl, int fd, unsigned times)
{
    BIO *segment = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(ssl);
    char *bytes;
    long n;

    BIO_up_ref(socket);
    SSL_set0_wbio(ssl, segment);
    for (unsigned i = 0; i < times; i++)
        if (SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1 || SSL_do_handshake(ssl) != 1)
            tap_bail("no change of keys");
    n = BIO_get_mem_data(segment, &bytes);
    is_int(send(fd, bytes, (size_t)n, 0), n, "%u changes of keys", times);
    SSL_set0_wbio(ssl, socket);
}

static void test_key_updates(void)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct tls_ctx *tls = server_tls();
    char answer[2048] = "";
    struct admin_kit k;
    SSL *ssl;
    int fd, n = -1;

    admin_kit_init(&k, "0.0.0.0", tls);
    fd = dial_admin(&k);
    ssl = shake_hands(&k, fd);
    change_keys(ssl, fd, 3);
    SSL_write(ssl, request, sizeof(request) - 1);
    for (uint64_t end = clock_ms() + PATIENCE_MS; n <= 0 && clock_ms() < end;) {
        loop_run_once(k.loop, 20);
        n = SSL_read(ssl, answer, sizeof(answer) - 1);
    }
    ok(has(answer, "HTTP/1.1 200 "), "a client may change its keys");
    change_keys(ssl, fd, 1000);
    ok(is_closed(&k, fd), "but not all the time");
    SSL_free(ssl);
    close(fd);
    tls_ctx_unref(tls);
    admin_kit_end(&k);
}

/* ---- handshakes that do not come to an end ---- */

static bool is_open(struct admin_kit *k, int fd)
{
    char byte;

    for (int i = 0; i < 20; i++)
        loop_run_once(k->loop, 1);
    return recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN;
}

static int dial_from(struct admin_kit *k, const char *ip)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (inet_pton(AF_INET, ip, &addr.sin_addr) != 1 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        tap_bail("bind %s", ip);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    addr.sin_port = htons((uint16_t)admin_port(k->admin));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        tap_bail("connect");
    return fd;
}

static void test_handshakes_refused(void)
{
    struct tls_ctx *tls = server_tls();
    int fds[LIMIT_ADMIN_HANDSHAKES + 1], extra[LIMIT_ADMIN_HANDSHAKES + 1], in_clear, slow;
    struct admin_kit k;

    admin_kit_init(&k, "0.0.0.0", tls);
    in_clear = dial_admin(&k);
    ok(send(in_clear, "GET / HTTP/1.1\r\n\r\n", 18, 0) == 18, "a request in the clear");
    ok(is_closed(&k, in_clear), "ends the connection");
    close(in_clear);
    in_clear = dial_admin(&k);
    ok(send(in_clear, "\x16\x03\x01\x00\x04\x01\x01\xff\x00", 9, 0) == 9, "a hello of 128 KB that has begun");
    ok(is_closed(&k, in_clear), "ends the connection, too");
    close(in_clear);
    for (size_t i = 0; i < ROWS(fds); i++) {
        fds[i] = dial_admin(&k);
        loop_run_once(k.loop, 20);
    }
    ok(is_closed(&k, fds[0]), "one too many in silence: the oldest goes");
    ok(is_open(&k, fds[1]) && is_open(&k, fds[ROWS(fds) - 1]), "and nobody else");
    slow = dial_from(&k, "127.0.0.2");
    loop_run_once(k.loop, 20);
    for (size_t i = 0; i < ROWS(fds); i++) {
        close(fds[i]);
        fds[i] = dial_admin(&k);
        loop_run_once(k.loop, 20);
        extra[i] = dial_admin(&k);
        loop_run_once(k.loop, 20);
    }
    ok(is_open(&k, slow), "nor another address in its handshake, however many come from one");
    expect(&k, "monitor", "/metrics", "HTTP/1.1 200 ");
    ok(has(answer_bytes().p, "mvproxy_admin_limits_total{limit=\"handshakes\"} "), "which is counted");
    close(slow);
    for (size_t i = 0; i < ROWS(fds); i++) {
        close(fds[i]);
        close(extra[i]);
    }
    admin_kit_end(&k); /* with all of them under way */
    tls_ctx_unref(tls);
}

static void test_handshake_timeout(void)
{
    struct tls_ctx *tls = server_tls();
    struct admin_kit k;
    struct err err;
    int fd;

    admin_kit_init(&k, "0.0.0.0", tls);
    admin_free(k.admin);
    k.opts.handshake_timeout_ms = 50;
    k.admin = admin_new(k.loop, &k.opts, &err);
    if (k.admin == NULL)
        tap_bail("admin_new: %s", err.text);
    fd = dial_admin(&k);
    ok(send(fd, "\x16\x03\x01", 3, 0) == 3, "the beginning of a hello");
    ok(is_closed(&k, fd), "without the rest in time it is over");
    close(fd);
    admin_kit_end(&k);
    tls_ctx_unref(tls);
}

/* ---- too many connections, too few descriptors ---- */

/* What has come of an answer to a request on a connection that stays open. */
static size_t asks(struct admin_kit *k, int fd, const char *path)
{
    char request[128], bytes[4096];
    size_t n = (size_t)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    ssize_t got = -1;

    if (send(fd, request, n, MSG_NOSIGNAL) != (ssize_t)n)
        return 0;
    for (uint64_t end = clock_ms() + PATIENCE_MS; got < 0 && clock_ms() < end;) {
        loop_run_once(k->loop, 20);
        got = recv(fd, bytes, sizeof(bytes), 0);
    }
    return got > 0 ? (size_t)got : 0;
}

/* The server of libevent reads the line with a chunk's size for as long as it comes. */
static void test_endless_chunk_size(void)
{
    static char digits[CONNECTIONS_MOST_INPUT];
    int fd, other;
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    other = dial_admin(&k);
    ok(asks(&k, other, "/livez") > 0, "somebody has asked");
    fd = dial_admin(&k);
    dprintf(fd, "POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    memset(digits, '1', sizeof(digits));
    ok(send(fd, digits, sizeof(digits), MSG_NOSIGNAL) == sizeof(digits) && is_open(&k, fd), "as much as may be");
    ok(send(fd, "1", 1, MSG_NOSIGNAL) == 1 && is_closed(&k, fd), "more: it ends");
    ok(has(get(&k, NULL, "/metrics"), "mvproxy_admin_limits_total{limit=\"request\"} 1\n"), "which is counted");
    ok(asks(&k, other, "/livez") > 0, "others go on");
    close(fd);
    close(other);
    admin_kit_end(&k);
}

static void test_crowd(void)
{
    int fds[LIMIT_ADMIN_CONNECTIONS + 2], scraper, early, quiet;
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    quiet = dial_from(&k, "127.0.0.4");
    loop_run_once(k.loop, 20);
    scraper = dial_from(&k, "127.0.0.2");
    ok(asks(&k, scraper, "/metrics") > 0, "somebody reads the metrics, and stays");
    early = dial_from(&k, "127.0.0.3");
    ok(asks(&k, early, "/livez") > 0, "somebody of the crowd has asked, too");
    for (size_t i = 0; i < ROWS(fds); i++) {
        fds[i] = dial_from(&k, "127.0.0.3");
        loop_run_once(k.loop, 20);
    }
    for (size_t i = 0; i < 5; i++)
        ok(is_closed(&k, fds[i]),
           "too many connections: the silent of the address with most go, the oldest first (%zu)", i);
    ok(is_open(&k, fds[5]) && is_open(&k, fds[ROWS(fds) - 1]), "and no more than need be");
    ok(is_open(&k, early), "not who has asked");
    ok(is_open(&k, quiet), "nor another address, older and as silent");
    ok(asks(&k, scraper, "/metrics") > 0, "nor one that asks");
    ok(has(get(&k, NULL, "/metrics"), "mvproxy_admin_limits_total{limit=\"connections\"} 6\n"), "which is counted");
    for (size_t i = 0; i < ROWS(fds); i++)
        close(fds[i]);
    (void)is_open(&k, early); /* turns of the loop */
    for (size_t i = 0; i < ROWS(fds) - 5; i++) {
        fds[i] = dial_from(&k, "127.0.0.3");
        loop_run_once(k.loop, 20);
    }
    ok(is_open(&k, fds[0]), "who has gone by himself is not counted any more");
    for (size_t i = 0; i < ROWS(fds) - 5; i++)
        close(fds[i]);
    close(quiet);
    close(early);
    close(scraper);
    admin_kit_end(&k);
}

/* Longer than what the kernel keeps for a reader. */
static void make_metrics_long(struct admin_kit *k)
{
    enum { LINES = 40000 };
    static const char *const labels[] = {"n", NULL};
    struct metric_family *family =
        metric_family(k->metrics, METRIC_COUNTER, "mvproxy_test_total", "Long.", labels, LINES);

    for (int i = 0; i < LINES; i++) {
        char text[128];
        struct slice label = {text, (size_t)snprintf(text, sizeof(text), "%0100d", i)};

        metric_inc(metric_child(family, &label));
    }
}

/* All of one address, as on the node itself. */
static void test_stayers(void)
{
    int fds[LIMIT_ADMIN_CONNECTIONS];
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    for (size_t i = 0; i < ROWS(fds); i++) {
        fds[i] = dial_admin(&k);
        if (asks(&k, fds[i], "/livez") == 0)
            tap_bail("no answer");
    }
    for (int i = 0; i < 3; i++)
        ok(has(get(&k, NULL, "/livez"), "HTTP/1.1 200 "), "who comes is answered, though all places are held");
    ok(is_closed(&k, fds[0]) && is_open(&k, fds[3]), "who asked longest ago has made room");
    for (size_t i = 0; i < ROWS(fds); i++)
        close(fds[i]);
    admin_kit_end(&k);
}

/* As many are silent as may be before their oldest go first. */
static void test_reader(void)
{
    int fds[LIMIT_ADMIN_CONNECTIONS], last;
    const size_t silent = ROWS(fds) / 2 - 1; /* with who comes then it is half */
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    make_metrics_long(&k);
    for (size_t i = 0; i < ROWS(fds); i++) {
        fds[i] = dial_admin(&k);
        loop_run_once(k.loop, 20);
        if (i >= silent && asks(&k, fds[i], i == silent ? "/metrics" : "/livez") == 0)
            tap_bail("no answer");
    }
    last = dial_admin(&k);
    ok(asks(&k, last, "/livez") > 0, "who comes is answered");
    ok(is_closed(&k, fds[silent + 1]), "who had his answer has made room");
    ok(recv(fds[silent], &(char){0}, 1, MSG_PEEK) == 1, "who asked before him has not got all of his yet, and stays");
    ok(is_open(&k, fds[0]), "so does who has not asked");
    close(last);
    for (size_t i = 0; i < ROWS(fds); i++)
        close(fds[i]);
    admin_kit_end(&k);
}

/* Two addresses with as many, and one more of each at once: each gives one. */
static void test_two_crowds(void)
{
    int fds[LIMIT_ADMIN_CONNECTIONS + 2];
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    for (size_t i = 0; i < ROWS(fds); i++) {
        fds[i] = dial_from(&k, i % 2 == 0 ? "127.0.0.2" : "127.0.0.3");
        if (i < LIMIT_ADMIN_CONNECTIONS)
            loop_run_once(k.loop, 20);
    }
    ok(is_closed(&k, fds[0]) && is_closed(&k, fds[1]), "the oldest of each goes");
    ok(is_open(&k, fds[2]), "and no other");
    for (size_t i = 0; i < ROWS(fds); i++)
        close(fds[i]);
    admin_kit_end(&k);
}

/* A crowd that comes in one turn, and a listener that goes with it. */
static void test_crowd_at_once(void)
{
    int fds[100];
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    for (size_t i = 0; i < ROWS(fds); i++)
        fds[i] = dial_admin(&k);
    loop_run_once(k.loop, 20);
    ok(has(get(&k, NULL, "/livez"), "HTTP/1.1 200 "), "others are served behind it");
    for (size_t i = 0; i < ROWS(fds); i++)
        close(fds[i]);
    fds[0] = dial_admin(&k);
    admin_kit_end(&k);
    close(fds[0]);
}

static void test_out_of_descriptors(void)
{
    struct rlimit before, tight;
    struct admin_kit k;
    uint64_t began;
    unsigned turns = 0;
    int client, next;

    admin_kit_init(&k, "127.0.0.1", NULL);
    loop_run_once(k.loop, 1);
    client = dial_admin(&k);
    next = dup(0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &tight);
    for (began = clock_ms(); clock_ms() - began < 500; turns++)
        loop_run_once(k.loop, 50);
    ok(turns < 10 + (clock_ms() - began) / 10, "without descriptors accepting pauses, it does not spin: %u turns",
       turns);
    setrlimit(RLIMIT_NOFILE, &before);
    ok(asks(&k, client, "/livez") > 0, "with descriptors again, who waited is served");
    ok(!has(get(&k, NULL, "/metrics"), "mvproxy_admin_limits_total{limit=\"descriptors\"} 0\n"), "which is counted");
    close(client);
    admin_kit_end(&k);
}

/* Reads what is on its way, to its end: that of the answer, or of the connection. */
static bool is_cut_off(struct admin_kit *k, int fd)
{
    char bytes[65536];

    for (int quiet = 0; quiet < 20; quiet++) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        if (n > 0)
            quiet = 0;
        loop_run_once(k->loop, 1);
    }
    return false;
}

/* Clients that ask for a long answer and do not read it. */
static void test_untaken(void)
{
    enum { READERS = 24 };
    int fds[READERS], newcomer;
    struct admin_kit k;
    unsigned ended = 0;

    admin_kit_init(&k, "127.0.0.1", NULL);
    make_metrics_long(&k);
    for (int i = 0; i < READERS; i++) {
        fds[i] = dial_admin(&k);
        if (asks(&k, fds[i], "/metrics") != 4096)
            tap_bail("no answer");
    }
    newcomer = dial_admin(&k);
    ok(asks(&k, newcomer, "/livez") > 0 && asks(&k, newcomer, "/readyz") > 0, "health is told");
    ok(asks(&k, newcomer, "/metrics") == 4096, "who comes is answered, whatever others do not read");
    for (int i = 0; i < READERS; i++)
        ended += is_cut_off(&k, fds[i]);
    ok(ended > 5 && ended < READERS - 5, "what nobody reads is bounded: %u of %d were ended", ended, READERS);
    ok(!is_cut_off(&k, newcomer), "not who came last");
    ok(has(get(&k, NULL, "/metrics"), "mvproxy_admin_limits_total{limit=\"answers\"}"), "which is counted");
    close(newcomer);
    for (int i = 0; i < READERS; i++)
        close(fds[i]);
    admin_kit_end(&k);
}

/* The same of the page of many servers. */
static void test_pages(void)
{
    enum { READERS = 10 };
    int fds[READERS];
    struct admin_kit k;

    admin_kit_init(&k, "127.0.0.1", NULL);
    k.servers = 20000;
    for (int i = 0; i < READERS; i++) {
        fds[i] = dial_admin(&k);
        if (asks(&k, fds[i], "/") == 0)
            tap_bail("no page");
    }
    ok(is_cut_off(&k, fds[0]) && is_cut_off(&k, fds[1]), "of ten pages that nobody reads the first two are ended");
    ok(!is_cut_off(&k, fds[2]) && !is_cut_off(&k, fds[READERS - 1]), "and no other");
    for (int i = 0; i < READERS; i++)
        close(fds[i]);
    admin_kit_end(&k);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    make_certs();
    test_manners();
    test_errors();
    test_tls();
    test_not_taken();
    test_context_replaced();
    test_context_replaced_anywhere();
    test_handshakes_take_turns();
    test_key_updates();
    test_handshakes_refused();
    test_handshake_timeout();
    test_endless_chunk_size();
    test_crowd();
    test_stayers();
    test_reader();
    test_two_crowds();
    test_crowd_at_once();
    test_out_of_descriptors();
    test_untaken();
    test_pages();
    return tap_end();
}
