/* SPDX-License-Identifier: Apache-2.0 */
/* The egress selector's file: what is read, and what is wrong where. */
#include "daemon/egress.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/egress_proxy.h"

#define HEAD "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"
#define ALPHA "apiVersion: apiserver.k8s.io/v1alpha1\nkind: EgressSelectorConfiguration\n"
#define LIST HEAD "egressSelections:\n"
#define ONE(name) LIST "- name: " name "\n  connection:\n"
#define HTTP ONE("controlplane") "    proxyProtocol: HTTPConnect\n    transport:\n"
#define URL(url) HTTP "      tcp:\n        url: " url "\n"
#define TLS URL("https://10.0.0.1:3128") "        tlsConfig:\n"
#define PAIR "          clientCert: /c\n          clientKey: /k\n"

static const struct {
    const char *name, *text;
    const char *host; /* of controlplane; NULL: nothing is dialled through */
    unsigned port;
    bool tls;
} right[] = {
    /* clang-format off */
    {"no selection", HEAD, NULL, 0, false},
    {"an empty list", HEAD "egressSelections: []\n", NULL, 0, false},
    {"null for a list", HEAD "egressSelections:\n", NULL, 0, false},
    {"Direct", ONE("controlplane") "    proxyProtocol: Direct\n", NULL, 0, false},
    {"another selection", ONE("cluster") "    proxyProtocol: HTTPConnect\n    transport: {uds: {udsName: /run/p}}\n", NULL, 0, false},
    {"a Unix socket", HTTP "      uds:\n        udsName: /run/p.sock\n", "unix:/run/p.sock", 0, false},
    {"a word that is no number, and could be one", HTTP "      uds:\n        udsName: infinity\n", "unix:infinity", 0, false},
    {"plain TCP", URL("http://10.0.0.1:3128"), "10.0.0.1", 3128, false},
    {"an IPv6 address", URL("http://[fd00::1]:3128/"), "fd00::1", 3128, false},
    {"a name, and what is behind it", URL("http://proxy.example.org:80/a?b#c"), "proxy.example.org", 80, false},
    {"TLS", TLS PAIR "          caBundle: /ca\n", "10.0.0.1", 3128, true},
    {"TLS with the system's roots and a name", TLS PAIR "          tlsServerName: proxy\n", "10.0.0.1", 3128, true},
    {"any case of the name", ONE("ControlPlane") "    proxyProtocol: HTTPConnect\n    transport: {uds: {udsName: /p}}\n", "unix:/p", 0, false},
    {"v1alpha1", ALPHA "egressSelections:\n- name: controlplane\n  connection: {proxyProtocol: Direct}\n", NULL, 0, false},
    {"v1alpha1 and master", ALPHA "egressSelections:\n- name: master\n  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: /p}}}\n", "unix:/p", 0, false},
    {"null is absent", URL("http://10.0.0.1:1") "        tlsConfig: ~\n      uds: null\n", "10.0.0.1", 1, false},
    {"GRPC where nothing of ours goes", ONE("cluster") "    proxyProtocol: GRPC\n    transport: {uds: {udsName: /p}}\n", NULL, 0, false},
    {"JSON", "{\"apiVersion\":\"apiserver.k8s.io/v1beta1\",\"kind\":\"EgressSelectorConfiguration\",\n\t\"egressSelections\":[{\"name\":\"controlplane\",\"connection\":{\"proxyProtocol\":\"HTTPConnect\",\"transport\":{\"tcp\":{\"url\":\"http://10.0.0.1:8131\"}}}},{\"name\":\"etcd\",\"connection\":{\"proxyProtocol\":\"Direct\"}}]}", "10.0.0.1", 8131, false},
    /* clang-format on */
};

