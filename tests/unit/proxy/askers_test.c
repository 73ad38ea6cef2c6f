/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks for what not all servers serve is remembered when his request ends; who asks for the rest is not. */
#include <stdio.h>

#include "base/clock.h"
#include "proxy/askers.h"
#include "unit/proxy/kit.h"

#define FIELDS " HTTP/1.1\r\nHost: k\r\nUser-Agent: tool/1 (more)\r\nAuthorization: Bearer t\r\n"

static void note(const struct asker *a, void *arg)
{
    buf_printf(arg, "jobs by %.*s at %.*s %llu; ", (int)a->who.user_agent.n, a->who.user_agent.p, (int)a->who.address.n,
               a->who.address.p, (unsigned long long)a->asked.requests);
}

static void remembered(struct proxy_kit *w, const char *want, const char *name)
{
    static const struct gvr jobs = {{"batch", 5}, {"v1", 2}, {"jobs", 4}};
    struct buf out;

    buf_init(&out, 1 << 16);
    askers_each(proxy_askers(w->proxy), &jobs, note, &out);
    is_slice(buf_slice(&out), want, "%s", name);
    buf_free(&out);
}

/* What it answers, and what is remembered then; jobs are the peer's alone. */
static const struct {
    const char *name, *target;
    bool peer; /* it goes to the peer */
    const char *answer, *want;
} rows[] = {
    {"what one server serves", JOBS, true, "200 OK", "jobs by tool/1 at 127.0.0.1 1; "},
    {"and says that it has not", JOBS "/x", true, "404 Not Found", "jobs by tool/1 at 127.0.0.1 1; "},
    {"and fails at", JOBS, true, "500 Oh", "jobs by tool/1 at 127.0.0.1 1; "},
    {"what he may not have", JOBS, true, "403 Forbidden", ""},
    {"as nobody", JOBS, true, "401 Unauthorized", ""},
    {"what all serve", PODS, false, "200 OK", ""},
    {"no resource", "/version", false, "200 OK", ""},
};

/* A watch counts when it begins, and when it is still there an hour later. */
static void watch(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 1);
    w.local_has_jobs = false;
    c = client(&w);
    say(c, "GET " JOBS "?watch=1" FIELDS "\r\n");
    s = conn(&w.peers[0], 0);
    ok(has(s, JOBS), "a watch");
    remembered(&w, "", "not before the server has taken it");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n");
    ok(has(c, "event"), "is open");
    remembered(&w, "jobs by tool/1 at 127.0.0.1 1; ", "counts while it is open");
    remembered(&w, "jobs by tool/1 at 127.0.0.1 1; ", "once");
    clock_fake(clock_us() + (uint64_t)3600 * 1000000, clock_wall_us());
    remembered(&w, "jobs by tool/1 at 127.0.0.1 2; ", "and again when it has been so for an hour");
    say(s, "0\r\n\r\n");
    ok(has(c, "0\r\n\r\n"), "it ends");
    remembered(&w, "jobs by tool/1 at 127.0.0.1 2; ", "which counts no more");
    proxy_kit_close(&w);
    clock_real();
}

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        char text[512];
        struct proxy_kit w;
        struct played_end *c, *s;

        proxy_kit_open(&w, 1);
        w.local_has_jobs = false;
        c = client(&w);
        (void)snprintf(text, sizeof(text), "GET %s%s\r\n", rows[i].target, FIELDS);
        say(c, text);
        s = conn(rows[i].peer ? &w.peers[0] : &w.local, 0);
        ok(has(s, rows[i].target), "%s: asked", rows[i].name);
        (void)snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok", rows[i].answer);
        say(s, text);
        ok(has(c, "\r\n\r\nok"), "%s: answered", rows[i].name);
        remembered(&w, rows[i].want, rows[i].name);
        proxy_kit_close(&w);
    }
    watch();
    return tap_end();
}
