/* SPDX-License-Identifier: Apache-2.0 */
/* TLS streams against a bare OpenSSL client: versions, identity, resumption, cuts, and the stalls of stock
 * bufferevents. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "lib/tap.h"
#include "net/loop_internal.h"
#include "net/stream_out.h"
#include "unit/net/fixture.h"

static struct tls_ctx *sctx;
static uint64_t most_seen, most_at_once; /* test_tiny_records() */

/* One stream (server) and one bare client, connected. */
struct visit {
    struct end server;
    int fd;
    SSL *ssl;
};

static bool visit(struct loop *l, struct visit *v, const char *client, int max_version, SSL_SESSION *session)
{
    half_pair(l, &v->server, sctx, &v->fd);
    v->ssl = bare_client(l, v->fd, client, max_version, session);
    settle(l); /* TLS 1.3: the server finishes after the client */
    return v->ssl != NULL;
}

static void leave(struct loop *l, struct visit *v)
{
    end_release(&v->server);
    SSL_free(v->ssl);
    close(v->fd);
    settle(l);
}

/* ---- versions ---- */

static void test_versions(struct loop *l)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    char got[10];

    for (size_t i = 0; i < ROWS(versions); i++) {
        struct visit v = {.server = {.echo = true}};

        ok(visit(l, &v, NULL, versions[i], NULL), "handshake %x", versions[i]);
        is_int(SSL_version(v.ssl), versions[i], "version %x", versions[i]);
        SSL_write(v.ssl, "0123456789", 10);
        is_int(bare_read(l, v.ssl, got, 10), 10, "echo %x", versions[i]);
        ok(memcmp(got, "0123456789", 10) == 0, "echo is the same %x", versions[i]);
        ok(!stream_tls_peer(v.server.s)->present, "no certificate %x", versions[i]);
        ok(stream_is_tls(v.server.s), "is TLS");
        leave(l, &v);
    }
}

static void test_old_version(struct loop *l)
{
    struct visit v = {.server = {.discard = true}};

    ok(!visit(l, &v, NULL, TLS1_1_VERSION, NULL), "TLS 1.1 is refused");
    ok(run_until(l, v.server.seen[STREAM_FAILED] == 1), "and the stream failed");
    is_int(v.server.seen[STREAM_OPENED], 0, "without having been open");
    diag("%s", v.server.failure);
    leave(l, &v);
}

static void test_renegotiation(struct loop *l)
{
    struct visit v = {.server = {.discard = true}};

    visit(l, &v, NULL, TLS1_2_VERSION, NULL);
    is_int(SSL_renegotiate(v.ssl), 1, "a client may want to renegotiate");
    for (int i = 0; i < 50 && v.server.seen[STREAM_FAILED] == 0; i++) {
        SSL_do_handshake(v.ssl);
        loop_run_once(l, 1);
    }
    ok(SSL_num_renegotiations(v.ssl) == 0 || v.server.seen[STREAM_FAILED] == 1, "but it is not done");
    leave(l, &v);
}

/* So many changes of keys, in one piece. */
static void change_keys(struct visit *v, unsigned times, int type)
{
    BIO *segment = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(v->ssl);
    char *bytes;
    long n;

    BIO_up_ref(socket);
    SSL_set0_wbio(v->ssl, segment);
    for (unsigned i = 0; i < times; i++)
        if (SSL_key_update(v->ssl, type) != 1 || SSL_do_handshake(v->ssl) != 1)
            tap_bail("no change of keys");
    n = BIO_get_mem_data(segment, &bytes);
    is_int(send(v->fd, bytes, (size_t)n, 0), n, "%u changes of keys", times);
    SSL_set0_wbio(v->ssl, socket);
}

static void test_key_updates(struct loop *l)
{
    static const int types[] = {SSL_KEY_UPDATE_REQUESTED, SSL_KEY_UPDATE_NOT_REQUESTED};
    char got[10];

    for (size_t i = 0; i < ROWS(types); i++) {
        struct visit v = {.server = {.echo = true}};

        visit(l, &v, NULL, 0, NULL);
        change_keys(&v, 3, types[i]);
        SSL_write(v.ssl, "0123456789", 10);
        is_int(bare_read(l, v.ssl, got, 10), 10, "a client may change its keys");
        change_keys(&v, 1000, types[i]);
        ok(run_until(l, v.server.seen[STREAM_FAILED] == 1), "but not all the time");
        is_str(v.server.failure, "TLS: too many handshake messages", "reason");
        leave(l, &v);
    }
}

