/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/check_command.h"

#include <json-c/json.h>
#include <langinfo.h>
#include <locale.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "check/check.h"
#include "ctl/client.h"
#include "ctl/show.h"

/* As the unit has it. */
#define SERVICE_USER "mvproxy"
/* As sd_booted(3) has it. */
#define SYSTEMD_RUNS "/run/systemd/system"
#define SYSTEMCTL "/usr/bin/systemctl"
/* As docs/kubeadm.md has it. */
#define POD_MANIFEST "/etc/kubernetes/manifests/mvproxy.yaml"
/* As kubeadm has it. */
#define SERVER_MANIFEST "/etc/kubernetes/manifests/kube-apiserver.yaml"

enum { REPORT_BYTES = 16 << 20, USER_BYTES = 256, MANIFEST_BYTES = 64 << 10 };

static bool is_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
}

static bool shows_utf8(void)
{
    (void)setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

struct printing {
    struct findings *f;
    bool utf8;
    bool terminal; /* somebody looks on: he is told what takes its time */
    struct buf out;
};

/* Whatever the last line says, it is no more. */
#define ERASE "\r\033[K"

static void flush(struct printing *p)
{
    if (p->terminal)
        fputs(ERASE, stdout);
    fwrite(buf_slice(&p->out).p, 1, buf_len(&p->out), stdout);
    (void)fflush(stdout);
    buf_reset(&p->out);
}

/* The servers that are asked next may take their time. */
static void on_enter(void *arg)
{
    struct printing *p = arg;

    findings_print_past(p->f, p->utf8, &p->out);
    flush(p);
    if (!p->terminal)
        return;
    printf("%s ...", findings_section(p->f));
    (void)fflush(stdout);
}

static void print_rest(struct printing *p, bool json)
{
    if (json) {
        findings_print_json(p->f, &p->out);
        show_json(buf_slice(&p->out), stdout);
    } else {
        findings_print_text(p->f, p->utf8, &p->out);
        flush(p);
    }
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

/* Before root's rights are given up. NULL: it is not there. */
static char *read_manifest(void)
{
    FILE *f = fopen(SERVER_MANIFEST, "re");
    char *text = f == NULL ? NULL : mem_zalloc(MANIFEST_BYTES);

    if (text != NULL)
        text[fread(text, 1, MANIFEST_BYTES - 1, f)] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

int check_command(const struct check_command *o)
{
    struct check_opts opts = {.config_file = o->config_file, .user = SERVICE_USER, .before = o->before};
    struct printing p = {.f = findings_new(), .utf8 = shows_utf8(), .terminal = !o->json && is_terminal()};
    FILE *nowhere = fopen("/dev/null", "w");
    char user[USER_BYTES], *manifest = read_manifest();
    struct err err;
    int status;

    if (nowhere != NULL)
        log_set_stream(nowhere); /* what the daemon's code would log is in the findings */
    err_clear(&err);
    if (!o->before)
        ask_process(o, &opts, user, &err);
    opts.server_manifest = manifest;
    opts.else_file = o->else_file;
    opts.pod_manifest = POD_MANIFEST;
    opts.systemctl = access(SYSTEMD_RUNS, F_OK) == 0 ? SYSTEMCTL : NULL;
    buf_init(&p.out, REPORT_BYTES);
    if (!o->json)
        findings_on_enter(p.f, on_enter, &p);
    check_run(&opts, p.f);
    print_rest(&p, o->json);
    status = findings_exit_status(p.f);
    findings_free(p.f);
    buf_free(&p.out);
    mem_free(manifest);
    json_object_put(opts.status);
    json_object_put(opts.config);
    if (nowhere != NULL) {
        log_set_stream(stderr);
        fclose(nowhere);
    }
    return status;
}
