/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include <config.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "base/utf8.h"

#include <stddef.h>

#define FIELD(name) .offset = offsetof(struct config, name)
#define HOUR_MS ((uint64_t)3600 * 1000)

/* One of the longest request headers takes 2 MiB, a TLS connection with a small request 64 KiB: below that clients are
 * cut off, at the very end all of them. Who writes less mostly means KiB or MiB. */
enum { LEAST_CLIENT_MEMORY = 8 << 20 };

/* kube-apiserver 1.26 and later renews its identity Lease each 10 s (IdentityLeaseRenewIntervalPeriod,
 * pkg/controlplane/ apiserver/server.go), up to 4 % later (renewJitter, component-helpers'
 * apimachinery/lease/controller.go), and so do we for older ones. One renewal that is lost is 20.8 s; the rest is for
 * slow requests and for seeing it. */
enum { TWO_RENEWALS_MS = 25000 };

static const struct option table[] = {
/* clang-format off */
#define SECTION "Serving"
    {.name = "bind-address", .type = OPTION_LIST, FIELD(bind_address), .initial = "", .restart = true, .section = SECTION,
     .argument = "ADDRESSES", .help = "IP addresses on which clients and peers are served, each with secure-port unless it has a port of its own; also such that this machine does not have yet (virtual addresses). :: serves IPv4 and IPv6. None: the addresses of the default routes, so that kube-apiserver can have the same port on loopback. Sockets that the service manager hands over stand in for all of them."},
    {.name = "secure-port", .type = OPTION_NUMBER, FIELD(secure_port), .initial = "6443", .min = 0, .max = 65535, .restart = true,
     .section = SECTION, .argument = "PORT", .help = "Port on which clients and peers are served; 0 picks a free one and logs it."},
    {.name = "tls-cert-file", .type = OPTION_TEXT, FIELD(tls_cert_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "Serving certificate in PEM, followed by its intermediates. It must cover every name by which clients and peers reach this server, kubernetes.default.svc among them. Required."},
    {.name = "tls-private-key-file", .type = OPTION_TEXT, FIELD(tls_private_key_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "Private key of tls-cert-file, in PEM and not encrypted. Required."},
    {.name = "tls-min-version", .type = OPTION_TEXT, FIELD(tls_min_version), .initial = "VersionTLS12", .choices = "VersionTLS12|VersionTLS13",
     .section = SECTION, .argument = "VERSION", .help = "Lowest TLS version accepted from clients."},
    {.name = "tls-cipher-suites", .type = OPTION_LIST, FIELD(tls_cipher_suites), .initial = "", .section = SECTION, .argument = "NAMES",
     .help = "Cipher suites of TLS 1.2 for clients, by kube-apiserver's names; their order does not matter, and those of TLS 1.3 are always on. None: the ones with ECDHE and AEAD."},
    {.name = "tls-sni-cert-key", .type = OPTION_ITEMS, FIELD(tls_sni_cert_key), .initial = "", .section = SECTION, .argument = "CERT,KEY[:NAMES]",
     .help = "A further serving pair, for clients that ask for one of its names by SNI: those given, comma-separated, perhaps with a leading wildcard label, else those of the certificate. Given names trump the certificates' own, whole names wildcards, and earlier pairs later ones. In the file a list, on the command line once for each pair."},
    {.name = "trusted-proxies", .type = OPTION_LIST, FIELD(trusted_proxies), .initial = "", .section = SECTION, .argument = "CIDRS",
     .help = "Networks of load balancers that end TLS or speak HTTP themselves: the X-Forwarded-For that they send is kept, and their own address appended. From all others, peers excepted, it is replaced by the client's address, so that the audit log's sourceIPs cannot be forged."},
    {.name = "proxy-protocol-from", .type = OPTION_LIST, FIELD(proxy_protocol_from), .initial = "", .section = SECTION, .argument = "CIDRS",
     .help = "Networks of load balancers of connections whose connections begin with a PROXY header, version 1 or 2, which says who the client is; without a valid one they are closed. Nobody else may send one. Not the addresses of control-plane nodes, whose kubelets, Pods and mvproxies send none: a balancer that runs there needs an address of its own. None: nobody does."},
    {.name = "max-connections", .type = OPTION_NUMBER, FIELD(max_connections), .initial = "50000", .min = 1, .max = 10000000,
     .section = SECTION, .argument = "N", .help = "Client connections that may be open at once, those of other mvproxies among them. For who comes then, one without a request is closed, or with bodies that drip (less than 500 bytes a second for 20 seconds), or whose next header does not come, of an address that has more than an equal share; else, if no address has more than twice that, the one that has been without a request for longest, for 5 seconds at least. While there is none, they wait in the kernel's queue. Never more than half of the descriptors that the process may have, less some for other uses."},
    {.name = "max-connections-per-client", .type = OPTION_NUMBER, FIELD(max_connections_per_client), .initial = "0", .min = 0, .max = 10000000,
     .section = SECTION, .argument = "N", .help = "Connections that one client address may have open; more are closed. 0: no limit."},
    {.name = "max-fresh-connections", .type = OPTION_NUMBER, FIELD(max_fresh_connections), .initial = "4096", .min = 0, .max = 10000000,
     .section = SECTION, .argument = "N", .help = "Connections that have not asked anything yet (TLS handshakes under way, silence, a first header that does not end); beyond, the oldest one of an address that has more than an equal share is closed. Never more than half of max-connections, nor a quarter of the descriptors that the process may have. 0: only those."},
    {.name = "max-requests-per-connection", .type = OPTION_NUMBER, FIELD(max_requests_per_connection), .initial = "0", .min = 0, .max = 1000000000,
     .section = SECTION, .argument = "N", .help = "Requests that a new connection may make; the answer to the last one says so (over HTTP/2 by GOAWAY, and what had come before the client knew is served, too). 0: no limit, as with kube-apiserver."},
    {.name = "goaway-chance", .type = OPTION_TEXT, FIELD(goaway_chance), .initial = "0", .section = SECTION, .argument = "FRACTION",
     .help = "Part of the HTTP/2 requests after which the client is told to make a new connection, so that clients spread anew over the servers behind a load balancer; requests under way are not disturbed. 0 (never) to 0.02; 0.001 is a good begin. Not for clusters with one API server or without a load balancer."},
    {.name = "max-client-memory", .type = OPTION_NUMBER, FIELD(max_client_memory), .initial = "0", .min = LEAST_CLIENT_MEMORY, .or_zero = true,
     .max = (uint64_t)1 << 50, .section = SECTION, .argument = "BYTES", .help = "What all clients together may make the process hold: requests, bodies and answers that wait. When seven eighths of it are in use, new requests of addresses that hold more than an equal share are answered with 429 and Retry-After, and connections of such addresses are closed: first those that hold much and move little, the greediest first, then small ones that are idle. Not below 8388608 (8 MiB), with which a few of the longest request headers go through at once. 0: a quarter of the memory of the machine or of the control group, at least 256 MiB, or half of it where that is less."},
    {.name = "max-request-header-bytes", .type = OPTION_NUMBER, FIELD(max_request_header_bytes), .initial = "1048576", .min = 1024, .max = 1048576,
     .section = SECTION, .argument = "BYTES", .help = "Longest request header; longer ones are answered with 431."},
    {.name = "client-header-timeout", .type = OPTION_DURATION, FIELD(client_header_timeout), .initial = "32s", .min = 100, .max = HOUR_MS,
     .section = SECTION, .argument = "DURATION", .help = "Time in which a request header must arrive once it has begun."},
    {.name = "client-idle-timeout", .type = OPTION_DURATION, FIELD(client_idle_timeout), .initial = "90s", .min = 100, .max = 24 * HOUR_MS,
     .section = SECTION, .argument = "DURATION", .help = "Idle connections are closed after this time."},
#undef SECTION
#define SECTION "Authentication"
    {.name = "client-ca-file", .type = OPTION_TEXT, FIELD(client_ca_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "CA bundle for client certificates: the one kube-apiserver has. Certificates that it signs become X-Remote-User and X-Remote-Group."},
    {.name = "requestheader-client-ca-file", .type = OPTION_TEXT, FIELD(requestheader_client_ca_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "CA bundle for the client certificates of peers and other front proxies, whose identity headers are believed."},
    {.name = "requestheader-allowed-names", .type = OPTION_LIST, FIELD(requestheader_allowed_names), .initial = "", .section = SECTION, .argument = "NAMES",
     .help = "Common names of front proxies' certificates. None: every certificate that requestheader-client-ca-file verifies."},
    {.name = "requestheader-username-headers", .type = OPTION_LIST, FIELD(requestheader_username_headers), .initial = "X-Remote-User", .section = SECTION,
     .argument = "NAMES", .help = "Headers that carry the user name; the first one is used towards API servers. Of this and the next three options name "
                              "all that the API servers have. What only they name is removed from requests once mvproxy has read it."},
    {.name = "requestheader-uid-headers", .type = OPTION_LIST, FIELD(requestheader_uid_headers), .initial = "", .section = SECTION, .argument = "NAMES",
     .help = "Headers that carry the user's UID (kube-apiserver 1.32 and later). None: X-Remote-Uid is sent and none is believed. kube-apiserver reads none either unless its option of this name says so, kubeadm's too: the UID that a client's certificate may have (1.33 and later) is lost then."},
    {.name = "requestheader-group-headers", .type = OPTION_LIST, FIELD(requestheader_group_headers), .initial = "X-Remote-Group", .section = SECTION,
     .argument = "NAMES", .help = "Headers that carry groups."},
    {.name = "requestheader-extra-headers-prefix", .type = OPTION_LIST, FIELD(requestheader_extra_headers_prefix), .initial = "X-Remote-Extra-",
     .section = SECTION, .argument = "PREFIXES", .help = "Prefixes of headers that carry further attributes."},
#undef SECTION
#define SECTION "Local API server"
    {.name = "apiserver", .type = OPTION_TEXT, FIELD(apiserver), .initial = "https://127.0.0.1:6443", .section = SECTION, .argument = "URL",
     .help = "The kube-apiserver behind this proxy."},
    {.name = "apiserver-ca-file", .type = OPTION_TEXT, FIELD(apiserver_ca_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "CA bundle for its serving certificate. Required."},
    {.name = "apiserver-tls-server-name", .type = OPTION_TEXT, FIELD(apiserver_tls_server_name), .initial = "kubernetes.default.svc", .section = SECTION,
     .argument = "NAME", .help = "Name that its certificate must be valid for."},
    {.name = "apiserver-user", .type = OPTION_TEXT, FIELD(apiserver_user), .initial = "system:apiserver", .section = SECTION, .argument = "USER",
     .help = "As whom the proxy itself asks API servers (Leases, discovery)."},
    {.name = "apiserver-groups", .type = OPTION_LIST, FIELD(apiserver_groups), .initial = "system:masters", .section = SECTION, .argument = "GROUPS",
     .help = "Groups of that user."},
    {.name = "proxy-client-cert-file", .type = OPTION_TEXT, FIELD(proxy_client_cert_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "Front-proxy client certificate, shown to the local API server and to peers. Without it certificate users are refused and peers cannot be used."},
    {.name = "proxy-client-key-file", .type = OPTION_TEXT, FIELD(proxy_client_key_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "Its private key."},
    {.name = "request-timeout", .type = OPTION_DURATION, FIELD(request_timeout), .initial = "0s", .min = 0, .max = 24 * HOUR_MS, .section = SECTION,
     .argument = "DURATION", .help = "Longest wait for a response's header, the time for sending the request's body included, long-running requests excepted; then 504. If it is not above kube-apiserver's own --request-timeout, answers are cut off that it would still have given. 0: no limit."},
#undef SECTION
#define SECTION "Peers"
    {.name = "feature-gates", .type = OPTION_LIST, FIELD(feature_gates), .initial = "UnknownVersionInteroperabilityProxy=true", .skips_empty = true,
     .section = SECTION, .argument = "NAME=BOOL,...", .help = "UnknownVersionInteroperabilityProxy=false makes this an ordinary proxy in front of the local API server. Written as for kube-apiserver, which the prefix kube: may say; AllBeta and AllAlpha are known, any other gate is an error."},
    {.name = "peer-ca-file", .type = OPTION_TEXT, FIELD(peer_ca_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "CA bundle for the serving certificates of peers, which must be valid for kubernetes.default.svc. Without it no peer is used, and requests that would need one are answered with 503."},
    {.name = "peers", .type = OPTION_LIST, FIELD(peers), .initial = "", .section = SECTION, .argument = "ID=HOST:PORT,...",
     .help = "Static peer addresses, by server ID or host name; they come before what Leases say."},
    {.name = "peer-allowed-cidrs", .type = OPTION_LIST, FIELD(peer_allowed_cidrs), .initial = "", .section = SECTION, .argument = "CIDRS",
     .help = "Networks in which peers may be dialled at addresses that Leases or etcd say, and at those that names in the option peers resolve to. An address in peers itself is always dialled. None: of what Leases and etcd say every address except loopback, link-local, multicast and unspecified ones and the metadata services of clouds, which must be listed to be used, and whatever names in peers resolve to."},
    {.name = "peer-stale-after", .type = OPTION_DURATION, FIELD(peer_stale_after), .initial = "40s", .min = 1000, .sensible = TWO_RENEWALS_MS, .max = 24 * HOUR_MS,
     .section = SECTION, .argument = "DURATION", .help = "A peer whose Lease was not seen renewed for this long is lapsed: what only it serves is marked Stale in discovery. Leases are renewed each 10s: below 25s one late renewal makes a peer lapse that is well, and mvproxy warns of the value."},
    {.name = "peer-forget-after", .type = OPTION_DURATION, FIELD(peer_forget_after), .initial = "5m", .min = 1000, .max = 24 * HOUR_MS, .section = SECTION,
     .argument = "DURATION", .help = "A peer whose Lease was not seen renewed for this long, and that does not answer, is forgotten."},
    {.name = "peer-leave-grace", .type = OPTION_DURATION, FIELD(peer_leave_grace), .initial = "5m", .min = 0, .max = 24 * HOUR_MS, .section = SECTION,
     .argument = "DURATION", .help = "A peer whose Lease is deleted, as API servers do when they restart, is kept for this long, and asked while it answers. Once it does not, requests for what only it serves get 503, not 404; that is marked Stale then, or after 25s without a Lease. 0s: it is forgotten at once."},
    {.name = "max-requests-inflight-per-peer", .type = OPTION_NUMBER, FIELD(max_requests_inflight_per_peer), .initial = "0", .min = 0, .max = 1000000,
     .section = SECTION, .argument = "N", .help = "Requests of clients under way to one peer; beyond, the next peer is tried, then 503. What mvproxy asks for itself, as discovery, neither counts nor waits. 0: no limit."},
    {.name = "egress-selector-config-file", .type = OPTION_TEXT, FIELD(egress_selector_config_file), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "EgressSelectorConfiguration (apiserver.k8s.io/v1beta1), as for kube-apiserver: its selection controlplane is the HTTP CONNECT proxy through which peers are dialled, and etcd the one for etcd-servers. Read again, with the certificates that it names, by a reload and when one of these files changes. None: all are dialled directly."},
    {.name = "local-failover", .type = OPTION_BOOL, FIELD(local_failover), .initial = "true", .section = SECTION, .argument = "BOOL",
     .help = "While the local API server cannot be reached, is starting (its /readyz was not good since it came back) or is without its etcd (its /readyz says so), requests for resources go to a peer that serves them. Of all else only discovery and schemas (/openapi) are answered without it; /readyz and the like tell of the local server itself."},
    {.name = "skewed-resources", .type = OPTION_TEXT, FIELD(skewed_resources), .initial = "local", .choices = "local|newest",
     .section = SECTION, .argument = "WHERE", .help = "Where requests go for resources that the local API server has, but with another schema than other servers: to it (local), or to the newest server that has them, so that no older one drops fields that it does not know (newest). Between releases, also patch releases, that is every built-in resource: during an upgrade the newest server then bears the load of all nodes. If no such server answers, the local one does, with a Warning. Custom resources and aggregated APIs are the same everywhere."},
    {.name = "identity-lease", .type = OPTION_TEXT, FIELD(identity_lease), .initial = "auto", .choices = "auto|observe|publish|off",
     .section = SECTION, .argument = "MODE", .help = "Who publishes this server's identity Lease: the local API server (observe), this proxy (publish), the proxy if the server is older than 1.26 or renews none, as without its feature gate APIServerIdentity (auto). off: not even the address is added to the server's Lease."},
    {.name = "peer-advertise-ip", .type = OPTION_TEXT, FIELD(peer_advertise_ip), .initial = "", .section = SECTION, .argument = "IP",
     .help = "Address under which peers reach this proxy, written into the identity Lease together with peer-advertise-port. None: secure-port at bind-address or, if that is unspecified, at the default route's address; nothing on loopback. An API server that writes an address itself keeps its own."},
    {.name = "peer-advertise-port", .type = OPTION_NUMBER, FIELD(peer_advertise_port), .initial = "0", .min = 0, .max = 65535,
     .section = SECTION, .argument = "PORT", .help = "Port that belongs to peer-advertise-ip. 0: none is given."},
    {.name = "hostname-override", .type = OPTION_TEXT, FIELD(hostname_override), .initial = "", .restart = true, .section = SECTION, .argument = "NAME",
     .help = "Host name from which the server ID is made, if the local API server runs under another one. Each node has its own."},
    {.name = "etcd-servers", .type = OPTION_LIST, FIELD(etcd_servers), .initial = "", .section = SECTION, .argument = "URL,...",
     .help = "etcd of the cluster, whose peer endpoint records are read and written as kube-apiserver 1.36 does; several endpoints of one etcd cluster, https:// or http://. None: only Lease annotations say where peers are. Until the Leases could be read for the first time, as when the local API server is away at the start, records also say who the peers are."},
    {.name = "etcd-cafile", .type = OPTION_TEXT, FIELD(etcd_cafile), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "CA bundle for etcd's serving certificates, which must be valid for the hosts in etcd-servers. Required with https://."},
    {.name = "etcd-certfile", .type = OPTION_TEXT, FIELD(etcd_certfile), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "Client certificate for etcd."},
    {.name = "etcd-keyfile", .type = OPTION_TEXT, FIELD(etcd_keyfile), .initial = "", .section = SECTION, .argument = "FILE",
     .help = "Its private key."},
    {.name = "etcd-prefix", .type = OPTION_TEXT, FIELD(etcd_prefix), .initial = "/registry", .section = SECTION, .argument = "PREFIX",
     .help = "What kube-apiserver's keys in etcd begin with."},
#undef SECTION
#define SECTION "Discovery"
    {.name = "discovery-refresh-interval", .type = OPTION_DURATION, FIELD(discovery_refresh_interval), .initial = "30s", .min = 1000, .max = HOUR_MS,
     .section = SECTION, .argument = "DURATION", .help = "How often every server's discovery is read again (a conditional request); events make it at once."},
    {.name = "legacy-discovery", .type = OPTION_TEXT, FIELD(legacy_discovery), .initial = "auto", .choices = "auto|on|off", .section = SECTION,
     .argument = "WHEN", .help = "Whether discovery in its legacy form (/apis, /apis/GROUP, /api/v1, /apis/GROUP/VERSION) is completed with what only peers serve: while servers differ (auto; on means the same), or never (off: the local API server's answers as they are, and 503 while it is away). Where nothing differs they are not touched in any case."},
    {.name = "discovery-authz-ttl", .type = OPTION_DURATION, FIELD(discovery_authz_ttl), .initial = "10s", .min = 0, .max = HOUR_MS,
     .section = SECTION, .argument = "DURATION", .help = "How long the local API server's permission to read /apis is remembered per credential. 0: asked every time."},
#undef SECTION
#define SECTION "Shutdown"
    {.name = "shutdown-delay-duration", .type = OPTION_DURATION, FIELD(shutdown_delay_duration), .initial = "0s", .min = 0, .max = HOUR_MS, .section = SECTION,
     .argument = "DURATION", .help = "After SIGTERM: time to go on serving, unready, before the listener closes."},
    {.name = "shutdown-grace-period", .type = OPTION_DURATION, FIELD(shutdown_grace_period), .initial = "60s", .min = 0, .max = HOUR_MS, .section = SECTION,
     .argument = "DURATION", .help = "After that: time for requests to finish; watches end spread over it."},
#undef SECTION
#define SECTION "Operation"
    {.name = "admin-bind-address", .type = OPTION_TEXT, FIELD(admin_bind_address), .initial = "127.0.0.1:9443", .restart = true, .section = SECTION,
     .argument = "HOST:PORT", .help = "Where metrics and health are served: plain HTTP on loopback, TLS elsewhere, where metrics need a client certificate (docs/operate.md, Alerts) and probes HTTPS. While another process has that port, mvproxy serves clients without, and says so. Empty: nowhere."},
    {.name = "control-socket", .type = OPTION_TEXT, FIELD(control_socket), .initial = "/run/mvproxy/control.sock", .restart = true, .section = SECTION,
     .argument = "PATH", .help = "Unix socket of mvproxyctl, for whom its file mode (0600) lets. Where it cannot be made, mvproxy serves without it and says so; what is there and is no socket is never replaced, and refused. The probes of contrib/kubeadm's static pod ask there. Empty: none."},
    {.name = "v", .type = OPTION_NUMBER, FIELD(v), .initial = "2", .min = 0, .max = 10, .section = SECTION, .argument = "LEVEL",
     .help = "Verbosity of the log; each level shows what lower ones do, too. 0: errors, warnings and what operators have to know. 2: changes of state. 3: single requests and connections that fail or are refused. 4: connections that end, new snapshots. 5: connections that begin. 6: requests to the admin listener. No level shows every request: access-log does."},
    {.name = "logging-format", .type = OPTION_TEXT, FIELD(logging_format), .initial = "text", .choices = "text|json", .section = SECTION,
     .argument = "FORMAT", .help = "Form of log lines: klog text or JSON."},
    {.name = "access-log", .type = OPTION_LIST, FIELD(access_log), .initial = "", .section = SECTION, .argument = "FILTERS",
     .help = "Which requests get a line that says who asked what, the route taken and why, the peer by host name, status, bytes, time, and the Audit-ID under which kube-apiserver's audit log has it. all: every one. rerouted: those for resources that were sent on to a peer, or sent here by one. errors: those answered with 5xx or 429, and answers broken off by other than the client. slow=1s: those that took as long, watches and the like excepted. Several are combined: what one of them selects is written. true is all, false and none are nothing."},
    {.name = "access-log-sample", .type = OPTION_NUMBER, FIELD(access_log_sample), .initial = "1", .min = 1, .max = 1000000, .section = SECTION,
     .argument = "N", .help = "Of the requests that only the filter all selects, one in N is written; errors and what another filter names always are. It is drawn by the Audit-ID, so that every proxy on a request's way writes it or none does; who sends an Audit-ID of his own can pick one that is not drawn, so this is no log for security."},
    {.name = "access-log-user", .type = OPTION_BOOL, FIELD(access_log_user), .initial = "false", .section = SECTION, .argument = "BOOL",
     .help = "Name the user as well, where the proxy knows who it is: of client certificates and front proxies, not of tokens."},
#undef SECTION
    /* clang-format on */
};

const struct option *options_table(size_t *count)
{
    *count = sizeof(table) / sizeof(table[0]);
    return table;
}

const struct option *options_find(struct slice name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (slice_eq(name, slice_str(table[i].name)))
            return &table[i];
    return NULL;
}

size_t options_index(const struct option *o)
{
    return (size_t)(o - table);
}

void options_complain_unknown(struct buf *errors, const struct config_place *place, struct slice name)
{
    struct nearest n = nearest_to(name);

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        nearest_try(&n, table[i].name);
    config_complain(errors, place,
                    n.best == NULL ? "%.*s: unknown option: take it out (mvproxy --help names those that there are)"
                                   : "%.*s: unknown option: did you mean %s?",
                    (int)name.n, name.n == 0 ? "" : name.p, n.best);
}

/* ---- fields ---- */

#define FIELD_OF(c, o, type) (*(type *)(void *)((char *)(c) + (o)->offset))
#define CFIELD_OF(c, o, type) (*(const type *)(const void *)((const char *)(c) + (o)->offset))

static bool is_choice(const char *choices, struct slice v)
{
    struct slice rest = slice_str(choices), one;

    while (slice_split(&rest, '|', &one))
        if (slice_eq(one, v))
            return true;
    return false;
}

static bool no_memory(struct buf *errors)
{
    buf_append_str(errors, "out of memory\n");
    return false;
}

/* In YAML it can be written, and would be the end of the value. */
static bool has_nul(const struct option *o, struct slice text, const struct config_place *at, struct buf *errors)
{
    if (memchr(text.p, '\0', text.n) == NULL)
        return false;
    config_complain(errors, at, "%s: must not contain a NUL character: take it out", o->name);
    return true;
}

static bool set_text(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors)
{
    struct slice copy;

    if (has_nul(o, s->values[0], &s->places[0], errors))
        return false;
    if (o->choices != NULL && !is_choice(o->choices, s->values[0])) {
        config_complain(errors, &s->places[0], "%s: \"%.*s\" is not possible: give one of %s", o->name,
                        (int)s->values[0].n, s->values[0].p, o->choices);
        return false;
    }
    copy = arena_copy(c->arena, s->values[0]);
    if (copy.p == NULL)
        return no_memory(errors); /* what it was stays: the whole is checked all the same */
    FIELD_OF(c, o, const char *) = copy.p;
    return true;
}

static bool is_below_zero(struct slice text)
{
    uint64_t v;

    return text.n > 1 && text.p[0] == '-' && slice_u64(slice_from(text, 1), &v);
}

static bool set_number(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors)
{
    bool duration = o->type == OPTION_DURATION, below = !duration && is_below_zero(s->values[0]);
    char low[32], high[32];
    uint64_t v = 0;

    if (duration ? !clock_parse_duration(s->values[0], &v) : !below && !slice_u64(s->values[0], &v)) {
        config_complain(errors, &s->places[0], "%s: \"%.*s\" is not a %s", o->name, (int)s->values[0].n, s->values[0].p,
                        duration ? "duration: write it such as 1m30s" : "whole number: write it in digits alone");
        return false;
    }
    if (below || (v < o->min && !(v == 0 && o->or_zero)) || v > o->max) {
        clock_format_duration(o->min, low);
        clock_format_duration(o->max, high);
        if (!duration) {
            (void)snprintf(low, sizeof(low), "%llu", (unsigned long long)o->min);
            (void)snprintf(high, sizeof(high), "%llu", (unsigned long long)o->max);
        }
        config_complain(errors, &s->places[0], "%s: \"%.*s\" is out of range: give %s%s to %s", o->name,
                        (int)s->values[0].n, s->values[0].p, o->or_zero ? "0, or " : "", low, high);
        return false;
    }
    FIELD_OF(c, o, uint64_t) = v;
    return true;
}

static bool set_bool(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors)
{
    bool yes = slice_eq(s->values[0], SLICE_LIT("true"));

    if (!yes && !slice_eq(s->values[0], SLICE_LIT("false"))) {
        config_complain(errors, &s->places[0], "%s: \"%.*s\" is neither true nor false: give one of them", o->name,
                        (int)s->values[0].n, s->values[0].p);
        return false;
    }
    FIELD_OF(c, o, bool) = yes;
    return true;
}

static size_t count_items(const struct config_setting *s)
{
    size_t n = s->n_values;

    for (size_t i = 0; i < s->n_values; i++)
        for (size_t k = 0; k < s->values[i].n; k++)
            n += s->values[i].p[k] == ',';
    return n;
}

static bool next_item(struct slice *rest, bool whole, struct slice *item)
{
    if (!whole) {
        bool more = slice_split(rest, ',', item);

        *item = slice_trim(*item);
        return more;
    }
    if (rest->p == NULL)
        return false;
    *item = *rest;
    *rest = SLICE_NONE;
    return true;
}

static size_t count_list(const char *const *v)
{
    size_t n = 0;

    while (v != NULL && v[n] != NULL)
        n++;
    return n;
}

static const struct config_place *entry_place(const struct config *c, const struct option *o, size_t i)
{
    static const struct config_place nowhere;
    const struct config_origin *at = c->origins == NULL ? NULL : &c->origins[options_index(o)];

    return at == NULL || i >= at->n_entries ? &nowhere : &at->entries[i];
}

/* A sequence's items are taken whole; a scalar is split at commas, as kube-apiserver's flags are, if they separate. */
static bool set_list(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors)
{
    bool whole = s->is_list || o->type == OPTION_ITEMS;
    const char *const *old = o->type == OPTION_ITEMS ? FIELD_OF(c, o, const char *const *) : NULL;
    size_t n = count_list(old);
    const char **v = arena_alloc(c->arena, (n + count_items(s) + 1) * sizeof(*v));
    struct config_place *places = arena_zalloc(c->arena, (n + count_items(s) + 1) * sizeof(*places));

    if (v == NULL || places == NULL)
        return no_memory(errors);
    for (size_t i = 0; i < n; i++) {
        contract(old != NULL);
        v[i] = old[i];
        places[i] = *entry_place(c, o, i);
    }
    for (size_t i = 0; i < s->n_values; i++) {
        struct slice rest = s->values[i], item;

        while (next_item(&rest, whole, &item)) {
            struct slice copy;

            if (item.n == 0 && o->skips_empty)
                continue;
            if (item.n == 0) {
                config_complain(errors, &s->places[i], "%s: empty entry in the list: take it out, or a comma too many",
                                o->name);
                return false;
            }
            if (has_nul(o, item, &s->places[i], errors))
                return false;
            copy = arena_copy(c->arena, item);
            if (copy.p == NULL)
                return no_memory(errors);
            places[n] = s->places[i];
            v[n++] = copy.p;
        }
    }
    v[n] = NULL;
    if (c->origins != NULL) {
        c->origins[options_index(o)].entries = places;
        c->origins[options_index(o)].n_entries = n;
    }
    FIELD_OF(c, o, const char *const *) = v;
    return true;
}

void options_forget_items(struct config *c, const struct option *o)
{
    static const char *const none[] = {NULL};

    /* What comes instead may be refused, and the whole is checked all the same. */
    FIELD_OF(c, o, const char *const *) = none;
}

/* What a file holds, pasted where its name belongs: PEM, or PEM in base64 as kubeconfigs have it. It may be a key. */
static bool is_file_itself(struct slice v)
{
    static const char *const begins[] = {"-----BEGIN ", "LS0tLS1CRUdJTi"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (v.n > 0 && memmem(v.p, v.n, begins[i], strlen(begins[i])) != NULL)
            return true;
    return false;
}

/* A URL with a password, in whatever option: "scheme://user:password@host". */
static bool has_password(struct slice v)
{
    const char *at = v.n == 0 ? NULL : memmem(v.p, v.n, "://", 3);
    struct slice host;

    if (at == NULL)
        return false;
    host = slice_from(v, (size_t)(at + 3 - v.p));
    return slice_index(host, '@') < slice_index(host, '/');
}

/* No value has lines, and what is refused here is not repeated: neither in the log nor to who reloads. */
static bool may_be_shown(const struct option *o, const struct config_setting *s, struct buf *errors)
{
    for (size_t i = 0; i < s->n_values; i++) {
        if (is_file_itself(s->values[i])) {
            config_complain(errors, &s->places[i], "%s: this is a certificate or key: give the name of its file",
                            o->name);
            return false;
        }
        if (has_password(s->values[i])) {
            config_complain(errors, &s->places[i],
                            "%s: a user name or password has no place in it, and would not be sent: take it out",
                            o->name);
            return false;
        }
        for (size_t k = 0; k < s->values[i].n; k++) {
            if ((unsigned char)s->values[i].p[k] < ' ' && s->values[i].p[k] != '\0') {
                config_complain(errors, &s->places[i],
                                "%s: has control characters or several lines: give it as one line", o->name);
                return false;
            }
        }
    }
    return true;
}

bool options_set(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors)
{
    if (!may_be_shown(o, s, errors))
        return false;
    if (o->type == OPTION_LIST || o->type == OPTION_ITEMS)
        return set_list(c, o, s, errors);
    if (s->is_list || s->n_values != 1) {
        config_complain(errors, &s->place, "%s: takes a single value, not a list: give one", o->name);
        return false;
    }
    switch (o->type) {
    case OPTION_TEXT:
        return set_text(c, o, s, errors);
    case OPTION_BOOL:
        return set_bool(c, o, s, errors);
    case OPTION_NUMBER:
    case OPTION_DURATION:
        return set_number(c, o, s, errors);
    case OPTION_LIST:
    case OPTION_ITEMS:
        break;
    }
    return false;
}

static bool is_list(const struct option *o)
{
    return o->type == OPTION_LIST || o->type == OPTION_ITEMS;
}

bool options_set_defaults(struct config *c)
{
    struct config_place nowhere = {"default", 0, 0};
    struct buf errors;
    bool ok = true;

    buf_init(&errors, 4096);
    for (size_t i = 0; ok && i < sizeof(table) / sizeof(table[0]); i++) {
        struct slice value = slice_str(table[i].initial);
        struct config_setting s = {
            slice_str(table[i].name), &value, &nowhere, value.n == 0 && is_list(&table[i]) ? 0 : 1, nowhere, false};

        ok = options_set(c, &table[i], &s, &errors);
    }
    buf_free(&errors);
    return ok;
}

/* ---- output ---- */

enum { MDOC_LINE = 78 };

static void print_wrapped(FILE *f, struct slice text, size_t indent, size_t width)
{
    struct slice word;
    size_t column = 0;

    while (slice_split(&text, ' ', &word)) {
        bool first = column == 0, fits = column + 1 + word.n <= width;

        if (!first && fits)
            (void)fputc(' ', f);
        else
            fprintf(f, "%s%*s", first ? "" : "\n", (int)indent, "");
        column = (!first && fits ? column + 1 : indent) + word.n;
        (void)fwrite(word.p, 1, word.n, f);
    }
    (void)fputc('\n', f);
}

void options_print_help(FILE *f)
{
    const char *section = "";

    fputs("Usage: mvproxy [--config FILE] [--OPTION=VALUE ...] [-t] [--dump-config] [--version] [--help]\n"
          "\n"
          "Mixed Version Proxy in front of one kube-apiserver.\n"
          "\n"
          "  --config FILE\n"
          "      Configuration file: the options below as YAML keys. Default " CONFIG_DIRECTORY "/mvproxy.yaml.\n"
          "      The command line wins over the file.\n"
          "  -t\n"
          "      Check the configuration, with everything it names, and exit.\n"
          "  --dump-config\n"
          "      Print the effective configuration and exit.\n",
          f);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct option *o = &table[i];

        if (strcmp(section, o->section) != 0)
            fprintf(f, "\n%s\n", o->section);
        section = o->section;
        fprintf(f, "  --%s=%s", o->name, o->argument);
        if (o->initial[0] != '\0')
            fprintf(f, " [%s]", o->initial);
        fputc('\n', f);
        print_wrapped(f, slice_str(o->help), 6, 100);
    }
}

/* What a YAML file may not hold as it is (YAML 1.1, 5.1), or would take for the end of a line. */
static bool is_unprintable(uint32_t code)
{
    return (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe ||
           code == 0xffff;
}

/* YAML's double-quoted style takes anything, some of it escaped. */
static void append_quoted(struct buf *out, const char *text)
{
    size_t n;

    buf_append_char(out, '"');
    for (struct slice rest = slice_str(text); rest.n > 0; rest = slice_from(rest, n)) {
        uint32_t code;

        n = utf8_next(rest, &code);
        if (n > 0 && is_unprintable(code)) {
            buf_printf(out, "\\u%04x", code);
        } else {
            n = n > 0 ? n : 1;
            buf_append_json(out, slice_of(rest.p, n));
        }
    }
    buf_append_char(out, '"');
}

static void append_list(struct buf *out, const char *const *v)
{
    buf_append_char(out, '[');
    for (size_t i = 0; v[i] != NULL; i++) {
        buf_append_str(out, i == 0 ? "" : ", ");
        append_quoted(out, v[i]);
    }
    buf_append_char(out, ']');
}

bool options_append_value(struct buf *out, const struct config *c, const struct option *o)
{
    char duration[32];

    switch (o->type) {
    case OPTION_TEXT:
        append_quoted(out, CFIELD_OF(c, o, char *const));
        break;
    case OPTION_NUMBER:
        buf_append_u64(out, CFIELD_OF(c, o, uint64_t));
        break;
    case OPTION_DURATION:
        clock_format_duration(CFIELD_OF(c, o, uint64_t), duration);
        buf_append_str(out, duration);
        break;
    case OPTION_BOOL:
        buf_append_str(out, CFIELD_OF(c, o, bool) ? "true" : "false");
        break;
    case OPTION_LIST:
    case OPTION_ITEMS:
        append_list(out, CFIELD_OF(c, o, char *const *const));
        break;
    }
    return !out->failed;
}

/* As encoding/csv writes a field, which pflag prints a list with. */
static void append_csv(struct buf *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL && text[0] != ' ' && text[0] != '\t' && strcmp(text, "\\.") != 0) {
        buf_append_str(out, text);
        return;
    }
    buf_append_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            buf_append_char(out, '"');
        buf_append_char(out, *text);
    }
    buf_append_char(out, '"');
}

bool options_append_flag(struct buf *out, const struct config *c, const struct option *o)
{
    const char *const *v;

    if (o->type == OPTION_TEXT)
        return buf_append_str(out, CFIELD_OF(c, o, char *const));
    if (!is_list(o))
        return options_append_value(out, c, o);
    v = CFIELD_OF(c, o, char *const *const);
    buf_append_char(out, '[');
    for (size_t i = 0; v[i] != NULL; i++) {
        if (i > 0)
            buf_append_char(out, o->type == OPTION_ITEMS ? ';' : ',');
        if (o->type == OPTION_ITEMS)
            buf_append_str(out, v[i]);
        else
            append_csv(out, v[i]);
    }
    return buf_append_char(out, ']');
}

const struct option *options_next_name(const char *name)
{
    const struct option *next = NULL;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].name, name) > 0 && (next == NULL || strcmp(table[i].name, next->name) < 0))
            next = &table[i];
    return next;
}

uint64_t options_hash(const struct config *c)
{
    unsigned char digest[HASH_SHA256_BYTES];
    uint64_t number = 0;
    struct buf text;

    buf_init(&text, 1 << 22);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        buf_printf(&text, "%s: ", table[i].name);
        (void)options_append_value(&text, c, &table[i]);
        buf_append_char(&text, '\n');
    }
    /* What a double, which is what a metric's value is, holds exactly. */
    if (!text.failed && hash_sha256(buf_slice(&text), digest))
        for (size_t i = 0; i < 6; i++)
            number = number << 8 | digest[i];
    buf_free(&text);
    return number;
}

void options_print_config(FILE *f, const struct config *c)
{
    const char *section = "";
    struct buf value;

    buf_init(&value, 1 << 20);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(section, table[i].section) != 0)
            fprintf(f, "%s# %s\n", i == 0 ? "" : "\n", table[i].section);
        section = table[i].section;
        buf_reset(&value);
        (void)options_append_value(&value, c, &table[i]);
        fprintf(f, "%s: %.*s\n", table[i].name, (int)buf_len(&value), buf_len(&value) == 0 ? "" : buf_slice(&value).p);
    }
    buf_free(&value);
}

/* mdoc wants each sentence to begin a line, and none of more than 80 bytes. */
static void print_sentences(FILE *f, const char *text)
{
    for (const char *at; (at = strstr(text, ". ")) != NULL; text = at + 2)
        print_wrapped(f, slice_of(text, (size_t)(at - text) + 1), 0, MDOC_LINE);
    print_wrapped(f, slice_str(text), 0, MDOC_LINE);
}

void options_print_mdoc(FILE *f)
{
    const char *section = "";

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct option *o = &table[i];

        if (strcmp(section, o->section) != 0)
            fprintf(f, "%s.Ss %s\n.Bl -tag -width Ds\n", i == 0 ? "" : ".El\n", o->section);
        section = o->section;
        fprintf(f, ".It Ic %s : Ar %s\n", o->name, o->argument);
        print_sentences(f, o->help);
        if (o->restart)
            fputs("A reload cannot change it.\n", f);
        if (o->initial[0] != '\0')
            fprintf(f, "Default: %s\n", o->initial);
    }
    fputs(".El\n", f);
}

