/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration as it is found, and what a process that runs says of it. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check/sections.h"
#include "lib/descriptors.h"
#include "lib/tap.h"

enum { ROOM = 1 << 16 };

#define BASE                                                                                                           \
    "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.9\nhostname-override: "     \
    "cp-a\npeer-ca-file: p\nproxy-client-cert-file: f\nproxy-client-key-file: g\nrequestheader-client-ca-file: r\n"
#define VALID(file) "ok " file " is valid, and no address in it leads back to this proxy\n"
#define SAME "ok the process has what the file says\n"
#define WELL(n) "\nEverything is well: " n " checks.\n"
/* A process that is nowhere: its command line cannot be known. */
#define STATUS(more) "{\"pid\":0,\"config\":{\"file\":\"good.yaml\"" more "}}"
/* What a process says of an option that somebody gave. */
#define HAS(name, value) "{\"name\":\"" name "\",\"value\":\"" value "\",\"origin\":\"x\"}"

static char folder[] = "/tmp/configuration_test.XXXXXX";

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("cannot write %s", name);
}

static const struct {
    const char *name, *config_file, *else_file, *status, *config, *silence;
    bool before;
    const char *want;
} rows[] = {
    {"a file that is given", "good.yaml", "none.yaml", NULL, NULL, NULL, true, VALID("good.yaml") WELL("1")},
    {"a file that -t warns of", "doubtful.yaml", "none.yaml", NULL, NULL, NULL, true,
     VALID(
         "doubtful.yaml") "!! doubtful.yaml:10:19: trusted-proxies: 0.0.0.0/0 is everybody, who may then forge the "
                          "addresses in the audit log\n    what to do: give the balancers' addresses alone\n\n0 wrong, "
                          "1 to be looked at, 1 well.\n"},
    {"the file that is there", NULL, "good.yaml", NULL, NULL, NULL, true, VALID("good.yaml") WELL("1")},
    {"no file", NULL, "none.yaml", NULL, NULL, NULL, true,
     "XX there is no configuration: none.yaml is not there\n    what to do: write it (examples/mvproxy.yaml of the "
     "documentation is one), or give --config FILE\n\n1 wrong, 0 to be looked at, 0 well.\n"},
    {"a file that nobody gets at", NULL, "loop", NULL, NULL, NULL, true,
     "XX loop: Too many levels of symbolic links\n    what to do: give the path of a YAML file\n\n1 wrong, 0 to be "
     "looked at, 0 well.\n"},
    {"a wrong file", "wrong.yaml", NULL, NULL, NULL, NULL, true,
     "XX wrong.yaml:10:1: nonsense: unknown option\n    what to do: take it out (mvproxy --help names those that there "
     "are)\n\n1 wrong, 0 to be looked at, 0 well.\n"},
    {"no process", "good.yaml", NULL, NULL, NULL, "no mvproxy answers at s", false,
     VALID("good.yaml") "XX no mvproxy answers at s\n    what to do: systemctl start mvproxy; to check before that, "
                        "mvproxyctl "
                        "check --pre\n\n1 wrong, 0 to be looked at, 1 well.\n"},
    {"no process, and not why", "good.yaml", NULL, NULL, NULL, NULL, false,
     VALID("good.yaml") "XX no mvproxy answers\n    what to do: start it; its container's log says why it ended; to "
                        "check "
                        "before that, mvproxyctl "
                        "check --pre\n\n1 wrong, 0 to be looked at, 1 well.\n"},
    {"the process's file", NULL, "none.yaml", STATUS(""), NULL, NULL, false, VALID("good.yaml") WELL("1")},
    {"a file, whatever the process has", "good.yaml", NULL, "{\"config\":{\"file\":\"none.yaml\"}}", NULL, NULL, false,
     VALID("good.yaml") WELL("1")},
    {"a status that does not say", NULL, "good.yaml", "{}", NULL, NULL, false, VALID("good.yaml") WELL("1")},
    {"ready", NULL, NULL, "{\"pid\":7,\"config\":{\"file\":\"good.yaml\"},\"notReady\":[]}", NULL, NULL, false,
     VALID("good.yaml") "ok the process (pid 7) is ready\n" WELL("2")},
    {"not ready", NULL, NULL,
     "{\"config\":{\"file\":\"good.yaml\"},\"notReady\":[{\"check\":\"a\",\"reason\":\"b\"},{\"check\":\"c\","
     "\"reason\":\"d\"}]}",
     NULL, NULL, false,
     VALID("good.yaml") "XX the process is not ready: a: b\n    what to do: see what is wrong below; mvproxyctl status "
                        "shows how "
                        "it goes on\nXX the process is not ready: c: d\n    what to do: see what is wrong below; "
                        "mvproxyctl status "
                        "shows how it goes on\n\n2 wrong, 0 to be looked at, 1 well.\n"},
    {"places for more clients", NULL, NULL,
     "{\"config\":{\"file\":\"good.yaml\"},\"maxConnections\":20,\"connectionLimitReached\":false,\"acceptFailure\":"
     "null}",
     NULL, NULL, false, VALID("good.yaml") WELL("1")},
    {"no place for more clients", NULL, NULL,
     "{\"config\":{\"file\":\"good.yaml\"},\"maxConnections\":20,\"connectionLimitReached\":true,\"acceptFailure\":"
     "\"x\"}",
     NULL, NULL, false,
     VALID(
         "good.yaml") "XX new clients wait, or had to less than ten seconds ago: there are as many connections as "
                      "max-connections allows (20), and none "
                      "can make room\n    what to do: raise max-connections, or bound with max-connections-per-client "
                      "who takes them (`ss -tn src ADDRESS:PORT` tells, with what mvproxyctl status has after "
                      "Listening)\nXX new clients wait, or had to less than ten seconds ago: they cannot be accepted: "
                      "x\n    what to "
                      "do: raise LimitNOFILE= in a drop-in of the unit (fs.file-max, or memory, if it is the "
                      "machine's limit), or lower max-connections\n\n2 wrong, 0 to be looked at, 1 well.\n"},
    {"connections ended for memory", NULL, NULL,
     "{\"config\":{\"file\":\"good.yaml\"},\"connectionsEndedForMemory\":230}", NULL, NULL, false,
     VALID(
         "good.yaml") "!! connections that clients let hold much memory were ended, 230 in the last minute "
                      "(max-client-memory)\n    what to do: find out what is asked (mvproxyctl requests), bound with "
                      "max-connections-per-client who does, or raise max-client-memory\n\n0 wrong, 1 to be looked at, "
                      "1 well.\n"},
    {"no list of what is not ready", NULL, NULL, "{\"config\":{\"file\":\"good.yaml\"},\"notReady\":{}}", NULL, NULL,
     false, VALID("good.yaml") WELL("1")},
    {"a reload that was refused, and files", NULL, NULL,
     STATUS(",\"lastReloadRefused\":\"x\",\"lastFilesRefused\":\"y\""), NULL, NULL, false,
     VALID("good.yaml") "XX the last reload was refused, and the configuration before it is in force: x\n    what to "
                        "do: correct "
                        "it, then mvproxyctl reload\nXX certificates or keys have changed and cannot be used, so those "
                        "before are "
                        "in force: y\n    what to do: put files there that fit together; they are read again by "
                        "themselves\n\n2 wrong, 0 to be looked at, 1 well.\n"},
    {"the same values", NULL, NULL, STATUS(""),
     "[{\"name\":\"v\",\"value\":\"2\"},{\"name\":\"of another version\",\"value\":\"2\"}]", NULL, false,
     VALID("good.yaml") SAME WELL("2")},
    {"other values", NULL, NULL, STATUS(""),
     "[{\"name\":\"v\",\"value\":\"3\"},{\"name\":\"secure-port\",\"value\":\"1\"},{\"name\":\"local-failover\","
     "\"value\":\"x\"},"
     "{\"name\":\"control-socket\",\"value\":\"x\"}]",
     NULL, false,
     VALID("good.yaml") "!! the process has other values than the file: v, local-failover\n    what to do: mvproxyctl "
                        "reload, once nothing below is wrong\n!! the "
                        "process has other values than the file, which only a restart changes: secure-port, "
                        "control-socket\n    "
                        "what to do: restart its container, once nothing below is wrong\n\n0 wrong, 2 to be looked "
                        "at, 1 well.\n"},
    {"values that are not told", NULL, NULL, STATUS(""), "{}", NULL, false, VALID("good.yaml") WELL("1")},
    {"a wrong file and other values", "wrong.yaml", NULL, STATUS(""), "[]", NULL, false,
     "XX wrong.yaml:10:1: nonsense: unknown option\n    what to do: take it out (mvproxy --help names those that there "
     "are)\n\n1 wrong, 0 to be looked at, 0 well.\n"},
    {"a process whose file is gone", NULL, NULL, "{\"pid\":0,\"config\":{\"file\":\"gone.yaml\"}}",
     "[" HAS("tls-cert-file", "c") "," HAS("tls-private-key-file", "k") "," HAS("apiserver-ca-file", "a") "," HAS(
         "bind-address",
         "10.0.0.9") "," HAS("hostname-override",
                             "cp-a") "," HAS("peer-ca-file",
                                             "p") "," HAS("proxy-client-cert-file",
                                                          "f") "," HAS("proxy-client-key-file",
                                                                       "g") "," HAS("requestheader-client-ca-file",
                                                                                    "r") ",{\"name\":\"v\",\"value\":"
                                                                                         "\"of no "
                                                                                         "origin\",\"origin\":\"\"}]",
     NULL, false,
     "XX gone.yaml is not there; what follows is about what the process has\n    what to do: put it back (mvproxyctl "
     "config has every value): neither a reload nor a start works without it\n\n1 wrong, 0 to be looked at, 0 well.\n"},
    {"a process without a file", NULL, "good.yaml", "{\"config\":{\"file\":null}}", NULL, NULL, false,
     "XX tls-cert-file: is required: give kube-apiserver's serving certificate\n"},
};

