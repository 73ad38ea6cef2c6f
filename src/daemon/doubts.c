/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doubts.h"

#include "base/contract.h"
#include "daemon/bind_trial.h"
#include "net/tls_inspect.h"

#include <stdarg.h>
#include <stdio.h>

static void add(struct status *s, const char *name, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct status *s, const char *name, const char *remedy, const char *fmt, ...)
{
    struct status_doubt *d = &s->doubts[s->n_doubts++];
    va_list ap;

    must_hold(s->n_doubts <= STATUS_DOUBTS);
    d->name = name;
    d->remedy = remedy;
    va_start(ap, fmt);
    (void)vsnprintf(d->what, sizeof(d->what), fmt, ap);
    va_end(ap);
}

static bool is_among(const struct listen_address *a, const struct addresses *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->at[i].host, a->host) == 0 && (all->at[i].port == a->port || all->at[i].port == 0))
            return true;
    return false;
}

static const struct listen_address *other_socket(const struct doubts_facts *f)
{
    struct addresses configured;
    struct err err = {.text = ""};

    if (!f->inherited || !addresses_configured(f->c, &configured, &err))
        return NULL;
    for (size_t i = 0; i < f->ours->n; i++)
        if (!is_among(&f->ours->at[i], &configured))
            return &f->ours->at[i];
    return NULL;
}

static void look_at_sockets(const struct doubts_facts *f, struct status *s)
{
    const struct listen_address *other = other_socket(f);
    char text[DERIVE_HOST_BYTES];

    if (other == NULL)
        return;
    derive_text(other->host, other->port, text);
    add(s, "sockets",
        "give ListenStream= in a drop-in of mvproxy.socket the addresses that bind-address and secure-port have, or "
        "these options the sockets', never all addresses; then restart both units",
        "the service manager has made a socket on %s, which bind-address and secure-port do not have", text);
}

static void look_at_advertised(const struct doubts_facts *f, struct status *s)
{
    struct derive_address to;
    struct listen_address there = {.port = 0};
    struct err err = {.text = ""};
    bool elsewhere;

    if (f->advertised[0] == '\0' || !derive_host_port(slice_str(f->advertised), &to, &err) ||
        strlen(to.host) >= sizeof(there.host))
        return;
    (void)snprintf(there.host, sizeof(there.host), "%s", to.host);
    elsewhere = bind_trial_is_elsewhere(&there);
    /* One that is given may be translated on the way. */
    if (elsewhere && f->c->peer_advertise_port == 0)
        add(s, "elsewhere", BIND_TRIAL_CORRECT,
            "peers are told %s, an address that this machine does not have now: nobody reaches mvproxy by it",
            f->advertised);
    else if (!elsewhere && f->inherited && addresses_reached_by(f->ours, &to) == NULL)
        add(s, "advertised",
            "give bind-address and secure-port, or peer-advertise-ip and peer-advertise-port, where the sockets of "
            "mvproxy.socket are",
            "peers are told %s, and no socket that the service manager has made is there: they do not reach mvproxy",
            f->advertised);
}

/* While other files are there than are used nothing is known of those. */
static void look_at_certificate(const struct doubts_facts *f, struct status *s)
{
    struct tls_file_facts facts;

    if (s->files_refused[0] != '\0' || f->c->peer_ca_file[0] == '\0')
        return;
    tls_inspect(f->c->tls_cert_file, &facts);
    if (!facts.has_certificate)
        return;
    tls_inspect(f->c->peer_ca_file, &facts);
    if (facts.has_certificate && !tls_inspect_signed(f->c->tls_cert_file, f->c->peer_ca_file))
        add(s, "certificate",
            "give kube-apiserver's own serving pair of this node in tls-cert-file and tls-private-key-file",
            "tls-cert-file is not signed by peer-ca-file: peers with the same file refuse this proxy, and so do "
            "clients "
            "whose CA is that one");
}

static void look_at_admin(const struct doubts_facts *f, struct status *s)
{
    if (f->admin_waits)
        add(s, "admin",
            "ss -ltnp tells whose it is: end that process, after which it is taken within a second, or give another "
            "address and restart mvproxy",
            "admin-bind-address: another process has %s, so nobody is served metrics or health there",
            f->c->admin_bind_address);
}

void doubts_collect(const struct doubts_facts *f, struct status *s)
{
    look_at_sockets(f, s);
    look_at_advertised(f, s);
    look_at_certificate(f, s);
    look_at_admin(f, s);
}
