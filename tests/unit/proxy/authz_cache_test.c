/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts are found by the whole key, for their time, and are bounded.
 */
#include "proxy/authz_cache.h"

#include "lib/tap.h"

static void make_key(unsigned char key[AUTHN_KEY_BYTES], unsigned n)
{
    memset(key, 0, AUTHN_KEY_BYTES);
    key[0] = (unsigned char)n;
    key[AUTHN_KEY_BYTES - 1] = (unsigned char)(n >> 8);
}

int main(void)
{
    struct authz_cache *c = authz_cache_new(3);
    unsigned char key[AUTHN_KEY_BYTES], other[AUTHN_KEY_BYTES];

    make_key(key, 1);
    make_key(other, 1 | 1 << 8);
    ok(!authz_cache_allowed(c, key, 0), "nothing is known at first");
    authz_cache_allow(c, key, 100, 50, SLICE_LIT("asked-by-this"));
    ok(authz_cache_allowed(c, key, 149), "allowed until the end of its time");
    is_slice(authz_cache_audit_id(c, key), "asked-by-this", "and the request that asked");
    ok(authz_cache_audit_id(c, other).n == 0, "which says nothing of another");
    authz_cache_allow(c, key, 100, 50, SLICE_LIT("x"));
    is_slice(authz_cache_audit_id(c, key), "x", "however short it is");
    ok(!authz_cache_allowed(c, other, 149), "a key that differs in its last byte is another");
    ok(!authz_cache_allowed(c, key, 150), "and not a moment longer");
    is_u64(authz_cache_count(c), 0, "what has expired is forgotten");
    authz_cache_allow(c, key, 100, 0, SLICE_NONE);
    ok(!authz_cache_allowed(c, key, 100), "a time of 0 keeps nothing");
    authz_cache_allow(c, key, 100, 50, SLICE_NONE);
    authz_cache_deny(c, key);
    ok(!authz_cache_allowed(c, key, 100), "a refusal revokes");
    for (unsigned i = 1; i <= 5; i++) {
        make_key(key, i);
        authz_cache_allow(c, key, 100, 50, SLICE_NONE);
    }
    is_u64(authz_cache_count(c), 3, "never more than its capacity");
    make_key(key, 2);
    ok(!authz_cache_allowed(c, key, 100), "the oldest went first");
    make_key(key, 5);
    ok(authz_cache_allowed(c, key, 100), "the newest is there");
    for (unsigned nth = 1; nth <= 2; nth++) {
        mem_fail_nth(nth);
        ok(authz_cache_new(3) == NULL, "none where allocation %u fails", nth);
        mem_fail_nth(0);
    }
    authz_cache_free(NULL);
    authz_cache_clear(c);
    is_u64(authz_cache_count(c), 0, "clear forgets all");
    authz_cache_free(c);
    return tap_end();
}
