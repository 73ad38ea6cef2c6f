/* SPDX-License-Identifier: Apache-2.0 */
/* What clients make us hold, in bytes: charged, bounded, given back. */
#include "front/memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "lib/tap.h"
#include "unit/front/h2_kit.h"

#define SETTINGS_WINDOW_0 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0"

enum { FIELDS = 200, HEAD = FIELDS * KIT_DEAR_VALUE };

/* Heads of 800 KB each, as bytes of one connection. */
static void raw_heads(struct buf *b, unsigned n)
{
    buf_init(b, 1 << 20);
    buf_append(b, slice_of(SETTINGS_WINDOW_0, sizeof(SETTINGS_WINDOW_0) - 1));
    for (unsigned i = 0; i < n; i++)
        h2_kit_append_dear_head(b, i, FIELDS, NULL);
}

static void configure(struct front_h2_kit *k, size_t max_memory)
{
    k->front.opts.max_head_bytes = 1 << 20;
    k->front.opts.max_memory = max_memory;
    front_update(k->front.front, &k->front.opts);
}

static bool all_held(void *arg)
{
    struct front_h2_kit *k = arg;

    return k->n_held >= 4;
}

/* What is held for the sake of a request counts as its client's. */
static void expect_charged(struct front *f, struct exchange *x)
{
    size_t before = front_memory(f);

    ok(quota_take(exchange_quota(x), 1000), "the proxy holds something for it");
    is_u64(front_memory(f), before + 1000, "which is counted");
    quota_give(exchange_quota(x), 1000);
}

/* 80 of these connections held 347 MB with 400 KB sent. */
static void test_answered_heads(struct front_h2_kit *k)
{
    struct buf b;

    configure(k, 0);
    h2_kit_connect(k, true, false);
    ok(front_memory(k->front.front) >= 12 << 10, "a connection is charged with what its TLS holds, roughly");
    raw_heads(&b, 4);
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
    ok(h2_kit_until(k, all_held, k), "four heads");
    ok(front_memory(k->front.front) >= 4 * HEAD, "are held while they are needed (%zu bytes)",
       front_memory(k->front.front));
    expect_charged(k->front.front, k->held[0].x);
    metrics_collect(k->front.metrics);
    is_double(front_kit_metric(&k->front, "mvproxy_client_memory_bytes", NULL), (double)front_memory(k->front.front),
              "and told of");
    h2_kit_reply(&k->held[0], 403, "no");
    exchange_respond(k->held[1].x, h2_kit_head(&k->held[1], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_forget_request(k->held[1].x);
    is_null(exchange_request(k->held[1].x)->fields, "nothing points to fields that are gone");
    is_u64(exchange_request(k->held[1].x)->target.n, 1, "method and target stay");
    exchange_abort(k->held[2].x, "test");
    k->held[2].x = NULL;
    h2_kit_settle(k);
    ok(front_memory(k->front.front) < HEAD + (256 << 10), "what was answered, forgotten or given up is not (%zu bytes)",
       front_memory(k->front.front));
    h2_kit_raw(k, (const unsigned char[]){0, 0, 4, 3, 0, 0, 0, 0, 7, 0, 0, 0, 8}, 13);
    ok(h2_kit_told(k, &k->held[3], "gone"), "the last one is reset");
    h2_kit_settle(k);
    ok(front_memory(k->front.front) < 256 << 10, "and gone (%zu bytes)", front_memory(k->front.front));
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "and the connection");
    h2_kit_settle(k);
    is_u64(front_memory(k->front.front), 0, "nothing is left");
}

struct pressure {
    struct front_h2_kit *k;
    size_t limit, most;
    double refused;
};

/* Looks at each turn. */
static bool under_pressure(void *arg)
{
    struct pressure *p = arg;
    size_t now = front_memory(p->k->front.front);

    p->most = now > p->most ? now : p->most;
    p->refused = front_kit_metric(&p->k->front, "mvproxy_front_refusals_total", "429");
    return p->refused > 0 && front_kit_closed(&p->k->front, "memory") > 0;
}

static void test_limit(struct front_h2_kit *k)
{
    enum { CLIENTS = 8, LIMIT = 8 << 20 };
    struct pressure p = {.k = k, .limit = LIMIT};
    struct stream *s[CLIENTS];
    struct buf b;
    struct req *r;
    char *said = NULL, *line;
    size_t n_said;
    FILE *log = open_memstream(&said, &n_said);

    log_set_stream(log);
    configure(k, LIMIT);
    raw_heads(&b, 4);
    for (unsigned i = 0; i < CLIENTS; i++) {
        h2_kit_connect(k, true, false);
        s[i] = k->s;
        h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
        for (int turn = 0; turn < 10; turn++) {
            h2_kit_settle(k);
            (void)under_pressure(&p);
        }
    }
    buf_free(&b);
    ok(h2_kit_until(k, under_pressure, &p),
       "25 MB of heads: %u requests are held, %.0f refused, %.0f connections ended", k->n_held, p.refused,
       front_kit_closed(&k->front, "memory"));
    ok(p.most <= LIMIT, "and never more than the limit is held (%zu bytes)", p.most);
    ok(p.most > LIMIT / 2, "nor much less");
    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "then there is room for others");
    h2_kit_disconnect(k);
    for (unsigned i = 0; i < CLIENTS; i++)
        stream_close(s[i], STREAM_CLOSE_ABORT);
    ok(front_kit_empty(&k->front), "all are gone");
    log_set_stream(stderr);
    (void)fclose(log);
    line = strstr(said, "Client memory is short");
    ok(front_kit_closed(&k->front, "memory") > 1, "several were ended (%.0f)", front_kit_closed(&k->front, "memory"));
    is_u64(front_memory_ended(k->front.front), (size_t)front_kit_closed(&k->front, "memory"),
           "as many in the last minute");
    ok(line != NULL && strstr(line + 1, "Client memory is short") == NULL, "which is said once");
    free(said);
    h2_kit_settle(k);
    is_u64(front_memory(k->front.front), 0, "nothing is left");
}