static void test_garbage(struct loop *l)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct end e = {.discard = true};
    int fd;

    half_pair(l, &e, sctx, &fd);
    is_int(write(fd, http, sizeof(http) - 1), sizeof(http) - 1, "plain HTTP to a TLS port");
    ok(run_until(l, e.seen[STREAM_FAILED] == 1), "fails");
    ok(strstr(e.failure, "the client speaks plain HTTP") != NULL, "and says so (%s)", e.failure);
    end_release(&e);
    close(fd);
    settle(l);
}

static void test_handshake_timeout(struct loop *l)
{
    struct end e = {.discard = true};
    struct stream_opts o = {.fn = end_fn, .arg = &e, .tls = sctx, .open_timeout_ms = 30};
    int fds[2];

    e.loop = l;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        tap_bail("socketpair");
    e.s = stream_accept(l, fds[0], &o);
    is_str(stream_remote_text(e.s), "unix", "a Unix socket's remote text");
    is_str(stream_remote_ip(e.s), "", "and no IP");
    ok(run_until(l, e.seen[STREAM_FAILED] == 1), "a silent client does not stay for ever");
    is_str(e.failure, "timed out in the TLS handshake", "reason");
    end_release(&e);
    close(fds[1]);
    settle(l);
}

static void test_handshake_cut(struct loop *l)
{
    struct end e = {.discard = true};
    int fd;

    half_pair(l, &e, sctx, &fd);
    is_int(write(fd, "\x16\x03\x01\x02", 4), 4, "the beginning of a hello");
    close(fd);
    ok(run_until(l, e.seen[STREAM_FAILED] == 1), "and a cut fail");
    is_str(e.failure, "TLS handshake: the client closed the connection", "reason");
    end_release(&e);
    settle(l);
}

/* Steps of handshakes, in their order. */
static char steps[8];

static void note_step(void *arg)
{
    steps[strlen(steps)] = *(const char *)arg;
}

static void note_failure(struct end *e, enum stream_event ev)
{
    (void)e;
    if (ev == STREAM_FAILED)
        steps[strlen(steps)] = 'k';
}

/* Beside two strangers, each of an address of his own, who came before. */
static void test_handshake_turns(struct loop *l, bool known)
{
    char names[] = "12";
    struct loop_deferred strangers[2] = {{.fn = note_step, .arg = &names[0]}, {.fn = note_step, .arg = &names[1]}};
    struct end e = {.discard = true, .hook = note_failure};
    int fd;

    memset(steps, 0, sizeof(steps));
    half_pair(l, &e, sctx, &fd);
    if (known)
        stream_mark_known(e.s);
    fair_queue_add(loop_handshakes(l), &strangers[0], FAIR_STRANGERS, SLICE_LIT("10.0.0.1"), false);
    fair_queue_add(loop_handshakes(l), &strangers[1], FAIR_STRANGERS, SLICE_LIT("10.0.0.2"), false);
    is_int(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18, "somebody whose handshake is over at once");
    ok(run_until(l, strlen(steps) == 3), "all are served");
    ok(known ? steps[2] == '2' : steps[2] == 'k', "%s (%s)",
       known ? "who is known before the second stranger" : "a stranger behind those who came first", steps);
    end_release(&e);
    close(fd);
    settle(l);
}

/* ---- towards servers ---- */