static const struct {
    const char *name, *text, *complaints;
} wrong[] = {
    /* clang-format off */
    {"empty", "", "F:1:1: not an EgressSelectorConfiguration: give one, with apiVersion, kind and egressSelections\n"},
    {"a list", "- a\n", "F:1:1: not an EgressSelectorConfiguration: give one, with apiVersion, kind and egressSelections\n"},
    {"another kind", "apiVersion: apiserver.k8s.io/v1beta1\nkind: AdmissionConfiguration\n", "F:2:7: kind: must be EgressSelectorConfiguration, not \"AdmissionConfiguration\"\n"},
    {"no kind", "apiVersion: apiserver.k8s.io/v1beta1\n", "F:1:1: kind: must be EgressSelectorConfiguration, not \"\"\n"},
    {"another version", "apiVersion: apiserver.k8s.io/v1\nkind: EgressSelectorConfiguration\n", "F:1:13: apiVersion: must be apiserver.k8s.io/v1beta1 or v1alpha1, not \"apiserver.k8s.io/v1\"\n"},
    {"another group", "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n", "F:1:13: apiVersion: must be apiserver.k8s.io/v1beta1 or v1alpha1, not \"apiserver.config.k8s.io/v1beta1\"\n"},
    {"an unknown field", HEAD "metadata: {}\n", "F:3:1: unknown field \"metadata\": correct it, or take it out\n"},
    {"another case", HEAD "EgressSelections: []\n", "F:3:1: unknown field \"EgressSelections\": correct it, or take it out\n"},
    {"an unknown field inside", ONE("etcd") "    proxyProtocol: Direct\n  foo:\n    bar: baz\n", "F:7:3: unknown field \"foo\": correct it, or take it out\n"},
    {"a repeated field", ONE("etcd") "    proxyProtocol: Direct\n  connection:\n    proxyProtocol: Indirect\n", "F:7:3: connection: repeated, first given in line 5: keep one of them\n"},
    {"unknown fields at every depth", TLS PAIR "          x: 1\n        y: 1\n      z: 1\n    w: 1\n", "F:16:5: unknown field \"w\": correct it, or take it out\nF:15:7: unknown field \"z\": correct it, or take it out\nF:14:9: unknown field \"y\": correct it, or take it out\nF:13:11: unknown field \"x\": correct it, or take it out\n"},
    {"not a list", HEAD "egressSelections: {}\n", "F:3:19: egressSelections: must be a list: begin each selection with \"- name: NAME\"\n"},
    {"not a mapping", LIST "- controlplane\n", "F:4:3: an egress selection must be a mapping: write \"- name: NAME\", and \"connection:\" below it\n"},
    {"no name", LIST "- connection: {proxyProtocol: Direct}\n", "F:4:3: name: must be controlplane, cluster or etcd, not \"\"\n"},
    {"another name", ONE("nodes") "    proxyProtocol: Direct\n", "F:4:9: name: must be controlplane, cluster or etcd, not \"nodes\"\n"},
    {"master in v1beta1", ONE("master") "    proxyProtocol: Direct\n", "F:4:9: name: \"master\" was v1alpha1's word for controlplane: write that\n"},
    {"twice", ONE("etcd") "    proxyProtocol: Direct\n- name: ETCD\n  connection: {proxyProtocol: Direct}\n", "F:7:9: name: ETCD is selected twice, first in line 4: keep one of them\n"},
    {"master and controlplane", ALPHA "egressSelections:\n- {name: master, connection: {proxyProtocol: Direct}}\n- {name: controlplane, connection: {proxyProtocol: Direct}}\n", "F:5:10: name: controlplane is selected twice, first in line 4: keep one of them\n"},
    {"no connection", LIST "- name: etcd\n", "F:4:3: connection: is required\n"},
    {"a word for a connection", LIST "- name: etcd\n  connection: Direct\n", "F:5:15: connection: must be a mapping: write its fields below it, indented\nF:4:3: connection: is required\n"},
    {"no protocol", LIST "- name: etcd\n  connection: {}\n", "F:5:15: proxyProtocol: must be Direct, HTTPConnect or GRPC, not \"\"\n"},
    {"GRPC over nothing", ONE("cluster") "    proxyProtocol: GRPC\n", "F:5:3: transport: must be set for GRPC\n"},
    {"GRPC over TCP", ONE("cluster") "    proxyProtocol: GRPC\n    transport: {tcp: {url: http://10.0.0.1:1}}\n", "F:7:5: uds: must be set for GRPC\n"},
    {"GRPC where we go", ONE("etcd") "    proxyProtocol: GRPC\n    transport: {uds: {udsName: /p}}\n", "F:6:20: proxyProtocol: GRPC is not supported by mvproxy, which uses this selection; HTTPConnect and Direct are\n"},
    {"another protocol", ONE("etcd") "    proxyProtocol: direct\n", "F:6:20: proxyProtocol: must be Direct, HTTPConnect or GRPC, not \"direct\"\n"},
    {"a number for a text", HTTP "      uds: {udsName: 5}\n", "F:8:22: udsName: must be a text: write it in quotes\nF:8:22: udsName: must be present for UDS connections\n"},
    {"a number of another form for a text", HTTP "      uds: {udsName: 1e5}\n", "F:8:22: udsName: must be a text: write it in quotes\nF:8:22: udsName: must be present for UDS connections\n"},
    {"a truth value for a text", ONE("yes") "    proxyProtocol: Direct\n", "F:4:9: name: must be a text: write it in quotes\nF:4:9: name: must be controlplane, cluster or etcd, not \"\"\n"},
    {"a list for a text", LIST "- name: [etcd]\n  connection: {proxyProtocol: Direct}\n", "F:4:9: name: must be a text: write it in quotes\nF:4:9: name: must be controlplane, cluster or etcd, not \"\"\n"},
    {"Direct with a transport", ONE("etcd") "    proxyProtocol: Direct\n    transport: {}\n", "F:7:5: transport: must be absent for Direct\n"},
    {"HTTPConnect without", ONE("etcd") "    proxyProtocol: HTTPConnect\n", "F:5:3: transport: must be set for HTTPConnect\n"},
    {"an empty transport", ONE("etcd") "    proxyProtocol: HTTPConnect\n    transport: {}\n", "F:7:5: transport: one of tcp or uds must be set\n"},
    {"both", HTTP "      tcp: {url: \"http://10.0.0.1:1\"}\n      uds: {udsName: /p}\n", "F:7:5: transport: tcp and uds cannot both be set: keep one\n"},
    {"no path", HTTP "      uds: {}\n", "F:8:12: udsName: must be present for UDS connections\n"},
    {"a long path", HTTP "      uds: {udsName: /23456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678}\n", "F:8:22: udsName: longer than 107 bytes, which no socket's path can be: choose a shorter one\n"},
    {"an abstract socket", HTTP "      uds: {udsName: \"@p\"}\n", "F:8:22: udsName: abstract sockets are not supported: give the path of a socket\n"},
    {"a NUL", HTTP "      uds: {udsName: \"/p\\0q\"}\n", "F:8:22: udsName: must not contain control characters: take them out\nF:8:22: udsName: must be present for UDS connections\n"},
    {"no URL", HTTP "      tcp: {}\n", "F:8:12: url: must begin with http:// or https://\n"},
    {"another scheme", URL("socks5://10.0.0.1:1"), "F:9:14: url: must begin with http:// or https://\n"},
    {"no port", URL("http://10.0.0.1"), "F:9:14: url: must be http://HOST:PORT or https://HOST:PORT\n"},
    {"no host", URL("\"http://:3128\""), "F:9:14: url: must be http://HOST:PORT or https://HOST:PORT\n"},
    {"a password", URL("http://user:secret@10.0.0.1:1"), "F:9:14: url: a user name or password in the URL would not be sent: take it out\n"},
    {"http with TLS", URL("http://10.0.0.1:1") "        tlsConfig: {}\n", "F:10:9: tlsConfig: must not be present when url is http://\n"},
    {"https without", URL("https://10.0.0.1:1"), "F:8:7: tlsConfig: must be present when url is https://\n"},
    {"https without a pair", TLS "          caBundle: /ca\n", "F:11:11: clientCert: is required when url is https://\nF:11:11: clientKey: is required when url is https://\n"},
    {"https without a key", TLS "          clientCert: /c\n", "F:11:11: clientKey: is required when url is https://\n"},
    {"GRPC for peers", ONE("controlplane") "    proxyProtocol: GRPC\n    transport: {uds: {udsName: /p}}\n", "F:6:20: proxyProtocol: GRPC is not supported by mvproxy, which uses this selection; HTTPConnect and Direct are\n"},
    {"GRPC for etcd", ONE("etcd") "    proxyProtocol: GRPC\n    transport: {uds: {udsName: /p}}\n", "F:6:20: proxyProtocol: GRPC is not supported by mvproxy, which uses this selection; HTTPConnect and Direct are\n"},
    {"GRPC over TCP", ONE("cluster") "    proxyProtocol: GRPC\n    transport: {tcp: {url: \"http://10.0.0.1:1\"}}\n", "F:7:5: uds: must be set for GRPC\n"},
    {"two documents", HEAD "---\n" HEAD, "F:3:1: a second document begins here: give one, without \"---\" in between\n"},
    {"an alias", HEAD "egressSelections: [&a {name: etcd, connection: {proxyProtocol: Direct}}, *a]\n", "F:3:74: aliases are not supported: write the value itself, in quotes if it begins with \"*\"\n"},
    {"no YAML", HEAD "egressSelections: [\n", "F:4:1: a value is missing before this, or a bracket does not end: write the value, or close the bracket\n"},
    {"a mapping for a key", HEAD "? {a: b}\n: c\n", "F:3:3: a name must be a plain word: write \"NAME: VALUE\"\n"},
    {"too deep", HEAD "egressSelections: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", "F:3:34: nested too deeply: write it with fewer levels\nF:3:20: an egress selection must be a mapping: write \"- name: NAME\", and \"connection:\" below it\n"},
    {"several at once", ONE("nodes") "    proxyProtocol: Direct\n- name: etcd\n  connection: {proxyProtocol: None}\n", "F:4:9: name: must be controlplane, cluster or etcd, not \"nodes\"\nF:8:31: proxyProtocol: must be Direct, HTTPConnect or GRPC, not \"None\"\n"},
    /* clang-format on */
};

