/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is asking: every combination of certificate, identity headers and credentials, and what comes of it. The expected
 * results are those of kube-apiserver's authenticators in their order, seen from a proxy.
 */
#include "proxy/authn.h"

#include <stdio.h>
#include <string.h>

#include "lib/tap.h"
#include "net/tls_peer.h"

enum { NOW = 1000, LATER = 2000 };

/* What the connection's certificate proves. */
enum cert {
    NONE,        /* shown none */
    UNKNOWN,     /* verified by neither CA */
    CLIENT,      /* by client-ca-file */
    PROXY,       /* by requestheader-client-ca-file, CN allowed */
    PROXY_OTHER, /* the same, CN not allowed */
    BOTH,        /* by both, CN allowed (one CA for everything) */
    BOTH_OTHER,  /* by both, CN not allowed */
    EXPIRED,     /* by client-ca-file at the handshake, expired since */
    EXPIRED_PROXY,
    NAMELESS, /* by client-ca-file, without a CN */
    CROWDED,  /* by client-ca-file, more O than we hold */
};

static struct tls_peer peer_of(enum cert c)
{
    struct tls_peer p = {.present = c != NONE, .common_name = SLICE_LIT("jane"), .not_after = LATER};

    p.client_ca = c == CLIENT || c == BOTH || c == BOTH_OTHER || c == EXPIRED || c == NAMELESS || c == CROWDED;
    p.requestheader_ca = c == PROXY || c == PROXY_OTHER || c == BOTH || c == BOTH_OTHER || c == EXPIRED_PROXY;
    if (c == PROXY || c == BOTH || c == EXPIRED_PROXY)
        p.common_name = SLICE_LIT("front-proxy-client");
    if (c == EXPIRED || c == EXPIRED_PROXY)
        p.not_after = NOW - 1;
    if (c == NAMELESS)
        p.common_name = slice_of("", 0);
    p.too_many_orgs = c == CROWDED;
    p.orgs[0] = SLICE_LIT("dev");
    p.orgs[1] = SLICE_LIT("ops");
    p.n_orgs = 2;
    p.uid = SLICE_LIT("u-1");
    (void)snprintf(p.sha256, sizeof(p.sha256), "%s", "ab12");
    return p;
}

#define USER "X-Remote-User: bob\n"
#define TOKEN "Authorization: Bearer t\n"
#define MARK "x-kubernetes-peer-proxied: true\n"
#define WEBSOCKET "Connection: keep-alive, Upgrade\nUpgrade: WebSocket\n"
#define WS_TOKEN WEBSOCKET "Sec-WebSocket-Protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.dA\n"