/* A hello and what comes back are dear: of many that are dialled at once each waits for its part of a turn. */
static void test_handshake_waits(struct loop *l)
{
    struct end e[3] = {{.discard = true}, {.discard = true}, {.discard = true}};
    struct tls_ctx *cctx = client_ctx(NULL, false);
    int fds[ROWS(e)];
    char hello[5];

    for (size_t i = 0; i < ROWS(e); i++)
        half_pair(l, &e[i], cctx, &fds[i]);
    is_u64(fair_queue_waiting(loop_server_handshakes(l)), ROWS(e), "handshakes with servers wait");
    is_u64(fair_queue_waiting(loop_handshakes(l)), 0, "not among those with clients");
    end_release(&e[0]);
    is_u64(fair_queue_waiting(loop_server_handshakes(l)), ROWS(e) - 1, "one less when its stream is closed");
    is_int((int)recv(fds[1], hello, sizeof(hello), MSG_DONTWAIT), -1, "nothing is said before");
    ok(run_until(l, recv(fds[1], hello, sizeof(hello), MSG_DONTWAIT | MSG_PEEK) == sizeof(hello)), "then the hello");
    is_int(hello[0], 22, "comes");
    ok(run_until(l, fair_queue_waiting(loop_server_handshakes(l)) == 0), "of each");
    is_int((int)write(fds[2], "HTTP/1.1 400 Bad\r\n\r\n", 20), 20, "a server that does not speak TLS");
    ok(run_until(l, e[2].seen[STREAM_FAILED] == 1), "fails (%s)", e[2].failure);
    close(fds[1]);
    ok(run_until(l, e[1].seen[STREAM_FAILED] == 1), "and so does one that goes");
    ok(strncmp(e[1].failure, "TLS handshake: ", 15) == 0, "in its handshake (%s)", e[1].failure);
    end_release(&e[1]);
    end_release(&e[2]);
    close(fds[0]);
    close(fds[2]);
    settle(l);
    tls_ctx_unref(cctx);
}

/* ---- ends ---- */

static void test_cut(struct loop *l)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < ROWS(versions); i++) {
        struct visit v = {.server = {.discard = true, .check = true}};

        visit(l, &v, NULL, versions[i], NULL);
        bare_write(l, v.ssl, 0, 1000, 1000);
        shutdown(v.fd, SHUT_WR);
        ok(run_until(l, v.server.seen[STREAM_FAILED] == 1), "FIN without close_notify is a failure %x", versions[i]);
        is_str(v.server.failure, "TLS: the connection ended without close_notify", "called so %x", versions[i]);
        is_int(v.server.seen[STREAM_EOF], 0, "not an end %x", versions[i]);
        is_u64(v.server.got_bytes, 1000, "after the bytes before it %x", versions[i]);
        leave(l, &v);
    }
}

static void test_half_close(struct loop *l)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    char got[3000];

    for (size_t i = 0; i < ROWS(versions); i++) {
        struct visit v = {.server = {.discard = true, .check = true}};

        visit(l, &v, NULL, versions[i], NULL);
        bare_write(l, v.ssl, 0, 2000, 500);
        SSL_shutdown(v.ssl);
        ok(run_until(l, v.server.seen[STREAM_EOF] == 1), "close_notify is an end %x", versions[i]);
        ok(!stream_is_quiet(v.server.s), "after which nothing is quiet %x", versions[i]);
        is_u64(v.server.got_bytes, 2000, "after the bytes %x", versions[i]);
        v.server.send_left = sizeof(got);
        v.server.finish_after = true;
        pump(&v.server);
        is_int(bare_read(l, v.ssl, got, sizeof(got)), sizeof(got), "and we can still answer %x", versions[i]);
        settle(l);
        is_int(v.server.seen[STREAM_FAILED], 0, "nothing failed %x", versions[i]);
        is_u64(stream_unsent(v.server.s), 0, "all is sent %x", versions[i]);
        leave(l, &v);
    }
}

/* A clean close carries close_notify, an abort does not. */
static void test_close_notify(struct loop *l)
{
    static const struct {
        const char *name;
        enum stream_close_how how;
        ssize_t want;
    } rows[] = {{"flush", STREAM_CLOSE_FLUSH, 0}, {"now", STREAM_CLOSE_NOW, 0}, {"abort", STREAM_CLOSE_ABORT, -1}};
    char got[10];

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct visit v = {.server = {.discard = true}};

        visit(l, &v, NULL, 0, NULL);
        stream_close(v.server.s, rows[i].how);
        v.server.s = NULL;
        errno = 0;
        is_int(bare_read(l, v.ssl, got, sizeof(got)), rows[i].want, "close %s", rows[i].name);
        if (rows[i].how == STREAM_CLOSE_ABORT)
            is_int(errno, ECONNRESET, "close %s: reset", rows[i].name);
        leave(l, &v);
    }
}

