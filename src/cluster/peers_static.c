/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peers_static.h"

#include "base/log.h"
#include "cluster/cluster_opts.h"

/* False: out of memory. */
static bool fill(struct peers_static_row *row, const struct cluster_static_peer *from)
{
    struct slice name = slice_str(from->name);

    if (server_id_valid(name)) {
        memcpy(row->id, name.p, SERVER_ID_CHARS);
        row->id[SERVER_ID_CHARS] = '\0';
    } else if (server_id_from_hostname(name, row->id)) {
        row->hostname = mem_strdup(from->name);
        if (row->hostname == NULL)
            return false;
    }
    row->host = mem_strdup(from->host);
    row->port = from->port;
    return row->host != NULL;
}

struct peers_static *peers_static_new(const struct cluster_static_peer *list, size_t n)
{
    struct peers_static *s = mem_zalloc(sizeof(*s) + n * sizeof(s->rows[0]));

    for (size_t i = 0; s != NULL && i < n; i++) {
        struct peers_static_row *row = &s->rows[s->n++];

        if (!fill(row, &list[i])) {
            peers_static_free(s);
            return NULL;
        }
        if (row->id[0] == '\0') {
            log_warning("Ignoring a static peer without a usable name", LT("address", row->host));
            mem_free(row->host);
            s->rows[--s->n] = (struct peers_static_row){.host = NULL};
        }
    }
    return s;
}

void peers_static_free(struct peers_static *s)
{
    for (size_t i = 0; s != NULL && i < s->n; i++) {
        mem_free(s->rows[i].hostname);
        mem_free(s->rows[i].host);
    }
    mem_free(s);
}

const struct peers_static_row *peers_static_find(const struct peers_static *s, const char *id)
{
    for (size_t i = 0; s != NULL && i < s->n; i++)
        if (strcmp(s->rows[i].id, id) == 0)
            return &s->rows[i];
    return NULL;
}
