/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "admin/notices.h"
#include "admin/server_state.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json_write.h"
#include "cluster/served.h"
#include "proxy/traffic.h"

void status_end(struct status *s)
{
    cluster_view_free(&s->cluster);
    buf_free(&s->internals);
    if (s->served != NULL)
        served_unref(s->served);
    s->served = NULL;
}

/* ---- in words ---- */

void status_headline(const struct status *s, struct buf *out)
{
    if (s->ready)
        buf_append_str(out, "Ready");
    for (size_t i = 0; i < s->n_failing; i++)
        buf_printf(out, "%s%s: %s", i == 0 ? "Not ready: " : "; ", s->failing[i].name, s->failing[i].why);
}

/*
 * Names, versions and errors are of other servers, of certificates, and of whoever can write a Lease: no text of theirs
 * is to begin a line of its own, nor to reach a terminal. They stay as they are until here, for servers are told apart
 * by them.
 */
struct text {
    struct buf *out, line;
};

static void end_line(struct text *t)
{
    t->out->failed = t->out->failed || t->line.failed;
    (void)buf_append_printable(t->out, buf_slice(&t->line));
    buf_append_char(t->out, '\n');
    buf_reset(&t->line);
}

static void __attribute__((format(printf, 2, 3))) put_line(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&t->line, fmt, ap);
    va_end(ap);
    end_line(t);
}

/* "Lease 1.5s old"; UINT64_MAX: there is none. */
static void text_age(struct buf *out, const char *of, uint64_t ms, const char *without)
{
    char age[DURATION_BYTES];

    if (ms == UINT64_MAX)
        buf_printf(out, ", %s", without);
    else
        buf_printf(out, ", %s %s old", of, duration_text(ms, age));
}

static void text_error(const struct cluster_server *s, struct buf *out)
{
    char age[DURATION_BYTES];

    if (s->failing || s->ejected)
        buf_printf(
            out, ", for %s: %s",
            duration_text(s->answers == PULSE_UNREACHABLE && s->answers_ms > s->error_ms ? s->answers_ms : s->error_ms,
                          age),
            s->error);
    else
        buf_printf(out, ", last error %s ago: %s", duration_text(s->error_ms, age), s->error);
}

/* All that the page has in its columns. */
static void text_servers(const struct cluster_view *c, struct text *t)
{
    struct buf *out = &t->line;

    for (size_t i = 0; i < c->n; i++) {
        const struct cluster_server *s = &c->servers[i];
        char words[SERVER_STATE_BYTES];

        (void)server_state(s, words);
        buf_printf(out, "Server %s: %s, %s", s->host, words, s->version[0] == '\0' ? "version unknown" : s->version);
        if (s->emulated[0] != '\0')
            buf_printf(out, " as %s", s->emulated);
        if (s->address != NULL)
            buf_printf(out, ", %s (%s)", s->address, s->source);
        if (s->has_mvproxy)
            buf_printf(out, ", behind an mvproxy%s%s", s->mvproxy[0] == '\0' ? "" : " ", s->mvproxy);
        text_age(out, "Lease", s->lease_ms, "no Lease");
        text_age(out, "discovery", s->discovery_ms, "discovery never read");
        buf_printf(out, ", %zu in flight", s->in_flight);
        if (s->error != NULL)
            text_error(s, out);
        end_line(t);
    }
}

static void text_ejected(const struct cluster_view *c, struct text *t)
{
    const char *before = "Peers ejected: ";

    for (size_t i = 0; i < c->n; i++) {
        if (!c->servers[i].ejected)
            continue;
        buf_printf(&t->line, "%s%s", before, c->servers[i].host);
        before = ", ";
    }
    if (before[0] == ',')
        end_line(t);
}

static void text_notices(const struct status *s, struct text *t)
{
    char notices[NOTICES][NOTICE_BYTES];
    size_t n = notices_of(s, notices);

    for (size_t i = 0; i < n; i++)
        put_line(t, "%s.", notices[i]);
}

static void text_skew(const struct status *s, struct text *t)
{
    char skew[NOTICE_BYTES];

    notices_skew(s, skew);
    put_line(t, "Skew: %s (skewed-resources: %s)", skew, s->skewed_resources);
}

/* The lines of it are one here. */
static void text_lines(struct text *t, const char *text)
{
    for (; *text != '\0'; text++)
        buf_append_char(&t->line, *text == '\n' ? ' ' : *text);
    end_line(t);
}

