/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/served_size.h"

enum part { PART_APIS, PART_CORE, PART_SCHEMAS, PARTS };

/* What one server has: 0 is the local one, i peer i - 1. NULL: nothing. */
static const void *part_of(const struct served *s, size_t server, enum part part)
{
    const struct served_peer *p = server == 0 ? NULL : served_peer_at(s, server - 1);

    if (part == PART_SCHEMAS)
        return p == NULL ? served_local_schemas(s) : p->last_schemas;
    return disco_half(p == NULL ? served_local_disco(s) : p->disco, part == PART_CORE);
}

static size_t bytes_of(const void *it, enum part part)
{
    return part == PART_SCHEMAS ? schema_index_bytes(it) : disco_doc_bytes(it);
}

static bool is_same_server(const struct served *a, const struct served *b, size_t server)
{
    return server == 0 || (server <= served_n_peers(b) &&
                           strcmp(served_peer_at(a, server - 1)->id, served_peer_at(b, server - 1)->id) == 0);
}

/* Most servers stand where they stood: then nobody else has what this one had. */
static bool has(const struct served *s, const struct served *old, size_t server, enum part part)
{
    const void *it = part_of(old, server, part);

    if (is_same_server(old, s, server))
        return part_of(s, server, part) == it;
    for (size_t i = 0; i <= served_n_peers(s); i++)
        if (part_of(s, i, part) == it)
            return true;
    return false;
}

static size_t of_servers(const struct served *old, const struct served *newer)
{
    size_t bytes = 0;

    for (size_t i = 0; i <= served_n_peers(old); i++) {
        for (enum part part = 0; part < PARTS; part++) {
            const void *it = part_of(old, i, part);

            if (it != NULL && !has(newer, old, i, part))
                bytes += bytes_of(it, part);
        }
    }
    return bytes;
}

/* The merged documents. Parsed they may be the local server's own, which is counted there. */
static size_t of_half(const struct served *old, const struct served *newer, enum served_half half)
{
    const struct disco_doc *parsed = served_merged_doc(old, half);
    enum part part = half == SERVED_CORE ? PART_CORE : PART_APIS;
    size_t bytes = 0;

    for (enum served_shape shape = 0; shape < SERVED_SHAPES; shape++) {
        const struct served_document *d = served_merged_half(old, half, shape);

        if (d != NULL && d != served_merged_half(newer, half, shape))
            bytes += d->body.n + d->gzip.n;
    }
    if (parsed != NULL && parsed != part_of(old, 0, part) && parsed != served_merged_doc(newer, half))
        bytes += disco_doc_bytes(parsed);
    return bytes;
}

size_t served_bytes_besides(const struct served *old, const struct served *newer)
{
    return served_own_bytes(old) + of_servers(old, newer) + of_half(old, newer, SERVED_APIS) +
           of_half(old, newer, SERVED_CORE);
}
