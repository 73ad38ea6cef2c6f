/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/answerer.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool answerer_of(int fd, struct answerer *out, struct err *err)
{
    struct ucred c;
    socklen_t n = sizeof(c), groups = sizeof(out->groups);

    memset(out, 0, sizeof(*out));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0 || n != sizeof(c))
        return err_set(err, "who answers there cannot be told: %s", strerror(errno));
    out->pid = c.pid;
    out->uid = c.uid;
    out->gid = c.gid;
    /* Without them (too many) it may be told that something cannot be read which the process can read. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, out->groups, &groups) == 0)
        out->n_groups = groups / sizeof(out->groups[0]);
    return true;
}

bool answerer_become(const struct answerer *a, struct err *err)
{
    if (geteuid() != 0 || a->uid == 0)
        return true;
    if (setgroups(a->n_groups, a->groups) != 0 || setegid(a->gid) != 0 || seteuid(a->uid) != 0)
        return err_set(err, "cannot take the rights of user %u, who answers there: %s", (unsigned)a->uid,
                       strerror(errno));
    return true;
}
