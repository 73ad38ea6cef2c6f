/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that a start could have or not, of this machine and of others. */
#include "daemon/bind_trial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"

#define BASE                                                                                                           \
    "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nhostname-override: cp-a\napiserver: "            \
    "https://127.0.0.2:6443\ncontrol-socket: \"\"\n"

static bool denied; /* as who has no capability is */

/* In place of libc's. */
int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t n)
{
    const struct sockaddr_in *in = addr.__sockaddr_in__;

    if (!denied || ntohs(in->sin_port) == 0 || ntohs(in->sin_port) >= 1024)
        return (int)syscall(SYS_bind, fd, in, n);
    errno = EACCES;
    return -1;
}

static int taken(unsigned *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&addr, n) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("cannot listen");
    *port = ntohs(addr.sin_port);
    return fd;
}

static void one(void)
{
    struct listen_address here = {.host = "127.0.0.1"}, elsewhere = {.host = "192.0.2.77", .port = 9443},
                          name = {.host = "cp-a", .port = 9443};
    int fd = taken(&here.port);

    is_int(bind_trial(&here, true), EADDRINUSE, "somebody has it");
    is_int(bind_trial(&here, false), EADDRINUSE, "for others than clients, too");
    (void)close(fd);
    is_int(bind_trial(&here, false), 0, "nobody has it any more");
    is_int(bind_trial(&here, false), 0, "nor does the trial");
    is_int(bind_trial(&elsewhere, true), 0, "of another machine, which may come later");
    is_int(bind_trial(&elsewhere, false), EADDRNOTAVAIL, "of another machine");
    is_int(bind_trial(&name, false), 0, "a name");
}

static void said(const char *lines, char out[512])
{
    char text[512];
    struct buf errors;
    struct config *c;
    struct remarks r;

    buf_init(&errors, 1 << 16);
    (void)snprintf(text, sizeof(text), BASE "%s", lines);
    folder_write("m.yaml", text);
    c = config_load("m.yaml", NULL, 0, &errors);
    if (c == NULL)
        tap_bail("no configuration");
    r = (struct remarks){c, &errors, true};
    bind_trial_configured(&r);
    (void)snprintf(out, 512, "%.*s", (int)buf_len(&errors), buf_len(&errors) == 0 ? "" : buf_slice(&errors).p);
    is_int(r.ok, buf_len(&errors) == 0 || strncmp(out, "warning: ", 9) == 0, "what is said is an error: %s", lines);
    config_free(c);
    buf_free(&errors);
}

static void configured(void)
{
    static const struct {
        const char *lines, *want;
    } rows[] = {
        {"bind-address: [192.0.2.77, 127.0.0.1]\n", ""},
        {"admin-bind-address: \"\"\n", ""},
        {"admin-bind-address: localhost:9443\n", ""},
        {"admin-bind-address: nobody.example:9443\n", ""},
        {"admin-bind-address: 0.0.0.0:9443\n", ""},
        {"admin-bind-address: 192.0.2.77:9443\n",
         "m.yaml:7:1: admin-bind-address: this machine does not have the address 192.0.2.77: give one of its own, "
         "which ip -brief address lists\n"},
    };
    char text[512], lines[128];
    unsigned port;
    int fd;

    for (size_t i = 0; i < ROWS(rows); i++) {
        said(rows[i].lines, text);
        is_str(text, rows[i].want, "%s", rows[i].lines);
    }
    fd = taken(&port);
    (void)snprintf(lines, sizeof(lines), "admin-bind-address: 127.0.0.1:%u\n", port);
    said(lines, text);
    is_str(text, "", "what another process has may be what our own has before its restart");
    (void)close(fd);
}

#define LOW_PORT                                                                                                       \
    "Permission denied: a port below 1024 needs AmbientCapabilities=CAP_NET_BIND_SERVICE (with "                       \
    "CapabilityBoundingSet=) and PrivateUsers=no in a drop-in of the unit, or mvproxy.socket; or choose another\n"

/* Of the unit nothing is known here. */
static void low(void)
{
    char text[512];

    denied = true;
    said("bind-address: [127.0.0.1, \"127.0.0.1:443\"]\n", text);
    is_str(text, "warning: m.yaml:7:27: bind-address: 127.0.0.1:443: " LOW_PORT, "of clients");
    said("admin-bind-address: 127.0.0.1:81\n", text);
    is_str(text, "warning: m.yaml:7:1: admin-bind-address: 127.0.0.1:81: " LOW_PORT, "of the administrator");
    denied = false;
}

int main(void)
{
    folder_enter();
    one();
    configured();
    low();
    return tap_end();
}