static void text_config(const struct status *s, struct text *t)
{
    char age[DURATION_BYTES];

    if (s->reload_refused[0] != '\0') {
        buf_printf(&t->line, "Last reload refused, for %s: ", duration_text(s->reload_refused_ms, age));
        text_lines(t, s->reload_refused);
    }
    if (s->files_refused[0] != '\0') {
        buf_printf(&t->line, "Changed %s refused, for %s: ",
                   notices_is_egress(s->files_refused) ? "egress configuration" : "certificate files",
                   duration_text(s->files_refused_ms, age));
        text_lines(t, s->files_refused);
    }
    for (size_t i = 0; i < s->n_certificates; i++) {
        const struct status_certificate *c = &s->certificates[i];

        if (c->remaining_s <= 0)
            put_line(t, "Certificate of %s has expired: %s", c->option, c->file);
        else
            put_line(t, "Certificate of %s %s in %s: %s", c->option, c->soon ? "expires soon," : "expires",
                     duration_text((uint64_t)c->remaining_s * 1000, age), c->file);
    }
}

enum { TEXT_CHANGES = 10 };

static void text_changes(const struct status *s, const char *title, bool disbelieved, struct text *t)
{
    const struct change *c;

    for (size_t i = 0; i < TEXT_CHANGES && (c = changes_at(s->changes, disbelieved, i)) != NULL; i++) {
        char when[CLOCK_RFC3339_BYTES];

        clock_rfc3339(c->wall_us, when);
        buf_printf(&t->line, "%s: %.19sZ %s %s %s", title, when, change_name(c->kind), c->subject, c->text);
        if (c->times > 1)
            buf_printf(&t->line, " (%llu times)", (unsigned long long)c->times);
        end_line(t);
    }
}

void status_text(const struct status *s, struct buf *out)
{
    struct text t = {.out = out};

    buf_init(&t.line, out->ceiling);
    status_headline(s, &t.line);
    end_line(&t);
    for (size_t i = 0; i < s->n_failing; i++)
        put_line(&t, "Look (%s): %s", s->failing[i].name, s->failing[i].look);
    text_notices(s, &t);
    text_servers(&s->cluster, &t);
    text_ejected(&s->cluster, &t);
    text_skew(s, &t);
    put_line(&t, "Local failover: %s", s->failover);
    put_line(&t, "Endpoint records: %s", s->etcd);
    text_config(s, &t);
    text_changes(s, "Change", false, &t);
    text_changes(s, "Not believed", true, &t);
    buf_free(&t.line);
}

/* ---- JSON ---- */

static void put_time(struct json_write *w, const char *name, int64_t wall_us)
{
    char when[CLOCK_RFC3339_BYTES];

    clock_rfc3339(wall_us / 1000000 * 1000000, when);
    json_text(w, name, when);
}

static void put_failing(const struct status *s, struct json_write *w)
{
    struct json_write list = json_nested(w, "notReady", '[');

    for (size_t i = 0; i < s->n_failing; i++) {
        struct json_write one = json_nested(&list, NULL, '{');

        json_text(&one, "check", s->failing[i].name);
        json_text(&one, "reason", s->failing[i].why);
        json_text(&one, "look", s->failing[i].look);
        json_close(&one);
    }
    json_close(&list);
}

static void put_notices(const struct status *s, struct json_write *w)
{
    struct json_write list = json_nested(w, "notices", '[');
    char notices[NOTICES][NOTICE_BYTES];
    size_t n = notices_of(s, notices);

    for (size_t i = 0; i < n; i++)
        json_text(&list, NULL, notices[i]);
    json_close(&list);
}

static void put_process(const struct status *s, struct json_write *w)
{
    struct json_write nested;

    json_text(w, "phase", s->phase);
    json_text(w, "hostname", s->hostname);
    json_text(w, "version", s->version);
    json_u64(w, "pid", s->pid);
    put_time(w, "started", s->started_us);
    json_seconds(w, "upSeconds", s->up_ms);
    nested = json_nested(w, "listeners", '[');
    for (size_t i = 0; i < s->n_listeners; i++)
        json_text(&nested, NULL, s->listeners[i]);
    json_close(&nested);
    nested = json_nested(w, "doubts", '[');
    for (size_t i = 0; i < s->n_doubts; i++) {
        struct json_write one = json_nested(&nested, NULL, '{');

        json_text(&one, "name", s->doubts[i].name);
        json_text(&one, "what", s->doubts[i].what);
        json_text(&one, "remedy", s->doubts[i].remedy);
        json_close(&one);
    }
    json_close(&nested);
    json_u64(w, "connections", s->connections);
    json_u64(w, "maxConnections", s->max_connections);
    json_bool(w, "connectionLimitReached", s->crowded);
    json_text(w, "acceptFailure", s->accept_failure);
    json_u64(w, "requestsInFlight", s->requests);
    json_u64(w, "tunnels", s->tunnels);
    json_u64(w, "clientMemoryBytes", s->client_memory);
    json_u64(w, "clientMemoryLimitBytes", s->client_memory_limit);
    json_u64(w, "connectionsEndedForMemory", s->memory_ended);
    nested = json_nested(w, "config", '{');
    json_text(&nested, "file", s->config_file);
    json_text(&nested, "lastReloadRefused", s->reload_refused[0] == '\0' ? NULL : s->reload_refused);
    if (s->reload_refused[0] != '\0')
        json_seconds(&nested, "lastReloadRefusedSeconds", s->reload_refused_ms);
    json_text(&nested, "lastFilesRefused", s->files_refused[0] == '\0' ? NULL : s->files_refused);
    if (s->files_refused[0] != '\0')
        json_seconds(&nested, "lastFilesRefusedSeconds", s->files_refused_ms);
    json_close(&nested);
}

