/* SPDX-License-Identifier: Apache-2.0 */
/* Reloads of a whole process that serves nobody: what is put in force, what is refused, and who hears of it. The
 * servers that are asked first are played here (try_local.h, reread.h). */
#include "daemon/reload.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "daemon/app.h"
#include "daemon/app_state.h"
#include "daemon/options.h"
#include "daemon/reread.h"
#include "daemon/try_local.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "unit/daemon/process.h"

enum { ROOM = 1 << 16, TURN_MS = 20, MOST_CALLS = 5000, PATIENCE_MS = 8000 };

#define BASE PROCESS_TLS PROCESS_REST PROCESS_QUIET
#define ELSEWHERE BASE "apiserver: https://127.0.0.1:2\n"

static struct app *a;
static char errors[ROOM];

/* ---- in place of those who ask servers ---- */

struct local_trial {
    local_trial_fn *fn;
    void *arg;
};

struct trust_trial {
    void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why);
    void *arg;
};

static struct {
    struct local_trial *local;
    struct trust_trial *peers;
    bool has_peers, no_memory;
    unsigned trials, forgotten;
} world;

struct local_trial *local_trial_begin(struct back *b, struct loop *l, const struct config *c, struct origin *local,
                                      local_trial_fn *fn, void *arg)
{
    (void)b;
    (void)l;
    (void)c;
    (void)local;
    world.trials++;
    if (world.no_memory)
        return NULL;
    world.local = mem_zalloc(sizeof(*world.local));
    if (world.local != NULL)
        *world.local = (struct local_trial){fn, arg};
    return world.local;
}

void local_trial_end(struct local_trial *t)
{
    mem_free(t);
    world.local = NULL;
}

static void local_says(const char *option, const char *text)
{
    struct local_trial t = *world.local;
    struct err err;

    err_clear(&err);
    (void)err_set(&err, "%s", text);
    local_trial_end(world.local);
    t.fn(t.arg, option, &err);
}

struct trust_trial *reread_ask_peers(const struct app *app, const struct trust *fresh,
                                     void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why),
                                     void *arg)
{
    (void)app;
    (void)fresh;
    if (!world.has_peers)
        return NULL;
    world.peers = mem_zalloc(sizeof(*world.peers));
    if (world.peers != NULL)
        *world.peers = (struct trust_trial){done, arg};
    return world.peers;
}

void trust_trial_free(struct trust_trial *t)
{
    mem_free(t);
    world.peers = NULL;
}

static void peers_say(enum trust_verdict v)
{
    struct trust_trial t = *world.peers;

    trust_trial_free(world.peers);
    t.done(t.arg, v, "cp-b", "because");
}

struct reread *reread_new(struct app *app)
{
    (void)app;
    return mem_zalloc(1);
}

void reread_free(struct reread *r)
{
    mem_free(r);
}

void reread_files(struct app *app)
{
    (void)app;
}

void reread_look(struct app *app)
{
    (void)app;
}

void reread_forget(struct app *app)
{
    (void)app;
    world.forgotten++;
}

/* ---- the process ---- */

static void start(void)
{
    a = process_start(BASE);
    process_listen();
}

static void end(void)
{
    app_free(a);
    a = NULL;
}

static bool is_over(const struct reload_result *r, bool *good)
{
    struct slice text;
    bool over = reload_is_over(a, r, good, &text);

    (void)snprintf(errors, sizeof(errors), "%.*s", over ? (int)text.n : 0, over ? text.p : "");
    return over;
}

/* Until it is over, or a server is being asked. */
static void go_on(const struct reload_result *r)
{
    bool good;

    for (uint64_t end_ms = clock_ms() + PATIENCE_MS;
         clock_ms() < end_ms && !is_over(r, &good) && world.local == NULL && world.peers == NULL;)
        loop_run_once(a->loop, TURN_MS);
}

/* Whether it was put in force; else `errors` says why not. */
static bool ends(struct reload_result *r)
{
    bool good = false;

    go_on(r);
    ok(is_over(r, &good), "over");
    reload_result_unref(r);
    return good;
}

static struct reload_result *begin(const char *text)
{
    struct reload_result *r;

    folder_write("mvproxy.yaml", text);
    r = reload_begin(a);
    if (r == NULL)
        tap_bail("memory");
    go_on(r);
    return r;
}

static bool reloads(const char *text)
{
    return ends(begin(text));
}

/* ---- what is put in force ---- */

