/* SPDX-License-Identifier: Apache-2.0 */
/* On which addresses we serve, and which addresses lead back to us. */
#include "daemon/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/config.h"
#include "lib/tap.h"
#include "net/cidr.h"
#include "net/own_address.h"

static const char *etc_hosts = "";

/* In place of the C library's: /etc/hosts is what a test says, and nothing else is read here. */
FILE *fopen(const char *name, const char *mode)
{
    static char empty[] = "\n";
    const char *text = strcmp(name, "/etc/hosts") == 0 && etc_hosts[0] != '\0' ? etc_hosts : empty;

    (void)mode;
    return fmemopen((void *)(uintptr_t)text, strlen(text), "r");
}

static bool configured(const char *const *list, uint64_t port, struct addresses *out, struct err *err)
{
    struct config c = {.bind_address = list, .secure_port = port};

    err_clear(err);
    return addresses_configured(&c, out, err);
}

static const struct {
    const char *const list[4];
    const char *want; /* "host port;" for each, or what is wrong */
} lists[] = {
    {{"10.0.0.1"}, "10.0.0.1 6443;"},
    {{"10.0.0.1", "127.0.0.1:7443"}, "10.0.0.1 6443;127.0.0.1 7443;"},
    {{"fd00:0::1", "[fd00::2]:7443"}, "fd00::1 6443;fd00::2 7443;"},
    {{"::", "0.0.0.0:7443"}, ":: 6443;0.0.0.0 7443;"},
    {{"cp-a"}, "\"cp-a\" is not an IP address, alone or with a port: give one of this machine"},
    {{"cp-a:6443"}, "\"cp-a:6443\" is not an IP address, alone or with a port: give one of this machine"},
    {{"10.0.0.1:0"}, "\"10.0.0.1:0\" is not an IP address, alone or with a port: give one of this machine"},
    {{"10.0.0.256"}, "\"10.0.0.256\" is not an IP address, alone or with a port: give one of this machine"},
    {{"[fd00::1]"}, "\"[fd00::1]\" has brackets and no port: take the brackets off, or add a port behind them"},
    {{"fe80::1%eth0"},
     "\"fe80::1%eth0\" names an interface, which is not possible: give another address of this machine"},
    {{"fe80::1"}, "\"fe80::1\" is a link-local address, on which nobody can be served: give another of this machine"},
    {{"ff02::1"}, "\"ff02::1\" is a multicast address, on which nobody can be served: give another of this machine"},
    {{"239.1.2.3"},
     "\"239.1.2.3\" is a multicast or broadcast address, on which nobody can be served: give another of this machine"},
    {{"255.255.255.255"},
     "\"255.255.255.255\" is a multicast or broadcast address, on which nobody can be served: give another of this "
     "machine"},
    {{"10.0.0.1", "0.0.0.0"}, "\"10.0.0.1\" and \"0.0.0.0\" overlap, so that only one can be bound: take one out"},
    {{"::", "0.0.0.0"}, "\"::\" and \"0.0.0.0\" overlap, so that only one can be bound: take one out"},
    {{"fd00::1", "::"}, "\"fd00::1\" and \"::\" overlap, so that only one can be bound: take one out"},
    {{"127.0.0.1", "::ffff:127.0.0.1"},
     "\"127.0.0.1\" and \"::ffff:127.0.0.1\" overlap, so that only one can be bound: take one out"},
    {{"0.0.0.0", "fd00::1", "10.0.0.1:7443"}, "0.0.0.0 6443;fd00::1 6443;10.0.0.1 7443;"},
    {{"10.0.0.1", "10.0.0.1:6443"}, "\"10.0.0.1:6443\" is given twice: take one out"},
};

