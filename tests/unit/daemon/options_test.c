/* SPDX-License-Identifier: Apache-2.0 */
/* What is printed of the options: all of it, in lines of bounded length; and what each of them does to a configuration.
 */
#include "daemon/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/config_load.h"
#include "daemon/config_warn.h"
#include "lib/tap.h"

#define BASE "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.1\n"

enum { ROOM = 1 << 16, HELP_WIDTH = 100, MDOC_WIDTH = 78, HASH_BITS = 48 };

static struct config *load(const char *text, char *errors_out, size_t n)
{
    char path[] = "/tmp/options_test.XXXXXX";
    int fd = mkstemp(path);
    struct config *c;
    struct buf errors;

    buf_init(&errors, ROOM);
    if (fd < 0 || dprintf(fd, "%s", text) < 0)
        tap_bail("cannot write %s", path);
    (void)close(fd);
    c = config_load(path, NULL, 0, &errors);
    (void)snprintf(errors_out, n, "%.*s", (int)buf_len(&errors), buf_len(&errors) == 0 ? "" : buf_slice(&errors).p);
    (void)unlink(path);
    buf_free(&errors);
    return c;
}

static struct config *good(const char *text)
{
    char errors[1000];
    struct config *c = load(text, errors, sizeof(errors));

    if (c == NULL)
        tap_bail("%s", errors);
    return c;
}

/* ---- what is printed ---- */

/* Blanks and ends of lines, however many, become one blank. Free it. */
static char *in_one_line(const char *text)
{
    char *out = must_zalloc(strlen(text) + 1);
    size_t n = 0;

    for (; *text != '\0'; text++) {
        bool blank = *text == ' ' || *text == '\n';

        if (!blank || (n > 0 && out[n - 1] != ' '))
            out[n++] = blank ? ' ' : *text;
    }
    out[n] = '\0';
    return out;
}

static unsigned times(const char *text, const char *what)
{
    unsigned n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* Of the lines that have room for more than one word. */
static size_t longest(const char *text, const char *begin)
{
    size_t most = 0;

    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1)
        if (strncmp(text, begin, strlen(begin)) == 0 && (size_t)(end - text) > most)
            most = (size_t)(end - text);
    return most;
}

static size_t sections(void)
{
    size_t n, found = 0;
    const struct option *o = options_table(&n);

    for (size_t i = 0; i < n; i++)
        found += i == 0 || strcmp(o[i].section, o[i - 1].section) != 0;
    return found;
}

static void help(void)
{
    char *text = NULL, *line, want[2000];
    size_t bytes = 0, n;
    const struct option *o = options_table(&n);
    FILE *f = open_memstream(&text, &bytes);

    options_print_help(f);
    (void)fclose(f);
    line = in_one_line(text);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(want, sizeof(want), " --%s=%s %s%s%s%s ", o[i].name, o[i].argument,
                       o[i].initial[0] == '\0' ? "" : "[", o[i].initial, o[i].initial[0] == '\0' ? "" : "] ",
                       o[i].help);
        ok(strstr(line, want) != NULL, "help of %s", o[i].name);
    }
    ok(longest(text, "      ") <= HELP_WIDTH && longest(text, "      ") > HELP_WIDTH - 10, "in lines of %zu at most",
       longest(text, "      "));
    is_u64(times(text, " \n"), 0, "no blank ends a line");
    is_u64(times(text, "\n\n"), sections() + 2, "an empty line before each section");
    ok(text[bytes - 1] == '\n' && text[bytes - 2] != '\n', "the last line ends");
    free(text);
    mem_free(line);
}

