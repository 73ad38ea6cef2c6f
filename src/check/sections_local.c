/* SPDX-License-Identifier: Apache-2.0 */
/* The API server behind: reached, itself, ready, and of one mind with us about who is who. */
#include "check/sections.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "back/back.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cluster/api.h"
#include "http/head.h"
#include "kube/readyz.h"
#include "kube/request_header.h"
#include "kube/version.h"
#include "net/tls_ctx.h"
#include "net/tls_inspect.h"

enum { BODY_BYTES = 2 << 20, OLDEST_MINOR = 24, NEWEST_MINOR = 37 };

/* ---- reached ---- */

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

static const char *remedy_for(const char *failure)
{
    if (strncmp(failure, "resolve ", strlen("resolve ")) == 0)
        return "give an IP address in apiserver, 127.0.0.1 if it can be; or see to the name: /etc/hosts, "
               "/etc/resolv.conf and whether the name servers there answer";
    if (has(failure, "it has expired") || has(failure, "it is not valid yet"))
        return "renew kube-apiserver's serving certificate (kubeadm certs renew apiserver), or set this machine's "
               "clock";
    if (has(failure, "certificate"))
        return "apiserver-ca-file must be the CA of kube-apiserver's --tls-cert-file, and apiserver-tls-server-name "
               "one of "
               "its names";
    if (has(failure, "timed out"))
        return "if kube-apiserver runs there, it hangs or is overloaded: its log, CPU, memory and disks of this "
               "machine; "
               "if it does not, correct apiserver: something drops what is sent there";
    if (has(failure, "efused") || has(failure, "nreachable"))
        return "start kube-apiserver, or correct apiserver: its --bind-address and --secure-port";
    return "correct apiserver, apiserver-ca-file and apiserver-tls-server-name";
}

static bool judge_reach(struct scene *s, const struct answer *a)
{
    const char *url = s->config->apiserver;

    if (a->ok) {
        findings_good(s->f, "local-reachable", "%s answers with a certificate of apiserver-ca-file for %s", url,
                      s->config->apiserver_tls_server_name);
        return true;
    }
    if (origin_loops(s->around.local))
        findings_wrong(
            s->f, "local-loop",
            "apiserver must lead to kube-apiserver alone: an address of loopback is best, no virtual one and "
            "no load balancer",
            "apiserver: at %s an mvproxy answers, not a kube-apiserver: requests would go round", url);
    else
        findings_wrong(s->f, "local-reachable", remedy_for(a->failure), "apiserver: %s", a->failure);
    return false;
}

/* ---- ready, and which ---- */

static const char *to_be_ready(struct slice body, struct slice failed)
{
    if (readyz_etcd_fails(body))
        return "see to its etcd, which does not answer it: its --etcd-servers, their logs and leader, the network to "
               "them";
    return failed.n == 0 ? "it starts, or its etcd does not answer: its log and /readyz?verbose say which"
                         : "wait if it starts or stops; else its log says why that check fails";
}

static void judge_ready(struct scene *s, const struct answer *a)
{
    enum { SHOWN = 64 }; /* of a name; a longer one is no check of kube-apiserver's */
    struct slice failed = readyz_failed(a->body);

    if (a->status == 200)
        findings_good(s->f, "local-ready", "it is ready");
    s->unready = a->status >= 500;
    s->etcd_fails = s->unready && readyz_etcd_fails(a->body);
    if (!s->unready)
        return;
    if (failed.n > SHOWN)
        failed = SLICE_NONE;
    findings_wrong(s->f, "local-ready", to_be_ready(a->body, failed),
                   "the local API server is not ready: its /readyz answers %u%s%.*s%s", a->status,
                   failed.n == 0 ? "" : " (", (int)failed.n, failed.n == 0 ? "" : failed.p,
                   failed.n == 0 ? "" : " failed)");
}

static void judge_version(struct scene *s, struct buf *body)
{
    struct version v;
    struct answer a;

    scene_get(s, "/version", body, &a);
    if (a.ok && (a.status == 401 || a.status == 403) && !s->believed)
        return; /* that has its own mark */
    if (!a.ok || a.status != 200 || !version_read(a.body, &v) || v.major == 0) {
        findings_warn(s->f, "local-version", "is it a kube-apiserver, and may apiserver-user read /version?",
                      "the local API server does not say its version: %s", a.ok ? "no such answer" : a.failure);
        return;
    }
    s->minor = v.major == 1 ? v.minor : 0;
    scene_judge_clock(s, "local-clock", "the local API server", &a);
    if (s->minor < OLDEST_MINOR || s->minor > NEWEST_MINOR)
        findings_warn(s->f, "local-version", "mvproxy was tested with Kubernetes 1.24 to 1.37",
                      "the local API server is %s, with which mvproxy was not tested", v.binary);
    else
        findings_good(s->f, "local-version", "it is kube-apiserver %s", v.binary);
}

