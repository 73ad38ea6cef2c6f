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
static char config[4096];
static unsigned port;

/* ---- the local server, and a peer ---- */

static struct server {
    struct listener *listener;
    struct tls_ctx *tls;
    struct stream *open[OPEN];
    size_t n;
    bool silent;
} local, peer;

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    struct server *at = arg;

    if (ev != STREAM_EOF && ev != STREAM_FAILED)
        return;
    for (size_t i = 0; i < at->n; i++)
        if (at->open[i] == s)
            at->open[i] = at->open[--at->n];
    stream_close(s, STREAM_CLOSE_NOW);
}

static void on_accept(int fd, void *arg)
{
    struct server *at = arg;
    const struct stream_opts o = {.tls = at->tls, .fn = on_stream, .arg = at};
    struct stream *s;

    if (at->silent || at->n == OPEN) {
        (void)close(fd);
        return;
    }
    s = stream_accept(a->loop, fd, &o);
    if (s != NULL) /* the allocation that fails may be one of its */
        at->open[at->n++] = s;
}

static void server_use(struct server *at, const char *name)
{
    char crt[64], key[64];
    const struct tls_server_opts o = {.cert_file = crt, .key_file = key};
    struct err err = {.text = ""};

    (void)snprintf(crt, sizeof(crt), "%s.crt", name);
    (void)snprintf(key, sizeof(key), "%s.key", name);
    if (at->tls != NULL)
        tls_ctx_unref(at->tls);
    at->tls = tls_server_ctx_new(&o, &err);
    if (at->tls == NULL)
        tap_bail("%s", err.text);
    while (at->n > 0)
        stream_close(at->open[--at->n], STREAM_CLOSE_NOW);
}

static void server_start(struct server *at, int fd)
{
    struct err err = {.text = ""};

    *at = (struct server){.listener = listener_adopt(a->loop, fd, on_accept, at, &err)};
    if (at->listener == NULL)
        tap_bail("%s", err.text);
    server_use(at, "good");
}

static void server_stop(struct server *at)
{
    while (at->n > 0)
        stream_close(at->open[--at->n], STREAM_CLOSE_NOW);
    if (at->listener != NULL)
        listener_close(at->listener);
    if (at->tls != NULL)
        tls_ctx_unref(at->tls);
    *at = (struct server){.n = 0};
}

/* Listens already, so that nobody else takes it. */
static int take_port(unsigned *taken)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&addr, n) != 0 || listen(fd, OPEN) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("no port");
    *taken = ntohs(addr.sin_port);
    return fd;
}

/* ---- the process ---- */

static void shell(const char *command)
{
    if (system(command) != 0)
        tap_bail("%s", command);
}

static void start_with(const char *more)
{
    int fd = take_port(&port);

    shell("cp ca.crt trusted.crt");
    process_use_pair("good");
    (void)snprintf(config, sizeof(config),
                   "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: trusted.crt\n"
                   "etcd-servers: [https://127.0.0.1:1]\netcd-cafile: ca.crt\n"
                   "apiserver: https://127.0.0.1:%u\n" PROCESS_REST PROCESS_QUIET "%s",
                   port, more);
    a = process_start(config);
    server_start(&local, fd);
    process_listen();
}

static void start(void)
{
    start_with("");
}

static void end(void)
{
    server_stop(&local);
    server_stop(&peer);
    process_pass(a, 1);
    app_free(a);
    a = NULL;
}

static unsigned used(void)
{
    return (unsigned)metric_value(a->files_changes);
}

/* Reads them, and waits until it is known what comes of it. */
static void read_again(void)
{
    metric_set(a->files_ok, -1);
    reread_files(a);
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && metric_value(a->files_ok) < 0;)
        loop_run_once(a->loop, 10);
}