/* At the limit itself not even a handshake succeeds: the last eighth is for others. */
static void test_endless_heads(struct front_h2_kit *k)
{
    enum { CLIENTS = 12, LIMIT = 8 << 20, SLACK = 512 << 10, TAIL = 10 };
    struct pressure p = {.k = k, .limit = LIMIT};
    struct stream *s[CLIENTS];
    struct buf b;
    configure(k, LIMIT);
    raw_heads(&b, 1);
    for (unsigned i = 0; i < CLIENTS; i++) {
        h2_kit_connect(k, true, false);
        s[i] = k->s;
        h2_kit_raw(k, buf_slice(&b).p, buf_len(&b) - TAIL);
        h2_kit_settle(k);
        (void)under_pressure(&p);
    }
    buf_free(&b);
    ok(p.most > LIMIT - LIMIT / 8 - HEAD, "heads that do not end hold much (%zu bytes)", p.most);
    ok(p.most <= LIMIT - LIMIT / 8 + SLACK, "but leave room for others (%zu bytes)", p.most);
    for (unsigned i = 0; i + 1 < CLIENTS; i++)
        stream_close(s[i], STREAM_CLOSE_ABORT);
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "all are gone");
}

/* ---- who is the greediest ---- */

struct fake {
    struct memory_holder holder;
    uint64_t moved;
    bool idle, ended;
};

static uint64_t moved_by(const struct memory_holder *h)
{
    return list_entry(h, struct fake, holder)->moved;
}

static bool is_idle(const struct memory_holder *h)
{
    return list_entry(h, struct fake, holder)->idle;
}

static size_t end_fake(struct memory_holder *h)
{
    struct fake *f = list_entry(h, struct fake, holder);

    f->ended = true;
    memory_dismiss(h);
    quota_give(&h->held, h->held.held);
    return 1;
}

/* 8 MiB for so many addresses. */
static struct memory *new_memory(struct front_h2_kit *k, struct memory_address *address, size_t n,
                                 size_t (*end)(struct memory_holder *h))
{
    struct memory *m = memory_new(k->front.loop, &(struct memory_opts){.moved = moved_by, .idle = is_idle, .end = end});

    if (m == NULL)
        tap_bail("out of memory");
    memory_set_limit(m, 8 << 20);
    for (size_t i = 0; i < n; i++)
        memory_address_enter(m, &address[i]);
    return m;
}

