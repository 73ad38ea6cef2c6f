/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream promises, plain and with TLS alike, over real sockets. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "lib/tap.h"
#include "unit/net/fixture.h"

struct flavour {
    const char *name;
    bool tls;
};

/* More than the kernel's two socket buffers of a connection ever hold. */
enum { BEYOND_SOCKET = 16 << 20 };

static struct tls_ctx *sctx, *cctx;

static void open_pair(struct loop *l, const struct flavour *f, struct end *client, struct end *server)
{
    pair_open(l, client, server, f->tls ? cctx : NULL, f->tls ? sctx : NULL);
}

static void release_pair(struct loop *l, struct end *client, struct end *server)
{
    end_release(client);
    end_release(server);
    settle(l);
}

static void test_bulk(struct loop *l, const struct flavour *f)
{
    enum { TOTAL = 10 << 20 };
    struct end client = {.send_left = TOTAL, .check = true, .discard = true};
    struct end server = {.send_left = TOTAL, .check = true, .discard = true};

    open_pair(l, f, &client, &server);
    ok(run_until(l, client.got_bytes == TOTAL && server.got_bytes == TOTAL), "%s: 10 MB arrive both ways", f->name);
    ok(!client.mismatch && !server.mismatch, "%s: and are what was sent", f->name);
    is_u64(stream_bytes_in(client.s), TOTAL, "%s: bytes in", f->name);
    is_u64(stream_bytes_out(client.s), TOTAL, "%s: bytes out", f->name);
    is_int(client.seen[STREAM_OPENED], 1, "%s: opened once", f->name);
    is_int(client.order[0], STREAM_OPENED, "%s: opened first", f->name);
    is_u64(stream_unsent(client.s), 0, "%s: nothing is left unsent", f->name);
    ok(client.seen[STREAM_WRITABLE] > 0, "%s: flow control had work to do", f->name);
    release_pair(l, &client, &server);
}

/* A stray pause or resume at every event, by a generator that always gives the same. */
static unsigned dice;

static unsigned roll(unsigned sides)
{
    dice = dice * 1103515245U + 12345U;
    return dice >> 16 & 0x7fff % sides;
}

static void pause_at_random(struct end *e, enum stream_event ev)
{
    if (e->s == NULL || ev != STREAM_READABLE)
        return;
    if (roll(3) == 0)
        stream_pause(e->s, 1U << roll(3));
    if (roll(5) == 0)
        stream_resume(e->s, 0xff);
}

static void test_random_pauses(struct loop *l, const struct flavour *f)
{
    enum { TOTAL = 10 << 20 };
    struct end client = {.send_left = TOTAL, .check = true, .discard = true, .send_piece = 100000};
    struct end server = {.send_left = TOTAL, .check = true, .discard = true, .send_piece = 1000};
    uint64_t give_up;

    client.hook = server.hook = pause_at_random;
    dice = 4711;
    open_pair(l, f, &client, &server);
    give_up = deadline();
    while ((client.got_bytes < TOTAL || server.got_bytes < TOTAL) && !passed(give_up)) {
        loop_run_once(l, 1);
        if (roll(2) == 0)
            stream_resume(client.s, 1U << roll(3));
        if (roll(2) == 0)
            stream_resume(server.s, 0xff);
    }
    ok(client.got_bytes == TOTAL && server.got_bytes == TOTAL, "%s: random pauses lose nothing", f->name);
    ok(!client.mismatch && !server.mismatch, "%s: nor mix anything up", f->name);
    release_pair(l, &client, &server);
}