/* ---- who we are to it ---- */

static const char *to_be_believed(const struct scene *s)
{
    struct tls_validity v;

    if (s->held_back)
        return "put the front proxy's pair of before back, which the process still uses; another one must first be "
               "believed by all API servers";
    if (tls_file_validity(s->config->proxy_client_cert_file, false, &v) && v.not_after <= clock_wall_us() / 1000000)
        return "proxy-client-cert-file has expired: renew it";
    return "its --requestheader-client-ca-file must be the CA of proxy-client-cert-file, its "
           "--requestheader-allowed-names have that name or be empty, and its --requestheader-username-headers have "
           "the first of requestheader-username-headers";
}

/* Asked with what the files have: the process may use other ones. */
static const char *front_proxy(const struct scene *s)
{
    return s->held_back
               ? "the front proxy by the pair in the file (proxy-client-cert-file), which the process does not "
                 "use"
               : "the front proxy";
}

static bool ask_review(struct scene *s, const char *version, struct buf *body, struct answer *a)
{
    char path[96], request[128];

    (void)snprintf(path, sizeof(path), "/apis/authentication.k8s.io/%s/selfsubjectreviews", version);
    (void)snprintf(request, sizeof(request),
                   "{\"apiVersion\":\"authentication.k8s.io/%s\",\"kind\":\"SelfSubjectReview\"}", version);
    scene_post(s, path, request, body, a);
    return a->ok && a->status == 404;
}

/* Before 1.28 (1.26, beta) there is no such question; then it shows in what the user may do. */
static bool is_believed_by_rights(struct scene *s, struct buf *body, struct answer *a)
{
    struct json_object *o, *status = NULL, *allowed = NULL;
    bool yes;

    scene_post(
        s, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\",\"spec\":"
        "{\"resourceAttributes\":{\"namespace\":\"kube-system\",\"verb\":\"list\",\"group\":\"coordination.k8s.io\","
        "\"resource\":\"leases\"}}}",
        body, a);
    if (!a->ok || a->status != 201 || !buf_append_char(body, '\0'))
        return false;
    o = json_tokener_parse(buf_slice(body).p);
    yes = o != NULL && json_object_object_get_ex(o, "status", &status) &&
          json_object_object_get_ex(status, "allowed", &allowed) && json_object_get_boolean(allowed);
    json_object_put(o);
    return yes;
}

static bool sees_group(struct json_object *seen, const char *group)
{
    size_t n = json_object_is_type(seen, json_type_array) ? json_object_array_length(seen) : 0;

    for (size_t i = 0; i < n; i++) {
        const char *one = json_object_get_string(json_object_array_get_idx(seen, i));

        if (one != NULL && strcmp(one, group) == 0)
            return true;
    }
    return false;
}

/* Of the groups that we name, the first that it does not see; NULL: it sees them all. */
static const char *unseen_group(const struct scene *s, struct json_object *user)
{
    struct json_object *seen = NULL;

    (void)json_object_object_get_ex(user, "groups", &seen);
    for (const char *const *g = s->config->apiserver_groups; *g != NULL; g++)
        if (!sees_group(seen, *g))
            return *g;
    return NULL;
}

/* With another header of groups it believes the name, and grants nothing that the groups have. */
static void say_unseen(struct scene *s, const char *group)
{
    const char *header = s->config->requestheader_group_headers[0];

    s->believed = false;
    findings_wrong(s->f, "local-front-proxy",
                   "its --requestheader-group-headers must have the first of requestheader-group-headers",
                   "the local API server does not believe the header of groups (%s): asked as %s of %s, it does not "
                   "see that group, so users with certificates lack the rights of theirs",
                   header == NULL ? "X-Remote-Group" : header, s->config->apiserver_user, group);
}