static void put_age(struct json_write *w, const char *name, uint64_t ms)
{
    if (ms != UINT64_MAX)
        json_seconds(w, name, ms);
}

/* `version`: of whoever writes this. */
static void put_server(const struct cluster_server *s, const char *version, struct json_write *list)
{
    static const char *const moods[] = {[SERVER_GOOD] = "good", [SERVER_WARNING] = "warning", [SERVER_BAD] = "bad"};
    struct json_write w = json_nested(list, NULL, '{');
    char words[SERVER_STATE_BYTES];
    enum server_mood mood = server_state(s, words);

    json_text(&w, "hostname", s->host);
    json_text(&w, "id", s->id);
    json_bool(&w, "local", s->local);
    json_text(&w, "state", words);
    json_text(&w, "mood", moods[mood]);
    json_text(&w, "life", s->life);
    json_text(&w, "answers", pulse_name(s->answers));
    json_seconds(&w, "answersSeconds", s->answers_ms);
    json_text(&w, "version", s->version);
    json_text(&w, "emulatedVersion", s->emulated);
    json_bool(&w, "hasMvproxy", s->has_mvproxy || s->local); /* whoever writes this */
    json_text(&w, "mvproxyVersion", s->local ? version : s->mvproxy);
    json_text(&w, "address", s->address);
    json_text(&w, "addressSource", s->address == NULL ? NULL : s->source);
    json_bool(&w, "lease", s->leased);
    json_text(&w, "leaseHolder", s->holder);
    put_age(&w, "leaseAgeSeconds", s->lease_ms);
    json_bool(&w, "static", s->fixed);
    json_bool(&w, "left", s->left);
    if (s->left)
        json_seconds(&w, "forgottenInSeconds", s->forgotten_in_ms);
    json_text(&w, "addressLeadsTo", s->leads_to);
    json_bool(&w, "discoveryKnown", s->known);
    put_age(&w, "discoveryAgeSeconds", s->discovery_ms);
    json_u64(&w, "discoveryReads", s->reads);
    json_text(&w, "schemaIndexUnusable", s->schemas_unusable);
    json_u64(&w, "groups", s->groups);
    json_u64(&w, "resources", s->resources);
    json_bool(&w, "failing", s->failing);
    json_text(&w, "lastError", s->error);
    if (s->error != NULL)
        json_seconds(&w, "lastErrorAgeSeconds", s->error_ms);
    json_bool(&w, "outlierEjected", s->ejected);
    json_bool(&w, "drained", s->drained);
    json_u64(&w, "requestsInFlight", s->in_flight);
    if (s->readiness != NULL)
        json_text(&w, "readiness", s->readiness);
    json_close(&w);
}

static void put_cluster(const struct status *s, struct json_write *w)
{
    struct json_write nested = json_nested(w, "servers", '[');

    for (size_t i = 0; i < s->cluster.n; i++)
        put_server(&s->cluster.servers[i], s->version, &nested);
    json_close(&nested);
    nested = json_nested(w, "cluster", '{');
    json_text(&nested, "serverID", s->cluster.own_id);
    json_bool(&nested, "peersEnabled", s->cluster.peers_enabled);
    json_text(&nested, "peersNotUsed", s->peers_off[0] == '\0' ? NULL : s->peers_off);
    json_bool(&nested, "synced", s->cluster.synced);
    json_u64(&nested, "generation", s->cluster.generation);
    json_u64(&nested, "mergedBytes", s->cluster.merged_bytes);
    json_text(&nested, "identityLease", s->cluster.identity);
    json_text(&nested, "advertised", s->advertised == NULL || s->advertised[0] == '\0' ? NULL : s->advertised);
    json_u64(&nested, "neverFromPeers", s->cluster.never_from_peers);
    json_text(&nested, "localFailover", s->failover);
    json_text(&nested, "endpointRecords", s->etcd);
    json_close(&nested);
}

