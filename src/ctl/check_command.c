/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/check_command.h"

#include <json-c/json.h>
#include <langinfo.h>
#include <locale.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "check/check.h"
#include "ctl/client.h"
#include "ctl/show.h"

/* As the unit has it. */
#define SERVICE_USER "mvproxy"

enum { REPORT_BYTES = 16 << 20, USER_BYTES = 256 };

static bool shows_utf8(void)
{
    (void)setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int report(const struct findings *f, bool json)
{
    struct buf out;

    buf_init(&out, REPORT_BYTES);
    if (json) {
        findings_print_json(f, &out);
        show_json(buf_slice(&out));
    } else {
        findings_print_text(f, shows_utf8(), &out);
        fwrite(buf_slice(&out).p, 1, buf_len(&out), stdout);
    }
    buf_free(&out);
    return findings_exit_status(f);
}

/* Files that the process names, on its command line too, are opened with its own rights: see ctl/answerer.h. */
static void ask_process(const struct check_command *o, struct check_opts *opts, char user[USER_BYTES], struct err *err)
{
    struct answerer who = {.pid = 0};
    const struct passwd *pw;

    opts->status = client_ask_as(o->socket, client_request("status"), &who, err);
    if (opts->status != NULL)
        opts->config = client_ask_as(o->socket, client_request("config"), &who, err);
    opts->silence = err->text;
    opts->pid = opts->status == NULL ? 0 : who.pid;
    pw = opts->status == NULL ? NULL : getpwuid(who.uid);
    if (pw != NULL) {
        (void)snprintf(user, USER_BYTES, "%s", pw->pw_name);
        opts->user = user;
    }
}

int check_command(const struct check_command *o)
{
    struct check_opts opts = {.config_file = o->config_file, .user = SERVICE_USER, .before = o->before};
    struct findings *f = findings_new();
    FILE *nowhere = fopen("/dev/null", "w");
    char user[USER_BYTES];
    struct err err;
    int status;

    if (nowhere != NULL)
        log_set_stream(nowhere); /* what the daemon's code would log is in the findings */
    err_clear(&err);
    if (!o->before)
        ask_process(o, &opts, user, &err);
    opts.else_file = o->else_file;
    check_run(&opts, f);
    status = report(f, o->json);
    findings_free(f);
    json_object_put(opts.status);
    json_object_put(opts.config);
    if (nowhere != NULL)
        log_set_stream(stderr);
    if (nowhere != NULL)
        fclose(nowhere);
    return status;
}
