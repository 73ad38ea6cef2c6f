/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/daemon/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/app.h"
#include "daemon/app_state.h"
#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { ROOM = 1 << 16, TURN_MS = 20, FIRST_OF_OURS = 20 };

static char *logged;
static size_t logged_n, heard;
static FILE *log_file;
static int manager = -1;
static char errors[ROOM];

/* ---- who hears of it ---- */

/* An abstract address: nothing is left behind. */
static void open_manager(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[64];
    int n = snprintf(name, sizeof(name), "@mvproxy-process-test-%d", (int)getpid()), fd;

    memcpy(at.sun_path, name, (size_t)n);
    at.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (manager < 0 ||
        bind(manager, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)) != 0)
        tap_bail("cannot make a notify socket");
    /* What is inherited from a service manager begins with 3. */
    fd = fcntl(manager, F_DUPFD_CLOEXEC, FIRST_OF_OURS);
    (void)close(manager);
    manager = fd;
    (void)setenv("NOTIFY_SOCKET", name, 1);
}

const char *process_told(void)
{
    static char text[ROOM];
    size_t n = 0;
    ssize_t got;

    while ((got = recv(manager, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    return text;
}

void process_listen(void)
{
    log_flush();
    (void)fflush(log_file);
    heard = logged_n;
    (void)process_told();
}

unsigned process_said(const char *words)
{
    unsigned n = 0;

    log_flush();
    (void)fflush(log_file);
    for (const char *p = logged + heard; (p = strstr(p, words)) != NULL; p++)
        n++;
    return n;
}

bool process_happened(const struct app *a, const char *text)
{
    const struct change *c;

    for (size_t i = 0; (c = changes_at(a->changes, false, i)) != NULL; i++)
        if (strcmp(c->text, text) == 0)
            return true;
    return false;
}

/* ---- files ---- */

void process_use_pair(const char *name)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "cp %s.crt server.crt && cp %s.key server.key", name, name);
    if (system(command) != 0)
        tap_bail("cp");
}

void process_prepare(void)
{
    folder_certificates("names = ('kubernetes.default.svc', '127.0.0.1');"
                        "a.issue('ca', 'ca', is_ca=True, eku='');a.issue('other-ca', 'o', is_ca=True, eku='');"
                        "a.issue('client-ca', 'c', is_ca=True, eku='');"
                        "a.issue('good', 's', ca='ca', eku='serverAuth', sans=names);"
                        "a.issue('fresh', 's', ca='ca', eku='serverAuth', sans=names);"
                        "a.issue('other', 's', ca='ca', eku='serverAuth', sans=('b.example',));"
                        "a.issue('elsewhere', 's', ca='ca', eku='serverAuth', sans=(names[0], '10.0.0.1'));"
                        "a.issue('foreign', 's', ca='other-ca', eku='serverAuth', sans=names);"
                        "[open(a.dir + '/bad.' + e, 'w').write('x') for e in ('crt', 'key')]");
    folder_enter();
    process_use_pair("good");
    open_manager();
    log_file = open_memstream(&logged, &logged_n);
    if (log_file == NULL)
        tap_bail("memory");
    log_set_stream(log_file);
}

void process_finish(void)
{
    log_set_stream(stderr);
    (void)fclose(log_file);
    free(logged);
}

/* ---- the process ---- */

struct app *process_try(const char *config)
{
    static const struct app_args args = {.config_file = "mvproxy.yaml", .version = "1"};
    struct app *a = NULL;
    struct config *c;
    struct buf text;

    folder_write("mvproxy.yaml", config);
    process_listen();
    buf_init(&text, ROOM);
    c = config_load("mvproxy.yaml", NULL, 0, &text);
    if (c != NULL)
        a = app_new(c, &args, &text);
    (void)snprintf(errors, sizeof(errors), "%.*s", (int)buf_len(&text), buf_len(&text) > 0 ? buf_slice(&text).p : "");
    buf_free(&text);
    return a;
}

struct app *process_start(const char *config)
{
    struct app *a = process_try(config);

    if (a == NULL)
        tap_bail("%s", errors);
    return a;
}

const char *process_errors(void)
{
    return errors;
}

void process_pass(struct app *a, uint64_t ms)
{
    for (uint64_t end = clock_ms() + ms; clock_ms() < end;)
        loop_run_once(a->loop, TURN_MS);
}

static void note(void *arg)
{
    *(bool *)arg = true;
}

void process_beat(struct app *a)
{
    bool over = false;
    struct loop_timer *after = loop_timer_new(a->loop, note, &over);

    if (after == NULL)
        tap_bail("memory");
    loop_timer_set(a->heartbeat, 0);
    loop_timer_set(after, 1);
    while (!over)
        loop_run_once(a->loop, TURN_MS);
    loop_timer_free(after);
}
