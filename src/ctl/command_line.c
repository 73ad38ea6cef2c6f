/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/command_line.h"

#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/nearest.h"
#include "ctl/check_command.h"
#include "ctl/client.h"
#include "ctl/fields.h"
#include "ctl/host.h"
#include "ctl/show.h"
#include "ctl/show_skew.h"

#define DEFAULT_SOCKET "/run/mvproxy/control.sock"
#define DEFAULT_CONFIG_FILE CONFIG_DIRECTORY "/mvproxy.yaml"

/* Exit statuses, as mvproxyctl(1) documents them. */
enum { EXIT_FINE, EXIT_NOT_WELL, EXIT_NO_ANSWER, EXIT_WRONG_USE };

enum { WATCH_S = 2, MAX_ARGUMENTS = 3, REFRESH_LOOKS = 150 };

struct option;

struct call {
    const char *socket;
    const char *command; /* NULL: none */
    const char *argument[MAX_ARGUMENTS];
    size_t n_arguments;
    const char *user, *config_file, *format;
    bool json, all, rerouted, watch, before, upgrade, help, version;
    const struct option *special; /* one that not every command has, if any was given */
};

struct command {
    const char *name, *asks; /* what the daemon calls it */
    size_t least, most;      /* arguments */
    const char *arguments, *help;
    bool (*show)(struct json_object *result);                        /* NULL: it does all by itself (carry_out) */
    bool (*fill)(const struct call *c, struct json_object *request); /* NULL: nothing to add */
};

static void add_text(struct json_object *request, const char *name, const char *value)
{
    json_object_object_add(request, name, json_object_new_string(value));
}

static bool fill_skew(const struct call *c, struct json_object *request)
{
    json_object_object_add(request, "all", json_object_new_boolean(c->all));
    return true;
}

/* Of a URL, as a client's log has it, the path is meant. */
static const char *path_of(const char *target)
{
    const char *host = target[0] == '/' ? NULL : strstr(target, "://"), *path;

    if (host == NULL)
        return target;
    path = strchr(host + strlen("://"), '/');
    return path == NULL ? "/" : path;
}

static bool fill_explain(const struct call *c, struct json_object *request)
{
    if (c->user != NULL && c->user[0] == '\0') {
        fputs("mvproxyctl: --as: give a user's name; without --as it is about a token, or nobody\n", stderr);
        return false;
    }
    add_text(request, "method", c->argument[0]);
    add_text(request, "path", path_of(c->argument[1]));
    json_object_object_add(request, "rerouted", json_object_new_boolean(c->rerouted));
    if (c->user != NULL)
        add_text(request, "user", c->user);
    return true;
}

static bool fill_peer(const struct call *c, struct json_object *request)
{
    if (c->n_arguments > 0)
        add_text(request, "peer", c->argument[0]);
    return true;
}

static bool fill_level(const struct call *c, struct json_object *request)
{
    char *end;
    long level;

    if (c->n_arguments == 0)
        return true;
    level = strtol(c->argument[0], &end, 10);
    if (end == c->argument[0] || *end != '\0' || level < 0 || level > 10) {
        fprintf(stderr, "mvproxyctl: \"%s\" is not a level between 0 and 10\n", c->argument[0]);
        return false;
    }
    json_object_object_add(request, "level", json_object_new_int64(level));
    return true;
}

static int run_check(const struct call *c)
{
    return check_command(&(struct check_command){.socket = c->socket,
                                                 .config_file = c->config_file,
                                                 .else_file = DEFAULT_CONFIG_FILE,
                                                 .before = c->before,
                                                 .json = c->json});
}