static void succeeds(void)
{
    const struct config *before;
    struct origin *local;

    start();
    before = a->config;
    local = a->around.local;
    metric_set(a->reload_time, 0);
    metric_set(a->config_hash, 0);
    ok(reloads(BASE "v: 3\nrequestheader-uid-headers: X-Uid\n"), "another configuration: %s", errors);
    ok(strstr(errors, "warning: mvproxy.yaml:1:1: tls-cert-file: server.crt is looked for in the folder") != NULL,
       "with the warnings of its files: %s", errors);
    is_u64(world.trials, 0, "the local server is the same");
    ok(a->around.local == local, "and stays");
    ok(a->config != before && a->config->v == 3 && a->config_before == before, "in force");
    is_int(log_verbosity(), 3, "the log's level");
    is_u64(world.forgotten, 1, "what was held back is forgotten");
    is_int((int)metric_value(a->reload_ok), 1, "the metric of success");
    ok(metric_value(a->reload_time) > 1e9, "of time");
    is_double(metric_value(a->config_hash), (double)options_hash(a->config), "of the configuration");
    ok(strncmp(process_told(), "RELOADING=1\nMONOTONIC_USEC=", 27) == 0 && strstr(process_told(), "x") == NULL,
       "the manager");
    ok(process_happened(a, "the configuration was reloaded"), "people");
    is_u64(process_said("\"Reloaded\""), 1, "the log");
    is_slice(a->claims.now.uid[0], "X-Uid", "header names of now");
    is_u64(a->claims.also.n_uid, 0, "and those of before");
    ok(a->claims.also.username != NULL, "which are known");
    process_listen();
    ok(reloads(BASE "tls-cipher-suites: [TLS_RSA_WITH_AES_128_CBC_SHA]\n"), "once more");
    ok(strstr(process_told(), "READY=1\nSTATUS=Not ready: ") != NULL, "ready for the manager");
    is_u64(process_said("Insecure cipher suite"), 1, "of suites");
    is_u64(a->claims.also.n_uid, 1, "header names of before");
    end();
}

static void asks_local(void)
{
    struct reload_result *r, *next;
    struct origin *local;

    start();
    local = a->around.local;
    r = begin(ELSEWHERE);
    ok(world.local != NULL, "another local server is asked");
    ok(a->around.local == local, "before it counts");
    local_says(NULL, "");
    ok(ends(r) && a->around.local != local, "nothing is wrong with it");
    local = a->around.local;
    r = begin(BASE "apiserver: https://127.0.0.1:3\n");
    metric_set(a->reload_ok, 1);
    local_says("apiserver", "it is none");
    ok(!ends(r) && a->around.local == local, "another, and it is none");
    is_str(errors, "mvproxy.yaml:11:1: apiserver: it is none\n", "why");
    is_int((int)metric_value(a->reload_ok), 0, "the metric");
    ok(!a->refused_for_files, "it is not for files");
    is_str(a->reload_refused, "mvproxy.yaml:11:1: apiserver: it is none", "kept");
    ok(process_happened(a, "a reload was refused: mvproxy.yaml:11:1: apiserver: it is none"), "people");
    world.no_memory = true;
    ok(reloads(BASE "apiserver: https://127.0.0.1:4\n"), "no memory to ask: it is believed");
    is_str(a->reload_refused, "", "nothing is refused any more");
    world.no_memory = false;
    r = begin(ELSEWHERE);
    next = reload_begin(a);
    end(); /* while it is asked */
    reload_result_unref(r);
    reload_result_unref(next);
}

static void asks_peers(void)
{
    struct reload_result *r;

    start();
    world.has_peers = true;
    r = begin(BASE "v: 1\n");
    ok(world.peers != NULL, "peers are asked");
    peers_say(TRUST_UNKNOWN);
    ok(ends(r) && a->config->v == 1, "nobody knows");
    r = begin(ELSEWHERE "v: 2\n");
    local_says(NULL, "");
    peers_say(TRUST_FITS);
    ok(ends(r) && a->config->v == 2, "after the local server");
    r = begin(ELSEWHERE "v: 2\n");
    peers_say(TRUST_UNFIT);
    ok(!ends(r), "they would not be believed");
    is_str(errors,
           "peer-ca-file: : has not signed what peers show: cp-b (because): put the CA that has signed their "
           "certificates into it as well\n",
           "why");
    ok(a->refused_for_files, "the configuration is the one in force");
    is_int((int)metric_value(a->reload_ok), 0, "the metric");
    r = begin(BASE);
    ok(!a->refused_for_files, "not known of the next");
    local_says(NULL, "");
    peers_say(TRUST_UNFIT);
    ok(!ends(r) && !a->refused_for_files, "another configuration");
    r = begin(BASE);
    end(); /* while they are asked */
    reload_result_unref(r);
    start();
    r = begin(BASE);
    peers_say(TRUST_FITS);
    ok(ends(r), "the last that happens");
    world.has_peers = false;
    end();
}

