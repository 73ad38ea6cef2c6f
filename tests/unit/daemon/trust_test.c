/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration's files become: all or nothing, each fault said once, and what is the same stays the same. */
#include "daemon/trust.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "net/egress_proxy.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tls_ctx.h"

enum { ROOM = 1 << 16 };

#define BASE                                                                                                           \
    "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: ca.crt\nbind-address: 10.0.0.9\n"
#define PROXY "proxy-client-cert-file: proxy.crt\nproxy-client-key-file: proxy.key\n"
#define WHOLE                                                                                                          \
    BASE PROXY "peer-ca-file: ca.crt\nclient-ca-file: ca.crt\nrequestheader-client-ca-file: proxy-ca.crt\n"            \
               "requestheader-allowed-names: front\netcd-servers: [https://10.0.0.1:1, http://10.0.0.2:1, "            \
               "https://10.0.0.3:1]\n"                                                                                 \
               "etcd-cafile: ca.crt\netcd-certfile: proxy.crt\netcd-keyfile: proxy.key\n"                              \
               "tls-sni-cert-key: [\"other.crt,other.key\", \"server.crt,server.key:a.example\"]\n"                    \
               "egress-selector-config-file: egress.yaml\n"
#define EGRESS_WITH(key)                                                                                               \
    "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: "             \
    "controlplane\n"                                                                                                   \
    "  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      tcp:\n        url: https://10.0.0.1:3128\n"  \
    "        tlsConfig:\n          clientCert: proxy.crt\n          clientKey: " key "\n          caBundle: "          \
    "ca.crt\n"                                                                                                         \
    "- name: etcd\n  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      uds:\n        udsName: "       \
    "/run/p\n"
#define EGRESS EGRESS_WITH("proxy.key")

/* ---- files ---- */

static void make_files(void)
{
    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');"
                        "a.issue('proxy-ca', 'proxy-ca', is_ca=True, eku='');"
                        "a.issue('server', 's', ca='ca', eku='serverAuth', sans=('kubernetes.default.svc',));"
                        "a.issue('other', 's', ca='ca', eku='serverAuth', sans=('b.example',));"
                        "names = ('kubernetes.default.svc', '10.0.0.9');"
                        "a.issue('whole', 's', ca='ca', eku='serverAuth', sans=names);"
                        "a.issue('renewed', 's', ca='ca', eku='serverAuth', sans=names);"
                        "a.issue('foreign', 's', ca='proxy-ca', eku='serverAuth', sans=names);"
                        "a.issue('third-ca', 't', is_ca=True, eku='');"
                        "a.issue('lone', 's', ca='third-ca', eku='serverAuth', sans=names);"
                        "a.issue('nameless', 's', ca='ca', eku='serverAuth', sans=names[1:]);"
                        "a.issue('proxy', 'front', ca='proxy-ca')");
    folder_enter();
    folder_write("egress.yaml", EGRESS);
    folder_write("mixed.yaml", EGRESS_WITH("server.key"));
    folder_write("keyless.yaml", EGRESS_WITH("none.key"));
}

static struct config *configured(const char *text)
{
    struct config *c;
    struct buf errors;

    folder_write("mvproxy.yaml", text);
    buf_init(&errors, ROOM);
    c = config_load("mvproxy.yaml", NULL, 0, &errors);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    buf_free(&errors);
    return c;
}