static const struct row {
    const char *name;
    enum cert cert;
    const char *headers;
    enum authn_kind kind;
    const char *user; /* ASSERT */
    bool rerouted;
} rows[] = {
    {"nobody", NONE, "", AUTHN_PASS, NULL, false},
    {"a token", NONE, TOKEN, AUTHN_PASS, NULL, false},
    {"a WebSocket token", NONE, WS_TOKEN, AUTHN_PASS, NULL, false},
    {"identity headers without certificate", NONE, USER, AUTHN_PASS, NULL, false},
    {"a loop mark without certificate", NONE, MARK, AUTHN_PASS, NULL, false},
    {"an unknown certificate", UNKNOWN, "", AUTHN_REFUSED, NULL, false},
    {"an unknown certificate and a token", UNKNOWN, TOKEN, AUTHN_PASS, NULL, false},
    {"an unknown certificate and a WebSocket token", UNKNOWN, WS_TOKEN, AUTHN_PASS, NULL, false},
    {"an unknown certificate and what is no token", UNKNOWN, "Authorization: Basic dDp0\n", AUTHN_REFUSED, NULL, false},
    {"an unknown certificate and an empty token", UNKNOWN, "Authorization: Bearer  t\n", AUTHN_REFUSED, NULL, false},
    {"a WebSocket without token", UNKNOWN, WEBSOCKET "Sec-WebSocket-Protocol: v4.channel.k8s.io\n", AUTHN_REFUSED, NULL,
     false},
    {"an unknown certificate and identity headers", UNKNOWN, USER, AUTHN_REFUSED, NULL, false},
    {"an unknown certificate and a loop mark", UNKNOWN, MARK, AUTHN_REFUSED, NULL, false},
    {"an unknown certificate, mark and token", UNKNOWN, MARK TOKEN, AUTHN_PASS, NULL, false},
    {"a client certificate", CLIENT, "", AUTHN_ASSERT, "jane", false},
    {"a client certificate and a token", CLIENT, TOKEN, AUTHN_ASSERT, "jane", false},
    {"a client certificate and identity headers", CLIENT, USER, AUTHN_ASSERT, "jane", false},
    {"a client certificate and a loop mark", CLIENT, MARK, AUTHN_ASSERT, "jane", false},
    {"an expired client certificate", EXPIRED, "", AUTHN_REFUSED, NULL, false},
    {"an expired client certificate and a token", EXPIRED, TOKEN, AUTHN_PASS, NULL, false},
    {"a client certificate without CN", NAMELESS, "", AUTHN_REFUSED, NULL, false},
    {"a client certificate with too many O", CROWDED, "", AUTHN_REFUSED, NULL, false},
    {"a client certificate with too many O and a token", CROWDED, TOKEN, AUTHN_PASS, NULL, false},
    {"a front proxy's identity", PROXY, USER, AUTHN_ASSERT, "bob", false},
    {"a front proxy's identity beside a token", PROXY, USER TOKEN, AUTHN_ASSERT, "bob", false},
    {"a peer's identity", PROXY, USER MARK, AUTHN_ASSERT, "bob", true},
    {"a peer's token user", PROXY, MARK TOKEN, AUTHN_PASS, NULL, true},
    {"a peer's anonymous user", PROXY, MARK, AUTHN_PASS, NULL, true},
    {"a front proxy without identity", PROXY, "", AUTHN_REFUSED, NULL, false},
    {"a front proxy with an empty user", PROXY, "X-Remote-User:\n", AUTHN_REFUSED, NULL, false},
    {"a front proxy with a token only", PROXY, TOKEN, AUTHN_PASS, NULL, false},
    {"an expired front proxy", EXPIRED_PROXY, USER, AUTHN_REFUSED, NULL, false},
    {"an expired front proxy and a token", EXPIRED_PROXY, USER TOKEN, AUTHN_PASS, NULL, false},
    {"a front proxy of another name", PROXY_OTHER, USER, AUTHN_REFUSED, NULL, false},
    {"a front proxy of another name and a token", PROXY_OTHER, USER TOKEN, AUTHN_PASS, NULL, false},
    {"a front proxy of another name and a mark", PROXY_OTHER, USER MARK, AUTHN_REFUSED, NULL, false},
    {"one CA: a front proxy's identity", BOTH, USER, AUTHN_ASSERT, "bob", false},
    {"one CA: a front proxy without identity is its CN", BOTH, "", AUTHN_ASSERT, "front-proxy-client", false},
    {"one CA: the CN before a token", BOTH, TOKEN, AUTHN_ASSERT, "front-proxy-client", false},
    {"one CA: a peer's token user is not the CN", BOTH, MARK TOKEN, AUTHN_PASS, NULL, true},
    {"one CA: a peer's anonymous user is not the CN", BOTH, MARK, AUTHN_PASS, NULL, true},
    {"one CA: an ordinary user", BOTH_OTHER, USER, AUTHN_ASSERT, "jane", false},
    {"one CA: an ordinary user with a mark", BOTH_OTHER, USER MARK, AUTHN_ASSERT, "jane", false},
    {"the KEP's mark", PROXY, USER "X-Kubernetes-APIServer-Rerouted: true\n", AUTHN_ASSERT, "bob", true},
    {"a mark that does not say true", PROXY, USER "x-kubernetes-peer-proxied: yes\n", AUTHN_ASSERT, "bob", false},
};

