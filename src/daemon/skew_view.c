/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/skew_view.h"

#include "admin/names.h"
#include "admin/server_order.h"
#include "admin/skew.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "cluster/cluster_view.h"
#include "daemon/skew_detail.h"
#include "proxy/askers.h"
#include "proxy/insight.h"

enum { PIECE_US = 2000, PIECE_BYTES = 64 << 10, VARIANTS = 26 };

enum part { PART_GATHER, PART_ROWS, PART_DETAILS, PART_NAMES, PART_SCHEMAS, PART_OVER };

struct skew_view {
    struct skew_view_opts o;
    struct skew *skew;
    struct names *names; /* of group/versions */
    size_t *order;       /* of the servers */
    enum part part;
    size_t next;
    size_t uneven;
    size_t sent, left_out; /* bytes of the pieces before this one; rows for which there was no room */
    struct json_write w, rows;
};

void skew_view_free(void *view)
{
    struct skew_view *v = view;

    if (v == NULL)
        return;
    skew_free(v->skew);
    names_free(v->names);
    mem_free(v->order);
    served_unref(v->o.served);
    mem_free(v);
}

struct skew_view *skew_view_new(const struct skew_view_opts *o)
{
    struct skew_view *v = mem_zalloc(sizeof(*v));

    if (v == NULL)
        return NULL;
    v->o = *o;
    (void)served_ref(o->served);
    v->skew = skew_new(o->served);
    v->names = names_new(o->served, false);
    v->order = server_order(o->served);
    if (v->skew != NULL && v->names != NULL && v->order != NULL)
        return v;
    skew_view_free(v);
    return NULL;
}

static const char *host_of(const struct served *s, size_t i)
{
    return i == 0 ? served_local_host(s) : served_peer_at(s, i - 1)->host;
}

/* However much some server says that it serves, the answer ends well, and says what is missing. */
static bool has_room(struct skew_view *v)
{
    bool room = v->sent + buf_len(v->w.out) < v->o.most_bytes;

    v->left_out += !room;
    return room;
}

/* The end of the whole. */
static void put_end(struct skew_view *v)
{
    if (v->left_out > 0)
        json_u64(&v->w, "rowsLeftOut", v->left_out);
    json_close(&v->w);
    v->part = PART_OVER;
}

/* ---- by resource ---- */

static void put_gvr(struct json_write *w, const struct gvr *g)
{
    json_slice(w, "group", g->group);
    json_slice(w, "version", g->version);
    json_slice(w, "resource", g->resource);
}

static void put_row(struct skew_view *v, const struct skew_row *row)
{
    static const char *const states[] = {[SKEW_UNKNOWN] = "unknown", [SKEW_ABSENT] = "no", [SKEW_SERVED] = "yes"};
    struct json_write one, by;

    v->uneven += row->uneven;
    if ((!row->uneven && !v->o.all) || !has_room(v))
        return;
    one = json_nested(&v->rows, NULL, '{');
    put_gvr(&one, &row->gvr);
    by = json_nested(&one, "servedBy", '[');
    for (size_t i = 0; i < row->n; i++)
        json_text(&by, NULL, states[row->by[v->order[i]]]);
    json_close(&by);
    json_close(&one);
}

static void put_hosts(const struct skew_view *v, struct json_write *w, const char *name, const struct skew_row *row,
                      enum skew_state state)
{
    struct json_write list = json_nested(w, name, '[');

    for (size_t i = 0; i < row->n; i++)
        if (row->by[v->order[i]] == state)
            json_text(&list, NULL, host_of(v->o.served, v->order[i]));
    json_close(&list);
}

static void put_asker(const struct asker *a, void *arg)
{
    struct json_write w = json_nested(arg, NULL, '{');

    json_slice(&w, "userAgent", a->who.user_agent);
    json_slice(&w, "user", a->who.user);
    json_slice(&w, "address", a->who.address);
    json_u64(&w, "requests", a->asked.requests);
    json_u64(&w, "requestsLately", a->asked.requests_lately);
    json_seconds(&w, "lastSeconds", clock_ms() - a->asked.last_ms);
    json_close(&w);
}

/* How often it was asked for is known when not all who asked are. */
static void put_asked(const struct skew_view *v, struct json_write *w, const struct gvr *gvr, enum insight_kind kind)
{
    struct json_write list;
    struct asked asked;

    askers_count(v->o.askers, gvr, &asked);
    json_u64(w, "requests", asked.requests);
    json_u64(w, "requestsLately", asked.requests_lately);
    if (asked.requests == 0 && askers_forget_resources(v->o.askers, kind))
        json_bool(w, "forgotten", true);
    list = json_nested(w, "askers", '[');
    askers_each(v->o.askers, gvr, put_asker, &list);
    json_close(&list);
}

