/* SPDX-License-Identifier: Apache-2.0 */
#include "net/egress_proxy.h"

#include <stdio.h>
#include <string.h>

#include "base/contract.h"
#include "net/tls_ctx.h"

struct egress_proxy {
    unsigned refs;
    const struct egress_proxy_ops *ops;
    struct egress_proxy_opts opts; /* host is a copy */
    char *host, *text;
};

static char *describe(const struct egress_proxy_opts *o)
{
    char text[512];
    bool is_unix = strncmp(o->host, "unix:", 5) == 0;

    if (is_unix)
        return mem_strdup(o->host);
    (void)snprintf(text, sizeof(text), strchr(o->host, ':') != NULL ? "[%s]:%u" : "%s:%u", o->host, o->port);
    return mem_strdup(text);
}

static void destroy(struct egress_proxy *v)
{
    tls_ctx_unref(v->opts.tls);
    mem_free(v->host);
    mem_free(v->text);
    mem_free(v);
}

struct egress_proxy *egress_proxy_new(const struct egress_proxy_opts *o, const struct egress_proxy_ops *ops)
{
    struct egress_proxy *v = mem_zalloc(sizeof(*v));

    if (v == NULL)
        return NULL;
    v->refs = 1;
    v->ops = ops;
    v->opts = *o;
    if (o->tls != NULL)
        tls_ctx_ref(o->tls);
    v->host = mem_strdup(o->host);
    v->text = describe(o);
    v->opts.host = v->host;
    if (v->host != NULL && v->text != NULL)
        return v;
    destroy(v);
    return NULL;
}

struct egress_proxy *egress_proxy_ref(struct egress_proxy *v)
{
    must_hold(v->refs > 0);
    v->refs++;
    return v;
}

void egress_proxy_unref(struct egress_proxy *v)
{
    must_hold(v == NULL || v->refs > 0);
    if (v != NULL && --v->refs == 0)
        destroy(v);
}

bool egress_proxy_same(const struct egress_proxy *a, const struct egress_proxy *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a->host, b->host) == 0 && a->opts.port == b->opts.port && tls_ctx_same(a->opts.tls, b->opts.tls);
}

void *egress_proxy_start(struct egress_proxy *v, struct loop *l, const struct egress_proxy_request *r)
{
    return v->ops->start(l, v, r);
}

void egress_proxy_cancel(const struct egress_proxy *v, void *tunnel)
{
    v->ops->cancel(tunnel);
}

const struct egress_proxy_opts *egress_proxy_opts(const struct egress_proxy *v)
{
    return &v->opts;
}

const char *egress_proxy_text(const struct egress_proxy *v)
{
    return v->text;
}