static void end_memory(struct memory *m, struct memory_address *address, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memory_address_leave(&address[i]);
    memory_free(m);
}

static void hold(struct fake *f, size_t bytes)
{
    ok(quota_take(&f->holder.held, bytes), "holds %zu bytes", bytes);
}

static bool one_ended(void *arg)
{
    struct fake *f = arg;

    for (int i = 0; i < 5; i++) {
        if (f[i].ended)
            return true;
        if (i == 3)
            f[i].moved += 1 << 20;
        if (i == 4)
            f[i].moved += 10;
    }
    return false;
}

static void test_greediest(struct front_h2_kit *k)
{
    struct memory_address address[2];
    struct memory *m = new_memory(k, address, 2, end_fake);
    struct fake f[5] = {0};

    for (uint64_t nth = 1; nth <= 2; nth++) {
        mem_fail_nth(nth);
        ok(memory_new(k->front.loop, &(struct memory_opts){.moved = moved_by}) == NULL,
           "without allocation %u it is not made", (unsigned)nth);
        mem_fail_nth(0);
    }
    for (int i = 0; i < 5; i++)
        memory_enter(m, &f[i].holder, &address[i == 0].held);
    hold(&f[0], 2300 << 10); /* more than any other, but alone at its address */
    hold(&f[1], 1 << 20);
    hold(&f[2], 32 << 10);
    hold(&f[3], 2000 << 10); /* takes what it holds */
    ok(!memory_refuses(&f[1].holder), "room for more");
    hold(&f[4], 2100 << 10); /* a few bytes now and then */
    ok(!memory_refuses(&f[0].holder), "at the mark an address below its share may go on");
    ok(memory_refuses(&f[1].holder), "the other may not");
    ok(!quota_take(&f[0].holder.held, 2 << 20), "beyond the limit nobody gets anything");
    ok(h2_kit_until(k, one_ended, f), "who holds much and moves little ends");
    ok(f[4].ended && !f[0].ended && !f[1].ended && !f[2].ended && !f[3].ended,
       "the greediest of the greediest address: %d%d%d%d%d", f[0].ended, f[1].ended, f[2].ended, f[3].ended,
       f[4].ended);
    ok(!memory_refuses(&f[1].holder), "and there is room again");
    for (int i = 0; i < 5; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    end_memory(m, address, 2);
}

/* ---- many who hold little ---- */

enum { MANY = 400, SMALL = 40 << 10, MODEST = 80 << 10 };

struct crowd {
    struct memory *m;
    struct fake *f;
};

static bool has_enough(void *arg)
{
    const struct quota *all = memory_all(arg);

    return all->held <= all->mark - all->mark / 8;
}

static bool has_room(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < MANY; i++) /* a third of them take all the time */
        c->f[i].moved += i % 3 == 0 ? SMALL : 0;
    return has_enough(c->m);
}

