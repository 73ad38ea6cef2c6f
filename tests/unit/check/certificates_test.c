/* SPDX-License-Identifier: Apache-2.0 */
/* What the check says of files, with what is in them told here instead of read. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "check/sections.h"
#include "daemon/preflight.h"
#include "lib/tap.h"
#include "net/tls_ctx.h"
#include "net/tls_inspect.h"

enum { ROOM = 1 << 16, HOUR_S = 3600, DAY_S = 86400 };

#define NOW_S 1795305600LL /* 2026-11-22T00:00:00Z */

static struct {
    const char *preflight, *load; /* lines; load NULL: it succeeds */
    int64_t ends_s[4];            /* of a certificate of preflight's, a bundle, an SNI certificate, one of the egress */
    bool signed_by_ca, covers, common_name;
} files;

/* ---- in place of daemon/preflight.c, daemon/trust.c and net/tls_*.c ---- */

bool preflight_files(const struct config *c, const char *user, struct buf *findings)
{
    (void)c;
    (void)user;
    buf_append_str(findings, files.preflight);
    return files.preflight[0] == '\0';
}

bool trust_load(const struct config *c, struct trust *out, struct buf *errors)
{
    (void)c;
    (void)out;
    if (files.load != NULL)
        buf_append_str(errors, files.load);
    return files.load == NULL;
}

void trust_each_file(const struct config *c, trust_file_fn *fn, void *arg)
{
    (void)c;
    fn("tls-cert-file", "0", TRUST_CERTIFICATE, arg);
    fn("tls-private-key-file", "0", TRUST_KEY, arg);
    fn("client-ca-file", "1", TRUST_BUNDLE, arg);
    fn("tls-sni-cert-key[0]", "2", TRUST_CERTIFICATE, arg);
    fn("egress-selector-config-file", "3", TRUST_CERTIFICATE, arg);
}

/* A file that has no end here cannot be read. */
bool tls_file_validity(const char *path, bool all, struct tls_validity *out)
{
    (void)all;
    *out = (struct tls_validity){.not_after = files.ends_s[path[0] - '0']};
    return out->not_after != 0;
}

bool tls_inspect_signed(const char *path, const char *bundle)
{
    (void)path;
    (void)bundle;
    return files.signed_by_ca;
}

bool tls_inspect_common_name(const char *path, char *out, size_t room)
{
    (void)path;
    (void)snprintf(out, room, "front");
    return files.common_name;
}

bool tls_inspect_covers(const char *path, const char *name)
{
    (void)path;
    (void)name;
    return files.covers;
}

/* ---- the section ---- */

static const char *const anybody[] = {NULL}, *const others[] = {"x", "y", NULL}, *const us[] = {"x", "front", NULL};
static const char *const address[] = {"10.0.0.1", NULL};
static struct buf out;
static bool held_back;

static struct config usual(void)
{
    memset(&files, 0, sizeof(files));
    files.preflight = "";
    files.signed_by_ca = files.covers = files.common_name = true;
    for (size_t i = 0; i < 4; i++)
        files.ends_s[i] = NOW_S + (100 + (int64_t)i) * DAY_S;
    return (struct config){.bind_address = address,
                           .secure_port = 6443,
                           .tls_cert_file = "server.crt",
                           .peer_ca_file = "ca.crt",
                           .proxy_client_cert_file = "front.crt",
                           .requestheader_allowed_names = us};
}

static bool look(const struct config *c)
{
    const struct check_opts opts = {.before = true, .user = "nobody-of-that-name"};
    struct config copy = *c;
    struct scene s = {.held_back = held_back, .opts = &opts, .config = &copy, .f = findings_new(), .user = opts.user};

    section_certificates(&s);
    buf_reset(&out);
    findings_print_text(s.f, false, &out);
    buf_append_char(&out, '\0');
    findings_free(s.f);
    return s.trusted;
}

static bool has(const char *text)
{
    return strstr(out.p, text) != NULL;
}

static void whole(void)
{
    struct config c = usual();
    char want[1024];

    ok(look(&c), "trusted");
    (void)snprintf(want, sizeof(want),
                   "certificates\nok certificates, keys and CAs fit together, and can be read by %s\n"
                   "ok no certificate ends within 30 days; the first is tls-cert-file, in 100 days\n"
                   "ok peers with the same peer-ca-file believe the serving certificate\n"
                   "ok requestheader-allowed-names has this front proxy (front)\n"
                   "ok the serving certificate is valid where clients are served\n\nEverything is well: 5 checks.\n",
                   geteuid() == 0 ? "root (there is no user for the service here)" : "whoever asks this");
    is_str(out.p, want, "all is well");
}