static void test_pause(struct loop *l, const struct flavour *f)
{
    struct end client = {.send_left = 50};
    struct end server = {.discard = true};

    open_pair(l, f, &client, &server);
    run_until(l, server.got_bytes == 50);
    stream_pause(server.s, STREAM_PAUSE_BODY | STREAM_PAUSE_LIMIT);
    client.send_left = BEYOND_SOCKET;
    client.send_piece = 100000;
    pump(&client);
    settle(l);
    is_u64(server.got_bytes, 50, "%s: nothing is announced while paused", f->name);
    ok(stream_input_len(server.s) <= LIMIT_STREAM_INPUT, "%s: and what waits is bounded", f->name);
    ok(stream_congested(client.s), "%s: the other side is told to wait", f->name);
    ok(stream_unacknowledged(client.s) > stream_unsent(client.s), "%s: some wait in the kernel", f->name);
    stream_resume(server.s, STREAM_PAUSE_BODY);
    settle(l);
    is_u64(server.got_bytes, 50, "%s: one of two reasons is left", f->name);
    stream_resume(server.s, STREAM_PAUSE_LIMIT);
    is_u64(server.got_bytes, 50, "%s: resuming does not call back by itself", f->name);
    ok(run_until(l, server.got_bytes == 50 + BEYOND_SOCKET), "%s: all comes after the last reason is gone", f->name);
    ok(run_until(l, stream_unacknowledged(client.s) == 0), "%s: and is acknowledged", f->name);
    release_pair(l, &client, &server);
}

/* Bytes that are not consumed stop the reading by themselves. */
static void test_hoarding(struct loop *l, const struct flavour *f)
{
    enum { TOTAL = 4 << 20 };
    struct end client = {.send_left = TOTAL};
    struct end server = {.hoard = true, .check = true, .discard = true};

    open_pair(l, f, &client, &server);
    settle(l);
    ok(stream_input_len(server.s) >= LIMIT_STREAM_INPUT &&
           stream_input_len(server.s) <= LIMIT_STREAM_INPUT + LIMIT_STREAM_READ_TURN,
       "%s: input stops at its limit (%zu)", f->name, stream_input_len(server.s));
    server.hoard = false;
    stream_pause(server.s, STREAM_PAUSE_LIMIT);
    stream_resume(server.s, STREAM_PAUSE_LIMIT);
    ok(run_until(l, server.got_bytes == TOTAL), "%s: and goes on when there is room", f->name);
    ok(!server.mismatch, "%s: without a gap", f->name);
    release_pair(l, &client, &server);
}

/* One by one, each with a turn in between: what was announced is not announced again, and nothing is forgotten. */
static void test_small_bites(struct loop *l, const struct flavour *f)
{
    struct end client = {.send_left = 70000};
    struct end server = {.hoard = true};
    uint64_t eaten = 0;
    uint64_t give_up;

    open_pair(l, f, &client, &server);
    give_up = deadline();
    while (eaten < 70000 && !passed(give_up)) {
        struct slice in = stream_peek(server.s);
        size_t n = in.n < 777 ? in.n : 777;

        stream_consume(server.s, n);
        eaten += n;
        if (n == 0)
            loop_run_once(l, 5);
    }
    is_u64(eaten, 70000, "%s: small bites get everything", f->name);
    is_u64(stream_peek(server.s).n, 0, "%s: then there is nothing", f->name);
    release_pair(l, &client, &server);
}

static void test_half_close(struct loop *l, const struct flavour *f)
{
    struct end client = {.send_left = 300000, .finish_after = true};
    struct end server = {.discard = true};

    open_pair(l, f, &client, &server);
    ok(run_until(l, server.seen[STREAM_EOF] == 1), "%s: the end arrives", f->name);
    is_u64(server.got_bytes, 300000, "%s: after every byte", f->name);
    ok(!stream_write(client.s, SLICE_LIT("more")), "%s: nothing can be written after the end", f->name);
    ok(stream_is_open(server.s), "%s: the other direction is open", f->name);
    server.send_left = 500000;
    server.finish_after = true;
    pump(&server);
    ok(run_until(l, client.seen[STREAM_EOF] == 1), "%s: and ends by itself", f->name);
    is_u64(client.got_bytes, 500000, "%s: after every byte", f->name);
    is_int(client.seen[STREAM_FAILED] + server.seen[STREAM_FAILED], 0, "%s: nobody failed", f->name);
    release_pair(l, &client, &server);
}

