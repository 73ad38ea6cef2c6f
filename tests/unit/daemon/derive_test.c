/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that mean more than text.
 */
#include "daemon/derive.h"

#include <stdio.h>
#include <string.h>

#include "lib/tap.h"

static const struct {
    const char *url, *host; /* NULL host: refused */
    unsigned port;
} urls[] = {
    {"https://127.0.0.1:6443", "127.0.0.1", 6443},
    {"https://127.0.0.1", "127.0.0.1", 443},
    {"https://[::1]:6443/", "::1", 6443},
    {"https://[::1]", "::1", 443},
    {"https://api.example.com", "api.example.com", 443},
    {"http://127.0.0.1:6443", NULL, 0},
    {"127.0.0.1:6443", NULL, 0},
    {"https://", NULL, 0},
    {"https://a:0", NULL, 0},
    {"https://a:65536", NULL, 0},
    {"https://a/b", NULL, 0},
    {"https://user@a", NULL, 0},
    {"", NULL, 0},
};

static const struct {
    const char *list[4];
    bool ok, on;
} gates[] = {
    {{" UnknownVersionInteroperabilityProxy = false "}, true, false},
    {{"UnknownVersionInteroperabilityProxy=\tT\n"}, true, true},
    {{"UnknownVersionInteroperabilityProxy=true", "UnknownVersionInteroperabilityProxy=false"}, true, false},
    {{"UnknownVersionInteroperabilityProxy=false", "AllBeta=true", "UnknownVersionInteroperabilityProxy=1"},
     true,
     true},
    {{"UnknownVersionInteroperabilityProxy=0"}, true, false},
    {{"UnknownVersionInteroperabilityProxy=FALSE"}, true, false},
    {{"UnknownVersionInteroperabilityProxy=f"}, true, false},
    {{"UnknownVersionInteroperabilityProxy=False"}, true, false},
    {{"UnknownVersionInteroperabilityProxy=fALSE"}, false, false},
    {{"UnknownVersionInteroperabilityProxy=yes"}, false, false},
    {{"UnknownVersionInteroperabilityProxy=false=true"}, false, false},
    {{"UnknownVersionInteroperabilityProxy="}, false, false},
    {{"unknownversioninteroperabilityproxy=true"}, false, false},
    {{"AllBeta=true"}, true, true},
    {{"AllBeta=false", "AllBeta=true"}, true, true},
    {{"AllBeta=true", "AllBeta=false"}, true, false},
    {{"AllAlpha=false"}, true, true},
    {{"AllAlpha=x"}, false, false},
    {{"allbeta=false"}, false, false},
    {{"APIServerIdentity=true"}, false, false},
    {{"=true"}, false, false},
    {{" =true"}, false, false},
    {{"="}, false, false},
    {{"kube:UnknownVersionInteroperabilityProxy=false"}, true, false},
    {{" kube : UnknownVersionInteroperabilityProxy=false"}, true, false},
    {{":UnknownVersionInteroperabilityProxy=false"}, true, false},
    {{"kube:AllBeta=false", "kube:UnknownVersionInteroperabilityProxy=true"}, true, true},
    {{"kube:AllBeta=false", "UnknownVersionInteroperabilityProxy=true"}, false, false},
    {{"wardle:UnknownVersionInteroperabilityProxy=false"}, false, false},
    {{"kube:wardle:UnknownVersionInteroperabilityProxy=false"}, false, false},
    {{"kube:"}, false, false},
    {{NULL}, true, true},
    {{"UnknownVersionInteroperabilityProxy=true"}, true, true},
    {{"UnknownVersionInteroperabilityProxy=false"}, true, false},
    {{"UnknownVersionInteroperabilityProxy=F"}, true, false},
    {{"AllBeta=false"}, true, false},
    {{"AllBeta=false", "UnknownVersionInteroperabilityProxy=true"}, true, true},
    {{"UnknownVersionInteroperabilityProxy=true", "AllBeta=false"}, true, true},
    {{"AllAlpha=true"}, true, true},
    {{"UnknownVersionInteroperabilityProxy=maybe"}, false, false},
    {{"UnknownVersionInteroperabilityProxy"}, false, false},
    {{"Nope=true"}, false, false},
};

static const struct {
    const char *ip;
    uint64_t port;
    const char *want; /* NULL: wrong */
} advertised[] = {
    {"", 0, ""},
    {"10.0.0.1", 6443, "10.0.0.1:6443"},
    {"fd00::1", 6443, "[fd00::1]:6443"},
    {"10.0.0.1", 0, NULL},
    {"", 6443, NULL},
    {"cp-a", 6443, NULL},
    {"10.0.0.1:80", 6443, NULL},
};