/* "Name: value\n" lines into a head. */
static void head_of(struct arena *a, const char *lines, struct http_head *h)
{
    struct slice rest = slice_str(lines), line;

    if (!http_head_init(h, a, 8))
        tap_bail("out of memory");
    h->minor = 1;
    while (slice_split(&rest, '\n', &line)) {
        struct slice value = line, name;

        if (line.n == 0)
            continue;
        (void)slice_split(&value, ':', &name);
        if (!http_head_add(h, a, name, slice_trim(value)))
            tap_bail("out of memory");
    }
}

static struct authn_opts options(bool can_assert)
{
    static const struct slice allowed[] = {{"front-proxy-client", sizeof("front-proxy-client") - 1}};

    return (struct authn_opts){*user_headers_default(), allowed, 1, can_assert};
}

static void check_row(const struct row *r)
{
    struct arena *a = arena_new(1 << 20);
    struct authn_opts o = options(true);
    struct tls_peer p = peer_of(r->cert);
    struct http_head h;
    struct authn au;

    head_of(a, r->headers, &h);
    if (authn_decide(&o, &h, &p, NOW, a, &au) != AUTHN_OK)
        tap_bail("out of memory");
    is_int(au.kind, r->kind, "%s", r->name);
    is_int(au.rerouted, r->rerouted, "%s: loop mark", r->name);
    is_int(au.front_proxy, r->cert == PROXY || r->cert == BOTH, "%s: a front proxy", r->name);
    if (r->kind == AUTHN_REFUSED && (r->cert == EXPIRED || r->cert == EXPIRED_PROXY))
        is_str(au.why, "the certificate has expired since the handshake", "%s: why", r->name);
    if (r->user != NULL)
        is_slice(au.user.name, r->user, "%s: name", r->name);
    arena_free(a);
}