/* A server that lets nobody in who shows no certificate: by TLS 1.3 that is after the client's handshake, whose request
 * it does not read. */
static pid_t strict_server(int listening)
{
    struct linger reset = {.l_onoff = 1};
    pid_t child = fork();
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;

    if (child != 0)
        return child;
    ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate_chain_file(ctx, cert_path("node-a.crt"));
    SSL_CTX_use_PrivateKey_file(ctx, cert_path("node-a.key"), SSL_FILETYPE_PEM);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    ssl = SSL_new(ctx);
    fd = accept(listening, NULL, NULL);
    SSL_set_fd(ssl, fd);
    (void)SSL_accept(ssl);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)close(fd);
    _exit(0);
}

static void test_alert_before_reset(struct loop *l)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct tls_ctx *cctx = client_ctx(NULL, false);
    struct end client = {.loop = l};
    struct stream_opts o = {.fn = end_fn, .arg = &client, .tls = cctx};
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof(addr);
    pid_t child;

    if (bind(listening, (struct sockaddr *)&addr, n) != 0 || listen(listening, 1) != 0 ||
        getsockname(listening, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("listen");
    child = strict_server(listening);
    buf_init(&client.got, 1 << 16);
    client.s = stream_connect(l, (struct sockaddr *)&addr, sizeof(addr), &o);
    ok(client.s != NULL && run_until(l, client.seen[STREAM_OPENED] == 1), "the handshake is over");
    (void)waitpid(child, NULL, 0); /* all that it sends is here, and not read */
    (void)stream_write(client.s, SLICE_LIT("a question"));
    stream_flush(client.s);
    ok(run_until(l, client.seen[STREAM_FAILED] == 1), "who is refused fails");
    is_str(client.failure, "TLS: the server wants a client certificate (TLS alert)", "for what the server says");
    end_release(&client);
    (void)close(listening);
    settle(l);
    tls_ctx_unref(cctx);
}

static void test_lingering_ends(struct loop *l)
{
    struct visit v = {.server = {.discard = true}};
    char got[10];

    visit(l, &v, NULL, 0, NULL);
    stream_close(v.server.s, STREAM_CLOSE_FLUSH);
    v.server.s = NULL;
    is_int(bare_read(l, v.ssl, got, sizeof(got)), 0, "the end came");
    /* The other side never closes: after TIMEOUT_LINGER_MS writing to it is answered by a reset. */
    ok(run_until(l, send(v.fd, "x", 1, MSG_NOSIGNAL) < 0), "lingering has an end");
    leave(l, &v);
}

/* ---- gathering ---- */

static void three_writes(struct end *e, enum stream_event ev)
{
    if (ev != STREAM_READABLE)
        return;
    stream_write(e->s, SLICE_LIT("HTTP/1.1 200 OK\r\n"));
    stream_write(e->s, SLICE_LIT("Content-Length: 2\r\n\r\n"));
    stream_write(e->s, SLICE_LIT("ok"));
}

static void test_gathering(struct loop *l)
{
    struct visit v = {.server = {.discard = true, .hook = three_writes}};
    char got[100];

    visit(l, &v, NULL, TLS1_2_VERSION, NULL);
    SSL_write(v.ssl, "go", 2);
    while (SSL_read(v.ssl, got, 1) != 1) /* one record is decrypted as a whole */
        loop_run_once(l, 1);
    is_int(SSL_pending(v.ssl), 17 + 21 + 2 - 1, "three writes of a callback are one record");
    leave(l, &v);
}

/* ---- stalls ---- */

/* Takes 100 bytes at a time and pauses in between: what is left must come without anything new from the client. */
static void nibble(struct end *e, enum stream_event ev)
{
    struct slice in;

    if (ev != STREAM_READABLE)
        return;
    in = stream_peek(e->s);
    e->got_bytes += in.n < 100 ? in.n : 100;
    stream_consume(e->s, in.n < 100 ? in.n : 100);
    stream_pause(e->s, STREAM_PAUSE_BODY);
}

static void test_stall_full_record(struct loop *l)
{
    struct visit v = {.server = {.hoard = true, .hook = nibble}};
    uint64_t give_up = deadline();

    visit(l, &v, NULL, 0, NULL);
    bare_write(l, v.ssl, 0, 16384, 16384);
    while (v.server.got_bytes < 16384 && !passed(give_up)) {
        loop_run_once(l, 1);
        stream_resume(v.server.s, STREAM_PAUSE_BODY);
    }
    is_u64(v.server.got_bytes, 16384, "one full record and a silent client: all is delivered");
    leave(l, &v);
}

static void send_in_one_segment(struct loop *l, struct visit *v, size_t all, size_t record)
{
    BIO *segment = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(v->ssl);
    char *bytes;
    long n;

    BIO_up_ref(socket);
    SSL_set0_wbio(v->ssl, segment);
    bare_write(l, v->ssl, 0, all, record);
    n = BIO_get_mem_data(segment, &bytes);
    is_int(send(v->fd, bytes, (size_t)n, 0), n, "%zu bytes in one segment, %zu in each record", all, record);
    SSL_set0_wbio(v->ssl, socket);
}

static void test_stall_small_records(struct loop *l)
{
    struct visit v = {.server = {.discard = true, .check = true}};

    visit(l, &v, NULL, 0, NULL);
    send_in_one_segment(l, &v, 300, 100);
    ok(run_until(l, v.server.got_bytes == 300), "all three are read");
    ok(!v.server.mismatch, "in order");
    leave(l, &v);
}

static void note_most(struct end *e, enum stream_event ev)
{
    if (ev != STREAM_READABLE)
        return;
    if (e->got_bytes - most_seen > most_at_once)
        most_at_once = e->got_bytes - most_seen;
    most_seen = e->got_bytes;
    if (e->got_bytes % 3 == 0) /* in between, and let go on at once */
        stream_pause(e->s, STREAM_PAUSE_BODY);
    stream_begin_message(e->s);
}

/* A record costs as much with one byte in it as with a hundred. */
static void test_tiny_records(struct loop *l)
{
    struct visit v = {.server = {.discard = true, .check = true, .hook = note_most}};
    uint64_t give_up = deadline();

    visit(l, &v, NULL, 0, NULL);
    most_seen = most_at_once = 0;
    send_in_one_segment(l, &v, 2000, 1);
    while (v.server.got_bytes < 2000 && !passed(give_up)) {
        loop_run_once(l, 1);
        stream_resume(v.server.s, STREAM_PAUSE_BODY);
    }
    is_u64(v.server.got_bytes, 2000, "all are read");
    ok(!v.server.mismatch, "in order");
    ok(most_at_once <= 64, "but not at once: %llu of them at most", (unsigned long long)most_at_once);
    leave(l, &v);
}

static void pause_always(struct end *e, enum stream_event ev)
{
    if (ev == STREAM_READABLE)
        stream_pause(e->s, STREAM_PAUSE_BODY);
}

static void test_stall_paused_upload(struct loop *l)
{
    struct visit v = {.server = {.discard = true, .check = true, .hook = pause_always}};
    uint64_t give_up = deadline();

    visit(l, &v, NULL, 0, NULL);
    ok(bare_write(l, v.ssl, 0, 300000, 4096), "an upload of 300 kB");
    while (v.server.got_bytes < 300000 && !passed(give_up)) {
        loop_run_once(l, 0);
        stream_resume(v.server.s, STREAM_PAUSE_BODY);
        loop_run_once(l, 5);
    }
    is_u64(v.server.got_bytes, 300000, "paused after each piece, resumed, and complete");
    ok(!v.server.mismatch, "in order");
    leave(l, &v);
}

static void test_stall_pause_in_handshake(struct loop *l)
{
    struct visit v = {.server = {.discard = true, .check = true}};

    half_pair(l, &v.server, sctx, &v.fd);
    stream_pause(v.server.s, STREAM_PAUSE_PIPELINE);
    v.ssl = bare_client(l, v.fd, "alice", 0, NULL);
    ok(v.ssl != NULL, "a pause during the handshake does not stop the handshake");
    bare_write(l, v.ssl, 0, 5000, 1000); /* with the last flight of the handshake, as likely as not */
    settle(l);
    is_int(v.server.seen[STREAM_OPENED], 1, "the stream opened");
    is_u64(v.server.got_bytes, 0, "but reads nothing");
    stream_resume(v.server.s, STREAM_PAUSE_PIPELINE);
    ok(run_until(l, v.server.got_bytes == 5000), "until it is resumed");
    leave(l, &v);
}

/* The bytes of one stream wait in the loop's receive area while another needs it. */
static void test_shared_area(struct loop *l)
{
    struct visit v[4];

    for (size_t i = 0; i < ROWS(v); i++) {
        v[i] = (struct visit){.server = {.discard = true, .check = true, .hook = pause_always}};
        visit(l, &v[i], NULL, 0, NULL);
    }
    for (size_t i = 0; i < ROWS(v); i++)
        bare_write(l, v[i].ssl, 0, 60000, 3000);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < ROWS(v); i++)
            stream_resume(v[i].server.s, STREAM_PAUSE_BODY);
        loop_run_once(l, 1);
    }
    for (size_t i = 0; i < ROWS(v); i++) {
        is_u64(v[i].server.got_bytes, 60000, "stream %zu got everything", i);
        ok(!v[i].server.mismatch, "stream %zu got its own bytes", i);
        leave(l, &v[i]);
    }
}

