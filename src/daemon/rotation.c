/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rotation.h"

#include "base/changes.h"
#include "base/hash.h"
#include "base/log.h"
#include "daemon/app_state.h"
#include "daemon/expiry.h"
#include "net/file_watch.h"

#include <stdio.h>

enum { ROTATION_ERRORS_CEILING = 64 << 10 };

/* The first line, and how many more there are: one line of the status, and whole. */
static void shorten(struct slice text, char *out, size_t size)
{
    struct slice line, first = SLICE_NONE;
    unsigned more = 0;
    char rest[40] = "";

    while (slice_split(&text, '\n', &line)) {
        if (line.n > 0 && first.p != NULL)
            more++;
        else if (line.n > 0)
            first = line;
    }
    if (more > 0)
        (void)snprintf(rest, sizeof(rest), " (and %u more: see the log)", more);
    if (first.n >= size - sizeof(rest))
        first.n = size - sizeof(rest);
    (void)snprintf(out, size, "%.*s%s", (int)first.n, first.n > 0 ? first.p : "", rest);
}

/* Of the egress configuration, or of a file that it names. */
static bool is_of_egress(struct slice text)
{
    const struct slice option = SLICE_LIT("egress-selector-config-file");

    return memmem(text.p, text.n, option.p, option.n) != NULL;
}

static void say_line(struct slice line)
{
    if (is_of_egress(line))
        log_error("Egress configuration changed but cannot be used, the old one stays", LS("err", line));
    else
        log_error("Certificate files changed but cannot be used, the old ones stay", LS("err", line));
}

/* A file that stays broken is said once. */
static void say_failure(struct app *a, const struct buf *errors)
{
    struct slice text = buf_slice(errors), line;
    uint64_t hash = hash_seeded(text);

    if (a->files_refused[0] != '\0' && hash == a->files_refused_hash)
        return;
    if (a->files_refused[0] == '\0')
        a->files_refused_ms = loop_now_ms(a->loop);
    a->files_refused_hash = hash;
    shorten(text, a->files_refused, sizeof(a->files_refused));
    changes_add(a->changes, CHANGE_FAILED, a->hostname, "changed %s refused: %s",
                is_of_egress(slice_str(a->files_refused)) ? "egress configuration was" : "certificate files were",
                a->files_refused);
    while (slice_split(&text, '\n', &line))
        if (line.n > 0)
            say_line(line);
}

/* New ones, or the old content that came back: the log is not to end with what was wrong. */
static void say_recovery(struct app *a)
{
    bool egress = is_of_egress(slice_str(a->files_refused));

    if (a->files_refused[0] == '\0')
        return;
    a->files_refused[0] = '\0';
    changes_add(a->changes, CHANGE_RECOVERED, a->hostname, "%s can be used again",
                egress ? "the egress configuration" : "all certificate files");
    log_info(egress ? "Egress configuration can be used again" : "Certificate files can be used again",
             LU("afterSeconds", (loop_now_ms(a->loop) - a->files_refused_ms) / 1000));
}

struct additions {
    struct file_watch *watch;
    bool ok;
};

static void add_file(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    struct additions *to = arg;

    (void)option;
    (void)kind;
    to->ok = to->ok && file_watch_add(to->watch, path);
}

static bool add_files(struct file_watch *w, const struct config *c)
{
    struct additions to = {w, true};

    trust_each_file(c, add_file, &to);
    return to.ok;
}

void rotation_done(struct app *a, bool ok, const struct buf *errors)
{
    metric_set(a->files_ok, ok ? 1 : 0);
    if (ok)
        say_recovery(a);
    else
        say_failure(a, errors);
    file_watch_done(a->watch, ok);
}

static void on_change(void *arg)
{
    struct app *a = arg;
    struct buf errors;

    if (a->phase != APP_SERVING) {
        file_watch_done(a->watch, true);
        return;
    }
    /* Before they are read; a changed egress selector's file may name others than before. */
    if (add_files(a->watch, a->config)) {
        a->on_files(a);
        return;
    }
    buf_init(&errors, ROTATION_ERRORS_CEILING);
    buf_append_str(&errors, "out of memory\n");
    rotation_done(a, false, &errors);
    buf_free(&errors);
}

struct file_watch *rotation_watch(struct app *a, const struct config *c, void (*changed)(struct app *a))
{
    struct file_watch *w = file_watch_new(a->loop, on_change, a);

    a->on_files = changed;
    if (w == NULL || add_files(w, c))
        return w;
    file_watch_free(w);
    return NULL;
}

void rotation_replace(struct app *a, struct file_watch *w)
{
    if (a->watch != w)
        file_watch_free(a->watch);
    a->watch = w;
    file_watch_start(w);
    say_recovery(a);
    metric_set(a->files_ok, 1);
    expiry_read(a->expiry, a->config);
}

void rotation_changed(struct app *a, unsigned changed)
{
    if (changed & TRUST_CHANGED_EGRESS) {
        changes_add(a->changes, CHANGE_CHANGED, a->hostname, "the egress configuration changed and is in use");
        log_info("Egress configuration changed, new connections use the new one");
    }
    if (changed & TRUST_CHANGED_FILES) {
        changes_add(a->changes, CHANGE_CHANGED, a->hostname, "certificate files changed and are in use");
        log_info("Certificate files changed, new connections use the new ones");
    }
    metric_inc(a->files_changes);
    expiry_read(a->expiry, a->config);
}
