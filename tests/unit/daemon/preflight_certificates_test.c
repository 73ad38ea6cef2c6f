/* SPDX-License-Identifier: Apache-2.0 */
/* What certificates, keys and CAs have that a start would not say: each configuration with all that is found in it. */
#include "daemon/preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { ROOM = 1 << 16 };

/* The server's pair and CA are @S, the clients' CA is @C, the front proxy's @F with its CA. */
#define S "tls-cert-file: @/server.crt\ntls-private-key-file: @/server.key\n"
#define A "apiserver-ca-file: @/ca.crt\n"
#define C "client-ca-file: @/clients-ca.crt\n"
#define F                                                                                                              \
    "proxy-client-cert-file: @/front.crt\nproxy-client-key-file: @/front.key\nrequestheader-client-ca-file: "          \
    "@/front-ca.crt\nrequestheader-allowed-names: front\n"
#define PROXY(cert, key, ca, names)                                                                                    \
    "proxy-client-cert-file: @/" cert "\nproxy-client-key-file: @/" key "\nrequestheader-client-ca-file: @/" ca        \
    "\nrequestheader-allowed-names: " names "\n"
#define X43 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X86 X43 X43
#define TLS(cert, key) "tls-cert-file: @/" cert "\ntls-private-key-file: @/" key "\n"

