/* SPDX-License-Identifier: Apache-2.0 */
#include "net/via.h"

#include <stdio.h>
#include <string.h>

#include "net/tls_ctx.h"

struct via {
    unsigned refs;
    const struct via_ops *ops;
    struct via_opts opts; /* host is a copy */
    char *host, *text;
};

static char *describe(const struct via_opts *o)
{
    char text[512];
    bool is_unix = strncmp(o->host, "unix:", 5) == 0;

    if (is_unix)
        return mem_strdup(o->host);
    (void)snprintf(text, sizeof(text), strchr(o->host, ':') != NULL ? "[%s]:%u" : "%s:%u", o->host, o->port);
    return mem_strdup(text);
}

static void destroy(struct via *v)
{
    tls_ctx_unref(v->opts.tls);
    mem_free(v->host);
    mem_free(v->text);
    mem_free(v);
}

struct via *via_new(const struct via_opts *o, const struct via_ops *ops)
{
    struct via *v = mem_zalloc(sizeof(*v));

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

struct via *via_ref(struct via *v)
{
    v->refs++;
    return v;
}

void via_unref(struct via *v)
{
    if (v != NULL && --v->refs == 0)
        destroy(v);
}

bool via_same(const struct via *a, const struct via *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a->host, b->host) == 0 && a->opts.port == b->opts.port && tls_ctx_same(a->opts.tls, b->opts.tls);
}

void *via_start(struct via *v, struct loop *l, const struct via_request *r)
{
    return v->ops->start(l, v, r);
}

void via_cancel(const struct via *v, void *tunnel)
{
    v->ops->cancel(tunnel);
}

const struct via_opts *via_opts(const struct via *v)
{
    return &v->opts;
}

const char *via_text(const struct via *v)
{
    return v->text;
}
