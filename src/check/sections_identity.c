/* SPDX-License-Identifier: Apache-2.0 */
/* The identity Lease of this node's API server, and the rights of the user as whom mvproxy itself asks. */
#include "check/sections.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/lease.h"
#include "kube/server_id.h"

enum { BODY_BYTES = 2 << 20, ARENA_BYTES = 1 << 20, PUBLISHES_MINOR = 26 };

/* ---- the Lease ---- */

/* What the process publishes: the file may have other addresses, which are not in force before a restart. */
static struct slice published(const struct scene *s)
{
    struct json_object *cluster = NULL;

    if (json_object_object_get_ex(s->opts->status, "cluster", &cluster) &&
        json_object_object_get_ex(cluster, "advertised", NULL))
        return slice_str(sections_text(cluster, "advertised"));
    return slice_str(s->around.annotate ? s->around.advertise : NULL);
}

/* A process writes its address there at once, unless another one does so again and again (cluster/lease_address.c). */
static bool has_rival(const struct scene *s, const struct lease *l)
{
    struct slice ours = published(s);

    return s->opts->status != NULL && strcmp(s->config->identity_lease, "off") != 0 && ours.n > 0 &&
           l->advertise.n > 0 && slice_eq(l->advertise, l->written) && !slice_eq(l->advertise, ours);
}

static void judge_lease(struct scene *s, const char *id, struct slice body)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct lease l;
    struct err err;

    err_clear(&err);
    if (arena == NULL || !lease_parse(arena, body, &l, &err))
        findings_wrong(s->f, "identity-lease", "delete it; the API server makes another", "Lease %s cannot be read: %s",
                       id, err.text);
    else if (lease_expired(&l, clock_wall_us()))
        findings_wrong(s->f, "identity-lease", "look into the log of kube-apiserver, and at the clock of this machine",
                       "Lease %s of this node has expired: nobody renews it", id);
    else if (has_rival(s, &l))
        findings_wrong(s->f, "identity-lease",
                       "if two machines have this host name, or one hostname-override, give each its own: until then "
                       "none of them knows of the other, and what it lacks is a false 404; else mvproxyctl reload",
                       "another mvproxy, at %.*s, writes into Lease %s of %s", (int)l.advertise.n, l.advertise.p, id,
                       s->hostname);
    else
        findings_good(s->f, "identity-lease", "the Lease of %s (%s) is there", s->hostname, id);
    arena_free(arena);
}

static bool publishes_itself(const struct scene *s)
{
    const char *mode = s->config->identity_lease;

    return strcmp(mode, "publish") == 0 || (strcmp(mode, "auto") == 0 && s->minor < PUBLISHES_MINOR);
}

static void no_lease(struct scene *s, const char *id)
{
    s->mistaken = !publishes_itself(s);
    if (s->mistaken)
        findings_wrong(
            s->f, "identity-lease",
            "give hostname-override the host name that kube-apiserver has (kubectl -n kube-system get leases "
            "-L kubernetes.io/hostname), or switch on its feature gate APIServerIdentity",
            "there is no identity Lease of %s (%s): the local API server goes by another host name, or publishes none",
            s->hostname, id);
    else if (s->opts->status == NULL)
        findings_good(s->f, "identity-lease", "the local API server publishes no Lease: mvproxy will, for %s (%s)",
                      s->hostname, id);
    else
        findings_wrong(s->f, "identity-lease", "see the log of mvproxy, and the rights below",
                       "mvproxy is to publish the Lease of %s (%s), and there is none", s->hostname, id);
}

static void say_unread(struct scene *s, const char *id, const struct answer *a)
{
    const char *remedy = sections_failure_remedy(s, a);
    char why[64];

    (void)snprintf(why, sizeof(why), "the API server answers %u", a->status);
    findings_wrong(s->f, "identity-lease", remedy == NULL ? "look into the log of kube-apiserver" : remedy,
                   "Lease %s cannot be read: %s", id, a->ok ? why : a->failure);
}

