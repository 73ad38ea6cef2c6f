/* SPDX-License-Identifier: Apache-2.0 */
/* Origins by themselves: which are the same, what is told of them, and what is left of one without its whole. */
#include "back/origin.h"

#include "base/clock.h"
#include "net/connect.h"
#include "net/egress_proxy.h"
#include "net/tls_ctx.h"
#include "unit/back/kit.h"

static bool allow(const struct sockaddr *addr, void *arg)
{
    (void)addr;
    (void)arg;
    return true;
}

static struct origin *made(struct back_kit *k, const struct origin_opts *o)
{
    struct origin *made = origin_new(k->back, o);

    if (made == NULL)
        tap_bail("no memory");
    return made;
}

/* Each difference alone. */
static void same(void)
{
    static struct back_kit k;
    struct egress_proxy *egress;
    struct origin *a, *b;

    back_kit_open(&k, true, 0);
    egress = connect_egress_new(&(struct egress_proxy_opts){.host = "127.0.0.1", .port = 1});
    if (egress == NULL)
        tap_bail("no memory");
    {
        const struct origin_opts one = {.name = "a",
                                        .server = "node-a",
                                        .host = "10.0.0.1",
                                        .port = 6443,
                                        .tls_cert = k.client_cert_tls,
                                        .tls_no_cert = k.client_tls,
                                        .max_connections = 2,
                                        .connect_timeout_ms = 3,
                                        .idle_timeout_ms = 4,
                                        .allow = allow,
                                        .allow_arg = &k,
                                        .egress = egress};
        struct origin_opts other[13];

        for (size_t i = 0; i < ROWS(other); i++)
            other[i] = one;
        other[1].name = "b";
        other[2].server = "node-b";
        other[3].host = "10.0.0.2";
        other[4].port++;
        other[5].tls_cert = k.client_tls;
        other[6].tls_no_cert = k.client_cert_tls;
        other[7].max_connections++;
        other[8].connect_timeout_ms++;
        other[9].idle_timeout_ms++;
        other[10].allow = NULL;
        other[11].allow_arg = NULL;
        other[12].egress = NULL;
        a = made(&k, &one);
        for (size_t i = 0; i < ROWS(other); i++) {
            b = made(&k, &other[i]);
            is_int(origin_same(a, b), i == 0, "the same but for difference %zu", i);
            is_int(origin_same(b, a), i == 0, "in either order");
            origin_unref(b);
            other[i].tls_required = true;
            b = made(&k, &other[i]);
            ok(!origin_same(a, b), "and one that needs TLS is another");
            origin_unref(b);
        }
    }
    egress_proxy_unref(egress);
    is_str(egress_proxy_text(a->opts.egress), "127.0.0.1:1", "an origin holds the proxy on its way");
    origin_unref(a);
    back_kit_close(&k);
}

/* Nobody listens there. */
static void told(void)
{
    static struct back_kit k;
    uint64_t for_ms = 1;
    struct call own, c;

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, 0);
    ok(!origin_unreachable(k.origin), "nothing has failed yet");
    ok(origin_ejection(k.origin, &for_ms) == NULL, "it is not ejected");
    is_u64(for_ms, 1, "so that there is no time for which it is");
    call_init(&own, &k, "GET", "/own");
    own.opts.own = true;
    call_send(&own);
    is_u64(origin_clients_in_flight(k.origin), 0, "a question of our own is no client's");
    call_start(&c, &k, "GET", "/client");
    is_u64(origin_clients_in_flight(k.origin), 1, "a client's request is");
    is_u64(origin_in_flight(k.origin), 2, "in all");
    call_free(&own);
    is_u64(origin_clients_in_flight(k.origin), 1, "the other one goes on");
    call_free(&c);
    is_u64(origin_in_flight(k.origin), 0, "over");
    settle(k.loop); /* what was dialled for them has connected */
    origin_connect_failed(k.origin, "refused");
    ok(origin_unreachable(k.origin), "no connection can be made");
    while (origin_ejection(k.origin, NULL) == NULL)
        origin_connect_failed(k.origin, "refused");
    clock_fake(clock_us() + 234000, clock_wall_us());
    settle(k.loop);
    is_str(origin_ejection(k.origin, &for_ms), "refused", "it is ejected for that");
    is_u64(for_ms, 234, "since then");
    origin_connected(k.origin);
    ok(!origin_unreachable(k.origin), "it can be reached again");
    clock_real();
    back_kit_close(&k);
}

/* Somebody still holds it when the whole is gone: it is of no use, and does no harm. */
static void outlives_the_whole(void)
{
    static struct back_kit k;
    struct origin *o;

    back_kit_open(&k, false, 0);
    o = origin_ref(k.origin);
    while (origin_ejection(o, NULL) == NULL)
        origin_connect_failed(o, "refused");
    back_free(k.back);
    ok(origin_healthy(o), "nobody judges it");
    ok(origin_ejection(o, NULL) == NULL, "nor tells that it is ejected");
    origin_suspect(o);
    origin_note_time(o, 1);
    origin_note_repeat(o, false);
    origin_note_refused_repeat(o);
    ok(!origin_may_repeat(o, false), "and nothing is sent there again");
    is_str(origin_name(o), "server", "it has its name");
    origin_unref(o);
    k.back = back_new(k.loop, NULL);
    origin_unref(k.origin);
    k.origin = made(&k, &(struct origin_opts){.name = "server", .host = "127.0.0.1"});
    back_kit_close(&k);
}

/* What its metrics need may be missing, and nothing else. */
static void without_memory(void)
{
    enum { OWN = 5, OF_A_POOL = 4 };
    static struct back_kit k;
    unsigned failed = 0;
    uint64_t before, calls = 1;

    back_kit_open(&k, true, 0);
    for (uint64_t nth = 1; nth <= calls; nth++) {
        const struct origin_opts opts = {.name = "other", .host = "10.0.0.1", .tls_cert = k.client_tls};
        struct origin *o;

        mem_fail_nth(nth);
        before = mem_calls();
        o = origin_new(k.back, &opts);
        calls = mem_calls() - before;
        mem_fail_nth(0);
        failed += o == NULL;
        calls = o == NULL ? nth + 1 : calls;
        if (o != NULL)
            is_str(origin_address(o), "10.0.0.1:0", "whole but for allocation %u", (unsigned)nth);
        origin_unref(o);
    }
    ok(failed >= OWN + POOL_KINDS * OF_A_POOL, "without one of %u it is not made", failed);
    back_kit_close(&k);
}

/* As they stand in logs and metrics: each has its own. */
static void reasons(void)
{
    for (enum close_reason i = 0; i < CLOSE_REASONS; i++) {
        ok(origin_close_text(i) != NULL && strlen(origin_close_text(i)) > 3, "reason %d has a text", i);
        for (enum close_reason n = 0; n < i; n++)
            ok(strcmp(origin_close_text(i), origin_close_text(n)) != 0, "which is not that of %d", n);
    }
    is_str(origin_close_text(CLOSE_IDLE_TIMEOUT), "idle_timeout", "one of them");
}

int main(void)
{
    same();
    told();
    outlives_the_whole();
    without_memory();
    reasons();
    return tap_end();
}