static void put_schema(const struct served_gv *gv, struct json_write *list)
{
    json_raw(list, NULL);
    buf_append_char(list->out, '"');
    buf_append_json(list->out, gv->group);
    buf_append_str(list->out, gv->group.n > 0 ? "/" : "");
    buf_append_json(list->out, gv->version);
    buf_append_char(list->out, '"');
}

static void put_skew(const struct status *s, struct json_write *w)
{
    const struct comparison_result *uneven = &s->cluster.uneven;
    struct json_write nested = json_nested(w, "skew", '{'), list;
    char summary[NOTICE_BYTES];
    size_t unread = 0;

    notices_skew(s, summary);
    json_text(&nested, "summary", summary);
    for (size_t i = 0; i < s->cluster.n; i++)
        unread += server_is_unread(&s->cluster.servers[i]);
    json_u64(&nested, "serversUnread", unread);
    json_u64(&nested, "groupVersions", uneven->gvs);
    json_u64(&nested, "groupVersionsUneven", uneven->uneven);
    put_age(&nested, "groupVersionsUnevenSeconds", s->cluster.uneven_ms);
    json_text(&nested, "skewedResources", s->skewed_resources);
    put_age(&nested, "schemasDifferSeconds", s->cluster.skewed_ms);
    list = json_nested(&nested, "schemasDiffer", '[');
    for (size_t i = 0; i < uneven->n_skewed; i++)
        put_schema(&uneven->skewed[i], &list);
    json_close(&list);
    json_close(&nested);
}

static void put_certificates(const struct status *s, struct json_write *w)
{
    struct json_write list = json_nested(w, "certificates", '[');

    for (size_t i = 0; i < s->n_certificates; i++) {
        const struct status_certificate *c = &s->certificates[i];
        struct json_write one = json_nested(&list, NULL, '{');

        json_text(&one, "option", c->option);
        json_text(&one, "file", c->file);
        put_time(&one, "notAfter", c->not_after_s * 1000000);
        json_i64(&one, "remainingSeconds", c->remaining_s);
        json_bool(&one, "endsSoon", c->soon);
        json_close(&one);
    }
    json_close(&list);
}

static void put_changes(const struct status *s, const char *name, bool disbelieved, struct json_write *w)
{
    struct json_write list = json_nested(w, name, '[');
    const struct change *c;

    for (size_t i = 0; (c = changes_at(s->changes, disbelieved, i)) != NULL; i++) {
        struct json_write one = json_nested(&list, NULL, '{');

        put_time(&one, "time", c->wall_us);
        json_text(&one, "kind", change_name(c->kind));
        json_text(&one, "subject", c->subject);
        json_text(&one, "text", c->text);
        json_u64(&one, "times", c->times);
        json_close(&one);
    }
    json_close(&list);
}

static void put_counts(const struct traffic_count *t, bool errors, const char *name, struct json_write *w)
{
    struct json_write list = json_nested(w, name, '[');

    for (size_t i = 0; i < TRAFFIC_BUCKETS; i++)
        json_u64(&list, NULL, errors ? t[i].errors : t[i].requests);
    json_close(&list);
}

/* The oldest first. */
static void put_traffic(const struct status *s, struct json_write *w)
{
    struct json_write nested = json_nested(w, "traffic", '{'), list;
    struct traffic_count counts[TRAFFIC_BUCKETS];

    json_seconds(&nested, "stepSeconds", TRAFFIC_BUCKET_MS);
    list = json_nested(&nested, "routes", '[');
    for (unsigned row = ROUTE_ROW_DISABLED; row < ROUTE_ROWS; row++) {
        struct json_write one;

        if (!traffic_of(s->traffic, s->now_ms, (enum route_row)row, counts))
            continue;
        one = json_nested(&list, NULL, '{');
        json_text(&one, "route", route_row_name((enum route_row)row));
        put_counts(counts, false, "requests", &one);
        put_counts(counts, true, "errors", &one);
        json_close(&one);
    }
    json_close(&list);
    json_close(&nested);
}

void status_json(const struct status *s, struct buf *out)
{
    struct json_write w = json_open(out, '{');

    json_bool(&w, "ready", s->ready);
    put_failing(s, &w);
    put_notices(s, &w);
    put_process(s, &w);
    put_cluster(s, &w);
    put_skew(s, &w);
    put_certificates(s, &w);
    put_changes(s, "disbelieved", true, &w);
    put_changes(s, "changes", false, &w);
    put_traffic(s, &w);
    if (buf_len(&s->internals) > 0) {
        json_raw(&w, "internals");
        buf_append(out, buf_slice(&s->internals));
    }
    json_close(&w);
}
