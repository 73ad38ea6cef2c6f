/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/derive.h"
#include "daemon/options.h"
#include "daemon/trust.h"
#include "net/cidr.h"
#include "net/own_address.h"
#include "net/tls_inspect.h"

enum { DAY_S = 86400, SOON_S = 30 * DAY_S };

struct preflight {
    const struct config *c;
    const char *user;
    struct buf *findings;
    bool ok;
    char closed[PATH_MAX]; /* the folder that was named last */
};

/* ---- findings ---- */

static void put_place(const struct preflight *p, const char *option)
{
    const struct option *o = options_find(slice_of(option, strcspn(option, "[")));
    const struct config_origin *at = o == NULL ? NULL : &p->c->origins[options_index(o)];

    if (at != NULL && at->given && at->place.file != NULL)
        buf_printf(p->findings, "%s:%zu:%zu: ", at->place.file, at->place.line, at->place.column);
    else if (at != NULL && at->given)
        buf_append_str(p->findings, "command line: ");
    buf_printf(p->findings, "%s: ", option);
}

static void wrong(struct preflight *p, const char *option, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void wrong(struct preflight *p, const char *option, const char *fmt, ...)
{
    va_list ap;

    p->ok = false;
    put_place(p, option);
    va_start(ap, fmt);
    buf_vprintf(p->findings, fmt, ap);
    va_end(ap);
    buf_append_char(p->findings, '\n');
}

static void warn(struct preflight *p, const char *option, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void warn(struct preflight *p, const char *option, const char *fmt, ...)
{
    va_list ap;

    buf_append_str(p->findings, "warning: ");
    put_place(p, option);
    va_start(ap, fmt);
    buf_vprintf(p->findings, fmt, ap);
    va_end(ap);
    buf_append_char(p->findings, '\n');
}

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
            wrong(p, option,
                  "the user %s, as whom the service runs, may not search %s, where %s is: setfacl -m u:%s:x %s",
                  p->user, folder, path, p->user, folder);
        (void)snprintf(p->closed, sizeof(p->closed), "%s", folder);
        p->ok = false;
        return;
    }
    wrong(p, option,
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
    struct preflight p = {.c = c, .user = user, .findings = findings, .ok = true};
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
        wrong(p, option, "%s: %s: run this as root, or let the user that runs it read the file and search its folders",
              path, strerror(f.error));
        return false;
    }
    if (f.error != 0) {
        wrong(p, option, "%s: %s: give the path of a PEM file", path, strerror(f.error));
        return false;
    }
    if (kind == TRUST_KEY ? f.has_key : f.has_certificate && !f.damaged)
        return service_can_read(p, option, path);
    if (kind == TRUST_KEY && f.has_certificate)
        wrong(p, option, "%s is a certificate, not a private key: certificate and key are swapped", path);
    else if (kind != TRUST_KEY && f.has_key)
        wrong(p, option, "%s is a private key, not a certificate: certificate and key are swapped", path);
    else if (f.damaged)
        wrong(p, option, "%s is damaged: its PEM text is incomplete or is no %s", path, kind_name(kind));
    else
        wrong(p, option, "%s has no %s in PEM: give another file", path, kind_name(kind));
    return false;
}

static void check_dates(struct preflight *p, const char *option, const char *path)
{
    int64_t now = clock_wall_us() / 1000000;
    char when[CLOCK_RFC3339_BYTES];
    struct tls_file_facts f;

    tls_inspect(path, &f);
    clock_rfc3339((f.valid.not_after <= now ? f.valid.not_after : f.valid.not_before) * 1000000, when);
    if (f.valid.not_after <= now)
        wrong(p, option, "%s expired at %s: renew it", path, when);
    else if (f.valid.not_before > now)
        wrong(p, option, "%s is not valid before %s: check the clock of this machine", path, when);
    else if (f.valid.not_after - now < SOON_S)
        warn(p, option, "%s expires in %lld days: renew it", path, (long long)((f.valid.not_after - now) / DAY_S));
}

/* ---- what belongs together ---- */

struct pair {
    const char *cert_option, *cert, *key_option, *key;
    bool for_servers;
};