static const struct command commands[] = {
    {"check", NULL, 0, 0, "[--pre] [--config FILE]",
     "Whether all that mvproxy stands on is as it has to be; --pre: before it is started. Exit status 0 well,\n"
     "      1 warnings only, 2 something is wrong.",
     NULL, NULL},
    {"status", "status", 0, 0, "", "Ready or not and why, this server, its peers.", show_status, NULL},
    {"peers", "status", 0, 0, "", "This server and each peer: state, address, health, age of discovery.", show_peers,
     NULL},
    {"skew", "skew", 0, 0, "[--all | --upgrade] [--watch]",
     "What is not served by every server, or not alike. --all: every resource; --upgrade: what an upgrade takes\n"
     "      away, and who asks for it (exit status 1: somebody does, or that is not known); --watch: again every two "
     "seconds.",
     show_skew, fill_skew},
    {"explain", "explain", 2, 2, "METHOD PATH [--as USER] [--rerouted]",
     "What would be done with a request, and why; --as: of a user with a certificate; --rerouted: as if a peer\n"
     "      had sent it on.",
     show_explain, fill_explain},
    {"requests", "requests", 0, 0, "", "Requests under way, the longest first, watches last.", show_requests, NULL},
    {"refresh", "refresh", 0, 1, "[SERVER]",
     "Read discovery again now, of all servers or of one, and say what came of it.", NULL, fill_peer},
    {"drain", "drain", 1, 1, "PEER", "Send that peer no new requests while another server can have them.", show_drain,
     fill_peer},
    {"undrain", "undrain", 1, 1, "PEER", "Send them again.", show_drain, fill_peer},
    {"reload", "reload", 0, 0, "", "Reload the configuration; says what is wrong with it.", show_reload, NULL},
    {"loglevel", "loglevel", 0, 1, "[LEVEL]", "Show or set the log's verbosity until the next reload.", show_level,
     fill_level},
    {"config", "config", 0, 0, "", "The effective configuration and where each value comes from.", show_config, NULL},
    {"certs", "certs", 0, 0, "", "The certificates in force and when they end.", show_certs, NULL},
    {"metrics", "metrics", 0, 0, "", "All metrics in Prometheus' text format.", show_metrics, NULL},
    {"version", "status", 0, 0, "", "The version of the running mvproxy (--version: that of mvproxyctl).", show_version,
     NULL},
    {"support-bundle", NULL, 1, 1, "FILE",
     "What the running process says, in one file (-: to standard output), without secrets.", NULL, NULL},
};

/* skew --upgrade */
static const struct command upgrade = {"skew", "upgrade", 0, 0, "--upgrade [--watch]", "", show_upgrade, NULL};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *f)
{
    fputs("Usage: mvproxyctl [--socket PATH] [-o json] COMMAND [ARGUMENT ...]\n\n"
          "Asks a running mvproxy on this machine, by its control socket (default " DEFAULT_SOCKET ").\n\n",
          f);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-14s %s\n      %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    fputs("  help           [COMMAND]\n      This, or of one command.\n"
          "\nExit status: 0 well; 1 not ready, refused or expired; 2 no mvproxy answers; 3 wrong use.\n",
          f);
}

static void print_usage(FILE *f, const struct command *k)
{
    fprintf(f, "mvproxyctl %s%s%s\n", k->name, k->arguments[0] == '\0' ? "" : " ", k->arguments);
}

static const struct command *find(const char *name)
{
    struct nearest n = nearest_to(slice_str(name));

    nearest_try(&n, "help");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
        nearest_try(&n, commands[i].name);
    }
    fprintf(stderr,
            n.best == NULL ? "mvproxyctl: unknown command \"%s\"; --help lists them\n"
                           : "mvproxyctl: unknown command \"%s\": did you mean %s?\n",
            name, n.best);
    return NULL;
}

/* NULL with *err, or after a message; *status is the exit status then. */
static struct json_object *ask_quietly(const struct command *k, const struct call *c, int *status, struct err *err)
{
    struct json_object *request = client_request(k->asks), *result;
    bool silent;

