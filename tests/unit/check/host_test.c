/* SPDX-License-Identifier: Apache-2.0 */
/* What the check says of this machine: its files are written here, and its memory is so much as is said here. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/sections.h"
#include "daemon/machine_memory.h"
#include "lib/descriptors.h"
#include "lib/tap.h"

#include <json-c/json.h>

enum { ROOM = 1 << 16, MIB = 1 << 20 };

static char root[] = "/tmp/host_test.XXXXXX";
static uint64_t memory = 4000ULL * MIB;

/* ---- in place of daemon/machine_memory.c ---- */

uint64_t machine_memory(void)
{
    return memory;
}

uint64_t machine_memory_of(const char *cgroup_file, const char *cgroup_root, uint64_t machine)
{
    (void)cgroup_file;
    (void)cgroup_root;
    return machine;
}

uint64_t machine_memory_for_clients(uint64_t bytes, uint64_t all)
{
    (void)all;
    return bytes;
}

/* ---- the machine ---- */

/* NULL: there is no such file. */
static void put(const char *path, const char *text)
{
    char whole[256];
    FILE *f;

    (void)snprintf(whole, sizeof(whole), "%s/%s", root, path);
    (void)unlink(whole);
    if (text == NULL)
        return;
    f = fopen(whole, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("cannot write %s", whole);
}

static void usual(void)
{
    put("sys/net/core/somaxconn", "4096\n");
    put("sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    put("sys/net/ipv4/ip_local_reserved_ports", "\n");
    put("sys/net/ipv4/tcp_mem", "1\t2\t32768\n");
    put("7/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                    "Max open files            712                  4096                 files     \n");
}

static void make_machine(void)
{
    static const char *const folders[] = {"7", "sys", "sys/net", "sys/net/core", "sys/net/ipv4", "sys/fs"};
    char path[256];

    if (mkdtemp(root) == NULL)
        tap_bail("mkdtemp");
    for (size_t i = 0; i < ROWS(folders); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        if (mkdir(path, 0700) != 0)
            tap_bail("mkdir");
    }
}

static void remove_machine(void)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    if (system(command) != 0)
        diag("%s stays", root);
}

/* ---- the section ---- */

#define DESCRIPTORS "ok 712 descriptors are enough for max-connections\n"
#define REMEDY                                                                                                         \
    "    what to do: LimitNOFILE= in a drop-in of the unit (it ships with 1048576; not above fs.nr_open), or a lower " \
    "max-connections\n"
#define QUEUE "ok net.core.somaxconn is 4096\n"
#define PORTS "ok outgoing connections have ports 32768 to 60999\n"
#define MEMORY "ok memory is enough for what clients may make the process hold (1000 MiB)\n"

static struct buf out;
static const char *apiserver = "https://127.0.0.1:6443", *admin, *user, *status = "{}";
static const char *const *balancers;
static uint64_t of_unit;
static bool has_unit, binds_low;

/* Of a process that runs (it is on its addresses) or of none. */
static void look(const char *const *addresses, uint64_t port, bool runs, uint64_t clients)
{
    struct config c = {.bind_address = addresses,
                       .secure_port = port,
                       .max_connections = 100,
                       .max_client_memory = clients,
                       .tls_cert_file = "",
                       .proxy_protocol_from = balancers,
                       .apiserver = apiserver,
                       .admin_bind_address = admin};
    struct check_opts opts = {.before = !runs, .proc = root, .pid = runs ? 7 : 0};
    struct scene s = {.opts = &opts,
                      .config = &c,
                      .f = findings_new(),
                      .user = user,
                      .unit = {.loaded = has_unit,
                               .name = "mvproxy.service",
                               .descriptors = of_unit,
                               .gives_leave = true,
                               .binds_low = binds_low,
                               .user = "mvproxy"}};

    if (runs)
        opts.status = json_tokener_parse(status);
    buf_reset(&out);
    section_host(&s);
    findings_print_text(s.f, false, &out);
    buf_append_char(&out, '\0');
    findings_free(s.f);
    json_object_put(opts.status);
}

static void files(void)
{
    static const char *const address[] = {"10.0.0.1", NULL};
    static const struct {
        const char *name, *path, *text;
        uint64_t port;
        const char *want;
    } rows[] = {
        {"all is well", "7/limits", "Max open files 712 1 files\n", 6443, DESCRIPTORS QUEUE PORTS MEMORY},
        {"one descriptor too few", "7/limits", "Max open files            711   4096   files\n", 6443,
         "!! the process may have 711 descriptors, 100 connections of clients (max-connections) may need 712\n" REMEDY
             QUEUE PORTS MEMORY},
        {"a single descriptor", "7/limits", "Max open files 1 1 files\n", 6443,
         "!! the process may have 1 descriptors, 100 connections of clients (max-connections) may need 712\n" REMEDY
             QUEUE PORTS MEMORY},
        {"no limit", "7/limits", "Max open files            unlimited   unlimited   files\n", 6443, QUEUE PORTS MEMORY},
        {"no such line", "7/limits", "Max cpu time 1 1 seconds\n", 6443, QUEUE PORTS MEMORY},
        {"no limits", "7/limits", NULL, 6443, QUEUE PORTS MEMORY},
        {"a short queue", "sys/net/core/somaxconn", "4095\n", 6443,
         DESCRIPTORS
         "!! net.core.somaxconn is 4095: when clients come back all at once, those behind it wait for seconds\n"
         "    what to do: set it as contrib/examples/sysctl.conf does, then restart mvproxy\n" PORTS MEMORY},
        {"a queue that is not told", "sys/net/core/somaxconn", NULL, 6443, DESCRIPTORS PORTS MEMORY},
        {"a single digit", "sys/net/core/somaxconn", "4", 6443,
         DESCRIPTORS
         "!! net.core.somaxconn is 4: when clients come back all at once, those behind it wait for seconds\n"
         "    what to do: set it as contrib/examples/sysctl.conf does, then restart mvproxy\n" PORTS MEMORY},
        {"a file without text", "sys/net/core/somaxconn", "", 6443, DESCRIPTORS PORTS MEMORY},
        {"the port before", "7/limits", "Max open files 712 1 files\n", 32767, DESCRIPTORS QUEUE PORTS MEMORY},
        {"the port behind", "7/limits", "Max open files 712 1 files\n", 61000, DESCRIPTORS QUEUE PORTS MEMORY},
        {"the first port", "7/limits", "Max open files 712 1 files\n", 32768,
         DESCRIPTORS QUEUE
         "!! port 32768 is one that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range, 32768 to "
         "60999): a "
         "start may find it taken\n    what to do: name the port in net.ipv4.ip_local_reserved_ports\n" MEMORY},
        {"the last port", "7/limits", "Max open files 712 1 files\n", 60999,
         DESCRIPTORS QUEUE
         "!! port 60999 is one that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range, 32768 to "
         "60999): a "
         "start may find it taken\n    what to do: name the port in net.ipv4.ip_local_reserved_ports\n" MEMORY},
        {"a reserved port", "sys/net/ipv4/ip_local_reserved_ports", "1,2-3,40000\n", 40000,
         DESCRIPTORS QUEUE PORTS MEMORY},
        {"the first of reserved ports", "sys/net/ipv4/ip_local_reserved_ports", "40000-40002,50000\n", 40000,
         DESCRIPTORS QUEUE PORTS MEMORY},
        {"the last of reserved ports", "sys/net/ipv4/ip_local_reserved_ports", "39000,40000-40002\n", 40002,
         DESCRIPTORS QUEUE PORTS MEMORY},
        {"a port that is none of them", "sys/net/ipv4/ip_local_reserved_ports", "39999,40001-40002\n", 40000,
         DESCRIPTORS QUEUE
         "!! port 40000 is one that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range, 32768 to "
         "60999): a "
         "start may find it taken\n    what to do: name the port in net.ipv4.ip_local_reserved_ports\n" MEMORY},
        {"reserved ports that are not told", "sys/net/ipv4/ip_local_reserved_ports", NULL, 40000,
         DESCRIPTORS QUEUE
         "!! port 40000 is one that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range, 32768 to "
         "60999): a "
         "start may find it taken\n    what to do: name the port in net.ipv4.ip_local_reserved_ports\n" MEMORY},
        {"few ports", "sys/net/ipv4/ip_local_port_range", "32768 49151\n", 6443,
         DESCRIPTORS QUEUE "!! net.ipv4.ip_local_port_range, 32768 to 49151, bounds the connections to each server\n"
                           "    what to do: widen it, 32768 to 60999 is the kernel's default\n" MEMORY},
        {"just enough ports", "sys/net/ipv4/ip_local_port_range", "32768 49152\n", 6443,
         DESCRIPTORS QUEUE "ok outgoing connections have ports 32768 to 49152\n" MEMORY},
        {"ports the wrong way round", "sys/net/ipv4/ip_local_port_range", "60999 32768\n", 6443,
         DESCRIPTORS QUEUE "!! net.ipv4.ip_local_port_range, 60999 to 32768, bounds the connections to each server\n"
                           "    what to do: widen it, 32768 to 60999 is the kernel's default\n" MEMORY},
        {"ports that are not told", "sys/net/ipv4/ip_local_port_range", NULL, 6443, DESCRIPTORS QUEUE MEMORY},
        {"little memory for TCP", "sys/net/ipv4/tcp_mem", "1 2 32767\n", 6443,
         DESCRIPTORS QUEUE PORTS "!! net.ipv4.tcp_mem lets all connections of this machine hold 32767 pages together\n"
                                 "    what to do: raise its third number, or remove the setting\n"},
        {"a single page", "sys/net/ipv4/tcp_mem", "1 2 1\n", 6443,
         DESCRIPTORS QUEUE PORTS "!! net.ipv4.tcp_mem lets all connections of this machine hold 1 pages together\n"
                                 "    what to do: raise its third number, or remove the setting\n"},
        {"memory for TCP that is not told", "sys/net/ipv4/tcp_mem", NULL, 6443, DESCRIPTORS QUEUE PORTS MEMORY},
    };
    char want[2048];

    for (size_t i = 0; i < ROWS(rows); i++) {
        usual();
        put(rows[i].path, rows[i].text);
        look(address, rows[i].port, true, 1000ULL * MIB);
        (void)snprintf(want, sizeof(want), "host\n%s\n", rows[i].want);
        ok(strncmp(out.p, want, strlen(want)) == 0, "%s: %s", rows[i].name, out.p);
    }
    usual();
}

static bool has(const char *text)
{
    return strstr(out.p, text) != NULL;
}

static void of_clients(void)
{
    static const char *const address[] = {"10.0.0.1", NULL}, *const wrong[] = {"cp-a", NULL};

    look(address, 6443, true, 2000ULL * MIB);
    ok(has("(2000 MiB)"), "half of the memory");
    look(address, 6443, true, 2001ULL * MIB);
    ok(has("hold 2001 MiB (max-client-memory), of 4000 MiB") && has("lower max-client-memory"), "more than half of it");
    memory = 0;
    look(address, 6443, true, 2001ULL * MIB);
    ok(has("ok memory is enough"), "memory that is not known");
    memory = 4000ULL * MIB;
    look(wrong, 6443, true, 0);
    ok(has("XX bind-address: \"cp-a\" is not an IP address") && !has("somaxconn"), "no address: %s", out.p);
}

/* Of another node, or a load balancer that may lead back. */
static void place(void)
{
    static const char *const address[] = {"10.0.0.1", NULL};
    static const struct {
        const char *url;
        bool elsewhere;
    } rows[] = {{"https://192.0.2.1:6443", true},  {"https://[2001:db8::1]:6443", true}, {"https://127.0.0.1:1", false},
                {"https://127.9.9.9:6443", false}, {"https://cp-a:6443", false},         {"nonsense", false}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        apiserver = rows[i].url;
        look(address, 6443, true, 0);
        is_int(has("is no address of this machine: mvproxy is for the API server of its own node"), rows[i].elsewhere,
               "%s: %s", rows[i].url, out.p);
    }
    apiserver = "https://127.0.0.1:6443";
}

static void headers(void)
{
    static const char *const address[] = {"10.0.1.1", "10.0.0.1", NULL}, *const here[] = {"10.0.0.0/24", NULL},
                             *const elsewhere[] = {"10.0.2.0/24", NULL};

    balancers = here;
    look(address, 6443, true, 0);
    ok(has("!! bind-address: 10.0.0.1 is in proxy-protocol-from") && !has("10.0.1.1 is in"), "ours: %s", out.p);
    balancers = elsewhere;
    look(address, 6443, true, 0);
    ok(!has("proxy-protocol-from"), "of others: %s", out.p);
    balancers = NULL;
}

/* ---- the addresses ---- */

static int taken(int family, unsigned *port)
{
    struct sockaddr_storage addr = {.ss_family = (sa_family_t)family};
    socklen_t n = sizeof(addr);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)); /* as servers do */
    if (family == AF_INET)
        ((struct sockaddr_in *)(void *)&addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)(void *)&addr)->sin6_addr = in6addr_loopback;
    if (fd < 0 || bind(fd, (struct sockaddr *)(void *)&addr, n) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)(void *)&addr, &n) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port = ntohs(family == AF_INET ? ((struct sockaddr_in *)(void *)&addr)->sin_port
                                    : ((struct sockaddr_in6 *)(void *)&addr)->sin6_port);
    return fd;
}

