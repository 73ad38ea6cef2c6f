/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/status_page.h"

#include "admin/html.h"
#include "admin/notices.h"
#include "admin/server_state.h"
#include "admin/skew_page.h"
#include "admin/status.h"
#include "base/base64.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "proxy/traffic.h"

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2126;--dim:#59626d;--line:#c9ced6;--head:#eef1f5;--good:#dff2e1;"
    "--warn:#fdefc8;--bad:#fadad7;--bar:#2f6fb3;--err:#b3261e;--link:#0b57d0}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e5e8ec;--dim:#a3adb9;--line:#3b434d;--head:#1f242b;"
    "--good:#173a22;--warn:#463608;--bad:#4f1d1b;--bar:#7fb2ea;--err:#ff8a80;--link:#8ab4f8}}"
    "body{font:15px/1.45 system-ui,sans-serif;margin:0;color:var(--fg);background:var(--bg)}"
    "header,main,nav,footer{padding:.3em 1.5em}h1{font-size:1.35em;margin:.6em 0 .2em}h2{font-size:1.15em}"
    "h1.good::before{content:'\\2713  '}h1.bad::before{content:'\\2717  '}"
    "h1,.notice{padding:.35em .6em;border-radius:.3em;overflow-wrap:anywhere}.notice{margin:.2em 0}"
    "a{color:var(--link)}nav a{margin-right:1em}:focus-visible{outline:3px solid var(--link);outline-offset:1px}"
    ".skip{position:absolute;left:-99em}.skip:focus{left:1em;top:.3em;background:var(--bg)}"
    "table{border-collapse:collapse}th,td{border:1px solid var(--line);padding:.2em .55em;text-align:left;"
    "vertical-align:top}caption{text-align:left;color:var(--dim);padding:.2em 0}th{background:var(--head)}"
    "th:first-child small{white-space:nowrap}"
    ".good{background:var(--good)}.warning{background:var(--warn)}.bad{background:var(--bad)}"
    ".dim,small{color:var(--dim);font-weight:normal}td.wrap{min-width:14em;max-width:40em;overflow-wrap:anywhere}"
    ".scroll{overflow:auto;max-height:85vh}#changes .scroll{max-height:24em}.scroll thead "
    "th{position:sticky;top:0;z-index:1}"
    ".matrix thead th{writing-mode:vertical-rl;max-height:14em}.matrix thead th:first-child{writing-mode:initial}"
    ".matrix thead th:first-child{left:0;z-index:2}.matrix tbody th{position:sticky;left:0}.matrix "
    "td{text-align:center}.matrix .more td{text-align:left}"
    ".more details{position:sticky;left:.55em;width:max-content;max-width:calc(100vw - 6em)}"
    ".matrix .more thead th{writing-mode:initial;position:static}"
    ".charts{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}figcaption{color:var(--dim);font-size:.9em}"
    "svg{background:var(--head);width:15em;height:4em}.bar{fill:var(--bar)}.err{fill:var(--err)}";

static const char *const mood_names[] = {[SERVER_GOOD] = "good", [SERVER_WARNING] = "warning", [SERVER_BAD] = "bad"};