/* Where memory is lacking to keep what waits there of a paused stream, that one ends, and hears so when it goes on. */
static void test_shared_area_without_memory(struct loop *l)
{
    struct visit waiting = {.server = {.discard = true, .check = true, .hook = pause_always}};
    struct visit other = {.server = {.discard = true, .check = true}};

    visit(l, &waiting, NULL, 0, NULL);
    visit(l, &other, NULL, 0, NULL);
    send_in_one_segment(l, &waiting, 2000, 1);
    ok(run_until(l, waiting.server.got_bytes > 0), "one pauses after a part of what has come");
    is_int(SSL_write(other.ssl, "x", 1), 1, "another needs the area");
    mem_fail_nth(1);
    run_until(l, other.server.got_bytes == 1);
    mem_fail_nth(0);
    is_u64(other.server.got_bytes, 1, "and gets what it was sent");
    is_int(waiting.server.seen[STREAM_FAILED], 0, "a paused stream is told nothing");
    stream_resume(waiting.server.s, STREAM_PAUSE_BODY);
    ok(run_until(l, waiting.server.seen[STREAM_FAILED] == 1), "until it goes on");
    is_str(stream_failure(waiting.server.s), "TLS: read: Cannot allocate memory", "why");
    ok(waiting.server.got_bytes < 2000 && !waiting.server.mismatch, "it got what came before, and nothing else");
    leave(l, &waiting);
    leave(l, &other);
}

