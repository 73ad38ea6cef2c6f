/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/notices.h"

#include <stdio.h>

#include "admin/html.h"
#include "admin/server_state.h"

enum {
    NAMED_SERVERS = 8,
    LEASES_LATE_MS = 15000, /* a server renews its Lease every ten seconds */
    MEMORY_PERCENT = 80,    /* as the alert on it has it; from 87.5 on the greediest are cut off (front/memory.h) */
};

typedef bool server_is(const struct cluster_server *s);

static bool is_bad(const struct cluster_server *s)
{
    char words[SERVER_STATE_BYTES];

    return server_state(s, words) == SERVER_BAD;
}

/* Nor is it silent: nobody can be asked. */
static bool is_nowhere(const struct cluster_server *s)
{
    return is_bad(s) && s->address == NULL && s->answers != PULSE_UNREACHABLE;
}

static size_t count(const struct status *s, server_is *which)
{
    size_t n = 0;

    for (size_t i = 0; i < s->cluster.n; i++)
        n += which(&s->cluster.servers[i]);
    return n;
}

/* The first of them, with their states, and how many more there are. */
static void put_servers(const struct status *s, server_is *which, bool with_state, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s->cluster.n; i++) {
        const struct cluster_server *one = &s->cluster.servers[i];
        char words[SERVER_STATE_BYTES];

        if (!which(one) || n++ >= NAMED_SERVERS)
            continue;
        buf_printf(out, "%s%.200s", n == 1 ? "" : ", ", one->host);
        (void)server_state(one, words);
        if (with_state)
            buf_printf(out, " (%s)", words);
    }
    if (n > NAMED_SERVERS)
        buf_printf(out, " and %zu more", n - NAMED_SERVERS);
}

/* What is too long ends early. */
static struct buf begin(char text[NOTICE_BYTES])
{
    text[0] = '\0';
    return (struct buf){.p = text, .cap = NOTICE_BYTES - 1, .ceiling = NOTICE_BYTES - 1};
}

static void put_age(uint64_t ms, struct buf *out)
{
    if (ms == UINT64_MAX)
        return;
    buf_append_str(out, " (for ");
    html_duration(out, ms);
    buf_append_str(out, ")");
}

static bool is_drained(const struct cluster_server *s)
{
    return s->drained;
}

/* The reason has a line of its own below. */
static void put_refused(const char *what, uint64_t ms, const char *in_force, struct buf *out)
{
    buf_append_str(out, what);
    put_age(ms, out);
    buf_append_str(out, in_force);
}

/* The one that ends first. */
static const struct status_certificate *ending(const struct status *s, size_t *n)
{
    const struct status_certificate *first = NULL;

    *n = 0;
    for (size_t i = 0; i < s->n_certificates; i++) {
        const struct status_certificate *c = &s->certificates[i];

        if (!c->soon)
            continue;
        (*n)++;
        if (first == NULL || c->remaining_s < first->remaining_s)
            first = c;
    }
    return first;
}

static void put_ending(const struct status_certificate *c, size_t n, struct buf *out)
{
    buf_printf(out, "The certificate of %s ", c->option);
    if (c->remaining_s > 0) {
        buf_append_str(out, "expires in ");
        html_duration(out, (uint64_t)c->remaining_s * 1000);
    } else {
        buf_append_str(out, "has expired");
    }
    if (n > 1)
        buf_printf(out, ", and %zu more %s to be renewed", n - 1, n == 2 ? "is" : "are");
}

bool notices_is_egress(const char *why)
{
    return strstr(why, "egress-selector-config-file") != NULL;
}

static void put_files(const struct status *s, struct buf *out)
{
    if (notices_is_egress(s->files_refused))
        put_refused("A changed egress configuration was refused", s->files_refused_ms,
                    ": instead of it the earlier one is in force", out);
    else
        put_refused("Changed certificate files were refused", s->files_refused_ms,
                    ": instead of these the earlier ones are in force", out);
}

/* What an operator has done, or has to do. */
static size_t operators_notices(const struct status *s, char text[][NOTICE_BYTES])
{
    const struct status_certificate *first;
    size_t n = 0, certificates;
    struct buf out;

    if (s->reload_refused[0] != '\0') {
        out = begin(text[n]);
        put_refused("The last reload was refused", s->reload_refused_ms,
                    ": the configuration in force is older than the file", &out);
        text[n++][buf_len(&out)] = '\0';
    }
    if (s->files_refused[0] != '\0') {
        out = begin(text[n]);
        put_files(s, &out);
        text[n++][buf_len(&out)] = '\0';
    }
    for (size_t i = 0; i < s->n_doubts; i++) {
        out = begin(text[n]);
        buf_printf(&out, "Look at this: %s: %s", s->doubts[i].what, s->doubts[i].remedy);
        text[n++][buf_len(&out)] = '\0';
    }
    if (s->headers_more != NULL)
        (void)snprintf(
            text[n++], NOTICE_BYTES,
            "The API servers name headers for identities that requestheader-* does not, and they are removed "
            "from requests: %s",
            s->headers_more);
    if ((first = ending(s, &certificates)) != NULL) {
        out = begin(text[n]);
        put_ending(first, certificates, &out);
        text[n++][buf_len(&out)] = '\0';
    }
    if (count(s, is_drained) > 0) {
        out = begin(text[n]);
        buf_append_str(&out, "Drained by an operator: ");
        put_servers(s, is_drained, false, &out);
        text[n++][buf_len(&out)] = '\0';
    }
    return n;
}

