#include "daemon/trust.h"

#include "net/tls_ctx.h"

static const char *or_null(const char *s)
{
    return s[0] == '\0' ? NULL : s;
}

/* Contexts share files: what is wrong with one of them is said once. */
static bool is_said(const struct buf *errors, const char *text)
{
    struct slice rest = buf_slice(errors), line;

    while (slice_split(&rest, '\n', &line))
        if (slice_eq(line, slice_str(text)))
            return true;
    return false;
}

static struct tls_ctx *keep(struct tls_ctx *ctx, struct err *err, struct buf *errors, bool *ok)
{
    if (ctx == NULL) {
        *ok = false;
        if (!is_said(errors, err->text))
            buf_printf(errors, "%s\n", err->text);
    }
    err_clear(err);
    return ctx;
}

static struct tls_ctx *load_serving(const struct config *c, bool http2, struct err *err)
{
    struct tls_server_opts o = {
        .cert_file = c->tls_cert_file,
        .key_file = c->tls_private_key_file,
        .client_ca_file = or_null(c->client_ca_file),
        .requestheader_ca_file = or_null(c->requestheader_client_ca_file),
        .http2 = http2,
        .min_version = strcmp(c->tls_min_version, "VersionTLS13") == 0 ? 13 : 12,
    };

    return tls_server_ctx_new(&o, err);
}

static struct tls_ctx *load_client(const struct config *c, const char *ca_file, const char *name, bool with_cert,
                                   struct err *err)
{
    struct tls_client_opts o = {
        .ca_file = ca_file,
        .cert_file = with_cert ? c->proxy_client_cert_file : NULL,
        .key_file = with_cert ? c->proxy_client_key_file : NULL,
        .server_name = name,
    };

    return tls_client_ctx_new(&o, err);
}

bool trust_load(const struct config *c, struct trust *out, struct buf *errors)
{
    const char *local_name = c->apiserver_tls_server_name;
    bool has_cert = or_null(c->proxy_client_cert_file) != NULL, ok = true;
    struct err err;

    *out = (struct trust){0};
    err_clear(&err);
    out->serving = keep(load_serving(c, true, &err), &err, errors, &ok);
    /* What is wrong with one is wrong with both, and is said once. */
    if (out->serving != NULL)
        out->admin = keep(load_serving(c, false, &err), &err, errors, &ok);
    out->local_no_cert = keep(load_client(c, c->apiserver_ca_file, local_name, false, &err), &err, errors, &ok);
    if (has_cert)
        out->local_cert = keep(load_client(c, c->apiserver_ca_file, local_name, true, &err), &err, errors, &ok);
    if (has_cert && or_null(c->peer_ca_file) != NULL) {
        /* Every kube-apiserver's certificate carries this name; an address never gives trust (KEP-4020 "Security"). */
        const char *peer_name = "kubernetes.default.svc";

        out->peer_cert = keep(load_client(c, c->peer_ca_file, peer_name, true, &err), &err, errors, &ok);
        out->peer_no_cert = keep(load_client(c, c->peer_ca_file, peer_name, false, &err), &err, errors, &ok);
    }
    if (!ok)
        trust_free(out);
    return ok;
}

static void drop(struct tls_ctx **ctx)
{
    if (*ctx != NULL)
        tls_ctx_unref(*ctx);
    *ctx = NULL;
}

static void keep_same(struct tls_ctx **ctx, struct tls_ctx *old)
{
    if (*ctx == NULL || old == NULL || !tls_ctx_same(*ctx, old))
        return;
    tls_ctx_unref(*ctx);
    *ctx = tls_ctx_ref(old);
}

void trust_keep_same(struct trust *t, const struct trust *old)
{
    keep_same(&t->serving, old->serving);
    keep_same(&t->admin, old->admin);
    keep_same(&t->local_cert, old->local_cert);
    keep_same(&t->local_no_cert, old->local_no_cert);
    keep_same(&t->peer_cert, old->peer_cert);
    keep_same(&t->peer_no_cert, old->peer_no_cert);
}

void trust_free(struct trust *t)
{
    drop(&t->serving);
    drop(&t->admin);
    drop(&t->local_cert);
    drop(&t->local_no_cert);
    drop(&t->peer_cert);
    drop(&t->peer_no_cert);
}

bool trust_has_peers(const struct trust *t)
{
    return t->peer_cert != NULL;
}
