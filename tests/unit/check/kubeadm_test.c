/* SPDX-License-Identifier: Apache-2.0 */
/* What kubeadm's own steps undo is noticed: probes that go to mvproxy, and leave to read keys that is not given again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check/sections.h"
#include "daemon/addresses.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { ROOM = 1 << 14 };

#define ALONE                                                                                                          \
    "spec:\n  hostNetwork: true\n  containers:\n  - name: kube-apiserver\n    ports: [{containerPort: 6443, name: "    \
    "probe-port}]\n    command:\n    - kube-apiserver\n    - --advertise-address=192.0.2.11\n"
#define BEHIND ALONE "    - \"--bind-address=127.0.0.1\"\n"
#define PROBE_OF(kind, host) "    " kind ":\n      httpGet:\n        " host "port: 6443\n        path: /livez\n"
#define PROBE(host) PROBE_OF("livenessProbe", "host: " host "\n        ")

static const struct {
    const char *name, *manifest, *want;
} probes[] = {
    {"none", NULL, ""},
    {"plain kube-apiserver", ALONE PROBE("192.0.2.11"), ""},
    {"probes at the server itself", BEHIND PROBE("127.0.0.1"), ""},
    {"one at mvproxy", BEHIND PROBE("127.0.0.1") PROBE_OF("readinessProbe", "host: 192.0.2.11\n        "),
     "192.0.2.11"},
    {"in quotes", BEHIND PROBE("'192.0.2.11'"), "192.0.2.11"},
    {"at the pod's address", BEHIND PROBE_OF("startupProbe", ""), "the node's address"},
    {"in flow style", BEHIND "    livenessProbe: {httpGet: {host: 192.0.2.11, port: 6443}}\n", "192.0.2.11"},
    {"at a port with a name", BEHIND "    livenessProbe: {httpGet: {host: 192.0.2.11, port: probe-port}}\n",
     "192.0.2.11"},
    {"at another port", BEHIND "    livenessProbe: {httpGet: {host: 192.0.2.11, port: 10259}}\n", ""},
    {"at a port that nobody has named", BEHIND "    livenessProbe: {httpGet: {host: 192.0.2.11, port: other}}\n", ""},
    {"elsewhere", BEHIND PROBE("192.0.2.99"), ""},
    {"taken back to the node's address", BEHIND "    - --bind-address=192.0.2.11\n" PROBE("192.0.2.11"), ""},
    {"bypassed", ALONE "    # mvproxy-bypass: - --bind-address=127.0.0.1\n" PROBE("192.0.2.11"), ""},
    {"a probe that is no request", BEHIND "    livenessProbe: {exec: {command: [host:]}}\n", ""},
    {"nothing behind the key", BEHIND "    livenessProbe:\n      httpGet:\n        host:\n", ""},
    {"no containers", "spec: {containers: 5}\n", ""},
    {"garbage", "\"\n'\n- \"'\n--bind-address=\nhost: '", ""},
};

static void look(struct scene *s, const char *want, const char *name)
{
    const struct addresses ours = {.at = {{.host = "192.0.2.11", .port = 6443}}, .n = 1};
    struct buf out;

    s->f = findings_new();
    buf_init(&out, ROOM);
    findings_enter(s->f, CHECK_HOST);
    section_kubeadm(s, &ours);
    findings_print_text(s->f, false, &out);
    buf_append_char(&out, '\0');
    if (want[0] == '\0')
        is_u64(findings_count(s->f, CHECK_WARNING), 0, "%s: nothing", name);
    else
        ok(strstr(buf_slice(&out).p, want) != NULL, "%s: %s", name, buf_slice(&out).p);
    buf_free(&out);
    findings_free(s->f);
}

static void test_probes(void)
{
    struct config c = {.tls_private_key_file = ""};
    struct check_opts o = {.before = false};
    struct scene s = {.opts = &o, .config = &c};

    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        o.server_manifest = probes[i].manifest;
        look(&s, probes[i].want, probes[i].name);
    }
}

/* As `setfacl -m u:65532:r` makes it. */
static bool name_reader(const char *path)
{
    static const unsigned char acl[] = {2, 0,   0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
                                        0, 252, 255, 0,   0,   4,   0,  0, 0,   255, 255, 255, 255, 16, 0,
                                        4, 0,   255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255};

    return setxattr(path, "system.posix_acl_access", acl, sizeof(acl), 0) == 0;
}

static void test_keys(void)
{
    static const char *const none[] = {NULL};
    char path[256];
    struct config c;
    struct check_opts o = {.before = false};
    struct scene s = {.opts = &o, .config = &c, .unit = {.loaded = true, .user = "mvproxy"}};
    int fd;

    (void)snprintf(path, sizeof(path), "%s/apiserver.key", folder());
    c = (struct config){.tls_cert_file = "",
                        .tls_private_key_file = path,
                        .client_ca_file = "",
                        .requestheader_client_ca_file = "",
                        .proxy_client_cert_file = "",
                        .proxy_client_key_file = "",
                        .apiserver_ca_file = "",
                        .peer_ca_file = "",
                        .etcd_cafile = "",
                        .etcd_certfile = "",
                        .etcd_keyfile = "",
                        .egress_selector_config_file = "",
                        .tls_sni_cert_key = none};
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ok(fd >= 0 && close(fd) == 0, "a key");
    look(&s, "", "without an ACL");
    if (!name_reader(path)) {
        tap_skip("no ACLs in this file system", "with one");
        return;
    }
    look(&s, "keys.conf", "with one that nobody gives again");
    s.unit.gives_leave = true;
    look(&s, "", "with one that the unit gives");
    s.unit = (struct unit){.loaded = false};
    look(&s, "", "without a service manager");
}

int main(void)
{
    test_probes();
    test_keys();
    return tap_end();
}
