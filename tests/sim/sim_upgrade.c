/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody upgrades a connection where there are none. */
#include <stdlib.h>

#include "proxy/tunnel.h"
#include "proxy/upgrade.h"

void upgrade_on_upgraded(void *arg, const struct http_head *head, struct stream *server)
{
    (void)arg;
    (void)head;
    (void)server;
    abort();
}

size_t upgrade_end_oldest(struct proxy *p, size_t n)
{
    (void)p;
    (void)n;
    return 0;
}

void tunnel_cancel(struct tunnel *t)
{
    (void)t;
    abort();
}
