#include "proxy/proxy_config.h"

#include "back/back.h"
#include "net/cidr.h"

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

static bool copy_networks(struct arena *a, const char *const *list, const struct cidr **out, size_t *n)
{
    struct cidr *v;
    size_t count = 0;

    *n = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    v = arena_alloc(a, (count + 1) * sizeof(*v));
    *out = v;
    for (size_t i = 0; v != NULL && i < count; i++)
        if (cidr_parse(slice_str(list[i]), &v[*n]))
            ++*n;
    return v != NULL;
}

static bool fill_config(struct proxy_config *c, const struct proxy_opts *o)
{
    struct user_headers *h = &c->authn.headers;

    c->authn.can_assert = o->can_assert;
    c->request_timeout_ms = o->request_timeout_ms;
    c->discovery_authz_ttl_ms = o->discovery_authz_ttl_ms;
    c->max_in_flight_per_peer = o->max_in_flight_per_peer;
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
           copy_networks(c->arena, o->trusted_proxies, &c->trusted_proxies, &c->n_trusted_proxies);
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
    if (c == NULL || --c->refs > 0)
        return;
    origin_unref(c->local);
    if (c->arena != NULL)
        arena_free(c->arena);
    mem_free(c);
}

bool proxy_config_trusts(const struct proxy_config *c, const char *ip)
{
    struct cidr address;
    bool trusted = false;

    if (c->n_trusted_proxies == 0 || !cidr_parse(slice_str(ip), &address))
        return false;
    for (size_t i = 0; i < c->n_trusted_proxies && !trusted; i++)
        trusted = cidr_covers(&c->trusted_proxies[i], &address);
    return trusted;
}
