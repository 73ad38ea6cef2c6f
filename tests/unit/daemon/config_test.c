/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files and command lines: what they mean, and what is said of the wrong ones.
 */
#include "daemon/config_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "daemon/flags.h"
#include "daemon/options.h"
#include "lib/tap.h"

/* Enough to be complete. */
#define BASE "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\n"

static char path[64];

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");

    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("cannot write %s", path);
}

/* The configuration, or NULL with the complaints, the temporary path replaced by "F". */
static struct config *load(const char *text, char *const *argv, char *complaints, size_t size)
{
    struct arena *a = arena_new(1 << 20);
    struct buf errors;
    struct flags flags = {0};
    struct config *c = NULL;
    size_t at = 0;
    int argc = 1;

    write_file(text);
    buf_init(&errors, 1 << 20);
    while (argv != NULL && argv[argc] != NULL)
        argc++;
    if (argv == NULL || flags_parse(argc, argv, a, &flags, &errors))
        c = config_load(path, flags.settings, flags.n, &errors);
    for (struct slice rest = buf_slice(&errors); rest.n > 0 && at + 2 < size;) {
        if (slice_has_prefix(rest, slice_str(path))) {
            complaints[at++] = 'F';
            rest = slice_from(rest, strlen(path));
        } else {
            complaints[at++] = rest.p[0];
            rest = slice_from(rest, 1);
        }
    }
    complaints[at] = '\0';
    buf_free(&errors);
    /* Settings of the command line live in the arena only until they are applied. */
    arena_free(a);
    return c;
}