static void look(const struct check_opts *o, const char *want, const char *name, char hostname[256])
{
    struct scene s = {.opts = o, .f = findings_new()};
    struct buf out;
    char whole[4096];

    buf_init(&out, ROOM);
    section_configuration(&s);
    findings_print_text(s.f, false, &out);
    buf_append_char(&out, '\0');
    (void)snprintf(whole, sizeof(whole), "configuration\n%s", want);
    if (strstr(want, "is required") != NULL)
        ok(strstr(out.p, "is required") != NULL && s.config == NULL, "%s: %s", name, out.p);
    else
        is_str(out.p, whole, "%s", name);
    (void)snprintf(hostname, 256, "%s", s.hostname);
    buf_free(&out);
    findings_free(s.f);
    config_free(s.config);
    arena_free(s.arena);
}

/* The command line of a process that runs stands over its file: here it is that of this test. */
static void command_line(void)
{
    char hostname[256];
    struct json_object *status = json_tokener_parse(STATUS("")),
                       *config = json_tokener_parse("[{\"name\":\"v\",\"value\":\"2\"}]");
    struct check_opts o = {.status = status, .config = config, .pid = getpid()};

    look(&o,
         VALID("good.yaml") "!! the process has other values than the file: v\n    what to do: mvproxyctl reload, once "
                            "nothing below is wrong\n\n"
                            "0 wrong, 1 to be looked at, 1 well.\n",
         "a process that was told --v=5", hostname);
    json_object_put(status);
    json_object_put(config);
}

