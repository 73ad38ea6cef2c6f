/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts of the local kube-apiserver on who may read `/apis`, per credential, for a short time (design: "Who may read
 * it"). Keys are digests: a verdict is never found by part of a credential.
 */
#ifndef MVPROXY_PROXY_AUTHZ_CACHE_H
#define MVPROXY_PROXY_AUTHZ_CACHE_H

#include "proxy/authn.h"

struct authz_cache;

/* At most `capacity` verdicts; the oldest goes first. NULL when out of memory. */
MEM_CHECK struct authz_cache *authz_cache_new(size_t capacity);
void authz_cache_free(struct authz_cache *c);
/* Is there an unexpired "allowed" for this credential? Only permissions are kept: a refusal is asked for anew each
 * time. */
bool authz_cache_allowed(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES], uint64_t now_ms);
/*
 * ttl_ms 0 keeps nothing. Out of memory: forgets, and the next request asks again. `audit_id`: of the request that
 * asked, kept if it is no longer than AUTHZ_AUDIT_ID_BYTES.
 */
enum { AUTHZ_AUDIT_ID_BYTES = 64 };
void authz_cache_allow(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES], uint64_t now_ms,
                       uint64_t ttl_ms, struct slice audit_id);
/* With which Audit-ID it was asked for; lives until the next call. NONE if there is no verdict. */
struct slice authz_cache_audit_id(const struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES]);
void authz_cache_deny(struct authz_cache *c, const unsigned char key[AUTHN_KEY_BYTES]);
void authz_cache_clear(struct authz_cache *c);
size_t authz_cache_count(const struct authz_cache *c);

#endif