static const struct {
    const char *name, *text, *complaints;
} wrong[] = {
    {"unknown option", BASE "bind-adress: x\n", "F:4:1: bind-adress: unknown option: did you mean bind-address?\n"},
    {"repeated option", BASE "v: 1\nsecure-port: 1\nv: 2\n",
     "F:6:1: v: repeated, first given in line 4: keep one of them\n"},
    {"option that is there thrice", BASE "v: 1\nv: 2\nv: 3\n",
     "F:5:1: v: repeated, first given in line 4: keep one of them\nF:6:1: v: repeated, first given in line 4: keep one "
     "of them\n"},
    {"no cipher suite", BASE "tls-cipher-suites: [TLS_X]\n",
     "F:4:21: tls-cipher-suites: \"TLS_X\" is not a cipher suite that kube-apiserver knows: write it such as "
     "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"},
    {"suites that are not there", BASE "tls-cipher-suites: [TLS_RSA_WITH_RC4_128_SHA]\n",
     "F:4:1: tls-cipher-suites: the TLS library here has none of them: give others, or none\n"},
    {"false beside filters", BASE "access-log: [\"false\", errors]\n",
     "F:4:1: access-log: false goes with no filter: take it out, or the others\n"},
    {"two filters that are none", BASE "access-log: [slow=x, \"status=9\"]\n",
     "F:4:14: access-log: \"slow=x\" has no duration: write it such as slow=1s\nF:4:22: access-log: \"status=9\" is no "
     "filter: give all, rerouted, errors or slow=DURATION\n"},
    {"a list within a list", BASE "peers: [[a]]\n",
     "F:4:9: peers: a list within a list: write its entries into the outer one\n"},
    {"a NUL", BASE "hostname-override: \"a\\0b\"\n",
     "F:4:20: hostname-override: must not contain a NUL character: take it out\n"},
    {"a NUL in a list", BASE "peers: [\"cp-b=10.0.0.2:6443\", \"a\\0b=1.2.3.4:5\"]\n",
     "F:4:31: peers: must not contain a NUL character: take it out\n"},
    {"a NUL alone", BASE "requestheader-allowed-names: \"a,\\0\"\n",
     "F:4:30: requestheader-allowed-names: must not contain a NUL character: take it out\n"},
    {"number that is none", BASE "secure-port: abc\n",
     "F:4:14: secure-port: \"abc\" is not a whole number: write it in digits alone\n"},
    {"negative number", BASE "secure-port: -1\n", "F:4:14: secure-port: \"-1\" is out of range: give 0 to 65535\n"},
    {"number out of range", BASE "secure-port: 65536\n",
     "F:4:14: secure-port: \"65536\" is out of range: give 0 to 65535\n"},
    {"memory in MiB instead of bytes", BASE "max-client-memory: 256\n",
     "F:4:20: max-client-memory: \"256\" is out of range: give 0, or 8388608 to 1125899906842624\n"},
    {"memory that is nearly enough", BASE "max-client-memory: 8388607\n",
     "F:4:20: max-client-memory: \"8388607\" is out of range: give 0, or 8388608 to 1125899906842624\n"},
    {"duration that is none", BASE "client-idle-timeout: 10\n",
     "F:4:22: client-idle-timeout: \"10\" is not a duration: write it such as 1m30s\n"},
    {"duration out of range", BASE "discovery-refresh-interval: 1ms\n",
     "F:4:29: discovery-refresh-interval: \"1ms\" is out of range: give 1s to 1h0m0s\n"},
    {"bool that is none", BASE "local-failover: yes\n",
     "F:4:17: local-failover: \"yes\" is neither true nor false: give one of them\n"},
    {"no such choice", BASE "logging-format: xml\n",
     "F:4:17: logging-format: \"xml\" is not possible: give one of text|json\n"},
    {"list for a scalar", BASE "v: [1, 2]\n", "F:4:1: v: takes a single value, not a list: give one\n"},
    {"empty item", BASE "peer-allowed-cidrs: 10.0.0.0/8,,::1\n",
     "F:4:21: peer-allowed-cidrs: empty entry in the list: take it out, or a comma too many\n"},
    {"value missing", BASE "v:\n", "F:4:3: v: value missing: give one, or take the option out\n"},
    {"nested mapping", BASE "v:\n  x: 1\n", "F:5:3: v: must be a value, not a mapping: write \"v: LEVEL\"\n"},
    {"mapping for a list", BASE "peers:\n  x: 1\n",
     "F:5:3: peers: must be a list, not a mapping: write \"peers: [ID=HOST:PORT,...]\"\n"},
    {"mappings in a list", BASE "peers:\n- x: 1\n",
     "F:5:3: peers: must be a list, not a mapping: write \"peers: [ID=HOST:PORT,...]\"\n"},
    {"mapping for nothing known", BASE "nonsense:\n  x: 1\n",
     "F:5:3: nonsense: must be a value, not a mapping: write \"nonsense: VALUE\"\n"
     "F:4:1: nonsense: unknown option: take it out (mvproxy --help names those that there are)\n"},
    {"alias", "tls-cert-file: &a c\ntls-private-key-file: *a\n",
     "F:2:23: aliases are not supported: write the value itself, in quotes if it begins with \"*\"\n"},
    {"two documents", BASE "---\nv: 1\n",
     "F:4:1: a second document begins here: give one, without \"---\" in between\n"},
    {"not a mapping", "- a\n- b\n", "F:1:1: not options and their values: write \"OPTION: VALUE\", a line each\n"},
    {"a lone word", "hello\n", "F:1:1: not options and their values: write \"OPTION: VALUE\", a line each\n"},
    {"bad YAML", "v: \"1\n", "F:1:4: the quote that opens here does not end: close it\n"},
    {"several at once", BASE "v: x\nnope: 1\nlocal-failover: 7\n",
     "F:4:4: v: \"x\" is not a whole number: write it in digits alone\nF:5:1: nope: unknown option: take it out "
     "(mvproxy --help names those that there are)\nF:6:17: local-failover: \"7\" is neither true nor false: give one "
     "of them\n"},
    {"what is required", "v: 1\n",
     "tls-cert-file: is required: give kube-apiserver's serving certificate\ntls-private-key-file: is required: give "
     "kube-apiserver's serving key\napiserver-ca-file: is required: give the CA of kube-apiserver's serving "
     "certificate\n"},
    {"a name that is none", BASE "apiserver-tls-server-name: \"\"\n",
     "F:4:1: apiserver-tls-server-name: is required: give a name in its certificate such as kubernetes.default.svc\n"},
    {"a user that no header has", BASE "apiserver-user: \" x\"\n",
     "F:4:1: apiserver-user: begins or ends with a blank, or has a control character, which no header to an API "
     "server can have: take it out\n"},
    {"groups that no header has", BASE "apiserver-groups: [a, \"g \", \"g\\x7f\", a b, \xc3\xbc]\n",
     "F:4:23: apiserver-groups: begins or ends with a blank, or has a control character, which no header to an API "
     "server can have: take it out\n"
     "F:4:29: apiserver-groups: begins or ends with a blank, or has a control character, which no header to an API "
     "server can have: take it out\n"},
    {"half a pair", BASE "proxy-client-cert-file: x\n",
     "F:4:1: proxy-client-key-file: is required together with proxy-client-cert-file: give its key\n"},
    {"itself behind it", BASE "bind-address: 0.0.0.0\n",
     "apiserver: is this proxy itself (bind-address, secure-port): let kube-apiserver listen on another address or "
     "port\n"},
    {"itself as the admin listener", BASE "bind-address: [10.0.0.1, 127.0.0.1:9443]\n",
     "admin-bind-address: clients are served there (bind-address, secure-port): choose another port\n"},
    {"no address to listen on", BASE "bind-address: cp-a\n",
     "F:4:15: bind-address: \"cp-a\" is not an IP address, alone or with a port: give one of this machine\n"},
    {"itself as the API server, by the admin listener", BASE "admin-bind-address: localhost:6443\n",
     "apiserver: is this proxy itself (admin-bind-address): let kube-apiserver listen on another address or port\n"},
    {"the admin listener's default as the API server", BASE "apiserver: https://127.0.0.1:9443\n",
     "F:4:1: apiserver: is this proxy itself (admin-bind-address): let kube-apiserver listen on another address or "
     "port\n"},
    {"the admin listener where one of several is", BASE "bind-address: 10.0.0.1\nadmin-bind-address: 0.0.0.0:6443\n",
     "F:5:1: admin-bind-address: clients are served there (bind-address, secure-port): choose another port\n"},
    {"itself as a peer, by the admin listener", BASE "peers:\n- cp-b=10.0.0.2:6443\n- cp-c=127.0.0.1:9443\n",
     "F:6:3: peers: cp-c=127.0.0.1:9443 is the address of this proxy itself (admin-bind-address): take it out, or give "
     "that of the "
     "peer\n"},
    {"the API server as a peer", BASE "peers: [\"cp-b=[::ffff:127.0.0.1]:6443\", \"cp-c=10.0.0.2:6443\"]\n",
     "F:4:9: peers: cp-b=[::ffff:127.0.0.1]:6443 is the address of the local API server, too (apiserver): give each "
     "its own\n"},
    {"the API server as etcd by its name", BASE "etcd-servers: http://LOCALHOST:6443\n",
     "F:4:15: etcd-servers: http://LOCALHOST:6443 is the API server (apiserver): give etcd's client URL\n"},
    {"itself as etcd", BASE "etcd-servers: [http://10.0.0.2:2379, http://127.0.0.1:9443]\n",
     "F:4:38: etcd-servers: http://127.0.0.1:9443 is this proxy itself (admin-bind-address): give etcd's client "
     "URL\n"},
    {"the API server as etcd", BASE "etcd-servers: http://127.0.0.1:6443\n",
     "F:4:15: etcd-servers: http://127.0.0.1:6443 is the API server (apiserver): give etcd's client URL\n"},
    {"an address that is served already", BASE "bind-address: [\"::\", 10.0.0.1]\n",
     "F:4:22: bind-address: \"::\" and \"10.0.0.1\" overlap, so that only one can be bound: take one out\n"},
    {"etcd's prefix without a slash", BASE "etcd-servers: http://10.0.0.2:2379\netcd-prefix: registry\n",
     "F:5:1: etcd-prefix: \"registry\" is not how kube-apiserver's keys begin: put a \"/\" before it, and none behind "
     "it\n"},
    {"a header of HTTP itself", BASE "requestheader-group-headers: [X-Group, x-forwarded-for]\n",
     "F:4:40: requestheader-group-headers: \"x-forwarded-for\" means something else in HTTP: give a header for "
     "identities, such as X-Remote-User\n"},
    {"what would have Impersonate-* removed", BASE "requestheader-uid-headers: [X-Id, impersonate_uid]\n",
     "F:4:35: requestheader-uid-headers: \"impersonate_uid\" would have Impersonate-* or Sec-WebSocket-* removed from "
     "requests: give a header for identities, such as X-Remote-User\n"},
    {"a prefix that would", BASE "requestheader-extra-headers-prefix: [X-Remote-Extra-, I]\n",
     "F:4:55: requestheader-extra-headers-prefix: \"I\" would have Impersonate-* or Sec-WebSocket-* removed from "
     "requests: give a prefix for identities, such as X-Remote-Extra-\n"},
    {"what a number that is none is held against", BASE "secure-port: x\nbind-address: 0.0.0.0\n",
     "F:4:14: secure-port: \"x\" is not a whole number: write it in digits alone\n"},
    {"mistakes of every kind", BASE "secure-port: x\nnope: 1\npeers: [b]\nv:\ngoaway-chance: 1\n",
     "F:7:3: v: value missing: give one, or take the option out\n"
     "F:4:14: secure-port: \"x\" is not a whole number: write it in digits alone\n"
     "F:5:1: nope: unknown option: take it out (mvproxy --help names those that there are)\n"
     "F:6:9: peers: \"b\" is not ID=HOST:PORT: write it such as cp-b=10.0.0.2:6443\n"
     "F:8:1: goaway-chance: \"1\" is out of range: give 0 to 0.02\n"},
    {"a file that ends within one", "peers: [a=10.0.0.2:6443\n",
     "F:1:8: the bracket \"[\" that opens here does not end: close it with \"]\"\n"},
    {"no such filter", BASE "access-log: [all, erors]\n",
     "F:4:19: access-log: \"erors\" is no filter: did you mean errors?\n"},
    {"plain http", BASE "apiserver: http://127.0.0.1:6443\n",
     "F:4:1: apiserver: \"http://127.0.0.1:6443\" is not an https:// URL: write it such as https://127.0.0.1:6443\n"},
    {"no URL of etcd", BASE "etcd-servers: [10.0.0.1:2379]\n",
     "F:4:16: etcd-servers: \"10.0.0.1:2379\" is not an http:// or https:// URL: write it such as "
     "https://127.0.0.1:2379\n"},
    {"etcd without a CA", BASE "etcd-servers: https://10.0.0.1:2379\n",
     "F:4:1: etcd-cafile: is required for the https:// URLs of etcd-servers: give etcd's CA\n"},
    {"half a pair for etcd", BASE "etcd-servers: http://10.0.0.1\netcd-keyfile: x\n",
     "F:5:1: etcd-certfile: is required together with etcd-keyfile: give its certificate\n"},
    {"too many endpoints",
     BASE "etcd-servers: [http://a, http://b, http://c, http://d, http://e, http://f, http://g, http://h, http://i, "
          "http://j, http://k, http://l, http://m, http://n, http://o, http://p, http://q]\n",
     "F:4:1: etcd-servers: more than 16 endpoints: take some out\n"},
    {"half an address for peers", BASE "peer-advertise-ip: 10.0.0.1\n",
     "F:4:1: peer-advertise-ip: peer-advertise-ip and peer-advertise-port belong together: give both or none\n"},
    {"bad pairs, each by its own words", BASE "tls-sni-cert-key: [a, \"b,c:\"]\n",
     "F:4:20: tls-sni-cert-key: \"a\" is not CERT,KEY: write CERT,KEY or CERT,KEY:NAME,...\nF:4:23: tls-sni-cert-key: "
     "\"b,c:\" has nothing behind the colon, where names belong: add them, or take the colon out\n"},
    {"bad peer", BASE "peers: [a]\n", "F:4:9: peers: \"a\" is not ID=HOST:PORT: write it such as cp-b=10.0.0.2:6443\n"},
    {"bad peer address", BASE "peers: [a=b]\n", "F:4:9: peers: \"b\" has no port: write b:PORT\n"},
    {"a key where its file's name belongs",
     "tls-cert-file: c\nbind-address: 10.0.0.9\ntls-private-key-file: |\n  -----BEGIN PRIVATE KEY-----\n  secret\n",
     "F:3:23: tls-private-key-file: this is a certificate or key: give the name of its file\napiserver-ca-file: is "
     "required: give the CA of kube-apiserver's serving certificate\n"},
    {"one as kubeconfigs have it", BASE "proxy-client-key-file: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t\n",
     "F:4:24: proxy-client-key-file: this is a certificate or key: give the name of its file\n"},
    {"one in a list", BASE "tls-sni-cert-key: [\"a,-----BEGIN PRIVATE KEY----- secret\"]\n",
     "F:4:20: tls-sni-cert-key: this is a certificate or key: give the name of its file\n"},
    {"lines", BASE "audit-id: x\nhostname-override: \"a\\nb\"\n",
     "F:4:1: audit-id: unknown option: take it out (mvproxy --help names those that there are)\nF:5:20: "
     "hostname-override: has control characters or several lines: give it as one line\n"},
    {"a password for a peer", BASE "peers: [b=root:secret@10.0.0.1:6443]\n",
     "F:4:9: peers: a user name or password has no place in it, and would not be sent: take it out\n"},
    {"one in a URL where a number belongs", BASE "secure-port: https://root:secret@10.0.0.1:6443\n",
     "F:4:14: secure-port: a user name or password has no place in it, and would not be sent: take it out\n"},
    {"an @ behind the host is none", BASE "secure-port: https://10.0.0.1/x@y\n",
     "F:4:14: secure-port: \"https://10.0.0.1/x@y\" is not a whole number: write it in digits alone\n"},
    {"one in an address", BASE "trusted-proxies: [root:secret@10.0.0.0/8]\n",
     "F:4:19: trusted-proxies: a user name or password has no place in it, and would not be sent: take it out\n"},
    {"a token behind an address", BASE "apiserver: https://10.0.0.1/?token=secret\n",
     "F:4:1: apiserver: a query or fragment has no place in it, and would not be sent: take it out\n"},
    {"bad network", BASE "peer-allowed-cidrs: 10.0.0.0/33\n",
     "F:4:21: peer-allowed-cidrs: \"10.0.0.0/33\" is not a network: write it such as 10.0.0.0/8\n"},
    {"unknown gate", BASE "feature-gates: Foo=true\n",
     "F:4:1: feature-gates: unrecognized feature gate: Foo: take it out, or write "
     "UnknownVersionInteroperabilityProxy\n"},
    {"gate of another component", BASE "feature-gates: wardle:A=true\n",
     "F:4:1: feature-gates: component not registered: wardle: write kube, or leave it out\n"},
    {"gate without value", BASE "feature-gates: UnknownVersionInteroperabilityProxy\n",
     "F:4:1: feature-gates: missing bool value for UnknownVersionInteroperabilityProxy: write NAME=true or "
     "NAME=false\n"},
    {"forgotten before stale", BASE "peer-stale-after: 10m\n",
     "F:4:1: peer-forget-after: is shorter than peer-stale-after: give a longer one\n"},
    {"addresses and fractions of all kinds",
     BASE "apiserver: x\nadmin-bind-address: y\ngoaway-chance: 1\nfeature-gates: [Nope=true]\npeer-advertise-ip: z\n",
     "F:4:1: apiserver: \"x\" is not an https:// URL: write it such as https://127.0.0.1:6443\nF:5:1: "
     "admin-bind-address: \"y\" has no port: write y:PORT\nF:6:1: goaway-chance: \"1\" is out of range: give 0 to "
     "0.02\nF:7:1: feature-gates: unrecognized feature gate: Nope: take it out, or write "
     "UnknownVersionInteroperabilityProxy\nF:8:1: peer-advertise-ip: peer-advertise-ip and peer-advertise-port belong "
     "together: give both or none\n"},
    {"not a header name", BASE "requestheader-username-headers: \"a b\"\n",
     "F:4:33: requestheader-username-headers: \"a b\" is not a header's name: write it without blanks, as in "
     "X-Remote-User\n"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < ROWS(wrong); i++) {
        char complaints[2048];
        struct config *c = load(wrong[i].text, NULL, complaints, sizeof(complaints));

        is_null(c, "%s is refused", wrong[i].name);
        is_str(complaints, wrong[i].complaints, "%s is named", wrong[i].name);
        config_free(c);
    }
}