static void load(const char *text, struct trust *t)
{
    struct config *c = configured(text);
    struct buf errors;

    buf_init(&errors, ROOM);
    if (!ok(trust_load(c, t, &errors), "loads"))
        diag("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    is_u64(buf_len(&errors), 0, "nothing is said");
    buf_free(&errors);
    config_free(c);
}

/* ---- loading ---- */

static void loads(void)
{
    struct trust t;

    load(BASE, &t);
    ok(t.serving != NULL && t.admin != NULL && t.local_no_cert != NULL, "the least");
    ok(t.local_cert == NULL && t.peer_cert == NULL && t.peer_no_cert == NULL && t.etcd[0] == NULL &&
           t.peer_egress == NULL && t.etcd_egress == NULL,
       "and no more");
    is_str(t.requestheader_ca, "", "no CA of front proxies");
    ok(!trust_has_peers(&t), "no peers");
    trust_free(&t);
    load(BASE PROXY, &t);
    ok(t.local_cert != NULL && t.peer_cert == NULL && t.peer_no_cert == NULL, "no CA of peers");
    trust_free(&t);
    load(BASE "peer-ca-file: ca.crt\n", &t);
    ok(t.local_cert == NULL && t.peer_cert == NULL && t.peer_no_cert == NULL, "no certificate for peers");
    trust_free(&t);
    load(WHOLE, &t);
    ok(t.local_cert != NULL && t.peer_cert != NULL && t.peer_no_cert != NULL && trust_has_peers(&t), "all");
    ok(t.etcd[0] != NULL && t.etcd[1] == NULL && t.etcd[2] != NULL && t.etcd[3] == NULL, "a context for each https://");
    ok(t.peer_egress != NULL && t.etcd_egress != NULL, "both proxies");
    ok(strstr(t.requestheader_ca, "-----END CERTIFICATE-----\n") != NULL &&
           strlen(t.requestheader_ca) ==
               (size_t)(strstr(t.requestheader_ca, "-----END CERTIFICATE-----\n") + 26 - t.requestheader_ca),
       "the CA's text, whole");
    trust_free(&t);
    ok(t.serving == NULL && t.requestheader_ca == NULL && t.client_ca == NULL && t.peer_egress == NULL &&
           t.etcd[0] == NULL,
       "let go");
    trust_free(&t);
}

static void refuses(void)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"a certificate that is not there", BASE, "certificate nothing.crt: No such file or directory\n"},
        {"a CA that two contexts need", BASE PROXY, "CA bundle nothing.crt: No such file or directory\n"},
        {"two that are not there", BASE PROXY "peer-ca-file: none.crt\n",
         "CA bundle nothing.crt: No such file or directory\nCA bundle none.crt: No such file or directory\n"},
        {"no egress selector", BASE "egress-selector-config-file: none.yaml\n",
         "none.yaml: No such file or directory: give the path of a YAML file\n"},
        {"an egress selector with another's key", BASE "egress-selector-config-file: mixed.yaml\n",
         "mixed.yaml: private key server.key: does not belong to certificate proxy.crt\n"},
        {"an egress selector whose key is not there", BASE "egress-selector-config-file: keyless.yaml\n",
         "keyless.yaml:12:22: clientKey: none.key: No such file or directory\n"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct config *c = configured(rows[i].text);
        struct trust t;
        struct buf errors;

        if (i == 0)
            c->tls_cert_file = "nothing.crt";
        else if (i < 3)
            c->apiserver_ca_file = "nothing.crt";
        buf_init(&errors, ROOM);
        ok(!trust_load(c, &t, &errors), "%s", rows[i].name);
        is_slice(buf_slice(&errors), rows[i].want, "%s: said once", rows[i].name);
        ok(t.serving == NULL && t.local_no_cert == NULL && t.requestheader_ca == NULL, "%s: nothing is kept",
           rows[i].name);
        buf_free(&errors);
        config_free(c);
    }
}