/* Readers that stand still cost a bounded amount each. */
static void test_stalled_readers(struct loop *l)
{
    struct visit v = {.server = {.hoard = true}};
    size_t sent = 0;
    char record[16384] = "";

    visit(l, &v, NULL, 0, NULL);
    for (int quiet = 0; quiet < 50;) {
        int n = SSL_write(v.ssl, record, sizeof(record));

        if (n > 0)
            sent += (size_t)n;
        quiet = n > 0 ? 0 : quiet + 1;
        loop_run_once(l, 1);
    }
    ok(sent > 2 * LIMIT_STREAM_INPUT, "the client sent what the kernel took (%zu)", sent);
    ok(stream_input_len(v.server.s) <= LIMIT_STREAM_INPUT + 16384, "of which little is here (%zu)",
       stream_input_len(v.server.s));
    leave(l, &v);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    sctx = server_ctx(false);
    test_versions(l);
    test_old_version(l);
    test_renegotiation(l);
    test_key_updates(l);
    test_garbage(l);
    test_handshake_timeout(l);
    test_handshake_cut(l);
    test_handshake_turns(l, false);
    test_handshake_turns(l, true);
    test_handshake_waits(l);
    test_cut(l);
    test_half_close(l);
    test_close_notify(l);
    test_alert_before_reset(l);
    test_lingering_ends(l);
    test_gathering(l);
    test_stall_full_record(l);
    test_stall_small_records(l);
    test_tiny_records(l);
    test_stall_paused_upload(l);
    test_stall_pause_in_handshake(l);
    test_shared_area(l);
    test_shared_area_without_memory(l);
    test_stalled_readers(l);
    loop_free(l);
    tls_ctx_unref(sctx);
    return tap_end();
}