static void test_eof_waits_for_resume(struct loop *l, const struct flavour *f)
{
    struct end client = {.send_left = 1000, .finish_after = true};
    struct end server = {.discard = true};

    pair_start(l, &client, &server, f->tls ? cctx : NULL, f->tls ? sctx : NULL);
    stream_pause(server.s, STREAM_PAUSE_BODY);
    run_until(l, client.seen[STREAM_OPENED] == 1 && server.seen[STREAM_OPENED] == 1);
    settle(l);
    is_int(server.seen[STREAM_EOF] + server.seen[STREAM_READABLE], 0, "%s: paused from the start: silence", f->name);
    stream_resume(server.s, STREAM_PAUSE_BODY);
    ok(run_until(l, server.seen[STREAM_EOF] == 1), "%s: then the end", f->name);
    is_u64(server.got_bytes, 1000, "%s: after the bytes", f->name);
    release_pair(l, &client, &server);
}

static void test_abort(struct loop *l, const struct flavour *f)
{
    struct end client = {.discard = true};
    struct end server = {.discard = true};

    open_pair(l, f, &client, &server);
    client.send_left = 10;
    pump(&client);
    run_until(l, server.got_bytes == 10);
    stream_write(server.s, SLICE_LIT("half an answer"));
    stream_close(server.s, STREAM_CLOSE_ABORT);
    server.s = NULL;
    ok(run_until(l, client.seen[STREAM_FAILED] == 1), "%s: an abort is a failure on the other side", f->name);
    is_int(client.seen[STREAM_EOF], 0, "%s: not an end", f->name);
    ok(strstr(client.failure, "reset") != NULL, "%s: a reset (%s)", f->name, client.failure);
    is_u64(client.got_bytes, 0, "%s: what was queued is dropped", f->name);
    release_pair(l, &client, &server);
}

static void close_flush(struct end *e, enum stream_event ev)
{
    if (ev != STREAM_OPENED || e->s == NULL)
        return;
    stream_close(e->s, STREAM_CLOSE_FLUSH);
    e->s = NULL;
}

static void test_close_flush(struct loop *l, const struct flavour *f)
{
    /* More than the socket takes at once, and unread bytes in the other direction. */
    struct end client = {.discard = true, .check = true};
    struct end server = {.send_left = 120000, .send_piece = 120000, .hook = close_flush};

    client.send_left = 200000;
    open_pair(l, f, &client, &server);
    ok(run_until(l, client.seen[STREAM_EOF] + client.seen[STREAM_FAILED] > 0), "%s: flush closes", f->name);
    is_u64(client.got_bytes, 120000, "%s: all that was written came", f->name);
    is_int(client.seen[STREAM_EOF], 1, "%s: and then an orderly end, although bytes were left unread", f->name);
    release_pair(l, &client, &server);
}

static void test_close_now(struct loop *l, const struct flavour *f)
{
    struct end client = {.discard = true};
    struct end server = {.discard = true};

    open_pair(l, f, &client, &server);
    stream_write(server.s, SLICE_LIT("bye"));
    stream_close(server.s, STREAM_CLOSE_NOW);
    server.s = NULL;
    ok(run_until(l, client.seen[STREAM_EOF] + client.seen[STREAM_FAILED] > 0), "%s: close now", f->name);
    is_int(client.seen[STREAM_EOF], 1, "%s: is orderly when nothing waits", f->name);
    is_u64(client.got_bytes, 3, "%s: and takes along what was written", f->name);
    release_pair(l, &client, &server);
}

