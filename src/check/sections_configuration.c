/* SPDX-License-Identifier: Apache-2.0 */
/* What is configured, and whether a process that runs does just that. */
#include "check/sections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "daemon/config_load.h"
#include "daemon/config_warn.h"
#include "daemon/derive.h"
#include "daemon/flags.h"
#include "daemon/options.h"
#include "daemon/preflight.h"
#include "daemon/yaml_file.h"

enum { ARENA_BYTES = 8 << 20, ERRORS_BYTES = 256 << 10, COMMAND_LINE_BYTES = 256 << 10, VALUE_BYTES = 1 << 20 };

/* ---- the command line of the process ---- */

static size_t read_command_line(pid_t pid, char *out, size_t room)
{
    char path[64];
    ssize_t got = 0;
    size_t n = 0;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%ld/cmdline", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n + 1 < room && (got = read(fd, out + n, room - 1 - n)) > 0)
        n += (size_t)got;
    if (fd >= 0)
        close(fd);
    out[n] = '\0';
    return n;
}

/* Its options stand over those of the file. False: they cannot be known. */
static bool read_flags(struct scene *s, struct flags *out)
{
    char *text = arena_alloc(s->arena, COMMAND_LINE_BYTES), **argv;
    size_t n = text == NULL ? 0 : read_command_line(s->opts->pid, text, COMMAND_LINE_BYTES);
    struct buf errors;
    int argc = 0;
    bool ok;

    argv = n == 0 ? NULL : arena_zalloc(s->arena, (n + 1) * sizeof(*argv));
    if (argv == NULL)
        return false;
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        argv[argc++] = text + i;
    buf_init(&errors, ERRORS_BYTES);
    ok = flags_parse(argc, argv, s->arena, out, &errors);
    buf_free(&errors);
    return ok;
}

/* ---- what is configured ---- */

static bool names_host(const struct config *c)
{
    struct in6_addr ip;
    struct derive_address at;
    struct err err;

    err_clear(&err);
    return derive_url(c->apiserver, &at, &err) && strcasecmp(at.host, "localhost") != 0 &&
           inet_pton(AF_INET, at.host, &ip) != 1 && inet_pton(AF_INET6, at.host, &ip) != 1;
}

/* The first file that the service reads. */
static void judge_readable(struct scene *s)
{
    struct buf errors;

    if (s->file == NULL)
        return;
    buf_init(&errors, ERRORS_BYTES);
    (void)preflight_itself(s->config, s->file, s->user, &errors);
    sections_take_lines(s, "configuration-readable", buf_slice(&errors), "let the service's user read it");
    buf_free(&errors);
}

/* What mvproxy -t warns of. */
static void judge_doubts(struct scene *s)
{
    struct buf lines;

    buf_init(&lines, ERRORS_BYTES);
    config_warn(s->config, &lines);
    sections_take_lines(s, "configuration-doubtful", buf_slice(&lines), "mvproxy.conf(5) says what the option is for");
    buf_free(&lines);
}

/* What a process has, as it says it: the values are YAML. NULL: it does not. */
static struct config *of_process(const struct scene *s)
{
    size_t n = json_object_is_type(s->opts->config, json_type_array) ? json_object_array_length(s->opts->config) : 0;
    struct yaml_file yaml = {NULL, 0, false};
    struct config *c = NULL;
    struct buf text, errors;

    buf_init(&text, VALUE_BYTES);
    buf_init(&errors, ERRORS_BYTES);
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(s->opts->config, i);

        if (sections_text(one, "origin")[0] != '\0')
            buf_printf(&text, "%s: %s\n", sections_text(one, "name"), sections_text(one, "value"));
    }
    if (buf_len(&text) > 0 && yaml_file_parse("mvproxyctl config", buf_slice(&text), s->arena, &yaml, &errors))
        c = config_load(NULL, yaml.settings, yaml.n, &errors);
    buf_free(&errors);
    buf_free(&text);
    return c;
}

/* A process goes on without its file, and what it stands on can be looked at. */
static bool load_of_process(struct scene *s)
{
    if (s->file == NULL || s->opts->status == NULL || access(s->file, F_OK) == 0 || s->arena == NULL)
        return false;
    s->config = of_process(s);
    if (s->config == NULL)
        return false;
    findings_wrong(s->f, "configuration-valid",
                   "put it back (mvproxyctl config has every value): neither a reload nor a start works without it",
                   "%s is not there; what follows is about what the process has", s->file);
    s->of_process = true;
    return true;
}

static void find_hostname(struct scene *s)
{
    if (s->config->hostname_override[0] != '\0')
        (void)snprintf(s->hostname, sizeof(s->hostname), "%s", s->config->hostname_override);
    else if (sections_text(s->opts->status, "hostname")[0] != '\0') /* it may run where the host has another name */
        (void)snprintf(s->hostname, sizeof(s->hostname), "%s", sections_text(s->opts->status, "hostname"));
    else if (gethostname(s->hostname, sizeof(s->hostname) - 1) != 0)
        s->hostname[0] = '\0';
}