    err_clear(err);
    if (k->fill != NULL && !k->fill(c, request)) {
        json_object_put(request);
        *status = EXIT_WRONG_USE;
        return NULL;
    }
    result = client_ask(c->socket, request, &silent, err);
    if (result == NULL)
        *status = silent ? EXIT_NO_ANSWER : EXIT_NOT_WELL;
    return result;
}

/* NULL after a message; *status is the exit status then. */
static struct json_object *ask(const struct command *k, const struct call *c, int *status)
{
    struct err err;
    struct json_object *result = ask_quietly(k, c, status, &err);

    if (result == NULL && err_is_set(&err))
        fprintf(stderr, "mvproxyctl: %s\n", err.text);
    return result;
}

/* Of the whole status only that was asked for. */
static struct json_object *only_version(struct json_object *status)
{
    struct json_object *o = json_object_new_object();

    add_text(o, "version", field_text(status, "version"));
    json_object_put(status);
    return o;
}

/* What JSON says in words of its own, and yet is no answer to go on with. */
static bool is_refused(struct json_object *result)
{
    return field(result, "reloaded") != NULL && !field_truth(result, "reloaded");
}

static int show_once(const struct command *k, const struct call *c)
{
    int status = EXIT_NOT_WELL;
    struct json_object *result = ask(k, c, &status);

    if (result == NULL)
        return status;
    if (k->show == show_version)
        result = only_version(result);
    if (c->json)
        show_json(
            slice_str(json_object_to_json_string_ext(result, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)),
            stdout);
    else
        show_printable(result);
    status = (c->json ? !is_refused(result) : k->show(result)) ? EXIT_FINE : EXIT_NOT_WELL;
    json_object_put(result);
    return status;
}

/* ---- refresh ---- */

static struct json_object *servers_now(const struct call *c, int *status)
{
    struct json_object *all = ask(find("status"), c, status), *servers = field(all, "servers");
    bool listed = json_object_is_type(servers, json_type_array);

    if (all != NULL && !listed)
        fputs("mvproxyctl: mvproxy's answer names no servers\n", stderr);
    if (listed)
        servers = json_object_get(servers);
    json_object_put(all);
    return listed ? servers : NULL;
}

/* `done`: what the daemon has answered; it knows which of several servers of one host name is meant. */
static bool was_asked_for(struct json_object *done, struct json_object *server)
{
    const char *id = field_text(done, "id");

    return id[0] == '\0' || strcmp(field_text(server, "id"), id) == 0;
}

static int64_t reads_of(struct json_object *servers, const char *id)
{
    struct json_object *reads = NULL;

    for (size_t i = 0; i < json_object_array_length(servers); i++) {
        struct json_object *one = json_object_array_get_idx(servers, i);

        if (strcmp(field_text(one, "id"), id) == 0 && json_object_object_get_ex(one, "discoveryReads", &reads))
            return json_object_get_int64(reads);
    }
    return 0;
}

/* Leaves in `now` those that were asked for; true if each has been read since `before`, or cannot be. */
static bool have_been_read(struct json_object *done, struct json_object *before, struct json_object *now)
{
    bool all = true;

    for (size_t i = json_object_array_length(now); i-- > 0;) {
        struct json_object *one = json_object_array_get_idx(now, i);
        const char *id = field_text(one, "id");

        if (!was_asked_for(done, one))
            json_object_array_del_idx(now, i, 1);
        else if (field_text(one, "address")[0] != '\0' && reads_of(now, id) <= reads_of(before, id))
            all = false;
    }
    return all;
}

/* Asks, waits, and tells what came of it. */
static int refresh(const struct command *k, const struct call *c)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    int status = EXIT_NOT_WELL;
    struct json_object *before = servers_now(c, &status), *done = before == NULL ? NULL : ask(k, c, &status),
                       *now = NULL;
    bool over = false;

    for (unsigned i = 0; done != NULL && !over && i < REFRESH_LOOKS; i++) {
        (void)nanosleep(&pause, NULL);
        json_object_put(now);
        now = servers_now(c, &status);
        over = now == NULL || have_been_read(done, before, now);
    }
    if (now != NULL)
        status = show_refreshed(now, over, c->json) ? EXIT_FINE : EXIT_NOT_WELL;
    json_object_put(now);
    json_object_put(done);
    json_object_put(before);
    return status;
}