static void test_right(void)
{
    for (size_t i = 0; i < ROWS(right); i++) {
        struct arena *a = arena_new(1 << 20);
        const struct egress_selection *s;
        struct egress e;
        struct buf errors;

        buf_init(&errors, 4096);
        ok(egress_file_parse("F", slice_str(right[i].text), a, &e, &errors), "%s: is read", right[i].name);
        is_slice(buf_slice(&errors), "", "%s: without complaint", right[i].name);
        s = &e.of[EGRESS_CONTROLPLANE];
        ok((s->given && s->protocol == EGRESS_HTTP_CONNECT) == (right[i].host != NULL), "%s: a proxy", right[i].name);
        if (right[i].host != NULL) {
            is_str(s->host, right[i].host, "%s: host", right[i].name);
            is_int(s->port, right[i].port, "%s: port", right[i].name);
            is_int(s->tls, right[i].tls, "%s: TLS", right[i].name);
        }
        buf_free(&errors);
        arena_free(a);
    }
}

static void test_wrong(void)
{
    for (size_t i = 0; i < ROWS(wrong); i++) {
        struct arena *a = arena_new(1 << 20);
        struct egress e;
        struct buf errors;

        buf_init(&errors, 4096);
        ok(!egress_file_parse("F", slice_str(wrong[i].text), a, &e, &errors), "%s: is refused", wrong[i].name);
        is_slice(buf_slice(&errors), wrong[i].complaints, "%s: and named", wrong[i].name);
        buf_free(&errors);
        arena_free(a);
    }
}

