/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/in_force.h"

#include "admin/admin.h"
#include "daemon/app_state.h"
#include "proxy/proxy_config.h"

void in_force_keep_local(const struct app *a, struct wire_surroundings *s)
{
    if (!origin_same(s->local, a->around.local))
        return;
    origin_unref(s->local);
    s->local = origin_ref(a->around.local);
}

bool in_force_put(struct app *a, const struct config *c, const struct trust *t, struct wire_surroundings *s,
                  struct buf *errors)
{
    struct proxy_opts proxy;
    struct proxy_config *config;
    struct cluster_opts cluster;
    struct front_opts front;
    bool renetworked = s->networks != a->around.networks && !wire_networks_same(a->around.networks, s->networks);

    wire_proxy(c, t, s->local, &proxy);
    wire_cluster(c, t, s, a->hostname, &cluster);
    cluster.peer_allowed_arg = a->around.networks;
    cluster.peer_rule_changed = renetworked;
    cluster.changes = a->changes;
    config = proxy_config_new(&proxy);
    if (config == NULL || !cluster_update(a->cluster, &cluster)) {
        proxy_config_unref(config);
        buf_append_str(errors, "out of memory, or apiserver-user cannot be put into headers\n");
        return false;
    }
    proxy_update(a->proxy, config);
    if (s->networks != a->around.networks) {
        wire_networks_replace(a->around.networks, s->networks);
        s->networks = a->around.networks;
    }
    wire_front(c, t, &front);
    front.arg = a->proxy;
    front_update(a->front, &front);
    if (a->admin != NULL)
        admin_update(a->admin, t->admin);
    return true;
}

void in_force_trust(struct app *a, const struct trust *t)
{
    struct trust old = a->trust;

    a->trust = *t;
    trust_say_missing(&a->trust, &old);
    trust_free(&old);
}
