/* SPDX-License-Identifier: Apache-2.0 */
/* How a whole process starts: with sockets of its own or inherited ones, what it waits for, and what it tells whom. */
#include "daemon/app.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/app_state.h"
#include "daemon/drain.h"
#include "daemon/notify.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "unit/daemon/process.h"

enum { STEP_MS = 50, INHERITED_FD = 3, MOST_BEATS = 100 };

#define BASE PROCESS_TLS PROCESS_REST

static char config[2048];

/* ---- sockets ---- */

/* On a port of loopback that is told. */
static int take_port(unsigned *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&addr, n) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("cannot listen");
    *port = ntohs(addr.sin_port);
    return fd;
}

static void hand_over(int fd)
{
    char text[16];

    if (fd != INHERITED_FD && (dup2(fd, INHERITED_FD) < 0 || close(fd) != 0))
        tap_bail("dup2");
    (void)snprintf(text, sizeof(text), "%d", (int)getpid());
    (void)setenv("LISTEN_PID", text, 1);
    (void)setenv("LISTEN_FDS", "1", 1);
}

static void hand_nothing_over(void)
{
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
}

/* ---- a run ---- */

static struct {
    struct app *app;
    struct loop_timer *timer;
    unsigned steps;
    uint64_t v;
} run;

/* A reload by signal, and once it is over the end. */
static void on_step(void *arg)
{
    char text[sizeof(config) + 8];

    (void)arg;
    if (run.steps++ == 0) {
        (void)snprintf(text, sizeof(text), "%sv: 1\n", config);
        folder_write("mvproxy.yaml", text);
        (void)raise(SIGHUP);
    }
    run.v = run.app->config->v;
    if (run.v == 1 || run.steps == MOST_BEATS)
        (void)raise(SIGTERM);
    else
        loop_timer_set(run.timer, STEP_MS);
}

