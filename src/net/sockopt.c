#include "net/sockopt.h"

#include "base/limits.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum {
    KEEPALIVE_IDLE_S = 30,
    KEEPALIVE_INTERVAL_S = 15,
    KEEPALIVE_COUNT = 4,
};

static void set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void sockopt_tune(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
    /* Also runs while the other side's window is shut, acknowledged probes or not (tcp(7)): a reader may pause long. */
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TIMEOUT_TCP_USER_MS);
}