static void rereads(unsigned want_used)
{
    read_again();
    is_u64(used(), want_used, "used so often in all");
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
    read_again();
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
    read_again();
    is_u64(process_said("files changed but cannot be used"), 0, "said once");
    shell("cp ca.crt server.crt");
    read_again();
    ok(process_said("files changed but cannot be used") > 0, "another fault is said");
    is_u64(a->files_refused_ms, 1, "wrong since the first");
    process_use_pair("fresh");
    read_again();
    is_good(true, "as before");
    is_u64(used(), 1, "the same as what is in use");
    ok(process_happened(a, "all certificate files can be used again"), "people");
    is_u64(process_said("Certificate files can be used again"), 1,
           "the log, though nothing else is in use than before");
    read_again();
    is_u64(process_said("Certificate files can be used again"), 1, "once");
    end();
}

/* The status has one line for it: whole, and no part of the next one. */
static void several(void)
{
    shell("cp ca.crt keep.crt");
    start();
    process_use_pair("bad");
    shell("echo none >ca.crt");
    rereads(0);
    is_good(false, "two that are none");
    ok(strstr(a->files_refused, " (and 1 more: see the log)") != NULL && strchr(a->files_refused, '\n') == NULL,
       "said in one line: %s", a->files_refused);
    shell("cp keep.crt ca.crt");
    end();
}

/* Servers have the CA of front proxies: a pair of another would be the end of all users with certificates. */
static void stray(void)
{
    const struct tls_ctx *front;

    shell("cp good.crt front.crt; cp good.key front.key; cp ca.crt front-ca.crt");
    start_with("proxy-client-cert-file: front.crt\nproxy-client-key-file: front.key\n"
               "requestheader-client-ca-file: front-ca.crt\n");
    front = a->trust.local_cert;
    shell("cp client-ca.crt front.crt; cp client-ca.key front.key");
    rereads(0);
    is_good(false, "a pair of another CA");
    ok(a->trust.local_cert == front, "the old one stays");
    ok(strstr(a->files_refused, "proxy-client-cert-file: front.crt: does not fit requestheader-client-ca-file") != NULL,
       "which: %s", a->files_refused);
    shell("cat client-ca.crt >>front-ca.crt");
    rereads(1);
    is_good(true, "with its CA");
    ok(a->trust.local_cert != front, "it is used");
    end();
}

/* Nor would peers believe us that are given such a CA likewise. The pair may follow, or have come before. */
static void disowned(void)
{
    const struct tls_ctx *serving;

    shell("cp good.crt front.crt; cp good.key front.key; cp ca.crt front-ca.crt");
    start_with("proxy-client-cert-file: front.crt\nproxy-client-key-file: front.key\n"
               "requestheader-client-ca-file: front-ca.crt\n");
    serving = a->trust.serving;
    shell("cp other-ca.crt front-ca.crt");
    rereads(0);
    is_good(false, "a CA of another pair");
    ok(a->trust.serving == serving, "the old one stays");
    ok(strstr(a->files_refused, "requestheader-client-ca-file: front-ca.crt: has not signed proxy-client-cert-file") !=
           NULL,
       "which: %s", a->files_refused);
    shell("cp fresh.crt front.crt; cp fresh.key front.key");
    rereads(1);
    is_good(false, "another pair of the old CA");
    ok(a->trust.serving == serving && a->trust.front_signed, "which is used, and the CA is not");
    process_use_pair("other");
    rereads(1);
    ok(strstr(a->files_refused, " (and 1 more: see the log)") != NULL, "a stray pair besides: %s", a->files_refused);
    process_use_pair("good");
    shell("cp foreign.crt front.crt; cp foreign.key front.key");
    rereads(2);
    is_good(true, "the CA first, then its pair");
    ok(a->trust.serving != serving, "both are used");
    shell("cp good.crt front.crt; cp good.key front.key");
    rereads(2);
    is_good(false, "the pair first");
    shell("cp ca.crt front-ca.crt");
    rereads(3);
    is_good(true, "then its CA");
    end();
}

