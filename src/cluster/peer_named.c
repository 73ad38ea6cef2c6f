/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peer_named.h"

#include <stdio.h>
#include <string.h>

enum { LISTED = 5, LIST_BYTES = 400 };

static bool has_name(const struct peer *peer, const char *name)
{
    return peer->hostname[0] != '\0' && strcmp(peer->hostname, name) == 0;
}

/* How much speaks for it among those of its host name. */
static int weight(const struct peer *peer, bool drained, const struct peers_handler *h, void *arg)
{
    if (drained && peer->drained)
        return 3;
    if (peer->life != PEER_LIVE || peer->origin == NULL)
        return 0;
    return h->answers(arg, peer) ? 2 : 1;
}

static void refuse(const struct peers *p, const char *name, struct err *err)
{
    char list[LIST_BYTES] = "";
    const struct peer *peer;
    size_t i = 0, n = 0, used = 0;

    while ((peer = peers_next(p, &i)) != NULL)
        if (has_name(peer, name) && n++ < LISTED && used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%.63s (%s, %.48s)", n == 1 ? "" : ", ",
                                     peer->id, peer_life_name(peer->life),
                                     peer->origin == NULL ? "no address" : origin_address(peer->origin));
    (void)err_set(err, "%zu servers are named \"%.63s\"; give the ID of one: %s%s", n, name, list,
                  n > LISTED ? ", ..." : "");
}

struct peer *peer_named(const struct peers *p, const char *name, bool drained, const struct peers_handler *h, void *arg,
                        struct err *err)
{
    struct peer *peer = peers_find(p, slice_str(name)), *best = NULL;
    size_t i = 0, named = 0, alike = 0;
    int most = -1;

    if (peer != NULL)
        return peer;
    while ((peer = peers_next(p, &i)) != NULL) {
        int w = has_name(peer, name) ? weight(peer, drained, h, arg) : -1;

        named += w >= 0;
        alike += w >= 0 && w == most;
        if (w > most) {
            best = peer;
            most = w;
            alike = 1;
        }
    }
    if (named <= 1 || (most > 0 && alike == 1))
        return best;
    refuse(p, name, err);
    return NULL;
}

void peer_named_nearest(const struct peers *p, struct nearest *n)
{
    const struct peer *peer;
    size_t i = 0;

    while ((peer = peers_next(p, &i)) != NULL) {
        nearest_try(n, peer->hostname);
        nearest_try(n, peer->id);
    }
}