static void check_lease(struct scene *s, struct buf *body)
{
    char id[SERVER_ID_BYTES], id_126[SERVER_ID_BYTES_126], path[192];
    struct answer a;

    if (!server_id_from_hostname(slice_str(s->hostname), id) ||
        !server_id_126_from_hostname(slice_str(s->hostname), id_126)) {
        findings_wrong(s->f, "identity-lease", "give hostname-override", "this machine has no usable host name");
        return;
    }
    if (s->stored_silent) {
        findings_skipped(s->f, "identity-lease",
                         "Lease %s is not examined: what is in its etcd the API server does not answer, see above", id);
        return;
    }
    (void)snprintf(path, sizeof(path), LEASE_COLLECTION_PATH "/%s", id);
    scene_get_stored(s, path, body, &a);
    if (a.ok && a.status == 404 && s->minor == PUBLISHES_MINOR) {
        (void)snprintf(path, sizeof(path), LEASE_COLLECTION_PATH "/%s", id_126);
        scene_get_stored(s, path, body, &a);
    }
    if (a.ok && a.status == 200)
        judge_lease(s, id, a.body);
    else if (a.ok && a.status == 404)
        no_lease(s, id);
    else if (!a.ok || a.status != 403) /* a right that lacks is said below */
        say_unread(s, id, &a);
}

/* ---- rights ---- */

enum needed {
    ALWAYS,
    TO_PUBLISH,  /* the Lease itself */
    TO_ANNOTATE, /* into the Lease, whoever keeps it */
    WISHED,      /* something is not known without it */
};

struct right {
    const char *verb, *group, *resource, *ns, *name; /* group NULL: `resource` is a path */
    enum needed needed;
};

static const struct right rights[] = {
    {"list", "coordination.k8s.io", "leases", "kube-system", "", ALWAYS},
    {"watch", "coordination.k8s.io", "leases", "kube-system", "", ALWAYS},
    {"get", "coordination.k8s.io", "leases", "kube-system", "", TO_ANNOTATE},
    {"patch", "coordination.k8s.io", "leases", "kube-system", "", TO_ANNOTATE},
    {"create", "coordination.k8s.io", "leases", "kube-system", "", TO_PUBLISH},
    {"delete", "coordination.k8s.io", "leases", "kube-system", "", TO_PUBLISH},
    {"list", "apiextensions.k8s.io", "customresourcedefinitions", "", "", ALWAYS},
    {"watch", "apiextensions.k8s.io", "customresourcedefinitions", "", "", ALWAYS},
    {"list", "apiregistration.k8s.io", "apiservices", "", "", ALWAYS},
    {"watch", "apiregistration.k8s.io", "apiservices", "", "", ALWAYS},
    {"get", "", "configmaps", "kube-system", "extension-apiserver-authentication", WISHED},
    {"get", NULL, "/api", "", "", ALWAYS},
    {"get", NULL, "/apis", "", "", ALWAYS},
    {"get", NULL, "/openapi/v3", "", "", WISHED},
    {"get", NULL, "/readyz", "", "", ALWAYS},
    {"get", NULL, "/version", "", "", ALWAYS},
};

enum { RIGHTS = sizeof(rights) / sizeof(rights[0]) };

static void put_question(const struct right *r, char *out, size_t room)
{
    static const char begin[] =
        "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\",\"spec\":";

    if (r->group == NULL)
        (void)snprintf(out, room, "%s{\"nonResourceAttributes\":{\"verb\":\"%s\",\"path\":\"%s\"}}}", begin, r->verb,
                       r->resource);
    else
        (void)snprintf(out, room,
                       "%s{\"resourceAttributes\":{\"verb\":\"%s\",\"group\":\"%s\",\"resource\":\"%s\",\"namespace\":"
                       "\"%s\",\"name\":\"%s\"}}}",
                       begin, r->verb, r->group, r->resource, r->ns, r->name);
}

