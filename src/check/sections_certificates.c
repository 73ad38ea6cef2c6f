/* SPDX-License-Identifier: Apache-2.0 */
/* Files: readable, in date, fit for what they are for, and believed by those who have to. */
#include "check/sections.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "daemon/addresses.h"
#include "daemon/preflight.h"
#include "net/tls_ctx.h"
#include "net/tls_inspect.h"

enum { DAY_S = 86400, SOON_S = 30 * DAY_S, FINDINGS_BYTES = 256 << 10 };

struct dates {
    struct scene *s;
    int64_t now, first;
    const char *first_option;
    char option[64];
    bool said;
};

/* preflight says it of the pairs. */
static bool is_said_elsewhere(const char *option, enum trust_file_kind kind)
{
    return kind == TRUST_CERTIFICATE && strncmp(option, "tls-sni", 7) != 0 && strncmp(option, "egress", 6) != 0;
}

static void check_end(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    struct dates *d = arg;
    struct tls_validity v;
    char text[DURATION_BYTES];

    if (kind == TRUST_KEY || !tls_file_validity(path, kind == TRUST_BUNDLE, &v))
        return;
    if (d->first == 0 || v.not_after < d->first) {
        d->first = v.not_after;
        (void)snprintf(d->option, sizeof(d->option), "%s", option);
    }
    d->said = d->said || v.not_after - d->now < SOON_S;
    if (is_said_elsewhere(option, kind))
        return;
    if (v.not_after <= d->now)
        findings_wrong(d->s->f, "certificates-in-date", "renew it", "%s: %s: what is in it has expired", option, path);
    else if (v.not_after - d->now < SOON_S)
        findings_warn(d->s->f, "certificates-in-date", "renew it", "%s: %s expires in %s", option, path,
                      duration_left(v.not_after - d->now, text));
}

static void check_ends(struct scene *s)
{
    struct dates d = {.s = s, .now = clock_wall_us() / 1000000};
    char text[DURATION_BYTES];

    trust_each_file(s->config, check_end, &d);
    if (!d.said && d.first != 0)
        findings_good(s->f, "certificates-in-date", "no certificate ends within 30 days; the first is %s, in %s",
                      d.option, duration_left(d.first - d.now, text));
}

/* preflight asks for that user if it can. */
static const char *who_reads(const char *user)
{
    if (geteuid() != 0 && getuid() != 0)
        return "whoever asks this";
    return getpwnam(user) != NULL ? user : "root (there is no user for the service here)";
}

/* What was wrong with the files is said already. */
static void check_files(struct scene *s)
{
    size_t before = findings_count(s->f, CHECK_WRONG);
    struct buf lines;

    buf_init(&lines, FINDINGS_BYTES);
    (void)preflight_files(s->config, s->user, &lines);
    sections_take_lines(s, "certificates-files", buf_slice(&lines), "give another file");
    buf_reset(&lines);
    s->trusted = trust_load(s->config, &s->trust, &lines);
    if (findings_count(s->f, CHECK_WRONG) == before)
        sections_take_lines(s, "certificates-files", buf_slice(&lines), "give another file");
    buf_free(&lines);
    if (findings_count(s->f, CHECK_WRONG) == before)
        findings_good(s->f, "certificates-files", "certificates, keys and CAs fit together, and can be read by %s",
                      who_reads(s->user));
}

/* Peers are likely to have the same files, so what they would see can be told here. */
static void check_peers_view(struct scene *s)
{
    const struct config *c = s->config;

    if (c->peer_ca_file[0] == '\0')
        return;
    if (tls_inspect_signed(c->tls_cert_file, c->peer_ca_file))
        findings_good(s->f, "certificates-serving-ca",
                      "peers with the same peer-ca-file believe the serving certificate");
    else
        findings_wrong(
            s->f, "certificates-serving-ca",
            "give kube-apiserver's own serving pair of this node (apiserver.crt and .key); only if this one is it, "
            "peer-ca-file lacks the CA of the API servers' serving certificates, here and on the other nodes",
            "tls-cert-file: %s is not signed by peer-ca-file (%s): peers with the same file refuse this proxy, and so "
            "do clients whose CA is that one",
            c->tls_cert_file, c->peer_ca_file);
}

static void check_allowed_name(struct scene *s)
{
    const struct config *c = s->config;
    char name[256];

    if (c->proxy_client_cert_file[0] == '\0' || c->requestheader_allowed_names[0] == NULL ||
        !tls_inspect_common_name(c->proxy_client_cert_file, name, sizeof(name)))
        return;
    for (size_t i = 0; c->requestheader_allowed_names[i] != NULL; i++)
        if (strcmp(c->requestheader_allowed_names[i], name) == 0) {
            findings_good(s->f, "certificates-allowed-name", "requestheader-allowed-names has this front proxy (%s)",
                          name);
            return;
        }
    if (s->held_back) /* whose pair that is nobody knows: not to be allowed for being there */
        findings_wrong(s->f, "certificates-allowed-name", "put the front proxy's pair of before back",
                       "requestheader-allowed-names does not have %s, the name of the pair in the file "
                       "(proxy-client-cert-file), which the process does not use",
                       name);
    else
        findings_wrong(s->f, "certificates-allowed-name",
                       "add it, as kube-apiserver's --requestheader-allowed-names has it",
                       "requestheader-allowed-names does not have %s, the name of proxy-client-cert-file: peers "
                       "configured likewise do not believe this proxy",
                       name);
}

static bool is_one(const struct listen_address *a)
{
    return strcmp(a->host, "0.0.0.0") != 0 && strcmp(a->host, "::") != 0;
}

/* Clients reach us by the address that they had for the server. */
static void check_addresses(struct scene *s)
{
    struct addresses ours;
    struct err err;
    bool good = true;

    err_clear(&err);
    if (!addresses_configured(s->config, &ours, &err))
        return;
    for (size_t i = 0; i < ours.n; i++) {
        if (!is_one(&ours.at[i]) || tls_inspect_covers(s->config->tls_cert_file, ours.at[i].host))
            continue;
        good = false;
        findings_warn(
            s->f, "certificates-addresses", "add the address to the certificate's names (SAN)",
            "tls-cert-file: %s is not valid for %s, where clients are served: those that use the address refuse "
            "it",
            s->config->tls_cert_file, ours.at[i].host);
    }
    if (good)
        findings_good(s->f, "certificates-addresses", "the serving certificate is valid where clients are served");
}

void section_certificates(struct scene *s)
{
    findings_enter(s->f, CHECK_CERTIFICATES);
    check_files(s);
    check_ends(s);
    if (!s->trusted)
        return;
    check_peers_view(s);
    check_allowed_name(s);
    check_addresses(s);
}