/* Who starts it holds all of them back; and one comes too early. */
static void hold_signals(void)
{
    sigset_t all;

    (void)sigemptyset(&all);
    (void)sigaddset(&all, SIGTERM);
    (void)sigaddset(&all, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    app_hold_signals();
    (void)raise(SIGHUP);
}

static void on_interrupt(void *arg)
{
    (void)arg;
    (void)raise(SIGINT);
}

static void interrupted(void)
{
    struct app *a = process_start(BASE PROCESS_QUIET);
    struct loop_timer *t = loop_timer_new(a->loop, on_interrupt, NULL);

    loop_timer_set(t, 0);
    is_int(app_run(a), 0, "interrupted at a terminal");
    is_u64(process_said("\"Stopped\" why=\"drained\""), 1, "it ends in order");
    loop_timer_free(t);
    app_free(a);
}

static void runs(void)
{
    struct app *a;
    unsigned port;

    (void)close(take_port(&port));
    (void)snprintf(config, sizeof(config),
                   BASE "control-socket: \"\"\nadmin-bind-address: 127.0.0.1:%u\ntrusted-proxies: 10.0.0.1/8\n", port);
    hold_signals();
    a = process_start(config);
    is_str(process_told(), "", "nothing is told before it runs");
    run.app = a;
    run.timer = loop_timer_new(a->loop, on_step, NULL);
    loop_timer_set(run.timer, STEP_MS);
    is_int((int)metric_value(a->reload_ok), 1, "what it starts with is in force");
    ok(metric_value(a->reload_time) > 1e9 && metric_value(a->config_hash) > 0, "since when, and which");
    is_int(app_run(a), 0, "told to end");
    is_u64(run.v, 1, "after a reload");
    is_u64(process_said("\"Reloaded\""), 2, "and one that was asked for before it could");
    is_u64(process_said("\"Started\" version=\"1\" config=\"mvproxy.yaml\" hostname=\"cp-a\""), 1, "said at the start");
    is_u64(process_said("\"Listening\" address=\"127.0.0.1\""), 1, "where clients are served");
    (void)snprintf(config, sizeof(config), "\"Listening\" address=\"127.0.0.1:%u\" for=\"admin\"", port);
    is_u64(process_said(config), 1, "where it is watched");
    is_u64(process_said("for=\"mvproxyctl\""), 0, "no control socket");
    is_u64(process_said("\"Peers cannot be used"), 1, "what is lacking");
    is_u64(process_said("\"The configuration may not be as it is meant\" err=\"mvproxy.yaml:"), 3,
           "at the start and with each reload: what is valid, and unlikely");
    is_u64(process_said("10.0.0.1/8 means all of 10.0.0.0/8: write that"), 3, "what to do about it");
    is_u64(process_said("\"Stopped\" why=\"drained\""), 1, "said at the end");
    ok(strncmp(process_told(), "READY=1\nSTATUS=Starting\n", 24) == 0, "ready at once");
    loop_timer_free(run.timer);
    app_free(a);
}

/* A status of its own when it ends by itself. */
static void on_failure(void *arg)
{
    struct app *a = arg;

    (void)snprintf(a->failed, sizeof(a->failed), "no address");
    drain_begin(a);
}

static void fails(void)
{
    struct app *a = process_start(BASE PROCESS_QUIET "etcd-servers: [http://127.0.0.1:1]\n");
    struct loop_timer *t = loop_timer_new(a->loop, on_failure, a);

    loop_timer_set(t, 0);
    is_int(app_run(a), 1, "it ends by itself");
    is_u64(process_said("\"Cannot start\" err=\"no address\""), 1, "why");
    loop_timer_free(t);
    app_free(a);
}

/* ---- the heartbeat ---- */

static void beats(void)
{
    struct app *a;

    (void)setenv("WATCHDOG_USEC", "400000", 1);
    a = process_start(BASE PROCESS_QUIET);
    process_beat(a);
    ok(strstr(process_told(), "WATCHDOG=1\n") != NULL, "the watchdog hears of it");
    process_pass(a, 350);
    ok(strstr(process_told(), "WATCHDOG=1\n") != NULL, "in time");
    ok(strncmp(a->status, "Not ready: ", 11) == 0, "the status: %s", a->status);
    a->status[0] = '\0';
    a->phase = APP_DELAYING;
    process_beat(a);
    is_str(a->status, "", "not when it is told to stop");
    app_free(a);
    (void)unsetenv("WATCHDOG_USEC");
    a = process_start(BASE PROCESS_QUIET);
    process_beat(a);
    ok(strstr(process_told(), "WATCHDOG") == NULL, "there is none");
    app_free(a);
}

/* What there was no room for is told at the next, also when it is told to stop. */
static void beats_for_busy_manager(void)
{
    struct app *a = process_start(BASE PROCESS_QUIET);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

    memcpy(at.sun_path, name, strlen(name));
    at.sun_path[0] = '\0';
    (void)process_told();
    while (sendto(fd, "x", 1, 0, (struct sockaddr *)&at, n) == 1)
        ;
    a->phase = APP_DELAYING;
    notify_status(a->notify, "Shutting down");
    ok(strstr(process_told(), "STATUS=") == NULL, "there is no room");
    process_beat(a);
    is_str(process_told(), "STATUS=Shutting down\n", "told with the next beat");
    (void)close(fd);
    app_free(a);
}

/* The certificate expires while it runs. */
static void beats_on(void)
{
    struct app *a;

    folder_certificates("import datetime\n"
                        "end = datetime.datetime.utcnow() + datetime.timedelta(seconds=6)\n"
                        "a.issue('short', 's', ca='ca', eku='serverAuth', sans=('kubernetes.default.svc',), "
                        "start='20200101000000Z', end=end.strftime('%Y%m%d%H%M%SZ'))\n");
    process_use_pair("short");
    process_listen();
    a = process_start(BASE PROCESS_QUIET);
    for (unsigned i = 0; i < 400 && process_said("Certificate has expired") == 0; i++) {
        process_pass(a, STEP_MS);
        process_beat(a);
    }
    is_u64(process_said("\"Certificate has expired\" option=\"tls-cert-file\""), 1, "it is looked at with each beat");
    app_free(a);
    process_use_pair("good");
}

/* ---- the admin listener ---- */

/* What it answers for that path, while the process goes on. */
static const char *page(struct app *a, unsigned port, const char *path)
{
    static char text[1 << 17];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = 0;
    ssize_t got = -1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
        dprintf(fd, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path) < 0)
        tap_bail("cannot ask");
    for (unsigned i = 0; got != 0 && i < MOST_BEATS; i++) {
        process_pass(a, 1);
        while ((got = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT)) > 0)
            n += (size_t)got;
    }
    text[n] = '\0';
    (void)close(fd);
    return text;
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static void watched(void)
{
    struct app *a;
    const char *text;
    unsigned port;

    (void)close(take_port(&port));
    (void)snprintf(config, sizeof(config),
                   BASE "control-socket: \"\"\nadmin-bind-address: 127.0.0.1:%u\nv: 3\npeers: [cp-b=10.0.0.2:6443]\n",
                   port);
    a = process_start(config);
    text = page(a, port, "/flagz");
    ok(has(text, "\nv=3") && has(text, "\nhostname-override=cp-a\n") && has(text, "\naccess-log=[]\n") &&
           has(text, "\npeers=[cp-b=10.0.0.2:6443]\n"),
       "each option and its value: %.200s", text);
    text = page(a, port, "/");
    ok(has(text, "cp-a"), "its status: %.300s", text);
    app_free(a);
}

