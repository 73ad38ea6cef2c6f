/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_check_self.h"

#include "daemon/addresses.h"
#include "daemon/derive.h"
#include "kube/server_id.h"

#include <stdio.h>
#include <unistd.h>

enum { WHERE_BYTES = 64 };

/* What we listen on. */
struct own {
    struct addresses clients, admin;
};

/* Which options make a connection to that address come to us; false if it does not. */
static bool leads_to_us(const struct own *own, const struct derive_address *to, char where[WHERE_BYTES])
{
    if (addresses_reached_by(&own->clients, to) != NULL)
        (void)snprintf(where, WHERE_BYTES, "bind-address, secure-port");
    else if (addresses_reached_by(&own->admin, to) != NULL)
        (void)snprintf(where, WHERE_BYTES, "admin-bind-address");
    else
        return false;
    return true;
}

/* Where kube-apiserver is; false if that is not known. */
static bool local_server(const struct remarks *r, struct derive_address *out)
{
    struct err err = {.text = ""};

    return remarks_is_read(r, "apiserver") && derive_url(r->c->apiserver, out, &err);
}

/* The list may be the same on all nodes: an entry for this very server is left out later. */
bool config_check_self_is_named(const struct config *c, const char *peer)
{
    char host[256] = "", id[SERVER_ID_BYTES];

    if (c->hostname_override[0] != '\0')
        (void)snprintf(host, sizeof(host), "%s", c->hostname_override);
    else if (gethostname(host, sizeof(host) - 1) != 0)
        return true;
    return strcmp(peer, host) == 0 || (server_id_from_hostname(slice_str(host), id) && strcmp(peer, id) == 0);
}

/* A server that is its own peer would stand for one whose resources nobody has. */
static void check_peers(struct remarks *r, const struct own *own)
{
    char name[DERIVE_HOST_BYTES], where[WHERE_BYTES], entry[REMARKS_NAME_BYTES];
    struct derive_address to, server;
    bool known = local_server(r, &server);

    for (size_t i = 0; r->c->peers[i] != NULL; i++) {
        if (!derive_peer(r->c->peers[i], name, &to, NULL) || config_check_self_is_named(r->c, name))
            continue;
        (void)remarks_entry(entry, "peers", i);
        if (leads_to_us(own, &to, where))
            remarks_wrong(r, entry,
                          "%s is the address of this proxy itself (%s): take it out, or give that of the peer",
                          r->c->peers[i], where);
        else if (known && addresses_meet(&server, &to))
            remarks_wrong(r, entry, "%s is the address of the local API server, too (apiserver): give each its own",
                          r->c->peers[i]);
    }
}

static void check_etcd(struct remarks *r, const struct own *own)
{
    char where[WHERE_BYTES], entry[REMARKS_NAME_BYTES];
    struct derive_address to, server;
    struct err err;
    bool tls, known = local_server(r, &server);

    for (size_t i = 0; r->c->etcd_servers[i] != NULL; i++) {
        err_clear(&err);
        if (!derive_etcd_url(r->c->etcd_servers[i], &to, &tls, &err))
            continue;
        (void)remarks_entry(entry, "etcd-servers", i);
        if (leads_to_us(own, &to, where))
            remarks_wrong(r, entry, "%s is this proxy itself (%s): give etcd's client URL", r->c->etcd_servers[i],
                          where);
        else if (known && addresses_meet(&server, &to))
            remarks_wrong(r, entry, "%s is the API server (apiserver): give etcd's client URL", r->c->etcd_servers[i]);
    }
}

static void check_apiserver(struct remarks *r, const struct own *own)
{
    char where[WHERE_BYTES];
    struct derive_address to;
    struct err err = {.text = ""};

    if (remarks_is_read(r, "apiserver") && derive_url(r->c->apiserver, &to, &err) && leads_to_us(own, &to, where))
        remarks_wrong(r, "apiserver", "is this proxy itself (%s): let kube-apiserver listen on another address or port",
                      where);
}

static void take_clients(struct remarks *r, struct addresses *out)
{
    char entry[REMARKS_NAME_BYTES];
    struct err err = {.text = ""};

    if (!addresses_configured(r->c, out, &err)) {
        /* Without a default route nothing is known: a start says it. */
        if (r->c->bind_address[0] != NULL)
            remarks_wrong(r, remarks_entry(entry, "bind-address", out->n), "%s", err.text);
        out->n = 0;
    }
    if (!remarks_is_read(r, "bind-address") || !remarks_is_read(r, "secure-port"))
        out->n = 0;
}

static void take_admin(struct remarks *r, const struct addresses *clients, struct addresses *out)
{
    struct derive_address at;
    struct err err = {.text = ""};

    out->n = 0;
    if (r->c->admin_bind_address[0] == '\0' || !derive_admin(r->c->admin_bind_address, &at, &err))
        return;
    addresses_of(&at, out);
    for (size_t i = 0; i < clients->n && out->n > 0; i++) {
        if (!addresses_overlap(&clients->at[i], &out->at[0]))
            continue;
        remarks_wrong(r, "admin-bind-address",
                      "clients are served there (bind-address, secure-port): choose another port");
        out->n = 0;
    }
}

void config_check_self(struct remarks *r)
{
    struct own own;

    take_clients(r, &own.clients);
    take_admin(r, &own.clients, &own.admin);
    check_apiserver(r, &own);
    check_peers(r, &own);
    check_etcd(r, &own);
}