static void judge_name(struct scene *s, struct buf *body)
{
    struct json_object *o = buf_append_char(body, '\0') ? json_tokener_parse(buf_slice(body).p) : NULL;
    struct json_object *status = NULL, *user = NULL;
    const char *name = "", *group = NULL;

    if (o != NULL && json_object_object_get_ex(o, "status", &status) &&
        json_object_object_get_ex(status, "userInfo", &user))
        name = sections_text(user, "username");
    s->believed = strcmp(name, s->config->apiserver_user) == 0;
    if (s->believed)
        group = unseen_group(s, user);
    if (group != NULL)
        say_unseen(s, group);
    else if (s->believed)
        findings_good(s->f, "local-front-proxy", "it believes the front proxy: asked as %s, it sees %s", name, name);
    else
        findings_wrong(s->f, "local-front-proxy", to_be_believed(s),
                       "the local API server does not believe %s: asked as %s, it sees %s", front_proxy(s),
                       s->config->apiserver_user, name);
    json_object_put(o);
}

/* While it starts it grants nothing to whom it believes: its RBAC is read last. A 401 is true even then. */
static bool may_be_of_unready(const struct scene *s, const struct answer *a)
{
    return s->unready && !(a->ok && a->status == 401);
}

/* What it answered does not name us. */
static void judge_answer(struct scene *s, const struct answer *a)
{
    if (may_be_of_unready(s, a))
        findings_skipped(s->f, "local-front-proxy",
                         "whether it believes the front proxy is not examined: it is not ready");
    else if (!a->ok)
        findings_wrong(s->f, "local-front-proxy", to_be_believed(s), "the local API server does not answer %s: %s",
                       front_proxy(s), a->failure);
    else if (a->status == 201)
        findings_wrong(s->f, "local-front-proxy",
                       "its --requestheader-username-headers and --requestheader-group-headers must have the first of "
                       "requestheader-username-headers and requestheader-group-headers, and apiserver-user the rights "
                       "of " MVPROXY_RBAC_DIR "/mvproxy.yaml",
                       "the local API server does not believe the front proxy, or %s has no rights at all",
                       s->config->apiserver_user);
    else if (a->status == 403)
        findings_wrong(s->f, "local-front-proxy",
                       "it believes that somebody asks: compare its --requestheader-group-headers and "
                       "--requestheader-username-headers with the options of these names here; if they agree, give "
                       "apiserver-user the rights of " MVPROXY_RBAC_DIR "/mvproxy.yaml and of system:basic-user",
                       "the local API server does not let %s ask who it is and what it may: it answers 403",
                       s->config->apiserver_user);
    else
        findings_wrong(s->f, "local-front-proxy", to_be_believed(s),
                       "the local API server does not believe %s: it answers %u", front_proxy(s), a->status);
}

static void judge_identity(struct scene *s, struct buf *body)
{
    static const char *const versions[] = {"v1", "v1beta1", "v1alpha1"};
    struct answer a = {.ok = false};
    bool unknown = true;

    if (s->trust.local_cert == NULL) {
        findings_skipped(s->f, "local-front-proxy", "not examined: no front-proxy certificate is configured");
        return;
    }
    for (size_t i = 0; i < 3 && unknown; i++)
        unknown = ask_review(s, versions[i], body, &a);
    if (a.ok && a.status == 201) {
        judge_name(s, body);
        return;
    }
    /* Asked again even if it was refused: who may not ask this may still be believed. */
    s->believed = is_believed_by_rights(s, body, &a);
    if (s->believed)
        findings_good(s->f, "local-front-proxy", "it believes the front proxy: %s has rights",
                      s->config->apiserver_user);
    else
        judge_answer(s, &a);
}

/* ---- of one mind ---- */

#define ANEW                                                                                                           \
    "if no API server has it any more, delete ConfigMap kube-system/extension-apiserver-authentication: they write "   \
    "it "                                                                                                              \
    "anew within a minute"

static void judge_headers(struct scene *s, struct slice map)
{
    const struct request_header ours = {.headers = &s->around.headers,
                                        .names = s->config->requestheader_allowed_names,
                                        .ca = slice_str(s->trust.requestheader_ca),
                                        .ended = tls_inspect_ended,
                                        .fixed = http_name_is_known};
    struct err why = {.text = ""};

    switch (request_header_compare(&ours, map, &why)) {
    case REQUEST_HEADER_AGREES:
        findings_good(s->f, "local-requestheader", "requestheader-* are those of the API servers");
        break;
    case REQUEST_HEADER_MORE:
        findings_warn(s->f, "local-requestheader", "give requestheader-* all that kube-apiserver's flags have; " ANEW,
                      "the API servers name more headers (extension-apiserver-authentication), which are removed from "
                      "requests: %s",
                      why.text);
        break;
    case REQUEST_HEADER_DIFFERS:
        findings_wrong(s->f, "local-requestheader",
                       "give requestheader-* the values of kube-apiserver's flags of the same names; if those "
                       "are not what the ConfigMap says, delete it: API servers write it anew within a minute",
                       "requestheader-* are not what the API servers have (extension-apiserver-authentication): %s",
                       why.text);
        break;
    case REQUEST_HEADER_UNKNOWN:
        findings_wrong(s->f, "local-requestheader", to_be_believed(s), "requestheader-*: %s", why.text);
        break;
    }
}

