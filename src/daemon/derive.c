/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/derive.h"

#include "base/contract.h"
#include "kube/hostport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What hostport_parse() takes for a host has 253 characters at most. */
static bool take_host(const struct hostport *hp, struct derive_address *out)
{
    must_hold(hp->host.n < DERIVE_HOST_BYTES);
    memcpy(out->host, hp->host.p, hp->host.n);
    out->host[hp->host.n] = '\0';
    out->port = (unsigned)hp->port;
    return true;
}

bool derive_may_be_shown(struct slice address, struct err *err)
{
    if (slice_index(address, '@') != address.n)
        return err_set(err, "a user name or password has no place in it, and would not be sent: take it out");
    if (slice_index(address, '?') != address.n || slice_index(address, '#') != address.n)
        return err_set(err, "a query or fragment has no place in it, and would not be sent: take it out");
    return true;
}

static bool is_host(const char *before, struct slice s, const char *after)
{
    char text[DERIVE_HOST_BYTES + 16];
    struct hostport hp;

    if (s.n >= DERIVE_HOST_BYTES)
        return false;
    (void)snprintf(text, sizeof(text), "%s%.*s%s:1", before, (int)s.n, s.n == 0 ? "" : s.p, after);
    return hostport_parse(slice_str(text), &hp);
}

/* ":0" at the end. */
static bool is_port_zero(struct slice s)
{
    while (s.n > 1 && s.p[s.n - 1] == '0' && s.p[s.n - 2] == '0')
        s.n--;
    return slice_has_suffix(s, SLICE_LIT(":0"));
}

/* Why it is none. `such`: how one is written for that option. */
static bool not_host_port(struct slice s, const char *such, struct err *err)
{
    int n = (int)s.n;
    const char *p = s.n == 0 ? "" : s.p;

    if (slice_has_prefix(s, SLICE_LIT("https://")) || slice_has_prefix(s, SLICE_LIT("http://")))
        return err_set(err, "\"%.*s\" is a URL: give HOST:PORT alone", n, p);
    if (is_port_zero(s))
        return err_set(err, "\"%.*s\" has port 0: give one of 1 to 65535", n, p);
    if (is_host("", s, ""))
        return err_set(err, "\"%.*s\" has no port: write %.*s:PORT", n, p, n, p);
    if (is_host("[", s, "]"))
        return err_set(err, "\"%.*s\" has no port: write [%.*s]:PORT", n, p, n, p);
    return err_set(err, "\"%.*s\" is not HOST:PORT: write it such as %s", n, p, such);
}

static bool take_host_port(struct slice s, const char *such, struct derive_address *out, struct err *err)
{
    struct hostport hp;

    if (!derive_may_be_shown(s, err))
        return false;
    if (!hostport_parse(s, &hp))
        return not_host_port(s, such, err);
    return take_host(&hp, out);
}

bool derive_host_port(struct slice s, struct derive_address *out, struct err *err)
{
    return take_host_port(s, "10.0.0.2:6443 or [2001:db8::2]:6443", out, err);
}

bool derive_admin(const char *text, struct derive_address *out, struct err *err)
{
    return take_host_port(slice_str(text), "127.0.0.1:9443 or [::1]:9443", out, err);
}

/* Of the whole URL, as it would have to be written; `port`: one that the option mostly has. */
static bool not_authority(struct slice url, struct slice scheme, unsigned port, struct err *err)
{
    struct slice s = slice_from(url, scheme.n), host = slice_of(s.p, slice_index(s, '/'));
    int n = (int)url.n, m = (int)(scheme.n + host.n);

    if (host.n > 0 && host.n < s.n)
        return err_set(err, "\"%.*s\" has a path: write %.*s", n, url.p, m, url.p);
    if (is_port_zero(s))
        return err_set(err, "\"%.*s\" has port 0: give one of 1 to 65535", n, url.p);
    return err_set(err, "\"%.*s\" is not %.*sHOST[:PORT]: write it such as %.*s127.0.0.1:%u or %.*s[::1]:%u", n, url.p,
                   (int)scheme.n, scheme.p, (int)scheme.n, scheme.p, port, (int)scheme.n, scheme.p, port);
}

