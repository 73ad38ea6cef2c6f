/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serving_pair.h"

#include <string.h>

#include "daemon/addresses.h"
#include "daemon/remarks.h"
#include "net/tls_inspect.h"

/* Those of one kind of the set come after the others. */
_Static_assert(LISTENERS_MAX <= 16, "they have to fit");

static bool is_one(const struct listen_address *a)
{
    return strcmp(a->host, "0.0.0.0") != 0 && strcmp(a->host, "::") != 0;
}

/* None, if that cannot be told. */
static void addresses_of_clients(const struct config *c, struct addresses *out)
{
    struct err err = {.text = ""};

    if (!addresses_configured(c, out, &err))
        out->n = 0;
}

unsigned serving_pair_fits(const struct config *c)
{
    unsigned fits = 0;
    struct addresses ours;

    if (c->peer_ca_file[0] != '\0' && tls_inspect_signed(c->tls_cert_file, c->peer_ca_file))
        fits |= SERVING_SIGNED;
    if (tls_inspect_covers(c->tls_cert_file, "kubernetes.default.svc"))
        fits |= SERVING_NAMED;
    addresses_of_clients(c, &ours);
    for (size_t i = 0; i < ours.n; i++)
        if (is_one(&ours.at[i]) && tls_inspect_covers(c->tls_cert_file, ours.at[i].host))
            fits |= (unsigned)SERVING_ADDRESS << i;
    return fits;
}

static bool is_certificate(const char *path)
{
    struct tls_file_facts f;

    tls_inspect(path, &f);
    return f.has_certificate;
}

#define PUT_BACK "put the serving pair back (apiserver.crt), or "

bool serving_pair_say_lost(const struct config *c, unsigned lost, struct buf *errors)
{
    struct remarks r = {c, errors, true};
    struct addresses ours;
    const char *name = (lost & SERVING_NAMED) != 0 ? "kubernetes.default.svc" : NULL;

    if ((lost & SERVING_SIGNED) != 0 && c->peer_ca_file[0] != '\0') {
        remarks_wrong(&r, "tls-cert-file",
                      "%s: is not signed by peer-ca-file, and the one before it is: " PUT_BACK
                      "add the CA of the new one to that file",
                      c->tls_cert_file);
        return true;
    }
    addresses_of_clients(c, &ours);
    for (size_t i = 0; i < ours.n && name == NULL; i++)
        if ((lost & (unsigned)SERVING_ADDRESS << i) != 0)
            name = ours.at[i].host;
    if (name != NULL)
        remarks_wrong(&r, "tls-cert-file",
                      "%s: is not valid for %s, and the one before it is: " PUT_BACK "add that name to the new one",
                      c->tls_cert_file, name);
    return name != NULL;
}

void serving_pair_warn(const struct config *c, struct buf *out)
{
    unsigned fits = serving_pair_fits(c);
    struct remarks r = {.c = c, .text = out};
    struct addresses ours;

    if (!is_certificate(c->tls_cert_file))
        return;
    if ((fits & SERVING_SIGNED) == 0 && c->peer_ca_file[0] != '\0' && is_certificate(c->peer_ca_file))
        remarks_warn(&r, "tls-cert-file",
                     "%s is not signed by peer-ca-file: peers that are configured likewise do not believe us: give the "
                     "serving pair of the API servers' CA (apiserver.crt)",
                     c->tls_cert_file);
    addresses_of_clients(c, &ours);
    for (size_t i = 0; i < ours.n; i++)
        if (is_one(&ours.at[i]) && (fits & (unsigned)SERVING_ADDRESS << i) == 0)
            remarks_warn(&r, "tls-cert-file",
                         "%s is not valid for %s, where clients are served: those that use the address refuse it: add "
                         "it to the certificate's names (SAN)",
                         c->tls_cert_file, ours.at[i].host);
}