/* Into a file of its own: whoever else may write to its folder, say /tmp, does not choose which one. */
static int write_new_file(const char *path, struct json_object *o)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    const char *text = f == NULL ? NULL : json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY);

    if (text != NULL)
        show_json(slice_str(text), f);
    if (text != NULL && fflush(f) == 0 && fclose(f) == 0)
        return EXIT_FINE;
    fprintf(stderr, "mvproxyctl: %s: %s%s\n", path, strerror(errno),
            errno == EEXIST ? ": give another name, or remove it" : "");
    if (fd >= 0)
        (void)unlink(path); /* made here, and not whole */
    return EXIT_NOT_WELL;
}

/* For who cannot have a file of ours, as out of a container without a shell. */
static int write_to_stdout(struct json_object *o)
{
    const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY);

    if (text == NULL) {
        fprintf(stderr, "mvproxyctl: %s\n", strerror(ENOMEM));
        return EXIT_NOT_WELL;
    }
    show_json(slice_str(text), stdout);
    return EXIT_FINE;
}

struct bundle {
    struct json_object *parts, *failed;
    bool gone; /* nobody answers any more: not asked again for each part */
};

static bool none_answers(const struct bundle *b)
{
    return b->gone && json_object_object_length(b->parts) == 0;
}

/* What is wrong with one part is said in the bundle and here: the others are wanted all the more then. */
static void add_part(struct bundle *b, const char *name, const struct call *c)
{
    const struct command *k = find(name);
    struct call all = {.socket = c->socket, .all = true};
    struct json_object *part = NULL;
    int status = EXIT_FINE;
    struct err err;

    contract(k != NULL); /* all parts are in the table */
    err_clear(&err);
    if (b->gone)
        (void)err_set(&err, "no mvproxy answers any more");
    else
        part = ask_quietly(k, &all, &status, &err);
    b->gone = b->gone || status == EXIT_NO_ANSWER;
    if (part != NULL) {
        json_object_object_add(b->parts, name, part);
        return;
    }
    add_text(b->failed, name, err.text);
    if (none_answers(b))
        fprintf(stderr, "mvproxyctl: %s\n", err.text);
    else
        fprintf(stderr, "mvproxyctl: no %s in the bundle: %s\n", name, err.text);
}

/* What is had without the daemon. Where there is no journal, that is said in the log's place. */
static void add_host(const struct bundle *b)
{
    struct json_object *status = NULL, *pid = NULL, *log;
    struct err err;

    err_clear(&err);
    if (json_object_object_get_ex(b->parts, "status", &status) && json_object_is_type(status, json_type_object))
        (void)json_object_object_get_ex(status, "pid", &pid);
    json_object_object_add(b->parts, "host", host_facts(json_object_get_int64(pid)));
    log = host_log(&err);
    json_object_object_add(b->parts, "log", log != NULL ? log : json_object_new_string(err.text));
}

static void say_written(const char *path, bool whole, bool json)
{
    struct json_object *o;

    if (!json) {
        printf(whole ? "Written to %s.\n" : "Written to %s, not all of it.\n", path);
        return;
    }
    o = json_object_new_object();
    json_object_object_add(o, "written", json_object_new_string(path));
    json_object_object_add(o, "whole", json_object_new_boolean(whole));
    show_json(slice_str(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)),
              stdout);
    json_object_put(o);
}