static bool take_authority(struct slice url, struct slice scheme, unsigned default_port, struct derive_address *out,
                           struct err *err)
{
    char with_port[DERIVE_HOST_BYTES + 8];
    struct slice s = slice_from(url, scheme.n);
    struct hostport hp;

    if (s.n > 0 && s.p[s.n - 1] == '/')
        s.n--;
    if (hostport_parse(s, &hp))
        return take_host(&hp, out);
    if (s.n >= DERIVE_HOST_BYTES)
        return err_set(err, "the host is too long: give its name or address");
    (void)snprintf(with_port, sizeof(with_port), "%.*s:%u", (int)s.n, s.n == 0 ? "" : s.p, default_port);
    if (!hostport_parse(slice_str(with_port), &hp))
        return not_authority(url, scheme, default_port == 443 ? 6443 : default_port, err);
    return take_host(&hp, out);
}

bool derive_url(const char *url, struct derive_address *out, struct err *err)
{
    struct slice s = slice_str(url), scheme = SLICE_LIT("https://");

    if (!derive_may_be_shown(s, err))
        return false;
    if (!slice_has_prefix(s, scheme))
        return err_set(err, "\"%s\" is not an https:// URL: write it such as https://127.0.0.1:6443", url);
    return take_authority(s, scheme, 443, out, err);
}

bool derive_etcd_url(const char *url, struct derive_address *out, bool *tls, struct err *err)
{
    struct slice s = slice_str(url), secure = SLICE_LIT("https://"), plain = SLICE_LIT("http://");

    *tls = slice_has_prefix(s, secure);
    if (!derive_may_be_shown(s, err))
        return false;
    if (!*tls && !slice_has_prefix(s, plain))
        return err_set(err, "\"%s\" is not an http:// or https:// URL: write it such as https://127.0.0.1:2379", url);
    return take_authority(s, *tls ? secure : plain, 2379, out, err);
}

bool derive_peer(const char *text, char name[DERIVE_HOST_BYTES], struct derive_address *out, struct err *err)
{
    struct slice rest = slice_str(text), id;

    if (!derive_may_be_shown(rest, err))
        return false;
    if (!slice_split(&rest, '=', &id) || rest.p == NULL || id.n == 0 || id.n >= DERIVE_HOST_BYTES)
        return err_set(err, "\"%s\" is not ID=HOST:PORT: write it such as cp-b=10.0.0.2:6443", text);
    memcpy(name, id.p, id.n);
    name[id.n] = '\0';
    return derive_host_port(rest, out, err);
}

/* strconv.ParseBool, as kube-apiserver reads gates. */
static bool parse_bool(struct slice s, bool *value)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (slice_eq(s, slice_str(yes[i])) || slice_eq(s, slice_str(no[i]))) {
            *value = slice_eq(s, slice_str(yes[i]));
            return true;
        }
    }
    return false;
}

/* As strings.TrimSpace, for ASCII. */
static struct slice trim_space(struct slice s)
{
    while (s.n > 0 && strchr(" \t\n\v\f\r", s.p[0]) != NULL) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && strchr(" \t\n\v\f\r", s.p[s.n - 1]) != NULL)
        s.n--;
    return s;
}

enum switched { UNSET, OFF, ON };

struct gates {
    enum switched all_beta, proxy;
    bool bare, prefixed; /* without and with "kube:" */
    struct slice unknown;
};

static bool take_component(struct slice *rest, struct gates *g, struct err *err)
{
    struct slice after = *rest, component;

    if (!slice_split(&after, ':', &component) || after.p == NULL) {
        g->bare = true;
        return true;
    }
    component = trim_space(component);
    g->prefixed = g->prefixed || component.n > 0;
    g->bare = g->bare || component.n == 0;
    if (component.n > 0 && !slice_eq(component, SLICE_LIT("kube")))
        return err_set(err, "component not registered: %.*s: write kube, or leave it out", (int)component.n,
                       component.p);
    *rest = trim_space(after);
    return true;
}