void options_print_markdown(FILE *f)
{
    const char *section = "";

    fputs("# Configure\n\n"
          "All options, as keys of `/etc/mvproxy/mvproxy.yaml` or as `--OPTION=VALUE` on the command line, which wins. "
          "This page is made by\n"
          "`mvproxy --print-options-markdown` out of the program's own table; `mvproxy -t` says what is wrong with a "
          "configuration, `mvproxyctl reload`\n"
          "brings a new one into force, and `mvproxyctl config` shows what is in force and where each value comes "
          "from.\n",
          f);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct option *o = &table[i];

        if (strcmp(section, o->section) != 0)
            fprintf(f, "\n## %s\n\n| option | default | meaning |\n| --- | --- | --- |\n", o->section);
        section = o->section;
        fprintf(f, "| `%s: ", o->name);
        for (const char *p = o->argument; *p != '\0'; p++)
            (void)(*p == '|' ? fputs("\\|", f) : fputc(*p, f));
        fprintf(f, "` | %s%s%s | %s%s |\n", o->initial[0] == '\0' ? "" : "`", o->initial,
                o->initial[0] == '\0' ? "" : "`", o->help, o->restart ? " A reload cannot change it." : "");
    }
}

static bool same_list(const char *const *a, const char *const *b)
{
    size_t i = 0;

    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

static bool same_value(const struct config *a, const struct config *b, const struct option *o)
{
    switch (o->type) {
    case OPTION_TEXT:
        return strcmp(CFIELD_OF(a, o, char *const), CFIELD_OF(b, o, char *const)) == 0;
    case OPTION_BOOL:
        return CFIELD_OF(a, o, bool) == CFIELD_OF(b, o, bool);
    case OPTION_NUMBER:
    case OPTION_DURATION:
        return CFIELD_OF(a, o, uint64_t) == CFIELD_OF(b, o, uint64_t);
    case OPTION_LIST:
    case OPTION_ITEMS:
        return same_list(CFIELD_OF(a, o, char *const *const), CFIELD_OF(b, o, char *const *const));
    }
    return true;
}

void options_restart_needed(const struct config *a, const struct config *b, struct buf *names)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].restart && !same_value(a, b, &table[i]))
            buf_printf(names, "%s%s", buf_len(names) == 0 ? "" : ", ", table[i].name);
}