/* Closing in a callback of every kind, in every way. */
static void test_close_inside(struct loop *l, const struct flavour *f)
{
    static const char *const names[] = {"opened", "readable", "writable", "eof", "failed"};

    for (int ev = STREAM_OPENED; ev <= STREAM_FAILED; ev++) {
        for (int how = STREAM_CLOSE_FLUSH; how <= STREAM_CLOSE_NOW; how++) {
            const size_t total = ev == STREAM_WRITABLE ? BEYOND_SOCKET : 1 << 20;
            struct end client = {.send_left = total, .discard = true};
            struct end server = {.send_left = total, .discard = true};

            server.close_on = 1 + ev;
            server.close_how = (enum stream_close_how)how;
            open_pair(l, f, &client, &server);
            if (ev >= STREAM_EOF) {
                run_until(l, server.got_bytes == total && client.got_bytes == total);
                stream_close(client.s, ev == STREAM_EOF ? STREAM_CLOSE_FLUSH : STREAM_CLOSE_ABORT);
                client.s = NULL;
            }
            ok(run_until(l, server.s == NULL), "%s: closed inside %s (%d)", f->name, names[ev], how);
            if (client.s != NULL)
                ok(run_until(l, client.seen[STREAM_EOF] + client.seen[STREAM_FAILED] > 0),
                   "%s: closed inside %s (%d): the other side knows", f->name, names[ev], how);
            release_pair(l, &client, &server);
        }
    }
}

static void test_vanished(struct loop *l, const struct flavour *f)
{
    struct end client = {.discard = true};
    struct end server = {.discard = true};
    unsigned calls;

    open_pair(l, f, &client, &server);
    stream_close(client.s, STREAM_CLOSE_ABORT);
    client.s = NULL;
    calls = server.seen[STREAM_FAILED];
    for (int i = 0; i < 100; i++)
        stream_write(server.s, SLICE_LIT("anybody there?"));
    is_int(calls, server.seen[STREAM_FAILED], "%s: no callback from inside a write", f->name);
    ok(run_until(l, server.seen[STREAM_FAILED] == 1), "%s: writing to nobody fails", f->name);
    ok(!stream_write(server.s, SLICE_LIT("x")), "%s: and refuses more", f->name);
    ok(server.failure[0] != '\0', "%s: with a reason (%s)", f->name, server.failure);
    settle(l);
    is_int(server.seen[STREAM_FAILED], 1, "%s: failed once", f->name);
    release_pair(l, &client, &server);
}

/* The same, while the owner does not read: it must be told nevertheless. */
static void test_vanished_while_paused(struct loop *l, const struct flavour *f)
{
    struct end client = {.discard = true};
    struct end server = {.discard = true};

    open_pair(l, f, &client, &server);
    stream_pause(server.s, STREAM_PAUSE_PIPELINE);
    stream_close(client.s, STREAM_CLOSE_ABORT);
    client.s = NULL;
    settle(l);
    stream_write(server.s, SLICE_LIT("anybody there?"));
    ok(run_until(l, server.seen[STREAM_FAILED] == 1), "%s: paused: writing to nobody fails", f->name);
    release_pair(l, &client, &server);
}

/* An early answer followed by a reset must be read before the failure: 413 to a long upload. */
static void test_last_words(struct loop *l, const struct flavour *f)
{
    struct end client = {.check = true, .discard = true};
    struct end server = {.hoard = true, .send_left = 2000};
    unsigned readable;

    open_pair(l, f, &client, &server);
    run_until(l, client.got_bytes == 2000);
    readable = client.seen[STREAM_READABLE];
    stream_write(server.s, SLICE_LIT(""));
    server.send_left = 1000;
    pump(&server);
    loop_run_once(l, 0);
    stream_close(server.s, STREAM_CLOSE_NOW);
    server.s = NULL;
    for (int i = 0; i < 20 && stream_write(client.s, SLICE_LIT("go on and on")); i++)
        loop_run_once(l, 1);
    settle(l);
    is_u64(client.got_bytes, 3000, "%s: the answer before the reset is read", f->name);
    ok(client.seen[STREAM_READABLE] > readable, "%s: announced", f->name);
    ok(run_until(l, client.seen[STREAM_FAILED] + client.seen[STREAM_EOF] > 0), "%s: and the end as well", f->name);
    release_pair(l, &client, &server);
}