/* A connection that was here lingers on the address: no hindrance. */
static void linger(int listener, unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server;
    char byte;

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(client, (struct sockaddr *)&addr, sizeof(addr)) != 0 || (server = accept(listener, NULL, NULL)) < 0)
        tap_bail("no connection");
    (void)close(server);
    (void)!read(client, &byte, 1);
    (void)close(client);
}

static void addresses(void)
{
    static const char *const here[] = {"127.0.0.1", NULL}, *const six[] = {"::1", NULL},
                             *const elsewhere[] = {"192.0.2.77", NULL},
                             *const both[] = {"192.0.2.77", "127.0.0.1", NULL};
    unsigned port = 0;
    int fd = taken(AF_INET, &port);
    char want[128];

    look(here, port, false, 0);
    (void)snprintf(want, sizeof(want),
                   "XX bind-address: 127.0.0.1:%u is taken by another process\n    what to do: ss -ltnp", port);
    ok(has(want), "taken: %s", out.p);
    look(both, port, false, 0);
    ok(has(want) && has("!! bind-address: this machine does not have the address of 192.0.2.77:") && !has("are free"),
       "each is looked at: %s", out.p);
    look(here, port, true, 0);
    ok(!has("bind-address") && !has("listen on"), "by the process itself, which is no fault");
    linger(fd, port);
    (void)close(fd);
    look(here, port, false, 0);
    ok(has("ok the addresses to listen on are free"), "free, as soon as it is gone: %s", out.p);
    look(elsewhere, port, false, 0);
    ok(has("!! bind-address: this machine does not have the address of 192.0.2.77:") && !has("are free"),
       "elsewhere: %s", out.p);
    fd = taken(AF_INET6, &port);
    if (fd < 0) {
        tap_skip("no IPv6 here", "a taken address of IPv6");
        return;
    }
    look(six, port, false, 0);
    (void)snprintf(want, sizeof(want), "XX bind-address: [::1]:%u is taken by another process\n", port);
    ok(has(want), "taken, IPv6: %s", out.p);
    (void)close(fd);
    look(six, port, false, 0);
    ok(has("are free"), "free, IPv6: %s", out.p);
}