static void load(struct scene *s, const struct flags *flags)
{
    struct buf errors;

    if (s->file == NULL && s->opts->status == NULL) {
        findings_wrong(s->f, "configuration-valid",
                       "write it (examples/mvproxy.yaml of the documentation is one), or give --config FILE",
                       "there is no configuration: %s is not there", s->opts->else_file);
        return;
    }
    if (load_of_process(s)) {
        judge_doubts(s);
        find_hostname(s);
        return;
    }
    buf_init(&errors, ERRORS_BYTES);
    s->config = config_load(s->file, flags->settings, flags->n, &errors);
    if (s->config == NULL)
        sections_take_lines(s, "configuration-valid", buf_slice(&errors),
                            "mvproxy.conf(5) says what the option takes; mvproxy -t checks it again");
    else
        findings_good(s->f, "configuration-valid", "%s is valid, and no address in it leads back to this proxy%s",
                      s->file == NULL ? "what is configured" : s->file,
                      names_host(s->config) ? " (the name in apiserver was not looked up)" : "");
    buf_free(&errors);
    if (s->config == NULL)
        return;
    judge_readable(s);
    judge_doubts(s);
    find_hostname(s);
}

/* ---- the process ---- */

static bool same_value(const struct scene *s, struct json_object *running, const struct option *o, struct buf *value)
{
    buf_reset(value);
    return options_append_value(value, s->config, o) &&
           slice_eq(buf_slice(value), slice_str(sections_text(running, "value")));
}

static void note_name(struct buf *names, const char *name)
{
    buf_printf(names, "%s%s", buf_len(names) > 0 ? ", " : "", name);
}

/* Sorted into those that a reload can change, and the others. */
static void collect_differences(const struct scene *s, struct buf *names, struct buf *restart)
{
    size_t n = json_object_array_length(s->opts->config);
    struct buf value;

    buf_init(&value, VALUE_BYTES);
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(s->opts->config, i);
        const struct option *o = options_find(slice_str(sections_text(one, "name")));

        if (o != NULL && !same_value(s, one, o, &value))
            note_name(o->restart ? restart : names, o->name);
    }
    buf_free(&value);
}

static void compare(struct scene *s)
{
    struct buf names, restart;

    if (s->config == NULL || s->of_process || !json_object_is_type(s->opts->config, json_type_array))
        return;
    buf_init(&names, ERRORS_BYTES);
    buf_init(&restart, ERRORS_BYTES);
    collect_differences(s, &names, &restart);
    if (buf_len(&names) > 0)
        findings_warn(s->f, "process-up-to-date", "mvproxyctl reload, once nothing below is wrong",
                      "the process has other values than the file: %.*s", (int)buf_len(&names), buf_slice(&names).p);
    if (buf_len(&restart) > 0)
        findings_warn(s->f, "process-up-to-date",
                      s->opts->systemctl == NULL ? "restart its container, once nothing below is wrong"
                                                 : "systemctl restart mvproxy, once nothing below is wrong",
                      "the process has other values than the file, which only a restart changes: %.*s",
                      (int)buf_len(&restart), buf_slice(&restart).p);
    if (buf_len(&names) + buf_len(&restart) == 0)
        findings_good(s->f, "process-up-to-date", "the process has what the file says");
    buf_free(&names);
    buf_free(&restart);
}

static void judge_refusals(struct scene *s)
{
    struct json_object *config = NULL;
    const char *reload, *files;

    (void)json_object_object_get_ex(s->opts->status, "config", &config);
    reload = sections_text(config, "lastReloadRefused");
    files = sections_text(config, "lastFilesRefused");
    if (reload[0] != '\0')
        findings_wrong(s->f, "process-reload", "correct it, then mvproxyctl reload",
                       "the last reload was refused, and the configuration before it is in force: %s", reload);
    s->held_back = files[0] != '\0';
    if (s->held_back && strstr(files, "egress-selector-config-file") != NULL)
        findings_wrong(s->f, "process-files", "correct it; it is read again by itself",
                       "the egress configuration has changed and cannot be used, so the one before is in force: %s",
                       files);
    else if (s->held_back)
        findings_wrong(s->f, "process-files", "put files there that fit together; they are read again by themselves",
                       "certificates or keys have changed and cannot be used, so those before are in force: %s", files);
}

static void judge_readiness(struct scene *s)
{
    struct json_object *list = NULL;
    size_t n;

    if (!json_object_object_get_ex(s->opts->status, "notReady", &list) || !json_object_is_type(list, json_type_array))
        return;
    n = json_object_array_length(list);
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        findings_wrong(s->f, "process-ready",
                       strcmp(sections_text(one, "check"), "client-listener") == 0
                           ? "ss -ltnp tells who has it: it waits for that one to let it go"
                           : "see what is wrong below; mvproxyctl status shows how it goes on",
                       "the process is not ready: %s: %s", sections_text(one, "check"), sections_text(one, "reason"));
    }
    if (n == 0)
        findings_good(s->f, "process-ready", "the process (pid %s) is ready", sections_text(s->opts->status, "pid"));
}

