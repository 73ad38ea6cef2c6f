/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of mvproxy, run as a process of its own: what each mode writes where, and the exit status. */
#include "daemon/program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/folder.h"
#include "lib/tap.h"
#include "net/own_address.h"

enum { MOST_ARGUMENTS = 6, TEXT = 1 << 20, KEYS_STAY = 98, TURN_US = 10000 };

#define BASE                                                                                                           \
    "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: ca.crt\nbind-address: 10.0.0.9\n" \
    "hostname-override: cp-a\nadmin-bind-address: \"\"\ncontrol-socket: \"\"\n"
#define UNKNOWN ": unknown option: take it out (mvproxy --help names those that there are)\n"
#define RELATIVE(file)                                                                                                 \
    "warning: " file ".yaml:1:1: tls-cert-file: server.crt is looked for in the folder that mvproxy starts in, which " \
    "for the service is /: give whole paths\n"
#define NO_CLIENTS                                                                                                     \
    "warning: client-ca-file: none: users with certificates are refused: give kube-apiserver's --client-ca-file\n"
#define LACKING                                                                                                        \
    "warning: peer-ca-file: none: peers cannot be used, and what only they have is 503: give the CA of the API "       \
    "servers' serving certificates\nwarning: proxy-client-cert-file: none: users with certificates are refused, and "  \
    "peers cannot be used: give kube-apiserver's front-proxy pair\nwarning: requestheader-client-ca-file: none: "      \
    "requests from peers are refused, because their identity headers cannot be verified: give kube-apiserver's "       \
    "--requestheader-client-ca-file\n"

static char out[TEXT], errors[TEXT];

/* ---- files ---- */

static void make_files(void)
{
    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');"
                        "a.issue('server', 's', ca='ca', eku='serverAuth', "
                        "sans=('kubernetes.default.svc', '10.0.0.9'))");
    folder_enter();
    folder_write("good.yaml", BASE);
    folder_write("wrong.yaml", BASE "nonsense: 1\n");
}

/* ---- the service's user ---- */

static struct passwd service;
static bool has_service;

/* In place of the C library's: nobody, or who runs this, is the service's user where a test says so. */
struct passwd *getpwnam(const char *name)
{
    return has_service && strcmp(name, "mvproxy") == 0 ? &service : NULL;
}

/* ---- this machine ---- */

static bool no_route;

/* In place of net/own_address.h's (the linker puts this in between). */
bool __real_own_address(int family, char text[OWN_ADDRESS_BYTES]);
bool __wrap_own_address(int family, char text[OWN_ADDRESS_BYTES]);
bool __wrap_own_address(int family, char text[OWN_ADDRESS_BYTES])
{
    return !no_route && __real_own_address(family, text);
}

/* ---- the process ---- */

static void read_all(FILE *f, char *text)
{
    size_t n;

    rewind(f);
    n = fread(text, 1, TEXT - 1, f);
    text[n] = '\0';
    (void)fclose(f);
}

static void become(int argc, char **argv) __attribute__((noreturn));
static void become(int argc, char **argv)
{
    CRYPTO_free_fn give_back = NULL;
    int status = program_run(argc, argv);

    CRYPTO_get_mem_functions(NULL, NULL, &give_back);
    if (give_back == CRYPTO_free)
        status = KEYS_STAY; /* what OpenSSL frees is not wiped */
    for (int i = 1; i < argc; i++)
        free(argv[i]);
    exit(status);
}

