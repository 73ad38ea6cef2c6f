/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that move much share a part of each turn, one after the other; who asks for little does not wait for them. */
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "lib/tap.h"
#include "net/loop_internal.h"
#include "unit/net/fixture.h"

enum { BULK = 4, MEMBERS = BULK + 1, SMALL = BULK };

struct crowd;

struct member {
    struct end end;
    struct crowd *crowd;
    char name;
    int fd;   /* the other end */
    SSL *ssl; /* on it; NULL: plain */
};

struct crowd {
    struct loop *l;
    struct member m[MEMBERS];
    char served[64]; /* names, in the order in which they were told of bytes */
    size_t n_served;
    bool slow;
    bool by_address; /* the last of those that move much has one, the others have another */
    bool known;      /* all of them */
    int piece;       /* bytes of a record or a send; messages are as small when this is little */
    uint64_t turn_began_us;
};

/* With `slow`, whoever moves much takes all that such may take in this turn, however long the turn took until then. */
static void note(struct end *e, enum stream_event ev)
{
    struct member *m = list_entry(e, struct member, end);
    struct crowd *c = m->crowd;
    uint64_t now = clock_us(), end = now + BULK_TURN_US + (now - c->turn_began_us);

    if (ev != STREAM_READABLE)
        return;
    if (c->piece < 100)
        stream_begin_message(e->s);
    if (c->n_served < sizeof(c->served) - 1)
        c->served[c->n_served++] = m->name;
    if (c->slow && m->name != 's')
        clock_fake(end, clock_wall_us());
}

static void member_open(struct crowd *c, size_t i, struct tls_ctx *ctx)
{
    struct member *m = &c->m[i];
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (i == BULK - 1))};
    struct stream_opts o = {.fn = end_fn, .arg = &m->end, .tls = ctx};
    struct loop_turns *turns;
    int pair[2];

    m->crowd = c;
    m->name = i == SMALL ? 's' : (char)('A' + i);
    m->end = (struct end){.loop = c->l, .discard = true, .hook = note};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        tap_bail("socketpair");
    m->fd = pair[1];
    o.client = c->by_address ? (const struct sockaddr *)&from : NULL;
    m->end.s = stream_accept(c->l, pair[0], &o);
    if (m->end.s == NULL)
        tap_bail("stream_accept");
    turns = stream_share_turns(m->end.s);
    ok((turns != NULL) == c->by_address, "%c has an address or none", m->name);
    if (turns != NULL)
        turns->known = c->known;
    if (ctx != NULL)
        m->ssl = bare_client(c->l, m->fd, NULL, 0, NULL);
    if (!run_until(c->l, m->end.seen[STREAM_OPENED] == 1))
        tap_bail("a stream does not open");
}

