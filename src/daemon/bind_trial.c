/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/bind_trial.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/addresses.h"

int bind_trial(const struct listen_address *a, bool free)
{
    struct sockaddr_storage addr;
    socklen_t n = addresses_sockaddr(a, &addr);
    int fd = n == 0 ? -1 : socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, freely = free, error = 0;

    if (fd < 0)
        return n == 0 ? 0 : errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    (void)setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &freely, sizeof(freely));
    if (bind(fd, (struct sockaddr *)(void *)&addr, n) != 0)
        error = errno;
    close(fd);
    return error;
}

/* Port 0: a port that another process has, our own perhaps before its restart, is nobody's fault here. */
static int trial_of_host(const struct listen_address *a, bool free)
{
    struct listen_address any = *a;

    any.port = 0;
    return bind_trial(&any, free);
}

bool bind_trial_is_elsewhere(const struct listen_address *a)
{
    return trial_of_host(a, false) == EADDRNOTAVAIL;
}

static void judge(struct remarks *r, const char *entry, const struct listen_address *a, bool free)
{
    char text[DERIVE_HOST_BYTES];
    int error = trial_of_host(a, free);

    if (error == EADDRNOTAVAIL)
        remarks_wrong(r, entry,
                      "this machine does not have the address %s: give one of its own, which ip -brief address lists",
                      a->host);
    else if (error == EAFNOSUPPORT || error == EINVAL)
        remarks_wrong(r, entry, "%s: %s: give another address of this machine", a->host, strerror(error));
    else if (bind_trial(a, free) == EACCES) {
        derive_text(a->host, a->port, text);
        remarks_warn(r, entry, "%s: %s: " BIND_TRIAL_LOW_PORT, text, strerror(EACCES));
    }
}

void bind_trial_configured(struct remarks *r)
{
    char entry[REMARKS_NAME_BYTES];
    struct addresses ours;
    struct derive_address at;
    struct err err = {.text = ""};

    if (addresses_configured(r->c, &ours, &err) && r->c->bind_address[0] != NULL)
        for (size_t i = 0; i < ours.n; i++)
            judge(r, remarks_entry(entry, "bind-address", i), &ours.at[i], true);
    err_clear(&err);
    if (!derive_admin(r->c->admin_bind_address, &at, &err))
        return; /* none, or that has been said */
    addresses_of(&at, &ours);
    if (ours.n > 0)
        judge(r, "admin-bind-address", &ours.at[0], false);
}