void status_page_policy(struct buf *out)
{
    unsigned char digest[HASH_SHA256_BYTES];

    buf_append_str(out,
                   "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    if (!hash_sha256(slice_str(style), digest))
        return;
    buf_append_str(out, "; style-src 'sha256-");
    (void)base64_append(out, slice_of((const char *)digest, sizeof(digest)));
    buf_append_char(out, '\'');
}

/* ---- head ---- */

static void put_time(struct buf *out, int64_t wall_us)
{
    char when[CLOCK_RFC3339_BYTES];

    clock_rfc3339(wall_us, when);
    when[19] = '\0'; /* seconds are enough */
    buf_printf(out, "<time datetime=\"%sZ\">%.10s %sZ</time>", when, when, when + 11);
}

static void put_head(const struct status *s, unsigned refresh_s, struct buf *out)
{
    html_raw(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n");
    if (refresh_s > 0)
        buf_printf(out, "<meta http-equiv=\"refresh\" content=\"%u\">\n", refresh_s);
    html_raw(out, s->ready ? "<title>Ready: " : "<title>Not ready: ");
    html_str(out, s->hostname);
    html_raw(out, " (mvproxy)</title>\n<style>");
    html_raw(out, style);
    html_raw(out, "</style>\n</head>\n<body>\n");
}

static void put_why(const struct status *s, struct buf *out)
{
    html_raw(out, "<ul>\n");
    for (size_t i = 0; i < s->n_failing; i++) {
        html_raw(out, "<li><strong>");
        html_str(out, s->failing[i].name);
        html_raw(out, "</strong>: ");
        html_str(out, s->failing[i].why);
        html_raw(out, "<br>Look at: ");
        html_str(out, s->failing[i].look);
        html_raw(out, "</li>\n");
    }
    html_raw(out, "</ul>\n");
}

static void put_notices(const struct status *s, struct buf *out)
{
    char notices[NOTICES][NOTICE_BYTES];
    size_t n = notices_of(s, notices);

    for (size_t i = 0; i < n; i++) {
        html_raw(out, "<p class=\"notice warning\">");
        html_str(out, notices[i]);
        html_raw(out, ".</p>\n");
    }
}

static void put_header(const struct status *s, struct buf *out)
{
    struct buf line;

    buf_init(&line, out->ceiling);
    status_headline(s, &line);
    html_raw(out, s->ready ? "<header>\n<h1 class=\"good\">" : "<header>\n<h1 class=\"bad\">");
    html_text(out, buf_slice(&line));
    html_raw(out, "</h1>\n");
    put_notices(s, out);
    html_raw(out, "<a class=\"skip\" href=\"#skew\">Skip to the skew of versions</a>\n<p>mvproxy ");
    html_str(out, s->version);
    html_raw(out, " on ");
    html_name(out, s->hostname);
    html_raw(out, ", ");
    html_str(out, s->phase);
    html_raw(out, ", up ");
    html_duration(out, s->up_ms);
    html_raw(out, ". As of ");
    put_time(out, s->now_us);
    html_raw(out, ".</p>\n");
    if (!s->ready)
        put_why(s, out);
    html_raw(out, "</header>\n<nav aria-label=\"Sections\">\n<a href=\"#servers\">Servers</a> "
                  "<a href=\"#traffic\">Traffic</a> <a href=\"#changes\">Changes</a> "
                  "<a href=\"#disbelieved\">Not believed</a> "
                  "<a href=\"#certificates\">Certificates</a> <a href=\"#process\">Process</a> "
                  "<a href=\"#skew\">Skew</a> Refresh: <a href=\"/\">off</a> <a href=\"/?refresh=5\">5 s</a> "
                  "<a href=\"/?refresh=60\">1 min</a>\n</nav>\n<main>\n");
    buf_free(&line);
}

/* ---- servers ---- */

static void put_age(struct buf *out, uint64_t ms, const char *without)
{
    if (ms == UINT64_MAX)
        html_raw(out, without);
    else
        html_duration(out, ms);
}

static void put_address(const struct cluster_server *s, struct buf *out)
{
    if (s->address == NULL) {
        html_raw(out, "<td class=\"bad\">none</td>");
        return;
    }
    html_raw(out, "<td>");
    html_name(out, s->address);
    html_raw(out, " <small>");
    html_str(out, s->source);
    html_raw(out, "</small></td>");
}

static void put_versions(const struct cluster_server *s, struct buf *out)
{
    html_raw(out, "<td>");
    html_str(out, s->version[0] == '\0' ? "?" : s->version);
    if (s->emulated[0] != '\0') {
        html_raw(out, "<br><small>emulates ");
        html_str(out, s->emulated);
        html_raw(out, "</small>");
    }
    html_raw(out, "</td><td>");
    html_str(out, s->local                ? "this one"
                  : !s->has_mvproxy       ? (s->failing || !s->known ? "?" : "none")
                  : s->mvproxy[0] == '\0' ? "yes"
                                          : s->mvproxy);
    html_raw(out, "</td>");
}

static void put_error(const struct cluster_server *s, struct buf *out)
{
    html_raw(out, s->failing ? "<td class=\"wrap bad\">" : "<td class=\"wrap\">");
    if (s->error != NULL) {
        html_name(out, s->error);
        html_raw(out, s->failing ? " <small>for " : " <small>");
        html_duration(out, s->error_ms);
        html_raw(out, s->failing ? "</small>" : " ago</small>");
        if (s->answers == PULSE_UNREACHABLE && s->answers_ms > s->error_ms + 1000) {
            html_raw(out, "<br>no answer <small>for ");
            html_duration(out, s->answers_ms);
            html_raw(out, "</small>");
        }
    }
    html_raw(out, "</td>");
}

static void put_server(const struct cluster_server *s, struct buf *out)
{
    char words[SERVER_STATE_BYTES];
    enum server_mood mood = server_state(s, words);

    html_raw(out, "<tr><th scope=\"row\">");
    html_name(out, s->host);
    html_raw(out, "<br><small>");
    html_str(out, s->id);
    buf_printf(out, "</small></th><td class=\"%s\">", mood_names[mood]);
    html_str(out, words);
    html_raw(out, "</td>");
    put_versions(s, out);
    put_address(s, out);
    html_raw(out, "<td>");
    put_age(out, s->lease_ms, "none");
    html_raw(out, s->known ? "</td><td>" : "</td><td class=\"warning\">");
    put_age(out, s->discovery_ms, "never read");
    buf_printf(out, "<br><small>%zu groups, %zu resources</small></td><td>%zu</td>", s->groups, s->resources,
               s->in_flight);
    put_error(s, out);
    html_raw(out, "</tr>\n");
}

static void put_servers(const struct status *s, struct buf *out)
{
    html_raw(out, "<section id=\"servers\" aria-labelledby=\"servers-h\">\n<h2 id=\"servers-h\">API servers</h2>\n"
                  "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"API servers\">\n<table>\n"
                  "<caption>Each kube-apiserver, with the ages of what is known of it</caption>\n<thead><tr>"
                  "<th scope=\"col\">Server</th><th scope=\"col\">State</th><th scope=\"col\">Kubernetes</th>"
                  "<th scope=\"col\">mvproxy</th><th scope=\"col\">Address</th><th scope=\"col\">Lease</th>"
                  "<th scope=\"col\">Discovery</th><th scope=\"col\">In flight</th><th scope=\"col\">Last error</th>"
                  "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < s->cluster.n; i++)
        put_server(&s->cluster.servers[i], out);
    html_raw(out, "</tbody>\n</table>\n</div>\n<p>Local failover: ");
    html_str(out, s->failover);
    html_raw(out, ". Endpoint records: ");
    html_str(out, s->etcd);
    html_raw(out, ". Own identity Lease: ");
    html_str(out, s->cluster.identity);
    html_raw(out, ".</p>\n</section>\n");
}

/* ---- traffic ---- */

enum { CHART_WIDTH = 4 * TRAFFIC_BUCKETS, CHART_HEIGHT = 60 };

static void put_bars(const struct traffic_count *t, uint32_t most, struct buf *out)
{
    for (unsigned i = 0; i < TRAFFIC_BUCKETS; i++) {
        /* Where there is anything there is something to be seen. */
        unsigned all = (unsigned)((uint64_t)t[i].requests * (CHART_HEIGHT - 2) / most) + 2;
        unsigned bad = (unsigned)((uint64_t)t[i].errors * (CHART_HEIGHT - 2) / most) + 2;

        if (t[i].requests > 0)
            buf_printf(out, "<rect class=\"bar\" x=\"%u\" y=\"%u\" width=\"3\" height=\"%u\"/>", 4 * i,
                       CHART_HEIGHT - all, all);
        if (t[i].errors > 0)
            buf_printf(out, "<rect class=\"err\" x=\"%u\" y=\"%u\" width=\"3\" height=\"%u\"/>", 4 * i,
                       CHART_HEIGHT - bad, bad);
    }
}

static void put_chart(const char *route, const struct traffic_count *t, struct buf *out)
{
    uint64_t requests = 0, errors = 0;
    uint32_t most = 1;

    for (size_t i = 0; i < TRAFFIC_BUCKETS; i++) {
        requests += t[i].requests;
        errors += t[i].errors;
        most = t[i].requests > most ? t[i].requests : most;
    }
    buf_printf(out,
               "<figure><svg role=\"img\" aria-label=\"%s: %llu requests, %llu errors\" viewBox=\"0 0 %d %d\" "
               "preserveAspectRatio=\"none\">",
               route, (unsigned long long)requests, (unsigned long long)errors, CHART_WIDTH, CHART_HEIGHT);
    put_bars(t, most, out);
    buf_printf(out,
               "</svg><figcaption><strong>%s</strong><br>%llu requests, %llu errors, at most %.1f/s</figcaption>"
               "</figure>\n",
               route, (unsigned long long)requests, (unsigned long long)errors,
               (double)most * 1000 / TRAFFIC_BUCKET_MS);
}

static void put_traffic(const struct status *s, struct buf *out)
{
    struct traffic_count counts[TRAFFIC_BUCKETS];
    bool any = false;

    html_raw(out,
             "<section id=\"traffic\" aria-labelledby=\"traffic-h\">\n<h2 id=\"traffic-h\">Traffic of the last ten "
             "minutes, by route</h2>\n");
    buf_printf(out, "<p>%zu ", s->connections);
    if (s->max_connections > 0)
        buf_printf(out, "of %zu ", s->max_connections);
    buf_printf(
        out,
        "connections, %zu requests and %zu tunnels now, and %zu MiB held for clients. A bar is ten seconds; errors are "
        "answers of 5xx, or none.</p>\n<div class=\"charts\">\n",
        s->requests, s->tunnels, s->client_memory >> 20);
    for (unsigned row = ROUTE_ROW_DISABLED; row < ROUTE_ROWS; row++) {
        if (!traffic_of(s->traffic, s->now_ms, (enum route_row)row, counts))
            continue;
        put_chart(route_row_name((enum route_row)row), counts, out);
        any = true;
    }
    html_raw(out, any ? "</div>\n</section>\n" : "</div>\n<p>No request has ended.</p>\n</section>\n");
}

/* ---- changes ---- */

static void put_change(const struct change *c, struct buf *out)
{
    static const char *const moods[] = {
        [CHANGE_CAME] = "good",      [CHANGE_WENT] = "warning", [CHANGE_FAILED] = "bad",
        [CHANGE_RECOVERED] = "good", [CHANGE_CHANGED] = "",     [CHANGE_DISBELIEVED] = "warning",
    };

    html_raw(out, "<tr><td>");
    put_time(out, c->wall_us);
    buf_printf(out, "</td><td class=\"%s\">%s", moods[c->kind], change_name(c->kind));
    if (c->times > 1)
        buf_printf(out, " (%u times)", c->times);
    html_raw(out, "</td><th scope=\"row\">");
    html_name(out, c->subject);
    html_raw(out, "</th><td class=\"wrap\">");
    html_name(out, c->text);
    html_raw(out, "</td></tr>\n");
}

static void put_list(const struct status *s, bool disbelieved, const char *caption, const char *none, struct buf *out)
{
    const struct change *c = changes_at(s->changes, disbelieved, 0);

    if (c == NULL) {
        html_raw(out, none);
        return;
    }
    html_raw(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html_raw(out, caption);
    html_raw(out, "\">\n<table>\n<caption>");
    html_raw(out, caption);
    html_raw(out,
             "</caption>\n<thead><tr><th scope=\"col\">When</th><th scope=\"col\">What</th><th scope=\"col\">Who</th>"
             "<th scope=\"col\">How</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; (c = changes_at(s->changes, disbelieved, i)) != NULL; i++)
        put_change(c, out);
    html_raw(out, "</tbody>\n</table>\n</div>\n");
}

static void put_changes(const struct status *s, struct buf *out)
{
    html_raw(out, "<section id=\"changes\" aria-labelledby=\"changes-h\">\n<h2 id=\"changes-h\">Recent changes</h2>\n");
    put_list(s, false, "What happened, the latest first", "<p>Nothing has happened.</p>\n", out);
    html_raw(out, "</section>\n<section id=\"disbelieved\" aria-labelledby=\"disbelieved-h\">\n"
                  "<h2 id=\"disbelieved-h\">Not believed</h2>\n");
    put_list(s, true, "What was not believed, the latest first",
             "<p>Nothing: no answer has contradicted what its server's discovery says.</p>\n", out);
    html_raw(out, "</section>\n");
}

/* ---- certificates, process ---- */

static void put_certificate(const struct status_certificate *c, struct buf *out)
{
    html_raw(out, "<tr><th scope=\"row\">");
    html_str(out, c->option);
    html_raw(out, "</th><td>");
    html_name(out, c->file);
    html_raw(out, "</td><td>");
    put_time(out, c->not_after_s * 1000000);
    html_raw(out, c->remaining_s <= 0 ? "</td><td class=\"bad\">has ended"
                  : c->soon           ? "</td><td class=\"warning\">"
                                      : "</td><td class=\"good\">");
    if (c->remaining_s > 0)
        html_duration(out, (uint64_t)c->remaining_s * 1000);
    html_raw(out, "</td></tr>\n");
}

static void put_certificates(const struct status *s, struct buf *out)
{
    html_raw(out,
             "<section id=\"certificates\" aria-labelledby=\"certificates-h\">\n"
             "<h2 id=\"certificates-h\">Certificates</h2>\n<table>\n<caption>In force, and when they end</caption>\n"
             "<thead><tr><th scope=\"col\">Option</th><th scope=\"col\">File</th><th scope=\"col\">Ends</th>"
             "<th scope=\"col\">Left</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < s->n_certificates; i++)
        put_certificate(&s->certificates[i], out);
    html_raw(out, "</tbody>\n</table>\n</section>\n");
}

static void begin_fact(const char *name, const char *mood, struct buf *out)
{
    buf_printf(out, "<tr><th scope=\"row\">%s</th><td class=\"wrap %s\">", name, mood);
}

static void put_fact(const char *name, const char *value, const char *mood, struct buf *out)
{
    begin_fact(name, mood, out);
    html_name(out, value);
    html_raw(out, "</td></tr>\n");
}

static void put_refused(const char *what, const char *why, uint64_t for_ms, struct buf *out)
{
    begin_fact(what, "bad", out);
    html_raw(out, "for ");
    html_duration(out, for_ms);
    html_raw(out, ": ");
    html_name(out, why);
    html_raw(out, "</td></tr>\n");
}

static void put_process(const struct status *s, struct buf *out)
{
    html_raw(out, "<section id=\"process\" aria-labelledby=\"process-h\">\n<h2 id=\"process-h\">This process</h2>\n"
                  "<table>\n<caption>Configuration and sockets; all options are at <a href=\"/flagz\">/flagz</a>, all "
                  "numbers at <a href=\"/metrics\">/metrics</a></caption>\n<tbody>\n");
    buf_printf(out, "<tr><th scope=\"row\">Process</th><td>%lu, since ", s->pid);
    put_time(out, s->started_us);
    html_raw(out, "</td></tr>\n");
    for (size_t i = 0; i < s->n_listeners; i++)
        put_fact("Listens on", s->listeners[i], "", out);
    put_fact("Configuration", s->config_file == NULL ? "defaults and command line" : s->config_file, "", out);
    if (s->reload_refused[0] != '\0')
        put_refused("Last reload refused", s->reload_refused, s->reload_refused_ms, out);
    if (s->files_refused[0] != '\0')
        put_refused(notices_is_egress(s->files_refused) ? "Changed egress configuration refused"
                                                        : "Changed certificate files refused",
                    s->files_refused, s->files_refused_ms, out);
    html_raw(out, "</tbody>\n</table>\n</section>\n");
}

/* ---- all of it ---- */

struct status_page {
    struct skew_page *skew;
};

struct status_page *status_page_begin(const struct status *s, unsigned refresh_s, struct buf *out)
{
    struct status_page *p = mem_zalloc(sizeof(*p));
    char skew[NOTICE_BYTES];

    if (p == NULL)
        return NULL;
    notices_skew(s, skew);
    p->skew = skew_page_new(s->served, skew, s->skewed_resources);
    if (p->skew == NULL) {
        mem_free(p);
        return NULL;
    }
    put_head(s, refresh_s, out);
    put_header(s, out);
    put_servers(s, out);
    put_traffic(s, out);
    put_changes(s, out);
    put_certificates(s, out);
    put_process(s, out);
    return p;
}

bool status_page_more(struct status_page *p, struct buf *out)
{
    if (skew_page_more(p->skew, out))
        return true;
    html_raw(out,
             "</main>\n<footer id=\"end\"><a href=\"#servers\">Back to the servers</a></footer>\n</body>\n</html>\n");
    return false;
}

void status_page_free(struct status_page *p)
{
    if (p == NULL)
        return;
    skew_page_free(p->skew);
    mem_free(p);
}