/* Until the kernel takes no more; a byte, if that is all. */
static void feed(struct member *m, size_t n)
{
    static char zeroes[16000];

    if (m->ssl != NULL) {
        SSL_set_mode(m->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        while (SSL_write(m->ssl, zeroes, (int)n) > 0 && n > 1)
            ;
    } else {
        while (send(m->fd, zeroes, n, MSG_NOSIGNAL) > 0 && n > 1)
            ;
    }
}

static void turn(struct crowd *c)
{
    for (size_t i = 0; i < BULK; i++)
        feed(&c->m[i], (size_t)c->piece);
    feed(&c->m[SMALL], 1);
    c->turn_began_us = clock_us();
    loop_run_once(c->l, 0);
}

static void forget(struct crowd *c)
{
    memset(c->served, 0, sizeof(c->served));
    c->n_served = 0;
}

static void begin(struct crowd *c, struct tls_ctx *ctx)
{
    c->piece = c->piece == 0 ? 16000 : c->piece;
    for (size_t i = 0; i < MEMBERS; i++)
        member_open(c, i, ctx);
    clock_fake(clock_us(), clock_wall_us()); /* only who is slow takes time */
    for (int i = 0; i < 4; i++)              /* now it is known who moves much */
        turn(c);
    forget(c);
    c->slow = true;
}

static void end(struct crowd *c)
{
    clock_real();
    for (size_t i = 0; i < MEMBERS; i++) {
        end_release(&c->m[i].end);
        SSL_free(c->m[i].ssl);
        close(c->m[i].fd);
    }
    settle(c->l);
}

static void test_order(struct loop *l, struct tls_ctx *ctx, const char *how)
{
    struct crowd c = {.l = l};
    bool small_first = true, one_each = true, round = true;

    begin(&c, ctx);
    for (int i = 0; i < 3 * BULK; i++)
        turn(&c);
    for (size_t i = 0; i < 3 * BULK; i++) {
        small_first = small_first && c.served[2 * i] == 's';
        one_each = one_each && c.served[2 * i + 1] >= 'A' && c.served[2 * i + 1] < 'A' + BULK;
        round = round && (i < BULK || c.served[2 * i + 1] == c.served[2 * (i - BULK) + 1]);
    }
    for (int i = 0; i < BULK; i++)
        round = round && memchr(c.served, 'A' + i, (size_t)2 * BULK) != NULL;
    is_int((int)c.n_served, 6 * BULK, "%s: two of five are served in each turn (%s)", how, c.served);
    ok(small_first, "%s: in each turn the small one, and before all others", how);
    ok(one_each, "%s: and one of those that move much", how);
    ok(round, "%s: which take turns", how);
    end(&c);
}

/* Three of one address and one of another: one of the three, the other, and so on. */
static void test_addresses(struct loop *l, struct tls_ctx *ctx, const char *how)
{
    struct crowd c = {.l = l, .by_address = true, .known = true};
    size_t others = 0, last = 0;
    bool seen[BULK] = {false};

    begin(&c, ctx);
    for (int i = 0; i < 4 * BULK; i++)
        turn(&c);
    for (size_t i = 0; i < c.n_served; i++) {
        last += c.served[i] == 'A' + BULK - 1;
        others += c.served[i] >= 'A' && c.served[i] < 'A' + BULK - 1;
        if (c.served[i] >= 'A' && c.served[i] < 'A' + BULK)
            seen[c.served[i] - 'A'] = true;
    }
    ok(last + 1 >= others && others + 1 >= last, "%s: an address with three streams has no more turns than one (%s)",
       how, c.served);
    for (size_t i = 0; i < BULK; i++)
        ok(seen[i], "%s: %c is served", how, (char)('A' + i));
    end(&c);
}

/*
 * A look brings few bytes then, but hundreds of records, which take several visits; whoever has been read to the end is
 * like everybody else until his next look.
 */
static void test_tiny_records(struct loop *l, struct tls_ctx *ctx)
{
    struct crowd c = {.l = l, .piece = 2};
    size_t small = 0, others = 0, most = 0;

    begin(&c, ctx);
    for (int i = 0; i < 3 * BULK; i++)
        turn(&c);
    for (size_t i = 0; i < c.n_served; i++) {
        small += c.served[i] == 's';
        others = c.served[i] == 's' ? 0 : others + 1;
        most = others > most ? others : most;
    }
    ok(small >= BULK, "records of two bytes: the small one is served again and again (%s)", c.served);
    ok(most <= 3 * (size_t)BULK, "and in between few of the others");
    for (int i = 0; i < BULK; i++)
        ok(strchr(c.served, 'A' + i) != NULL, "but %c is", 'A' + i);
    end(&c);
}

static void take_long(void *arg)
{
    (void)arg;
    clock_fake(clock_us() + STRAINED_TURN_US, clock_wall_us());
}

/* A byte for each, the stranger's first. */
static void ask_both(struct crowd *c, const char *order, const char *how, const char *what)
{
    forget(c);
    feed(&c->m[SMALL], 1);
    feed(&c->m[0], 1);
    for (int i = 0; i < 3; i++)
        loop_run_once(c->l, 0);
    is_str(c->served, order, "%s: %s", how, what);
}

/* A is known, s is not; neither moves much. */
static void test_strained(struct loop *l, struct tls_ctx *ctx, const char *how)
{
    struct crowd c = {.l = l, .by_address = true, .piece = 1};
    struct loop_deferred d = {.fn = NULL};

    for (size_t i = 0; i < MEMBERS; i++)
        member_open(&c, i, ctx);
    clock_fake(clock_us() + STRAINED_US, clock_wall_us());
    stream_share_turns(c.m[0].end.s)->known = true;
    ask_both(&c, "sA", how, "who comes first is served first");
    loop_defer(l, &d, take_long, NULL);
    loop_run_once(l, 0);
    ask_both(&c, "As", how, "but strangers behind those who are known when a turn took long");
    clock_fake(clock_us() + STRAINED_US, clock_wall_us());
    ask_both(&c, "sA", how, "until it has not for a while");
    end(&c);
}

static void test_leaving(struct loop *l, struct tls_ctx *ctx, const char *how)
{
    struct crowd c = {.l = l};
    struct stream *b;

    begin(&c, ctx);
    turn(&c); /* now at least two of four wait, whoever they are */
    stream_close(c.m[0].end.s, STREAM_CLOSE_ABORT);
    c.m[0].end.s = NULL;
    b = c.m[1].end.s;
    stream_pause(b, STREAM_PAUSE_BODY);
    forget(&c);
    for (int i = 0; i < 2 * BULK; i++)
        turn(&c);
    ok(strpbrk(c.served, "AB") == NULL, "%s: who left or paused while waiting is not served (%s)", how, c.served);
    ok(strchr(c.served, 'C') != NULL && strchr(c.served, 'D') != NULL, "%s: the others are", how);
    stream_resume(b, STREAM_PAUSE_BODY);
    forget(&c);
    for (int i = 0; i < 2 * BULK; i++)
        turn(&c);
    ok(strchr(c.served, 'B') != NULL, "%s: who paused is again, after it (%s)", how, c.served);
    end(&c);
}

/* The end that comes while a stream waits to be read, behind its last bytes. */
static void test_end_while_waiting(struct loop *l, struct tls_ctx *ctx, const char *how)
{
    struct crowd c = {.l = l};
    struct member *last;

    begin(&c, ctx);
    turn(&c);
    last = &c.m[BULK - 1];
    if (last->ssl != NULL) /* what it could not send would be in the way */
        SSL_set_quiet_shutdown(last->ssl, 1);
    shutdown(last->fd, SHUT_WR);
    c.slow = false;
    clock_real();
    ok(run_until(l, (c.turn_began_us = clock_us(), last->end.seen[STREAM_EOF] + last->end.seen[STREAM_FAILED] == 1)),
       "%s: its end is told", how);
    is_int((int)last->end.seen[ctx == NULL ? STREAM_EOF : STREAM_FAILED], 1, "%s: as what it is", how);
    end(&c);
}

int main(void)
{
    struct loop *l = loop_new(NULL);
    struct tls_ctx *sctx = server_ctx(false);
    struct tls_ctx *const contexts[] = {NULL, sctx};
    const char *const names[] = {"plain", "tls"};

    signal(SIGPIPE, SIG_IGN); /* OpenSSL's own sockets write to those that are gone */
    for (size_t i = 0; i < ROWS(contexts); i++) {
        test_order(l, contexts[i], names[i]);
        test_addresses(l, contexts[i], names[i]);
        test_strained(l, contexts[i], names[i]);
        test_leaving(l, contexts[i], names[i]);
        test_end_while_waiting(l, contexts[i], names[i]);
    }
    test_tiny_records(l, sctx);
    loop_free(l);
    tls_ctx_unref(sctx);
    return tap_end();
}