/* All clients and peers see it: one that they do not believe would keep them out. */
static void stray_serving(void)
{
    static const struct {
        const char *pair, *why;
    } rows[] = {{"foreign", "is not signed by peer-ca-file"},
                {"other", "is not valid for kubernetes.default.svc"},
                {"elsewhere", "is not valid for 127.0.0.1"}};
    const struct tls_ctx *serving;

    shell("cp ca.crt peer-ca.crt");
    start_with("peer-ca-file: peer-ca.crt\n");
    serving = a->trust.serving;
    for (size_t i = 0; i < ROWS(rows); i++) {
        process_use_pair(rows[i].pair);
        rereads(0);
        is_good(false, rows[i].pair);
        ok(a->trust.serving == serving, "the old one stays");
        ok(strstr(a->files_refused, rows[i].why) != NULL, "why: %s", a->files_refused);
    }
    process_use_pair("foreign");
    shell("cat other-ca.crt >>peer-ca.crt");
    rereads(1);
    is_good(true, "with its CA");
    ok(a->trust.serving != serving, "it is used");
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
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && !reload_is_over(a, r, &good, &text);)
        loop_run_once(a->loop, 10);
    ok(!good && a->refused_for_files, "refused for files");
    reload_result_unref(r);
    process_use_pair("other");
    rereads(0);
    ok(a->reload_refused[0] != '\0' && metric_value(a->reload_ok) == 0, "a certificate for other names is no better");
    process_use_pair("good");
    process_listen();
    rereads(0);
    ok(a->reload_refused[0] == '\0' && !a->refused_for_files, "but a good one is");
    is_int((int)metric_value(a->reload_ok), 1, "the metric");
    is_u64(process_said("The files for which a reload was refused are good, and in use"), 1, "the log");
    ok(strstr(process_told(), "STATUS=") != NULL, "the manager");
    (void)snprintf(a->reload_refused, sizeof(a->reload_refused), "no option");
    read_again();
    is_str(a->reload_refused, "no option", "what was refused for something else stays so");
    end();
}

/* Files that were refused are good, and a reload is what finds out. */
static void by_reload(void)
{
    struct reload_result *r;
    struct slice text;
    bool good = false;

    start();
    process_use_pair("bad");
    rereads(0);
    is_good(false, "one that is none");
    process_use_pair("good");
    process_listen();
    r = reload_begin(a);
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && !reload_is_over(a, r, &good, &text);)
        loop_run_once(a->loop, 10);
    reload_result_unref(r);
    ok(good, "reloaded");
    is_good(true, "the old one again");
    is_u64(process_said("Certificate files can be used again"), 1, "the log");
    ok(process_happened(a, "all certificate files can be used again"), "people");
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
    local.silent = true;
    reread_files(a);
    process_pass(a, 300);
    is_good(false, "nobody answers: it stays held back");
    local.silent = false;
    shell("cat other-ca.crt ca.crt >trusted.crt");
    rereads(2);
    is_good(true, "both of them");
    ok(a->trust.local_no_cert != old, "are used");
    shell("cp other-ca.crt trusted.crt");
    local.silent = true;
    rereads(3);
    is_good(true, "nobody answers, and nothing was held back: it is used");
    end();
}

/* The server has been given a certificate of the new one meanwhile. */
static void lost(void)
{
    start();
    shell("cp other-ca.crt trusted.crt");
    rereads(0);
    is_good(false, "held back");
    process_listen();
    reread_look(a);
    process_pass(a, 100);
    is_good(false, "while the server answers");
    server_use(&local, "foreign");
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && used() == 0;) {
        loop_run_once(a->loop, 10);
        reread_look(a);
    }
    is_good(true, "it fits now");
    is_u64(used(), 1, "and is used");
    end();
}

static void forgotten(void)
{
    start();
    shell("cp other-ca.crt trusted.crt");
    rereads(0);
    is_good(false, "held back");
    local.silent = true;
    read_again();
    is_good(false, "nobody knows: it stays so");
    reread_forget(a);
    read_again();
    is_good(true, "until a reload forgets it");
    end();
}

