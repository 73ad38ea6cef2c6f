/* SPDX-License-Identifier: Apache-2.0 */
/* This machine: what the kernel allows, and who is on our ports. */
#include "check/sections.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/addresses.h"
#include "daemon/bind_trial.h"
#include "daemon/machine_memory.h"
#include "net/cidr.h"
#include "net/own_address.h"
#include "net/tls_inspect.h"

enum {
    FILE_BYTES = 16 << 10,
    OWN_DESCRIPTORS = 512,   /* beside connections: files, the servers', the admin listener's */
    LEAST_BACKLOG = 4096,    /* the kernel's default since 5.4 */
    LEAST_PORTS = 16 << 10,  /* towards one server */
    LEAST_TCP_PAGES = 32768, /* 128 MiB of 4 KiB */
    FIRST_PORT = 1024,       /* below it a capability is needed, if the kernel does not say otherwise */
};

#define SYSCTL_EXAMPLE "set it as contrib/examples/sysctl.conf does, then restart mvproxy"

/* Below /proc. False: it is not there, may not be read, or is empty. */
static bool read_file(const struct scene *s, const char *name, char out[FILE_BYTES])
{
    char path[256];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", s->opts->proc == NULL ? "/proc" : s->opts->proc, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, out, FILE_BYTES - 1);
    if (fd >= 0)
        close(fd);
    out[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

/* ---- descriptors ---- */

/* "Max open files            1024                 524288               files": the soft one is in force. */
static bool limit_of(const struct scene *s, pid_t pid, uint64_t *limit)
{
    char path[64], text[FILE_BYTES];
    const char *line;

    (void)snprintf(path, sizeof(path), "%ld/limits", (long)pid);
    line = read_file(s, path, text) ? strstr(text, "Max open files") : NULL;
    if (line == NULL)
        return false;
    *limit = strtoull(line + strlen("Max open files"), NULL, 10); /* "unlimited" gives 0 */
    return *limit > 0;
}

/* What a start would give the process: not this one's own limit, which is the shell's. False: there is no such unit. */
static bool limit_of_unit(const struct scene *s, uint64_t *limit)
{
    char text[FILE_BYTES];

    *limit = s->unit.descriptors;
    /* No limit can be above the kernel's. */
    if (read_file(s, "sys/fs/nr_open", text) && strtoull(text, NULL, 10) < *limit)
        *limit = strtoull(text, NULL, 10);
    return *limit > 0;
}

/* A client has a connection here, and while it asks something one to a server. */
static void check_descriptors(struct scene *s)
{
    uint64_t limit, wanted = 2 * s->config->max_connections + OWN_DESCRIPTORS;
    bool runs = s->opts->status != NULL;

    if (runs ? s->opts->pid == 0 || !limit_of(s, s->opts->pid, &limit) : !limit_of_unit(s, &limit))
        return;
    if (limit < wanted)
        findings_warn(
            s->f, "host-descriptors",
            "LimitNOFILE= in a drop-in of the unit (it ships with 1048576; not above fs.nr_open), or a lower "
            "max-connections",
            "the process %s have %llu descriptors, %llu connections of clients (max-connections) may need %llu",
            runs ? "may" : "would", (unsigned long long)limit, (unsigned long long)s->config->max_connections,
            (unsigned long long)wanted);
    else
        findings_good(s->f, "host-descriptors", "%llu descriptors are enough for max-connections",
                      (unsigned long long)limit);
}

/* ---- the kernel's settings ---- */

static void check_backlog(struct scene *s)
{
    char text[FILE_BYTES];
    unsigned long n;

    if (!read_file(s, "sys/net/core/somaxconn", text))
        return;
    n = strtoul(text, NULL, 10);
    if (n < LEAST_BACKLOG)
        findings_warn(s->f, "host-somaxconn", SYSCTL_EXAMPLE,
                      "net.core.somaxconn is %lu: when clients come back all at once, those behind it wait for seconds",
                      n);
    else
        findings_good(s->f, "host-somaxconn", "net.core.somaxconn is %lu", n);
}

static bool is_reserved(const struct scene *s, unsigned long port)
{
    char text[FILE_BYTES], *at = text, *end;

    if (!read_file(s, "sys/net/ipv4/ip_local_reserved_ports", text))
        return false;
    for (;;) {
        unsigned long first = strtoul(at, &end, 10), last = first;

        if (end == at)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (port >= first && port <= last)
            return true;
        at = *end == ',' ? end + 1 : end;
    }
}

static void check_ports(struct scene *s, const struct addresses *ours)
{
    unsigned long first, last;
    char text[FILE_BYTES], *end;
    bool good = true;

    if (!read_file(s, "sys/net/ipv4/ip_local_port_range", text))
        return;
    first = strtoul(text, &end, 10);
    last = strtoul(end, NULL, 10);
    for (size_t i = 0; i < ours->n; i++) {
        unsigned port = ours->at[i].port;

        if (port < first || port > last || is_reserved(s, port))
            continue;
        good = false;
        findings_warn(
            s->f, "host-ports", "name the port in net.ipv4.ip_local_reserved_ports",
            "port %u is one that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range, %lu to "
            "%lu): a start may find it taken",
            port, first, last);
    }
    if (last < first || last - first < LEAST_PORTS)
        findings_warn(s->f, "host-ports", "widen it, 32768 to 60999 is the kernel's default",
                      "net.ipv4.ip_local_port_range, %lu to %lu, bounds the connections to each server", first, last);
    else if (good)
        findings_good(s->f, "host-ports", "outgoing connections have ports %lu to %lu", first, last);
}

static void check_memory(struct scene *s)
{
    uint64_t all = machine_memory(), wanted = machine_memory_for_clients(s->config->max_client_memory, all);
    char text[FILE_BYTES], *end;
    unsigned long pages = 0;

    if (read_file(s, "sys/net/ipv4/tcp_mem", text)) {
        (void)strtoul(text, &end, 10);
        (void)strtoul(end, &end, 10);
        pages = strtoul(end, NULL, 10);
    }
    if (pages != 0 && pages < LEAST_TCP_PAGES)
        findings_warn(s->f, "host-memory", "raise its third number, or remove the setting",
                      "net.ipv4.tcp_mem lets all connections of this machine hold %lu pages together", pages);
    else if (all != 0 && wanted > all / 2)
        findings_warn(s->f, "host-memory", "lower max-client-memory",
                      "clients may make the process hold %llu MiB (max-client-memory), of %llu MiB that there are",
                      (unsigned long long)(wanted >> 20), (unsigned long long)(all >> 20));
    else
        findings_good(s->f, "host-memory", "memory is enough for what clients may make the process hold (%llu MiB)",
                      (unsigned long long)(wanted >> 20));
}

/* ---- our ports ---- */

/* As kubeadm sets it up: on all addresses, until the cut-over gives it loopback alone. */
static bool is_the_servers(const struct scene *s, const struct listen_address *a)
{
    const struct listen_address any = {.host = "127.255.255.254", .port = a->port};
    struct derive_address to;
    struct err err;

    err_clear(&err);
    return s->local_answers && derive_url(s->config->apiserver, &to, &err) && to.port == a->port &&
           bind_trial(&any, false) == EADDRINUSE;
}

static void judge_bind(struct scene *s, const struct listen_address *a, const char *text, int error)
{
    if (error == EADDRINUSE && is_the_servers(s, a))
        findings_warn(s->f, "host-address",
                      "go on with the step that gives it an address of its own (--bind-address=127.0.0.1): mvproxy "
                      "waits for the port, and takes it then",
                      "bind-address: %s is still kube-apiserver's, which listens on all addresses", text);
    else if (error == EADDRINUSE)
        findings_wrong(s->f, "host-address",
                       "ss -ltnp tells who it is: kube-apiserver must listen elsewhere (--bind-address=127.0.0.1); "
                       "mvproxy itself or mvproxy.socket may be there (then check without --pre)",
                       "bind-address: %s is taken by another process", text);
    else
        findings_wrong(s->f, "host-address", error == EACCES ? BIND_TRIAL_LOW_PORT : "choose another address or port",
                       "bind-address: %s: %s", text, strerror(error));
}

/* Who asks is root, and the service is not. */
static bool is_for_another(const struct scene *s)
{
    const struct passwd *pw = s->user == NULL || geteuid() != 0 ? NULL : getpwnam(s->user);

    return pw != NULL && pw->pw_uid != 0;
}

/* Whoever asks may be root, or nobody: what counts is whether the service may take such a port. */
static bool judge_low(struct scene *s, unsigned port, const char *text)
{
    char value[FILE_BYTES];
    unsigned long first =
        read_file(s, "sys/net/ipv4/ip_unprivileged_port_start", value) ? strtoul(value, NULL, 10) : FIRST_PORT;

    if (s->unit.binds_low || port >= first || (!s->unit.loaded && !is_for_another(s)))
        return true;
    if (s->unit.loaded)
        findings_wrong(s->f, "host-address", BIND_TRIAL_LOW_PORT, "bind-address: %s: %s may not take a port below %lu",
                       text, s->unit.name, first);
    else
        findings_warn(s->f, "host-address", BIND_TRIAL_LOW_PORT,
                      "bind-address: %s: a process of %s may not take a port below %lu without CAP_NET_BIND_SERVICE",
                      text, s->user, first);
    return false;
}

static void say_elsewhere(struct scene *s, const char *text)
{
    findings_warn(s->f, "host-address", BIND_TRIAL_CORRECT,
                  "bind-address: this machine does not have the address of %s now: nobody reaches mvproxy by it", text);
}

static bool check_one_free(struct scene *s, const struct listen_address *a)
{
    char text[DERIVE_HOST_BYTES];
    int error = bind_trial(a, true);
    bool here = error != 0 || !bind_trial_is_elsewhere(a), may;

    derive_text(a->host, a->port, text);
    may = judge_low(s, a->port, text);
    if (error == EACCES && s->unit.loaded) /* not to be tried by whoever asks */
        return may;
    if (error == 0 && here)
        return may;
    if (here)
        judge_bind(s, a, text, error);
    else
        say_elsewhere(s, text);
    return false;
}

static size_t list_of(const struct scene *s, const char *name, struct json_object **list)
{
    return json_object_object_get_ex(s->opts->status, name, list) && json_object_is_type(*list, json_type_array)
               ? json_object_array_length(*list)
               : 0;
}

/* As the process itself sees it: its status says on what it listens, the service manager's sockets included. */
static void check_doubts(struct scene *s, bool elsewhere)
{
    struct json_object *list = NULL;
    size_t n = list_of(s, "doubts", &list);

    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        const char *name = sections_text(one, "name");

        /* The certificate has its own mark. */
        if (strcmp(name, "certificate") != 0 && !(elsewhere && strcmp(name, "elsewhere") == 0))
            findings_warn(s->f, "host-listeners", sections_text(one, "remedy"), "%s", sections_text(one, "what"));
    }
}

/* Of a process that runs: nobody tells it that it listens in vain. */
static void check_running(struct scene *s)
{
    struct json_object *list = NULL;
    size_t n = list_of(s, "listeners", &list);
    bool elsewhere = false;

    for (size_t i = 0; i < n; i++) {
        const char *text = json_object_get_string(json_object_array_get_idx(list, i));
        struct listen_address there = {.port = 0};
        struct derive_address at;
        struct err err;

        err_clear(&err);
        if (text == NULL || !derive_host_port(slice_str(text), &at, &err) || strlen(at.host) >= sizeof(there.host))
            continue;
        (void)snprintf(there.host, sizeof(there.host), "%s", at.host);
        if (!bind_trial_is_elsewhere(&there))
            continue;
        say_elsewhere(s, text);
        elsewhere = true;
    }
    check_doubts(s, elsewhere);
}

static const char *admin_remedy(int error)
{
    if (error == EADDRINUSE)
        return "ss -ltnp tells whose it is: give another address in admin-bind-address, or end that process";
    return error == EACCES ? BIND_TRIAL_LOW_PORT : "give another address or port in admin-bind-address";
}

/* Of a process that runs it is the next start's matter whether the address is this machine's, and nothing else. */
static bool check_admin_free(struct scene *s)
{
    const char *text = s->config->admin_bind_address;
    bool runs = s->opts->status != NULL;
    struct derive_address at;
    struct addresses there;
    struct err err;
    int error;

    err_clear(&err);
    if (text == NULL || !derive_admin(text, &at, &err))
        return true;
    addresses_of(&at, &there);
    if (runs && there.n > 0)
        there.at[0].port = 0;
    error = there.n == 0 ? 0 : bind_trial(&there.at[0], false);
    if (error == EADDRNOTAVAIL)
        findings_wrong(s->f, "host-admin-address", "give one of its own, which `ip -brief address` lists",
                       "admin-bind-address: this machine does not have the address of %s", text);
    else if (error != 0 && !runs)
        findings_wrong(s->f, "host-admin-address", admin_remedy(error), "admin-bind-address: %s: %s", text,
                       strerror(error));
    return error == 0;
}

static void check_free(struct scene *s, const struct addresses *ours)
{
    bool good = check_admin_free(s);

    for (size_t i = 0; i < ours->n; i++)
        good = check_one_free(s, &ours->at[i]) && good;
    if (good)
        findings_good(s->f, "host-address", "the addresses to listen on are free");
}

/* ---- addresses that lead to nobody ---- */

struct unserved {
    struct scene *s;
    const struct addresses *ours;
};

/* kube-apiserver is there itself. */
static bool is_apiservers(const struct unserved *u, const char *ip)
{
    struct derive_address at;
    struct err err;

    err_clear(&err);
    return derive_url(u->s->config->apiserver, &at, &err) && strcmp(at.host, ip) == 0 && at.port == u->ours->at[0].port;
}

/* Of a process that runs, somebody may listen there all the same: the service manager's socket. */
static void check_served(const char *ip, void *arg)
{
    const struct unserved *u = arg;
    struct derive_address to = {.port = u->ours->at[0].port};
    struct listen_address there = {.port = u->ours->at[0].port};

    (void)snprintf(to.host, sizeof(to.host), "%s", ip);
    (void)snprintf(there.host, sizeof(there.host), "%s", ip);
    if (addresses_reached_by(u->ours, &to) != NULL || is_apiservers(u, ip) ||
        !tls_inspect_covers(u->s->config->tls_cert_file, ip) ||
        (u->s->opts->status != NULL && bind_trial(&there, false) != 0))
        return;
    findings_warn(u->s->f, "host-unserved",
                  "add it to bind-address, on each node that may have it, if anybody uses it: controlPlaneEndpoint, a "
                  "virtual address (kube-vip, keepalived), a second network",
                  "bind-address: nobody listens on port %u of %s, which this machine has as well and the serving "
                  "certificate names: who asks it is refused",
                  to.port, ip);
}

static void check_unserved(struct scene *s, const struct addresses *ours)
{
    struct unserved u = {.s = s, .ours = ours};

    if (ours->n > 0 && ours->at[0].port != 0 && s->config->tls_cert_file[0] != '\0')
        own_address_each(check_served, &u);
}

/* A server elsewhere is another node's, or a load balancer, which may lead back to us. Names are not looked up. */
static void check_place(struct scene *s)
{
    struct sockaddr_storage addr;
    struct listen_address there;
    struct derive_address at;
    struct err err;

    err_clear(&err);
    if (!derive_url(s->config->apiserver, &at, &err) || strlen(at.host) >= sizeof(there.host))
        return;
    (void)snprintf(there.host, sizeof(there.host), "%s", at.host);
    there.port = at.port;
    if (addresses_sockaddr(&there, &addr) != 0 && !own_address_is((const struct sockaddr *)(const void *)&addr))
        findings_warn(s->f, "host-apiserver",
                      "give the address on which kube-apiserver of this node listens, 127.0.0.1 if it can be",
                      "apiserver: %s is no address of this machine: mvproxy is for the API server of its own node",
                      at.host);
}

/* Who asks an address of this machine from here comes from that very address: the kubelet, Pods of the host's network.
 */
static void check_headers(struct scene *s, const struct addresses *ours)
{
    struct cidr_set balancers = {NULL, 0};

    if (!cidr_set_assign(&balancers, s->config->proxy_protocol_from))
        return;
    for (size_t i = 0; i < ours->n; i++)
        if (cidr_set_covers(&balancers, slice_str(ours->at[i].host)))
            findings_warn(s->f, "host-header",
                          "take the addresses of control-plane nodes out of proxy-protocol-from, and give a load "
                          "balancer that runs here an address of its own",
                          "bind-address: %s is in proxy-protocol-from: the kubelet and Pods of this machine send no "
                          "PROXY header, and are cut off",
                          ours->at[i].host);
    cidr_set_free(&balancers);
}

void section_host(struct scene *s)
{
    struct addresses ours;
    struct err err;

    findings_enter(s->f, CHECK_HOST);
    err_clear(&err);
    if (!addresses_configured(s->config, &ours, &err)) {
        findings_wrong(s->f, "host-address", "give bind-address", "bind-address: %s", err.text);
        return;
    }
    if (s->opts->status == NULL)
        check_free(s, &ours);
    else {
        check_running(s);
        (void)check_admin_free(s);
    }
    check_unserved(s, &ours);
    check_headers(s, &ours);
    check_place(s);
    check_descriptors(s);
    check_backlog(s);
    check_ports(s, &ours);
    check_memory(s);
    section_kubeadm(s, &ours);
}
