/* SPDX-License-Identifier: Apache-2.0 */
/* What is valid and all the same warned of, and what is not. */
#include "daemon/config_warn.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "net/own_address.h"

/* Nothing to be said of it; no peers, no user of its own. */
#define BASE                                                                                                           \
    "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.1\n"                        \
    "hostname-override: cp_a.example\npeer-ca-file: p\nrequestheader-client-ca-file: r\n"                              \
    "proxy-client-cert-file: c\nproxy-client-key-file: k\n"
#define BARE                                                                                                           \
    "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.1\n"                        \
    "peer-ca-file: p\nrequestheader-client-ca-file: r\nproxy-client-cert-file: c\nproxy-client-key-file: k\n"
#define IN(column, option) "warning: m.yaml:10:" column ": " option ": "

static const struct {
    const char *text, *want;
} rows[] = {
    {BASE, ""},
    {BASE "peer-stale-after: 25s\npeer-forget-after: 25s\n", ""},
    {BASE "peer-stale-after: 24s\n",
     IN("1", "peer-stale-after") "24s is too short for Leases, which are renewed each 10s: peers that are well lapse, "
                                 "and what only they serve is marked Stale: give 25s or more\n"},
    {BASE "trusted-proxies: [10.0.0.1, 10.0.0.0/8, \"fd00::/8\"]\n", ""},
    {BASE "trusted-proxies: [0.0.0.0/0]\n",
     IN("19", "trusted-proxies") "0.0.0.0/0 is everybody, who may then forge the "
                                 "addresses in the audit log: give the balancers' addresses alone\n"},
    {BASE "trusted-proxies: [10.0.0.5/8]\n",
     IN("19", "trusted-proxies") "10.0.0.5/8 means all of 10.0.0.0/8: write that, "
                                 "or 10.0.0.5 alone for the one address\n"},
    {BASE "proxy-protocol-from: [203.0.113.0/24]\npeers: [cp-b=203.0.113.2:6443]\n",
     IN("1",
        "proxy-protocol-from") "has 203.0.113.2, the peer cp-b, whose requests come without a PROXY header and are "
                               "refused: give the balancer an "
                               "address of its own\n"},
    {BASE "peers: [cp-b=10.0.0.2:6443, cp-c=cp-c.example:6443]\n", ""},
    {BASE "peers: [cp-b=10.0.0.2:6443, cp-c=cp-c.example:6443]\npeer-allowed-cidrs: 10.0.0.0/8\n", ""},
    {BASE "peers: [cp-b=10.0.0.2:6443]\npeer-allowed-cidrs: 10.1.0.0/16\n",
     IN("9", "peers") "10.0.0.2 is not in peer-allowed-cidrs, and dialled all the same, as they bound names and what "
                      "Leases and etcd say: take it out if it is not meant\n"},
    {BASE "peers: [cp-b=169.254.1.2:6443]\n",
     IN("9", "peers") "169.254.1.2 is no address of another machine (loopback and the like), and dialled all the same, "
                      "as it stands here: give the peer's own\n"},
    {BASE "peers: [cp-b=10.0.0.2:6443, cp-b=10.0.0.3:6443]\n",
     IN("29", "peers") "cp-b is named twice, and only the last address is used: take one out\n"},
    {BASE "peers: [cp_a.example=10.0.0.1:6443, cp_a.example=10.0.0.1:7443]\n",
     IN("37", "peers") "cp_a.example is named twice, and only the last address is used: take one out\n"},
    {BASE "peers: [cp_a.example=10.0.0.2:6443]\n",
     IN("9", "peers") "cp_a.example is this server's own name, and 10.0.0.2 not its address, so the entry is ignored: "
                      "give the peer's name, or take it out\n"},
    {BASE "peers: [cp-b=10.0.0.2:6443, cp-c=10.0.0.2:7443]\n", ""},
    {BASE "peers: [cp-b=10.0.0.2:6443, cp-c=10.0.0.3:6443, cp-d=10.0.0.3:6443]\n",
     IN("49", "peers") "10.0.0.3:6443 is the address of cp-c, too, so one is asked for what the other has: give each "
                       "its own\n"},
    {BASE "peers: [cp-b=cp-c.example:6443, cp-c=CP-C.example:6443]\n",
     IN("33", "peers") "CP-C.example:6443 is the address of cp-b, too, so one is asked for what the other has: give "
                       "each its own\n"},
    {BASE "tls-cipher-suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]\n", ""},
    {BASE "tls-cipher-suites: [TLS_RSA_WITH_AES_128_CBC_SHA, TLS_RSA_WITH_RC4_128_SHA]\n",
     IN("21",
        "tls-cipher-suites") "TLS_RSA_WITH_AES_128_CBC_SHA is insecure: take it out, unless a client can do "
                             "nothing better\n" IN(
                                 "51",
                                 "tls-cipher-suites") "the TLS library here lacks "
                                                      "TLS_RSA_WITH_RC4_128_SHA, and it is left out: take it out\n"},
    {BASE "access-log-sample: 1\n", ""},
    {BASE "access-log: [all, errors]\naccess-log-sample: 10\naccess-log-user: true\n", ""},
    {BASE "access-log: [errors]\naccess-log-user: true\n", ""},
    {BASE "access-log-sample: 2\n",
     IN("1", "access-log-sample") "has no effect without all in access-log, of which it takes a part: add it, or take "
                                  "this out\n"},
    {BASE "access-log-user: true\naccess-log: [false]\n",
     IN("1", "access-log-user") "has no effect without access-log: give it, or take this out\n"},
    {BASE "peer-advertise-ip: 10.0.0.1\npeer-advertise-port: 6443\n", ""},
    {BASE "peer-advertise-ip: \"::1\"\npeer-advertise-port: 6443\n",
     IN("1", "peer-advertise-ip") "peers on other machines do not reach ::1: give an address that they reach\n"},
    {BASE "apiserver-user: system:mvproxy\napiserver-groups: [system:authenticated]\n", ""},
    {BASE "apiserver-groups: [system:masters]\n", ""},
    {BASE "apiserver-user: system:mvproxy\n",
     IN("1",
        "apiserver-user") "system:mvproxy is in system:masters, so it may do "
                          "everything whatever RBAC grants it: give apiserver-groups, such as system:authenticated\n"},
    {BASE "requestheader-group-headers: [X-Remote-Group, x-remote-user]\n",
     IN("47", "requestheader-group-headers") "x-remote-user is in requestheader-username-headers, too, so that names "
                                             "are groups: give one of its own\n"},
    {BASE "requestheader-extra-headers-prefix: [X-Remote-Extra-, X-Kube-Extra-]\n", ""},
    {BASE "requestheader-extra-headers-prefix: [X-Remote-Extra-, X-Extra]\n",
     IN("55",
        "requestheader-extra-headers-prefix") "X-Extra is rather general, and all headers that begin so are removed "
                                              "from requests: give one that ends in \"-\", such as "
                                              "X-Remote-Extra-\n"},
    {BASE "etcd-cafile: e\n", IN("1", "etcd-cafile") "has no effect without etcd-servers: give them, or take it out\n"},
    {BASE "tls-sni-cert-key: [\"c,k:*.example.com,api.example.com,192.0.2.1\"]\n", ""},
    {BASE "tls-sni-cert-key: [\"c,k:*.e,*\"]\n", ""},
    {BASE "tls-sni-cert-key: [\"c,k: a.example , *.b.example\"]\n", ""},
    {BASE "tls-sni-cert-key: [\"c,k:*.a b\"]\n",
     IN("20", "tls-sni-cert-key") "\"a b\" is a name that no client asks for: "
                                  "write it such as api.example.com\n"},
    {BASE "tls-sni-cert-key: [\"c,k:a b\"]\n",
     IN("20", "tls-sni-cert-key") "\"a b\" is a name that no client asks for: "
                                  "write it such as api.example.com\n"},
    {BARE "hostname-override: \"a b\"\n",
     "warning: m.yaml:9:1: hostname-override: \"a b\" is not a host's name, from which a server ID is made: give what "
     "hostname says where kube-apiserver runs\n"},
    {BARE "hostname-override: a..b\n",
     "warning: m.yaml:9:1: hostname-override: \"a..b\" is not a host's name, from which a server ID is made: give what "
     "hostname says where kube-apiserver runs\n"},
    {BARE "hostname-override: A-1_b.example\n", ""},
    {"tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.1\npeer-ca-file: p\n"
     "proxy-client-cert-file: c\nproxy-client-key-file: k\n",
     "warning: requestheader-client-ca-file: none: requests from peers are refused, because their identity headers "
     "cannot be verified: give kube-apiserver's --requestheader-client-ca-file\n"},
};