/* ---- what is refused ---- */

static void refuses(void)
{
    static const struct {
        const char *name, *text, *pair, *want;
        bool for_files;
    } rows[] = {
        {"no option", BASE "nonsense: 1\n", "good",
         "mvproxy.yaml:11:1: nonsense: unknown option: take it out (mvproxy --help names those that there are)\n",
         false},
        {"what needs a restart",
         PROCESS_TLS "bind-address: 127.0.0.1\nsecure-port: 0\nhostname-override: cp-b\nclient-ca-file: client-ca.crt\n"
                     "shutdown-delay-duration: 0s\nadmin-bind-address: \"127.0.0.1:9\"\ncontrol-socket: \"\"\n",
         "good",
         "cannot be changed without a restart: hostname-override, admin-bind-address: restart mvproxy, or take it "
         "back\n",
         false},
        {"a certificate of nobody", BASE, "bad",
         "mvproxy.yaml:1:1: tls-cert-file: certificate server.crt: nothing of the kind in PEM is in it: give another "
         "file\n",
         true},
        {"the same, and another level", BASE "v: 1\n", "bad", NULL, false},
        {"a certificate for other names", BASE, "other",
         "mvproxy.yaml:1:1: tls-cert-file: server.crt is not valid for kubernetes.default.svc, by which peers know us: "
         "add that name\n",
         true},
        {"the same, and another level", BASE "v: 1\n", "other", NULL, false},
    };

    start();
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct config *c = a->config;

        process_listen();
        process_use_pair(rows[i].pair);
        metric_set(a->reload_ok, 1);
        a->refused_for_files = false;
        ok(!reloads(rows[i].text), "%s", rows[i].name);
        if (rows[i].want != NULL)
            is_str(errors, rows[i].want, "%s: why", rows[i].name);
        ok(a->config == c, "%s: nothing is put in force", rows[i].name);
        is_int((int)metric_value(a->reload_ok), 0, "%s: the metric", rows[i].name);
        is_int(a->refused_for_files, rows[i].for_files, "%s: for files alone", rows[i].name);
    }
    end();
    process_use_pair("good");
}

/* An empty line is none, one of a single character is. */
static void says_all(void)
{
    start();
    ok(!reloads(BASE "nonsense: 1\nrubbish: 1\n"), "two lines are wrong");
    is_u64(process_said("Reload refused"), 2, "both are in the log");
    ok(strstr(a->reload_refused, "nonsense") != NULL && strstr(a->reload_refused, "rubbish") == NULL,
       "the first stays");
    ok(strstr(process_told(), "READY=1\nSTATUS=Not ready: ") != NULL &&
           strstr(a->status, "refused: mvproxy.yaml:11") != NULL,
       "the manager hears of it: %s", a->status);
    a->reload_refused_ms = 1;
    ok(!reloads(BASE "nonsense: 1\n"), "still wrong");
    is_u64(a->reload_refused_ms, 1, "since the first time");
    ok(reloads(BASE) && strstr(a->status, "last reload") == NULL, "and no more: %s", a->status);
    ok(!reloads(BASE "nonsense: 1\n") && a->reload_refused_ms > 1, "anew");
    end();
}

/* ---- several ---- */

static void in_turn(void)
{
    struct reload_result *first, *second, *third;
    uint64_t before;
    bool good;

    start();
    first = begin(ELSEWHERE "v: 1\n");
    folder_write("mvproxy.yaml", ELSEWHERE "nonsense: 1\n");
    second = reload_begin(a);
    third = reload_begin(a);
    ok(first != second && second == third, "who asks meanwhile waits for the next");
    process_pass(a, 100);
    ok(!is_over(first, &good) && !is_over(second, &good), "none is over");
    local_says(NULL, "");
    ok(is_over(first, &good) && good && !is_over(second, &good), "the first is, and is good");
    before = loop_now_ms(a->loop);
    ok(!ends(second), "the second is not");
    ok(loop_now_ms(a->loop) - before > 400, "after a while");
    ok(is_over(first, &good) && good, "the first one's result stays");
    ok(strstr(errors, "warning: peer-ca-file: none") == errors, "with warnings: %s", errors);
    reload_result_unref(third);
    reload_result_unref(first);
    is_u64(process_said("\"Reloading\""), 2, "two in all");
    end();
}

static void waits_for(const char *words)
{
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS; clock_ms() < end_ms && process_said(words) == 0;)
        loop_run_once(a->loop, TURN_MS);
}