/* Its exit status; `to`: where its output goes, NULL: into `out`. It is looked whether it leaks when it exits. */
static int run(const char *const *arguments, const char *to)
{
    FILE *o = to == NULL ? tmpfile() : fopen(to, "w"), *e = tmpfile();
    char *argv[MOST_ARGUMENTS + 2] = {(char[]){"mvproxy"}};
    int argc = 1, status;
    pid_t child;

    for (size_t i = 0; i < MOST_ARGUMENTS && arguments[i] != NULL; i++)
        argv[argc++] = strdup(arguments[i]);
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        (void)dup2(fileno(o), STDOUT_FILENO);
        (void)dup2(fileno(e), STDERR_FILENO);
        become(argc, argv);
    }
    (void)waitpid(child, &status, 0);
    for (int i = 1; i < argc; i++)
        free(argv[i]);
    read_all(e, errors);
    if (to == NULL)
        read_all(o, out);
    else
        (void)fclose(o);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct row {
    const char *arguments[MOST_ARGUMENTS];
    int status;
    const char *out;    /* how it begins; "": nothing */
    const char *errors; /* all of it; NULL: whatever it is */
} rows[] = {
    {{"--help"}, 0, "Usage: mvproxy", ""},
    {{"-h"}, 0, "Usage: mvproxy", ""},
    {{"--version"}, 0, "mvproxy ", ""},
    {{"--print-options-mdoc"}, 0, ".", ""},
    {{"--print-options-markdown"}, 0, "", ""},
    {{"--nope"}, 2, "", "command line: --nope" UNKNOWN},
    {{"-x"}, 2, "", "command line: -x" UNKNOWN},
    {{"--bind-adress=x"}, 2, "", "command line: --bind-adress: unknown option: did you mean --bind-address?\n"},
    {{"--print-options-mdco"}, 2, "", "command line: --print-options-mdco" UNKNOWN},
    {{"--config", "none.yaml", "--dump-config"},
     1,
     "",
     "none.yaml: No such file or directory: give the path of a YAML file\n"},
    {{"--config", "wrong.yaml", "-t"}, 1, "", "wrong.yaml:8:1: nonsense" UNKNOWN LACKING RELATIVE("wrong") NO_CLIENTS},
    {{"--config", "wrong.yaml"}, 1, "", "wrong.yaml:8:1: nonsense" UNKNOWN},
    {{"--config", "good.yaml", "--dump-config"}, 0, "", ""},
    {{"--config", "good.yaml", "-t"}, 0, "configuration is valid\n", LACKING RELATIVE("good") NO_CLIENTS},
    {{"--config", "good.yaml", "-t", "--bind-address=cp-a"},
     1,
     "",
     "command line: bind-address: \"cp-a\" is not an IP address, alone or with a port: give one of this "
     "machine\n" LACKING RELATIVE("good") NO_CLIENTS},
    {{"--config", "good.yaml", "-t", "--admin-bind-address=192.0.2.77:9443"},
     1,
     "",
     LACKING "command line: admin-bind-address: this machine does not have the address 192.0.2.77: give one of its "
             "own, which ip -brief address lists\n" RELATIVE("good") NO_CLIENTS},
    {{"--config", "good.yaml", "-t", "--apiserver-ca-file=none.crt"},
     1,
     "",
     LACKING RELATIVE("good") "command line: apiserver-ca-file: none.crt: No such file or directory: give the whole "
                              "path of a PEM file, in which ~ and $ mean nothing\n" NO_CLIENTS},
};

static void table(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct row *r = &rows[i];

        is_int(run(r->arguments, NULL), r->status, "row %zu, %s: exit status", i, r->arguments[0]);
        ok(strncmp(out, r->out, strlen(r->out)) == 0 && (r->status == 0 || out[0] == '\0'), "row %zu: said: %.200s", i,
           out);
        if (r->errors != NULL)
            is_str(errors, r->errors, "row %zu: complained", i);
    }
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static void listings(void)
{
    static const char *const mdoc[MOST_ARGUMENTS] = {"--print-options-mdoc"},
                             *const markdown[MOST_ARGUMENTS] = {"--print-options-markdown"},
                             *const dump[MOST_ARGUMENTS] = {"--config", "good.yaml", "--dump-config", "--v=7"},
                             *const version[MOST_ARGUMENTS] = {"--version"};

    (void)run(mdoc, NULL);
    ok(has(out, ".It Ic bind-address") || has(out, "bind-address"), "the manual's list");
    ok(!has(out, "| `"), "is no markdown");
    (void)run(markdown, NULL);
    ok(has(out, "| `bind-address: ADDRESSES` |"), "the guide's list: %.200s", out);
    (void)run(dump, NULL);
    ok(has(out, "\nv: 7") && has(out, "tls-cert-file: \"server.crt\""), "what is in force: %.200s", out);
    ok(run(version, "/dev/full") == 1, "a disc that is full");
}