/* ---- inherited sockets ---- */

static unsigned beats_until_accepting(struct app *a)
{
    unsigned n = 0;

    for (; a->held_beats > 0 && n < MOST_BEATS; n++) {
        process_beat(a);
    }
    return n;
}

static void inherits(void)
{
    struct app *a;
    unsigned port, n;

    hand_over(take_port(&port));
    a = process_start(BASE PROCESS_QUIET);
    ok(a->inherited && front_port(a->front) == port, "the socket is used");
    is_u64(a->held_beats, 60, "nobody is accepted yet");
    n = beats_until_accepting(a);
    ok(n <= 10, "the process before it is gone: for ten beats at most (%u)", n);
    is_u64(process_said("Accepting connections from the inherited socket"), 1, "then it is said");
    is_str(strstr(process_told(), "READY=1"), NULL, "the manager was told before");
    app_free(a);
    hand_nothing_over();
}

/* While the process before it has the admin listener. */
static void takes_over(void)
{
    struct app *a;
    unsigned port, admin_port;
    int admin;

    hand_over(take_port(&port));
    admin = take_port(&admin_port);
    (void)snprintf(config, sizeof(config), BASE "control-socket: \"\"\nadmin-bind-address: 127.0.0.1:%u\n", admin_port);
    a = process_start(config);
    ok(a->admin == NULL && a->admin_waits, "its address is waited for");
    is_u64(process_said("The admin listener waits for the process before this one"), 1, "said");
    for (int i = 0; i < 15; i++)
        process_beat(a);
    is_u64(a->held_beats, 45, "nobody is accepted so long");
    a->ready_later = true;
    (void)close(admin);
    process_beat(a);
    ok(a->admin != NULL && !a->admin_waits, "it is free");
    is_u64(process_said("\"Listening\" address=\"127.0.0.1:"), 1, "said");
    (void)process_told();
    ok(beats_until_accepting(a) <= 10, "then it accepts soon");
    ok(strstr(process_told(), "READY=1\nSTATUS=Took over\n") != NULL && !a->ready_later, "and is ready");
    app_free(a);
    hand_nothing_over();
}

/* Nobody's clients wait for the port of metrics. */
static void admin_taken(void)
{
    unsigned port;
    int fd = take_port(&port);
    struct app *a;

    (void)snprintf(config, sizeof(config), BASE "control-socket: \"\"\nadmin-bind-address: 127.0.0.1:%u\n", port);
    a = process_start(config);
    ok(a->admin == NULL && a->admin_waits && a->held_beats == 0, "clients are served");
    is_u64(process_said("No admin listener, for another process has its address"), 1, "said");
    for (int i = 0; i < 3; i++)
        process_beat(a);
    ok(a->admin == NULL && process_said("No admin listener") == 1, "it is tried, and not said, again");
    (void)close(fd);
    process_beat(a);
    ok(a->admin != NULL && !a->admin_waits, "it is free");
    is_u64(process_said("\"Listening\" address=\"127.0.0.1:"), 1, "said");
    ok(has(page(a, port, "/livez"), "200 OK"), "it answers");
    app_free(a);
}

/* What is told when it begins to run, and ends at once. */
static bool is_ready_at_once(struct app *a)
{
    struct loop_timer *t = loop_timer_new(a->loop, on_failure, a);
    bool ready;

    loop_timer_set(t, 0);
    process_listen();
    (void)app_run(a);
    ready = strstr(process_told(), "READY=1\nSTATUS=Starting\n") != NULL;
    loop_timer_free(t);
    app_free(a);
    return ready;
}

