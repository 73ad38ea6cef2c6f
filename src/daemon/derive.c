#include "daemon/derive.h"

#include "kube/hostport.h"
#include "net/cidr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool take_host(struct slice host, uint64_t port, struct derive_address *out, struct err *err)
{
    if (host.n == 0 || host.n >= DERIVE_HOST_BYTES)
        return err_set(err, "the host is %s", host.n == 0 ? "missing" : "too long");
    memcpy(out->host, host.p, host.n);
    out->host[host.n] = '\0';
    out->port = (unsigned)port;
    return true;
}

bool derive_host_port(struct slice s, struct derive_address *out, struct err *err)
{
    struct hostport hp;

    if (!hostport_parse(s, &hp))
        return err_set(err, "\"%.*s\" is not HOST:PORT", (int)s.n, s.p);
    return take_host(hp.host, hp.port, out, err);
}

bool derive_url(const char *url, struct derive_address *out, struct err *err)
{
    struct slice s = slice_str(url), scheme = SLICE_LIT("https://");
    char with_port[DERIVE_HOST_BYTES + 8];
    struct hostport hp;

    if (!slice_has_prefix(s, scheme))
        return err_set(err, "\"%s\" is not an https:// URL", url);
    s = slice_from(s, scheme.n);
    if (s.n > 0 && s.p[s.n - 1] == '/')
        s.n--;
    if (hostport_parse(s, &hp))
        return take_host(hp.host, hp.port, out, err);
    if (s.n >= DERIVE_HOST_BYTES)
        return err_set(err, "the host is too long");
    (void)snprintf(with_port, sizeof(with_port), "%.*s:443", (int)s.n, s.n == 0 ? "" : s.p);
    if (!hostport_parse(slice_str(with_port), &hp))
        return err_set(err, "\"%s\" is not https://HOST[:PORT]", url);
    return take_host(hp.host, hp.port, out, err);
}

bool derive_peer(const char *text, char name[DERIVE_HOST_BYTES], struct derive_address *out, struct err *err)
{
    struct slice rest = slice_str(text), id;

    if (!slice_split(&rest, '=', &id) || rest.p == NULL || id.n == 0 || id.n >= DERIVE_HOST_BYTES)
        return err_set(err, "\"%s\" is not ID=HOST:PORT", text);
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

static bool set_gate(const char *text, struct derive_gates *out, bool *explicit_gate, struct err *err)
{
    struct slice rest = slice_str(text), name;
    bool value;

    if (!slice_split(&rest, '=', &name) || rest.p == NULL)
        return err_set(err, "missing bool value for %s", text);
    if (!parse_bool(slice_trim(rest), &value))
        return err_set(err, "invalid value of %.*s: %.*s", (int)name.n, name.p, (int)rest.n, rest.p);
    name = slice_trim(name);
    if (slice_eq(name, SLICE_LIT("UnknownVersionInteroperabilityProxy"))) {
        out->unknown_version_interoperability_proxy = value;
        *explicit_gate = true;
    } else if (slice_eq(name, SLICE_LIT("AllBeta"))) {
        if (!*explicit_gate)
            out->unknown_version_interoperability_proxy = value;
    } else if (!slice_eq(name, SLICE_LIT("AllAlpha"))) {
        return err_set(err, "unrecognized feature gate: %.*s", (int)name.n, name.p);
    }
    return true;
}

bool derive_gates(const char *const *list, struct derive_gates *out, struct err *err)
{
    bool explicit_gate = false;

    out->unknown_version_interoperability_proxy = true;
    for (size_t i = 0; list[i] != NULL; i++)
        if (!set_gate(list[i], out, &explicit_gate, err))
            return false;
    return true;
}

static void print_address(struct slice host, uint64_t port, char out[DERIVE_HOST_BYTES])
{
    struct buf b;

    buf_init(&b, DERIVE_HOST_BYTES - 1);
    out[0] = '\0';
    if (hostport_print(host, (uint16_t)port, &b)) {
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
        return err_set(err, "peer-advertise-ip and peer-advertise-port must be given together");
    if (!is_ip(ip))
        return err_set(err, "\"%s\" is not an IP address", ip);
    print_address(slice_str(ip), port, out);
    return true;
}

void derive_advertise_default(const char *bind, uint64_t port, char out[DERIVE_HOST_BYTES])
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    out[0] = '\0';
    if (port == 0)
        return;
    if ((inet_pton(AF_INET, bind, &in.sin_addr) == 1 && !cidr_is_special((struct sockaddr *)(void *)&in)) ||
        (inet_pton(AF_INET6, bind, &in6.sin6_addr) == 1 && !cidr_is_special((struct sockaddr *)(void *)&in6)))
        print_address(slice_str(bind), port, out);
}
