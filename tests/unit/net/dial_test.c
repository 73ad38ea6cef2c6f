/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to an open stream, or a reason why not. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "net/loop_internal.h"
#include "unit/net/fixture.h"

struct result {
    unsigned calls;
    struct stream *s;
    char failure[256];
    struct end end;
};

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct result *r = arg;

    r->calls++;
    r->s = s;
    if (s != NULL) {
        r->end.s = s;
        stream_set_owner(s, end_fn, &r->end);
    } else {
        snprintf(r->failure, sizeof(r->failure), "%s", failure);
    }
}

static void finish(struct loop *l, struct result *r)
{
    end_release(&r->end);
    settle(l);
}

/* A listening socket on which the kernel alone answers. */
static int listening(int family, unsigned *port, const char *path)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len = family == AF_INET ? sizeof(in) : sizeof(un);
    struct sockaddr *addr = family == AF_INET ? (struct sockaddr *)&in : (struct sockaddr *)&un;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (path != NULL)
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    if (bind(fd, addr, len) != 0 || listen(fd, 5) != 0 || getsockname(fd, addr, &len) != 0)
        tap_bail("listen: %s", strerror(errno));
    if (port != NULL)
        *port = ntohs(in.sin_port);
    return fd;
}

static void test_literal(struct loop *l)
{
    struct result r = {.calls = 0};
    struct dial_opts o = {.host = "127.0.0.1", .timeout_ms = 5000};
    int fd = listening(AF_INET, &o.port, NULL);
    struct dial *d = dial_start(l, &o, on_dialled, &r);

    ok(d != NULL, "a dial starts");
    is_int(r.calls, 0, "nobody is called from inside");
    ok(run_until(l, r.calls == 1), "a literal address is reached");
    ok(r.s != NULL && stream_is_open(r.s), "and the stream is open (%s)", r.failure);
    settle(l);
    is_int(r.end.seen[STREAM_OPENED], 0, "which the new owner is not told again");
    finish(l, &r);
    close(fd);
}

static void test_unix(struct loop *l)
{
    struct result r = {.calls = 0};
    char path[] = "/tmp/dial-test-XXXXXX";
    char host[128];
    struct dial_opts o = {.host = host, .timeout_ms = 5000};
    int fd;

    if (mkdtemp(path) == NULL)
        tap_bail("mkdtemp");
    snprintf(host, sizeof(host), "unix:%s/socket", path);
    fd = listening(AF_UNIX, NULL, host + 5);
    ok(dial_start(l, &o, on_dialled, &r) != NULL && run_until(l, r.calls == 1), "a Unix socket is dialled");
    ok(r.s != NULL, "and reached (%s)", r.failure);
    finish(l, &r);
    close(fd);
    unlink(host + 5);
    r = (struct result){.calls = 0};
    ok(dial_start(l, &o, on_dialled, &r) != NULL && run_until(l, r.calls == 1), "one that is gone as well");
    ok(strstr(r.failure, "No such file") != NULL, "is not reached (%s)", r.failure);
    rmdir(path);
    finish(l, &r);
}

static void test_name(struct loop *l)
{
    struct result r = {.calls = 0};
    struct dial_opts o = {.host = "localhost", .timeout_ms = 5000};
    int fd = listening(AF_INET, &o.port, NULL);

    ok(dial_start(l, &o, on_dialled, &r) != NULL, "a name (of the hosts file)");
    is_int(r.calls, 0, "nobody is called from inside, although the answer was there at once");
    ok(run_until(l, r.calls == 1), "is resolved");
    ok(r.s != NULL, "and reached, whichever of its addresses answers (%s)", r.failure);
    finish(l, &r);
    close(fd);
}

static void fails(struct loop *l, const char *name, const struct dial_opts *o, const char *want)
{
    struct result r = {.calls = 0};

    ok(dial_start(l, o, on_dialled, &r) != NULL && run_until(l, r.calls == 1), "%s: ends", name);
    is_null(r.s, "%s: without a stream", name);
    ok(strstr(r.failure, want) != NULL, "%s: because of \"%s\" (%s)", name, want, r.failure);
    finish(l, &r);
}

static bool never(const struct sockaddr *addr, void *arg)
{
    (*(unsigned *)arg)++;
    ok(addr->sa_family == AF_INET, "the address is shown");
    return false;
}