static void mdoc(void)
{
    char *text = NULL, *line, want[2000];
    size_t bytes = 0, n, restarts = 0;
    const struct option *o = options_table(&n);
    FILE *f = open_memstream(&text, &bytes);

    options_print_mdoc(f);
    (void)fclose(f);
    line = in_one_line(text);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(want, sizeof(want), ".It Ic %s : Ar %s %s%s%s%s ", o[i].name, o[i].argument, o[i].help,
                       o[i].restart ? " A reload cannot change it." : "",
                       o[i].initial[0] == '\0' ? "" : " Default: ", o[i].initial);
        ok(strstr(line, want) != NULL, "manual of %s", o[i].name);
        restarts += o[i].restart;
    }
    is_u64(times(text, "\nA reload cannot change it.\n"), restarts, "what needs a restart");
    is_u64(times(text, ".Ss "), sections(), "each section once");
    ok(strncmp(text, ".Ss ", 4) == 0, "the first line is a heading");
    free(text);
    mem_free(line);
}

static void dump(void)
{
    struct config *c = good(BASE);
    char *text = NULL, want[200];
    size_t bytes = 0, n;
    const struct option *o = options_table(&n);
    FILE *f = open_memstream(&text, &bytes);

    options_print_config(f, c);
    (void)fclose(f);
    is_u64(times(text, "# "), sections(), "each section has one heading");
    is_u64(times(text, "\n\n# "), sections() - 1, "behind an empty line but for the first");
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(want, sizeof(want), "\n%s: ", o[i].name);
        is_u64(times(text, want), 1, "%s is there once", o[i].name);
    }
    free(text);
    config_free(c);
}

/* ---- what an option does ---- */

