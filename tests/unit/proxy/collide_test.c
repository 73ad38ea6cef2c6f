/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worst that a hash can do: every key has the same (the linker puts ours in its place). Verdicts on who may read
 * the merged discovery are still found by the whole key alone, and nobody is served from another's.
 */
#include "base/hash.h"
#include "base/strmap.h"
#include "proxy/authz_cache.h"
#include "unit/proxy/kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define NOT_MODIFIED "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n"
#define FORBIDDEN "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope"

static unsigned calls;

uint64_t __wrap_hash_seeded(struct slice data);
uint64_t __wrap_hash_seeded(struct slice data)
{
    (void)data;
    calls++;
    return 7;
}

static void maps(void)
{
    struct strmap *m = strmap_new();
    char text[] = "keykeykeykey";
    bool fine = m != NULL;

    /* Each the beginning of the next. */
    for (size_t n = 0; n < sizeof(text); n++)
        fine = fine && strmap_put(m, slice_of(text, n), &text[n], NULL);
    for (size_t n = 0; n < sizeof(text); n++)
        fine = fine && strmap_get(m, slice_of(text, n)) == &text[n];
    ok(fine && calls > 0, "beginnings of one another are keys of their own");
    ok(strmap_remove(m, SLICE_LIT("key")) == &text[3], "one is taken out");
    is_null(strmap_get(m, SLICE_LIT("key")), "it is gone");
    ok(strmap_get(m, SLICE_LIT("keyk")) == &text[4], "its neighbour is not");
    is_null(strmap_get(m, SLICE_LIT("keX")), "what was never put is not there");
    strmap_free(m);
}

enum { VERDICTS = 200, ROOM = 100 };

static void make_key(unsigned char key[AUTHN_KEY_BYTES], unsigned n)
{
    /* They differ in one bit. */
    memset(key, 0, AUTHN_KEY_BYTES);
    key[n / 8] = (unsigned char)(1 << n % 8);
}

static void verdicts(void)
{
    struct authz_cache *c = authz_cache_new(ROOM);
    unsigned char key[AUTHN_KEY_BYTES];
    bool fine = c != NULL;

    for (unsigned n = 0; n < VERDICTS; n++) {
        make_key(key, n);
        fine = fine && !authz_cache_allowed(c, key, 0);
        authz_cache_allow(c, key, 0, 10, SLICE_NONE);
    }
    ok(fine, "nobody is allowed before he was");
    for (unsigned n = 0; n < VERDICTS; n++) {
        make_key(key, n);
        fine = fine && authz_cache_allowed(c, key, 0) == (n >= VERDICTS - ROOM);
    }
    ok(fine, "the newest are");
    for (unsigned n = VERDICTS - ROOM; n < VERDICTS; n += 2) {
        make_key(key, n);
        authz_cache_deny(c, key);
    }
    for (unsigned n = 0; n < VERDICTS; n++) {
        make_key(key, n);
        fine = fine && authz_cache_allowed(c, key, 0) == (n >= VERDICTS - ROOM && n % 2 == 1);
    }
    ok(fine, "a refusal takes back one verdict and no other");
    authz_cache_free(c);
}

/* Credentials of which each could be taken for another: beginnings, other fields, other impersonation. */
static const char *const readers[] = {
    "Authorization: Bearer token\r\n",
    "Authorization: Bearer toke\r\n",
    "Authorization: Bearer token1\r\n",
    "Authorization: bearer token\r\n",
    "Sec-WebSocket-Protocol: Bearer token\r\n",
    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.dG9rZW4\r\n",
    "Authorization: base64url.bearer.authorization.k8s.io.dG9rZW4\r\n",
    "Authorization: Bearer token\r\nImpersonate-User: a\r\n",
    "Authorization: Bearer token\r\nImpersonate-Group: a\r\n",
    "Authorization: Bearer token\r\nImpersonate-User: a\r\nImpersonate-Group: b\r\n",
    "Authorization: Bearer token\r\nImpersonate-User: aImpersonate-Group: b\r\n",
    "Authorization: Bearer tokenImpersonate-User: a\r\n",
    "",
};

static void ask(struct played_end *c, const char *credential)
{
    say(c, "GET /apis HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n");
    say(c, credential);
    say(c, "\r\n");
}

/* Not allowed: asked for, and then the client's own request goes on and is refused. */
static bool refused(struct played_end *c, struct played_end *s, const char *credential)
{
    bool asked, sent_on;

    buf_reset(&s->got);
    buf_reset(&c->got);
    ask(c, credential);
    asked = has(s, "If-None-Match: \"L\"\r\n") && has(s, "\r\n\r\n");
    say(s, FORBIDDEN);
    sent_on = asked && has(s, "Accept: " V2 "\r\n");
    say(s, FORBIDDEN);
    return sent_on && has(c, "HTTP/1.1 403 ") && !got(c, "jobs");
}

/* One of them may read; then all ask, over one connection. */
static void nobody_else(size_t allowed)
{
    struct proxy_kit w;
    struct played_end *c, *s;
    bool fine = true;

    proxy_kit_open(&w, 1);
    c = client(&w);
    ask(c, readers[allowed]);
    s = conn(&w.local, 0);
    (void)has(s, "\r\n\r\n");
    say(s, NOT_MODIFIED);
    ok(has(c, proxy_kit_document()), "reader %zu: allowed", allowed);
    for (size_t i = 0; fine && i < ROWS(readers); i++)
        fine = i == allowed || refused(c, s, readers[i]);
    ok(fine, "reader %zu: all others are asked for, and refused", allowed);
    buf_reset(&s->got);
    buf_reset(&c->got);
    ask(c, readers[allowed]);
    ok(has(c, proxy_kit_document()) && buf_len(&s->got) == 0, "reader %zu: still known", allowed);
    proxy_kit_close(&w);
}

int main(void)
{
    maps();
    verdicts();
    for (size_t i = 0; i < ROWS(readers); i++)
        nobody_else(i);
    return tap_end();
}
