/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/rewrite.h"

#include "back/claims.h"
#include "back/loop_token.h"
#include "http/hop.h"

enum {
    OWN_FIELDS = 9,  /* Host, X-Forwarded-For, two marks, two conditions, Upgrade */
    USER_FIELDS = 2, /* name and uid */
};

struct emit {
    struct http_head *out;
    struct arena *arena;
};

static bool emit_field(void *arg, struct slice name, struct slice value)
{
    struct emit *e = arg;

    return http_head_add(e->out, e->arena, name, value);
}

/*
 * kube-apiserver's audit log takes its source addresses from X-Forwarded-For, then X-Real-Ip, then the connection
 * (k8s.io/apimachinery, SourceIPs): whoever could send one would choose what stands there.
 */
static bool claims_address(struct slice name)
{
    return name.n == 9 && (slice_ieq(name, SLICE_LIT("X-Real-Ip")) || slice_ieq(name, SLICE_LIT("Forwarded")));
}

/* The back remembers names that were configured before a reload, and knows those of after it: a job may not. */
static bool is_identity(const struct rewrite_names *names, struct slice name)
{
    return user_header_is_identity(names->headers, name) ||
           (names->also != NULL && user_header_field(names->also, name) != USER_FIELD_NONE) ||
           (names->back != NULL && back_name_claims(names->back, name));
}

/*
 * What a peer's mvproxy has said to us ends here, and nobody else may speak as one. But the token of an mvproxy that
 * asks whether its own questions come back to it has to go round (back/loop_token.h): who invents one says nothing.
 */
static bool is_own(struct slice name)
{
    return user_header_is_own(name) && !slice_ieq(name, SLICE_LIT(LOOP_TOKEN_FIELD));
}

/* Fields that hop_copy let through and that must not go on for our reasons. */
static bool dropped(const struct rewrite_in *in, const struct http_field *f)
{
    if (f->id == HTTP_X_FORWARDED_FOR)
        return true; /* written anew */
    if (f->id == HTTP_AUTHORIZATION)
        return in->authn->kind == AUTHN_ASSERT;
    return f->id == HTTP_NAME_OTHER && (is_identity(&in->names, f->name) || is_own(f->name) || claims_address(f->name));
}

static void drop_fields(const struct rewrite_in *in, struct http_head *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        if (!dropped(in, &h->fields[i]))
            h->fields[kept++] = h->fields[i];
    h->n_fields = kept;
}

static bool add_upgrade(const struct rewrite_in *in, struct arena *a, struct http_head *out)
{
    bool good = true;

    for (size_t i = 0; good && i < in->head->n_fields; i++)
        good =
            in->head->fields[i].id != HTTP_UPGRADE || http_head_add_id(out, a, HTTP_UPGRADE, in->head->fields[i].value);
    return good;
}

/*
 * Both markers go to a peer, kube-apiserver's own also to the local server: one with the feature switched on must not
 * send the request on a second time. With ours switched off its own is what there is.
 */
static bool add_marks(const struct rewrite_in *in, struct arena *a, struct http_head *out)
{
    if (in->target == REWRITE_LOCAL && in->may_send_on && !in->authn->rerouted)
        return true;
    return http_head_add(out, a, SLICE_LIT(USER_MARK_PROXIED), SLICE_LIT("true")) &&
           (!in->if_ready || http_head_add(out, a, SLICE_LIT(USER_IF_READY), SLICE_LIT("true"))) &&
           (!in->may_deny || http_head_add(out, a, SLICE_LIT(USER_MAY_DENY), SLICE_LIT("true"))) &&
           (in->target != REWRITE_PEER || http_head_add(out, a, SLICE_LIT(USER_MARK_REROUTED), SLICE_LIT("true")));
}

/* Room for what we add: our own fields do not count against the client's. */
static size_t room_for(const struct rewrite_in *in)
{
    const struct user *u = &in->authn->user;

    return in->head->n_fields + OWN_FIELDS +
           (in->authn->kind == AUTHN_ASSERT ? USER_FIELDS + u->n_groups + u->n_extras : 0);
}

/* HTTP/1.0 may come without, HTTP/1.1 must not (RFC 9112 3.2): the name that every API server answers to. */
static bool add_host(struct arena *a, struct http_head *out)
{
    return http_head_find(out, HTTP_HOST) != NULL ||
           http_head_add_id(out, a, HTTP_HOST, SLICE_LIT("kubernetes.default.svc"));
}

enum rewrite_result rewrite_request(const struct rewrite_in *in, struct arena *a, struct http_head *out)
{
    struct emit emit = {out, a};
    struct slice ip = slice_str(in->client_ip), xff = in->believes_client ? hop_forwarded_for(in->head, ip, a) : ip;
    enum user_result named = USER_OK;
    bool good;

    if (xff.p == NULL || !http_head_init(out, a, room_for(in)) || !hop_copy(in->head, out, a))
        return REWRITE_NO_MEMORY;
    out->method = in->head->method;
    out->method_id = in->head->method_id;
    out->target = in->head->target;
    drop_fields(in, out);
    good = add_host(a, out) && (xff.n == 0 || http_head_add_id(out, a, HTTP_X_FORWARDED_FOR, xff)) &&
           add_marks(in, a, out) && (!in->upgrade || add_upgrade(in, a, out));
    if (good && in->authn->kind == AUTHN_ASSERT)
        named = user_encode(&in->authn->user, in->names.headers, a, emit_field, &emit);
    if (named == USER_UNENCODABLE)
        return REWRITE_UNENCODABLE;
    return good && named == USER_OK ? REWRITE_OK : REWRITE_NO_MEMORY;
}

bool rewrite_trailers(const struct http_head *in, const struct rewrite_names *names, struct arena *a,
                      struct http_head *out)
{
    bool good = http_head_init(out, a, in->n_fields);

    for (size_t i = 0; good && i < in->n_fields; i++)
        good = is_identity(names, in->fields[i].name) || user_header_is_own(in->fields[i].name) ||
               http_head_add(out, a, in->fields[i].name, in->fields[i].value);
    return good;
}

/* What another mvproxy told us is not the client's business, and a server behind us must not speak in our name. */
static void drop_own_names(struct http_head *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        if (h->fields[i].id != HTTP_NAME_OTHER || !user_header_is_own(h->fields[i].name))
            h->fields[kept++] = h->fields[i];
    h->n_fields = kept;
}

bool rewrite_response(const struct http_head *in, const struct rewrite_origin *from, struct arena *a,
                      struct http_head *out)
{
    if (!http_head_init(out, a, in->n_fields + 7) || !hop_copy(in, out, a))
        return false;
    drop_own_names(out);
    out->status = in->status;
    out->reason = in->reason;
    return (from->warning == NULL || http_head_add(out, a, SLICE_LIT("Warning"), slice_str(from->warning))) &&
           (from->served_by == NULL ||
            http_head_add(out, a, SLICE_LIT(REWRITE_SERVED_BY), slice_str(from->served_by))) &&
           (from->hop == NULL || http_head_add(out, a, SLICE_LIT(REWRITE_HOP), slice_str(from->hop))) &&
           (from->version == NULL || http_head_add(out, a, SLICE_LIT(USER_HOP_VERSION), slice_str(from->version))) &&
           (from->ready == NULL || http_head_add(out, a, SLICE_LIT(USER_HOP_READY), slice_str(from->ready))) &&
           (!from->unserved || http_head_add(out, a, SLICE_LIT(REWRITE_UNSERVED), SLICE_LIT("true")));
}