/* Another value of that option; NULL: one is not known here. */
static const char *another(const struct option *o)
{
    static const struct {
        const char *name, *line;
    } rows[] = {
        {"bind-address", "bind-address: 10.0.0.2\n"},
        {"secure-port", "secure-port: 7443\n"},
        {"tls-cert-file", "tls-cert-file: d\n"},
        {"apiserver", "apiserver: https://127.0.0.1:7443\n"},
        {"local-failover", "local-failover: false\n"},
        {"access-log-user", "access-log-user: true\n"},
        {"request-timeout", "request-timeout: 61s\n"},
        {"admin-bind-address", "admin-bind-address: 127.0.0.1:9\n"},
        {"control-socket", "control-socket: /tmp/s\n"},
        {"hostname-override", "hostname-override: cp-x\n"},
        {"logging-format", "logging-format: json\n"},
        {"max-connections", "max-connections: 77\n"},
        {"max-client-memory", "max-client-memory: 77777777\n"},
        {"v", "v: 3\n"},
        {"trusted-proxies", "trusted-proxies: 10.0.0.0/8\n"},
        {"peers", "peers: [cp-b=10.0.0.2:6443]\n"},
        {"access-log", "access-log: [errors]\n"},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        if (strcmp(rows[i].name, o->name) == 0)
            return rows[i].line;
    return NULL;
}

/* The configuration with that line in place of the one that it has for the option, if any. */
static struct config *changed(const struct option *o, const char *line, char *errors, size_t n)
{
    struct slice rest = SLICE_LIT(BASE), one;
    char text[2000] = "";
    size_t name = strlen(o->name);

    while (slice_split(&rest, '\n', &one))
        if (one.n > 0 && (!slice_has_prefix(one, slice_str(o->name)) || one.n == name || one.p[name] != ':'))
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s\n", (int)one.n, one.p);
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", line);
    return load(text, errors, n);
}

static void each_option(void)
{
    struct config *as_it_was = good(BASE);
    char errors[1000];
    size_t n, tried = 0;
    const struct option *o = options_table(&n);
    uint64_t hash = options_hash(as_it_was);
    struct buf names;

    ok(hash != 0 && hash >> HASH_BITS == 0, "a hash of 48 bits");
    is_u64(options_hash(as_it_was), hash, "the same each time");
    buf_init(&names, ROOM);
    for (size_t i = 0; i < n; i++) {
        const char *line = another(&o[i]);
        struct config *c = line == NULL ? NULL : changed(&o[i], line, errors, sizeof(errors));

        if (line == NULL)
            continue;
        if (c == NULL) {
            ok(false, "%s: %s", line, errors);
            continue;
        }
        tried++;
        ok(options_hash(c) != hash && options_hash(c) >> HASH_BITS == 0, "%s: another hash", o[i].name);
        buf_reset(&names);
        options_restart_needed(as_it_was, c, &names);
        is_slice(buf_slice(&names), o[i].restart ? o[i].name : "", "%s: whether a restart is needed", o[i].name);
        config_free(c);
    }
    is_u64(tried, 17, "of these options each was tried");
    buf_free(&names);
    config_free(as_it_was);
}

/* Each network is looked at, of whatever option. */
static void networks(void)
{
    static const char *const options[] = {"trusted-proxies", "proxy-protocol-from", "peer-allowed-cidrs"};
    char text[500], errors[1000], want[100];

    for (size_t i = 0; i < ROWS(options); i++) {
        (void)snprintf(text, sizeof(text), "%s%s: [10.0.0.0/8, 10.0.0.0/33]\n", BASE, options[i]);
        is_null(load(text, errors, sizeof(errors)), "%s: no network", options[i]);
        (void)snprintf(want, sizeof(want), ": %s: \"10.0.0.0/33\"", options[i]);
        ok(strstr(errors, want) != NULL, "%s", errors);
    }
}

/* Entries that are added keep the place of those before them. */
static void places(void)
{
    struct config *c = good(BASE "tls-sni-cert-key: ['/a,/b', '/c,/d']\nproxy-protocol-from: \"10.0.0.1,10.0.0.2\"\n");
    const struct option *o = options_find(SLICE_LIT("tls-sni-cert-key"));
    const struct config_place where = {"F", 7, 8};
    struct slice value = SLICE_LIT("/e,/f");
    const struct config_setting s = {slice_str(o->name), &value, &where, 1, where, false};
    struct config_origin *at = &c->origins[options_index(o)];
    struct buf errors;

    buf_init(&errors, ROOM);
    is_u64(at->n_entries, 2, "two entries");
    ok(options_set(c, o, &s, &errors), "one more");
    is_u64(at->n_entries, 3, "are three");
    ok(at->entries[0].line == 5 && at->entries[1].line == 5 && at->entries[1].column > at->entries[0].column &&
           at->entries[2].line == 7 && at->entries[2].column == 8,
       "each with its place");
    ok(strcmp(c->tls_sni_cert_key[0], "/a,/b") == 0 && strcmp(c->tls_sni_cert_key[1], "/c,/d") == 0 &&
           strcmp(c->tls_sni_cert_key[2], "/e,/f") == 0 && c->tls_sni_cert_key[3] == NULL,
       "and its text");
    ok(strcmp(c->proxy_protocol_from[1], "10.0.0.2") == 0 && c->proxy_protocol_from[2] == NULL, "a list in one text");
    buf_free(&errors);
    config_free(c);
}

/* ---- warnings at a start ---- */

static void logged(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct config *c = good(BASE "trusted-proxies: [0.0.0.0/0, 10.0.0.5/8]\n");

    log_set_stream(f);
    config_warn_log(c);
    (void)fflush(f);
    is_u64(times(text, "The configuration may not be as it is meant"), 2, "each warning is a line of the log");
    ok(strstr(text, "trusted-proxies: 0.0.0.0/0 is everybody") != NULL &&
           strstr(text, "trusted-proxies: 10.0.0.5/8 means all of 10.0.0.0/8") != NULL,
       "with what it says");
    ok(strstr(text, "warning: ") == NULL, "once");
    log_set_stream(stderr);
    (void)fclose(f);
    free(text);
    config_free(c);
}

int main(void)
{
    help();
    mdoc();
    dump();
    each_option();
    networks();
    places();
    logged();
    return tap_end();
}
