/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admin/control.h"
#include "base/clock.h"
#include "base/duration.h"
#include "daemon/remarks.h"
#include "daemon/trust.h"
#include "net/tls_inspect.h"
#include "net/tls_sni.h"

enum { DAY_S = 86400, SOON_S = 30 * DAY_S, FINDINGS_CEILING = 64 << 10 };

struct preflight {
    struct remarks r;
    const char *user;
    bool relative;         /* has been said of one file */
    char closed[PATH_MAX]; /* the folder that was named last */
};

/* ---- one file ---- */

/* As that user. Root asks in a process of its own that becomes him for good. 0, or the errno. */
static int access_as(const struct passwd *pw, const char *path, int mode)
{
    int status;
    pid_t child;

    if (geteuid() != 0)
        return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 ? 0 : errno;
    child = fork();
    if (child == 0) {
        if (initgroups(pw->pw_name, pw->pw_gid) != 0 || setgid(pw->pw_gid) != 0 || setuid(pw->pw_uid) != 0)
            _exit(0);
        _exit(access(path, mode) == 0 ? 0 : errno & 0xff);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 0;
    return WEXITSTATUS(status);
}

/* NULL: it is not known what the service's user may. That is root's to find out, or his own: mvproxyctl has given up
 * root's rights for his. */
static const struct passwd *service_user(const struct preflight *p)
{
    const struct passwd *pw = p->user == NULL ? NULL : getpwnam(p->user);

    return pw == NULL || pw->pw_uid == 0 || (geteuid() != 0 && geteuid() != pw->pw_uid) ? NULL : pw;
}

/* The first of its folders that he may not search. */
static bool closed_folder(const struct passwd *pw, const char *path, char out[PATH_MAX])
{
    for (size_t i = 1; i < PATH_MAX && path[i] != '\0'; i++) {
        if (path[i] != '/')
            continue;
        (void)snprintf(out, PATH_MAX, "%.*s", (int)i, path);
        if (access_as(pw, out, X_OK) == EACCES)
            return true;
    }
    return false;
}

static void say_unreadable(struct preflight *p, const struct passwd *pw, const char *option, const char *path,
                           int error)
{
    char folder[PATH_MAX];

    if (error == EACCES && closed_folder(pw, path, folder)) {
        if (strcmp(folder, p->closed) != 0) /* once for all files in it */
            remarks_wrong(&p->r, option,
                          "the user %s, as whom the service runs, may not search %s, where %s is: setfacl -m u:%s:x %s",
                          p->user, folder, path, p->user, folder);
        (void)snprintf(p->closed, sizeof(p->closed), "%s", folder);
        p->r.ok = false;
        return;
    }
    remarks_wrong(
        &p->r, option,
        "the user %s, as whom the service runs, cannot read %s (%s): setfacl -m u:%s:r %s, and again before each "
        "start and reload as docs/kubeadm.md has it (a renewal may replace the file)",
        p->user, path, strerror(error), p->user, path);
}

static bool service_can_read(struct preflight *p, const char *option, const char *path)
{
    const struct passwd *pw = service_user(p);
    int error = pw == NULL ? 0 : access_as(pw, path, R_OK);

    if (error != 0)
        say_unreadable(p, pw, option, path, error);
    return error == 0;
}

bool preflight_itself(const struct config *c, const char *file, const char *user, struct buf *findings)
{
    struct preflight p = {.r = {c, findings, true}, .user = user};
    const struct passwd *pw = service_user(&p);
    int error = pw == NULL ? 0 : access_as(pw, file, R_OK);
    char folder[PATH_MAX];

    if (error == 0)
        return true;
    if (error == EACCES && closed_folder(pw, file, folder))
        buf_printf(findings, "%s: the user %s, as whom the service runs, may not search %s: setfacl -m u:%s:x %s\n",
                   file, user, folder, user, folder);
    else
        buf_printf(findings, "%s: the user %s, as whom the service runs, cannot read it (%s): setfacl -m u:%s:r %s\n",
                   file, user, strerror(error), user, file);
    return false;
}

static const char *kind_name(enum trust_file_kind kind)
{
    return kind == TRUST_KEY ? "private key" : "certificate";
}

static bool readable(struct preflight *p, const char *option, const char *path, enum trust_file_kind kind)
{
    struct tls_file_facts f;

    tls_inspect(path, &f);
    if (f.error == EACCES && geteuid() != 0 && service_user(p) != NULL)
        return service_can_read(p, option, path);
    if (f.error == EACCES) {
        remarks_wrong(&p->r, option,
                      "%s: %s: run this as root, or let the user that runs it read the file and search its folders",
                      path, strerror(f.error));
        return false;
    }
    if (f.error != 0) {
        remarks_wrong(&p->r, option,
                      path[0] == '/' ? "%s: %s: give the path of a PEM file"
                                     : "%s: %s: give the whole path of a PEM file, in which ~ and $ mean nothing",
                      path, strerror(f.error));
        return false;
    }
    if (path[0] != '/' && !p->relative)
        remarks_warn(&p->r, option,
                     "%s is looked for in the folder that mvproxy starts in, which for the service is /: give whole "
                     "paths",
                     path);
    p->relative = p->relative || path[0] != '/';
    if (kind == TRUST_KEY ? f.has_key : f.has_certificate && !f.damaged)
        return service_can_read(p, option, path);
    if (kind == TRUST_KEY && f.has_certificate)
        remarks_wrong(&p->r, option, "%s is a certificate, not a private key: give the key here (are the two swapped?)",
                      path);
    else if (kind != TRUST_KEY && f.has_key)
        remarks_wrong(&p->r, option,
                      "%s is a private key, not a certificate: give the certificate here (are the two swapped?)", path);
    else if (f.damaged)
        remarks_wrong(&p->r, option, "%s is damaged, its PEM text is incomplete or is no %s: copy it anew", path,
                      kind_name(kind));
    else
        remarks_wrong(&p->r, option, "%s has no %s in PEM: give another file", path, kind_name(kind));
    return false;
}

struct pair {
    const char *cert_option, *cert, *key_option, *key;
    bool for_servers;
    bool one_of_many; /* what is wrong with its dates concerns few */
};

static void check_dates(struct preflight *p, const struct pair *pair)
{
    void (*say)(struct remarks *, const char *, const char *, ...) = pair->one_of_many ? remarks_warn : remarks_wrong;
    int64_t now = clock_wall_us() / 1000000;
    char when[CLOCK_RFC3339_BYTES];
    char left[DURATION_BYTES];
    struct tls_file_facts f;

    tls_inspect(pair->cert, &f);
    clock_rfc3339((f.valid.not_after <= now ? f.valid.not_after : f.valid.not_before) * 1000000, when);
    if (f.valid.not_after <= now)
        say(&p->r, pair->cert_option, "%s expired at %s: renew it", pair->cert, when);
    else if (f.valid.not_before > now)
        say(&p->r, pair->cert_option, "%s is not valid before %s: check the clock of this machine", pair->cert, when);
    else if (f.valid.not_after - now < SOON_S)
        remarks_warn(&p->r, pair->cert_option, "%s expires in %s: renew it", pair->cert,
                     duration_left(f.valid.not_after - now, left));
}

/* ---- what belongs together ---- */

static void look_at_pair(struct preflight *p, const struct pair *pair)
{
    bool cert = pair->cert[0] != '\0' && readable(p, pair->cert_option, pair->cert, TRUST_CERTIFICATE);
    bool key = pair->key[0] != '\0' && readable(p, pair->key_option, pair->key, TRUST_KEY);
    struct tls_file_facts f;

    if (cert && key && !tls_inspect_belongs(pair->cert, pair->key))
        remarks_wrong(&p->r, pair->key_option,
                      "%s does not belong to the certificate %s, or is encrypted: give its plain key", pair->key,
                      pair->cert);
    if (!cert)
        return;
    check_dates(p, pair);
    tls_inspect(pair->cert, &f);
    if (pair->for_servers ? !f.for_servers : !f.for_clients)
        remarks_wrong(&p->r, pair->cert_option, "%s must not be used by %s (extended key usage): issue one with %s",
                      pair->cert, pair->for_servers ? "servers" : "clients",
                      pair->for_servers ? "serverAuth" : "clientAuth");
}

/* Whether it is there, and nothing is wrong with it. */
static bool check_pair(struct preflight *p, const struct pair *pair)
{
    bool before = p->r.ok, good;

    p->r.ok = true;
    look_at_pair(p, pair);
    good = p->r.ok;
    p->r.ok = before && good;
    return good && pair->cert[0] != '\0' && pair->key[0] != '\0';
}

static void check_serving(struct preflight *p)
{
    const char *cert = p->r.c->tls_cert_file;

    if (check_pair(p, &(struct pair){"tls-cert-file", cert, "tls-private-key-file", p->r.c->tls_private_key_file, true,
                                     false}) &&
        !tls_inspect_covers(cert, "kubernetes.default.svc"))
        remarks_wrong(&p->r, "tls-cert-file",
                      "%s is not valid for kubernetes.default.svc, by which peers know us: add that name", cert);
}

static void check_sni(struct preflight *p)
{
    char entry[REMARKS_NAME_BYTES];
    struct tls_sni_spec spec;
    struct err err;

    for (size_t i = 0; p->r.c->tls_sni_cert_key[i] != NULL; i++) {
        err_clear(&err);
        if (!tls_sni_parse(p->r.c->tls_sni_cert_key[i], &spec, &err))
            continue;
        (void)remarks_entry(entry, "tls-sni-cert-key", i);
        (void)check_pair(p, &(struct pair){entry, spec.cert_file, entry, spec.key_file, true, true});
    }
}

static bool check_bundle(struct preflight *p, const char *option, const char *path)
{
    return path[0] != '\0' && readable(p, option, path, TRUST_BUNDLE);
}

static bool has_ca(const char *path)
{
    struct tls_file_facts f;

    tls_inspect(path, &f);
    return f.has_ca;
}

/* By which clients are believed, each with a certificate of his own. */
static bool check_clients_bundle(struct preflight *p, const char *option, const char *path)
{
    bool good = check_bundle(p, option, path);

    if (good && !has_ca(path))
        remarks_wrong(&p->r, option, "%s has no certificate of a CA, so it believes nobody: give the CA's (ca.crt)",
                      path);
    return good && has_ca(path);
}

/* A server's own certificate in place of its CA's is believed as well, for as long as the server has it. */
static void check_servers_bundle(struct preflight *p, const char *option, const char *path)
{
    if (check_bundle(p, option, path) && !has_ca(path))
        remarks_warn(
            &p->r, option,
            "%s has no certificate of a CA: nobody is believed any more once the server's is renewed: give the CA "
            "that has signed it (ca.crt)",
            path);
}

static void check_allowed_name(struct preflight *p)
{
    const char *const *names = p->r.c->requestheader_allowed_names;
    char own[256];

    if (names[0] == NULL || !tls_inspect_common_name(p->r.c->proxy_client_cert_file, own, sizeof(own)))
        return;
    for (; *names != NULL; names++)
        if (strcmp(*names, own) == 0)
            return;
    remarks_warn(
        &p->r, "requestheader-allowed-names",
        "does not have %s, the name of proxy-client-cert-file: peers that are configured likewise do not believe us: "
        "add it, as kube-apiserver has it",
        own);
}

/* Who names a file of another kind means something else, or has slipped: a socket in its place would be its end. */
bool preflight_control_socket(const struct config *c, struct buf *errors)
{
    struct remarks r = {c, errors, true};
    const char *path = c->control_socket;
    struct stat st;

    if (path[0] == '/' && lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        remarks_wrong(&r, "control-socket", "%s is there, and is %s, not a socket: give another path", path,
                      S_ISDIR(st.st_mode)   ? "a folder"
                      : S_ISLNK(st.st_mode) ? "a symbolic link"
                                            : "a file");
    return r.ok;
}

/* The service manager makes /run/mvproxy when it starts the service. Without the socket mvproxy serves all the same. */
static void check_control_socket(struct preflight *p)
{
    const char *path = p->r.c->control_socket, *slash = strrchr(path, '/');
    char folder[CONTROL_PATH_MAX + 1];
    struct stat st;

    if (path[0] == '\0')
        return;
    if (path[0] != '/') {
        remarks_warn(&p->r, "control-socket", "%s is no whole path, so mvproxyctl cannot be used: begin it with /",
                     path);
        return;
    }
    if (strlen(path) > CONTROL_PATH_MAX) {
        remarks_warn(&p->r, "control-socket",
                     "%s is longer than %d characters, so mvproxyctl cannot be used: give a shorter one", path,
                     CONTROL_PATH_MAX);
        return;
    }
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return; /* is said below */
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    if (slash > path && strcmp(folder, "/run/mvproxy") != 0 && access(folder, F_OK) != 0)
        remarks_warn(&p->r, "control-socket", "%s: %s: make that folder", folder, strerror(errno));
}

/* The CA of servers is hardly ever that of front proxies. */
static bool is_servers_ca(const struct config *c, const char *bundle)
{
    return tls_inspect_shared(bundle, c->apiserver_ca_file) || tls_inspect_signed(c->tls_cert_file, bundle);
}

static void say_unsigned(struct preflight *p)
{
    const struct config *c = p->r.c;

    if (c->client_ca_file[0] == '\0' || !tls_inspect_signed(c->proxy_client_cert_file, c->client_ca_file))
        remarks_wrong(&p->r, "requestheader-client-ca-file",
                      "%s has not signed proxy-client-cert-file, so peers would not believe us: give the front-proxy "
                      "CA, as kube-apiserver has it",
                      c->requestheader_client_ca_file);
    else if (is_servers_ca(c, c->requestheader_client_ca_file) && !is_servers_ca(c, c->client_ca_file))
        remarks_wrong(&p->r, "client-ca-file",
                      "%s has signed proxy-client-cert-file, and requestheader-client-ca-file has not: the two CA "
                      "files are swapped, exchange them",
                      c->client_ca_file);
    else
        remarks_wrong(&p->r, "proxy-client-cert-file",
                      "%s is a certificate of client-ca-file, not of requestheader-client-ca-file, so peers would not "
                      "believe us: give the front proxy's (front-proxy-client.crt)",
                      c->proxy_client_cert_file);
}

static void check_front_proxy(struct preflight *p, bool front_proxy_ca)
{
    const struct config *c = p->r.c;
    bool good = check_pair(p, &(struct pair){"proxy-client-cert-file", c->proxy_client_cert_file,
                                             "proxy-client-key-file", c->proxy_client_key_file, false, false});

    if (!front_proxy_ca || !good)
        return;
    if (tls_inspect_signed(c->proxy_client_cert_file, c->requestheader_client_ca_file))
        check_allowed_name(p);
    else
        say_unsigned(p);
}

/* Whoever has a certificate of the clients' CA could then name any user (kubernetes.io, "aggregation layer"). */
static void check_separate_cas(struct preflight *p)
{
    const struct config *c = p->r.c;

    if (!tls_inspect_shared(c->client_ca_file, c->requestheader_client_ca_file))
        return;
    if (c->requestheader_allowed_names[0] != NULL && c->apiserver_ca_file[0] != '\0' &&
        !tls_inspect_shared(c->client_ca_file, c->apiserver_ca_file)) {
        remarks_warn(
            &p->r, "client-ca-file",
            "%s is the front-proxy CA, and users have certificates of another as a rule: give kube-apiserver's "
            "--client-ca-file",
            c->client_ca_file);
        return;
    }
    if (c->requestheader_allowed_names[0] == NULL)
        remarks_wrong(
            &p->r, "requestheader-client-ca-file",
            "shares a CA with client-ca-file, and requestheader-allowed-names is empty: every client could pose as any "
            "user: give the front-proxy CA");
    else
        remarks_warn(&p->r, "requestheader-client-ca-file",
                     "shares a CA with client-ca-file: give the front-proxy CA its own");
}

bool preflight_files(const struct config *c, const char *user, struct buf *findings)
{
    struct preflight p = {.r = {c, findings, true}, .user = user};
    bool client_ca, front_proxy_ca;

    check_serving(&p);
    check_sni(&p);
    client_ca = check_clients_bundle(&p, "client-ca-file", c->client_ca_file);
    front_proxy_ca = check_clients_bundle(&p, "requestheader-client-ca-file", c->requestheader_client_ca_file);
    check_servers_bundle(&p, "apiserver-ca-file", c->apiserver_ca_file);
    check_servers_bundle(&p, "peer-ca-file", c->peer_ca_file);
    check_servers_bundle(&p, "etcd-cafile", c->etcd_cafile);
    (void)check_pair(&p,
                     &(struct pair){"etcd-certfile", c->etcd_certfile, "etcd-keyfile", c->etcd_keyfile, false, false});
    check_front_proxy(&p, front_proxy_ca);
    if (client_ca && front_proxy_ca)
        check_separate_cas(&p);
    check_control_socket(&p);
    p.r.ok = preflight_control_socket(c, findings) && p.r.ok;
    if (c->client_ca_file[0] == '\0')
        remarks_warn(&p.r, "client-ca-file",
                     "none: users with certificates are refused: give kube-apiserver's --client-ca-file");
    return p.r.ok;
}

bool preflight_wrong(const struct config *c, struct buf *errors, struct buf *warnings)
{
    struct slice rest, line;
    struct buf *out;
    struct buf findings;
    bool ok;

    buf_init(&findings, FINDINGS_CEILING);
    ok = preflight_files(c, NULL, &findings);
    rest = buf_slice(&findings);
    out = ok ? warnings : errors;
    while (out != NULL && slice_split(&rest, '\n', &line))
        if (line.n > 0 && slice_has_prefix(line, SLICE_LIT("warning: ")) == ok)
            buf_printf(out, "%.*s\n", (int)line.n, line.p);
    buf_free(&findings);
    return ok;
}