static void admin_address(void)
{
    static const char *const nobody[] = {"127.0.0.1", NULL};
    static const char *const free_ones[] = {NULL, "", "nonsense",
                                            "a.host.name.that.is.longer.than.any.address.could.be.example:1"};
    char text[64], want[128];
    unsigned port = 0;
    int fd = taken(AF_INET, &port);

    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", port);
    (void)snprintf(want, sizeof(want), "XX admin-bind-address: %s: Address already in use\n", text);
    admin = text;
    look(nobody, 0, false, 0);
    ok(has(want) && !has("are free"), "another process has it: %s", out.p);
    look(nobody, 0, true, 0);
    ok(!has("admin-bind-address"), "mvproxy itself has it: %s", out.p);
    (void)close(fd);
    look(nobody, 0, false, 0);
    ok(!has("admin-bind-address") && has("are free"), "nobody has it: %s", out.p);
    admin = "192.0.2.77:9443";
    for (int runs = 0; runs < 2; runs++) {
        look(nobody, 0, runs, 0);
        ok(has("XX admin-bind-address: this machine does not have the address of 192.0.2.77:9443\n    what to do: give "
               "one of its own, which `ip -brief address` lists\n") &&
               !has("are free"),
           "it is no address of this machine: %s", out.p);
    }
    for (size_t i = 0; i < ROWS(free_ones); i++) {
        admin = free_ones[i];
        look(nobody, 0, false, 0);
        ok(!has("admin-bind-address") && has("are free"), "none, %zu: %s", i, out.p);
    }
    admin = NULL;
}

