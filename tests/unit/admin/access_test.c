/* SPDX-License-Identifier: Apache-2.0 */
/* Who may read what of the admin listener. */
#include "admin/access.h"

#include "lib/tap.h"
#include "net/tls_peer.h"

enum { NOW = 1000, LATER = 2000 };

enum who { NOBODY, NO_TLS, MASTER, MONITOR, OTHER, UNVERIFIED, FRONT_PROXY, OVER, TOO_MANY };

static struct tls_peer peer_of(enum who who)
{
    struct tls_peer p = {.present = true, .client_ca = true, .not_after = LATER, .n_orgs = 2};

    p.orgs[0] = SLICE_LIT("dev");
    p.orgs[1] = SLICE_LIT("system:masters");
    switch (who) {
    case NOBODY:
    case NO_TLS:
        return (struct tls_peer){0};
    case MASTER:
        break;
    case MONITOR:
        p.orgs[0] = SLICE_LIT("system:monitoring");
        p.n_orgs = 1;
        break;
    case OTHER:
        p.orgs[1] = SLICE_LIT("system:masters2");
        break;
    case UNVERIFIED:
        p.client_ca = false;
        break;
    case FRONT_PROXY:
        p.client_ca = false;
        p.requestheader_ca = true;
        break;
    case OVER:
        p.not_after = NOW;
        break;
    case TOO_MANY:
        p.too_many_orgs = true;
        break;
    }
    return p;
}

static const struct {
    const char *name;
    bool loopback;
    const char *path, *host;
    enum who who;
    enum access_verdict want;
} rows[] = {
    {"this machine", true, "/metrics", "127.0.0.1:9443", NO_TLS, ACCESS_GRANTED},
    {"this machine by name", true, "/metrics", "LocalHost:9443", NO_TLS, ACCESS_GRANTED},
    {"this machine, IPv6", true, "/", "[::1]:9443", NO_TLS, ACCESS_GRANTED},
    {"this machine, HTTP/1.0", true, "/", "", NO_TLS, ACCESS_GRANTED},
    {"a browser that was led here", true, "/metrics", "evil.example:9443", NO_TLS, ACCESS_FOREIGN_HOST},
    {"the same for health", true, "/readyz", "evil.example", NO_TLS, ACCESS_FOREIGN_HOST},
    {"a name that only looks local", true, "/", "127.0.0.1.evil.example", NO_TLS, ACCESS_FOREIGN_HOST},
    {"another name", true, "/", "localhost.evil.example", NO_TLS, ACCESS_FOREIGN_HOST},
    {"a broken Host", true, "/", "[::1", NO_TLS, ACCESS_FOREIGN_HOST},
    {"a probe", false, "/readyz", "10.0.0.1", NOBODY, ACCESS_GRANTED},
    {"a probe of one check", false, "/readyz/ping", "10.0.0.1", NOBODY, ACCESS_NO_IDENTITY},
    {"metrics without certificate", false, "/metrics", "10.0.0.1", NOBODY, ACCESS_NO_IDENTITY},
    {"without TLS", false, "/metrics", "10.0.0.1", NO_TLS, ACCESS_NO_IDENTITY},
    {"the status page without certificate", false, "/", "10.0.0.1", NOBODY, ACCESS_NO_IDENTITY},
    {"system:masters", false, "/", "10.0.0.1", MASTER, ACCESS_GRANTED},
    {"system:monitoring", false, "/metrics", "10.0.0.1", MONITOR, ACCESS_GRANTED},
    {"somebody else", false, "/metrics", "10.0.0.1", OTHER, ACCESS_NOT_MONITORING},
    {"an unknown CA that says system:masters", false, "/metrics", "10.0.0.1", UNVERIFIED, ACCESS_NO_IDENTITY},
    {"a front proxy that says system:masters", false, "/metrics", "10.0.0.1", FRONT_PROXY, ACCESS_NO_IDENTITY},
    {"a certificate that is over", false, "/metrics", "10.0.0.1", OVER, ACCESS_NO_IDENTITY},
    {"too many organizations", false, "/metrics", "10.0.0.1", TOO_MANY, ACCESS_NO_IDENTITY},
};

/* What the log and the answer say of a certificate that was shown. */
static void why_not(void)
{
    static const struct {
        enum who who;
        const char *words; /* NULL: nothing is said */
    } whys[] = {{NOBODY, NULL},
                {MASTER, NULL},
                {MONITOR, NULL},
                {OTHER, "it names neither system:monitoring nor system:masters"},
                {FRONT_PROXY, "it is of requestheader-client-ca-file, not of client-ca-file"},
                {OVER, "the certificate has expired since the handshake"},
                {TOO_MANY, "it names too many organizations"}};
    struct tls_peer p = peer_of(UNVERIFIED);

    ok(access_why_not(NULL, NOW) == NULL, "nothing of who is not asked for one");
    p.why_not = "unknown issuer";
    is_str(access_why_not(&p, NOW), "unknown issuer", "what the handshake found");
    for (size_t i = 0; i < ROWS(whys); i++) {
        p = peer_of(whys[i].who);
        if (whys[i].words == NULL)
            ok(access_why_not(&p, NOW) == NULL, "nothing is said of %d", (int)whys[i].who);
        else
            is_str(access_why_not(&p, NOW), whys[i].words, "said of %d", (int)whys[i].who);
    }
}

static const struct {
    const char *address;
    bool loopback;
} addresses[] = {
    {"127.0.0.1", true}, {"127.9.9.9", true},        {"::1", true}, {"0.0.0.0", false},   {"::", false},
    {"10.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"", false},   {"localhost", false},
};

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct tls_peer p = peer_of(rows[i].who);

        is_int(access_check(rows[i].loopback, slice_str(rows[i].path), slice_str(rows[i].host),
                            rows[i].who == NO_TLS ? NULL : &p, NOW),
               rows[i].want, "%s: %s", rows[i].name, rows[i].path);
    }
    for (size_t i = 0; i < ROWS(addresses); i++)
        ok(access_is_loopback(addresses[i].address) == addresses[i].loopback, "\"%s\" is %sloopback",
           addresses[i].address, addresses[i].loopback ? "" : "not ");
    why_not();
    return tap_end();
}