static void test_lists(void)
{
    const char *many[LISTENERS_MAX + 2] = {NULL};
    char text[32][16];
    struct addresses a;
    struct err err;

    for (size_t i = 0; i < ROWS(lists); i++) {
        char got[256] = "";

        if (!configured(lists[i].list, 6443, &a, &err))
            (void)snprintf(got, sizeof(got), "%s", err.text);
        else
            for (size_t k = 0; k < a.n; k++)
                (void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s %u;", a.at[k].host, a.at[k].port);
        is_str(got, lists[i].want, "%s", lists[i].list[0]);
    }
    for (size_t i = 0; i <= LISTENERS_MAX; i++) {
        (void)snprintf(text[i], sizeof(text[i]), "10.0.0.%zu", i + 1);
        many[i] = text[i];
    }
    ok(!configured(many, 6443, &a, &err), "more than there is room for: %s", err.text);
}

static const struct {
    const char *bind;
    uint64_t port;
    struct derive_address to;
    bool ourselves;
} reached[] = {
    {"0.0.0.0", 6443, {"127.0.0.1", 6443}, true},
    {"0.0.0.0", 6443, {"127.8.9.1", 6443}, true},
    {"0.0.0.0", 6443, {"localhost", 6443}, true},
    {"0.0.0.0", 6443, {"0.0.0.0", 6443}, true},
    {"0.0.0.0", 6443, {"127.0.0.1", 6444}, false},
    {"0.0.0.0", 6443, {"192.0.2.1", 6443}, false}, /* nobody's (RFC 5737) */
    {"0.0.0.0", 6443, {"::1", 6443}, false},
    {"0.0.0.0", 0, {"127.0.0.1", 0}, false},
    {"::", 6443, {"127.0.0.1", 6443}, true},
    {"::", 6443, {"::1", 6443}, true},
    {"::", 6443, {"0:0::1", 6443}, true},
    {"127.0.0.1", 6443, {"127.0.0.1", 6443}, true},
    {"127.0.0.1", 6443, {"127.0.0.2", 6443}, false},
    {"::1", 6443, {"localhost", 6443}, true},
    {"10.0.0.1", 6443, {"127.0.0.1", 6443}, false},
    {"10.0.0.1", 6443, {"10.0.0.1", 6443}, true},
    {"10.0.0.1:7443", 6443, {"10.0.0.1", 6443}, false},
    {"10.0.0.1:7443", 6443, {"10.0.0.1", 7443}, true},
    {"fd00:0::1", 6443, {"fd00::0:1", 6443}, true},
    {"10.0.0.1", 6443, {"cp-a", 6443}, false},
    {"127.0.0.1", 6443, {"LocalHost", 6443}, true},
    {"127.0.0.1", 6443, {"localhost.", 6443}, true},
    {"127.0.0.1", 6443, {"0.0.0.0", 6443}, true}, /* where it leads to is loopback */
    {"127.0.0.1", 6443, {"::", 6443}, true},
    {"::1", 6443, {"::", 6443}, true},
    {"10.0.0.1", 6443, {"0.0.0.0", 6443}, false},
    {"127.0.0.1", 6443, {"::ffff:127.0.0.1", 6443}, true},
    {"::ffff:127.0.0.1", 6443, {"127.0.0.1", 6443}, true},
    {"0.0.0.0", 6443, {"::ffff:127.0.0.9", 6443}, true},
};

static void test_reached(void)
{
    for (size_t i = 0; i < ROWS(reached); i++) {
        const char *const list[] = {reached[i].bind, NULL};
        struct addresses a;
        struct err err;

        if (!configured(list, reached[i].port, &a, &err))
            tap_bail("%s", err.text);
        is_int(addresses_reached_by(&a, &reached[i].to) != NULL, reached[i].ourselves, "%s port %u, asked for %s:%u",
               reached[i].bind, (unsigned)reached[i].port, reached[i].to.host, reached[i].to.port);
    }
}

/* Whatever /etc/hosts or DNS says of it, it is an address of this machine. */
static void test_own_name(void)
{
    static const char *const all[] = {"0.0.0.0", NULL}, *const both[] = {"::", NULL},
                             *const one[] = {"192.0.2.1", NULL};
    struct derive_address to = {.port = 6443};
    struct addresses a;
    struct err err;

    if (gethostname(to.host, sizeof(to.host) - 1) != 0)
        tap_bail("this machine has no name");
    ok(configured(all, 6443, &a, &err) && addresses_reached_by(&a, &to) == &a.at[0], "%s leads to 0.0.0.0", to.host);
    ok(configured(both, 6443, &a, &err) && addresses_reached_by(&a, &to) == &a.at[0], "and to ::");
    ok(configured(all, 6444, &a, &err) && addresses_reached_by(&a, &to) == NULL, "not to another port");
    ok(configured(one, 6443, &a, &err) && addresses_reached_by(&a, &to) == NULL, "nor to what others have");
    to.host[0]++;
    ok(configured(all, 6443, &a, &err) && addresses_reached_by(&a, &to) == NULL, "another name: %s", to.host);
}

/* What /etc/hosts has is where our dialler goes, whatever else the name may be. */
static void test_hosts(void)
{
    static const struct {
        const char *hosts, *bind;
        const char *to; /* NULL: this machine's name */
        const char *reached;
    } rows[] = {
        {"192.0.2.1 cp-a\n192.0.2.2 cp-a cp-b\n", "192.0.2.2", "cp-a", "192.0.2.2"},
        {"192.0.2.1 cp-a\n192.0.2.2 cp-a cp-b\n", "192.0.2.1", "cp-a", "192.0.2.1"},
        {"192.0.2.1 cp-a\n192.0.2.2 cp-a cp-b\n", "192.0.2.1", "cp-b", NULL},
        {"192.0.2.1 cp-a\n", "192.0.2.1", "192.0.2.1", "192.0.2.1"},
        {"192.0.2.1 192.0.2.9\n", "192.0.2.1", "192.0.2.9", NULL}, /* an address is no name */
        {"192.0.2.1 localhost\n", "192.0.2.1", "localhost", NULL},
        {"127.0.0.1 cp-c\n", "0.0.0.0", "cp-c", "0.0.0.0"},
        {"192.0.2.1 @\n", "0.0.0.0", NULL, NULL}, /* it leads elsewhere */
        {"", "0.0.0.0", NULL, "0.0.0.0"},
    };
    char own[128] = "", text[256];

    if (gethostname(own, sizeof(own) - 1) != 0)
        tap_bail("this machine has no name");
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *const list[] = {rows[i].bind, NULL}, *at = strchr(rows[i].hosts, '@');
        struct derive_address to = {.port = 6443};
        const struct listen_address *l;
        struct addresses a;
        struct err err;

        (void)snprintf(text, sizeof(text), "%.*s%s%s",
                       (int)(at == NULL ? strlen(rows[i].hosts) : (size_t)(at - rows[i].hosts)), rows[i].hosts,
                       at == NULL ? "" : own, at == NULL ? "" : at + 1);
        etc_hosts = text;
        (void)snprintf(to.host, sizeof(to.host), "%s", rows[i].to == NULL ? own : rows[i].to);
        if (!configured(list, 6443, &a, &err))
            tap_bail("%s", err.text);
        l = addresses_reached_by(&a, &to);
        is_str(l == NULL ? NULL : l->host, rows[i].reached, "hosts %zu: %s", i, to.host);
    }
    etc_hosts = "";
}

