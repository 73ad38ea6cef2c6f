/* SPDX-License-Identifier: Apache-2.0 */
/* What the guide for kubeadm's nodes sets up beside mvproxy, and what kubeadm takes away when it is not told of it. */
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "check/sections.h"
#include "daemon/addresses.h"
#include "daemon/derive.h"
#include "daemon/yaml_tree.h"

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

enum { MANIFEST_BYTES = 8 << 20 };

static bool is_loopback(struct slice host)
{
    return slice_has_prefix(host, SLICE_LIT("127.")) || slice_eq(host, SLICE_LIT("::1")) ||
           slice_eq(host, SLICE_LIT("[::1]"));
}

static struct slice text_of(const struct yaml_node *n)
{
    return n == NULL || n->kind != YAML_SCALAR ? SLICE_NONE : n->text;
}

/* Whether kube-apiserver is told to listen on loopback: the last time counts. */
static bool is_behind(const struct yaml_node *container)
{
    static const char *const lists[] = {"command", "args"};
    struct slice option = SLICE_LIT("--bind-address=");
    bool behind = false;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const struct yaml_node *list = yaml_member(container, lists[i]);

        for (const struct yaml_node *n = list == NULL ? NULL : list->first; n != NULL; n = n->next) {
            if (slice_has_prefix(text_of(n), option))
                behind = is_loopback(slice_from(text_of(n), option.n));
        }
    }
    return behind;
}

/* A number, or the name of one of the container's ports; 0: neither. */
static unsigned port_of(const struct yaml_node *container, const struct yaml_node *get)
{
    const struct yaml_node *ports = yaml_member(container, "ports");
    struct slice port = text_of(yaml_member(get, "port"));
    uint64_t number;

    for (const struct yaml_node *n = ports == NULL ? NULL : ports->first; n != NULL; n = n->next)
        if (port.n > 0 && slice_eq(text_of(yaml_member(n, "name")), port))
            port = text_of(yaml_member(n, "containerPort"));
    return slice_u64(port, &number) && number <= UINT16_MAX ? (unsigned)number : 0;
}

/* Where the kubelet asks if no host is given: at the Pod's address, which is the node's. */
static const struct listen_address *at_node(const struct addresses *ours, unsigned port)
{
    for (size_t i = 0; i < ours->n; i++)
        if (ours->at[i].port == port && !is_loopback(slice_str(ours->at[i].host)))
            return &ours->at[i];
    return NULL;
}

static const struct listen_address *reached(const struct addresses *ours, struct slice host, unsigned port)
{
    struct derive_address to = {.port = port};

    if (host.n == 0)
        return at_node(ours, port);
    if (host.n >= sizeof(to.host))
        return NULL;
    (void)snprintf(to.host, sizeof(to.host), "%.*s", (int)host.n, host.p);
    return addresses_reached_by(ours, &to);
}

/* Of a kube-apiserver that is behind mvproxy already. */
static void check_container(struct scene *s, const struct yaml_node *container, const struct addresses *ours)
{
    static const char *const kinds[] = {"startupProbe", "livenessProbe", "readinessProbe"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct yaml_node *get = yaml_member(yaml_member(container, kinds[i]), "httpGet");
        struct slice host = text_of(yaml_member(get, "host"));

        if (get == NULL || reached(ours, host, port_of(container, get)) == NULL)
            continue;
        findings_warn(s->f, "host-probes",
                      "kubeadm upgrade node phase control-plane --patches /etc/kubernetes/patches, as docs/kubeadm.md "
                      "has it (each kubeadm upgrade needs --patches)",
                      "the %s of kube-apiserver's static pod goes to %.*s, where mvproxy is: while that is away the "
                      "kubelet kills a healthy kube-apiserver",
                      kinds[i], host.n > 0 ? (int)host.n : (int)strlen("the node's address"),
                      host.n > 0 ? host.p : "the node's address");
        return;
    }
}

static void check_probes(struct scene *s, const struct addresses *ours)
{
    struct slice text = slice_str(s->opts->server_manifest == NULL ? "" : s->opts->server_manifest);
    struct arena *a = arena_new(MANIFEST_BYTES);
    struct yaml_node *root = NULL;
    const struct yaml_node *containers;
    struct buf errors;

    if (a == NULL)
        return;
    buf_init(&errors, 1 << 16);
    (void)yaml_tree_parse("manifest", text, a, &root, &errors); /* the kubelet says what is wrong with it */
    containers = yaml_member(yaml_member(root, "spec"), "containers");
    for (const struct yaml_node *n = containers == NULL ? NULL : containers->first; n != NULL; n = n->next)
        if (is_behind(n))
            check_container(s, n, ours);
    buf_free(&errors);
    arena_free(a);
}

void section_kubeadm(struct scene *s, const struct addresses *ours)
{
    check_leave(s);
    check_probes(s, ours);
}