/* Before the start the unit counts, and not the limit of whoever asks. */
static void unit_limits(void)
{
    static const char *const nobody[] = {"127.0.0.1", NULL};
    static const struct {
        const char *name, *nr_open, *want;
        uint64_t of_unit;
    } rows[] = {
        {"enough", "1048576\n", DESCRIPTORS, 712},
        {"one too few", "1048576\n",
         "!! the process would have 711 descriptors, 100 connections of clients (max-connections) may need "
         "712\n" REMEDY,
         711},
        {"the kernel's limit", "712\n", DESCRIPTORS, UINT64_MAX},
        {"not told", "1048576\n", NULL, 0},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        usual();
        put("sys/fs/nr_open", rows[i].nr_open);
        of_unit = rows[i].of_unit;
        look(nobody, 6443, false, 1000ULL * MIB);
        ok(rows[i].want == NULL ? strstr(out.p, "descriptors") == NULL : strstr(out.p, rows[i].want) != NULL,
           "the unit: %s: %s", rows[i].name, out.p);
    }
    of_unit = 0;
}

/* Root may take any port, which says nothing of the service. */
static void low_ports(void)
{
    static const char *const here[] = {"127.0.0.1", NULL};
    static const struct {
        const char *name, *first;
        unsigned port;
        bool capability, wrong;
    } rows[] = {
        {"below", "1024\n", 1023, false, true},
        {"not below", "1024\n", 1024, false, false},
        {"with the capability", "1024\n", 1023, true, false},
        {"for all", "443\n", 1023, false, false},
        {"not told", NULL, 1023, false, true},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        put("sys/net/ipv4/ip_unprivileged_port_start", rows[i].first);
        has_unit = true;
        binds_low = rows[i].capability;
        look(here, rows[i].port, false, 0);
        is_int(has("mvproxy.service may not take a port below 1024\n    what to do: a port below 1024 needs Ambient"),
               rows[i].wrong, "%s: %s", rows[i].name, out.p);
        is_int(has("are free"), !rows[i].wrong, "%s: free", rows[i].name);
    }
    look(here, 1023, true, 0);
    ok(!has("may not take"), "a process that has it");
    has_unit = binds_low = false;
    user = "nobody";
    look(here, 1023, false, 0);
    ok(has("bind-address: 127.0.0.1:1023: ") && has("AmbientCapabilities=CAP_NET_BIND_SERVICE") && !has("are free"),
       "no unit, of another user: %s", out.p);
    user = geteuid() == 0 ? "root" : "nobody";
    look(here, 1023, false, 0);
    is_int(has("are free"), geteuid() == 0, "no unit, of who asks: %s", out.p);
    user = NULL;
}

