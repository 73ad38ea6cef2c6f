/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mvproxyctl: what operators ask of a running mvproxy, over its control socket.
 */
#include <config.h>

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/nearest.h"
#include "ctl/check_command.h"
#include "ctl/client.h"
#include "ctl/show.h"

#define DEFAULT_SOCKET "/run/mvproxy/control.sock"
#define DEFAULT_CONFIG_FILE CONFIG_DIRECTORY "/mvproxy.yaml"

/* Exit statuses, as mvproxyctl(1) documents them. */
enum { EXIT_FINE, EXIT_NOT_WELL, EXIT_NO_ANSWER, EXIT_WRONG_USE };

enum { WATCH_S = 2, MAX_ARGUMENTS = 3 };

struct call {
    const char *socket;
    const char *argument[MAX_ARGUMENTS];
    size_t n_arguments;
    const char *user, *config_file;
    bool json, all, rerouted, watch, before, upgrade;
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

static bool fill_explain(const struct call *c, struct json_object *request)
{
    add_text(request, "method", c->argument[0]);
    add_text(request, "path", c->argument[1]);
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
    {"skew", "skew", 0, 0, "[--all | --upgrade] [--watch]", "What is not served by every server.", show_skew,
     fill_skew},
    {"explain", "explain", 2, 2, "METHOD PATH [--as USER] [--rerouted]", "What would be done with a request, and why.",
     show_explain, fill_explain},
    {"requests", "requests", 0, 0, "", "Requests under way, the longest first.", show_requests, NULL},
    {"refresh", "refresh", 0, 1, "[PEER]", "Read discovery again now, of all servers or of one.", show_done, fill_peer},
    {"drain", "drain", 1, 1, "PEER", "Send that peer no new requests while another server can have them.", show_drain,
     fill_peer},
    {"undrain", "undrain", 1, 1, "PEER", "Send them again.", show_drain, fill_peer},
    {"reload", "reload", 0, 0, "", "Reload the configuration; says what is wrong with it.", show_reload, NULL},
    {"loglevel", "loglevel", 0, 1, "[LEVEL]", "Show or set the log's verbosity until the next reload.", show_level,
     fill_level},
    {"config", "config", 0, 0, "", "The effective configuration and where each value comes from.", show_config, NULL},
    {"certs", "certs", 0, 0, "", "The certificates in force and when they end.", show_certs, NULL},
    {"metrics", "metrics", 0, 0, "", "All metrics in Prometheus' text format.", show_metrics, NULL},
    {"support-bundle", NULL, 1, 1, "FILE", "What the running process says, in one file, without secrets.", NULL, NULL},
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
    fputs("\nExit status: 0 well; 1 not ready, refused or expired; 2 no mvproxy answers; 3 wrong use.\n", f);
}

static const struct command *find(const char *name)
{
    struct nearest n = nearest_to(slice_str(name));

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

/* NULL after a message; *status is the exit status then. */
static struct json_object *ask(const struct command *k, const struct call *c, int *status)
{
    struct json_object *request = client_request(k->asks), *result;
    struct err err;

    err_clear(&err);
    if (k->fill != NULL && !k->fill(c, request)) {
        json_object_put(request);
        *status = EXIT_WRONG_USE;
        return NULL;
    }
    result = client_ask(c->socket, request, &err);
    if (result == NULL && err_is_set(&err)) {
        fprintf(stderr, "mvproxyctl: %s\n", err.text);
        *status = err.text[0] == 'n' && strncmp(err.text, "no mvproxy", 10) == 0 ? EXIT_NO_ANSWER : EXIT_NOT_WELL;
    }
    return result;
}

static int show_once(const struct command *k, const struct call *c)
{
    int status = EXIT_NOT_WELL;
    struct json_object *result = ask(k, c, &status);

    if (result == NULL)
        return status;
    if (c->json)
        show_json(slice_str(
            json_object_to_json_string_ext(result, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)));
    else
        show_printable(result);
    status = c->json || k->show(result) ? EXIT_FINE : EXIT_NOT_WELL;
    json_object_put(result);
    return status;
}

/* Everything that has an answer without arguments and changes nothing. */
static int write_bundle(const struct call *c)
{
    static const char *const parts[] = {"status", "skew", "requests", "config", "certs", "metrics"};
    struct json_object *bundle = json_object_new_object();
    int status = EXIT_FINE;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == EXIT_FINE; i++) {
        const struct command *k = find(parts[i]);
        struct call all = {.socket = c->socket, .all = true};
        struct json_object *part;

        contract(k != NULL); /* all of `parts` are in the table */
        part = ask(k, &all, &status);
        if (part != NULL)
            json_object_object_add(bundle, parts[i], part);
    }
    (void)umask(0077);
    if (status == EXIT_FINE && json_object_to_file_ext(c->argument[0], bundle, JSON_C_TO_STRING_PRETTY) != 0) {
        fprintf(stderr, "mvproxyctl: %s: cannot be written\n", c->argument[0]);
        status = EXIT_NOT_WELL;
    }
    json_object_put(bundle);
    return status;
}

static int carry_out(const struct command *k, const struct call *c)
{
    int status;

    if (c->n_arguments < k->least || c->n_arguments > k->most) {
        fprintf(stderr, "mvproxyctl: usage: mvproxyctl %s %s\n", k->name, k->arguments);
        return EXIT_WRONG_USE;
    }
    if (k->show == NULL)
        return strcmp(k->name, "check") == 0 ? run_check(c) : write_bundle(c);
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

/* The value of an option: behind '=', or the next argument. NULL after a message. */
static const char *value_of(const char *arg, const char *name, int argc, char *const *argv, int *i)
{
    size_t n = strlen(name);

    if (arg[n] == '=')
        return arg + n + 1;
    if (*i + 1 < argc)
        return argv[++*i];
    fprintf(stderr, "mvproxyctl: %s: value missing\n", name);
    return NULL;
}

static bool is_option(const char *arg, const char *name)
{
    size_t n = strlen(name);

    return strncmp(arg, name, n) == 0 && (arg[n] == '\0' || arg[n] == '=');
}

static bool refuse_option(const char *arg)
{
    static const char *const names[] = {"--socket",  "--all", "--watch", "--as",     "--rerouted", "--help",
                                        "--version", "-o",    "--pre",   "--config", "--upgrade"};
    struct nearest n = nearest_to(slice_of(arg, strcspn(arg, "=")));

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        nearest_try(&n, names[i]);
    fprintf(stderr,
            n.best == NULL ? "mvproxyctl: unknown option %s\n" : "mvproxyctl: unknown option %s: did you mean %s?\n",
            arg, n.best);
    return false;
}

static bool take_option(struct call *c, int argc, char *const *argv, int *i)
{
    const char *arg = argv[*i], *format;

    if (is_option(arg, "--socket"))
        return (c->socket = value_of(arg, "--socket", argc, argv, i)) != NULL;
    if (is_option(arg, "--as"))
        return (c->user = value_of(arg, "--as", argc, argv, i)) != NULL;
    if (is_option(arg, "--config"))
        return (c->config_file = value_of(arg, "--config", argc, argv, i)) != NULL;
    if (is_option(arg, "-o")) {
        format = value_of(arg, "-o", argc, argv, i);
        c->json = format != NULL && strcmp(format, "json") == 0;
        if (format != NULL && !c->json)
            fprintf(stderr, "mvproxyctl: -o %s: only json is known\n", format);
        return c->json;
    }
    if (strcmp(arg, "--all") == 0)
        return c->all = true;
    if (strcmp(arg, "--watch") == 0)
        return c->watch = true;
    if (strcmp(arg, "--upgrade") == 0)
        return c->upgrade = true;
    if (strcmp(arg, "--rerouted") == 0)
        return c->rerouted = true;
    if (strcmp(arg, "--pre") == 0)
        return c->before = true;
    return refuse_option(arg);
}

int main(int argc, char **argv)
{
    struct call c = {.socket = DEFAULT_SOCKET};
    const char *name = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(stdout);
            return EXIT_FINE;
        }
        if (strcmp(argv[i], "--version") == 0) {
            puts("mvproxyctl " PACKAGE_VERSION);
            return EXIT_FINE;
        }
        if (argv[i][0] == '-') {
            if (!take_option(&c, argc, argv, &i))
                return EXIT_WRONG_USE;
        } else if (name == NULL) {
            name = argv[i];
        } else if (c.n_arguments < MAX_ARGUMENTS) {
            c.argument[c.n_arguments++] = argv[i];
        }
    }
    if (name == NULL) {
        print_help(stderr);
        return EXIT_WRONG_USE;
    }
    return find(name) == NULL ? EXIT_WRONG_USE : carry_out(find(name), &c);
}