static void test_good(void)
{
    char complaints[1024];
    struct config *c =
        load(BASE "# a comment\npeers: a=10.0.0.1:6443,b=[fd00::1]:6443\nrequestheader-allowed-names: [\"a,b\", "
                  "c]\nclient-idle-timeout: 1m30s\nlegacy-discovery: on\naccess-log: errors,slow=1500ms\nv: 4\n",
             NULL, complaints, sizeof(complaints));

    is_str(complaints, "", "a good file has no complaints");
    if (c == NULL)
        tap_bail("not loaded");
    is_str(c->tls_cert_file, "c", "text");
    is_u64(c->secure_port, 6443, "default number");
    is_u64(c->client_idle_timeout, 90000, "duration");
    is_u64(c->request_timeout, 0, "what kube-apiserver would still answer is waited for by default");
    is_str(c->peers[1], "b=[fd00::1]:6443", "a scalar list is split at commas");
    is_str(c->requestheader_allowed_names[0], "a,b", "a sequence's items are taken whole");
    is_str(c->requestheader_allowed_names[1], "c", "all of them");
    is_null(c->requestheader_allowed_names[2], "and no more");
    is_str(c->legacy_discovery, "on", "a choice");
    is_str(c->access_log[1], "slow=1500ms", "filters");
    is_str(c->requestheader_username_headers[0], "X-Remote-User", "default list");
    config_free(c);
}