/* Nobody is noted before servers serve different things. */
static uint64_t counted_ms(const struct skew_view *v)
{
    uint64_t ms = askers_since_ms(v->o.askers);

    return v->o.uneven_ms < ms ? v->o.uneven_ms : ms;
}

/* Of a resource: nobody who asked for it is noted before. */
static uint64_t counted_of(const struct skew_view *v, const struct gvr *g)
{
    uint64_t all = counted_ms(v),
             one = v->o.uneven_gv_ms == NULL ? UINT64_MAX : v->o.uneven_gv_ms(v->o.cluster, g->group, g->version);

    return one < all ? one : all;
}

static void put_upgrade_row(struct skew_view *v, const struct skew_row *row)
{
    enum insight_kind kind = row->uneven ? insight_kind(v->o.served, &row->gvr) : INSIGHT_EVEN;
    struct json_write w;

    if (kind == INSIGHT_EVEN || !has_room(v))
        return;
    w = json_nested(&v->rows, NULL, '{');
    put_gvr(&w, &row->gvr);
    json_text(&w, "servedBy", insight_kind_name(kind));
    if (v->o.uneven_gv_ms != NULL)
        json_seconds(&w, "countedSeconds", counted_of(v, &row->gvr));
    put_hosts(v, &w, "servers", row, SKEW_SERVED);
    put_hosts(v, &w, "lackedBy", row, SKEW_ABSENT);
    put_asked(v, &w, &row->gvr, kind);
    json_close(&w);
}

/* Nothing is known of what they serve: that all others are alike says nothing then. */
static void put_unread(struct skew_view *v)
{
    struct json_write list = json_nested(&v->w, "unread", '[');
    size_t n = served_n_peers(v->o.served) + 1, unread = 0;

    for (size_t i = 0; i < n; i++)
        if (names_disco(v->o.served, v->order[i]) == NULL) {
            json_text(&list, NULL, host_of(v->o.served, v->order[i]));
            unread++;
        }
    json_close(&list);
    if (v->o.upgrade)
        json_u64(&v->w, "serversRead", n - unread);
}

static void put_host(void *arg, const char *host)
{
    json_text(arg, NULL, host);
}

/* Nor of who has been away for too long, or who is not even known of. */
static void put_missing(struct skew_view *v)
{
    struct json_write list = json_nested(&v->w, "missing", '[');

    cluster_each_missing(v->o.cluster, put_host, &list);
    json_close(&list);
    if (cluster_leases_never(v->o.cluster) != NULL)
        json_text(&v->w, "leasesNeverRead", cluster_leases_never(v->o.cluster));
}

static void put_servers(struct skew_view *v)
{
    struct json_write servers = json_nested(&v->w, "servers", '[');

    for (size_t i = 0; i <= served_n_peers(v->o.served); i++)
        json_text(&servers, NULL, host_of(v->o.served, v->order[i]));
    json_close(&servers);
}

static void step_gather(struct skew_view *v, struct buf *out)
{
    bool failed, all = skew_gather(v->skew, &failed);

    out->failed = out->failed || failed;
    if (!all)
        return;
    v->w = json_open(out, '{');
    if (v->o.upgrade) {
        json_u64(&v->w, "hours", ASKERS_HOURS);
        json_seconds(&v->w, "countedSeconds", counted_ms(v));
        json_seconds(&v->w, "notedSeconds", askers_since_ms(v->o.askers));
        json_u64(&v->w, "askersForgotten", askers_forgotten(v->o.askers));
    } else {
        put_servers(v);
        if (v->o.skewed_resources != NULL)
            json_text(&v->w, "skewedResources", v->o.skewed_resources);
    }
    put_unread(v);
    if (v->o.cluster != NULL)
        put_missing(v);
    if (!served_peers_enabled(v->o.served))
        json_bool(&v->w, "peersEnabled", false);
    v->rows = json_nested(&v->w, "resources", '[');
    v->part = PART_ROWS;
}

static void step_rows(struct skew_view *v, struct buf *out)
{
    struct skew_row row;

    (void)out;
    if (v->next < skew_rows(v->skew)) {
        skew_row(v->skew, v->next++, &row);
        (v->o.upgrade ? put_upgrade_row : put_row)(v, &row);
        return;
    }
    json_close(&v->rows);
    if (!v->o.upgrade) {
        json_u64(&v->w, "compared", skew_rows(v->skew));
        json_u64(&v->w, "uneven", v->uneven);
        if (v->o.uneven_ms != UINT64_MAX)
            json_seconds(&v->w, "unevenSeconds", v->o.uneven_ms);
    }
    v->rows = json_nested(&v->w, "partly", '[');
    v->next = 0;
    v->part = PART_DETAILS;
}