static void load(const char *name, const char *text, const char *want)
{
    char path[] = "/tmp/egress-test-XXXXXX", expected[256];
    struct arena *a = arena_new(4 << 20);
    struct egress e;
    struct buf errors;
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        tap_bail("mkstemp");
    close(fd);
    buf_init(&errors, 4096);
    is_int(egress_load(path, a, &e, &errors), want == NULL, "%s", name);
    (void)snprintf(expected, sizeof(expected), "%s%s", want == NULL ? "" : path, want == NULL ? "" : want);
    is_slice(buf_slice(&errors), expected, "%s: said", name);
    unlink(path);
    buf_free(&errors);
    arena_free(a);
}

static void test_files(void)
{
    struct arena *a = arena_new(4 << 20);
    struct egress e;
    struct buf errors;

    buf_init(&errors, 4096);
    ok(!egress_load("/nonexistent/egress.yaml", a, &e, &errors), "no file");
    is_slice(buf_slice(&errors), "/nonexistent/egress.yaml: No such file or directory: give the path of a YAML file\n",
             "no file: said");
    buf_free(&errors);
    arena_free(a);
    load("a file", HEAD, NULL);
    load("a certificate that does not exist",
         TLS "          clientCert: /nonexistent/c\n          clientKey: /dev/null\n",
         ":11:23: clientCert: /nonexistent/c: No such file or directory\n");
    load("a bundle that does not exist",
         TLS "          clientCert: /dev/null\n          clientKey: /dev/null\n          caBundle: /nonexistent/ca\n",
         ":13:21: caBundle: /nonexistent/ca: No such file or directory\n");
    load("also in a selection that is not used",
         ONE("cluster") "    proxyProtocol: HTTPConnect\n    transport:\n      tcp: {url: \"https://h:1\", tlsConfig: "
                        "{clientCert: "
                        "/dev/null, clientKey: /nonexistent/k}}\n",
         ":8:79: clientKey: /nonexistent/k: No such file or directory\n");
}

static void test_via(void)
{
    struct arena *a = arena_new(4 << 20);
    struct egress e;
    struct buf errors;
    struct egress_proxy *v = NULL, *w = NULL;
    struct err err = {""};

    buf_init(&errors, 4096);
    ok(egress_file_parse("F", SLICE_LIT(URL("http://[::1]:3128")), a, &e, &errors), "a proxy");
    ok(egress_make_proxy(&e, EGRESS_CONTROLPLANE, &v, &err) && v != NULL, "can be used");
    is_str(egress_proxy_text(v), "[::1]:3128", "by its address");
    ok(egress_make_proxy(&e, EGRESS_CONTROLPLANE, &w, &err) && egress_proxy_same(v, w), "a reload finds it unchanged");
    egress_proxy_unref(w);
    ok(egress_make_proxy(&e, EGRESS_ETCD, &w, &err) && w == NULL, "not for what is not selected");
    ok(!egress_proxy_same(v, w), "which is not the same");
    egress_proxy_unref(v);
    ok(egress_file_parse("F", SLICE_LIT(TLS PAIR), a, &e, &errors), "a proxy under TLS");
    ok(!egress_make_proxy(&e, EGRESS_CONTROLPLANE, &v, &err) && v == NULL, "whose certificate cannot be read");
    ok(strstr(err.text, "certificate /c: No such file") != NULL, "is named (%s)", err.text);
    buf_free(&errors);
    arena_free(a);
}

int main(void)
{
    test_right();
    test_wrong();
    test_files();
    test_via();
    return tap_end();
}
