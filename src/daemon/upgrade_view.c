/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/upgrade_view.h"

#include "admin/skew.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "proxy/insight.h"

struct view {
    const struct served *served;
    const struct insight *insight;
    struct json_write rows, askers; /* askers: of the row that is written */
    const struct skew_row *row;
};

static const char *host_of(const struct served *s, size_t i)
{
    return i == 0 ? served_local_host(s) : served_peer_at(s, i - 1)->host;
}

static void put_hosts(struct view *v, struct json_write *w, const char *name, enum skew_state state)
{
    struct json_write list = json_nested(w, name, '[');

    for (size_t i = 0; i < v->row->n; i++)
        if (v->row->by[i] == state)
            json_text(&list, NULL, host_of(v->served, i));
    json_close(&list);
}

static void put_asker(const struct insight_asker *a, void *arg)
{
    struct view *v = arg;
    struct json_write w;

    if (!slice_eq(a->gvr.group, v->row->gvr.group) || !slice_eq(a->gvr.version, v->row->gvr.version) ||
        !slice_eq(a->gvr.resource, v->row->gvr.resource))
        return;
    w = json_nested(&v->askers, NULL, '{');
    json_slice(&w, "userAgent", a->user_agent);
    json_slice(&w, "user", a->user);
    json_u64(&w, "requests", a->requests);
    json_u64(&w, "requestsLately", a->requests_lately);
    json_seconds(&w, "lastSeconds", clock_ms() - a->last_ms);
    json_close(&w);
}

static void put_row(const struct skew_row *row, void *arg)
{
    struct view *v = arg;
    enum insight_kind kind = row->uneven ? insight_kind(v->served, &row->gvr) : INSIGHT_EVEN;
    struct json_write w;

    if (kind == INSIGHT_EVEN)
        return;
    v->row = row;
    w = json_nested(&v->rows, NULL, '{');
    json_slice(&w, "group", row->gvr.group);
    json_slice(&w, "version", row->gvr.version);
    json_slice(&w, "resource", row->gvr.resource);
    json_text(&w, "servedBy", insight_kind_name(kind));
    put_hosts(v, &w, "servers", SKEW_SERVED);
    put_hosts(v, &w, "lackedBy", SKEW_ABSENT);
    v->askers = json_nested(&w, "askers", '[');
    insight_each(v->insight, put_asker, v);
    json_close(&v->askers);
    json_close(&w);
}

bool upgrade_view_write(const struct served *s, const struct insight *i, struct buf *out)
{
    struct view v = {.served = s, .insight = i};
    struct json_write w = json_open(out, '{');
    bool ok;

    json_u64(&w, "hours", INSIGHT_HOURS);
    json_u64(&w, "askersForgotten", insight_forgotten(i));
    v.rows = json_nested(&w, "resources", '[');
    ok = skew_walk(v.served, put_row, &v);
    json_close(&v.rows);
    json_close(&w);
    return ok;
}
