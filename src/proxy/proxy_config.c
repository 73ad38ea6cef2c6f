/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/proxy_config.h"

#include "back/back.h"
#include "base/contract.h"

enum { PROXY_CONFIG_CEILING = 1 << 20 };

static bool copy_list(struct arena *a, const char *const *list, const struct slice **out, size_t *n)
{
    struct slice *v;
    size_t count = 0;

    while (list != NULL && list[count] != NULL)
        count++;
    v = arena_alloc(a, (count + 1) * sizeof(*v));
    if (v == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        v[i] = arena_copy(a, slice_str(list[i]));
        if (v[i].p == NULL)
            return false;
    }
    *out = v;
    *n = count;
    return true;
}

static bool fill_config(struct proxy_config *c, const struct proxy_opts *o)
{
    struct user_headers *h = &c->authn.headers;

    c->authn.can_assert = o->can_assert;
    c->request_timeout_ms = o->request_timeout_ms;
    c->discovery_authz_ttl_ms = o->discovery_authz_ttl_ms;
    c->max_in_flight_per_peer = o->max_in_flight_per_peer;
    c->max_outdated_bytes = o->max_outdated_bytes;
    c->goaway_chance = o->goaway_chance;
    c->access_log = o->access_log;
    c->newest = o->newest;
    c->legacy_discovery = o->legacy_discovery;
    c->version = o->version;
    return copy_list(c->arena, o->username_headers, &h->username, &h->n_username) &&
           copy_list(c->arena, o->uid_headers, &h->uid, &h->n_uid) &&
           copy_list(c->arena, o->group_headers, &h->group, &h->n_group) &&
           copy_list(c->arena, o->extra_header_prefixes, &h->extra_prefix, &h->n_extra_prefix) &&
           copy_list(c->arena, o->allowed_names, &c->authn.allowed_names, &c->authn.n_allowed_names) &&
           cidr_set_assign(&c->trusted_proxies, o->trusted_proxies);
}

struct proxy_config *proxy_config_new(const struct proxy_opts *o)
{
    struct proxy_config *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->refs = 1;
    c->local = origin_ref(o->local);
    c->arena = arena_new(PROXY_CONFIG_CEILING);
    if (c->arena == NULL || !fill_config(c, o)) {
        proxy_config_unref(c);
        return NULL;
    }
    return c;
}

void proxy_config_unref(struct proxy_config *c)
{
    must_hold(c == NULL || c->refs > 0);
    if (c == NULL || --c->refs > 0)
        return;
    origin_unref(c->local);
    cidr_set_free(&c->trusted_proxies);
    if (c->arena != NULL)
        arena_free(c->arena);
    mem_free(c);
}