static const struct {
    struct derive_address a, b;
    bool meet;
} pairs[] = {
    {{"127.0.0.1", 6444}, {"127.0.0.1", 6444}, true},
    {{"127.0.0.1", 6444}, {"127.0.0.1", 6443}, false},
    {{"127.0.0.1", 6444}, {"127.0.0.2", 6444}, false},
    {{"127.0.0.1", 6444}, {"::ffff:127.0.0.1", 6444}, true},
    {{"127.0.0.1", 6444}, {"::FFFF:7F00:1", 6444}, true},
    {{"127.0.0.1", 6444}, {"0000:0:0:0:0:ffff:7f00:0001", 6444}, true},
    {{"127.0.0.1", 6444}, {"localhost", 6444}, true},
    {{"127.0.0.1", 6444}, {"LocalHost", 6444}, true},
    {{"127.0.0.1", 6444}, {"localhost.", 6444}, true},
    {{"127.0.0.1", 6444}, {"0.0.0.0", 6444}, true},
    {{"127.0.0.1", 6444}, {"::", 6444}, true},
    {{"127.0.0.1", 6444}, {"::1", 6444}, false},
    {{"::1", 6444}, {"0:0:0:0:0:0:0:1", 6444}, true},
    {{"::1", 6444}, {"localhost", 6444}, true},
    {{"::1", 6444}, {"::", 6444}, true},
    {{"localhost", 6444}, {"localhost.", 6444}, true},
    {{"localhost", 6444}, {"cp-a", 6444}, false},
    {{"0.0.0.0", 6444}, {"127.8.9.1", 6444}, false}, /* an address of this machine, and not where 0.0.0.0 leads to */
    {{"FD00::0A", 6444}, {"fd00:0::a", 6444}, true},
    {{"10.0.0.1", 6444}, {"::ffff:10.0.0.1", 6444}, true},
    {{"10.0.0.1", 6444}, {"::10.0.0.1", 6444}, false},
    {{"cp-a.example", 6444}, {"CP-A.example", 6444}, true},
    {{"cp-a.example", 6444}, {"cp-b.example", 6444}, false},
    {{"cp-a.example", 6444}, {"CP-A.example", 6443}, false},
};