static void keep_first(const char *ip, void *arg)
{
    char *first = arg;

    if (first[0] == '\0' && strchr(ip, ':') == NULL)
        (void)snprintf(first, INET_ADDRSTRLEN, "%s", ip);
}

/* Its own kubelet would be refused: said of one of its addresses, however many the networks have. */
static void own_address_behind_balancer(void)
{
    char first[INET_ADDRSTRLEN] = "", want[512];
    struct buf text;
    struct config *c;

    own_address_each(keep_first, first);
    if (first[0] == '\0') {
        tap_skip("this machine has no address", "a balancer's network with an address of this machine");
        return;
    }
    (void)snprintf(want, sizeof(want),
                   IN("1", "proxy-protocol-from") "has %s, an address of this machine: its own connections (kubelet, "
                                                  "kube-proxy, host-network Pods) are refused without a PROXY header: "
                                                  "give the balancer an address of its own\n",
                   first);
    buf_init(&text, 1 << 16);
    folder_write("m.yaml", BASE "proxy-protocol-from: [0.0.0.0/0]\n");
    c = config_load("m.yaml", NULL, 0, &text);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&text), buf_slice(&text).p);
    buf_reset(&text);
    config_warn(c, &text);
    is_slice(buf_slice(&text), want, "a balancer's network with an address of this machine");
    config_free(c);
    buf_free(&text);
}

