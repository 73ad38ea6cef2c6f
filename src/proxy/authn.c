/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/authn.h"

#include "base/buf.h"
#include "base/hash.h"
#include "http/credential.h"
#include "net/tls_peer.h"

/* The extra that kube-apiserver adds for certificate users (k8s.io/apiserver pkg/authentication/request/x509). */
#define CREDENTIAL_ID_KEY "authentication.kubernetes.io/credential-id"

static bool name_allowed(const struct authn_opts *o, struct slice cn)
{
    if (o->n_allowed_names == 0)
        return true;
    for (size_t i = 0; i < o->n_allowed_names; i++)
        if (slice_eq(o->allowed_names[i], cn))
            return true;
    return false;
}

static bool has_loop_mark(const struct http_head *head)
{
    for (size_t i = 0; i < head->n_fields; i++)
        if (head->fields[i].id == HTTP_NAME_OTHER &&
            user_header_marks_loop(head->fields[i].name, head->fields[i].value))
            return true;
    return false;
}

static enum user_result decode_user(const struct authn_opts *o, const struct http_head *head, struct arena *a,
                                    struct user *out)
{
    struct user_decoder *d = user_decoder_new(a, &o->headers);

    if (d == NULL)
        return USER_NO_MEMORY;
    for (size_t i = 0; i < head->n_fields; i++)
        if (!user_decoder_field(d, head->fields[i].name, head->fields[i].value))
            return USER_NO_MEMORY;
    return user_decoder_end(d, out);
}

static int assert_certificate_user(const struct tls_peer *tls, struct arena *a, struct authn *out)
{
    struct user_extra *extra = arena_alloc(a, sizeof(*extra));

    if (extra == NULL)
        return AUTHN_NO_MEMORY;
    extra->key = SLICE_LIT(CREDENTIAL_ID_KEY);
    extra->value = arena_printf(a, "X509SHA256=%s", tls->sha256);
    if (extra->value.p == NULL)
        return AUTHN_NO_MEMORY;
    out->kind = AUTHN_ASSERT;
    out->user = (struct user){
        .name = tls->common_name,
        .uid = tls->uid,
        .groups = tls->orgs,
        .n_groups = tls->n_orgs,
        .extras = extra,
        .n_extras = 1,
    };
    return AUTHN_OK;
}

static int refuse(struct authn *out, const char *why)
{
    out->kind = AUTHN_REFUSED;
    out->why = why;
    return AUTHN_OK;
}

static const char *why_unusable(const struct tls_peer *tls, int64_t now_s)
{
    if (tls->why_not != NULL)
        return tls->why_not;
    /* As of a peer that keeps its connections when its front-proxy certificate ends: its remedy is another. */
    return now_s > tls->not_after ? "the certificate has expired since the handshake"
                                  : "certificate without a usable identity";
}

/* What kube-apiserver would do with a connection that proved nothing by its certificate. */
static int unverified(const struct http_head *head, const struct tls_peer *tls, int64_t now_s, struct authn *out)
{
    if (credential_shown(head)) {
        out->kind = AUTHN_PASS;
        return AUTHN_OK;
    }
    /* An x509 error keeps the anonymous step from running, so an unknown certificate is not the same as none. A peer's
     * marked request without identity is one that its client sent anonymously. */
    if (tls->present && !out->rerouted)
        return refuse(out, why_unusable(tls, now_s));
    out->kind = AUTHN_PASS;
    out->anonymous = true;
    return AUTHN_OK;
}

int authn_decide(const struct authn_opts *o, const struct http_head *head, const struct tls_peer *tls, int64_t now_s,
                 struct arena *a, struct authn *out)
{
    bool in_date = tls->present && now_s <= tls->not_after && !tls->too_many_orgs;

    *out = (struct authn){.kind = AUTHN_REFUSED};
    if (in_date && tls->requestheader_ca && name_allowed(o, tls->common_name)) {
        out->front_proxy = true;
        out->rerouted = has_loop_mark(head);
        switch (decode_user(o, head, a, &out->user)) {
        case USER_OK:
            out->kind = AUTHN_ASSERT;
            return o->can_assert ? AUTHN_OK : refuse(out, "no front-proxy certificate to pass the identity on with");
        case USER_NO_MEMORY:
            return AUTHN_NO_MEMORY;
        case USER_NONE:
        case USER_UNENCODABLE:
            break;
        }
    }
    out->by_certificate = tls->present && !out->rerouted;
    if (in_date && tls->client_ca && tls->common_name.n > 0 && !out->rerouted)
        return o->can_assert ? assert_certificate_user(tls, a, out)
                             : refuse(out, "no front-proxy certificate to pass the identity on with");
    return unverified(head, tls, now_s, out);
}

static void add_part(struct buf *b, char tag, struct slice s)
{
    buf_append_char(b, tag);
    buf_append_u64(b, s.n);
    buf_append_char(b, ':');
    buf_append(b, s);
}

/* Every part is tagged and carries its length, so that no two credentials spell the same text. */
static void describe_credential(const struct authn *au, const struct http_head *head, struct buf *b)
{
    if (au->kind == AUTHN_ASSERT) {
        add_part(b, 'u', au->user.name);
        add_part(b, 'i', au->user.uid);
        for (size_t i = 0; i < au->user.n_groups; i++)
            add_part(b, 'g', au->user.groups[i]);
        for (size_t i = 0; i < au->user.n_extras; i++) {
            add_part(b, 'k', au->user.extras[i].key);
            add_part(b, 'v', au->user.extras[i].value);
        }
    }
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];

        if (au->kind == AUTHN_PASS && f->id == HTTP_AUTHORIZATION)
            add_part(b, 'a', f->value);
        if (au->kind == AUTHN_PASS && f->id == HTTP_SEC_WEBSOCKET_PROTOCOL)
            add_part(b, 'p', f->value);
        /* Impersonation changes who the target sees. */
        if (slice_has_iprefix(f->name, SLICE_LIT("Impersonate-"))) {
            add_part(b, 'n', f->name);
            add_part(b, 'w', f->value);
        }
    }
}

bool authn_credential_key(const struct authn *au, const struct http_head *head, unsigned char out[AUTHN_KEY_BYTES])
{
    struct buf b;
    bool ok;

    buf_init(&b, 8 << 20);
    buf_append_char(&b, au->kind == AUTHN_ASSERT ? 'A' : 'P');
    add_part(&b, 'm', head->method);
    describe_credential(au, head, &b);
    ok = !b.failed && hash_sha256(buf_slice(&b), out);
    buf_free(&b);
    return ok;
}