/* The manager is to keep the process before it for so long. */
static void tells_later(void)
{
    unsigned port, admin_port;
    int admin, fd;

    hand_over(take_port(&port));
    ok(is_ready_at_once(process_start(BASE PROCESS_QUIET)), "held back, but for a while only");
    hand_over(take_port(&port));
    admin = take_port(&admin_port);
    (void)snprintf(config, sizeof(config), BASE "control-socket: \"\"\nadmin-bind-address: 127.0.0.1:%u\n", admin_port);
    ok(!is_ready_at_once(process_start(config)), "while the process before it is there");
    (void)close(admin);
    hand_nothing_over();
    fd = take_port(&port);
    (void)snprintf(config, sizeof(config),
                   PROCESS_TLS PROCESS_QUIET "hostname-override: cp-a\nbind-address: 127.0.0.1:%u\n", port);
    ok(!is_ready_at_once(process_start(config)), "while its address is taken");
    (void)close(fd);
}

/* ---- what does not start ---- */

static void refuses(void)
{
    unsigned port, admin_port;
    int fd = take_port(&port);
    int admin_fd = take_port(&admin_port);
    struct app *a;

    (void)snprintf(config, sizeof(config),
                   PROCESS_TLS "hostname-override: cp-a\ncontrol-socket: \"\"\nbind-address: 127.0.0.1:%u\n"
                               "admin-bind-address: 127.0.0.1:%u\n",
                   port, admin_port);
    ok(process_try(config) == NULL, "all addresses are taken");
    ok(strstr(process_errors(), "admin-bind-address: ") != NULL &&
           strstr(process_errors(), "in use, and so is clients': another mvproxy, perhaps") != NULL,
       "why: %s", process_errors());
    (void)close(admin_fd);
    (void)snprintf(config, sizeof(config),
                   PROCESS_TLS PROCESS_QUIET "hostname-override: cp-a\nbind-address: 127.0.0.1:%u\n", port);
    a = process_start(config);
    ok(a->address_waits[0] != '\0', "a taken address of clients is waited for: %s", a->address_waits);
    is_u64(process_said("\"Listening\""), 0, "not said before");
    app_free(a);
    (void)close(fd);
    hand_over(take_port(&port));
    (void)snprintf(config, sizeof(config), BASE PROCESS_QUIET "apiserver: https://127.0.0.1:%u\n", port);
    ok(process_try(config) == NULL, "it would ask itself");
    ok(strstr(process_errors(), "is this proxy itself: let kube-apiserver listen on another address") != NULL,
       "why: %s", process_errors());
    hand_nothing_over();
    (void)close(INHERITED_FD);
    process_use_pair("bad");
    ok(process_try(BASE PROCESS_QUIET) == NULL, "no certificate");
    ok(strstr(process_errors(), "mvproxy.yaml:1:1: tls-cert-file: certificate server.crt") != NULL, "why: %s",
       process_errors());
    process_use_pair("good");
    folder_write("a-file", "");
    (void)snprintf(config, sizeof(config), BASE "admin-bind-address: \"\"\ncontrol-socket: %s/a-file\n", folder());
    ok(process_try(config) == NULL, "a control socket in place of a file");
    ok(strstr(process_errors(), "control-socket: ") != NULL, "why: %s", process_errors());
}

/* Its heartbeat is among the last that it makes, and without it it would be nothing. */
static void no_heartbeat(void)
{
    uint64_t before = mem_calls(), nth;
    struct app *a = process_start(BASE PROCESS_QUIET);

    for (nth = mem_calls() - before; a != NULL; nth--) {
        app_free(a);
        mem_fail_nth(nth);
        a = process_try(BASE PROCESS_QUIET);
        mem_fail_nth(0);
    }
    is_str(process_errors(), "out of memory\n", "allocation %u is one that is missed", (unsigned)nth + 1);
}

static void is_named(void)
{
    char host[256] = "";
    struct app *a = process_start(PROCESS_TLS PROCESS_QUIET "bind-address: 127.0.0.1\nsecure-port: 0\n");

    (void)gethostname(host, sizeof(host) - 1);
    is_str(a->hostname, host, "by the machine");
    app_free(a);
}

int main(void)
{
    process_prepare();
    runs();
    interrupted();
    fails();
    beats();
    beats_for_busy_manager();
    beats_on();
    watched();
    inherits();
    takes_over();
    tells_later();
    admin_taken();
    refuses();
    is_named();
    no_heartbeat();
    process_finish();
    return tap_end();
}