static bool is_allowed(struct buf *body)
{
    struct json_object *o = buf_append_char(body, '\0') ? json_tokener_parse(buf_slice(body).p) : NULL;
    struct json_object *status = NULL, *allowed = NULL;
    bool yes = o != NULL && json_object_object_get_ex(o, "status", &status) &&
               json_object_object_get_ex(status, "allowed", &allowed) && json_object_get_boolean(allowed);

    json_object_put(o);
    return yes;
}

static bool is_needed(const struct scene *s, const struct right *r)
{
    if (r->needed == TO_PUBLISH)
        return publishes_itself(s);
    return r->needed != TO_ANNOTATE || strcmp(s->config->identity_lease, "off") != 0;
}

/* "leases.coordination.k8s.io: list, watch; /apis: get". */
static void note(struct buf *list, const struct right **last, const struct right *r)
{
    bool same = *last != NULL && strcmp((*last)->resource, r->resource) == 0;

    if (same)
        buf_printf(list, ", %s", r->verb);
    else
        buf_printf(list, "%s%s%s%s: %s", buf_len(list) > 0 ? "; " : "", r->resource,
                   r->group == NULL || r->group[0] == '\0' ? "" : ".", r->group == NULL ? "" : r->group, r->verb);
    *last = r;
}

/* How many are needed; 0: it cannot be told, for the answer that is in *a. */
static size_t ask_rights(struct scene *s, struct buf *body, struct buf *missing, bool *grave, struct answer *a)
{
    const struct right *last = NULL;
    size_t n = 0;

    for (size_t i = 0; i < RIGHTS; i++) {
        char question[512];

        if (!is_needed(s, &rights[i]))
            continue;
        put_question(&rights[i], question, sizeof(question));
        scene_post(s, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question, body, a);
        if (!a->ok || a->status != 201)
            return 0;
        n++;
        if (is_allowed(body))
            continue;
        note(missing, &last, &rights[i]);
        *grave = *grave || rights[i].needed != WISHED;
    }
    return n;
}

static void check_rights(struct scene *s, struct buf *body)
{
    const char *remedy = publishes_itself(s)
                             ? "kubectl apply -f " MVPROXY_RBAC_DIR "/mvproxy.yaml -f " MVPROXY_RBAC_DIR
                               "/mvproxy-before-1.26.yaml (contrib/rbac in the source tree), with their user as "
                               "apiserver-user"
                             : "kubectl apply -f " MVPROXY_RBAC_DIR "/mvproxy.yaml (contrib/rbac in the source tree), "
                               "with its user as apiserver-user";
    const char *user = s->config->apiserver_user, *failed;
    struct buf missing;
    bool grave = false;
    struct answer a;
    size_t n;

    buf_init(&missing, BODY_BYTES);
    n = ask_rights(s, body, &missing, &grave, &a);
    failed = n == 0 ? sections_failure_remedy(s, &a) : NULL;
    if (n == 0)
        findings_warn(s->f, "identity-rights",
                      failed != NULL ? failed : "let it create selfsubjectaccessreviews (system:basic-user)",
                      "what %s may do cannot be told: the API server does not review its access", user);
    else if (buf_len(&missing) == 0)
        findings_good(s->f, "identity-rights", "%s may do all that it has to (%zu rights)", user, n);
    else if (grave)
        findings_wrong(s->f, "identity-rights", remedy, "%s lacks rights: %.*s", user, (int)buf_len(&missing),
                       buf_slice(&missing).p);
    else
        findings_warn(s->f, "identity-rights", remedy, "%s lacks rights, so something is not known: %.*s", user,
                      (int)buf_len(&missing), buf_slice(&missing).p);
    buf_free(&missing);
}

void section_identity(struct scene *s)
{
    struct buf body;

    findings_enter(s->f, CHECK_IDENTITY);
    if (!s->believed) {
        findings_skipped(s->f, "identity-rights",
                         s->unready ? "not examined: the local API server is not ready"
                                    : "not examined: nobody would know who asks");
        return;
    }
    buf_init(&body, BODY_BYTES);
    check_lease(s, &body);
    check_rights(s, &body);
    buf_free(&body);
}