static void test_hard_limit(struct loop *l, const struct flavour *f)
{
    struct end client = {.discard = true};
    struct end server = {.discard = true};
    size_t size = 1 << 20;
    char *mega = calloc(1, size);
    int written = 0;

    open_pair(l, f, &client, &server);
    stream_pause(client.s, STREAM_PAUSE_BODY);
    while (written < 64 && stream_write(server.s, slice_of(mega, size)))
        written++;
    ok(written >= 3 && written < 64, "%s: a writer without manners is stopped (%d MB)", f->name, written);
    is_int(server.seen[STREAM_FAILED], 0, "%s: not from inside its call", f->name);
    ok(run_until(l, server.seen[STREAM_FAILED] == 1), "%s: but told", f->name);
    free(mega);
    release_pair(l, &client, &server);
}

static void test_set_owner(struct loop *l, const struct flavour *f)
{
    struct end client = {.send_left = 5000, .finish_after = true};
    struct end server = {.hoard = true};
    struct end heir = {.discard = true, .check = true};

    open_pair(l, f, &client, &server);
    run_until(l, stream_input_len(server.s) == 5000 && server.seen[STREAM_EOF] == 1);
    heir.s = server.s;
    stream_set_owner(server.s, end_fn, &heir);
    server.s = NULL;
    is_int(heir.seen[STREAM_READABLE], 0, "%s: the new owner is not called from inside", f->name);
    ok(run_until(l, heir.seen[STREAM_EOF] == 1), "%s: but told of the end", f->name);
    is_u64(heir.got_bytes, 5000, "%s: and of the bytes before", f->name);
    is_int(heir.seen[STREAM_OPENED], 0, "%s: not of the opening", f->name);
    heir.send_left = 10;
    pump(&heir);
    ok(run_until(l, client.got_bytes == 10), "%s: and can write", f->name);
    end_release(&heir);
    release_pair(l, &client, &server);
}

/* Whoever has much to say has a part of each turn, not the turn; so others get on beside it. */
static void test_share(struct loop *l, const struct flavour *f)
{
    enum { TURNS = 400, RECORD = 16384 };
    struct end client = {.send_left = SIZE_MAX}, server = {.discard = true};
    struct end small = {.discard = true}, echo = {.echo = true, .discard = true};
    uint64_t most_in = 0, most_out = 0;

    open_pair(l, f, &small, &echo);
    open_pair(l, f, &client, &server);
    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t in = server.got_bytes, out = client.send_pos;

        loop_run_once(l, 5);
        in = server.got_bytes - in;
        out = client.send_pos - out;
        most_in = in > most_in ? in : most_in;
        most_out = out > most_out ? out : most_out;
    }
    /* What the turn before had left over may come together with what is read now. */
    ok(most_in > 0 && most_in <= 2 * LIMIT_STREAM_READ_TURN, "%s: %llu bytes at most are read in a turn", f->name,
       (unsigned long long)most_in);
    /* In the callback that finds that there is room, and at the end of the turn when it is told that there is again. */
    ok(most_out > 0 && most_out <= 2 * (LIMIT_STREAM_WRITE_TURN + RECORD), "%s: %llu are taken for writing", f->name,
       (unsigned long long)most_out);
    for (unsigned i = 1; i <= 20; i++) {
        small.send_left = 100;
        pump(&small);
        if (!run_until(l, small.got_bytes == 100 * i))
            break;
    }
    is_u64(small.got_bytes, 2000, "%s: small questions are answered meanwhile", f->name);
    release_pair(l, &client, &server);
    release_pair(l, &small, &echo);
}