/* On a node where it is a static pod there is nothing to be found out outside of it. */
static void pod(void)
{
    struct check_opts o = {.pod_manifest = "good.yaml"};
    struct scene s = {.opts = &o, .f = findings_new()};
    struct json_object *status = json_tokener_parse(STATUS(""));

    ok(section_elsewhere(&s) && findings_count(s.f, CHECK_WRONG) == 1, "a static pod");
    o.config_file = "good.yaml";
    ok(!section_elsewhere(&s), "a file is given");
    o = (struct check_opts){.pod_manifest = "good.yaml", .status = status};
    ok(!section_elsewhere(&s), "a process answers");
    o = (struct check_opts){.pod_manifest = "nonexistent.yaml"};
    ok(!section_elsewhere(&s), "no static pod");
    findings_free(s.f);
    json_object_put(status);
}

int main(int argc, char **argv)
{
    char hostname[256], own[256] = "";
    unsigned descriptors;
    const struct check_opts without = {.config_file = "nameless.yaml", .before = true};

    if (argc == 1) {
        (void)execl("/proc/self/exe", argv[0], "--v=5", NULL);
        tap_bail("exec");
    }
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        tap_bail("mkdtemp");
    write_file("good.yaml", BASE);
    write_file("doubtful.yaml", BASE "trusted-proxies: [0.0.0.0/0]\n");
    write_file("wrong.yaml", BASE "nonsense: 1\n");
    if (symlink("loop", "loop") != 0)
        tap_bail("symlink");
    write_file("nameless.yaml",
               "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.9\npeer-ca-file: "
               "p\nproxy-client-cert-file: f\nproxy-client-key-file: g\nrequestheader-client-ca-file: r\n");
    descriptors = descriptors_open();
    pod();
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct json_object *status = rows[i].status == NULL ? NULL : json_tokener_parse(rows[i].status),
                           *config = rows[i].config == NULL ? NULL : json_tokener_parse(rows[i].config);
        const struct check_opts o = {.config_file = rows[i].config_file,
                                     .else_file = rows[i].else_file,
                                     .before = rows[i].before,
                                     .silence = rows[i].silence,
                                     .systemctl = rows[i].silence == NULL ? NULL : "/nonexistent",
                                     .status = status,
                                     .config = config};

        look(&o, rows[i].want, rows[i].name, hostname);
        json_object_put(status);
        json_object_put(config);
    }
    command_line();
    look(&(struct check_opts){.config_file = "good.yaml", .before = true}, VALID("good.yaml") WELL("1"), "a name",
         hostname);
    is_str(hostname, "cp-a", "is taken");
    look(&without, VALID("nameless.yaml") WELL("1"), "no name", hostname);
    (void)gethostname(own, sizeof(own) - 1);
    is_str(hostname, own, "that of this machine");
    is_u64(descriptors_open(), descriptors, "all files are closed");
    (void)unlink("good.yaml");
    (void)unlink("wrong.yaml");
    (void)unlink("loop");
    (void)unlink("doubtful.yaml");
    (void)unlink("nameless.yaml");
    if (chdir("/") != 0 || rmdir(folder) != 0)
        diag("%s stays", folder);
    return tap_end();
}