static const struct {
    const char *name, *config, *findings; /* @: the folder */
} rows[] = {
    {"all is well", S A C F, ""},
    {"without a front proxy", S A C, ""},
    {"without a clients' CA", S A,
     "warning: client-ca-file: none: users with certificates are refused: give kube-apiserver's --client-ca-file\n"},
    /* Kinds of files. */
    {"swapped", TLS("server.key", "server.crt") A C,
     "tls-cert-file: @/server.key is a private key, not a certificate: give the certificate here (are the two "
     "swapped?)\n"
     "tls-private-key-file: @/server.crt is a certificate, not a private key: give the key here (are the two "
     "swapped?)\n"},
    {"no PEM", TLS("text", "text") A C,
     "tls-cert-file: @/text has no certificate in PEM: give another file\n"
     "tls-private-key-file: @/text has no private key in PEM: give another file\n"},
    {"damaged", TLS("cut.crt", "cut.key") A C,
     "tls-cert-file: @/cut.crt is damaged, its PEM text is incomplete or is no certificate: copy it anew\n"
     "tls-private-key-file: @/cut.key is damaged, its PEM text is incomplete or is no private key: copy it anew\n"},
    {"not there", TLS("none.crt", "none.key") A C,
     "tls-cert-file: @/none.crt: No such file or directory: give the path of a PEM file\n"
     "tls-private-key-file: @/none.key: No such file or directory: give the path of a PEM file\n"},
    {"no whole path, and not there", S A "client-ca-file: ~/none.crt\n",
     "client-ca-file: ~/none.crt: No such file or directory: give the whole path of a PEM file, in which ~ and $ mean "
     "nothing\n"},
    {"no whole paths, said once", "tls-cert-file: server.crt\ntls-private-key-file: server.key\n" A C,
     "warning: tls-cert-file: server.crt is looked for in the folder that mvproxy starts in, which for the service is "
     "/: give whole paths\n"},
    {"names of a single letter", "tls-cert-file: c\ntls-private-key-file: k\n" A "client-ca-file: a\n",
     "warning: tls-cert-file: c is looked for in the folder that mvproxy starts in, which for the service is /: give "
     "whole paths\ntls-cert-file: c is a private key, not a certificate: give the certificate here (are the two "
     "swapped?)\ntls-private-key-file: k is a certificate, not a private key: give the key here (are the two "
     "swapped?)\nclient-ca-file: a has no certificate of a CA, so it believes nobody: give the CA's (ca.crt)\n"},
    /* Pairs. */
    {"another's key", TLS("server.crt", "front.key") A C,
     "tls-private-key-file: @/front.key does not belong to the certificate @/server.crt, or is encrypted: give its "
     "plain key\n"},
    {"has expired", TLS("old.crt", "old.key") A C,
     "tls-cert-file: @/old.crt expired at 2021-01-01T00:00:00.000000Z: renew it\n"},
    {"is not valid yet", TLS("early.crt", "early.key") A C,
     "tls-cert-file: @/early.crt is not valid before 2040-01-01T00:00:00.000000Z: check the clock of this machine\n"},
    {"expires soon", TLS("soon.crt", "soon.key") A C,
     "warning: tls-cert-file: @/soon.crt expires in 6 days: renew it\n"},
    {"further ones do not matter so much",
     S A C "tls-sni-cert-key: [\"@/server.crt,@/server.key\", \"@/old.crt,@/old.key\"]\n",
     "warning: tls-sni-cert-key: @/old.crt expired at 2021-01-01T00:00:00.000000Z: renew it\n"},
    {"a client's", TLS("client.crt", "client.key") A C,
     "tls-cert-file: @/client.crt must not be used by servers (extended key usage): issue one with serverAuth\n"},
    {"without the name", TLS("unnamed.crt", "unnamed.key") A C,
     "tls-cert-file: @/unnamed.crt is not valid for kubernetes.default.svc, by which peers know us: add that name\n"},
    {"a server's to etcd",
     S A C "etcd-servers: https://10.0.0.1:2379\netcd-cafile: @/ca.crt\netcd-certfile: @/server.crt\netcd-keyfile: "
           "@/server.key\n",
     "etcd-certfile: @/server.crt must not be used by clients (extended key usage): issue one with clientAuth\n"},
    {"an expired client of etcd",
     S A C
     "etcd-servers: https://10.0.0.1:2379\netcd-cafile: @/server.crt\netcd-certfile: @/old-client.crt\netcd-keyfile: "
     "@/old-client.key\n",
     "warning: etcd-cafile: @/server.crt has no certificate of a CA: nobody is believed any more once the server's is "
     "renewed: give the CA that has signed it (ca.crt)\netcd-certfile: @/old-client.crt expired at "
     "2021-01-01T00:00:00.000000Z: renew it\n"},
    {"an expired front proxy", S A C PROXY("old-client.crt", "old-client.key", "front-ca.crt", "front"),
     "proxy-client-cert-file: @/old-client.crt expired at 2021-01-01T00:00:00.000000Z: renew it\n"},
    {"a front proxy with another's key", S A C PROXY("own.crt", "front.key", "front-ca.crt", "front"),
     "proxy-client-key-file: @/front.key does not belong to the certificate @/own.crt, or is encrypted: give its plain "
     "key\n"},
    /* CAs. */
    {"a server's certificate for its CA", S "apiserver-ca-file: @/server.crt\n" C,
     "warning: apiserver-ca-file: @/server.crt has no certificate of a CA: nobody is believed any more once the "
     "server's is renewed: give the CA that has signed it (ca.crt)\n"},
    {"a CA in a damaged file", S A "client-ca-file: @/mixed.crt\n" F,
     "client-ca-file: @/mixed.crt is damaged, its PEM text is incomplete or is no certificate: copy it anew\n"},
    {"one other name", S A C PROXY("front.crt", "front.key", "front-ca.crt", "other"),
     "warning: requestheader-allowed-names: does not have front, the name of proxy-client-cert-file: peers that are "
     "configured likewise do not believe us: add it, as kube-apiserver has it\n"},
    {"a socket of a single letter", S A C "control-socket: s\n",
     "warning: control-socket: s is no whole path, so mvproxyctl cannot be used: begin it with /\n"},
    {"none of a CA's",
     S A "client-ca-file: @/client.crt\n"
         "peer-ca-file: @/server.crt\n",
     "client-ca-file: @/client.crt has no certificate of a CA, so it believes nobody: give the CA's (ca.crt)\n"
     "warning: peer-ca-file: @/server.crt has no certificate of a CA: nobody is believed any more once the server's is "
     "renewed: give the CA that has signed it (ca.crt)\n"},
    /* The front proxy. */
    {"another name", S A C PROXY("front.crt", "front.key", "front-ca.crt", "[other, third]"),
     "warning: requestheader-allowed-names: does not have front, the name of proxy-client-cert-file: peers that are "
     "configured likewise do not believe us: add it, as kube-apiserver has it\n"},
    {"the second name", S A C PROXY("front.crt", "front.key", "front-ca.crt", "[other, front]"), ""},
    {"any name", S A C PROXY("front.crt", "front.key", "front-ca.crt", "[]"), ""},
    {"of nobody's CA", S A C PROXY("own.crt", "own.key", "front-ca.crt", "front"),
     "requestheader-client-ca-file: @/front-ca.crt has not signed proxy-client-cert-file, so peers would not believe "
     "us: give the front-proxy CA, as kube-apiserver has it\n"},
    {"of the clients' CA", S A C PROXY("client.crt", "client.key", "front-ca.crt", "front"),
     "proxy-client-cert-file: @/client.crt is a certificate of client-ca-file, not of requestheader-client-ca-file, so "
     "peers would not believe us: give the front proxy's (front-proxy-client.crt)\n"},
    {"CAs swapped", S A "client-ca-file: @/front-ca.crt\n" PROXY("front.crt", "front.key", "ca.crt", "front"),
     "client-ca-file: @/front-ca.crt has signed proxy-client-cert-file, and requestheader-client-ca-file has not: the "
     "two CA files are swapped, exchange them\n"},
    {"without a clients' CA to be swapped with", S A PROXY("own.crt", "own.key", "ca.crt", "front"),
     "requestheader-client-ca-file: @/ca.crt has not signed proxy-client-cert-file, so peers would not believe us: "
     "give the front-proxy CA, as kube-apiserver has it\n"
     "warning: client-ca-file: none: users with certificates are refused: give kube-apiserver's --client-ca-file\n"},
    /* CAs that should be two. */
    {"one CA, and every name",
     S A "client-ca-file: @/front-ca.crt\n" PROXY("front.crt", "front.key", "front-ca.crt", "[]"),
     "requestheader-client-ca-file: shares a CA with client-ca-file, and requestheader-allowed-names is empty: every "
     "client could pose as any user: give the front-proxy CA\n"},
    {"the front proxy's CA for clients", S A "client-ca-file: @/front-ca.crt\n" F,
     "warning: client-ca-file: @/front-ca.crt is the front-proxy CA, and users have certificates of another as a rule: "
     "give kube-apiserver's --client-ca-file\n"},
    {"one CA for all", S A "client-ca-file: @/ca.crt\n" PROXY("of-ca.crt", "of-ca.key", "ca.crt", "front"),
     "warning: requestheader-client-ca-file: shares a CA with client-ca-file: give the front-proxy CA its own\n"},
    /* The control socket. */
    {"a socket without a whole path", S A C "control-socket: socket\n",
     "warning: control-socket: socket is no whole path, so mvproxyctl cannot be used: begin it with /\n"},
    {"a socket in no folder", S A C "control-socket: @/none/socket\n",
     "warning: control-socket: @/none: No such file or directory: make that folder\n"},
    {"a folder for a socket", S A C "control-socket: @\n",
     "control-socket: @ is there, and is a folder, not a socket: give another path\n"},
    {"a file for a socket", S A C "control-socket: @/text\n",
     "control-socket: @/text is there, and is a file, not a socket: give another path\n"},
    {"a link for a socket", S A C "control-socket: @/link\n",
     "control-socket: @/link is there, and is a symbolic link, not a socket: give another path\n"},
    {"at the root", S A C "control-socket: /none-such\n", ""},
    {"the longest one", S A C "control-socket: /run/mvproxy/" X86 "\n", ""},
    {"one that is too long", S A C "control-socket: /run/mvproxy/" X86 "x\n",
     "warning: control-socket: /run/mvproxy/" X86
     "x is longer than 99 characters, so mvproxyctl cannot be used: give a shorter one\n"},
};

