/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/program.h"

#include "base/log.h"
#include "base/utf8.h"
#include "daemon/addresses.h"
#include "daemon/app.h"
#include "daemon/bind_trial.h"
#include "daemon/config_load.h"
#include "daemon/config_warn.h"
#include "daemon/flags.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/preflight.h"
#include "daemon/remarks.h"
#include "daemon/rlimits.h"
#include "daemon/serving_pair.h"
#include "daemon/trust.h"
#include "daemon/try_local.h"
#include "net/tls_memory.h"
#include <config.h>

#include <unistd.h>

/* As the unit has it. */
#define SERVICE_USER "mvproxy"
#define DEFAULT_CONFIG_FILE CONFIG_DIRECTORY "/mvproxy.yaml"
#define NO_FILE "no configuration file: " DEFAULT_CONFIG_FILE " is not there: write it, or give --config FILE"

enum {
    EXIT_BAD_CONFIG = 1,
    EXIT_BAD_USAGE = 2,
    MAIN_ARENA_CEILING = 1 << 20,
    MAIN_ERRORS_CEILING = 256 << 10,
    STATUS_BYTES = 512
};

/* What stands in a file is not for the terminal to act upon. */
static void print_errors(const struct buf *errors)
{
    struct slice rest = buf_slice(errors), line;

    while (rest.n > 0 && slice_split(&rest, '\n', &line)) {
        char *text = must_slicedup(line);

        utf8_make_printable(text);
        fprintf(stderr, "%s\n", text);
        mem_free(text);
    }
}

static void check_local(struct remarks *r, const struct trust *t)
{
    FILE *nowhere = fopen("/dev/null", "w");
    const char *wrong;
    struct err err = {.text = ""};

    if (nowhere != NULL)
        log_set_stream(nowhere); /* what it says is a line of ours */
    wrong = try_local(r->c, t, &err);
    if (nowhere != NULL) {
        log_set_stream(stderr);
        fclose(nowhere);
    }
    if (wrong != NULL)
        remarks_wrong(r, wrong, "%s", err.text);
}

/* As a start would, short of taking its addresses, and deeper than that. `ok`: nothing was found wrong before. */
static bool look_at(const struct config *c, const char *file, bool ok, struct buf *errors)
{
    struct remarks r = {c, errors, true};
    struct addresses ours;
    struct trust trust;
    struct err err = {.text = ""};

    config_warn(c, errors);
    serving_pair_warn(c, errors);
    bind_trial_configured(&r);
    ok = r.ok && ok;
    ok = (file == NULL || preflight_itself(c, file, SERVICE_USER, errors)) && ok;
    if (!preflight_files(c, SERVICE_USER, errors) || !ok)
        return false;
    if (!addresses_configured(c, &ours, &err)) {
        remarks_wrong(&r, "bind-address", "%s", err.text);
        return false;
    }
    if (!trust_load(c, &trust, errors)) {
        trust_name_options(c, errors);
        return false;
    }
    check_local(&r, &trust);
    trust_free(&trust);
    return r.ok;
}

static int check(const struct config *c, const char *file, bool ok, struct buf *errors)
{
    ok = look_at(c, file, ok, errors);
    print_errors(errors);
    if (!ok)
        return EXIT_BAD_CONFIG;
    puts("configuration is valid");
    return 0;
}

/* `systemctl status` shows it until the next try. */
static void tell_manager(const char *what, const struct buf *errors)
{
    struct notify *n = notify_new();
    struct slice rest = buf_slice(errors), line = SLICE_NONE;
    char text[STATUS_BYTES];
    size_t more = 0;

    if (what == NULL)
        (void)slice_split(&rest, '\n', &line);
    for (size_t i = 0; i < rest.n; i++)
        more += rest.p[i] == '\n';
    if (what != NULL)
        (void)snprintf(text, sizeof(text), "Cannot start: %s", what);
    else
        (void)snprintf(text, sizeof(text), more > 0 ? "Cannot start: %.*s (%zu more in the log)" : "Cannot start: %.*s",
                       (int)(line.n < STATUS_BYTES - 64 ? line.n : STATUS_BYTES - 64), line.p, more);
    utf8_make_printable(text);
    notify_status(n, text);
    notify_free(n);
}

static int run(struct config *c, const struct app_args *args, struct buf *errors)
{
    struct app *a;
    int status;

    rlimits_prepare();
    a = app_new(c, args, errors);
    if (a == NULL) {
        struct slice rest = buf_slice(errors), line;

        while (slice_split(&rest, '\n', &line))
            if (line.n > 0)
                log_error("Cannot start", LS("err", line));
        tell_manager(NULL, errors);
        return EXIT_BAD_CONFIG;
    }
    status = app_run(a);
    app_free(a);
    return status;
}

static int with_config(const struct flags *f, struct buf *errors)
{
    struct app_args args = {f->config_file, f->settings, f->n, PACKAGE_VERSION};
    struct config *c;
    int status;
    bool ok;

    if (f->mode == FLAGS_RUN)
        app_hold_signals();
    if (args.config_file == NULL && config_is_there(DEFAULT_CONFIG_FILE))
        args.config_file = DEFAULT_CONFIG_FILE;
    c = config_load_doubtful(args.config_file, args.flags, args.n_flags, errors, &ok);
    if (c == NULL || (!ok && (f->mode != FLAGS_CHECK || args.config_file == NULL))) {
        if (args.config_file == NULL)
            fprintf(stderr, NO_FILE "\n");
        print_errors(errors);
        config_free(c);
        if (f->mode == FLAGS_RUN)
            tell_manager(args.config_file == NULL ? NO_FILE : NULL, errors);
        return EXIT_BAD_CONFIG;
    }
    if (f->mode == FLAGS_RUN)
        return run(c, &args, errors); /* the app owns the configuration */
    status = f->mode == FLAGS_CHECK ? check(c, args.config_file, ok, errors) : 0;
    if (f->mode == FLAGS_DUMP)
        options_print_config(stdout, c);
    config_free(c);
    return status;
}

static int act(const struct flags *f, struct buf *errors)
{
    switch (f->mode) {
    case FLAGS_HELP:
        options_print_help(stdout);
        return 0;
    case FLAGS_MDOC:
        options_print_mdoc(stdout);
        return 0;
    case FLAGS_MARKDOWN:
        options_print_markdown(stdout);
        return 0;
    case FLAGS_VERSION:
        puts("mvproxy " PACKAGE_VERSION);
        return 0;
    case FLAGS_RUN:
    case FLAGS_CHECK:
    case FLAGS_DUMP:
        break;
    }
    return with_config(f, errors);
}

int program_run(int argc, char **argv)
{
    struct arena *arena = arena_new(MAIN_ARENA_CEILING);
    struct flags flags;
    struct buf errors;
    int status = EXIT_BAD_USAGE;

    tls_memory_wipe();
    buf_init(&errors, MAIN_ERRORS_CEILING);
    if (arena != NULL && flags_parse(argc, argv, arena, &flags, &errors))
        status = act(&flags, &errors);
    else
        print_errors(&errors);
    buf_free(&errors);
    if (arena != NULL)
        arena_free(arena);
    if (fflush(stdout) != 0)
        status = EXIT_BAD_CONFIG;
    log_finish();
    return status;
}
