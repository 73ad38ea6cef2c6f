/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/records.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/duration.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/cluster_metrics.h"
#include "cluster/etcd.h"
#include "cluster/record_publish.h"
#include "cluster/record_watch.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    TICK_MS = 1000,
    /*
     * Four lives of a record: what could not be confirmed for so long says less than a Lease annotation. (Where there
     * is none it stays: an old address that a certificate has to stand for is better than none.)
     */
    STALE_MS = 60000,
};

struct records {
    struct records_opts o;
    char own_id[SERVER_ID_BYTES], prefix[LIMIT_ETCD_PREFIX_BYTES + 1], advertise[LIMIT_ADDRESS_TEXT_BYTES];
    struct etcd *etcd;
    struct record_watch *watch;     /* stopped without endpoints */
    struct record_publish *publish; /* the same */
    struct loop_timer *tick;
    bool on, stopped, stale;
    uint64_t since_ms; /* that etcd has been in use */
};

/* ---- reading ---- */

static bool is_own(const struct records *r, struct slice id)
{
    return slice_eq(id, slice_str(r->own_id));
}

static void on_record(void *arg, const struct peer_record *record, uint64_t lease)
{
    struct records *r = arg;
    struct slice id = slice_str(record->id);

    if (!is_own(r, id))
        r->o.on_address(r->o.arg, id, record->ip, record->port);
    else
        record_publish_seen(r->publish, record, lease);
}

static void on_gone(void *arg, struct slice id)
{
    struct records *r = arg;

    if (!is_own(r, id))
        r->o.on_address(r->o.arg, id, NULL, 0);
    else
        record_publish_seen(r->publish, NULL, 0);
}

static const struct record_watch_handler watch_handler = {.on_record = on_record, .on_gone = on_gone};

void records_tell(struct records *r, struct slice id)
{
    const struct peer_record *record;

    if (is_own(r, id))
        return;
    record = record_watch_find(r->watch, id);
    if (record != NULL && !(r->stale && r->o.has_other(r->o.arg, id)))
        r->o.on_address(r->o.arg, id, record->ip, record->port);
}

static void forget_all(struct records *r)
{
    size_t cursor = 0;
    struct slice id;

    while ((id = record_watch_next(r->watch, &cursor)).p != NULL)
        if (!is_own(r, id))
            r->o.on_address(r->o.arg, id, NULL, 0);
    record_watch_stop(r->watch);
    r->stale = false;
}

/* Out of sight for long. */
static void mark_stale(struct records *r)
{
    size_t cursor = 0;
    struct slice id;

    log_warning("etcd has not answered for a minute: where there is a Lease annotation, its address counts now",
                LU("seconds", STALE_MS / 1000));
    r->stale = true;
    while ((id = record_watch_next(r->watch, &cursor)).p != NULL)
        if (!is_own(r, id) && r->o.has_other(r->o.arg, id))
            r->o.on_address(r->o.arg, id, NULL, 0);
}

static void trust_again(struct records *r)
{
    size_t cursor = 0;
    struct slice id;

    r->stale = false;
    while ((id = record_watch_next(r->watch, &cursor)).p != NULL)
        records_tell(r, id);
}

/* ---- time ---- */

/* Switched off: the endpoints are needed until the own record is removed, and nobody shall hear of them afterwards. */
static void let_go(struct records *r)
{
    if (!record_publish_stopped(r->publish))
        loop_timer_set(r->tick, TICK_MS);
    else
        (void)etcd_set_servers(r->etcd, NULL, 0);
}

static void on_tick(void *arg)
{
    struct records *r = arg;
    uint64_t now = loop_now_ms(r->o.loop), seen = etcd_worked_ms(r->etcd);

    if (!r->on) {
        let_go(r);
        return;
    }
    if (seen < r->since_ms)
        seen = r->since_ms;
    if (!r->stale && now - seen >= STALE_MS)
        mark_stale(r);
    else if (r->stale && now - seen < STALE_MS && etcd_answers(r->etcd))
        trust_again(r);
    loop_timer_set(r->tick, TICK_MS);
}

/* ---- configuration ---- */

static bool replace_text(char *slot, size_t n, const char *text)
{
    if (text == NULL)
        text = "";
    if (strcmp(slot, text) == 0)
        return false;
    contract(strlen(text) < n);
    (void)snprintf(slot, n, "%s", text);
    return true;
}