/* @ becomes the folder. */
static void expand(char *out, size_t n, const char *text)
{
    size_t used = 0;

    out[0] = '\0';
    for (; *text != '\0' && used < n; text++)
        used += (size_t)snprintf(out + used, n - used, *text == '@' ? "%s" : "%.1s", *text == '@' ? folder() : text);
}

/* Without the places in the file. */
static void plain(char *out, size_t n, struct slice findings)
{
    static const char place[] = "mvproxy.yaml:";
    struct slice line;
    size_t used = 0;

    out[0] = '\0';
    while (slice_split(&findings, '\n', &line)) {
        const char *at = line.n == 0 ? NULL : memmem(line.p, line.n, place, sizeof(place) - 1);
        size_t head = at == NULL ? 0 : (size_t)(at - line.p);

        if (line.n == 0)
            continue;
        used += (size_t)snprintf(out + used, n - used, "%.*s", (int)head, line.p);
        if (at != NULL) /* LINE:COLUMN: */
            line = slice_from(line, head + sizeof(place) - 1 + strspn(at + sizeof(place) - 1, "0123456789: "));
        used += (size_t)snprintf(out + used, n - used, "%.*s\n", (int)line.n, line.p);
    }
}

static struct config *load(const char *text)
{
    static char whole[ROOM];
    struct config *c;
    struct buf errors;

    expand(whole, sizeof(whole), text);
    (void)snprintf(whole + strlen(whole), sizeof(whole) - strlen(whole), "bind-address: 10.0.0.9\n%s",
                   strstr(text, "control-socket") == NULL ? "control-socket: \"\"\n" : "");
    folder_write("mvproxy.yaml", whole);
    buf_init(&errors, ROOM);
    c = config_load("mvproxy.yaml", NULL, 0, &errors);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    buf_free(&errors);
    return c;
}

