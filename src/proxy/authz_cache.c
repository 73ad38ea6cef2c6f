/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/authz_cache.h"

#include "base/list.h"
#include "base/strmap.h"

struct verdict {
    struct list_node by_age; /* oldest first: the time to live is one for all, or nearly so after a reload */
    uint64_t expires_ms;
    char key[AUTHN_KEY_BYTES];
    char audit_id[AUTHZ_AUDIT_ID_BYTES];
    size_t audit_id_length;
};

struct authz_cache {
    struct strmap *map;
    struct list ages;
    size_t capacity;
};

static struct slice key_slice(const unsigned char key[AUTHN_KEY_BYTES])
{
    return slice_of((const char *)key, AUTHN_KEY_BYTES);
}

static void forget(struct authz_cache *c, struct verdict *v)
{
    const struct verdict *removed = strmap_remove(c->map, slice_of(v->key, sizeof(v->key)));

    must_hold(removed == v); /* else one that is gone would be asked about somebody */
    list_remove(&c->ages, &v->by_age);
    mem_free(v);
}

static void forget_oldest(struct authz_cache *c)
{
    struct list_node *oldest = list_first(&c->ages);

    if (oldest != NULL)
        forget(c, list_entry(oldest, struct verdict, by_age));
}

struct authz_cache *authz_cache_new(size_t capacity)
{
    struct authz_cache *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->map = strmap_new();
    c->capacity = capacity;
    list_init(&c->ages);
    if (c->map == NULL) {
        mem_free(c);
        return NULL;
    }
    return c;
}

void authz_cache_clear(struct authz_cache *c)
{
    while (c->ages.count > 0)
        forget_oldest(c);
}

void authz_cache_free(struct authz_cache *c)
{
    if (c == NULL)
        return;
    authz_cache_clear(c);
    strmap_free(c->map);
    mem_free(c);
}

bool authz_cache_allowed(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES], uint64_t now_ms)
{
    struct verdict *v = strmap_get(c->map, key_slice(key));

    if (v == NULL)
        return false;
    if (now_ms < v->expires_ms)
        return true;
    forget(c, v);
    return false;
}

struct slice authz_cache_audit_id(const struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES])
{
    const struct verdict *v = strmap_get(c->map, key_slice(key));

    return v == NULL ? SLICE_NONE : slice_of(v->audit_id, v->audit_id_length);
}

void authz_cache_deny(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES])
{
    struct verdict *v = strmap_get(c->map, key_slice(key));

    if (v != NULL)
        forget(c, v);
}

void authz_cache_allow(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES], uint64_t now_ms,
                       uint64_t ttl_ms, struct slice audit_id)
{
    struct verdict *v;

    authz_cache_deny(c, key);
    if (ttl_ms == 0 || c->capacity == 0)
        return;
    if (c->ages.count >= c->capacity)
        forget_oldest(c);
    v = mem_zalloc(sizeof(*v));
    if (v == NULL)
        return;
    memcpy(v->key, key, AUTHN_KEY_BYTES);
    v->expires_ms = now_ms + ttl_ms;
    v->audit_id_length = audit_id.n <= sizeof(v->audit_id) ? audit_id.n : 0;
    if (v->audit_id_length > 0)
        memcpy(v->audit_id, audit_id.p, v->audit_id_length);
    if (!strmap_put(c->map, key_slice(key), v, NULL)) {
        mem_free(v);
        return;
    }
    list_push_back(&c->ages, &v->by_age);
}

size_t authz_cache_count(const struct authz_cache *c)
{
    return c->ages.count;
}