static bool read_gate(struct slice rest, struct gates *g, struct err *err)
{
    struct slice name;
    bool value;

    if (!take_component(&rest, g, err))
        return false;
    if (!slice_split(&rest, '=', &name) || rest.p == NULL)
        return err_set(err, "missing bool value for %.*s: write NAME=true or NAME=false", (int)name.n,
                       name.n == 0 ? "" : name.p);
    name = trim_space(name);
    rest = trim_space(rest);
    if (!parse_bool(rest, &value))
        return err_set(err, "invalid value of %.*s=%.*s: write true or false", (int)name.n, name.p, (int)rest.n,
                       rest.p);
    if (slice_eq(name, SLICE_LIT("UnknownVersionInteroperabilityProxy")))
        g->proxy = value ? ON : OFF;
    else if (slice_eq(name, SLICE_LIT("AllBeta")))
        g->all_beta = value ? ON : OFF;
    else if (!slice_eq(name, SLICE_LIT("AllAlpha")) && g->unknown.p == NULL)
        g->unknown = name;
    return true;
}

/* Beta, and on unless told otherwise, as in kube-apiserver 1.36. */
static bool resolve(const struct gates *g)
{
    if (g->proxy != UNSET)
        return g->proxy == ON;
    return g->all_beta != OFF;
}

bool derive_gates(const char *const *list, struct derive_gates *out, struct err *err)
{
    struct gates g = {.all_beta = UNSET};

    for (size_t i = 0; list[i] != NULL; i++)
        if (!read_gate(slice_str(list[i]), &g, err))
            return false;
    if (g.bare && g.prefixed)
        return err_set(err, "gates with and without the prefix kube: must not be mixed: write all in one way");
    if (g.unknown.p != NULL)
        return err_set(err,
                       "unrecognized feature gate: %.*s: take it out, or write UnknownVersionInteroperabilityProxy",
                       (int)g.unknown.n, g.unknown.p);
    out->unknown_version_interoperability_proxy = resolve(&g);
    return true;
}

void derive_text(const char *host, uint64_t port, char out[DERIVE_HOST_BYTES])
{
    struct buf b;

    buf_init(&b, DERIVE_HOST_BYTES - 1);
    out[0] = '\0';
    if (hostport_print(slice_str(host), (uint16_t)port, &b)) {
        memcpy(out, buf_slice(&b).p, buf_len(&b));
        out[buf_len(&b)] = '\0';
    }
    buf_free(&b);
}

static bool is_ip(const char *text)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

bool derive_advertise(const char *ip, uint64_t port, char out[DERIVE_HOST_BYTES], struct err *err)
{
    out[0] = '\0';
    if (ip[0] == '\0' && port == 0)
        return true;
    if (ip[0] == '\0' || port == 0)
        return err_set(err, "peer-advertise-ip and peer-advertise-port belong together: give both or none");
    if (!is_ip(ip))
        return err_set(err, "\"%s\" is not an IP address: give one by which peers reach this proxy", ip);
    derive_text(ip, port, out);
    return true;
}

bool derive_chance(const char *text, double *out, struct err *err)
{
    size_t digits = strspn(text, "0123456789"),
           rest = text[digits] == '.' ? 1 + strspn(text + digits + 1, "0123456789") : 0;

    *out = 0;
    if (digits + rest == 0 || (digits == 0 && rest == 1) || text[digits + rest] != '\0')
        return err_set(err, "\"%s\" is not a decimal fraction: write it such as 0.001", text), false;
    *out = strtod(text, NULL); /* never in another locale than C */
    if (*out > 0.02)
        return err_set(err, "\"%s\" is out of range: give 0 to 0.02", text), false;
    return true;
}