static void check_pair(struct preflight *p, const struct pair *pair)
{
    bool cert = readable(p, pair->cert_option, pair->cert, TRUST_CERTIFICATE);
    bool key = readable(p, pair->key_option, pair->key, TRUST_KEY);
    struct tls_file_facts f;

    if (cert && key && !tls_inspect_belongs(pair->cert, pair->key))
        wrong(p, pair->key_option, "%s does not belong to the certificate %s, or is encrypted: give its plain key",
              pair->key, pair->cert);
    if (!cert)
        return;
    check_dates(p, pair->cert_option, pair->cert);
    tls_inspect(pair->cert, &f);
    if (pair->for_servers ? !f.for_servers : !f.for_clients)
        wrong(p, pair->cert_option, "%s must not be used by %s (extended key usage): issue one with %s", pair->cert,
              pair->for_servers ? "servers" : "clients", pair->for_servers ? "serverAuth" : "clientAuth");
}

static void check_serving(struct preflight *p)
{
    const struct config *c = p->c;
    bool before = p->ok;

    check_pair(
        p, &(struct pair){"tls-cert-file", c->tls_cert_file, "tls-private-key-file", c->tls_private_key_file, true});
    if (p->ok == before && !tls_inspect_covers(c->tls_cert_file, "kubernetes.default.svc"))
        wrong(p, "tls-cert-file", "%s is not valid for kubernetes.default.svc, by which peers know us: add that name",
              c->tls_cert_file);
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
        wrong(p, option, "%s has no certificate of a CA, so it believes nobody: give the CA's (ca.crt)", path);
    return good && has_ca(path);
}

/* A server's own certificate in place of its CA's is believed as well, for as long as the server has it. */
static void check_servers_bundle(struct preflight *p, const char *option, const char *path)
{
    if (check_bundle(p, option, path) && !has_ca(path))
        warn(p, option,
             "%s has no certificate of a CA: nobody is believed any more once the server's is renewed: give the CA "
             "that has signed it (ca.crt)",
             path);
}

static void check_allowed_name(struct preflight *p)
{
    const char *const *names = p->c->requestheader_allowed_names;
    char own[256];

    if (names[0] == NULL || !tls_inspect_common_name(p->c->proxy_client_cert_file, own, sizeof(own)))
        return;
    for (; *names != NULL; names++)
        if (strcmp(*names, own) == 0)
            return;
    warn(p, "requestheader-allowed-names",
         "does not have %s, the name of proxy-client-cert-file: peers that are configured likewise do not believe us: "
         "add it, as kube-apiserver has it",
         own);
}

/* The service manager makes /run/mvproxy when it starts the service. */
static void check_control_folder(struct preflight *p)
{
    const char *path = p->c->control_socket, *slash = strrchr(path, '/');
    char folder[256];

    if (slash == NULL || slash == path || strncmp(path, "/run/mvproxy/", strlen("/run/mvproxy/")) == 0 ||
        (size_t)(slash - path) >= sizeof(folder))
        return;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    if (access(folder, F_OK) != 0)
        warn(p, "control-socket", "%s: %s: make that folder", folder, strerror(errno));
}

static void check_front_proxy(struct preflight *p, bool front_proxy_ca)
{
    const struct config *c = p->c;

    if (c->proxy_client_cert_file[0] == '\0')
        return;
    check_pair(p, &(struct pair){"proxy-client-cert-file", c->proxy_client_cert_file, "proxy-client-key-file",
                                 c->proxy_client_key_file, false});
    if (!front_proxy_ca || !p->ok)
        return;
    if (tls_inspect_signed(c->proxy_client_cert_file, c->requestheader_client_ca_file)) {
        check_allowed_name(p);
        return;
    }
    if (c->client_ca_file[0] != '\0' && tls_inspect_signed(c->proxy_client_cert_file, c->client_ca_file))
        wrong(p, "proxy-client-cert-file",
              "%s is a certificate of client-ca-file, not of requestheader-client-ca-file, so peers would not believe "
              "us: give the front proxy's (front-proxy-client.crt)",
              c->proxy_client_cert_file);
    else
        wrong(p, "requestheader-client-ca-file",
              "%s has not signed proxy-client-cert-file, so peers would not believe us: give the front-proxy CA, as "
              "kube-apiserver has it",
              c->requestheader_client_ca_file);
}

