/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that their readers have not taken: counted, given back, and refused when libevent has no memory for one. */
#include "admin/untaken.h"

#include <event2/buffer.h>

#include "admin/admin.h"
#include "admin/health.h"
#include "base/buf.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "net/loop.h"

/* The linker puts these in between. */
int __real_evbuffer_add_reference(struct evbuffer *b, const void *data, size_t n, evbuffer_ref_cleanup_cb fn,
                                  void *arg);
int __wrap_evbuffer_add_reference(struct evbuffer *b, const void *data, size_t n, evbuffer_ref_cleanup_cb fn,
                                  void *arg);
struct evhttp *__real_evhttp_new(struct event_base *b);
struct evhttp *__wrap_evhttp_new(struct event_base *b);
static bool no_memory;

int __wrap_evbuffer_add_reference(struct evbuffer *b, const void *data, size_t n, evbuffer_ref_cleanup_cb fn, void *arg)
{
    return no_memory ? -1 : __real_evbuffer_add_reference(b, data, n, fn, arg);
}

struct evhttp *__wrap_evhttp_new(struct event_base *b)
{
    return no_memory ? NULL : __real_evhttp_new(b);
}

static void answers(void)
{
    struct untaken *u = untaken_new();
    struct evbuffer *out = evbuffer_new();
    struct buf body;

    buf_init(&body, 100);
    buf_append_str(&body, "0123456789");
    no_memory = true;
    ok(!untaken_add(u, out, &body), "no memory in libevent: refused");
    no_memory = false;
    is_u64(untaken_bytes(u), 0, "and not counted");
    is_u64(buf_len(&body), 10, "the body is its owner's as before");
    mem_fail_nth(1);
    ok(!untaken_add(u, out, &body), "nor is there any of ours");
    mem_fail_nth(0);
    ok(untaken_add(u, out, &body), "taken");
    is_u64(untaken_bytes(u), 10, "counted");
    ok(evbuffer_drain(out, 10) == 0 && untaken_bytes(u) == 0, "read, and counted no more");
    buf_init(&body, 100);
    buf_append_str(&body, "0123456789");
    ok(untaken_add(u, out, &body), "another");
    untaken_unref(u);
    ok(evbuffer_drain(out, 4) == 0 && evbuffer_get_length(out) == 6, "the listener has gone, and what is left stays");
    evbuffer_free(out);
}

static void listener(void)
{
    struct metrics *m = metrics_new();
    struct loop *l = loop_new(m);
    struct health *h = health_new();
    struct err err = {""};
    struct admin_opts o = {.bind_address = "127.0.0.1", .version = "0.0", .metrics = m, .health = h};

    no_memory = true;
    is_null(admin_new(l, &o, &err), "no memory for the listener: there is none");
    no_memory = false;
    is_str(err.text, "admin listener: out of memory", "which is said");
    loop_free(l);
    health_free(h);
    metrics_free(m);
}

int main(void)
{
    answers();
    listener();
    return tap_end();
}
