/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the control socket, asked of a whole process. What each answer has in full is its own module's
 * matter; here it arrives, and what is asked for is done. */
#include "daemon/operate.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/app.h"
#include "daemon/app_state.h"
#include "daemon/skew_view.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "unit/daemon/process.h"

enum { ANSWER = 1 << 20, PATIENCE_MS = 8000, LITTLE_PATIENCE_MS = 1000 };

#define NAMES "requestheader-client-ca-file: client-ca.crt\nrequestheader-allowed-names: [s]\n"
#define ID_B "apiserver-imkgstwjs6opnbwk2ixluu6fiq"
#define ID_C "apiserver-npbtitaxiimvptb5rwlxt4xbci"
#define PEERS                                                                                                          \
    "proxy-client-cert-file: good.crt\nproxy-client-key-file: good.key\npeer-ca-file: ca.crt\n" NAMES                  \
    "peers: [cp-b=127.0.0.2:1, cp-c=127.0.0.3:1]\npeer-allowed-cidrs: 127.0.0.0/8\n"

static struct app *a;
static char config[4096], path[96], answer[ANSWER];

static uint64_t patience_ms = PATIENCE_MS;
static bool no_view; /* there is no memory for one */

struct skew_view *__real_skew_view_new(const struct skew_view_opts *o);
struct skew_view *__wrap_skew_view_new(const struct skew_view_opts *o);

struct skew_view *__wrap_skew_view_new(const struct skew_view_opts *o)
{
    return no_view ? NULL : __real_skew_view_new(o);
}

static int connected(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        tap_bail("cannot connect to %s", path);
    return fd;
}

/* One line of JSON; `rest`: members of the request besides its version and the command. */
static const char *ask(const char *command, const char *rest)
{
    char request[512];
    int fd = connected();
    size_t n = 0;
    int len = snprintf(request, sizeof(request), "{\"v\":1,\"command\":\"%s\"%s%s}\n", command,
                       rest[0] == '\0' ? "" : ",", rest);

    if (write(fd, request, (size_t)len) != len)
        tap_bail("write");
    for (uint64_t end_ms = clock_ms() + patience_ms; clock_ms() < end_ms && memchr(answer, '\n', n) == NULL;) {
        ssize_t got;

        loop_run_once(a->loop, 10);
        got = recv(fd, answer + n, ANSWER - 1 - n, MSG_DONTWAIT);
        if (got == 0)
            break; /* it was hung up on us */
        n += got > 0 ? (size_t)got : 0;
    }
    answer[n] = '\0';
    (void)close(fd);
    process_pass(a, 1);
    return answer;
}

static void answers(const char *command, const char *rest, const char *want)
{
    ok(strstr(ask(command, rest), want) != NULL, "%s %s: %.300s", command, rest, answer);
}

static void is(const char *command, const char *rest, const char *want)
{
    is_str(ask(command, rest), want, "%s %s", command, rest);
}

static void start_with(const char *rest, const char *more)
{
    (void)snprintf(path, sizeof(path), "%s/control", folder());
    (void)snprintf(config, sizeof(config), PROCESS_TLS "%sadmin-bind-address: \"\"\ncontrol-socket: %s\n%s", rest, path,
                   more);
    a = process_start(config);
    process_listen();
}

static void start(const char *more)
{
    start_with(PROCESS_REST, more);
}

static void end(void)
{
    app_free(a);
    a = NULL;
}

/* ---- commands ---- */

static void tells(void)
{
    answers("status", "", "\"ok\":true,\"result\":{");
    answers("status", "", "\"cp-a\"");
    answers("requests", "", "\"ok\":true,\"result\":");
    answers("config", "", "tls-cert-file");
    answers("certs", "", "server.crt");
    answers("skew", "", "\"ok\":true,\"result\":{");
    answers("skew", "\"all\":true", "\"ok\":true,\"result\":{");
    answers("skew", "\"all\":7", "\"ok\":false");
    answers("upgrade", "", "\"ok\":true,\"result\":{");
    no_view = true;
    is("skew", "", "{\"v\":1,\"ok\":false,\"error\":\"out of memory\"}\n");
    no_view = false;
    answers("metrics", "", "\"ok\":true,\"result\":\"# HELP ");
    answers("metrics", "", "mvproxy_config_last_reload_successful 1\\n");
    ok(strcmp(answer + strlen(answer) - 3, "\"}\n") == 0, "to its end");
    answers("nonsense", "", "\"ok\":false");
    ok(strstr(ask("metrics", ""), "trigger=\\\"operator\\\"") == NULL, "nobody has had discovery read");
    answers("refresh", "", "\"ok\":true,\"result\":{}");
    for (uint64_t end_ms = clock_ms() + PATIENCE_MS;
         clock_ms() < end_ms && strstr(ask("metrics", ""), "trigger=\\\"operator\\\"") == NULL;)
        process_pass(a, 20);
    ok(strstr(answer, "trigger=\\\"operator\\\"") != NULL, "somebody has");
}