/* ---- the CA of peers ---- */

static void start_peer(void)
{
    char more[512];
    unsigned peer_port;
    int fd = take_port(&peer_port);

    shell("cp ca.crt peers.crt");
    (void)snprintf(more, sizeof(more),
                   "proxy-client-cert-file: good.crt\nproxy-client-key-file: good.key\npeer-ca-file: peers.crt\n"
                   "requestheader-client-ca-file: client-ca.crt\nrequestheader-allowed-names: [s]\n"
                   "peers: [cp-b=127.0.0.1:%u]\npeer-allowed-cidrs: 127.0.0.0/8\n",
                   peer_port);
    start_with(more);
    server_start(&peer, fd);
}

static void unfit_for_peers(void)
{
    struct tls_ctx *old, *old_local;

    start_peer();
    old = a->trust.peer_no_cert;
    old_local = a->trust.local_no_cert;
    shell("cp other-ca.crt peers.crt");
    rereads(0);
    is_good(false, "a CA that has not signed what a peer shows");
    ok(strstr(a->files_refused, "peer-ca-file: peers.crt: has not signed what peers show: cp-b (") != NULL, "why: %s",
       a->files_refused);
    ok(a->trust.peer_no_cert == old, "the old one counts");
    shell("cp other-ca.crt trusted.crt");
    process_listen();
    rereads(0);
    is_u64(process_said("Certificate files changed but cannot be used"), 2, "both do not fit: both are said");
    ok(a->trust.peer_no_cert == old && a->trust.local_no_cert == old_local, "the old ones count");
    shell("cat other-ca.crt ca.crt >peers.crt");
    rereads(1);
    is_good(false, "one of them still does not");
    ok(a->trust.peer_no_cert != old && a->trust.local_no_cert == old_local, "the other one is used");
    shell("cat other-ca.crt ca.crt >trusted.crt");
    rereads(2);
    is_good(true, "both fit");
    end();
}

static void peer_lost(void)
{
    start_peer();
    shell("cp other-ca.crt peers.crt");
    rereads(0);
    is_good(false, "held back");
    server_use(&peer, "foreign");
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && used() == 0;) {
        loop_run_once(a->loop, 10);
        reread_look(a);
    }
    is_good(true, "the peer has another certificate");
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

/* Either all of it is used, or nothing. */
static void without_memory(void)
{
    unsigned refused = 0, taken = 0;
    uint64_t calls;

    start();
    calls = mem_calls();
    process_use_pair("fresh");
    rereads(1);
    calls = mem_calls() - calls;
    for (uint64_t nth = 1; nth <= calls; nth++) {
        const struct tls_ctx *serving = a->trust.serving;
        unsigned before = used();

        process_use_pair(taken % 2 == 0 ? "good" : "fresh");
        mem_fail_nth(nth);
        read_again();
        mem_fail_nth(0);
        refused += strstr(a->files_refused, "out of memory") != NULL;
        if ((a->trust.serving != serving) != (used() > before) ||
            (metric_value(a->files_ok) != 0) != (a->files_refused[0] == '\0') ||
            (metric_value(a->files_ok) != 0) != (used() > before))
            break;
        taken += used() - before;
    }
    ok(taken > 0 && refused > 0 && taken + 1 == used(), "taken %u times, and %u times not", taken, refused);
    process_use_pair(taken % 2 == 0 ? "good" : "fresh");
    rereads(used() + 1);
    is_good(true, "in the end");
    end();
}

int main(void)
{
    process_prepare();
    changed();
    several();
    stray();
    disowned();
    stray_serving();
    after_reload();
    by_reload();
    unfit();
    lost();
    forgotten();
    unfit_for_peers();
    peer_lost();
    ends_meanwhile();
    without_memory();
    process_finish();
    return tap_end();
}
