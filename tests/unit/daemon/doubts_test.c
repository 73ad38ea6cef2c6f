/* SPDX-License-Identifier: Apache-2.0 */
/* What a process doubts of its sockets, of what peers are told, and of its certificate. */
#include "daemon/doubts.h"

#include <stdio.h>
#include <string.h>

#include "daemon/config.h"
#include "lib/tap.h"
#include "net/tls_inspect.h"

static bool is_signed, has_certificate, admin_waits;

/* ---- in place of net/tls_inspect.c ---- */

void tls_inspect(const char *path, struct tls_file_facts *out)
{
    (void)path;
    *out = (struct tls_file_facts){.has_certificate = has_certificate};
}

bool tls_inspect_signed(const char *cert_file, const char *bundle_file)
{
    (void)cert_file;
    (void)bundle_file;
    return is_signed;
}

/* ---- the stories ---- */

static const char *const here[] = {"127.0.0.1", NULL}, *const elsewhere[] = {"192.0.2.77", NULL},
                         *const wrong[] = {"cp-a", NULL};

static struct status look(const char *const *bind, const char *socket, unsigned port, bool inherited,
                          const char *advertised)
{
    struct config c = {.bind_address = bind,
                       .secure_port = 6443,
                       .tls_cert_file = "c",
                       .peer_ca_file = "p",
                       .admin_bind_address = "127.0.0.1:9443"};
    struct addresses ours = {.at = {{.port = port}}, .n = 1};
    struct doubts_facts f = {&c, &ours, inherited, advertised, admin_waits};
    struct status s = {.files_refused = "", .n_doubts = 0};

    (void)snprintf(ours.at[0].host, sizeof(ours.at[0].host), "%s", socket);
    doubts_collect(&f, &s);
    return s;
}

static void sockets(void)
{
    struct status s = look(here, "127.0.0.1", 6443, true, "127.0.0.1:6443");

    is_u64(s.n_doubts, 0, "the configured address");
    s = look(here, "127.0.0.2", 6443, true, "127.0.0.1:6443");
    is_u64(s.n_doubts, 2, "another one");
    is_str(s.doubts[0].what,
           "the service manager has made a socket on 127.0.0.2:6443, which bind-address and secure-port do not have",
           "said");
    is_str(s.doubts[1].what,
           "peers are told 127.0.0.1:6443, and no socket that the service manager has made is there: they do not reach "
           "mvproxy",
           "and what comes of it");
    s = look(here, "127.0.0.1", 7443, true, "127.0.0.1:6443");
    is_u64(s.n_doubts, 2, "another port");
    s = look(here, "::", 6443, true, "127.0.0.1:6443");
    is_u64(s.n_doubts, 1, "all addresses");
    is_str(s.doubts[0].name, "sockets", "which peers reach");
    s = look(here, "127.0.0.2", 6443, false, "127.0.0.1:6443");
    is_u64(s.n_doubts, 0, "its own");
    s = look(wrong, "127.0.0.2", 6443, true, "");
    is_u64(s.n_doubts, 0, "what is not known");
}

static void advertised(void)
{
    struct status s = look(elsewhere, "192.0.2.77", 6443, false, "192.0.2.77:6443");

    is_u64(s.n_doubts, 1, "of another machine");
    is_str(s.doubts[0].what,
           "peers are told 192.0.2.77:6443, an address that this machine does not have now: nobody reaches mvproxy by "
           "it",
           "said");
    is_str(s.doubts[0].name, "elsewhere", "its name");
    s = look(elsewhere, "192.0.2.77", 6443, false, "");
    is_u64(s.n_doubts, 0, "nothing is told");
}

static void certificate(void)
{
    struct status s;

    is_signed = false;
    s = look(here, "127.0.0.1", 6443, false, "");
    is_u64(s.n_doubts, 1, "of another CA");
    is_str(s.doubts[0].name, "certificate", "its name");
    ok(strncmp(s.doubts[0].remedy, "give kube-apiserver's own serving pair of this node in tls-cert-file", 68) == 0,
       "what to do: %s", s.doubts[0].remedy);
    has_certificate = false;
    s = look(here, "127.0.0.1", 6443, false, "");
    is_u64(s.n_doubts, 0, "files that cannot be read");
}

static void admin(void)
{
    struct status s;

    admin_waits = true;
    s = look(here, "127.0.0.1", 6443, false, "");
    is_u64(s.n_doubts, 1, "the port of another process");
    is_str(s.doubts[0].name, "admin", "its name");
    is_str(s.doubts[0].what,
           "admin-bind-address: another process has 127.0.0.1:9443, so nobody is served metrics or health there",
           "said");
    admin_waits = false;
}

int main(void)
{
    is_signed = has_certificate = true;
    sockets();
    advertised();
    admin();
    certificate();
    return tap_end();
}