static void levels(void)
{
    log_set_verbosity(2);
    process_listen();
    is("loglevel", "", "{\"v\":1,\"ok\":true,\"result\":{\"level\":2}}\n");
    is("loglevel", "\"level\":2", "{\"v\":1,\"ok\":true,\"result\":{\"level\":2}}\n");
    is_u64(process_said("Verbosity changed"), 0, "the same is no change");
    is("loglevel", "\"level\":10", "{\"v\":1,\"ok\":true,\"result\":{\"level\":10}}\n");
    is_u64(process_said("\"Verbosity changed by the control socket\" verbosity=10"), 1, "said");
    is("loglevel", "\"level\":11", "{\"v\":1,\"ok\":false,\"error\":\"the level must be between 0 and 10\"}\n");
    is("loglevel", "\"level\":-1", "{\"v\":1,\"ok\":false,\"error\":\"the level must be between 0 and 10\"}\n");
    answers("loglevel", "\"level\":\"x\"", "\"ok\":false");
    is_int(log_verbosity(), 10, "which stays");
    is("loglevel", "\"level\":0", "{\"v\":1,\"ok\":true,\"result\":{\"level\":0}}\n");
    log_set_verbosity(2);
}

static void reloads(void)
{
    char wrong[sizeof(config) + 64];

    answers("reload", "", "\"reloaded\":true,\"errors\":[],\"warnings\":[\"warning: peer-ca-file: none: ");
    (void)snprintf(wrong, sizeof(wrong), "%snonsense: 1\nx-y: 1\n", config);
    folder_write("mvproxy.yaml", wrong);
    answers("reload", "", "\"reloaded\":false,\"errors\":[\"mvproxy.yaml:11:1: nonsense: unknown option: ");
    answers("reload", "", "\",\"mvproxy.yaml:12:1: x-y: unknown option: ");
    ok(strstr(answer, "\"\"") == NULL, "no empty line");
    folder_write("mvproxy.yaml", config);
    answers("reload", "", "\"reloaded\":true,\"errors\":[],\"warnings\":[\"warning: peer-ca-file: none: ");
    a->phase = APP_DELAYING;
    is("reload", "", "{\"v\":1,\"ok\":false,\"error\":\"the process is shutting down\"}\n");
    a->phase = APP_SERVING;
}

static void explains(void)
{
    answers("explain", "\"method\":\"GET\",\"path\":\"/api/v1/pods\"", "\"ok\":true,\"result\":{");
    answers("explain", "\"method\":\"GET\"", "\"ok\":false");
    answers("explain", "\"method\":\"GET\",\"path\":7", "\"ok\":false");
    answers("explain", "\"method\":7,\"path\":\"/api\"", "\"ok\":false");
    answers("explain", "\"method\":\"GET\",\"path\":\"/api\",\"user\":7", "\"ok\":false");
    answers("explain", "\"method\":\"GET\",\"path\":\"/api\",\"rerouted\":7", "\"ok\":false");
    answers("explain", "\"method\":\"GET\",\"path\":\"/api/v1/pods\",\"user\":\"alice\",\"rerouted\":true",
            "\"ok\":true");
}

/* Without CAs of clients nobody's certificate says who he is, which decides what becomes of a request. */
static void explains_without_cas(void)
{
    static const char asked[] = "\"method\":\"GET\",\"path\":\"/api/v1/pods\",\"user\":\"alice\"";

    start(PEERS);
    ok(strstr(ask("explain", asked), "client-ca-file") == NULL, "with client-ca-file nothing is said of it");
    end();
    start_with("bind-address: 127.0.0.1\nsecure-port: 0\nhostname-override: cp-a\n", PEERS);
    answers("explain", asked, "client-ca-file is not configured");
    end();
}