/* Of one address, each of them beneath notice, until somebody else's connection is all that holds much. */
static void crowd(struct front_h2_kit *k, bool idle)
{
    static struct fake f[MANY], modest[2];
    struct memory_address address[2];
    struct crowd c = {.m = new_memory(k, address, 2, end_fake), .f = f};
    unsigned n = 0;

    memset(f, 0, sizeof(f));
    memset(modest, 0, sizeof(modest));
    for (int i = 0; i < 2; i++)
        memory_enter(c.m, &modest[i].holder, &address[1].held);
    modest[1].idle = true;
    hold(&modest[0], MODEST);
    hold(&modest[1], SMALL);
    for (int i = 0; i < MANY; i++) {
        memory_enter(c.m, &f[i].holder, &address[0].held);
        f[i].idle = idle && i % 2 == 0;
        n += quota_take(&f[i].holder.held, SMALL);
    }
    ok(n < MANY && memory_refuses(&f[0].holder), "many who hold little hold too much together");
    ok(h2_kit_until(k, has_room, &c), "they end, until there is room");
    ok(address[0].held.held > memory_all(c.m)->mark / 4, "and no more of them");
    ok(!modest[0].ended && !modest[1].ended, "an address within its share loses nothing");
    n = 0;
    for (int i = 0; i < MANY; i++)
        n += f[i].ended && (idle ? !f[i].idle : i % 3 == 0);
    is_u64(n, 0, "%s", idle ? "they were between requests" : "those who go on do");
    for (int i = 0; i < MANY; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    end_fake(&modest[0].holder);
    end_fake(&modest[1].holder);
    end_memory(c.m, address, 2);
}

static void test_crowd_idle(struct front_h2_kit *k)
{
    crowd(k, true);
}

static void test_crowd_busy(struct front_h2_kit *k)
{
    crowd(k, false);
}

/* As connections do, of which what they hold goes at the end of the turn. */
static size_t end_in_turn(struct memory_holder *h)
{
    list_entry(h, struct fake, holder)->ended = true;
    memory_dismiss(h);
    return 1;
}

struct ends {
    struct memory *m;
    struct fake *f;
    unsigned n;
};

static bool ends_have_room(void *arg)
{
    struct ends *e = arg;

    for (unsigned i = 0; i < e->n; i++)
        if (e->f[i].ended)
            quota_give(&e->f[i].holder.held, e->f[i].holder.held.held);
    return has_enough(e->m);
}

/* The greediest does not pay for everybody who holds too much. */
static void test_share_is_left(struct front_h2_kit *k)
{
    enum { EACH = 200 << 10 };
    static const unsigned pieces[] = {10, 14, 12};
    struct memory_address address[3];
    struct memory *m = new_memory(k, address, 3, end_in_turn);
    struct fake f[36] = {0};
    unsigned n = 0;

    for (unsigned i = 0; i < 3; i++)
        for (unsigned end = n + pieces[i]; n < end; n++) {
            memory_enter(m, &f[n].holder, &address[i].held);
            quota_add(&f[n].holder.held, EACH);
        }
    ok(memory_all(m)->held > memory_all(m)->mark, "two addresses hold more than a share");
    ok(h2_kit_until(k, ends_have_room, &(struct ends){m, f, 36}), "they are made to hold less");
    is_u64(address[0].held.held, 10 * EACH, "the third is within his");
    is_u64(address[1].held.held, 10 * EACH, "a share is left to the greediest");
    is_u64(address[2].held.held, 11 * EACH, "the other one makes the rest of the room");
    for (n = 0; n < 36; n++)
        if (!f[n].ended)
            end_fake(&f[n].holder);
    end_memory(m, address, 3);
}

static void later(struct front_h2_kit *k, uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    for (int i = 0; i < 100; i++)
        loop_run_once(k->front.loop, 2);
}

/* While they move nobody ends them, and what is under way grows: not to the last byte that there is. */
static void test_last_sixteenth(struct front_h2_kit *k)
{
    enum { LIMIT = 8 << 20 };
    struct memory_address address[2];
    struct memory *m = new_memory(k, address, 2, end_fake);
    struct fake greedy = {0}, other = {0};
    size_t held = LIMIT / 8 * 7;

    memory_enter(m, &greedy.holder, &address[0].held);
    memory_enter(m, &other.holder, &address[1].held);
    hold(&greedy, held);
    later(k, 10);
    while (quota_take(&greedy.holder.held, 4096)) {
        greedy.moved += 4096 << 4;
        held += 4096;
    }
    ok(held > LIMIT / 8 * 7 && held <= LIMIT / 16 * 15, "who holds most grows to fifteen sixteenths: %zu KiB",
       held >> 10);
    hold(&other, LIMIT / 16);
    ok(!quota_take(&other.holder.held, 4096), "the rest is for others, to the limit");
    ok(!greedy.ended, "who moves is not ended");
    quota_give(&greedy.holder.held, 4 << 20);
    later(k, 200);
    hold(&greedy, 3 << 20);
    end_fake(&greedy.holder);
    end_fake(&other.holder);
    end_memory(m, address, 2);
}

/* ---- how often it looks ---- */

static unsigned asked;

static bool never_idle(const struct memory_holder *h)
{
    (void)h;
    asked++;
    return false;
}

/* Small ones that all go on: a look finds nobody, and the next comes no sooner for it. */
static void test_looks(struct front_h2_kit *k)
{
    enum { HOLDERS = 150, EACH = 60 << 10 };
    static struct fake f[HOLDERS];
    struct memory_opts o = {.moved = moved_by, .idle = never_idle, .end = end_fake};
    struct memory *m = memory_new(k->front.loop, &o);
    struct memory_address address;

    if (m == NULL)
        tap_bail("out of memory");
    clock_fake(clock_us(), clock_wall_us());
    memory_set_limit(m, 8 << 20);
    memory_address_enter(m, &address);
    asked = 0;
    for (int i = 0; i < HOLDERS; i++) {
        memory_enter(m, &f[i].holder, &address.held);
        quota_add(&f[i].holder.held, EACH);
    }
    later(k, 0);
    is_u64(asked, HOLDERS, "all are looked at");
    later(k, 60);
    is_u64(asked, HOLDERS, "nobody could be ended: not again so soon");
    later(k, 60);
    is_u64(asked, 2 * HOLDERS, "but after a while");
    for (int i = 0; i < HOLDERS; i++)
        end_fake(&f[i].holder);
    end_memory(m, &address, 1);
    clock_real();
}

static bool has_ended(void *arg)
{
    return ((struct fake *)arg)->ended;
}

/* Who holds exactly as much as much is belongs to those, and is no longer asked whether he is idle. Nobody is
 * still who came to it just now, although nothing moved before. */
static void test_exactly_much(struct front_h2_kit *k)
{
    struct memory_address address[1];
    struct memory *m = new_memory(k, address, 1, end_fake);
    struct fake f[5] = {0};

    clock_fake(clock_us(), clock_wall_us());
    for (int i = 0; i < 5; i++)
        memory_enter(m, &f[i].holder, &address[0].held);
    f[0].idle = true;
    hold(&f[0], 64 << 10);
    hold(&f[1], 7900 << 10);
    later(k, 2000);
    ok(f[1].ended && !f[0].ended, "the greediest ends, not the idle one of 64 KiB before him: %d%d", f[0].ended,
       f[1].ended);
    hold(&f[2], 3 << 20);
    later(k, 2000);
    hold(&f[3], 4200 << 10);
    ok(h2_kit_until(k, has_ended, &f[2]), "nor the greediest, who has only now come to hold much");
    ok(!f[3].ended, "and it is enough that another one has ended");
    clock_real();
    for (int i = 0; i < 5; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    end_memory(m, address, 1);
}

/* Nor is it remembered that he was, of who held little then. */
static void test_was_idle(struct front_h2_kit *k)
{
    struct memory_address address[2];
    struct memory *m = new_memory(k, address, 2, end_fake);
    struct fake f[3] = {0};

    clock_fake(clock_us(), clock_wall_us());
    for (int i = 0; i < 3; i++)
        memory_enter(m, &f[i].holder, &address[i == 0].held);
    f[1].idle = true;
    hold(&f[1], 32 << 10);
    hold(&f[0], 7900 << 10);
    later(k, 0);
    ok(!f[0].ended && !f[1].ended, "nobody of another address, nor who has only now come to hold much");
    end_fake(&f[0].holder);
    hold(&f[1], 64 << 10);
    hold(&f[2], 7900 << 10);
    later(k, 2000);
    ok(f[2].ended && !f[1].ended, "the greediest ends, and not before him who was idle: %d%d", f[1].ended, f[2].ended);
    clock_real();
    for (int i = 1; i < 3; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    end_memory(m, address, 2);
}

/* ---- many addresses ---- */

enum { SILENT = 3000 };

/* One is greedy and moves, so that nobody is looked for first; one is between two requests. */
struct many {
    struct memory *m;
    struct memory_address *address; /* greedy, modest, silent ones */
    struct fake greedy[7], modest;
};

static struct many *many_addresses(struct front_h2_kit *k)
{
    struct many *y = calloc(1, sizeof(*y));

    y->address = calloc(2 + SILENT, sizeof(*y->address));
    clock_fake(clock_us(), clock_wall_us());
    y->m = new_memory(k, y->address, 2 + SILENT, end_fake);
    memory_enter(y->m, &y->modest.holder, &y->address[1].held);
    y->modest.idle = true;
    quota_add(&y->modest.holder.held, MODEST);
    for (int i = 0; i < 7; i++) {
        memory_enter(y->m, &y->greedy[i].holder, &y->address[0].held);
        quota_add(&y->greedy[i].holder.held, 1 << 20);
    }
    return y;
}

static void end_many(struct many *y)
{
    for (int i = 0; i < 7; i++)
        if (!y->greedy[i].ended)
            end_fake(&y->greedy[i].holder);
    if (!y->modest.ended)
        end_fake(&y->modest.holder);
    end_memory(y->m, y->address, 2 + SILENT);
    clock_real();
    free(y->address);
    free(y);
}

static void test_silent_addresses(struct front_h2_kit *k)
{
    struct many *y = many_addresses(k);
    unsigned ended = 0;

    later(k, 0);
    ok(memory_refuses(&y->greedy[0].holder), "one address holds too much");
    ok(!memory_refuses(&y->modest.holder), "and next to thousands of others that hold nothing a modest one may go on");
    for (int look = 0; look < 20; look++) {
        for (int i = 0; i < 7; i++)
            y->greedy[i].moved += 1 << 20;
        later(k, 110);
    }
    ok(!y->modest.ended, "nor does it end, though it alone is between requests");
    later(k, 1200);
    later(k, 110);
    for (int i = 0; i < 7; i++)
        ended += y->greedy[i].ended;
    is_u64(ended, 1, "the greedy one makes room");
    ok(!y->modest.ended, "alone");
    end_many(y);
}

/* Each of them holds a little. */
static void test_crowd_of_addresses(struct front_h2_kit *k)
{
    enum { N = 100, EACH = 90 << 10 };
    static struct memory_address address[N];
    static struct fake f[N];
    struct memory *m = new_memory(k, address, N, end_fake);
    unsigned ended = 0;

    for (int i = 0; i < N; i++) {
        memory_enter(m, &f[i].holder, &address[i].held);
        f[i].idle = true;
        quota_add(&f[i].holder.held, i < N / 2 ? EACH / 2 : i == N - 1 ? 3 * EACH : EACH);
    }
    while (memory_all(m)->held < memory_all(m)->mark)
        quota_add(&f[N - 2].holder.held, EACH);
    ok(h2_kit_until(k, has_enough, m), "where a little for each is too much, there is room in the end");
    for (int i = 0; i < N; i++)
        ended += f[i].ended && i < N / 2;
    is_u64(ended, 0, "and who holds less than an equal share of all has not made it");
    for (int i = 0; i < N; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    end_memory(m, address, N);
}

/* Who holds little again takes no share any more. */
static void test_large_is_over(struct front_h2_kit *k)
{
    enum { N = 20 };
    static struct memory_address address[N];
    static struct fake f[N];
    struct memory *m = new_memory(k, address, N, end_fake);

    clock_fake(clock_us(), clock_wall_us());
    for (int i = 0; i < N; i++) {
        memory_enter(m, &f[i].holder, &address[i].held);
        quota_add(&f[i].holder.held, LIMIT_CLIENT_LITTLE);
        if (i > 2)
            quota_give(&f[i].holder.held, LIMIT_CLIENT_LITTLE);
    }
    quota_add(&f[0].holder.held, 5 << 20);
    quota_add(&f[1].holder.held, 1792 << 10);
    later(k, 110);
    ok(memory_refuses(&f[0].holder), "more than a third is too much");
    ok(!memory_refuses(&f[1].holder), "less is not, though many more held something once");
    for (int i = 0; i < N; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    end_memory(m, address, N);
    clock_real();
}

/* ---- HTTP/1.1 ---- */

static void http1_head(struct front_kit *w)
{
    static char value[HEAD];
    struct front_client c;

    w->opts.max_head_bytes = 1 << 20;
    front_kit_start(w);
    client_open(w, &c);
    memset(value, 'v', sizeof(value));
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nX-Long: ");
    for (size_t at = 0; at < sizeof(value); at += 16000) {
        client_send_bytes(&c, slice_of(value + at, 16000));
        loop_run_once(w->loop, 1);
    }
    front_kit_settle(w);
    ok(front_memory(w->front) >= HEAD, "half a head is held (%zu bytes)", front_memory(w->front));
    client_send(&c, "\r\n\r\n");
    ok(front_kit_handled(w, 1), "a whole one");
    ok(front_memory(w->front) >= HEAD, "is held as well (%zu bytes)", front_memory(w->front));
    expect_charged(w->front, w->x);
    exchange_forget_request(w->x);
    front_kit_settle(w);
    ok(front_memory(w->front) < 128 << 10, "until it is forgotten (%zu bytes)", front_memory(w->front));
    client_close(&c, STREAM_CLOSE_ABORT);
    ok(front_kit_empty(w), "over");
    front_kit_settle(w);
    is_u64(front_memory(w->front), 0, "nothing is left");
}

static bool answer_given_up(void *arg)
{
    return front_kit_metric(arg, "mvproxy_front_answers_not_taken_total", NULL) > 0;
}

static void http1_shut(struct front_kit *w)
{
    static char piece[16 << 10];
    struct front_client c;

    w->opts.body_timeout_ms = 300;
    front_kit_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    ok(front_kit_handled(w, 1), "a client that does not read");
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (int turns_in_vain = 0; turns_in_vain < 20; turns_in_vain++) {
        while (!exchange_congested(w->x)) {
            exchange_body(w->x, slice_of(piece, sizeof(piece)));
            turns_in_vain = 0;
        }
        loop_run_once(w->loop, 1);
    }
    ok(front_kit_until(w, answer_given_up, w), "has its answer given up");
    ok(front_kit_empty(w), "and loses its connection");
    is_int((int)w->gone, 1, "the proxy is told");
    is_double(front_kit_closed(w, "read_timeout"), 1, "counted");
    client_close(&c, STREAM_CLOSE_ABORT);
}

static void on_tunnel(struct stream *s, enum stream_event ev, void *arg)
{
    if (ev != STREAM_FAILED)
        return;
    *(bool *)arg = true;
    stream_close(s, STREAM_CLOSE_ABORT);
}

static bool is_set(void *arg)
{
    return *(bool *)arg;
}

/* A tunnel belongs to others, but what waits in it for a client that does not read is held for a client all the same.
 */
static void upgraded(struct front_kit *w)
{
    static char piece[16 << 10];
    struct stream *tunnel;
    bool failed = false;
    struct front_client c;

    w->opts.max_memory = 576 << 10; /* a buffer doubles: it has room for 512 KiB, and not for more */
    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    ok(front_kit_handled(w, 1), "an upgrade");
    tunnel = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "websocket"));
    stream_set_owner(tunnel, on_tunnel, &failed);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    /* To between seven eighths and all of it: at the limit itself the stream would fail by itself. */
    while (front_memory(w->front) < 512 << 10 && !failed) {
        (void)!stream_write(tunnel, slice_of(piece, sizeof(piece)));
        loop_run_once(w->loop, 0);
    }
    ok(!failed, "a tunnel that holds much");
    ok(front_kit_until(w, is_set, &failed), "ends when there is no memory left");
    client_close(&c, STREAM_CLOSE_ABORT);
    front_kit_settle(w);
    is_u64(front_memory(w->front), 0, "and gives back what it held");
}

static const struct h2_kit_story stories[] = {
    {"answered heads", test_answered_heads},
    {"limit", test_limit},
    {"endless heads", test_endless_heads},
    {"greediest", test_greediest},
    {"many between requests", test_crowd_idle},
    {"many that wait", test_crowd_busy},
    {"a share is left", test_share_is_left},
    {"the last sixteenth", test_last_sixteenth},
    {"looks", test_looks},
    {"silent addresses", test_silent_addresses},
    {"crowd of addresses", test_crowd_of_addresses},
    {"large is over", test_large_is_over},
    {"exactly much", test_exactly_much},
    {"was idle", test_was_idle},
};

static const struct front_kit_story stories1[] = {
    {"HTTP/1.1, head", http1_head},
    {"HTTP/1.1, not read", http1_shut},
    {"upgraded", upgraded},
};

int main(int argc, char **argv)
{
    h2_kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    front_kit_run(stories1, ROWS(stories1));
    return tap_end();
}