static void say_missing(const struct records *r)
{
    if (r->on && r->advertise[0] == '\0')
        log_warning(
            "No address to publish for peers: bind-address is none that they could reach; set peer-advertise-ip and "
            "peer-advertise-port");
}

static void switch_off(struct records *r)
{
    loop_timer_set(r->tick, 0); /* let_go() */
    if (!r->stopped)
        record_publish_stop(r->publish, NULL, NULL);
}

void records_configure(struct records *r, const struct records_config *c)
{
    bool was_on = r->on, moved = replace_text(r->prefix, sizeof(r->prefix), c->prefix);
    bool news = replace_text(r->advertise, sizeof(r->advertise), c->advertise), others;

    r->on = c->n_servers > 0;
    if (moved || !r->on)
        forget_all(r);
    if (!r->on) {
        switch_off(r);
        return;
    }
    others = etcd_set_servers(r->etcd, c->servers, c->n_servers);
    if (!was_on)
        r->since_ms = loop_now_ms(r->o.loop);
    if (!was_on || moved || others)
        record_watch_restart(r->watch);
    if (moved)
        record_publish_set_address(r->publish, ""); /* what was said of it does not hold for the other one */
    if (moved || others)
        record_publish_moved(r->publish); /* the record that was there before expires */
    record_publish_set_address(r->publish, r->advertise);
    if (!r->stopped && r->own_id[0] != '\0')
        record_publish_start(r->publish);
    if (!was_on || news)
        say_missing(r);
    loop_timer_set(r->tick, TICK_MS);
}

/* ---- whole ---- */

struct records *records_new(const struct records_opts *o)
{
    struct records *r = must_zalloc(sizeof(*r));
    struct record_watch_opts w = {
        .prefix = r->prefix, .metrics = o->metrics, .changes = o->changes, .handler = &watch_handler, .arg = r};
    struct record_publish_opts p = {
        .prefix = r->prefix, .id = r->own_id, .may = o->may_publish, .arg = o->arg, .metrics = o->metrics};

    r->o = *o;
    (void)snprintf(r->own_id, sizeof(r->own_id), "%s", o->own_id);
    r->etcd = w.etcd = p.etcd = etcd_new(o->loop, o->back, o->metrics);
    r->watch = record_watch_new(&w);
    r->publish = record_publish_new(&p);
    r->tick = loop_timer_new(o->loop, on_tick, r);
    must_hold(r->tick != NULL);
    return r;
}

void records_free(struct records *r)
{
    if (r == NULL)
        return;
    record_watch_free(r->watch);
    record_publish_free(r->publish);
    loop_timer_free(r->tick);
    etcd_free(r->etcd);
    mem_free(r);
}

void records_local_answers(struct records *r)
{
    record_publish_local_answers(r->publish);
}

void records_stop(struct records *r, void (*done)(void *arg), void *arg)
{
    r->stopped = true;
    record_publish_stop(r->publish, done, arg);
}

static const char *own_record(const struct records *r)
{
    return r->own_id[0] == '\0' ? "none" : record_publish_state_name(r->publish);
}

void records_state(const struct records *r, char *text, size_t n)
{
    const char *why = r->on ? etcd_failure(r->etcd) : NULL;
    char health[64] = "works", age[DURATION_BYTES];

    if (why != NULL)
        (void)snprintf(health, sizeof(health), "cannot be used for %s", duration_text(etcd_failing_ms(r->etcd), age));
    if (!r->on)
        (void)snprintf(text, n, "not configured");
    else
        (void)snprintf(text, n, "%s%s%s; %zu records, %s; own record: %s", health, why == NULL ? "" : ": ",
                       why == NULL ? "" : why, record_watch_count(r->watch),
                       record_watch_synced(r->watch) ? "read" : "not read yet", own_record(r));
}

void records_describe(const struct records *r, struct buf *out)
{
    buf_append_char(out, '{');
    if (r->on) {
        etcd_describe(r->etcd, out);
        buf_append_char(out, ',');
        record_watch_describe(r->watch, out);
        buf_printf(out, ",\"ownRecord\":\"%s\"", own_record(r));
    }
    buf_append_char(out, '}');
}