/* As with kube-apiserver, nothing between commas is nothing. */
static void test_empty_gates(void)
{
    static const char *const texts[] = {"feature-gates: ',AllBeta=false, ,'\n", "feature-gates: ''\n",
                                        "feature-gates: []\n"};
    char complaints[1024];

    for (size_t i = 0; i < ROWS(texts); i++) {
        char text[512];
        struct config *c;

        (void)snprintf(text, sizeof(text), BASE "%s", texts[i]);
        c = load(text, NULL, complaints, sizeof(complaints));
        if (c == NULL)
            tap_bail("%s", complaints);
        is_str(c->feature_gates[0], i == 0 ? "AllBeta=false" : NULL, "%s: what there is", texts[i]);
        ok(c->feature_gates[0] == NULL || c->feature_gates[1] == NULL, "and nothing else");
        config_free(c);
    }
}

/* As long as it may be, and one character more. */
/* `most` characters are taken, and one more is not. */
static void longest(const char *option, const char *begin, size_t most, const char *said)
{
    static char text[16384], complaints[2048];
    struct config *c;

    for (size_t n = most; n <= most + 1; n++) {
        int used = snprintf(text, sizeof(text), BASE "%s: %s", option, begin);

        memset(text + used, 'r', n - strlen(begin));
        (void)snprintf(text + used + n - strlen(begin), 2, "\n");
        c = load(text, NULL, complaints, sizeof(complaints));
        is_int(c != NULL, n == most, "%s of %zu characters", option, n);
        is_str(complaints, c != NULL ? "" : said, "what is said of it");
        config_free(c);
    }
}