/* As at a reload: which file, by which line of the configuration, and what to do about it. */
static void names_options(void)
{
    struct config *c = configured(BASE);
    struct trust t;
    struct buf errors;
    FILE *f = fopen("cut.crt", "w");

    if (f == NULL || fputs("-----BEGIN CERTIFICATE-----\nMIIB\n", f) < 0 || fclose(f) != 0)
        tap_bail("cut.crt");
    c->tls_cert_file = "cut.crt";
    c->apiserver_ca_file = "nothing.crt";
    buf_init(&errors, ROOM);
    ok(!trust_load(c, &t, &errors), "half a certificate");
    trust_name_options(c, &errors);
    ok(memmem(buf_slice(&errors).p, buf_len(&errors), "1: tls-cert-file: certificate cut.crt: it is damaged or cut",
              59) != NULL,
       "where, what and what to do: %.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    ok(memmem(buf_slice(&errors).p, buf_len(&errors), ":1: apiserver-ca-file: CA bundle nothing.crt: No such", 53) !=
           NULL,
       "and so of the other");
    buf_free(&errors);
    config_free(c);
    (void)remove("cut.crt");
}

/* ---- what is the same ---- */

static void keeps(void)
{
    struct trust old, t;
    struct tls_ctx *serving;

    load(WHOLE, &old);
    load(WHOLE, &t);
    ok(!trust_keep_same(&t, &old), "nothing has changed");
    ok(t.serving == old.serving && t.admin == old.admin && t.local_cert == old.local_cert &&
           t.local_no_cert == old.local_no_cert && t.peer_cert == old.peer_cert && t.peer_no_cert == old.peer_no_cert,
       "contexts stay");
    ok(t.etcd[0] == old.etcd[0] && t.etcd[2] == old.etcd[2] && t.peer_egress == old.peer_egress &&
           t.etcd_egress == old.etcd_egress,
       "those of etcd, and proxies");
    trust_free(&t);
    load(WHOLE "tls-min-version: VersionTLS13\n", &t);
    serving = t.serving;
    ok(trust_keep_same(&t, &old), "another least version");
    ok(t.serving == serving && t.serving != old.serving && t.admin != old.admin && t.local_cert == old.local_cert,
       "is for those who are served");
    trust_free(&t);
    load(BASE, &t);
    ok(trust_keep_same(&t, &old), "much is gone");
    ok(t.peer_cert == NULL && t.peer_egress == NULL, "and stays gone");
    trust_free(&t);
    trust_free(&old);
    load(BASE, &old);
    load(BASE, &t);
    ok(!trust_keep_same(&t, &old), "little, and the same");
    trust_free(&t);
    load(WHOLE, &t);
    ok(trust_keep_same(&t, &old) && t.peer_cert != NULL && t.etcd_egress != NULL, "more than before");
    trust_free(&t);
    trust_free(&old);
}

/* ---- which files ---- */

static void note(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    static const char *const kinds[] = {
        [TRUST_CERTIFICATE] = "certificate", [TRUST_KEY] = "key", [TRUST_BUNDLE] = "bundle"};

    buf_printf(arg, "%s %s %s\n", option, path, kinds[kind]);
}

static void files(const char *text, const char *want)
{
    struct config *c = configured(text);
    struct buf out;

    buf_init(&out, ROOM);
    trust_each_file(c, note, &out);
    is_slice(buf_slice(&out), want, "files");
    buf_free(&out);
    config_free(c);
}

/* Of what cannot be read nothing is listed. */
static void odd_pairs(void)
{
    static const char *const pairs[] = {"nonsense", "a.crt,a.key", NULL};
    struct config *c = configured(BASE);
    struct buf out;

    buf_init(&out, ROOM);
    c->tls_sni_cert_key = pairs;
    trust_each_file(c, note, &out);
    is_slice(
        buf_slice(&out),
        "tls-cert-file server.crt certificate\ntls-private-key-file server.key key\napiserver-ca-file ca.crt bundle\n"
        "tls-sni-cert-key[1] a.crt certificate\ntls-sni-cert-key[1] a.key key\n",
        "pairs that are none");
    buf_free(&out);
    config_free(c);
}

/* ---- what is said ---- */

static char *said;
static size_t said_n;

static void says(const struct trust *t, const struct trust *before, bool peers, bool users, const char *name)
{
    FILE *f = open_memstream(&said, &said_n);

    log_set_stream(f);
    trust_say_missing(t, before);
    (void)fclose(f);
    log_set_stream(stderr);
    is_int(strstr(said, "Peers cannot be used") != NULL, peers, "%s: peers", name);
    is_int(strstr(said, "Certificate users are refused") != NULL, users, "%s: users", name);
    free(said);
}

