/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches for a short time which credentials the local kube-apiserver allowed to read `/apis` (design: "Who may read
 * it"). Keys are digests (authn_credential_key()), so no part of a credential is kept.
 */
#ifndef MVPROXY_PROXY_AUTHZ_CACHE_H
#define MVPROXY_PROXY_AUTHZ_CACHE_H

#include "proxy/authn.h"

struct authz_cache;

/* At most `capacity` verdicts; the oldest goes first. NULL when out of memory. */
MEM_CHECK struct authz_cache *authz_cache_new(size_t capacity);
void authz_cache_free(struct authz_cache *c);
/* Whether this credential was allowed, and that has not expired. Refusals are not cached: they are requested anew. */
bool authz_cache_allowed(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES], uint64_t now_ms);
/*
 * Keeps a permission for ttl_ms; 0: keeps nothing. When out of memory it is not kept, and the next request asks again.
 * `audit_id` is that of the request that asked, kept if it is no longer than AUTHZ_AUDIT_ID_BYTES.
 */
enum { AUTHZ_AUDIT_ID_BYTES = 64 };
void authz_cache_allow(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES], uint64_t now_ms,
                       uint64_t ttl_ms, struct slice audit_id);
/* The Audit-ID kept with the permission, valid until the next call. SLICE_NONE if there is none. */
struct slice authz_cache_audit_id(const struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES]);
void authz_cache_deny(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES]);
void authz_cache_clear(struct authz_cache *c);
size_t authz_cache_count(const struct authz_cache *c);

#endif