static void faults(void)
{
    struct config c = usual();

    files.preflight = "tls-cert-file: x: is odd: change it\nwarning: client-ca-file: none: users are refused\n";
    files.load = "y cannot be loaded\n";
    ok(!look(&c), "not trusted");
    is_str(out.p,
           "certificates\nXX tls-cert-file: x: is odd\n    what to do: change it\n!! client-ca-file: none\n"
           "    what to do: users are refused\nok no certificate ends within 30 days; the first is tls-cert-file, in "
           "100 days\n\n"
           "1 wrong, 1 to be looked at, 1 well.\n",
           "what is wrong is said once, and the rest is not looked at");
    files.preflight = "";
    ok(!look(&c) && has("XX y cannot be loaded\n    what to do: give another file\n") && !has("fit together"),
       "only the loading fails: %s", out.p);
    c = usual();
    files.preflight = "tls-cert-file: x: is odd: change it\n";
    ok(look(&c) && !has("fit together") && has("believe the serving certificate"), "the loading succeeds nevertheless");
}

static void ends(void)
{
    static const struct {
        size_t file;
        int64_t left_s;
        const char *want; /* NULL: as if it were none */
        bool all_well;
    } rows[] = {
        {1, 0, "XX client-ca-file: 1: what is in it has expired\n    what to do: renew it\n", false},
        {1, 1, "!! client-ca-file: 1 expires in less than an hour\n    what to do: renew it\n", false},
        {1, 2 * HOUR_S - 1, "!! client-ca-file: 1 expires in 1 hour\n", false},
        {1, 2 * DAY_S - 1, "!! client-ca-file: 1 expires in 47 hours\n", false},
        {1, 2 * DAY_S, "!! client-ca-file: 1 expires in 2 days\n", false},
        {1, 30 * DAY_S - 1, "!! client-ca-file: 1 expires in 29 days\n    what to do: renew it\n", false},
        {1, 30 * DAY_S, "the first is client-ca-file, in 30 days\n", true},
        {0, 5, NULL, false}, /* preflight says it */
        {2, 5, "!! tls-sni-cert-key[0]: 2 expires in less than an hour\n", false},
        {3, -5, "XX egress-selector-config-file: 3: what is in it has expired\n", false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct config c = usual();

        files.ends_s[rows[i].file] = NOW_S + rows[i].left_s;
        (void)look(&c);
        ok(rows[i].want == NULL ? !has("expire") : has(rows[i].want), "row %zu: %s", i, out.p);
        is_int(has("no certificate ends within 30 days"), rows[i].all_well, "row %zu: all well", i);
    }
}

static void unreadable(void)
{
    struct config c = usual();

    memset(files.ends_s, 0, sizeof(files.ends_s));
    (void)look(&c);
    ok(!has("30 days") && !has("expire"), "no file has an end: %s", out.p);
    files.ends_s[3] = NOW_S + 50 * DAY_S;
    (void)look(&c);
    ok(has("the first is egress-selector-config-file, in 50 days"), "one has: %s", out.p);
}

static void peers_and_names(void)
{
    struct config c = usual();

    files.signed_by_ca = false;
    (void)look(&c);
    ok(has("XX tls-cert-file: server.crt is not signed by peer-ca-file (ca.crt): peers with the same file "
           "refuse"),
       "another CA");
    c.peer_ca_file = "";
    (void)look(&c);
    ok(!has("serving certificate server.crt") && !has("peers with"), "no CA");
    c = usual();
    c.requestheader_allowed_names = others;
    (void)look(&c);
    ok(has("XX requestheader-allowed-names does not have front, the name of proxy-client-cert-file"), "another name");
    held_back = true;
    (void)look(&c);
    ok(has("XX requestheader-allowed-names does not have front, the name of the pair in the file "
           "(proxy-client-cert-file), which the process does not use\n    what to do: put the front proxy's pair of "
           "before back") &&
           !has("add it"),
       "of a pair that the process has not taken: not to be allowed: %s", out.p);
    held_back = false;
    files.common_name = false;
    (void)look(&c);
    ok(!has("requestheader-allowed-names"), "no name");
    c = usual();
    c.requestheader_allowed_names = anybody;
    (void)look(&c);
    ok(!has("requestheader-allowed-names"), "everybody's");
    c = usual();
    c.proxy_client_cert_file = "";
    c.requestheader_allowed_names = others;
    (void)look(&c);
    ok(!has("requestheader-allowed-names"), "no front proxy");
}

static void addresses(void)
{
    static const char *const own[] = {"::", NULL}, *const loopback[] = {"127.0.0.1", NULL};
    static const char *const wrong[] = {"cp-a", NULL};
    struct config c = usual();

    files.covers = false;
    (void)look(&c);
    ok(has("!! tls-cert-file: server.crt is not valid for 10.0.0.1, where clients are served") &&
           !has("is valid where clients are served"),
       "not for that address");
    c.bind_address = own;
    (void)look(&c);
    ok(has("ok the serving certificate is valid where clients are served"), "all addresses: %s", out.p);
    c.bind_address = loopback;
    (void)look(&c);
    ok(has("server.crt is not valid for 127.0.0.1, where clients are served"), "controllers on loopback: %s", out.p);
    c.bind_address = wrong;
    (void)look(&c);
    ok(!has("where clients are served"), "no address");
}

int main(void)
{
    clock_fake(1, NOW_S * 1000000);
    buf_init(&out, ROOM);
    whole();
    faults();
    ends();
    unreadable();
    peers_and_names();
    addresses();
    buf_free(&out);
    return tap_end();
}