static void missing(void)
{
    struct tls_ctx *some = (struct tls_ctx *)(void *)&said; /* that it is there is all that is asked */
    const struct trust none = {.serving = NULL}, all = {.peer_cert = some, .local_cert = some},
                       half = {.local_cert = some};

    says(&none, NULL, true, true, "nothing at the start");
    says(&none, &none, false, false, "nothing, as before");
    says(&none, &all, true, true, "all is gone");
    says(&half, &all, true, false, "peers are gone");
    says(&none, &half, false, true, "the rest is gone");
    says(&all, NULL, false, false, "all");
    says(&all, &none, false, false, "all is there now");
}

static void suites(void)
{
    struct config *c = configured(BASE "tls-cipher-suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "
                                       "TLS_RSA_WITH_AES_128_CBC_SHA, TLS_RSA_WITH_RC4_128_SHA]\n");
    FILE *f = open_memstream(&said, &said_n);

    log_set_stream(f);
    trust_say_suites(c);
    (void)fclose(f);
    log_set_stream(stderr);
    ok(strstr(said, "Insecure cipher suite in use\" suite=\"TLS_RSA_WITH_AES_128_CBC_SHA\"") != NULL &&
           strstr(said, "lacks a cipher suite, it is left out\" suite=\"TLS_RSA_WITH_RC4_128_SHA\"") != NULL &&
           strstr(said, "GCM") == NULL,
       "of suites: %s", said);
    free(said);
    config_free(c);
}

/* Other CAs, which are not to count; and perhaps another pair, which is. */
static void holds(bool other_pair)
{
    struct config *c = configured(
        other_pair ? "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: proxy-ca.crt\n"
                     "bind-address: 10.0.0.9\nproxy-client-cert-file: server.crt\nproxy-client-key-file: server.key\n"
                     "peer-ca-file: proxy-ca.crt\n"
                   : "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: proxy-ca.crt\n"
                     "bind-address: 10.0.0.9\n" PROXY "peer-ca-file: proxy-ca.crt\n");
    struct trust old, t;
    struct buf errors;

    load(BASE PROXY "peer-ca-file: ca.crt\n", &old);
    buf_init(&errors, ROOM);
    ok(trust_load(c, &t, &errors), "other CAs load");
    ok(!tls_ctx_same(t.local_cert, old.local_cert) && !tls_ctx_same(t.peer_cert, old.peer_cert), "and are others");
    trust_hold_local(c, &t, &old);
    ok(t.local_no_cert == old.local_no_cert, "the local server's are those of before");
    is_int(tls_ctx_same(t.local_cert, old.local_cert), !other_pair, "with the pair of now, %d", other_pair);
    ok(!tls_ctx_same(t.peer_no_cert, old.peer_no_cert), "peers' are not");
    trust_hold_peers(c, &t, &old);
    ok(t.peer_no_cert == old.peer_no_cert, "but when they are to be");
    is_int(tls_ctx_same(t.peer_cert, old.peer_cert), !other_pair, "with the pair of now, %d", other_pair);
    trust_free(&t);
    trust_free(&old);
    buf_free(&errors);
    config_free(c);
}

