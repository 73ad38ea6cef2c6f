/* SPDX-License-Identifier: Apache-2.0 */
/* Changed files of a whole process: which are put in use, which are held back, and what is said of them. The local
 * server is played here, and does handshakes only. */
#include "daemon/reread.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/app.h"
#include "daemon/app_state.h"
#include "daemon/reload.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "net/listener.h"
#include "net/tls_ctx.h"
#include "unit/daemon/process.h"

enum { OPEN = 64, PATIENCE_MS = 8000, MOST_CALLS = 3000 };

static struct app *a;
static char config[2048];
static unsigned port;

/* ---- the local server ---- */

static struct {
    struct listener *listener;
    struct tls_ctx *tls;
    struct stream *open[OPEN];
    size_t n;
    bool silent;
} server;

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    (void)arg;
    if (ev != STREAM_EOF && ev != STREAM_FAILED)
        return;
    for (size_t i = 0; i < server.n; i++)
        if (server.open[i] == s)
            server.open[i] = server.open[--server.n];
    stream_close(s, STREAM_CLOSE_NOW);
}

static void on_accept(int fd, void *arg)
{
    const struct stream_opts o = {.tls = server.tls, .fn = on_stream};

    (void)arg;
    if (server.silent || server.n == OPEN)
        (void)close(fd);
    else
        server.open[server.n++] = stream_accept(a->loop, fd, &o);
}

static void server_start(void)
{
    const struct tls_server_opts o = {.cert_file = "good.crt", .key_file = "good.key"};
    struct err err = {.text = ""};

    server.silent = false;
    server.tls = tls_server_ctx_new(&o, &err);
    server.listener = listener_open(a->loop, "127.0.0.1", port, on_accept, NULL, &err);
    if (server.listener == NULL || server.tls == NULL)
        tap_bail("%s", err.text);
}

static void server_stop(void)
{
    while (server.n > 0)
        stream_close(server.open[--server.n], STREAM_CLOSE_NOW);
    listener_close(server.listener);
    tls_ctx_unref(server.tls);
}

static void choose_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&addr, n) != 0 || getsockname(fd, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("no port");
    port = ntohs(addr.sin_port);
    (void)close(fd);
}

/* ---- the process ---- */

static void shell(const char *command)
{
    if (system(command) != 0)
        tap_bail("%s", command);
}

static void start(void)
{
    shell("cp ca.crt trusted.crt");
    process_use_pair("good");
    choose_port();
    (void)snprintf(config, sizeof(config),
                   "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: trusted.crt\n"
                   "etcd-servers: [https://127.0.0.1:1]\netcd-cafile: ca.crt\n"
                   "apiserver: https://127.0.0.1:%u\n" PROCESS_REST PROCESS_QUIET,
                   port);
    a = process_start(config);
    server_start();
    process_listen();
}

static void end(void)
{
    server_stop();
    app_free(a);
    a = NULL;
}

static unsigned used(void)
{
    return (unsigned)metric_value(a->files_changes);
}

/* Reads them, and waits until it is known what comes of it: as many were used, or some are refused. */
static void rereads(unsigned want_used)
{
    reread_files(a);
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms;) {
        loop_run_once(a->loop, 10);
        if (used() == want_used && (a->files_refused[0] != '\0') == (metric_value(a->files_ok) == 0))
            break;
    }
}

static void waits_for(unsigned want_used)
{
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && used() != want_used;)
        loop_run_once(a->loop, 10);
    is_u64(used(), want_used, "used so often");
}

static void is_good(bool good, const char *name)
{
    is_int((int)metric_value(a->files_ok), good, "%s: the metric", name);
    is_int(a->files_refused[0] == '\0', good, "%s: nothing is refused: %s", name, a->files_refused);
}

/* ---- files of our own ---- */

static void changed(void)
{
    const struct tls_ctx *serving;

    start();
    serving = a->trust.serving;
    reread_files(a);
    is_u64(used(), 0, "nothing has changed");
    is_good(true, "nothing has changed");
    ok(a->trust.serving == serving, "nor is anything exchanged");
    process_use_pair("fresh");
    waits_for(1); /* by the watch */
    ok(a->trust.serving != serving, "another pair");
    is_good(true, "another pair");
    ok(process_happened(a, "certificate files changed and are in use"), "people");
    is_u64(process_said("Certificate files changed, new connections use the new ones"), 1, "the log");
    serving = a->trust.serving;
    process_use_pair("bad");
    rereads(1);
    is_good(false, "one that is none");
    ok(a->trust.serving == serving, "the old one stays");
    ok(strstr(a->files_refused, "mvproxy.yaml:1:1: tls-cert-file: certificate server.crt") != NULL, "which: %s",
       a->files_refused);
    is_u64(process_said("Certificate files changed but cannot be used, the old ones stay"), 1, "the log");
    ok(a->files_refused_ms > 0, "since when");
    a->files_refused_ms = 1;
    process_listen();
    reread_files(a);
    is_u64(process_said("cannot be used"), 0, "said once");
    shell("cp ca.crt server.crt");
    reread_files(a);
    ok(process_said("cannot be used") > 0, "another fault is said");
    is_u64(a->files_refused_ms, 1, "wrong since the first");
    process_use_pair("fresh");
    reread_files(a);
    is_good(true, "as before");
    is_u64(used(), 1, "the same as what is in use");
    ok(process_happened(a, "all certificate files can be used again"), "people");
    end();
}