/* What only a start would find out otherwise. */
static void looks_deeper(void)
{
    static const char *const here[MOST_ARGUMENTS] = {"--config", "anywhere.yaml", "-t"},
                             *const egress[MOST_ARGUMENTS] = {"--config", "good.yaml", "-t",
                                                              "--egress-selector-config-file=none.yaml"};

    folder_write("anywhere.yaml", "tls-cert-file: server.crt\ntls-private-key-file: server.key\n"
                                  "apiserver-ca-file: ca.crt\nhostname-override: cp-a\nadmin-bind-address: \"\"\n"
                                  "control-socket: \"\"\n");
    no_route = true;
    is_int(run(here, NULL), 1, "a machine without an address of its own");
    no_route = false;
    ok(has(errors, "bind-address: this machine has no default route whose address could be used: give an address\n"),
       "why: %s", errors);
    is_int(run(egress, NULL), 1, "an egress selector that is not there");
    ok(has(errors, "egress-selector-config-file: ") && has(errors, "none.yaml"), "why: %s", errors);
}

/* Something else than an API server is where it should be: it says one line, and is gone. */
static void another_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof(at);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char option[64], want[128];
    const char *const arguments[MOST_ARGUMENTS] = {"--config", "good.yaml", "-t", option};
    pid_t child;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s, (struct sockaddr *)&at, n) != 0 || listen(s, 1) != 0 || getsockname(s, (struct sockaddr *)&at, &n) != 0)
        tap_bail("cannot listen");
    (void)snprintf(option, sizeof(option), "--apiserver=https://127.0.0.1:%u", ntohs(at.sin_port));
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        int c = accept(s, NULL, NULL);
        char hello[4096];

        if (c >= 0 && read(c, hello, sizeof(hello)) > 0)
            (void)!write(c, "HTTP/1.1 400 X\r\n\r\n", 18);
        _exit(0);
    }
    (void)close(s);
    is_int(run(arguments, NULL), 1, "what is no API server");
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    (void)snprintf(
        want, sizeof(want),
        "command line: apiserver: what answers at https://127.0.0.1:%u does not speak TLS: ", ntohs(at.sin_port));
    ok(has(errors, want), "why: %s", errors);
}

/* The service has to read the configuration, too. */
static void closed(void)
{
    static const char *const arguments[MOST_ARGUMENTS] = {"--config", "closed.yaml", "-t"};
    char file[256];
    const char *const whole[MOST_ARGUMENTS] = {"--config", file, "-t"};

    has_service = true;
    service = (struct passwd){.pw_name = (char[]){"nobody"},
                              .pw_uid = geteuid() == 0 ? 65534 : geteuid(),
                              .pw_gid = geteuid() == 0 ? 65534 : getegid()};
    folder_write("closed.yaml", BASE);
    (void)snprintf(file, sizeof(file), "%s/closed.yaml", folder());
    if (chmod("closed.yaml", 0) != 0 || chmod(folder(), 0755) != 0)
        tap_bail("chmod");
    is_int(run(whole, NULL), 1, "a file that the service cannot read");
    has_service = false;
    if (geteuid() == 0) {
        ok(has(errors, "closed.yaml: the user mvproxy, as whom the service runs, cannot read it (Permission denied)"),
           "why: %s", errors);
        is_int(run(arguments, NULL), 0, "no such user");
    }
}