static void test_long(void)
{
    longest("etcd-prefix", "/", LIMIT_ETCD_PREFIX_BYTES,
            "F:4:1: etcd-prefix: longer than 1024 characters: give kube-apiserver's --etcd-prefix\n");
    longest("apiserver-tls-server-name", "", 255,
            "F:4:1: apiserver-tls-server-name: longer than 255 characters, the most in TLS: give a name in its "
            "certificate such as kubernetes.default.svc\n");
    longest("apiserver-user", "", 8192,
            "F:4:1: apiserver-user: longer than 8192 characters: give a user such as system:apiserver\n");
    longest("apiserver-groups", "", 8192,
            "F:4:1: apiserver-groups: longer than 8192 characters in all: take some out\n");
}

static void test_many_groups(void)
{
    char text[1024], complaints[2048];
    struct config *c;

    for (size_t n = 63; n <= 64; n++) {
        int used = snprintf(text, sizeof(text), BASE "apiserver-groups: g");

        for (size_t i = 1; i < n; i++)
            used += snprintf(text + used, sizeof(text) - (size_t)used, ",g");
        (void)snprintf(text + used, sizeof(text) - (size_t)used, "\n");
        c = load(text, NULL, complaints, sizeof(complaints));
        is_int(c != NULL, n == 63, "%zu groups", n);
        is_str(complaints, c != NULL ? "" : "F:4:1: apiserver-groups: more than 63 groups: take some out\n",
               "what is said of them");
        config_free(c);
    }
}

