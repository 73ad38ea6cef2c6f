/* SPDX-License-Identifier: Apache-2.0 */
/* How many of mvproxy's own answers are written down, and what is left of long lists in the line. */
#include "proxy/audit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#define NOBODYS "GET /apis/example.io/v1/nothings HTTP/1.1\r\nHost: k\r\n"
#define APIS                                                                                                           \
    "GET /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: "                                             \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n"
#define LEFT_OUT "\"Audit lines left out\" answers=\"%s\" count=%u"

static char *logged;
static size_t n_logged;

static FILE *begin(struct proxy_kit *w)
{
    static const char *const trusted[] = {"127.0.0.0/8", NULL};
    FILE *log = open_memstream(&logged, &n_logged);

    clock_fake(clock_us(), clock_wall_us());
    proxy_kit_init(w, 1);
    w->peers_pending = true;
    w->opts.trusted_proxies = trusted;
    w->opts.discovery_authz_ttl_ms = 3600000;
    proxy_kit_start(w);
    log_set_stream(log);
    return log;
}

static void end(FILE *log)
{
    log_set_stream(stderr);
    (void)fclose(log);
    free(logged);
    clock_real();
}

static unsigned count(FILE *log, const char *text)
{
    unsigned n = 0;

    (void)fflush(log);
    for (const char *at = logged; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

static unsigned lines(FILE *log)
{
    return count(log, "\"Audit\" level=");
}

/* Of somebody behind a proxy that is believed. */
static void ask(struct played_end *c, const char *request, const char *from, const char *answered)
{
    char text[600];

    buf_reset(&c->got);
    (void)snprintf(text, sizeof(text), "%sX-Forwarded-For: %s\r\n\r\n", request, from);
    say(c, text);
    if (!has(c, answered))
        tap_bail("%s: not answered", request);
}

static void refused(struct played_end *c, const char *from, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        ask(c, NOBODYS, from, "\"code\":503}");
}

/* Of these no two share a place in the window, as some do by chance. */
static void pick_addresses(char out[3][16])
{
    uint64_t places[3];

    for (unsigned i = 0, last = 1; i < 3; last++) {
        bool other = true;

        (void)snprintf(out[i], 16, "192.0.2.%u", last);
        places[i] = hash_seeded(slice_str(out[i])) % 256;
        for (unsigned k = 0; k < i; k++)
            other = other && places[k] != places[i];
        i += other;
    }
}

static void told(FILE *log, const char *sort, unsigned left_out, const char *when)
{
    char want[100];

    (void)snprintf(want, sizeof(want), LEFT_OUT, sort, left_out);
    is_u64(count(log, want), 1, "%s: %s", when, want);
}

static void limited(void)
{
    char from[3][16], verdict[80];
    struct slice asked;
    const char *id;
    struct proxy_kit w;
    FILE *log = begin(&w);
    struct played_end *c = client(&w);

    pick_addresses(from);
    refused(c, from[0], AUDIT_LINES_OF_ONE);
    is_u64(lines(log), AUDIT_LINES_OF_ONE, "each answer to one address, up to a number");
    refused(c, from[0], 3);
    is_u64(lines(log), AUDIT_LINES_OF_ONE, "and no more");
    refused(c, from[1], AUDIT_LINES - AUDIT_LINES_OF_ONE);
    is_u64(lines(log), AUDIT_LINES, "those to another one, up to the number of all");
    refused(c, from[2], 2);
    is_u64(lines(log), AUDIT_LINES + 1, "of whoever else comes the first");
    is_double(proxy_kit_metric(&w, "mvproxy_audit_lines_left_out_total", NULL), 4, "what is left out is counted");
    say(c, APIS "\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    asked = buf_slice(&conn(&w.local, 0)->got);
    id = memmem(asked.p, asked.n, "Audit-Id: ", 10);
    ok(id != NULL, "the question who may read has a name");
    (void)snprintf(verdict, sizeof(verdict), " verdictAuditID=\"%.36s\"", id == NULL ? "" : id + 10);
    say(conn(&w.local, 0), "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n");
    (void)has(c, "jobs");
    is_u64(lines(log), AUDIT_LINES + 2, "documents are counted apart");
    is_u64(count(log, verdict), 1, "%s in the line", verdict);
    clock_fake(clock_us() + (uint64_t)(AUDIT_WINDOW_MS - 1) * 1000, clock_wall_us());
    refused(c, from[0], 1);
    is_u64(count(log, "lines left out") + lines(log), AUDIT_LINES + 2, "as long as the window lasts");
    clock_fake(clock_us() + 1000, clock_wall_us());
    refused(c, from[0], AUDIT_LINES_OF_ONE + 1);
    is_u64(lines(log), AUDIT_LINES + 2 + AUDIT_LINES_OF_ONE, "then all of it begins anew");
    told(log, "failed", 5, "and it is told");
    is_u64(count(log, "lines left out"), 1, "and nothing else");
    ask(c, APIS, from[0], "jobs");
    for (unsigned i = 0; i < AUDIT_LINES_OF_ONE + 1; i++)
        ask(c, APIS, from[0], "jobs");
    clock_fake(clock_us() + (uint64_t)AUDIT_WINDOW_MS * 1000, clock_wall_us());
    ask(c, APIS, from[0], "jobs");
    told(log, "documents", 2, "also when only the next line comes");
    proxy_kit_close(&w);
    told(log, "failed", 1, "and at the end");
    end(log);
}

/* The access log has every request: so has this. */
static void unlimited(void)
{
    struct proxy_kit w;
    FILE *log = begin(&w);
    struct played_end *c;
    struct proxy_opts all = w.opts;

    all.access_log.all = true;
    proxy_kit_reload(&w, &all);
    c = client(&w);
    refused(c, "192.0.2.1", AUDIT_LINES_OF_ONE + 5);
    is_u64(lines(log), AUDIT_LINES_OF_ONE + 5, "with an access log of all nothing is left out");
    proxy_kit_close(&w);
    end(log);
}

/* More than there is room for: the nearest. Of one field that stands there twice the first, as with Go. */
static void long_lists(void)
{
    char sources[600] = "", want[600] = " sourceIPs=[";
    struct proxy_kit w;
    FILE *log = begin(&w);
    struct played_end *c = client(&w);

    for (unsigned i = 1; i <= 40; i++) {
        (void)snprintf(sources + strlen(sources), sizeof(sources) - strlen(sources), "%s10.0.0.%u", i > 1 ? ", " : "",
                       i);
        if (i > 9)
            (void)snprintf(want + strlen(want), sizeof(want) - strlen(want), "\"10.0.0.%u\",", i);
    }
    (void)snprintf(want + strlen(want), sizeof(want) - strlen(want), "\"127.0.0.1\"] ");
    ask(c,
        "GET /apis/example.io/v1/nothings HTTP/1.1\r\nImpersonate-User: first\r\nHost: k\r\n"
        "Impersonate-User: second\r\n",
        sources, "\"code\":503}");
    is_u64(count(log, want), 1, "32 addresses: %s", logged);
    is_u64(count(log, " impersonatedUser.username=\"first\" "), 1, "who is impersonated");
    is_u64(count(log, " objectRef.apiGroup=\"example.io\" objectRef.apiVersion=\"v1\" objectRef.resource=\"nothings\" "
                      "responseStatus.code=503 responseStatus.status=\"Failure\" "
                      "responseStatus.reason=\"ServiceUnavailable\" responseStatus.message=\""),
           1, "what was asked for, and what became of it");
    is_u64(count(log, " identity=\"pass\" route=\"unknown-peer\""), 1, "and why");
    is_u64(count(log, "=\"\" ") + count(log, "=[] "), 0, "nothing is there that says nothing");
    proxy_kit_close(&w);
    end(log);
}

int main(void)
{
    limited();
    unlimited();
    long_lists();
    return tap_end();
}