static void nobody(void)
{
    is("refresh", "", "{\"v\":1,\"ok\":true,\"result\":{}}\n");
    is("refresh", "\"peer\":\"zzzzzzzzzz\"",
       "{\"v\":1,\"ok\":false,\"error\":\"no server \\\"zzzzzzzzzz\\\": it is not the host name or server ID of "
       "one\"}\n");
    is("drain", "\"peer\":\"cp-a\"",
       "{\"v\":1,\"ok\":false,\"error\":\"\\\"cp-a\\\" is this server itself: ask the mvproxies of the others, or stop "
       "this one\"}\n");
    answers("drain", "\"peer\":7", "\"ok\":false");
    answers("refresh", "\"peer\":7", "\"ok\":false");
}

static void peers(void)
{
    start(PEERS);
    is("drain", "\"peer\":\"cp-b\"",
       "{\"v\":1,\"ok\":true,\"result\":{\"peer\":\"cp-b\",\"id\":\"" ID_B
       "\",\"drained\":true,\"requestsInFlight\":0}}"
       "\n");
    is("undrain", "\"peer\":\"cp-b\"",
       "{\"v\":1,\"ok\":true,\"result\":{\"peer\":\"cp-b\",\"id\":\"" ID_B
       "\",\"drained\":false,\"requestsInFlight\":0}}"
       "\n");
    is("refresh", "\"peer\":\"cp-c\"", "{\"v\":1,\"ok\":true,\"result\":{\"id\":\"" ID_C "\"}}\n");
    is("drain", "\"peer\":\"cp-bb\"",
       "{\"v\":1,\"ok\":false,\"error\":\"no peer \\\"cp-bb\\\": did you mean cp-b?\"}\n");
    is("refresh", "\"peer\":\"cp-cc\"",
       "{\"v\":1,\"ok\":false,\"error\":\"no server \\\"cp-cc\\\": did you mean cp-c?\"}\n");
    end();
}

/* Whatever there is no memory for, an answer is whole, says so, or does not come; and the next one is as ever. */
static void without_memory(const char *command, const char *rest)
{
    enum { MOST_CALLS = 400 };
    unsigned said = 0, wrong = 0;
    uint64_t calls = 0, nth;

    patience_ms = LITTLE_PATIENCE_MS;
    for (nth = 0; nth <= calls && nth < MOST_CALLS; nth += 1 + nth / 20) {
        calls = nth == 0 ? mem_calls() : calls;
        mem_fail_nth(nth);
        (void)ask(command, rest);
        mem_fail_nth(0);
        calls = nth == 0 ? mem_calls() - calls : calls;
        said += strstr(answer, "out of memory") != NULL;
        wrong += answer[0] != '\0' && strstr(answer, "\"ok\":true") == NULL && strstr(answer, "\"ok\":false") == NULL;
    }
    patience_ms = PATIENCE_MS;
    ok(said > 0, "%s: %u answers say that there is no memory (%llu allocations)", command, said,
       (unsigned long long)calls);
    is_u64(wrong, 0, "%s: none is anything else than an answer", command);
    answers(command, rest, "\"ok\":true");
}

/* ---- the socket ---- */

static void socket_file(void)
{
    struct stat st;

    ok(stat(path, &st) == 0, "it is there");
    (void)unlink(path);
    process_beat(a);
    process_pass(a, 50);
    ok(stat(path, &st) == 0, "and is made again");
    operate_close(a);
    ok(stat(path, &st) != 0 && a->control == NULL, "until it is closed");
    operate_close(a);
}

static void without(void)
{
    (void)snprintf(config, sizeof(config),
                   PROCESS_TLS PROCESS_REST "admin-bind-address: \"\"\ncontrol-socket: %s/none/x\n", folder());
    a = process_start(config);
    ok(a->control == NULL, "a folder that is not there");
    is_u64(process_said("No control socket: mvproxyctl cannot be used"), 1, "said");
    process_beat(a);
    end();
    a = process_start(PROCESS_TLS PROCESS_REST PROCESS_QUIET);
    ok(a->control == NULL, "none is wanted");
    is_u64(process_said("No control socket"), 0, "nothing to say");
    end();
}

int main(void)
{
    process_prepare();
    start("");
    tells();
    levels();
    reloads();
    explains();
    nobody();
    without_memory("metrics", "");
    without_memory("reload", "");
    without_memory("explain", "\"method\":\"GET\",\"path\":\"/api/v1/pods\"");
    socket_file();
    end();
    explains_without_cas();
    peers();
    without();
    process_finish();
    return tap_end();
}