static void test_command_line(void)
{
    char *const argv[] = {(char[]){"mvproxy"}, (char[]){"--secure-port=1234"}, (char[]){"-v"},
                          (char[]){"7"},       (char[]){"--access-log-user"},  NULL};
    char *const bad[] = {(char[]){"mvproxy"}, (char[]){"--v=x"}, (char[]){"--local-failover=yes"}, NULL};
    char *const worse[] = {(char[]){"mvproxy"}, (char[]){"word"}, (char[]){"--v"}, NULL};
    char *const bare[] = {(char[]){"mvproxy"}, (char[]){"-"}, (char[]){"--=x"}, (char[]){"--"}, NULL};
    char *const missing[] = {(char[]){"mvproxy"}, (char[]){"--v"}, NULL};
    char *const items[] = {(char[]){"mvproxy"}, (char[]){"--tls-sni-cert-key=b,k"}, (char[]){"--tls-sni-cert-key=c,k"},
                           NULL};
    char *const unnamed[] = {(char[]){"mvproxy"}, (char[]){"--config="}, (char[]){"--v=x"}, NULL};
    char *const unknown[] = {(char[]){"mvproxy"},   (char[]){"--confg"},  (char[]){"file.yaml"},
                             (char[]){"--verison"}, (char[]){"--nope=1"}, NULL};
    char complaints[1024];
    struct config *c = load(BASE "secure-port: 99\n", argv, complaints, sizeof(complaints));

    if (c == NULL)
        tap_bail("%s", complaints);
    is_u64(c->secure_port, 1234, "the command line wins over the file");
    is_u64(c->v, 7, "a value may be the next argument");
    ok(c->access_log_user, "a bare bool flag is true");
    config_free(c);
    c = load(BASE, bad, complaints, sizeof(complaints));
    is_null(c, "a bad command line is refused");
    is_str(complaints,
           "command line: v: \"x\" is not a whole number: write it in digits alone\ncommand line: local-failover: "
           "\"yes\" is neither true nor false: give one of them\n",
           "and named");
    c = load(BASE, worse, complaints, sizeof(complaints));
    is_null(c, "a malformed command line is refused");
    is_str(complaints,
           "command line: \"word\": unexpected argument: options begin with --, and commands are mvproxyctl's\ncommand "
           "line: --v: value missing: "
           "write --v=VALUE\n",
           "and all of it is named");
    c = load(BASE, bare, complaints, sizeof(complaints));
    is_null(c, "what names no option is refused");
    is_str(
        complaints,
        "command line: \"-\": unexpected argument: options begin with --\ncommand line: \"--=x\": unexpected argument: "
        "options begin with --\ncommand line: \"--\": unexpected argument: options begin with --\n",
        "and named");
    c = load(BASE, missing, complaints, sizeof(complaints));
    is_null(c, "no value behind the last one");
    is_str(complaints, "command line: --v: value missing: write --v=VALUE\n", "which is named");
    c = load(BASE "tls-sni-cert-key: [\"a,k\"]\n", items, complaints, sizeof(complaints));
    if (c == NULL)
        tap_bail("%s", complaints);
    is_str(c->tls_sni_cert_key[0], "b,k", "an option that may be repeated");
    is_str(c->tls_sni_cert_key[1], "c,k", "and again");
    is_null(c->tls_sni_cert_key[2], "has what the command line has");
    config_free(c);
    c = load(BASE, unnamed, complaints, sizeof(complaints));
    is_null(c, "a file without a name");
    is_str(complaints, "command line: --config: the name is empty: give the path of a YAML file\n", "is named");
    c = load(BASE, unknown, complaints, sizeof(complaints));
    is_null(c, "unknown options are refused");
    is_str(complaints,
           "command line: --confg: unknown option: did you mean --config?\ncommand line: --verison: unknown option: "
           "did you mean --version?\ncommand line: --nope: unknown option: take it out (mvproxy --help names those "
           "that there are)\n",
           "each once, and what follows is not taken for an argument");
}

/* Whatever there is no memory for: it is refused, with a reason, or it is whole. */
static void test_memory(void)
{
    static const char text[] =
        BASE "peers: [a=10.0.0.1:6443, \"b=[fd00::1]:6443\"]\nclient-idle-timeout: 1m30s\naccess-log: errors,slow=1s\n"
             "requestheader-allowed-names: [\"a,b\", c]\nlocal-failover: false\ngoaway-chance: 0.01\n";
    uint64_t calls = 0;
    unsigned refused = 0;

    for (uint64_t nth = 0; nth <= calls; nth++) {
        struct buf errors;
        struct config *c;

        write_file(text);
        buf_init(&errors, 1 << 20);
        calls = nth == 0 ? mem_calls() : calls;
        mem_fail_nth(nth);
        c = config_load(path, NULL, 0, &errors);
        mem_fail_nth(0);
        calls = nth == 0 ? mem_calls() - calls : calls;
        refused += c == NULL;
        if (c == NULL)
            ok(errors.failed || (buf_len(&errors) > 0 &&
                                 memmem(errors.p + errors.start, buf_len(&errors), "out of memory", 13) != NULL),
               "allocation %u of %u fails: %.*s", (unsigned)nth, (unsigned)calls, (int)buf_len(&errors),
               buf_len(&errors) == 0 ? "" : errors.p + errors.start);
        else
            ok(c->peers[0] != NULL && c->peers[1] != NULL && c->peers[2] == NULL && c->client_idle_timeout == 90000 &&
                   c->access_log[1] != NULL && c->requestheader_allowed_names[1] != NULL && !c->local_failover,
               "allocation %u of %u is not missed", (unsigned)nth, (unsigned)calls);
        config_free(c);
        buf_free(&errors);
    }
    ok(refused > 3, "refused for %u of %u", refused, (unsigned)calls);
}

