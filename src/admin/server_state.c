/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/server_state.h"

#include "base/buf.h"
#include "base/duration.h"

static const char leads_elsewhere[] = "its address leads to ";

/* It answers as far as it can: the remedy is another than where nobody does. Its own certificate, and not that of the
 * egress proxy on the way. */
static bool has_refused_certificate(const struct cluster_server *s)
{
    return s->error != NULL && strstr(s->error, "certificate refused") != NULL &&
           strstr(s->error, "egress proxy") == NULL;
}

/* It has not even been dialled (net/dial.c): neither it nor the network is at fault. */
static bool is_not_allowed(const struct cluster_server *s)
{
    return s->error != NULL && strstr(s->error, "the address is not allowed") != NULL;
}

/* Why nothing comes of dialling it. */
static const char *silence_of(const struct cluster_server *s)
{
    if (has_refused_certificate(s))
        return "certificate refused";
    return is_not_allowed(s) ? "address not in peer-allowed-cidrs" : "does not answer";
}

/* What keeps it from being asked; NULL: nothing. */
static const char *trouble_of(const struct cluster_server *s)
{
    if (s->answers == PULSE_UNREACHABLE)
        return silence_of(s);
    if (s->address == NULL)
        return "no address";
    if (s->leads_to != NULL)
        return leads_elsewhere;
    return s->failing ? "discovery fails" : NULL;
}

/* A host that `peers` names and that has never been seen: perhaps nobody's name. */
static const char *life_of(const struct cluster_server *s)
{
    return s->fixed && !s->leased && !s->local && strcmp(s->life, "live") == 0 ? "configured, no Lease" : s->life;
}

enum { NAMED_BYTES = 32 }; /* of another server */

/* How it stands with its Lease, and what keeps it from being asked. */
static void put_state(const struct cluster_server *s, const char *trouble, struct buf *out)
{
    char age[DURATION_BYTES];

    if (s->left)
        buf_printf(out, "left, forgotten in %s", duration_text(s->forgotten_in_ms, age));
    else
        buf_append_str(out, life_of(s));
    if (trouble != NULL)
        buf_printf(out, ", %s%.*s", trouble, NAMED_BYTES, trouble == leads_elsewhere ? s->leads_to : "");
}

static bool is_live(const struct cluster_server *s)
{
    return s->local || strcmp(s->life, "live") == 0;
}

enum server_mood server_state(const struct cluster_server *s, char words[SERVER_STATE_BYTES])
{
    const char *trouble = trouble_of(s);
    bool unready = trouble == NULL && s->local && s->readiness != NULL && strcmp(s->readiness, "ready") != 0;
    struct buf out = {.p = words, .cap = SERVER_STATE_BYTES - 1, .ceiling = SERVER_STATE_BYTES - 1};

    put_state(s, trouble, &out);
    buf_append_str(&out, s->drained ? ", drained" : "");
    buf_append_str(&out, s->ejected ? ", ejected" : "");
    buf_append_str(&out, unready ? ", not ready" : "");
    words[buf_len(&out)] = '\0';
    if (s->missing || (trouble != NULL && (is_live(s) || s->address != NULL || s->answers == PULSE_UNREACHABLE)))
        return SERVER_BAD;
    return !is_live(s) || trouble != NULL || s->drained || s->ejected || unready ? SERVER_WARNING : SERVER_GOOD;
}

bool server_is_unread(const struct cluster_server *s)
{
    return s->discovery_ms == UINT64_MAX && is_live(s);
}