/* What it says of itself. */
static void running(void)
{
    static const char *const here[] = {"127.0.0.1", NULL};

    status = "{\"listeners\":[\"127.0.0.1:6443\",\"192.0.2.77:6443\",\"[2001:db8::77]:6443\",\"?\",1],\"doubts\":["
             "{\"name\":\"sockets\",\"what\":\"a socket\",\"remedy\":\"move it\"},"
             "{\"name\":\"elsewhere\",\"what\":\"the same\",\"remedy\":\"r\"},"
             "{\"name\":\"certificate\",\"what\":\"a certificate\",\"remedy\":\"r\"}]}";
    look(here, 6443, true, 0);
    ok(has("!! bind-address: this machine does not have the address of 192.0.2.77:6443 now: nobody reaches mvproxy by "
           "it\n    what to do: correct bind-address"),
       "an address of another machine: %s", out.p);
    ok(has("the address of [2001:db8::77]:6443 now") && !has("the address of 127.0.0.1"), "and each of them");
    ok(has("!! a socket\n    what to do: move it\n"), "a doubt");
    ok(!has("the same") && !has("a certificate"), "what is said already");
    status =
        "{\"listeners\":[\"127.0.0.1:6443\"],\"doubts\":[{\"name\":\"elsewhere\",\"what\":\"w\",\"remedy\":\"r\"}]}";
    look(here, 6443, true, 0);
    ok(has("!! w\n    what to do: r\n"), "which peers alone are told");
    status = "{\"listeners\":7,\"doubts\":\"x\"}";
    look(here, 6443, true, 0);
    ok(!has("!! bind-address"), "nonsense: %s", out.p);
    status = "{}";
}

int main(void)
{
    unsigned descriptors;

    make_machine();
    usual();
    descriptors = descriptors_open();
    buf_init(&out, ROOM);
    files();
    of_clients();
    place();
    running();
    headers();
    addresses();
    admin_address();
    unit_limits();
    low_ports();
    is_u64(descriptors_open(), descriptors, "all files are closed");
    buf_free(&out);
    remove_machine();
    return tap_end();
}
