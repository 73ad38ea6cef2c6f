/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/egress.h"

#include "daemon/yaml_tree.h"
#include "net/connect.h"
#include "net/tls_ctx.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool check_exists(const struct egress_text *t, const char *field, struct buf *errors)
{
    struct stat st;

    if (t->text[0] == '\0' || stat(t->text, &st) == 0)
        return true;
    yaml_complain(errors, &t->place, "%s: %s: %s", field, t->text, strerror(errno));
    return false;
}

bool egress_load(const char *path, struct arena *a, struct egress *out, struct buf *errors)
{
    struct slice text, name = arena_copy(a, slice_str(path));
    bool ok = true;

    if (name.p == NULL) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    if (!yaml_tree_read(path, a, &text, errors) || !egress_file_parse(name.p, text, a, out, errors))
        return false;
    for (size_t i = 0; i < EGRESS_NAMES; i++) {
        const struct egress_selection *s = &out->of[i];

        if (!s->given)
            continue;
        ok = check_exists(&s->ca_bundle, "caBundle", errors) && ok;
        ok = check_exists(&s->client_cert, "clientCert", errors) && ok;
        ok = check_exists(&s->client_key, "clientKey", errors) && ok;
    }
    return ok;
}

static struct tls_ctx *load_tls(const struct egress_selection *s, struct err *err)
{
    bool has_ca = s->ca_bundle.text[0] != '\0', has_name = s->server_name.text[0] != '\0';
    struct tls_client_opts o = {
        .ca_file = has_ca ? s->ca_bundle.text : NULL,
        .bundle_option = has_ca ? "the caBundle of egress-selector-config-file" : "the roots of this system",
        .system_roots = !has_ca,
        .cert_file = s->client_cert.text,
        .key_file = s->client_key.text,
        .server_name = has_name ? s->server_name.text : s->host,
    };

    return tls_client_ctx_new(&o, err);
}

bool egress_make_proxy(const struct egress *e, enum egress_name name, struct egress_proxy **out, struct err *err)
{
    const struct egress_selection *s = &e->of[name];
    struct egress_proxy_opts o = {.host = s->host, .port = s->port};

    *out = NULL;
    if (!s->given || s->protocol != EGRESS_HTTP_CONNECT)
        return true;
    if (s->tls && (o.tls = load_tls(s, err)) == NULL)
        return false;
    *out = connect_egress_new(&o);
    tls_ctx_unref(o.tls);
    return *out != NULL || err_set(err, "out of memory");
}