/* What is no file that could be read. */
static void test_other_files(void)
{
    static const struct {
        const char *name, *want;
    } rows[] = {{"/tmp", "not a regular file: give the path of a YAML file"},
                {"/dev/zero", "not a regular file: give the path of a YAML file"},
                {NULL, "larger than 1 MiB, which no configuration is: give the right file"}};
    char large[] = "/tmp/mvproxy-test-large-XXXXXX";
    int fd = mkstemp(large);

    if (fd < 0 || ftruncate(fd, (1 << 20) + 1) != 0)
        tap_bail("no file");
    (void)close(fd);
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *name = rows[i].name == NULL ? large : rows[i].name;
        char want[512];
        struct buf errors;

        buf_init(&errors, 4096);
        is_null(config_load(name, NULL, 0, &errors), "%s is refused", name);
        (void)snprintf(want, sizeof(want), "%s: %s\n", name, rows[i].want);
        is_slice(buf_slice(&errors), want, "in one clear line");
        buf_free(&errors);
    }
    (void)unlink(large);
}

static void test_missing_file(void)
{
    struct buf errors;

    buf_init(&errors, 4096);
    is_null(config_load("/nonexistent/mvproxy.yaml", NULL, 0, &errors), "a missing file is refused");
    is_slice(buf_slice(&errors), "/nonexistent/mvproxy.yaml: No such file or directory: give the path of a YAML file\n",
             "in one clear line");
    buf_free(&errors);
}

/* A folder that this user may not search, as after an install with umask 077. */
static void test_closed_folder(void)
{
    char closed[80], inside[96];
    int status = 0;
    pid_t child;

    (void)snprintf(closed, sizeof(closed), "%s.closed", path);
    (void)snprintf(inside, sizeof(inside), "%s/mvproxy.yaml", closed);
    if (mkdir(closed, 0700) != 0)
        tap_bail("mkdir");
    ok(!config_is_there(inside), "a file that is not there");
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        bool another = geteuid() == 0 ? setuid(65534) == 0 : chmod(closed, 0) == 0;

        _exit(another && config_is_there(inside) ? 0 : 1);
    }
    ok(waitpid(child, &status, 0) == child && status == 0, "whose folder is closed may be there");
    (void)snprintf(inside, sizeof(inside), "%s/x", path);
    ok(config_is_there(path) && !config_is_there(inside), "nothing is below a file");
    (void)rmdir(closed);
}

/* --dump-config is a configuration file that means the same. */
static void test_dump_round_trip(void)
{
    char complaints[1024], first[16384], second[16384];
    struct config *c = load(BASE "peers: a=10.0.0.1:6443\nclient-header-timeout: 1h\napiserver-user: \"a \\\"b\\\" "
                                 "\\u00e9 \\x84\\N\\u2028\\uFEFF\"\n",
                            NULL, complaints, sizeof(complaints));
    FILE *f;

    if (c == NULL)
        tap_bail("%s", complaints);
    for (int i = 0; i < 2; i++) {
        char *out = i == 0 ? first : second;

        f = fmemopen(out, sizeof(first), "w");
        options_print_config(f, c);
        fclose(f);
        config_free(c);
        c = load(out, NULL, complaints, sizeof(complaints));
        if (c == NULL)
            tap_bail("dumped file is refused: %s", complaints);
    }
    is_str(second, first, "the dump of a dump is the same");
    is_str(c->apiserver_user, "a \"b\" \xc3\xa9 \xc2\x84\xc2\x85\xe2\x80\xa8\xef\xbb\xbf", "quoting survives");
    config_free(c);
}

/* As pflag prints its flags. */
static void test_flag_form(void)
{
    static const struct {
        const char *name, *want;
    } rows[] = {
        {"tls-cert-file", "/a \"b\".crt"},
        {"client-header-timeout", "1m30s"},
        {"secure-port", "6443"},
        {"bind-address", "[]"},
        {"peers", "[a=10.0.0.1:6443,b=10.0.0.2:6443]"},
        {"egress-selector-config-file", ""},
        {"access-log-user", "true"},
        {"requestheader-allowed-names", "[\"x,y\",z,\" a\",\"\"\"\"]"},
        {"tls-sni-cert-key", "[/c,/k:a.example.com,b.example.com;/d,/l]"},
    };
    char complaints[1024];
    struct config *c = load("tls-cert-file: '/a \"b\".crt'\ntls-private-key-file: k\napiserver-ca-file: a\n"
                            "client-header-timeout: 90s\npeers: a=10.0.0.1:6443,b=10.0.0.2:6443\n"
                            "access-log-user: true\n"
                            "requestheader-allowed-names: ['x,y', z, ' a', '\"']\n"
                            "tls-sni-cert-key: ['/c,/k:a.example.com,b.example.com', '/d,/l']\n",
                            NULL, complaints, sizeof(complaints));
    const struct option *o = options_next_name("");
    size_t n, seen = 1;
    struct buf out;

    if (c == NULL)
        tap_bail("%s", complaints);
    buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_reset(&out);
        (void)options_append_flag(&out, c, options_find(slice_str(rows[i].name)));
        is_slice(buf_slice(&out), rows[i].want, "%s as a flag", rows[i].name);
    }
    for (const struct option *next; (next = options_next_name(o->name)) != NULL; o = next, seen++)
        if (strcmp(o->name, next->name) >= 0)
            ok(false, "%s comes before %s", o->name, next->name);
    (void)options_table(&n);
    is_u64(seen, n, "each is met once, in the order of names");
    buf_free(&out);
    config_free(c);
}