/* And its first line, with the number of others, to the service manager. */
static void tells_manager(void)
{
    static const char *const one[MOST_ARGUMENTS] = {"--config", "good.yaml", "--apiserver-ca-file=none.crt"},
                             *const two[MOST_ARGUMENTS] = {"--config", "good.yaml", "--v=x", "--secure-port=y"};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), n;
    char name[64], said[2048];
    ssize_t got;

    n = snprintf(name, sizeof(name), "@mvproxy-program-test-%d", (int)getpid());
    memcpy(at.sun_path, name, (size_t)n);
    at.sun_path[0] = '\0';
    if (bind(manager, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)) != 0)
        tap_bail("cannot make a notify socket");
    (void)setenv("NOTIFY_SOCKET", name, 1);
    for (size_t i = 0; i < 2; i++) {
        is_int(run(i == 0 ? one : two, NULL), 1, "a start that fails");
        got = recv(manager, said, sizeof(said) - 1, MSG_DONTWAIT);
        said[got < 0 ? 0 : got] = '\0';
        is_str(said,
               i == 0 ? "STATUS=Cannot start: command line: apiserver-ca-file: CA bundle none.crt: No such file or "
                        "directory\n"
                      : "STATUS=Cannot start: command line: v: \"x\" is not a whole number: write it in digits alone "
                        "(1 more in the log)\n",
               "is told");
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)close(manager);
}

/* What a start says goes into the log. */
static void starts(void)
{
    static const char *const arguments[MOST_ARGUMENTS] = {"--config", "good.yaml", "--apiserver-ca-file=none.crt"},
                             *const none[MOST_ARGUMENTS] = {"--v=x"};

    is_int(run(arguments, NULL), 1, "a start that fails");
    ok(has(errors,
           "\"Cannot start\" err=\"command line: apiserver-ca-file: CA bundle none.crt: No such file or directory\"\n"),
       "why: %s", errors);
    is_str(strstr(errors, "err=\"\""), NULL, "no empty line");
    (void)run(none, NULL);
    if (has(errors, "no configuration file"))
        ok(has(errors, "mvproxy.yaml is not there: write it, or give --config FILE\ncommand line: v: \"x\""),
           "none at all");
    else
        tap_skip("this machine has a configuration", "none at all");
}

static int take_port(unsigned *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&addr, n) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("cannot listen");
    *port = ntohs(addr.sin_port);
    return fd;
}

/* The admin listener's address is not waited for together with clients': who has both is another mvproxy. */
static void ports_taken(void)
{
    unsigned port, admin_port;
    int fd = take_port(&port), admin_fd = take_port(&admin_port);
    char clients[48], admin[48];
    const char *const arguments[MOST_ARGUMENTS] = {"--config", "good.yaml", "--bind-address=127.0.0.1", clients, admin};

    (void)snprintf(clients, sizeof(clients), "--secure-port=%u", port);
    (void)snprintf(admin, sizeof(admin), "--admin-bind-address=127.0.0.1:%u", admin_port);
    is_int(run(arguments, NULL), 1, "addresses that are taken");
    ok(has(errors, "\"Cannot start\"") && has(errors, "Address already in use"), "why: %s", errors);
    (void)close(fd);
    (void)close(admin_fd);
}

/* Until it is told to end: signals that come while it starts wait (app_hold_signals()). */
static void serves(void)
{
    char *argv[] = {(char[]){"mvproxy"},
                    strdup("--config"),
                    strdup("good.yaml"),
                    strdup("--bind-address=127.0.0.1"),
                    strdup("--secure-port=0"),
                    strdup("--shutdown-delay-duration=0s"),
                    NULL};
    FILE *e = tmpfile();
    int status = -1;
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        (void)dup2(fileno(e), STDERR_FILENO);
        become((int)ROWS(argv) - 1, argv);
    }
    for (errors[0] = '\0'; !has(errors, "\"Started\"") && waitpid(child, &status, WNOHANG) == 0;
         (void)usleep(TURN_US)) {
        ssize_t got = pread(fileno(e), errors, TEXT - 1, 0);

        errors[got > 0 ? got : 0] = '\0';
    }
    if (kill(child, SIGTERM) == 0)
        (void)waitpid(child, &status, 0);
    read_all(e, errors);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "told to end: %s", errors);
    ok(has(errors, "\"Listening\"") && has(errors, "\"Shutting down\"") && has(errors, "\"Stopped\" why=\"drained\""),
       "in order");
    for (size_t i = 1; argv[i] != NULL; i++)
        free(argv[i]);
}

int main(void)
{
    make_files();
    table();
    listings();
    looks_deeper();
    another_server();
    closed();
    starts();
    tells_manager();
    ports_taken();
    serves();
    return tap_end();
}