static void found(size_t i)
{
    static char want[ROOM], got[ROOM], wrong[ROOM];
    struct config *c = load(rows[i].config);
    struct buf out, warnings;
    bool good, has_wrong = false;
    struct slice rest, line;

    buf_init(&out, ROOM);
    good = preflight_files(c, NULL, &out);
    expand(want, sizeof(want), rows[i].findings);
    plain(got, sizeof(got), buf_slice(&out));
    is_str(got, want, "%s", rows[i].name);
    rest = slice_str(want);
    while (slice_split(&rest, '\n', &line))
        has_wrong = has_wrong || (line.n > 0 && !slice_has_prefix(line, SLICE_LIT("warning: ")));
    is_int(good, !has_wrong, "%s: refused if more than warned of", rows[i].name);
    buf_free(&out);
    /* Of a reload that is refused only what is wrong is said, and else what is warned of. */
    buf_init(&out, ROOM);
    buf_init(&warnings, ROOM);
    is_int(preflight_wrong(c, &out, &warnings), good, "the same");
    plain(wrong, sizeof(wrong), buf_slice(&out));
    ok(strstr(wrong, "warning: ") == NULL && (wrong[0] == '\0') == good, "without warnings");
    plain(got, sizeof(got), buf_slice(&warnings));
    is_str(got, good ? want : "", "or with nothing else");
    is_int(preflight_wrong(c, &out, NULL), good, "whether they are wanted or not");
    buf_free(&warnings);
    buf_free(&out);
    config_free(c);
}

/* Who is no user of this machine is nobody; what root alone may read another one is told. */
static void unreadable(void)
{
    struct config *c;
    struct buf out;
    char want[1024];
    int wrong = -1;
    pid_t child;

    if (geteuid() != 0) {
        tap_skip("only root can take rights away", "a file that may not be read");
        return;
    }
    c = load(S A C);
    (void)chmod("server.key", 0600);
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        static char got[ROOM];

        if (setuid(65534) != 0)
            _exit(3);
        buf_init(&out, ROOM);
        wrong = preflight_files(c, NULL, &out);
        plain(got, sizeof(got), buf_slice(&out));
        (void)snprintf(want, sizeof(want),
                       "tls-private-key-file: %s/server.key: Permission denied: run this as root, or let the user that "
                       "runs it read the file and search its folders\n",
                       folder());
        _exit(wrong ? 2 : strcmp(got, want) == 0 ? 0 : 1);
    }
    ok(child > 0 && waitpid(child, &wrong, 0) == child && wrong == 0, "a file that may not be read (%d)", wrong);
    (void)chmod("server.key", 0644);
    config_free(c);
}

int main(void)
{
    folder_certificates(
        "import datetime\n"
        "day = lambda n: (datetime.datetime.utcnow() + datetime.timedelta(n)).strftime('%Y%m%d%H%M%SZ')\n"
        "kube = dict(ca='ca', eku='serverAuth', sans=('kubernetes.default.svc',))\n"
        "for n in ('ca', 'clients-ca', 'front-ca'): a.issue(n, n, is_ca=True, eku='')\n"
        "a.issue('server', 's', **kube)\n"
        "a.issue('old', 's', start='20200101000000Z', end='20210101000000Z', **kube)\n"
        "a.issue('early', 's', start='20400101000000Z', end='20410101000000Z', **kube)\n"
        "a.issue('soon', 's', start='20200101000000Z', end=day(6.5), **kube)\n"
        "a.issue('unnamed', 's', ca='ca', eku='serverAuth', sans=('a.example',))\n"
        "a.issue('client', 'somebody', ca='clients-ca', eku='clientAuth')\n"
        "a.issue('front', 'front', ca='front-ca', eku='clientAuth')\n"
        "a.issue('of-ca', 'front', ca='ca', eku='clientAuth')\n"
        "a.issue('own', 'front', eku='clientAuth')\n"
        "a.issue('old-client', 'front', ca='front-ca', start='20200101000000Z', end='20210101000000Z')\n");
    folder_enter();
    folder_write("text", "nothing\n");
    if (system("chmod 755 . && chmod 644 * && head -c 200 server.crt >cut.crt && head -c 100 server.key >cut.key && "
               "ln -s text link && cat front-ca.crt cut.crt >mixed.crt && cp server.key c && cp server.crt k && cp "
               "client.crt a") != 0)
        tap_bail("files");
    for (size_t i = 0; i < ROWS(rows); i++)
        found(i);
    unreadable();
    return tap_end();
}