static int finish_bundle(const struct bundle *b, const char *path, bool json)
{
    bool whole = json_object_object_length(b->failed) == 0, to_stdout;

    contract(path != NULL);
    to_stdout = strcmp(path, "-") == 0;
    if (json_object_object_length(b->parts) == 0)
        return EXIT_NOT_WELL;
    add_host(b);
    if (!whole)
        json_object_object_add(b->parts, "failed", json_object_get(b->failed));
    if ((to_stdout ? write_to_stdout(b->parts) : write_new_file(path, b->parts)) != EXIT_FINE)
        return EXIT_NOT_WELL;
    if (!to_stdout)
        say_written(path, whole, json);
    return whole ? EXIT_FINE : EXIT_NOT_WELL;
}

/* Everything that has an answer without arguments and changes nothing. */
static int write_bundle(const struct call *c)
{
    static const char *const parts[] = {"status", "skew", "requests", "config", "certs", "metrics"};
    struct bundle b = {json_object_new_object(), json_object_new_object(), false};
    int status = EXIT_NO_ANSWER;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && (i == 0 || !none_answers(&b)); i++)
        add_part(&b, parts[i], c);
    if (!none_answers(&b))
        status = finish_bundle(&b, c->argument[0], c->json);
    json_object_put(b.parts);
    json_object_put(b.failed);
    return status;
}

static int carry_out(const struct command *k, const struct call *c)
{
    int status;

    if (c->n_arguments < k->least || c->n_arguments > k->most) {
        fputs("mvproxyctl: usage: ", stderr);
        print_usage(stderr, k);
        return EXIT_WRONG_USE;
    }
    if (c->upgrade && c->all) {
        fputs("mvproxyctl: --all and --upgrade are two questions: one at a time\n", stderr);
        return EXIT_WRONG_USE;
    }
    if (k->show == NULL)
        return strcmp(k->name, "check") == 0 ? run_check(c) : k->asks != NULL ? refresh(k, c) : write_bundle(c);
    if (c->upgrade && strcmp(k->name, upgrade.name) == 0)
        k = &upgrade;
    while ((status = show_once(k, c)) <= EXIT_NOT_WELL && c->watch) {
        fflush(stdout);
        sleep(WATCH_S);
        if (isatty(STDOUT_FILENO) == 1)
            fputs("\033[H\033[2J", stdout);
    }
    return status;
}

/* ---- the command line ---- */

static const struct option {
    const char *name, *of; /* of: the one command that has it; NULL: all have it */
    bool has_value;
    size_t at; /* in struct call: a text, or a flag */
} options[] = {
    {"--socket", NULL, true, offsetof(struct call, socket)},
    {"-o", NULL, true, offsetof(struct call, format)},
    {"--output", NULL, true, offsetof(struct call, format)},
    {"--help", NULL, false, offsetof(struct call, help)},
    {"-h", NULL, false, offsetof(struct call, help)},
    {"--version", NULL, false, offsetof(struct call, version)},
    {"--pre", "check", false, offsetof(struct call, before)},
    {"--config", "check", true, offsetof(struct call, config_file)},
    {"--all", "skew", false, offsetof(struct call, all)},
    {"--upgrade", "skew", false, offsetof(struct call, upgrade)},
    {"--watch", "skew", false, offsetof(struct call, watch)},
    {"--as", "explain", true, offsetof(struct call, user)},
    {"--rerouted", "explain", false, offsetof(struct call, rerouted)},
};

enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

/* An option of other programs, which here has another name. */
static const char json_elsewhere[] = "--json";

/* NULL after a message. */
static const struct option *find_option(const char *arg)
{
    struct slice name = slice_of(arg, strcspn(arg, "="));
    struct nearest n = nearest_to(name);

    for (size_t i = 0; i < OPTIONS; i++) {
        if (slice_eq(name, slice_str(options[i].name)) && (options[i].has_value || arg[name.n] == '\0'))
            return &options[i];
        nearest_try(&n, options[i].name);
    }
    nearest_try(&n, json_elsewhere);
    fprintf(stderr,
            n.best == NULL ? "mvproxyctl: unknown option %s\n" : "mvproxyctl: unknown option %s: did you mean %s?\n",
            arg, n.best == json_elsewhere ? "-o json" : n.best);
    return NULL;
}