/* What goes on hides it: only who comes hangs. */
static void judge_room(struct scene *s)
{
    const char *failure = sections_text(s->opts->status, "acceptFailure");
    struct json_object *reached = NULL;

    if (json_object_object_get_ex(s->opts->status, "connectionLimitReached", &reached) &&
        json_object_get_boolean(reached))
        findings_wrong(
            s->f, "process-connections",
            "raise max-connections, or bound with max-connections-per-client who takes them (`ss -tn src ADDRESS:PORT` "
            "tells, with what mvproxyctl status has after Listening)",
            "new clients wait, or had to less than ten seconds ago: there are as many connections as max-connections "
            "allows (%s), and none can make room",
            sections_text(s->opts->status, "maxConnections"));
    if (failure[0] != '\0')
        findings_wrong(s->f, "process-descriptors",
                       "raise LimitNOFILE= in a drop-in of the unit (fs.file-max, or memory, if it is the machine's "
                       "limit), or lower max-connections",
                       "new clients wait, or had to less than ten seconds ago: they cannot be accepted: %s", failure);
}

/* While connections are ended less is held than that status tells of it. */
static void judge_memory(struct scene *s)
{
    struct json_object *field = NULL;
    int ended = json_object_object_get_ex(s->opts->status, "connectionsEndedForMemory", &field)
                    ? json_object_get_int(field)
                    : 0;

    if (ended > 0)
        findings_warn(
            s->f, "process-memory",
            "find out what is asked (mvproxyctl requests), bound with max-connections-per-client who does, or raise "
            "max-client-memory",
            "connections that clients let hold much memory were ended, %d in the last minute (max-client-memory)",
            ended);
}

static void judge_silence(struct scene *s)
{
    const char *silence = s->opts->silence == NULL ? "no mvproxy answers" : s->opts->silence;
    bool told = s->unit.status[0] != '\0';

    if (strstr(silence, "only its user and root may") != NULL)
        findings_wrong(s->f, "process-running", "run this as root", "%s", silence);
    else if (s->unit.failing)
        findings_wrong(s->f, "process-running",
                       "correct that, then systemctl restart mvproxy; journalctl -u mvproxy has all of it",
                       "no mvproxy answers, for %s ends when it is started%s%s", s->unit.name, told ? ": " : "",
                       s->unit.status);
    else
        findings_wrong(s->f, "process-running",
                       s->opts->systemctl == NULL
                           ? "start it; its container's log says why it ended; to check before that, mvproxyctl check "
                             "--pre"
                           : "systemctl start mvproxy; to check before that, mvproxyctl check --pre",
                       "%s%s%s", silence, told ? "; it said last: " : "", s->unit.status);
}

static void judge_process(struct scene *s)
{
    if (s->opts->before)
        return;
    if (s->opts->status == NULL) {
        judge_silence(s);
        return;
    }
    if (s->unit.disabled)
        findings_warn(s->f, "process-enabled",
                      "systemctl enable mvproxy (or the instance, or the socket, that is used)",
                      "%s is not enabled: after the next boot nobody has this node's address", s->unit.name);
    judge_readiness(s);
    judge_room(s);
    judge_memory(s);
    judge_refusals(s);
    compare(s);
}

/* What is told on the command line of the check counts, then what the process says. */
static const char *find_file(const struct check_opts *o)
{
    struct json_object *config = NULL;
    const char *told;

    if (o->config_file != NULL)
        return o->config_file;
    if (o->status == NULL || !json_object_object_get_ex(o->status, "config", &config))
        return config_is_there(o->else_file) ? o->else_file : NULL;
    told = sections_text(config, "file");
    return told[0] == '\0' ? NULL : told;
}

/* What is asked for here, and is not here. */
bool section_elsewhere(struct scene *s)
{
    if (s->opts->status != NULL || s->opts->config_file != NULL || s->opts->pod_manifest == NULL ||
        access(s->opts->pod_manifest, F_OK) != 0)
        return false;
    findings_enter(s->f, CHECK_CONFIGURATION);
    findings_wrong(
        s->f, "process-pod",
        "kubectl -n kube-system exec mvproxy-NODE -- mvproxyctl check, or crictl exec; crictl logs says why it "
        "does not run",
        "mvproxy is a static pod here (%s), and is to be asked there", s->opts->pod_manifest);
    return true;
}

void section_configuration(struct scene *s)
{
    struct flags flags = {.n = 0};

    findings_enter(s->f, CHECK_CONFIGURATION);
    s->file = find_file(s->opts);
    s->arena = arena_new(ARENA_BYTES);
    if (s->arena != NULL && s->opts->status != NULL && !read_flags(s, &flags))
        flags = (struct flags){.n = 0};
    load(s, &flags);
    judge_process(s);
}
