/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation fails in turn, from the connection to the answer: a client gets the answer that it would have got,
 * or sees that there is none; nothing is kept of it, and the next client is served.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "lib/tap.h"
#include "unit/front/kit.h"
#include "unit/net/fixture.h"

enum { MOST = 400 };

#define H1_POST "POST /whole HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"
#define LONG_FIELD "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
#define LONG_FIELDS                                                                                                    \
    LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD      \
        LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD LONG_FIELD

/* POST /whole at h, a byte of 3 in its body, and GET /sync. */
static const char h2_post[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                              "\0\0\0\4\0\0\0\0\0"
                              "\0\0\15\1\4\0\0\0\1\203\207\4\6/whole\1\1h"
                              "\0\0\3\0\1\0\0\0\1abc"
                              "\0\0\14\1\5\0\0\0\3\202\207\4\5/sync\1\1h";

static const struct scene {
    const char *name;
    bool tls, http2;
    struct slice request;
    const char *answers[2]; /* what it is answered; the second may be NULL */
} scenes[] = {
    {"HTTP/1.1", false, false, SLICE_LIT(H1_POST), {"in sync", NULL}},
    {"HTTP/1.1 over TLS", true, false, SLICE_LIT(H1_POST), {"in sync", NULL}},
    {"two requests",
     false,
     false,
     SLICE_LIT("GET /sync HTTP/1.1\r\nHost: h\r\nX-Long: " LONG_FIELDS LONG_FIELDS LONG_FIELDS LONG_FIELDS
               "\r\n\r\n" H1_POST),
     {"sync", "in sync"}},
    {"a bad request", false, false, SLICE_LIT("GET /sync HTTP/1.1\r\n\r\n"), {"400", NULL}},
    {"HTTP/2", true, true, {h2_post, sizeof(h2_post) - 1}, {"in sync", "sync"}},
};

struct goal {
    const struct scene *scene;
    struct front_client *c;
};

static bool contains(struct front_client *c, const char *text)
{
    return buf_len(&c->in) > 0 && memmem(buf_slice(&c->in).p, buf_len(&c->in), text, strlen(text)) != NULL;
}

static bool is_whole(const struct goal *g)
{
    return contains(g->c, g->scene->answers[0]) &&
           (g->scene->answers[1] == NULL || contains(g->c, g->scene->answers[1]));
}

static bool has_goaway(struct front_client *c)
{
    static const char resets[][9] = {{0, 0, 4, 3, 0, 0, 0, 0, 1}, {0, 0, 4, 3, 0, 0, 0, 0, 3}};

    for (unsigned i = 0; i < 2; i++)
        if (buf_len(&c->in) > 0 && memmem(buf_slice(&c->in).p, buf_len(&c->in), resets[i], 9) != NULL)
            return true;
    return false;
}

static bool is_over(void *arg)
{
    struct goal *g = arg;

    return is_whole(g) || g->c->end != CLIENT_OPEN || contains(g->c, "503") || (g->scene->http2 && has_goaway(g->c));
}

/* True: answered as if nothing had failed. */
static bool tell(struct front_kit *k, const struct scene *s, uint64_t nth, uint64_t *calls)
{
    uint64_t before;
    struct front_client c;
    struct goal g = {s, &c};
    bool whole;

    (void)front_kit_sunk(k);
    client_start(k, &c);
    client_send_bytes(&c, s->request);
    before = mem_calls();
    mem_fail_nth(nth);
    ok(front_kit_until(k, is_over, &g), "%s, %u: over", s->name, (unsigned)nth);
    mem_fail_nth(0);
    *calls = mem_calls() - before;
    whole = is_whole(&g);
    client_close(&c, STREAM_CLOSE_ABORT);
    if (!front_kit_empty(k))
        tap_bail("%s, %u: a connection stays", s->name, (unsigned)nth);
    k->x = NULL;
    return whole;
}

static void torture(const struct scene *s)
{
    unsigned failed = 0;
    uint64_t calls = 0, ignored;
    size_t kept;
    struct front_kit k;

    if (s->http2)
        front_kit_init_http2(&k);
    else
        front_kit_init(&k, s->tls);
    front_kit_start(&k);
    ok(tell(&k, s, 0, &calls), "%s: with all memory", s->name);
    front_kit_settle(&k);
    kept = front_memory(k.front);
    is_u64(kept, 0, "nothing is held then");
    for (uint64_t nth = 1; nth <= calls && nth < MOST; nth++) {
        failed += !tell(&k, s, nth, &ignored);
        front_kit_settle(&k);
        is_u64(front_memory(k.front), 0, "nor when it fails");
        if (!tell(&k, s, 0, &calls))
            tap_bail("%s, %u: the next one is not served", s->name, (unsigned)nth);
    }
    ok(failed > 0, "%s: %llu allocations, %u failures that the client saw", s->name, (unsigned long long)calls, failed);
    is_u64(front_exchanges(k.front), 0, "no request is counted any more");
    front_kit_end(&k);
}

/* ---- the front itself ---- */

static const char *const from_loopback[] = {"127.0.0.0/8", NULL}, *const from_elsewhere[] = {"10.0.0.0/8", NULL};

static void test_front_new(void)
{
    unsigned failed = 0;
    bool all = false;

    for (uint64_t nth = 1; nth < MOST && !all; nth++) {
        struct err err = {""};
        struct front_kit k;
        uint64_t before;

        front_kit_init(&k, false);
        k.opts.proxy_protocol_from = from_loopback;
        before = mem_calls();
        mem_fail_nth(nth);
        k.front = front_new(k.loop, k.metrics, &k.opts, &err);
        all = mem_calls() - before < nth;
        mem_fail_nth(0);
        if (k.front == NULL) {
            failed++;
            ok(strstr(err.text, "memory") != NULL, "allocation %u: %s", (unsigned)nth, err.text);
        }
        ok(!all || k.front != NULL, "with all of them there is one");
        front_kit_end(&k);
    }
    ok(all && failed > 4, "a front is made, or it is said that there is no memory: %u times", failed);
}

/* Balancers are those of before then: who comes from there without a header is nobody. */
static void test_front_update(void)
{
    char *said = NULL;
    size_t n_said;
    FILE *log = open_memstream(&said, &n_said);
    struct front_client c;
    struct front_kit k;

    log_set_verbosity(0);
    log_set_stream(log);
    front_kit_init(&k, false);
    k.opts.proxy_protocol_from = from_loopback;
    front_kit_start(&k);
    k.opts.proxy_protocol_from = from_elsewhere;
    mem_fail_nth(1);
    front_update(k.front, &k.opts);
    mem_fail_nth(0);
    client_open(&k, &c);
    client_ask(&c, "/sync");
    ok(client_ended(&c) != CLIENT_OPEN, "without memory for other balancers the old ones are asked for their header");
    is_double(front_kit_closed(&k, "proxy_header"), 1, "counted");
    client_close(&c, STREAM_CLOSE_NOW);
    front_update(k.front, &k.opts);
    client_open(&k, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "with it the new ones are");
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_end(&k);
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(said, "Out of memory: proxy-protocol-from stays as it was") != NULL, "which is said");
    free(said);
}

int main(void)
{
    log_set_verbosity(-1);
    for (size_t i = 0; i < ROWS(scenes); i++)
        torture(&scenes[i]);
    test_front_new();
    test_front_update();
    return tap_end();
}