/* Of entries that are wrong, which is said elsewhere, nothing is said here, and of the others what there is. */
static void doubtful(void)
{
    struct buf text;
    struct config *c;
    bool ok;

    buf_init(&text, 1 << 16);
    folder_write("m.yaml", BASE "trusted-proxies: [x, 0.0.0.0/0]\ntls-sni-cert-key: [nonsense, \"c,k:a b\"]\n");
    c = config_load_doubtful("m.yaml", NULL, 0, &text, &ok);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&text), buf_slice(&text).p);
    ok(!ok, "it is refused");
    buf_reset(&text);
    config_warn(c, &text);
    is_slice(buf_slice(&text),
             IN("22", "trusted-proxies") "0.0.0.0/0 is everybody, who may then forge the addresses in the audit log: "
                                         "give the balancers' addresses alone\n"
                                         "warning: m.yaml:11:30: tls-sni-cert-key: \"a b\" is a name that no client "
                                         "asks for: write it such as api.example.com\n",
             "and the others are warned of");
    config_free(c);
    buf_free(&text);
}

int main(void)
{
    folder_enter();
    doubtful();
    own_address_behind_balancer();
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct buf text;
        struct config *c;

        buf_init(&text, 1 << 16);
        folder_write("m.yaml", rows[i].text);
        c = config_load("m.yaml", NULL, 0, &text);
        if (c == NULL)
            tap_bail("row %zu: %.*s", i, (int)buf_len(&text), buf_slice(&text).p);
        config_warn(c, &text);
        is_slice(buf_slice(&text), rows[i].want, "row %zu", i);
        config_free(c);
        buf_free(&text);
    }
    return tap_end();
}