static bool read_bundle(const char *path, struct buf *out)
{
    FILE *in = fopen(path, "re");
    char *room = in == NULL ? NULL : buf_reserve(out, LIMIT_PEM_BYTES);

    if (room != NULL)
        buf_commit(out, fread(room, 1, LIMIT_PEM_BYTES, in));
    if (in != NULL)
        fclose(in);
    return room != NULL;
}

static void judge_clients(struct scene *s, struct slice map)
{
    const char *path = s->config->client_ca_file;
    struct request_header ours = {.ended = tls_inspect_ended};
    struct err why = {.text = ""};
    struct buf bundle;

    buf_init(&bundle, LIMIT_PEM_BYTES);
    if (read_bundle(path, &bundle)) { /* else it is said with the certificates; none is given: likewise */
        ours.client_ca = buf_slice(&bundle);
        switch (request_header_client_ca(&ours, map, &why)) {
        case REQUEST_HEADER_AGREES:
            findings_good(s->f, "local-client-ca", "client-ca-file has the CAs of the API servers");
            break;
        case REQUEST_HEADER_MORE:
            findings_warn(s->f, "local-client-ca", "give kube-apiserver's --client-ca-file; " ANEW,
                          "API servers have, or had, a CA more (extension-apiserver-authentication): %s", why.text);
            break;
        case REQUEST_HEADER_DIFFERS:
            findings_wrong(s->f, "local-client-ca", "give kube-apiserver's --client-ca-file",
                           "client-ca-file is not what the API servers have (extension-apiserver-authentication): %s",
                           why.text);
            break;
        case REQUEST_HEADER_UNKNOWN:
            findings_warn(s->f, "local-client-ca", "take client-ca-file away, or give kube-apiserver --client-ca-file",
                          "client-ca-file is given, and no API server has one");
            break;
        }
    }
    buf_free(&bundle);
}

/* What they say of themselves. */
static void judge_agreement(struct scene *s, struct buf *body)
{
    static const char by_hand[] = "let apiserver-user read it (" MVPROXY_RBAC_DIR "/mvproxy.yaml), or compare "
                                  "client-ca-file and requestheader-* by hand";
    static const char gone[] =
        "an API server that has --client-ca-file writes it within a minute: if it does not come, see "
        "its log, and until then compare client-ca-file and requestheader-* by hand";
    const char *remedy;
    char why[288] = "";
    struct answer a;

    if (!s->believed)
        return;
    scene_get_stored(s, REQUEST_HEADER_PATH, body, &a);
    if (a.ok && a.status == 200) {
        judge_headers(s, a.body);
        judge_clients(s, a.body);
        return;
    }
    if (a.ok && a.status == 403) {
        findings_skipped(s->f, "local-requestheader",
                         "what the API servers believe is not examined: a right is missing");
        return;
    }
    (void)snprintf(why, sizeof(why), "%s", a.failure);
    if (a.ok && a.status == 404)
        (void)snprintf(why, sizeof(why), "there is none");
    else if (a.ok)
        (void)snprintf(why, sizeof(why), "the API server answers %u", a.status);
    remedy = sections_failure_remedy(s, &a);
    if (remedy == NULL)
        remedy = a.status == 404 ? gone : by_hand;
    findings_warn(s->f, "local-requestheader", remedy,
                  "whether client-ca-file and requestheader-* are those of the API servers cannot be told: ConfigMap "
                  "kube-system/extension-apiserver-authentication: %s",
                  why);
}

void section_local(struct scene *s)
{
    const struct api_request ready = {
        .origin = s->around.local, .target = SLICE_LIT("/readyz"), .accept = SLICE_LIT("text/plain")};
    struct answer a;
    struct buf body;

    findings_enter(s->f, CHECK_LOCAL);
    buf_init(&body, BODY_BYTES);
    scene_ask(s, &ready, &body, &a);
    s->local_answers = judge_reach(s, &a);
    if (s->local_answers) {
        judge_ready(s, &a);
        judge_identity(s, &body);
        judge_version(s, &body);
        judge_agreement(s, &body);
    }
    buf_free(&body);
}