/* Connections end until less is held than is told of, so it would never be told while they do. */
static bool is_memory_short(const struct status *s)
{
    return s->client_memory > s->client_memory_limit / 100 * MEMORY_PERCENT ||
           (s->memory_ended > 0 && s->client_memory_limit != SIZE_MAX);
}

static void put_memory(const struct status *s, struct buf *out)
{
    buf_printf(out,
               "Clients hold %zu of the %zu MiB of max-client-memory: close to it new requests get 429, and the "
               "connections that hold most are closed",
               s->client_memory >> 20, s->client_memory_limit >> 20);
    if (s->memory_ended > 0)
        buf_printf(out, ", %zu in the last minute", s->memory_ended);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

/* It is told for ten seconds, in which places may come free. */
static const char *whether_clients_wait(const struct status *s)
{
    return s->full ? ", and none can make room: new clients wait"
                   : ": new clients had to wait less than ten seconds ago, for none could make room";
}

/* Whoever comes hangs, and nothing that is open tells of it. */
static size_t put_waiting(const struct status *s, char text[][NOTICE_BYTES])
{
    size_t n = 0;

    if (s->crowded)
        (void)snprintf(text[n++], NOTICE_BYTES,
                       "%zu connection%s and %zu tunnel%s, of %zu that max-connections allows%s", s->connections,
                       plural(s->connections), s->tunnels, plural(s->tunnels), s->max_connections,
                       whether_clients_wait(s));
    if (s->accept_failure != NULL)
        (void)snprintf(text[n++], NOTICE_BYTES,
                       "New clients wait, or had to less than ten seconds ago, for none could be accepted: %s",
                       s->accept_failure);
    return n;
}

static bool is_without_schemas(const struct cluster_server *s)
{
    return s->schemas_unusable != NULL;
}

/* With the reason of the first one. */
static void put_schemas(const struct status *s, struct buf *out)
{
    size_t first = 0;

    while (!is_without_schemas(&s->cluster.servers[first]))
        first++;
    buf_append_str(out, "/openapi/v3 is not merged with these, whose index of schemas cannot be used (");
    buf_printf(out, "%s): ", s->cluster.servers[first].schemas_unusable);
    put_servers(s, is_without_schemas, false, out);
}

size_t notices_of(const struct status *s, char text[NOTICES][NOTICE_BYTES])
{
    size_t unread = count(s, server_is_unread), bad = count(s, is_bad), n = 0;
    struct buf out;

    if (s->peers_off[0] != '\0')
        (void)snprintf(text[n++], NOTICE_BYTES, "Peers are not used: %s", s->peers_off);
    if (bad > 0) {
        out = begin(text[n]);
        buf_printf(&out, "%zu of %zu servers cannot be used: ", bad, s->cluster.n);
        put_servers(s, is_bad, true, &out);
        if (count(s, is_nowhere) > 0)
            buf_append_str(&out, ". Without an address: run mvproxy there, or name it in the option peers here");
        text[n++][buf_len(&out)] = '\0';
    }
    if (s->cluster.leases_failure != NULL &&
        (s->cluster.leases_never || s->cluster.leases_failure_ms >= LEASES_LATE_MS)) {
        out = begin(text[n]);
        buf_append_str(&out, s->cluster.leases_never
                                 ? "Identity Leases have never been read, so which servers there are is not known"
                                 : "Identity Leases cannot be read, so who is live may be outdated");
        put_age(s->cluster.leases_failure_ms, &out);
        buf_printf(&out, ": %.512s", s->cluster.leases_failure);
        text[n++][buf_len(&out)] = '\0';
    }
    if (unread > 0) {
        out = begin(text[n]);
        buf_append_str(&out, "Not known what these serve, whose discovery has not been read yet: ");
        put_servers(s, server_is_unread, false, &out);
        text[n++][buf_len(&out)] = '\0';
    }
    if (count(s, is_without_schemas) > 0) {
        out = begin(text[n]);
        put_schemas(s, &out);
        text[n++][buf_len(&out)] = '\0';
    }
    if (s->cluster.custom_stale && s->cluster.never_from_peers > 0)
        (void)snprintf(text[n++], NOTICE_BYTES,
                       "Custom resources and aggregated APIs are Stale in discovery, and kubectl does not find them by "
                       "name: the local server is not ready, and no live peer is known to be");
    n += put_waiting(s, &text[n]);
    if (is_memory_short(s)) {
        out = begin(text[n]);
        put_memory(s, &out);
        text[n++][buf_len(&out)] = '\0';
    }
    return n + operators_notices(s, &text[n]);
}

void notices_skew(const struct status *s, char text[NOTICE_BYTES])
{
    const struct comparison_result *uneven = &s->cluster.uneven;
    size_t unread = count(s, server_is_unread);
    struct buf out = begin(text);

    if (s->peers_off[0] != '\0') {
        buf_append_str(&out, "not known: peers are not used");
    } else if (s->cluster.leases_never && s->cluster.n < 2) {
        buf_append_str(&out, "not known: the identity Leases have never been read");
    } else if (unread > 0 && s->cluster.n - unread < 2) {
        buf_printf(&out, "not known: %zu of %zu servers have never been read", unread, s->cluster.n);
    } else {
        buf_printf(&out, "%zu of %zu group/versions are not the same on all servers%s", uneven->uneven, uneven->gvs,
                   unread > 0 ? " that were read" : "");
        put_age(s->cluster.uneven_ms, &out);
        buf_printf(&out, ", the schemas of %zu differ", uneven->n_skewed);
        put_age(s->cluster.skewed_ms, &out);
        if (unread > 0)
            buf_printf(&out, "; %zu of %zu servers have never been read", unread, s->cluster.n);
    }
    text[buf_len(&out)] = '\0';
}
