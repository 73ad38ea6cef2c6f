/* SPDX-License-Identifier: Apache-2.0 */
/* What clients make us hold, in bytes: charged, bounded, given back. */
#include "front/memory.h"

#include "base/limits.h"
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
        kit_append_dear_head(b, i, FIELDS, NULL);
}

static void configure(struct kit *k, size_t max_memory)
{
    k->w.opts.max_head_bytes = 1 << 20;
    k->w.opts.max_memory = max_memory;
    front_update(k->w.front, &k->w.opts);
}

static bool all_held(void *arg)
{
    struct kit *k = arg;

    return k->n_held >= 4;
}

/* 80 of these connections held 347 MB with 400 KB sent. */
static void test_answered_heads(struct kit *k)
{
    struct buf b;

    configure(k, 0);
    kit_connect(k, true, false);
    ok(front_memory(k->w.front) >= 12 << 10, "a connection is charged with what its TLS holds, roughly");
    raw_heads(&b, 4);
    kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
    ok(kit_until(k, all_held, k), "four heads");
    ok(front_memory(k->w.front) >= 4 * HEAD, "are held while they are needed (%zu bytes)", front_memory(k->w.front));
    kit_reply(&k->held[0], 403, "no");
    exchange_respond(k->held[1].x, kit_head(&k->held[1], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_forget_request(k->held[1].x);
    is_u64(exchange_request(k->held[1].x)->target.n, 1, "method and target stay");
    exchange_abort(k->held[2].x, "test");
    k->held[2].x = NULL;
    kit_settle(k);
    ok(front_memory(k->w.front) < HEAD + (256 << 10), "what was answered, forgotten or given up is not (%zu bytes)",
       front_memory(k->w.front));
    kit_raw(k, (const unsigned char[]){0, 0, 4, 3, 0, 0, 0, 0, 7, 0, 0, 0, 8}, 13);
    ok(kit_told(k, &k->held[3], "gone"), "the last one is reset");
    kit_settle(k);
    ok(front_memory(k->w.front) < 256 << 10, "and gone (%zu bytes)", front_memory(k->w.front));
    kit_disconnect(k);
    ok(world_empty(&k->w), "and the connection");
    kit_settle(k);
    is_u64(front_memory(k->w.front), 0, "nothing is left");
}

struct pressure {
    struct kit *k;
    size_t limit, most;
    double refused;
};

/* Looks at each turn. */
static bool under_pressure(void *arg)
{
    struct pressure *p = arg;
    size_t now = front_memory(p->k->w.front);

    p->most = now > p->most ? now : p->most;
    p->refused = world_metric(&p->k->w, "mvproxy_front_refusals_total", "429");
    return p->refused > 0 && world_closed(&p->k->w, "memory") > 0;
}

static void test_limit(struct kit *k)
{
    enum { CLIENTS = 8, LIMIT = 8 << 20 };
    struct pressure p = {.k = k, .limit = LIMIT};
    struct stream *s[CLIENTS];
    struct buf b;
    struct req *r;

    configure(k, LIMIT);
    raw_heads(&b, 4);
    for (unsigned i = 0; i < CLIENTS; i++) {
        kit_connect(k, true, false);
        s[i] = k->s;
        kit_raw(k, buf_slice(&b).p, buf_len(&b));
        for (int turn = 0; turn < 10; turn++) {
            kit_settle(k);
            (void)under_pressure(&p);
        }
    }
    buf_free(&b);
    ok(kit_until(k, under_pressure, &p), "25 MB of heads: %u requests are held, %.0f refused, %.0f connections ended",
       k->n_held, p.refused, world_closed(&k->w, "memory"));
    ok(p.most <= LIMIT, "and never more than the limit is held (%zu bytes)", p.most);
    ok(p.most > LIMIT / 2, "nor much less");
    kit_connect(k, false, false);
    r = kit_get(k, "/sync");
    ok(kit_closed(k, r) && r->status == 200, "then there is room for others");
    kit_disconnect(k);
    for (unsigned i = 0; i < CLIENTS; i++)
        stream_close(s[i], STREAM_CLOSE_ABORT);
    ok(world_empty(&k->w), "all are gone");
    kit_settle(k);
    is_u64(front_memory(k->w.front), 0, "nothing is left");
}

/* At the limit itself not even a handshake succeeds: the last eighth is for others. */
static void test_endless_heads(struct kit *k)
{
    enum { CLIENTS = 12, LIMIT = 8 << 20, SLACK = 512 << 10, TAIL = 10 };
    struct pressure p = {.k = k, .limit = LIMIT};
    struct stream *s[CLIENTS];
    struct buf b;

    configure(k, LIMIT);
    raw_heads(&b, 1);
    for (unsigned i = 0; i < CLIENTS; i++) {
        kit_connect(k, true, false);
        s[i] = k->s;
        kit_raw(k, buf_slice(&b).p, buf_len(&b) - TAIL);
        kit_settle(k);
        (void)under_pressure(&p);
    }
    buf_free(&b);
    ok(p.most > LIMIT - LIMIT / 8 - HEAD, "heads that do not end hold much (%zu bytes)", p.most);
    ok(p.most <= LIMIT - LIMIT / 8 + SLACK, "but leave room for others (%zu bytes)", p.most);
    for (unsigned i = 0; i + 1 < CLIENTS; i++)
        stream_close(s[i], STREAM_CLOSE_ABORT);
    kit_disconnect(k);
    ok(world_empty(&k->w), "all are gone");
}

/* ---- who is the greediest ---- */

struct fake {
    struct memory_holder holder;
    uint64_t moved;
    bool ended;
};

static uint64_t moved_by(const struct memory_holder *h)
{
    return list_entry(h, struct fake, holder)->moved;
}

static void end_fake(struct memory_holder *h)
{
    struct fake *f = list_entry(h, struct fake, holder);

    f->ended = true;
    memory_dismiss(h);
    quota_give(&h->held, h->held.held);
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

static void test_greediest(struct kit *k)
{
    struct memory *m = memory_new(k->w.loop, moved_by, end_fake);
    struct fake f[5] = {0};
    struct quota address[2];

    if (m == NULL)
        tap_bail("out of memory");
    memory_set_limit(m, 8 << 20);
    quota_init(&address[0], memory_all(m), 0);
    quota_init(&address[1], memory_all(m), 0);
    for (int i = 0; i < 5; i++)
        memory_enter(m, &f[i].holder, &address[i == 0]);
    hold(&f[0], 2300 << 10); /* more than any other, but alone at its address */
    hold(&f[1], 1 << 20);
    hold(&f[2], 32 << 10);
    hold(&f[3], 2000 << 10); /* takes what it holds */
    ok(!memory_refuses(&f[1].holder, 2), "room for more");
    hold(&f[4], 2100 << 10); /* a few bytes now and then */
    ok(!memory_refuses(&f[0].holder, 2), "at the mark an address below its share may go on");
    ok(memory_refuses(&f[1].holder, 2), "the other may not");
    ok(!quota_take(&f[0].holder.held, 2 << 20), "beyond the limit nobody gets anything");
    ok(kit_until(k, one_ended, f), "who holds much and moves little ends");
    ok(f[4].ended && !f[0].ended && !f[1].ended && !f[2].ended && !f[3].ended,
       "the greediest of the greediest address: %d%d%d%d%d", f[0].ended, f[1].ended, f[2].ended, f[3].ended,
       f[4].ended);
    ok(!memory_refuses(&f[1].holder, 2), "and there is room again");
    for (int i = 0; i < 5; i++)
        if (!f[i].ended)
            end_fake(&f[i].holder);
    memory_free(m);
}

/* ---- an answer that its client does not take ---- */

static bool given_up(void *arg)
{
    return world_metric(&((struct kit *)arg)->w, "mvproxy_front_answers_not_taken_total", NULL) > 0;
}

static void give(struct kit *k, struct held *h, uint64_t bytes)
{
    uint64_t given = 0, before = 0;

    exchange_respond(h->x, kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (int in_vain = 0; in_vain < 20 && given < bytes; in_vain++) {
        given = kit_pump(h, given, bytes);
        if (given > before)
            in_vain = 0;
        before = given;
        loop_run_once(k->w.loop, 1);
    }
}

static void test_window_shut(struct kit *k)
{
    struct req *r[2];

    k->w.opts.body_timeout_ms = 300;
    configure(k, 0);
    kit_connect(k, false, true);
    r[0] = kit_get(k, "/x");
    r[1] = kit_get(k, "/y");
    kit_held(k, 2);
    give(k, &k->held[0], 200000);
    exchange_respond(k->held[1].x, kit_head(&k->held[1], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    ok(kit_until(k, given_up, k), "a client that does not open its window");
    ok(kit_closed(k, r[0]) && r[0]->code == NGHTTP2_CANCEL, "loses that stream");
    is_int(k->held[0].gone, 1, "the proxy is told");
    is_int(k->held[1].gone, 0, "an answer that has nothing to send goes on");
    is_int(k->end, CLIENT_OPEN, "and so does the connection");
}

static void test_socket_shut(struct kit *k)
{
    k->w.opts.body_timeout_ms = 300;
    configure(k, 0);
    kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, kit_get(k, "/x")->id, 64 << 20);
    kit_held(k, 1);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    give(k, &k->held[0], 64 << 20);
    ok(kit_until(k, given_up, k), "a client that does not read its socket");
    ok(world_empty(&k->w), "loses its connection");
    is_double(world_closed(&k->w, "read_timeout"), 1, "counted");
}

/* ---- HTTP/1.1 ---- */

static void http1_head(struct world *w)
{
    static char value[HEAD];
    struct client c;

    w->opts.max_head_bytes = 1 << 20;
    world_start(w);
    client_open(w, &c);
    memset(value, 'v', sizeof(value));
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nX-Long: ");
    for (size_t at = 0; at < sizeof(value); at += 16000) {
        client_send_bytes(&c, slice_of(value + at, 16000));
        loop_run_once(w->loop, 1);
    }
    world_settle(w);
    ok(front_memory(w->front) >= HEAD, "half a head is held (%zu bytes)", front_memory(w->front));
    client_send(&c, "\r\n\r\n");
    ok(world_handled(w, 1), "a whole one");
    ok(front_memory(w->front) >= HEAD, "is held as well (%zu bytes)", front_memory(w->front));
    exchange_forget_request(w->x);
    world_settle(w);
    ok(front_memory(w->front) < 128 << 10, "until it is forgotten (%zu bytes)", front_memory(w->front));
    client_close(&c, STREAM_CLOSE_ABORT);
    ok(world_empty(w), "over");
    world_settle(w);
    is_u64(front_memory(w->front), 0, "nothing is left");
}

static bool answer_given_up(void *arg)
{
    return world_metric(arg, "mvproxy_front_answers_not_taken_total", NULL) > 0;
}

static void http1_shut(struct world *w)
{
    static char piece[16 << 10];
    struct client c;

    w->opts.body_timeout_ms = 300;
    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    ok(world_handled(w, 1), "a client that does not read");
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (int turns_in_vain = 0; turns_in_vain < 20; turns_in_vain++) {
        while (!exchange_congested(w->x)) {
            exchange_body(w->x, slice_of(piece, sizeof(piece)));
            turns_in_vain = 0;
        }
        loop_run_once(w->loop, 1);
    }
    ok(world_until(w, answer_given_up, w), "has its answer given up");
    ok(world_empty(w), "and loses its connection");
    is_int((int)w->gone, 1, "the proxy is told");
    is_double(world_closed(w, "read_timeout"), 1, "counted");
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
static void upgraded(struct world *w)
{
    static char piece[16 << 10];
    struct stream *tunnel;
    bool failed = false;
    struct client c;

    w->opts.max_memory = 560 << 10; /* a buffer doubles: it has room for 512 KiB, and not for more */
    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    ok(world_handled(w, 1), "an upgrade");
    tunnel = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "websocket"));
    stream_set_owner(tunnel, on_tunnel, &failed);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    /* To between seven eighths and all of it: at the limit itself the stream would fail by itself. */
    while (front_memory(w->front) < 512 << 10 && !failed) {
        (void)!stream_write(tunnel, slice_of(piece, sizeof(piece)));
        loop_run_once(w->loop, 0);
    }
    ok(!failed, "a tunnel that holds much");
    ok(world_until(w, is_set, &failed), "ends when there is no memory left");
    client_close(&c, STREAM_CLOSE_ABORT);
    world_settle(w);
    is_u64(front_memory(w->front), 0, "and gives back what it held");
}

static const struct kit_story stories[] = {
    {"answered heads", test_answered_heads}, {"limit", test_limit},
    {"endless heads", test_endless_heads},   {"greediest", test_greediest},
    {"window shut", test_window_shut},       {"socket shut", test_socket_shut},
};

static const struct world_story stories1[] = {
    {"HTTP/1.1, head", http1_head},
    {"HTTP/1.1, not read", http1_shut},
    {"upgraded", upgraded},
};

int main(int argc, char **argv)
{
    kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    world_run(stories1, ROWS(stories1));
    return tap_end();
}