/* ---- by what a resource has ---- */

static uint64_t release_of(const struct served *s, size_t server)
{
    return server == 0 ? served_local_release(s) : served_peer_at(s, server - 1)->release;
}

/* What it lacks is gone when all are as new; where no release is known, too. */
static bool is_newest(const struct served *s, size_t server)
{
    for (size_t i = 0; i <= served_n_peers(s); i++)
        if (release_of(s, server) != 0 && release_of(s, i) > release_of(s, server))
            return false;
    return true;
}

static void put_details(struct skew_view *v, const struct skew_row *row, const struct skew_detail *d)
{
    struct json_write one = json_nested(&v->rows, NULL, '{'), servers, server, lacks;

    put_gvr(&one, &row->gvr);
    servers = json_nested(&one, "servers", '[');
    for (size_t i = 0; i < row->n; i++) {
        if (row->by[v->order[i]] != SKEW_SERVED)
            continue;
        server = json_nested(&servers, NULL, '{');
        json_text(&server, "server", host_of(v->o.served, v->order[i]));
        json_bool(&server, "newest", is_newest(v->o.served, v->order[i]));
        lacks = json_nested(&server, "lacks", '[');
        skew_detail_put(v->o.served, &row->gvr, d, v->order[i], &lacks);
        json_close(&lacks);
        json_close(&server);
    }
    json_close(&servers);
    json_close(&one);
}

static void step_details(struct skew_view *v, struct buf *out)
{
    struct skew_detail d;
    struct skew_row row;

    (void)out;
    if (v->next < skew_rows(v->skew)) {
        skew_row(v->skew, v->next++, &row);
        if (skew_detail_differs(v->o.served, &row.gvr, &d) && has_room(v))
            put_details(v, &row, &d);
        return;
    }
    json_close(&v->rows);
    if (v->o.upgrade) {
        put_end(v);
        return;
    }
    v->next = 0;
    v->part = PART_NAMES;
}

/* ---- by schema ---- */

static void step_names(struct skew_view *v, struct buf *out)
{
    bool failed, all = names_step(v->names, &failed);

    out->failed = out->failed || failed;
    if (!all)
        return;
    v->rows = json_nested(&v->w, "schemas", '[');
    v->part = PART_SCHEMAS;
}

/* Servers with the same letter have the same; null: none, or none that is known. */
static void put_variants(struct json_write *w, const struct skew_view *v, const struct gvr *g)
{
    struct slice kinds[VARIANTS];
    size_t n = 0;

    for (size_t i = 0; i <= served_n_peers(v->o.served); i++) {
        struct slice hash = served_schema(v->o.served, v->order[i], g->group, g->version);
        char letter[2] = "A";
        size_t k = 0;

        while (k < n && !slice_eq(kinds[k], hash))
            k++;
        if (hash.n > 0 && k == n && n < VARIANTS)
            kinds[n++] = hash;
        letter[0] = (char)('A' + (k < VARIANTS ? k : VARIANTS - 1));
        json_text(w, NULL, hash.n == 0 ? NULL : letter);
    }
}

static void step_schemas(struct skew_view *v, struct buf *out)
{
    struct json_write one, by;
    const struct gvr *g;

    (void)out;
    if (v->next == names_count(v->names)) {
        json_close(&v->rows);
        if (v->o.skewed_ms != UINT64_MAX)
            json_seconds(&v->w, "schemasDifferSeconds", v->o.skewed_ms);
        put_end(v);
        return;
    }
    g = names_at(v->names, v->next++);
    if (!served_skewed(v->o.served, g->group, g->version) || !has_room(v))
        return;
    one = json_nested(&v->rows, NULL, '{');
    json_slice(&one, "group", g->group);
    json_slice(&one, "version", g->version);
    by = json_nested(&one, "byServer", '[');
    put_variants(&by, v, g);
    json_close(&by);
    json_close(&one);
}

/* ---- piece by piece ---- */

bool skew_view_more(void *view, struct buf *piece)
{
    static void (*const steps[])(struct skew_view * v, struct buf * out) = {[PART_GATHER] = step_gather,
                                                                            [PART_ROWS] = step_rows,
                                                                            [PART_DETAILS] = step_details,
                                                                            [PART_NAMES] = step_names,
                                                                            [PART_SCHEMAS] = step_schemas};
    struct skew_view *v = view;
    uint64_t end = clock_us() + PIECE_US;

    v->w.out = v->rows.out = piece;
    while (v->part != PART_OVER && !piece->failed && clock_us() < end && buf_len(piece) < PIECE_BYTES)
        steps[v->part](v, piece);
    v->sent += buf_len(piece);
    return v->part != PART_OVER;
}