static void test_failures(struct loop *l)
{
    struct tls_ctx *ctx = client_ctx(NULL, false);
    struct dial_opts o = {.host = "127.0.0.1", .port = 1, .timeout_ms = 5000};
    unsigned asked = 0;
    int fd;

    fails(l, "refused", &o, "127.0.0.1:1: connect: Connection refused");
    o.allow = never;
    o.allow_arg = &asked;
    fails(l, "not allowed", &o, "not allowed");
    is_int(asked, 1, "asked once");
    o.allow = NULL;
    o.host = "name.invalid";
    o.timeout_ms = 300;
    fails(l, "no such name", &o, "resolve name.invalid: ");
    o.host =
        "unix:/a/very/long/path/that/does/not/fit/into/the/address/of/a/socket/because/it/has/more/than/one/hundred/"
        "and/eight/bytes";
    fails(l, "long path", &o, "too long");
    o.host = "127.0.0.1";
    o.tls = ctx;
    fd = listening(AF_INET, &o.port, NULL);
    fails(l, "silent server", &o, "timed out");
    close(fd);
    tls_ctx_unref(ctx);
}

static void test_cancel(struct loop *l)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "name.invalid"};
    struct dial_opts o = {.timeout_ms = 5000};
    int fd = listening(AF_INET, &o.port, NULL);

    for (size_t i = 0; i < ROWS(hosts); i++) {
        for (int turns = 0; turns < 3; turns++) {
            struct result r = {.calls = 0};
            struct dial *d;

            o.host = hosts[i];
            d = dial_start(l, &o, on_dialled, &r);
            for (int t = 0; t < turns && r.calls == 0; t++)
                loop_run_once(l, 0);
            if (r.calls == 0)
                dial_cancel(d);
            settle(l);
            ok(r.calls == (r.s != NULL || r.failure[0] != '\0'), "%s cancelled after %d turns", hosts[i], turns);
            finish(l, &r);
        }
    }
    close(fd);
}

static bool dear(const struct sockaddr *addr, void *arg)
{
    (void)addr;
    (*(unsigned *)arg)++;
    clock_fake(clock_us() + SERVER_HANDSHAKE_TURN_US / 2, clock_wall_us());
    return false;
}

/* Many peers have come: each turn of the loop tries as many as it has time for, and no address waits for all others. */
static void test_many(struct loop *l)
{
    enum { MANY = 40, CANCELLED = 5, PER_TURN = 2 };
    unsigned asked = 0, of_other = 0, before_other = 0, most = 0;
    struct dial_opts o = {.host = "127.0.0.1", .timeout_ms = 5000, .port = 1, .allow = dear, .allow_arg = &asked};
    struct result r = {.calls = 0}, other = {.calls = 0};
    struct dial *dials[MANY], *d;

    clock_fake(clock_us(), clock_wall_us());
    for (size_t i = 0; i < MANY; i++)
        dials[i] = dial_start(l, &o, on_dialled, &r);
    o.host = "127.0.0.2";
    o.allow_arg = &of_other;
    d = dial_start(l, &o, on_dialled, &other);
    ok(d != NULL && dials[MANY - 1] != NULL && asked == 0, "many dials are started, and nothing is tried from inside");
    for (size_t i = 0; i < CANCELLED; i++)
        dial_cancel(dials[MANY - 1 - i]);
    for (unsigned turns = 0; turns < MANY && r.calls < MANY - CANCELLED; turns++) {
        unsigned before = asked + of_other;

        loop_run_once(l, 0);
        most = asked + of_other - before > most ? asked + of_other - before : most;
        before_other = other.calls == 0 ? asked : before_other;
    }
    clock_real();
    is_int(r.calls, MANY - CANCELLED, "all of them end that were not cancelled");
    is_int(asked, MANY - CANCELLED, "nothing is tried for the others");
    is_int(most, PER_TURN, "so many in a turn as there is time for");
    ok(other.calls == 1 && before_other <= PER_TURN, "one to another address does not wait for them");
    settle(l);
}

/* The queue has no time left before the deadline. */
static void test_waits_too_long(struct loop *l)
{
    struct dial_opts o = {.host = "127.0.0.1", .timeout_ms = 1, .port = 1};
    struct result r = {.calls = 0};
    struct dial *d = dial_start(l, &o, on_dialled, &r);

    usleep(5000);
    ok(d != NULL && run_until(l, r.calls > 0), "a dial that does not get its turn ends");
    is_str(r.failure, "127.0.0.1: timed out before it was its turn to connect", "and says why");
    settle(l);
}

/* A query under way when everything ends. */
static void test_loop_ends_first(void)
{
    struct loop *l = loop_new(NULL);
    struct dial_opts o = {.host = "other.invalid", .timeout_ms = 5000, .port = 1};
    struct result r = {.calls = 0};
    struct dial *d = dial_start(l, &o, on_dialled, &r);

    loop_run_once(l, 0);
    if (r.calls == 0)
        dial_cancel(d);
    loop_free(l);
    ok(true, "a loop may end before the resolver answers");
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    test_literal(l);
    test_unix(l);
    test_name(l);
    test_failures(l);
    test_cancel(l);
    test_many(l);
    test_waits_too_long(l);
    loop_free(l);
    test_loop_ends_first();
    return tap_end();
}