/* Whoever has a certificate of the clients' CA could then name any user (kubernetes.io, "aggregation layer"). */
static void check_separate_cas(struct preflight *p)
{
    const struct config *c = p->c;

    if (!tls_inspect_shared(c->client_ca_file, c->requestheader_client_ca_file))
        return;
    if (c->requestheader_allowed_names[0] != NULL && c->apiserver_ca_file[0] != '\0' &&
        !tls_inspect_shared(c->client_ca_file, c->apiserver_ca_file)) {
        warn(p, "client-ca-file",
             "%s is the front-proxy CA, and users have certificates of another as a rule: give kube-apiserver's "
             "--client-ca-file",
             c->client_ca_file);
        return;
    }
    if (c->requestheader_allowed_names[0] == NULL)
        wrong(
            p, "requestheader-client-ca-file",
            "shares a CA with client-ca-file, and requestheader-allowed-names is empty: every client could pose as any "
            "user: give the front-proxy CA");
    else
        warn(p, "requestheader-client-ca-file", "shares a CA with client-ca-file: give the front-proxy CA its own");
}

bool preflight_files(const struct config *c, const char *user, struct buf *findings)
{
    struct preflight p = {.c = c, .user = user, .findings = findings, .ok = true};
    bool client_ca, front_proxy_ca;

    check_serving(&p);
    client_ca = check_clients_bundle(&p, "client-ca-file", c->client_ca_file);
    front_proxy_ca = check_clients_bundle(&p, "requestheader-client-ca-file", c->requestheader_client_ca_file);
    check_servers_bundle(&p, "apiserver-ca-file", c->apiserver_ca_file);
    check_servers_bundle(&p, "peer-ca-file", c->peer_ca_file);
    check_servers_bundle(&p, "etcd-cafile", c->etcd_cafile);
    if (c->etcd_certfile[0] != '\0')
        check_pair(&p, &(struct pair){"etcd-certfile", c->etcd_certfile, "etcd-keyfile", c->etcd_keyfile, false});
    check_front_proxy(&p, front_proxy_ca);
    if (client_ca && front_proxy_ca)
        check_separate_cas(&p);
    check_control_folder(&p);
    if (c->client_ca_file[0] == '\0')
        warn(&p, "client-ca-file", "none: users with certificates are refused");
    return p.ok;
}

bool preflight_wrong(const struct config *c, const char *option, const char *what, struct buf *findings)
{
    struct preflight p = {.c = c, .findings = findings, .ok = true};

    wrong(&p, option, "%s", what);
    return p.ok;
}

/* ---- who has to send a PROXY header and never does ---- */

struct headerless {
    struct preflight *p;
    struct cidr_set balancers;
    bool warned;
};

static void look_at_own(const char *ip, void *arg)
{
    struct headerless *h = arg;

    if (h->warned || !cidr_set_covers(&h->balancers, slice_str(ip)))
        return;
    h->warned = true;
    warn(h->p, "proxy-protocol-from",
         "has %s, an address of this machine: its own connections (kubelet, kube-proxy, host-network Pods) are refused "
         "without a PROXY header: give the balancer an address of its own",
         ip);
}

static void check_balancers(struct preflight *p)
{
    struct headerless h = {.p = p};
    struct derive_address at;
    char name[DERIVE_HOST_BYTES];

    if (!cidr_set_assign(&h.balancers, p->c->proxy_protocol_from))
        return;
    for (size_t i = 0; p->c->peers[i] != NULL; i++)
        if (derive_peer(p->c->peers[i], name, &at, NULL) && cidr_set_covers(&h.balancers, slice_str(at.host)))
            warn(p, "proxy-protocol-from",
                 "has %s, the peer %s, whose requests come without a PROXY header and are refused: give the balancer "
                 "an address of its own",
                 at.host, name);
    own_address_each(look_at_own, &h);
    cidr_set_free(&h.balancers);
}

void preflight_lacking(const struct config *c, struct buf *findings)
{
    struct preflight p = {.c = c, .findings = findings, .ok = true};

    if (c->peer_ca_file[0] == '\0')
        warn(&p, "peer-ca-file",
             "none: peers cannot be used, and what only they have is 503: give the CA of the API servers' serving "
             "certificates");
    if (c->proxy_client_cert_file[0] == '\0')
        warn(&p, "proxy-client-cert-file",
             "none: users with certificates are refused, and peers cannot be used: give kube-apiserver's front-proxy "
             "pair");
    check_balancers(&p);
}