static void by_signal(void)
{
    uint64_t begun;

    start();
    folder_write("mvproxy.yaml", BASE "v: 1\n");
    reload_request(a);
    waits_for("\"Reloaded\"");
    is_u64(a->config->v, 1, "the first one");
    begun = clock_ms();
    process_listen();
    reload_request(a);
    reload_request(a);
    waits_for("\"Reloaded\"");
    ok(clock_ms() - begun >= TIMEOUT_RELOAD_DISTANCE_MS - 50, "the next after a while");
    process_pass(a, TIMEOUT_RELOAD_DISTANCE_MS + 50);
    is_u64(process_said("\"Reloading\""), 1, "once");
    for (int i = 0; i < 10 && process_said("out of memory") == 0; i++) {
        reload_request(a);
        mem_fail_nth(1); /* somebody else may take it */
        loop_run_once(a->loop, TURN_MS);
        mem_fail_nth(0);
        process_pass(a, process_said("out of memory") == 0 ? TIMEOUT_RELOAD_DISTANCE_MS + 50 : 0);
    }
    is_u64(process_said("\"Reload refused, the running configuration stays\" err=\"out of memory\""), 1, "no memory");
    end();
}

/* ---- the end of the process ---- */

static void is_shutting_down(struct reload_result *r, const char *name)
{
    bool good = true;

    ok(is_over(r, &good) && !good, "%s: over", name);
    is_str(errors, "the process is shutting down\n", "%s: why", name);
}

static void ends_meanwhile(void)
{
    struct reload_result *r, *next;
    const struct config *before;

    start();
    before = a->config;
    world.has_peers = true;
    r = begin(ELSEWHERE "v: 1\n");
    next = reload_begin(a);
    a->phase = APP_DELAYING;
    is_shutting_down(r, "while the local server is asked");
    local_says(NULL, "");
    is_shutting_down(r, "once it has answered");
    is_shutting_down(next, "the next");
    ok(world.peers == NULL, "peers are not asked");
    reload_result_unref(r);
    reload_result_unref(next);
    a->phase = APP_SERVING;
    next = reload_begin(a);
    go_on(next);
    local_says(NULL, "");
    a->phase = APP_DELAYING;
    peers_say(TRUST_FITS);
    is_shutting_down(next, "while peers are");
    reload_result_unref(next);
    ok(a->config == before, "nothing is put in force");
    r = reload_begin(a);
    is_shutting_down(r, "afterwards");
    reload_result_unref(r);
    a->phase = APP_SERVING;
    world.has_peers = false;
    folder_write("mvproxy.yaml", BASE "v: 1\n");
    r = reload_begin(a);
    a->phase = APP_DELAYING;
    process_pass(a, 100);
    is_shutting_down(r, "between the two turns");
    reload_result_unref(r);
    ok(a->config == before, "nothing is put in force");
    end();
}

/* ---- no memory ---- */

static void no_timers(void)
{
    struct reload *r = NULL;
    uint64_t nth = 1;

    start();
    for (; r == NULL && nth < 10; nth++) {
        mem_fail_nth(nth);
        r = reload_new(a);
        mem_fail_nth(0);
    }
    ok(r != NULL && nth > 3, "two timers");
    reload_free(r);
    end();
}

static void without_memory(void)
{
    uint64_t nth = 1, calls = 0;
    unsigned failed = 0, named = 0;
    bool good = false;

    start();
    folder_write("mvproxy.yaml", ELSEWHERE "requestheader-uid-headers: X-Uid\n");
    for (; !good && nth < MOST_CALLS; nth++) {
        const struct config *before = a->config;
        struct reload_result *r;

        mem_fail_nth(nth);
        calls = mem_calls();
        r = reload_begin(a);
        if (r != NULL)
            go_on(r);
        if (world.local != NULL) {
            local_says(NULL, "");
            go_on(r);
        }
        mem_fail_nth(0);
        if (r != NULL && is_over(r, &good)) {
            named += strstr(errors, "out of memory") != NULL;
            failed += !good;
        }
        reload_result_unref(r);
        if (!good && (a->config != before || a->claims.now.n_uid != 0 || a->claims.also.username != NULL))
            break;
    }
    ok(good && a->config->requestheader_uid_headers[0] != NULL, "in the end there is enough");
    ok(failed > 0 && named > 0, "%u failed, %u for memory; %u calls", failed, named, (unsigned)(mem_calls() - calls));
    end();
}

int main(void)
{
    process_prepare();
    succeeds();
    asks_local();
    asks_peers();
    refuses();
    says_all();
    in_turn();
    by_signal();
    ends_meanwhile();
    no_timers();
    without_memory();
    process_finish();
    return tap_end();
}