/* Why *t does not come after *old, "" if it does. */
static const char *stray_in(const char *text, struct trust *t, const struct trust *old)
{
    static char why[1024];
    struct config *c = configured(text);
    struct buf errors;
    bool strays;

    buf_init(&errors, ROOM);
    strays = trust_stray(c, t, old, &errors);
    is_int(strays, buf_len(&errors) > 0, "it is said if it is so");
    (void)snprintf(why, sizeof(why), "%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    buf_free(&errors);
    config_free(c);
    return why;
}

static const char *stray(struct trust *t, const struct trust *old)
{
    return stray_in(BASE PROXY, t, old);
}

#define FRONT_STRAY(option)                                                                                            \
    "mvproxy.yaml:5:1: proxy-client-cert-file: proxy.crt: does not fit " option                                        \
    ", and the one before it does: put the front proxy's pair back (front-proxy-client.crt), or give that option "     \
    "what "                                                                                                            \
    "the new one needs\n"

/* Another pair that the CA of front proxies has not signed, while it has the one before. */
static void strays(void)
{
#define FRONT PROXY "requestheader-client-ca-file: proxy-ca.crt\n"
#define OTHER_PAIR "proxy-client-cert-file: server.crt\nproxy-client-key-file: server.key\n"
    struct trust old, t;

    load(BASE FRONT, &old);
    ok(old.front_signed && old.front_until_s > clock_wall_us() / 1000000, "signed, and valid");
    load(BASE OTHER_PAIR "requestheader-client-ca-file: proxy-ca.crt\n", &t);
    is_str(stray(&t, &old), FRONT_STRAY("requestheader-client-ca-file"), "another, of another CA");
    ok(strcmp(stray(&old, &t), "") == 0, "and back");
    old.front_until_s = clock_wall_us() / 1000000;
    ok(strcmp(stray(&t, &old), "") == 0, "the one before has expired: nothing is lost");
    old.front_until_s += 1000;
    trust_free(&t);
    load(BASE OTHER_PAIR "requestheader-client-ca-file: ca.crt\n", &t);
    ok(t.front_signed && strcmp(stray(&t, &old), "") == 0, "another, with its CA");
    trust_free(&t);
    load(BASE OTHER_PAIR "requestheader-client-ca-file: ca.crt\nrequestheader-allowed-names: [front, t]\n", &t);
    is_str(stray(&t, &old), FRONT_STRAY("requestheader-allowed-names"), "with its CA, and another name");
    trust_free(&t);
    load(BASE OTHER_PAIR "requestheader-client-ca-file: ca.crt\nrequestheader-allowed-names: [front, s]\n", &t);
    ok(t.front_named && strcmp(stray(&t, &old), "") == 0, "and that name");
    trust_free(&t);
    load(BASE PROXY "requestheader-client-ca-file: ca.crt\n", &t);
    ok(!t.front_signed && strcmp(stray(&t, &old), "") == 0, "another CA alone");
    trust_free(&t);
    load(BASE "requestheader-client-ca-file: proxy-ca.crt\n", &t);
    ok(strcmp(stray(&t, &old), "") == 0, "none any more");
    trust_free(&t);
    load(BASE OTHER_PAIR, &t);
    ok(strcmp(stray(&t, &old), "") == 0, "another, and no such CA any more");
    trust_free(&old);
    load(BASE PROXY, &old);
    ok(!old.front_signed && strcmp(stray(&t, &old), "") == 0, "no such CA: nobody knows");
    trust_free(&old);
    load(BASE, &old);
    ok(old.front_until_s == 0 && !old.front_signed && strcmp(stray(&t, &old), "") == 0 && old.front_cert[0] == '\0',
       "none before");
    trust_free(&old);
    trust_free(&t);
}

/* Another CA of front proxies that has not signed the pair in use, which the one before has. */
static void disowned(void)
{
    struct config *c = configured(BASE FRONT);
    struct trust old, t;
    struct buf errors;

    buf_init(&errors, ROOM);
    load(BASE FRONT, &old);
    load(BASE FRONT, &t);
    ok(!trust_disowns_front(c, &t, &old), "the same");
    trust_free(&t);
    load(BASE PROXY "requestheader-client-ca-file: ca.crt\n", &t);
    ok(trust_disowns_front(c, &t, &old), "another alone");
    t.front_until_s = clock_wall_us() / 1000000;
    ok(!trust_disowns_front(c, &t, &old), "the pair has expired: nothing is lost");
    ok(!trust_disowns_front(c, &t, &t), "nor had the one before signed it");
    ok(trust_hold_clients(c, &t, &old, TRUST_FRONT_CA, &errors) && t.front_signed, "held back");
    ok(tls_ctx_same(t.serving, old.serving) && tls_ctx_same(t.admin, old.admin), "as if it were not there");
    is_str(t.requestheader_ca, old.requestheader_ca, "nor is it compared with the servers'");
    trust_free(&t);
    load(BASE PROXY, &t);
    ok(!trust_disowns_front(c, &t, &old), "none any more");
    trust_free(&t);
    load(BASE "requestheader-client-ca-file: ca.crt\n", &t);
    ok(!trust_disowns_front(c, &t, &old), "no pair any more");
    trust_free(&t);
    trust_free(&old);
    load(BASE PROXY, &old);
    load(BASE PROXY "requestheader-client-ca-file: ca.crt\n", &t);
    ok(!trust_disowns_front(c, &t, &old), "none before");
    trust_free(&t);
    trust_free(&old);
    config_free(c);
    buf_free(&errors);
}

/* Another serving pair that those who believe the one before do not believe. */
static void serving_strays(void)
{
#define SERVING(name, rest)                                                                                            \
    "tls-cert-file: " name ".crt\ntls-private-key-file: " name ".key\napiserver-ca-file: ca.crt\nbind-address: "       \
    "10.0.0.9\n" rest
#define PEERS "peer-ca-file: ca.crt\n"
#define LOST(name, what, add)                                                                                          \
    "mvproxy.yaml:1:1: tls-cert-file: " name ".crt: is not " what                                                      \
    ", and the one before it is: put the serving pair back (apiserver.crt), or add " add "\n"
#define OF_PEERS "signed by peer-ca-file"
    static const struct {
        const char *name, *old, *fresh, *want;
    } rows[] = {
        {"of another CA", SERVING("whole", PEERS), SERVING("foreign", PEERS),
         LOST("foreign", OF_PEERS, "the CA of the new one to that file")},
        {"back", SERVING("foreign", PEERS), SERVING("whole", PEERS), ""},
        {"renewed", SERVING("whole", PEERS), SERVING("renewed", PEERS), ""},
        {"with its CA", SERVING("whole", PEERS), SERVING("foreign", "peer-ca-file: proxy-ca.crt\n"), ""},
        {"of the CA before, while the file has another", SERVING("whole", PEERS PROXY),
         SERVING("renewed", "peer-ca-file: proxy-ca.crt\n" PROXY), ""},
        {"of neither CA", SERVING("whole", PEERS PROXY), SERVING("lone", "peer-ca-file: proxy-ca.crt\n" PROXY),
         LOST("lone", OF_PEERS, "the CA of the new one to that file")},
        {"no such CA any more", SERVING("whole", PEERS), SERVING("foreign", ""), ""},
        {"no such CA before", SERVING("whole", ""), SERVING("foreign", PEERS), ""},
        {"the CA alone", SERVING("whole", PEERS), SERVING("whole", "peer-ca-file: proxy-ca.crt\n"), ""},
        {"not for our address", SERVING("whole", PEERS), SERVING("server", PEERS),
         LOST("server", "valid for 10.0.0.9", "that name to the new one")},
        {"nor that before", SERVING("server", PEERS), SERVING("other", ""),
         LOST("other", "valid for kubernetes.default.svc", "that name to the new one")},
        {"not by the name of peers", SERVING("whole", PEERS), SERVING("nameless", PEERS),
         LOST("nameless", "valid for kubernetes.default.svc", "that name to the new one")},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct trust old, t;

        load(rows[i].old, &old);
        load(rows[i].fresh, &t);
        is_str(stray_in(rows[i].fresh, &t, &old), rows[i].want, "%s", rows[i].name);
        old.serving_until_s = clock_wall_us() / 1000000;
        is_str(stray_in(rows[i].fresh, &t, &old), "", "%s: the one before has ended", rows[i].name);
        trust_free(&t);
        trust_free(&old);
    }
}

/* ---- what is spoken ---- */

struct talk {
    struct loop *loop;
    struct tls_ctx *tls;
    struct stream *server, *client;
    bool over;
};

static void on_server(struct stream *s, enum stream_event ev, void *arg)
{
    (void)s;
    (void)ev;
    (void)arg;
}

static void on_client(struct stream *s, enum stream_event ev, void *arg)
{
    (void)s;
    if (ev == STREAM_OPENED || ev == STREAM_FAILED)
        ((struct talk *)arg)->over = true;
}

static void on_accept(int fd, void *arg)
{
    struct talk *t = arg;

    t->server = stream_accept(t->loop, fd, &(struct stream_opts){.fn = on_server, .tls = t->tls});
}

/* What a client that offers h2 gets. */
static const char *spoken(struct tls_ctx *server, struct tls_ctx *client)
{
    static char alpn[32];
    struct talk t = {.loop = loop_new(NULL), .tls = server};
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct err err = {.text = ""};
    struct listener *l = listener_open(t.loop, "127.0.0.1", 0, on_accept, &t, &err);

    if (l == NULL)
        tap_bail("%s", err.text);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)listener_port(l));
    t.client = stream_connect(t.loop, (struct sockaddr *)&at, sizeof(at),
                              &(struct stream_opts){.fn = on_client, .arg = &t, .tls = client, .http2 = true});
    for (unsigned i = 0; i < 1000 && !t.over; i++)
        loop_run_once(t.loop, 20);
    if (stream_is_open(t.client))
        (void)snprintf(alpn, sizeof(alpn), "%s%s", stream_is_hop(t.client) ? "mvproxy/" : "", stream_alpn(t.client));
    else
        (void)snprintf(alpn, sizeof(alpn), "%.30s", stream_failure(t.client));
    stream_close(t.client, STREAM_CLOSE_NOW);
    if (t.server != NULL)
        stream_close(t.server, STREAM_CLOSE_NOW);
    listener_close(l);
    loop_run_once(t.loop, 1);
    loop_free(t.loop);
    return alpn;
}