static void test_meet(void)
{
    for (size_t i = 0; i < ROWS(pairs); i++) {
        is_int(addresses_meet(&pairs[i].a, &pairs[i].b), pairs[i].meet, "%s:%u and %s:%u", pairs[i].a.host,
               pairs[i].a.port, pairs[i].b.host, pairs[i].b.port);
        is_int(addresses_meet(&pairs[i].b, &pairs[i].a), pairs[i].meet, "and the other way round");
    }
}

static void test_spelt(void)
{
    static const struct {
        struct derive_address a;
        const char *spelt;
    } rows[] = {
        {{"10.0.0.1", 6443}, "10.0.0.1 6443"}, {{"::ffff:10.0.0.1", 6443}, "10.0.0.1 6443"},
        {{"FD00::0A", 6443}, "fd00::a 6443"},  {{"CP-Z.Example", 6443}, "cp-z.example 6443"},
        {{"0.0.0.0", 1}, "127.0.0.1 1"},       {{"::", 1}, "::1 1"},
        {{"Localhost.", 1}, "127.0.0.1 1"},
    };
    char one[ADDRESSES_SPELT_BYTES], other[ADDRESSES_SPELT_BYTES];

    for (size_t i = 0; i < ROWS(rows); i++) {
        addresses_spell(&rows[i].a, one);
        is_str(one, rows[i].spelt, "one spelling of %s", rows[i].a.host);
    }
    for (size_t i = 0; i < ROWS(pairs); i++) {
        addresses_spell(&pairs[i].a, one);
        addresses_spell(&pairs[i].b, other);
        ok(strcmp(one, other) != 0 || pairs[i].meet, "who is spelt alike meets: %s", one);
    }
}

static const struct {
    const char *const list[3];
    uint64_t port;
    const char *want;
} advertised[] = {
    {{"127.0.0.1"}, 6443, ""},
    {{"10.0.0.1"}, 0, ""},
    {{"10.0.0.1"}, 6443, "10.0.0.1:6443"},
    {{"127.0.0.1", "10.0.0.1:7443"}, 6443, "10.0.0.1:7443"},
    {{"fd00::1"}, 6443, "[fd00::1]:6443"},
};

/* Of the default route's address it depends on the machine what it is; in a sandbox there may be none. */
static void test_advertised(void)
{
    static const char *const unspecified[][2] = {{"0.0.0.0", NULL}, {"::", NULL}, {NULL, NULL}};
    char text[DERIVE_HOST_BYTES];
    struct addresses a;
    struct err err;

    for (size_t i = 0; i < ROWS(advertised); i++) {
        if (!configured(advertised[i].list, advertised[i].port, &a, &err))
            tap_bail("%s", err.text);
        addresses_advertised(&a, text);
        is_str(text, advertised[i].want, "advertised: %s", advertised[i].list[0]);
    }
    for (size_t i = 0; i < ROWS(unspecified); i++) {
        struct sockaddr_in in = {.sin_family = AF_INET};
        struct derive_address at;

        if (!configured(unspecified[i], 6443, &a, &err)) {
            ok(unspecified[i][0] == NULL, "no default route: %s", err.text);
            continue;
        }
        addresses_advertised(&a, text);
        ok(text[0] == '\0' || (derive_host_port(slice_str(text), &at, &err) && at.port == 6443),
           "an address and the port, or nothing: \"%s\"", text);
        if (text[0] != '\0' && inet_pton(AF_INET, at.host, &in.sin_addr) == 1)
            ok(!cidr_is_special((struct sockaddr *)&in) && own_address_is((struct sockaddr *)&in),
               "one of this machine, that others could use");
    }
}

int main(void)
{
    test_lists();
    test_reached();
    test_own_name();
    test_hosts();
    test_meet();
    test_spelt();
    test_advertised();
    return tap_end();
}