/* A value is behind '=', or the next argument. False after a message. */
static bool take_option(struct call *c, char *const **at)
{
    const char *value = strchr(**at, '=');
    const struct option *o;

    if (strncmp(**at, "-o", 2) == 0 && (**at)[2] != '\0' && (**at)[2] != '=') { /* -ojson, as kubectl takes it */
        c->format = **at + 2;
        return true;
    }
    o = find_option(**at);
    if (o == NULL)
        return false;
    if (o->of != NULL)
        c->special = o;
    if (!o->has_value) {
        *(bool *)((char *)c + o->at) = true;
        return true;
    }
    if (value == NULL && (*at)[1] == NULL) {
        fprintf(stderr, "mvproxyctl: %s: value missing\n", o->name);
        return false;
    }
    *(const char **)(void *)((char *)c + o->at) = value != NULL ? value + 1 : *++*at;
    return true;
}

/* A number below zero is none, wherever it stands: who gets it says what is wrong with it. Nor is - alone. */
static bool is_option(const char *arg)
{
    return arg[0] == '-' && arg[1] != '\0' && (arg[1] < '0' || arg[1] > '9');
}

static bool take_line(struct call *c, char *const *argv)
{
    bool over = false;

    for (char *const *at = argv + 1; *at != NULL; at++) {
        if (!over && strcmp(*at, "--") == 0) {
            over = true;
        } else if (!over && is_option(*at)) {
            if (!take_option(c, &at))
                return false;
        } else if (c->command == NULL) {
            c->command = *at;
        } else if (c->n_arguments < MAX_ARGUMENTS) {
            c->argument[c->n_arguments++] = *at;
        }
    }
    c->json = c->format != NULL && strcmp(c->format, "json") == 0;
    if (c->format != NULL && !c->json)
        fprintf(stderr, "mvproxyctl: -o %s: only json is known\n", c->format);
    return c->format == NULL || c->json;
}

/* `help` and `help COMMAND` are `--help` and `COMMAND --help`. */
static void take_help(struct call *c)
{
    if (c->command == NULL || strcmp(c->command, "help") != 0)
        return;
    c->help = true;
    c->command = c->n_arguments > 0 && strcmp(c->argument[0], "help") != 0 ? c->argument[0] : NULL;
}

static int run_command(const struct call *c)
{
    const struct command *k = find(c->command);

    if (k == NULL)
        return EXIT_WRONG_USE;
    if (c->help) {
        fputs("Usage: ", stdout);
        print_usage(stdout, k);
        printf("\n      %s\n\nMore: man mvproxyctl\n", k->help);
        return EXIT_FINE;
    }
    if (c->special != NULL && strcmp(c->special->of, k->name) != 0) {
        fprintf(stderr, "mvproxyctl: %s is an option of %s; usage: ", c->special->name, c->special->of);
        print_usage(stderr, k);
        return EXIT_WRONG_USE;
    }
    return carry_out(k, c);
}

/* A full disk must not look like an empty answer. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return status;
    fprintf(stderr, "mvproxyctl: the output cannot be written: %s\n", strerror(errno));
    return status == EXIT_FINE ? EXIT_NOT_WELL : status;
}

int command_line_run(int argc, char **argv)
{
    struct call c = {.socket = DEFAULT_SOCKET};

    if (argc == 0 || !take_line(&c, argv))
        return EXIT_WRONG_USE;
    take_help(&c);
    if (c.version) {
        puts("mvproxyctl " PACKAGE_VERSION);
        return finish(EXIT_FINE);
    }
    if (c.command != NULL)
        return finish(run_command(&c));
    print_help(c.help ? stdout : stderr);
    return finish(c.help ? EXIT_FINE : EXIT_WRONG_USE);
}
