/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/server_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int by_host(const void *a, const void *b, void *arg)
{
    const struct served *s = arg;
    const struct served_peer *x = served_peer_at(s, *(const size_t *)a - 1),
                             *y = served_peer_at(s, *(const size_t *)b - 1);
    int c = strcmp(x->host, y->host);

    return c != 0 ? c : strcmp(x->id, y->id);
}

size_t *server_order(const struct served *s)
{
    size_t n = served_n_peers(s), *order = mem_array(n + 1, sizeof(*order));

    if (order == NULL)
        return NULL;
    for (size_t i = 0; i <= n; i++)
        order[i] = i;
    qsort_r(order + 1, n, sizeof(*order), by_host, (void *)(uintptr_t)s);
    return order;
}