/* Who shows nothing that kube-apiserver reads is nobody, whatever else he sends. */
static void test_anonymous(void)
{
    static const struct {
        const char *headers;
        bool anonymous;
    } cases[] = {
        {"", true},
        {TOKEN, false},
        {WS_TOKEN, false},
        {"Authorization:\n", true},
        {"Authorization: x\n", true},
        {"Authorization: Basic eDp5\n", true},
        {"Authorization: Bearer\n", true},
        {"Authorization: Basic eDp5\n" TOKEN, true},
        {"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.dA\n", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct arena *a = arena_new(1 << 20);
        struct authn_opts o = options(true);
        struct tls_peer p = peer_of(NONE);
        struct http_head h;
        struct authn au;

        head_of(a, cases[i].headers, &h);
        if (authn_decide(&o, &h, &p, NOW, a, &au) != AUTHN_OK)
            tap_bail("out of memory");
        is_int(au.kind, AUTHN_PASS, "the server decides, %zu", i);
        is_int(au.anonymous, cases[i].anonymous, "anonymous, %zu", i);
        arena_free(a);
    }
}

static void test_certificate_user(void)
{
    struct arena *a = arena_new(1 << 20);
    struct authn_opts o = options(true);
    struct tls_peer p = peer_of(CLIENT);
    struct http_head h;
    struct authn au;

    head_of(a, "", &h);
    if (authn_decide(&o, &h, &p, NOW, a, &au) != AUTHN_OK)
        tap_bail("out of memory");
    is_u64(au.user.n_groups, 2, "each O is a group");
    is_slice(au.user.groups[1], "ops", "in order");
    is_slice(au.user.uid, "u-1", "the UID attribute is carried");
    is_slice(au.user.extras[0].key, "authentication.kubernetes.io/credential-id", "the credential has an ID");
    is_slice(au.user.extras[0].value, "X509SHA256=ab12", "made from the certificate");
    arena_free(a);
}

static void test_without_own_certificate(void)
{
    struct arena *a = arena_new(1 << 20);
    struct authn_opts o = options(false);
    struct tls_peer p = peer_of(CLIENT);
    struct http_head h;
    struct authn au;

    head_of(a, "", &h);
    if (authn_decide(&o, &h, &p, NOW, a, &au) != AUTHN_OK)
        tap_bail("out of memory");
    is_int(au.kind, AUTHN_REFUSED, "nobody is asserted without a front-proxy certificate of ours");
    p = peer_of(PROXY);
    head_of(a, USER, &h);
    if (authn_decide(&o, &h, &p, NOW, a, &au) != AUTHN_OK)
        tap_bail("out of memory");
    is_int(au.kind, AUTHN_REFUSED, "nor carried on");
    arena_free(a);
}

/* ---- credential keys ---- */

static void key_of(enum cert cert, const char *method, const char *headers, unsigned char key[AUTHN_KEY_BYTES])
{
    struct arena *a = arena_new(1 << 20);
    struct authn_opts o = options(true);
    struct tls_peer p = peer_of(cert);
    struct http_head h;
    struct authn au;

    head_of(a, headers, &h);
    h.method = slice_str(method);
    if (authn_decide(&o, &h, &p, NOW, a, &au) != AUTHN_OK || !authn_credential_key(&au, &h, key))
        tap_bail("no key");
    arena_free(a);
}

static void test_credential_keys(void)
{
    static const struct {
        enum cert cert;
        const char *headers;
    } credentials[] = {
        {NONE, ""},
        {NONE, "Authorization: Bearer a\n"},
        {NONE, "Authorization: Bearer ab\n"},
        {NONE, "Authorization: Bearer a\nAuthorization: b\n"},
        {NONE, "Authorization: bearer a\n"},
        {NONE, "Sec-WebSocket-Protocol: Bearer a\nAuthorization: x\n"},
        {NONE, "Authorization: Bearer a\nImpersonate-User: b\n"},
        {NONE, "Authorization: Bearer a\nImpersonate-Group: b\n"},
        {CLIENT, ""},
        {PROXY, "X-Remote-User: a\n"},
        {PROXY, "X-Remote-User: a\nX-Remote-Group: b\n"},
        {PROXY, "X-Remote-User: a\nX-Remote-Group: b\nX-Remote-Group: c\n"},
        {PROXY, "X-Remote-User: a\nX-Remote-Group: bc\n"},
        {PROXY, "X-Remote-User: ab\nX-Remote-Group: c\n"},
        {PROXY, "X-Remote-User: a\nX-Remote-Extra-b: c\n"},
        {PROXY, "X-Remote-User: a\nX-Remote-Extra-bc: d\n"},
    };
    unsigned char keys[ROWS(credentials)][AUTHN_KEY_BYTES], again[AUTHN_KEY_BYTES];
    size_t same = 0;

    for (size_t i = 0; i < ROWS(credentials); i++)
        key_of(credentials[i].cert, "GET", credentials[i].headers, keys[i]);
    for (size_t i = 0; i < ROWS(credentials); i++)
        for (size_t k = 0; k < i; k++)
            if (memcmp(keys[i], keys[k], AUTHN_KEY_BYTES) == 0) {
                diag("credentials %zu and %zu share a key", k, i);
                same++;
            }
    is_u64(same, 0, "no two credentials share a key");
    key_of(NONE, "GET", "Authorization: Bearer a\nAccept: x\n", again);
    ok(memcmp(again, keys[1], AUTHN_KEY_BYTES) == 0, "what is no credential does not count");
    key_of(NONE, "HEAD", "Authorization: Bearer a\n", again);
    ok(memcmp(again, keys[1], AUTHN_KEY_BYTES) != 0, "but the method does: RBAC tells head from get");
}

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++)
        check_row(&rows[i]);
    test_anonymous();
    test_certificate_user();
    test_without_own_certificate();
    test_credential_keys();
    return tap_end();
}