/* The same set of pairs again and again; descriptors must not leak. */
static void test_many(struct loop *l, const struct flavour *f)
{
    enum { ROUNDS = 60, PAIRS = 25 };
    static struct end clients[PAIRS], servers[PAIRS];
    int first = dup(0);
    int last;
    unsigned echoed = 0;

    close(first);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PAIRS; i++) {
            clients[i] = (struct end){.send_left = 2000};
            servers[i] = (struct end){.echo = true, .discard = true};
            pair_start(l, &clients[i], &servers[i], f->tls ? cctx : NULL, f->tls ? sctx : NULL);
        }
        for (int i = 0; i < PAIRS; i++)
            echoed += run_until(l, clients[i].got_bytes == 2000);
        for (int i = 0; i < PAIRS; i++) {
            enum stream_close_how how = (enum stream_close_how)((i + round) % 3);

            stream_close(clients[i].s, how);
            stream_close(servers[i].s, STREAM_CLOSE_NOW);
            clients[i].s = servers[i].s = NULL;
            end_release(&clients[i]);
            end_release(&servers[i]);
        }
    }
    is_int(echoed, ROUNDS * PAIRS, "%s: %d streams", f->name, 2 * ROUNDS * PAIRS);
    for (int i = 0; i < 3000 / 20; i++) /* lingering ends by itself at the latest after its time */
        loop_run_once(l, 1);
    last = dup(0);
    is_int(last, first, "%s: no descriptor is lost", f->name);
    close(last);
}

static void test_connect_refused(struct loop *l, const struct flavour *f)
{
    struct end e = {.loop = l};
    struct stream_opts o = {.fn = end_fn, .arg = &e, .tls = f->tls ? cctx : NULL};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    e.s = stream_connect(l, (struct sockaddr *)&addr, sizeof(addr), &o);
    is_int(e.seen[STREAM_FAILED], 0, "%s: a refused connection is an event", f->name);
    ok(run_until(l, e.seen[STREAM_FAILED] == 1), "%s: that comes", f->name);
    is_str(e.failure, "connect: Connection refused", "%s: with its reason", f->name);
    is_str(stream_remote_text(e.s), "127.0.0.1:1", "%s: remote address", f->name);
    is_str(stream_remote_ip(e.s), "127.0.0.1", "%s: remote IP", f->name);
    is_int(e.seen[STREAM_OPENED], 0, "%s: and was never open", f->name);
    end_release(&e);
    settle(l);
}

static void test_write_before_open(struct loop *l, const struct flavour *f)
{
    struct end client = {.discard = true};
    struct end server = {.loop = l};

    pair_start(l, &client, &server, f->tls ? cctx : NULL, f->tls ? sctx : NULL);
    ok(stream_write(client.s, SLICE_LIT("early")), "%s: writing may start before the opening", f->name);
    ok(run_until(l, server.got_bytes == 5), "%s: and arrives after it", f->name);
    is_slice(buf_slice(&server.got), "early", "%s: as it was", f->name);
    release_pair(l, &client, &server);
}

int main(void)
{
    static const struct flavour flavours[] = {{"plain", false}, {"tls", true}};
    struct loop *l = loop_new(NULL);

    sctx = server_ctx(false);
    cctx = client_ctx("alice", false);
    for (size_t i = 0; i < ROWS(flavours); i++) {
        const struct flavour *f = &flavours[i];

        test_bulk(l, f);
        test_random_pauses(l, f);
        test_pause(l, f);
        test_hoarding(l, f);
        test_small_bites(l, f);
        test_half_close(l, f);
        test_eof_waits_for_resume(l, f);
        test_abort(l, f);
        test_close_flush(l, f);
        test_close_now(l, f);
        test_close_inside(l, f);
        test_vanished(l, f);
        test_vanished_while_paused(l, f);
        test_last_words(l, f);
        test_hard_limit(l, f);
        test_set_owner(l, f);
        test_connect_refused(l, f);
        test_write_before_open(l, f);
        test_share(l, f);
        test_many(l, f);
    }
    loop_free(l);
    tls_ctx_unref(sctx);
    tls_ctx_unref(cctx);
    return tap_end();
}