static void advertise(void)
{
    char text[DERIVE_HOST_BYTES];
    struct err err;

    for (size_t i = 0; i < ROWS(advertised); i++) {
        err_clear(&err);
        is_int(derive_advertise(advertised[i].ip, advertised[i].port, text, &err), advertised[i].want != NULL,
               "peer-advertise-ip %zu", i);
        if (advertised[i].want != NULL)
            is_str(text, advertised[i].want, "peer-advertise-ip %zu: address", i);
    }
}

/* What is written instead of HOST:PORT is told apart. */
static void not_host_ports(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"https://10.0.0.2:6443", "\"https://10.0.0.2:6443\" is a URL: give HOST:PORT alone"},
        {"http://cp-b", "\"http://cp-b\" is a URL: give HOST:PORT alone"},
        {"10.0.0.2:000", "\"10.0.0.2:000\" has port 0: give one of 1 to 65535"},
        {"10.0.0.2", "\"10.0.0.2\" has no port: write 10.0.0.2:PORT"},
        {"2001:db8::2", "\"2001:db8::2\" has no port: write [2001:db8::2]:PORT"},
        {"a b", "\"a b\" is not HOST:PORT: write it such as 10.0.0.2:6443 or [2001:db8::2]:6443"},
        {"u:p@cp-b:6443", "a user name or password has no place in it, and would not be sent: take it out"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct derive_address a;
        struct err err;

        err_clear(&err);
        ok(!derive_host_port(slice_str(rows[i].text), &a, &err), "no HOST:PORT: %s", rows[i].text);
        is_str(err.text, rows[i].want, "it is said why");
    }
}

/* Who follows what is said of it has a good one. */
static void remedies(void)
{
    static const struct {
        const char *text, *want;
        enum { ADMIN, SERVER, ETCD } of;
    } rows[] = {
        {"9443", "\"9443\" is not HOST:PORT: write it such as 127.0.0.1:9443 or [::1]:9443", ADMIN},
        {":9443", "\":9443\" is not HOST:PORT: write it such as 127.0.0.1:9443 or [::1]:9443", ADMIN},
        {"https://127.0.0.1:6444/foo", "\"https://127.0.0.1:6444/foo\" has a path: write https://127.0.0.1:6444",
         SERVER},
        {"https:///foo",
         "\"https:///foo\" is not https://HOST[:PORT]: write it such as https://127.0.0.1:6443 or https://[::1]:6443",
         SERVER},
        {"https://127.0.0.1:0", "\"https://127.0.0.1:0\" has port 0: give one of 1 to 65535", SERVER},
        {"http://127.0.0.1/v3", "\"http://127.0.0.1/v3\" has a path: write http://127.0.0.1", ETCD},
        {"http://a b",
         "\"http://a b\" is not http://HOST[:PORT]: write it such as http://127.0.0.1:2379 or http://[::1]:2379", ETCD},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct derive_address a;
        struct err err;
        bool tls, good;

        err_clear(&err);
        good = rows[i].of == ADMIN    ? derive_admin(rows[i].text, &a, &err)
               : rows[i].of == SERVER ? derive_url(rows[i].text, &a, &err)
                                      : derive_etcd_url(rows[i].text, &a, &tls, &err);
        ok(!good, "refused: %s", rows[i].text);
        is_str(err.text, rows[i].want, "it is said what to write");
    }
}

/* Of what is too long for a host, with a port or without. */
static void long_hosts(void)
{
    char text[DERIVE_HOST_BYTES + 64];
    struct derive_address a;
    struct err err;

    for (size_t n = DERIVE_HOST_BYTES - 3; n <= DERIVE_HOST_BYTES; n += 3) { /* 253 is the longest of a name */
        for (unsigned i = 0; i < 3; i++) {
            const char *scheme = i == 2 ? "" : "https://";
            size_t at = (size_t)snprintf(text, sizeof(text), "%s", scheme);

            for (size_t k = 0; k < n; k++)
                text[at++] = k % 60 == 59 ? '.' : 'a';
            (void)snprintf(text + at, sizeof(text) - at, "%s", i == 0 ? "" : ":99");
            err_clear(&err);
            is_int(i == 2 ? derive_host_port(slice_str(text), &a, &err) : derive_url(text, &a, &err),
                   n < DERIVE_HOST_BYTES, "%zu characters, %u", n, i);
            if (n == DERIVE_HOST_BYTES && i == 2)
                ok(strstr(err.text, " is not HOST:PORT: ") != NULL, "said, %u", i);
            else if (n == DERIVE_HOST_BYTES)
                is_str(err.text, "the host is too long: give its name or address", "said, %u", i);
            else
                ok(strlen(a.host) == n && a.port == (i == 0 ? 443 : 99), "as it is, %u", i);
        }
    }
    memset(text, 'a', DERIVE_HOST_BYTES);
    text[DERIVE_HOST_BYTES] = '\0';
    err_clear(&err);
    ok(!derive_host_port(slice_str(text), &a, &err) && strstr(err.text, " is not HOST:PORT: ") != NULL,
       "without a port it is none: %s", err.text);
}