/* A reload of what is in force was refused, for its files. */
static void after_reload(void)
{
    struct reload_result *r;
    struct slice text;
    bool good = true;

    start();
    process_use_pair("bad");
    r = reload_begin(a);
    ok(reload_is_over(a, r, &good, &text) && !good && a->refused_for_files, "refused for files");
    reload_result_unref(r);
    process_use_pair("other");
    rereads(1);
    ok(a->reload_refused[0] != '\0' && metric_value(a->reload_ok) == 0, "a certificate for other names is no better");
    process_use_pair("good");
    process_listen();
    rereads(2);
    ok(a->reload_refused[0] == '\0' && !a->refused_for_files, "but a good one is");
    is_int((int)metric_value(a->reload_ok), 1, "the metric");
    is_u64(process_said("The files for which a reload was refused are good, and in use"), 1, "the log");
    ok(strstr(process_told(), "STATUS=") != NULL, "the manager");
    (void)snprintf(a->reload_refused, sizeof(a->reload_refused), "no option");
    reread_files(a);
    is_str(a->reload_refused, "no option", "what was refused for something else stays so");
    end();
}

/* ---- the server's CA ---- */

static void unfit(void)
{
    struct tls_ctx *old;
    char want[256];

    start();
    old = a->trust.local_no_cert;
    shell("cp other-ca.crt trusted.crt");
    process_use_pair("fresh");
    rereads(1);
    is_good(false, "a CA that has not signed what the server shows");
    (void)snprintf(want, sizeof(want),
                   "mvproxy.yaml:3:1: apiserver-ca-file: trusted.crt: has not signed what https://127.0.0.1:%u shows",
                   port);
    ok(strstr(a->files_refused, want) != NULL, "why: %s", a->files_refused);
    ok(a->trust.local_no_cert == old, "the old one counts");
    is_u64(used(), 1, "the pair is used");
    server.silent = true;
    reread_files(a);
    process_pass(a, 300);
    is_good(false, "nobody answers: it stays held back");
    server.silent = false;
    shell("cat other-ca.crt ca.crt >trusted.crt");
    rereads(2);
    is_good(true, "both of them");
    ok(a->trust.local_no_cert != old, "are used");
    shell("cp other-ca.crt trusted.crt");
    server.silent = true;
    rereads(3);
    is_good(true, "nobody answers, and nothing was held back: it is used");
    end();
}

static void lost(void)
{
    start();
    shell("cp other-ca.crt trusted.crt");
    rereads(1);
    is_good(false, "held back");
    reread_look(a);
    process_pass(a, 100);
    is_good(false, "while the server answers");
    server_stop();
    server.listener = NULL;
    server.tls = NULL;
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && !origin_unreachable(a->around.local);)
        loop_run_once(a->loop, 10);
    ok(origin_unreachable(a->around.local), "it is gone");
    process_listen();
    reread_look(a);
    process_pass(a, 200);
    is_good(false, "nobody knows: it stays held back");
    reread_forget(a);
    reread_files(a);
    process_pass(a, 200);
    is_good(true, "until a reload forgets it");
    server_start();
    end();
}

/* ---- the end, and no memory ---- */

static void ends_meanwhile(void)
{
    const struct tls_ctx *old;

    start();
    old = a->trust.local_no_cert;
    shell("cat other-ca.crt ca.crt >trusted.crt");
    reread_files(a);
    a->phase = APP_DELAYING;
    process_pass(a, 300);
    ok(a->trust.local_no_cert == old, "told to stop while the server is asked");
    a->phase = APP_SERVING;
    reread_files(a);
    reread_files(a);
    waits_for(1);
    process_pass(a, 100);
    ok(a->trust.local_no_cert != old, "asked twice, and used");
    is_u64(used(), 1, "once");
    shell("cp ca.crt trusted.crt");
    reread_files(a);
    end(); /* while it is asked */
}

static void without_memory(void)
{
    const struct tls_ctx *old;
    unsigned refused = 0;
    uint64_t nth = 1;

    start();
    old = a->trust.serving;
    process_use_pair("fresh");
    for (; a->trust.serving == old && nth < MOST_CALLS; nth++) {
        mem_fail_nth(nth);
        reread_files(a);
        mem_fail_nth(0);
        refused += strstr(a->files_refused, "out of memory") != NULL;
        if ((metric_value(a->files_ok) == 0) != (a->files_refused[0] != '\0'))
            break;
    }
    ok(a->trust.serving != old, "used after %u", (unsigned)nth);
    ok(refused > 0, "refused %u times", refused);
    is_good(true, "in the end");
    end();
}

int main(void)
{
    process_prepare();
    changed();
    after_reload();
    unfit();
    lost();
    ends_meanwhile();
    without_memory();
    process_finish();
    return tap_end();
}