static void speaks(void)
{
    struct trust t;

    load(BASE, &t);
    is_str(spoken(t.serving, t.local_no_cert), "mvproxy/h2", "clients and other mvproxies are served with HTTP/2");
    is_str(spoken(t.admin, t.local_no_cert), "http/1.1", "who watches is not");
    trust_free(&t);
}

int main(void)
{
    make_files();
    speaks();
    loads();
    holds(false);
    holds(true);
    strays();
    disowned();
    serving_strays();
    refuses();
    names_options();
    keeps();
    files(
        BASE,
        "tls-cert-file server.crt certificate\ntls-private-key-file server.key key\napiserver-ca-file ca.crt bundle\n");
    files(WHOLE,
          "tls-cert-file server.crt certificate\ntls-private-key-file server.key key\nclient-ca-file ca.crt bundle\n"
          "requestheader-client-ca-file proxy-ca.crt bundle\nproxy-client-cert-file proxy.crt certificate\n"
          "proxy-client-key-file proxy.key key\napiserver-ca-file ca.crt bundle\npeer-ca-file ca.crt bundle\n"
          "etcd-cafile ca.crt bundle\netcd-certfile proxy.crt certificate\netcd-keyfile proxy.key key\n"
          "tls-sni-cert-key[0] other.crt certificate\ntls-sni-cert-key[0] other.key key\n"
          "tls-sni-cert-key[1] server.crt certificate\ntls-sni-cert-key[1] server.key key\n"
          "egress-selector-config-file egress.yaml key\negress-selector-config-file ca.crt bundle\n"
          "egress-selector-config-file proxy.crt certificate\negress-selector-config-file proxy.key key\n");
    odd_pairs();
    missing();
    suites();
    return tap_end();
}