static void etcd_urls(void)
{
    static const struct {
        const char *url, *host; /* NULL host: refused */
        unsigned port;
        bool tls;
    } rows[] = {
        {"https://10.0.0.1:2379", "10.0.0.1", 2379, true},
        {"https://etcd-0.example.com", "etcd-0.example.com", 2379, true},
        {"http://127.0.0.1:4001/", "127.0.0.1", 4001, false},
        {"https://[::1]", "::1", 2379, true},
        {"10.0.0.1:2379", NULL, 0, false},
        {"unix:///run/etcd.sock", NULL, 0, false},
        {"https://", NULL, 0, false},
        {"https://a b", NULL, 0, false},
        {"http://h:0", NULL, 0, false},
        {"https://h/path", NULL, 0, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct derive_address a;
        struct err err;
        bool tls;

        err_clear(&err);
        is_int(derive_etcd_url(rows[i].url, &a, &tls, &err), rows[i].host != NULL, "etcd at \"%s\"", rows[i].url);
        if (rows[i].host == NULL)
            continue;
        is_str(a.host, rows[i].host, "host of %s", rows[i].url);
        ok(a.port == rows[i].port && tls == rows[i].tls, "port and scheme of %s", rows[i].url);
    }
}

static void chances(void)
{
    static const char *const good[] = {"0", "0.02", ".001", "0.0", "00.01", "0."};
    static const double values[] = {0, 0.02, 0.001, 0, 0.01, 0};
    static const char *const bad[] = {"",     ".",     "1",   "0.021", "-0.01", "+0.01",
                                      "1e-3", "0.01 ", "nan", "0x0",   "0,01",  "0.0.1"};
    double v;
    struct err err;

    for (size_t i = 0; i < ROWS(good); i++) {
        err_clear(&err);
        ok(derive_chance(good[i], &v, &err), "chance \"%s\"", good[i]);
        is_double(v, values[i], "is %g", values[i]);
    }
    for (size_t i = 0; i < ROWS(bad); i++) {
        err_clear(&err);
        ok(!derive_chance(bad[i], &v, &err) && err_is_set(&err), "no chance: \"%s\"", bad[i]);
    }
}

int main(void)
{
    char name[DERIVE_HOST_BYTES];
    struct derive_address a;
    struct derive_gates g;
    struct err err;

    for (size_t i = 0; i < ROWS(urls); i++) {
        bool good = urls[i].host != NULL;

        err_clear(&err);
        is_int(derive_url(urls[i].url, &a, &err), good, "\"%s\"", urls[i].url);
        is_int(err_is_set(&err), !good, "\"%s\": said", urls[i].url);
        if (good) {
            is_str(a.host, urls[i].host, "\"%s\": host", urls[i].url);
            is_u64(a.port, urls[i].port, "\"%s\": port", urls[i].url);
        }
    }
    for (size_t i = 0; i < ROWS(gates); i++) {
        err_clear(&err);
        is_int(derive_gates(gates[i].list, &g, &err), gates[i].ok, "gates %zu", i);
        if (gates[i].ok)
            is_int(g.unknown_version_interoperability_proxy, gates[i].on, "gates %zu: on", i);
    }
    err_clear(&err);
    ok(derive_peer("cp-b=10.0.0.2:6443", name, &a, &err), "a peer");
    is_str(name, "cp-b", "its name");
    is_str(a.host, "10.0.0.2", "its host");
    ok(!derive_peer("=1.2.3.4:5", name, &a, &err), "a peer without a name");
    ok(!derive_peer("a=b", name, &a, &err), "a peer without a port");
    advertise();
    not_host_ports();
    long_hosts();
    etcd_urls();
    remedies();
    chances();
    return tap_end();
}