/* Each section has one heading, and each option its row. */
static void test_markdown(void)
{
    size_t headings = 0, rows = 0, n, sections = 0, bytes = 0;
    const struct option *o = options_table(&n);
    char *text = NULL;
    FILE *f = open_memstream(&text, &bytes);

    options_print_markdown(f);
    (void)fclose(f);
    for (size_t i = 0; i < n; i++)
        sections += i == 0 || strcmp(o[i].section, o[i - 1].section) != 0;
    for (const char *at = text; (at = strstr(at, "\n## ")) != NULL; at++)
        headings++;
    for (const char *at = text; (at = strstr(at, "\n| `")) != NULL; at++)
        rows++;
    is_u64(headings, sections, "a heading for each section");
    is_u64(rows, n, "a row for each option");
    free(text);
}

static void test_restart_needed(void)
{
    char complaints[1024];
    struct config *a = load(BASE, NULL, complaints, sizeof(complaints));
    struct config *b =
        load(BASE "secure-port: 1\nv: 9\nbind-address: 127.0.0.1\n", NULL, complaints, sizeof(complaints));
    struct buf names;

    buf_init(&names, 4096);
    options_restart_needed(a, b, &names);
    is_slice(buf_slice(&names), "bind-address, secure-port", "what a reload cannot change is named");
    buf_reset(&names);
    options_restart_needed(a, a, &names);
    is_u64(buf_len(&names), 0, "nothing changed");
    buf_free(&names);
    config_free(a);
    config_free(b);
}

static void test_table(void)
{
    size_t n;
    const struct option *t = options_table(&n);

    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(t[i].help);

        ok(len > 10 && t[i].help[len - 1] == '.' && t[i].argument != NULL && t[i].section != NULL, "%s is documented",
           t[i].name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(t[i].name, t[k].name) == 0 || t[i].offset == t[k].offset)
                ok(false, "%s and %s are different options", t[i].name, t[k].name);
    }
}

static size_t times(const char *text, const char *word)
{
    size_t n = 0;

    while ((text = strstr(text, word)) != NULL) {
        text++;
        n++;
    }
    return n;
}

static void test_print_mdoc(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        tap_bail("no memory");
    options_print_mdoc(f);
    fclose(f);
    ok(times(text, "\n.Bl ") > 3 && times(text, "\n.Bl ") == times(text, "\n.El\n"), "each list of the manual ends");
    ok(strcmp(text + n - 5, "\n.El\n") == 0, "also the last");
    free(text);
}

/* Each value is the first for which there is no memory, at some width. */
static bool is_said(size_t width, uint64_t nth, bool *loaded)
{
    struct config *c;
    struct buf errors;
    static char text[256 << 10];
    bool said;
    int w = (int)width;

    (void)snprintf(text, sizeof(text),
                   "tls-cert-file: %0*d\ntls-private-key-file: %0*d\napiserver-ca-file: %0*d\n"
                   "requestheader-allowed-names: [%0*d, %0*d]\n",
                   w, 1, w, 2, w, 3, w, 4, w, 5);
    write_file(text);
    buf_init(&errors, 1 << 20);
    if (!buf_append_char(&errors, '\n'))
        tap_bail("memory");
    mem_fail_nth(nth);
    c = config_load(path, NULL, 0, &errors);
    mem_fail_nth(0);
    *loaded = c != NULL;
    config_free(c);
    said = buf_append_char(&errors, '\0') && strstr(buf_slice(&errors).p, "out of memory\n") != NULL;
    buf_free(&errors);
    return said;
}

/* It is refused then, and the rest is looked at all the same. */
static void test_no_memory(void)
{
    for (size_t width = 1; width < 40000; width += 1000) {
        bool loaded = false;
        uint64_t nth = 0;

        while (!loaded && nth++ < 100)
            if (is_said(width, nth, &loaded) == loaded)
                break;
        ok(loaded && nth > 5, "width %zu, allocation %llu", width, (unsigned long long)nth);
    }
}

int main(void)
{
    (void)snprintf(path, sizeof(path), "/tmp/mvproxy-config-test-%ld", (long)getpid());
    test_wrong();
    test_good();
    test_empty_gates();
    test_long();
    test_many_groups();
    test_command_line();
    test_missing_file();
    test_closed_folder();
    test_other_files();
    test_memory();
    test_dump_round_trip();
    test_flag_form();
    test_restart_needed();
    test_markdown();
    test_table();
    test_print_mdoc();
    test_no_memory();
    (void)unlink(path);
    return tap_end();
}
