/* SPDX-License-Identifier: Apache-2.0 */
/* What the guide for kubeadm's nodes sets up beside mvproxy, and what kubeadm takes away when it is not told of it. */
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "check/sections.h"
#include "daemon/addresses.h"
#include "daemon/derive.h"

/* Version, owner, group and others (acl(5), as the kernel has it): an ACL that names nobody else is no longer. */
enum { PLAIN_ACL_BYTES = 4 + 3 * 8 };

/* ---- keys ---- */

static void look_at_key(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    const char **first = arg;

    (void)option;
    if (kind == TRUST_KEY && *first == NULL && getxattr(path, "system.posix_acl_access", NULL, 0) > PLAIN_ACL_BYTES)
        *first = path;
}

/* kubeadm renews a key by a new file, without the ACL of the one before. */
static void check_leave(struct scene *s)
{
    const char *key = NULL;

    if (!s->unit.loaded || s->unit.user[0] == '\0' || s->unit.gives_leave)
        return;
    trust_each_file(s->config, look_at_key, &key);
    if (key != NULL)
        findings_warn(s->f, "host-keys",
                      "let the unit give it again before each start and reload: ExecStartPre=+setfacl ... and "
                      "ExecReload=+setfacl ... in /etc/systemd/system/mvproxy.service.d/keys.conf, as docs/kubeadm.md "
                      "has it",
                      "the user %s may read %s by an ACL, which the next renewal of the file takes away", s->unit.user,
                      key);
}

/* ---- probes ---- */

/* The value of "key: value", or of the argument "- key=value", in that line; none: empty. */
static struct slice value_of(struct slice line, const char *key)
{
    struct slice s = slice_trim(line), name = slice_str(key);

    if (slice_has_prefix(s, SLICE_LIT("- ")))
        s = slice_trim(slice_from(s, 2));
    while (s.n > 0 && (s.p[0] == '"' || s.p[0] == '\''))
        s = slice_from(s, 1);
    while (s.n > 0 && (s.p[s.n - 1] == '"' || s.p[s.n - 1] == '\''))
        s.n--;
    if (!slice_has_prefix(s, name))
        return SLICE_NONE;
    s = slice_trim(slice_from(s, name.n));
    while (s.n > 0 && (s.p[0] == '"' || s.p[0] == '\''))
        s = slice_from(s, 1);
    return s;
}

static bool is_loopback(struct slice host)
{
    return slice_has_prefix(host, SLICE_LIT("127.")) || slice_eq(host, SLICE_LIT("::1")) ||
           slice_eq(host, SLICE_LIT("[::1]"));
}

static bool leads_to_us(const struct addresses *ours, struct slice host)
{
    struct derive_address to;

    if (ours->n == 0 || host.n == 0 || host.n >= sizeof(to.host))
        return false;
    (void)snprintf(to.host, sizeof(to.host), "%.*s", (int)host.n, host.p);
    to.port = ours->at[0].port;
    return addresses_reached_by(ours, &to) != NULL;
}

/* Of a kube-apiserver that is behind mvproxy already. */
static void check_probes(struct scene *s, const struct addresses *ours)
{
    struct slice rest = slice_str(s->opts->server_manifest == NULL ? "" : s->opts->server_manifest), line;
    struct slice probed = SLICE_NONE;
    bool behind = false;

    while (rest.n > 0 && slice_split(&rest, '\n', &line)) {
        struct slice host = value_of(line, "host:");

        behind = behind || is_loopback(value_of(line, "--bind-address="));
        if (leads_to_us(ours, host))
            probed = host;
    }
    if (behind && probed.n > 0)
        findings_warn(s->f, "host-probes",
                      "kubeadm upgrade node phase control-plane --patches /etc/kubernetes/patches, as docs/kubeadm.md "
                      "has it (each kubeadm upgrade needs --patches)",
                      "the probes of kube-apiserver's static pod go to %.*s, where mvproxy is: while that is away the "
                      "kubelet kills a healthy kube-apiserver",
                      (int)probed.n, probed.p);
}

void section_kubeadm(struct scene *s, const struct addresses *ours)
{
    check_leave(s);
    check_probes(s, ours);
}
