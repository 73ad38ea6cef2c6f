/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the check makes of an API server's answers: the sections on the local server and on identity, before a server
 * whose answers are written here and in servers.golden. The functions of check/scene.h that ask are replaced. Each
 * block of the golden file is a line "== SECTION WHAT", lines with what is not as usual, and what is said.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "back/back.h"
#include "base/clock.h"
#include "base/metric.h"
#include "check/sections.h"
#include "cluster/api.h"
#include "lib/descriptors.h"
#include "lib/tap.h"
#include "net/loop.h"

enum { DEVIATIONS = 6, TEXT = 16 << 10, GOLDEN_BYTES = 128 << 10 };

/* 2026-11-22T00:00:00Z */
#define NOW_US 1795305600000000
#define ALLOWED "{\"status\":{\"allowed\":true}}"
#define DENIED "{\"status\":{\"allowed\":false}}"
#define VERSION(minor) "{\"major\":\"1\",\"minor\":\"" minor "\",\"gitVersion\":\"v1." minor ".3\"}"
#define LEASE(renewed)                                                                                                 \
    "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"leaseDurationSeconds\":3600,\"renewTime\":\"" renewed "\"}}"
#define MAP(user, ca)                                                                                                  \
    "{\"data\":{\"client-ca-file\":\"" ca "\",\"requestheader-client-ca-file\":\"" ca                                  \
    "\",\"requestheader-username-headers\":\"[\\\"" user "\\\"]\"}}"
#define CA "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n"
#define CA_TEXT "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

struct answers {
    const char *to;  /* is in the path or in the body of the request */
    unsigned status; /* 0: there is no answer, and why */
    const char *body;
};

static const struct answers usual[] = {
    {"/readyz", 200, "ok"},
    {"/selfsubjectreviews", 201, "{\"status\":{\"userInfo\":{\"username\":\"me\",\"groups\":[\"others\",\"mine\"]}}}"},
    {"/selfsubjectaccessreviews", 201, ALLOWED},
    {"/version", 200, VERSION("30")},
    {"/configmaps/", 200, MAP("X-Remote-User", CA)},
    {"/leases/apiserver-", 200, LEASE("2026-11-21T23:30:00Z")},
};

/* ---- the replaced part of check/scene.c ---- */

static const struct answers *deviations; /* DEVIATIONS of them, the last with `to` NULL */
static unsigned clocks, asked;
static char told[TEXT]; /* what was asked */

static const struct answers *find(const char *path, const char *body)
{
    for (size_t i = 0; i < DEVIATIONS && deviations[i].to != NULL; i++)
        if (strstr(path, deviations[i].to) != NULL || strstr(body, deviations[i].to) != NULL)
            return &deviations[i];
    for (size_t i = 0; i < ROWS(usual); i++)
        if (strstr(path, usual[i].to) != NULL)
            return &usual[i];
    return NULL;
}

static void reply(const char *path, const char *request, struct buf *body, struct answer *out)
{
    const struct answers *a = find(path, request);

    asked++;
    (void)snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s %s\n", path, request);
    *out = (struct answer){.ok = a == NULL || a->status != 0, .status = a == NULL ? 404 : a->status};
    buf_reset(body);
    if (!out->ok)
        (void)snprintf(out->failure, sizeof(out->failure), "%s", a->body);
    else if (a != NULL)
        buf_append_str(body, a->body);
    out->body = buf_slice(body);
}

void scene_ask(struct scene *s, const struct api_request *r, struct buf *body, struct answer *out)
{
    char path[256];

    (void)s;
    (void)snprintf(path, sizeof(path), "%.*s", (int)r->target.n, r->target.p);
    reply(path, "", body, out);
}

void scene_get(struct scene *s, const char *path, struct buf *body, struct answer *out)
{
    (void)s;
    reply(path, "", body, out);
}

void scene_get_stored(struct scene *s, const char *path, struct buf *body, struct answer *out)
{
    (void)s;
    reply(path, "", body, out);
}

void scene_post(struct scene *s, const char *path, const char *json, struct buf *body, struct answer *out)
{
    (void)s;
    reply(path, json, body, out);
}

void scene_judge_clock(struct scene *s, const char *check, const char *server, const struct answer *a)
{
    (void)s;
    (void)check;
    (void)server;
    clocks += a->ok;
}

/* ---- a block of the golden file ---- */

struct block {
    struct slice heading, want;
    struct answers differ[DEVIATIONS];
    struct config config;
    struct check_opts opts;
    const char *hostname, *advertised;
    unsigned minor;
    bool no_cert, unbelieved, unready, told, held_back, stored_silent;
};

static char ca_path[] = "/tmp/servers_test.XXXXXX";

/* "> TO STATUS BODY": what the server answers else; a bar is the end of a line. */
static void take_answer(struct block *b, char *line)
{
    char *status = strchr(line, ' '), *body;
    size_t n = 0;

    if (status == NULL || (body = strchr(status + 1, ' ')) == NULL)
        tap_bail("%s: no answer", line);
    while (n + 1 < DEVIATIONS && b->differ[n].to != NULL)
        n++;
    *status = *body = '\0';
    for (char *c = body + 1; *c != '\0'; c++)
        if (*c == '|')
            *c = '\n';
    b->differ[n] = (struct answers){line, (unsigned)strtoul(status + 1, NULL, 10), body + 1};
}

/* The status of a process that tells peers that address. */
static struct json_object *says_publishes(const char *address)
{
    char text[128];

    (void)snprintf(text, sizeof(text), "{\"cluster\":{\"advertised\":\"%s\"}}", address);
    return json_tokener_parse(text);
}

/* "@ WHAT VALUE": what else is not as usual. */
static void take_setting(struct block *b, char *line)
{
    char *value = strchr(line, ' ');

    if (value == NULL)
        tap_bail("%s: no setting", line);
    *value++ = '\0';
    if (strcmp(line, "minor") == 0)
        b->minor = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(line, "identity-lease") == 0)
        b->config.identity_lease = value;
    else if (strcmp(line, "client-ca-file") == 0)
        b->config.client_ca_file = value;
    else if (strcmp(line, "hostname") == 0)
        b->hostname = value;
    else if (strcmp(line, "advertises") == 0)
        b->advertised = value;
    else if (strcmp(line, "publishes") == 0)
        b->opts.status = says_publishes(value);
    else if (strcmp(line, "is") != 0)
        tap_bail("%s: no setting", line);
    b->no_cert = b->no_cert || strcmp(value, "no-cert") == 0;
    b->unbelieved = b->unbelieved || strcmp(value, "unbelieved") == 0;
    b->unready = b->unready || strcmp(value, "unready") == 0;
    b->told = b->told || strcmp(value, "told") == 0;
    b->stored_silent = b->stored_silent || strcmp(value, "stored-silent") == 0;
    b->held_back = b->held_back || strcmp(value, "held-back") == 0;
    if (strcmp(value, "running") == 0)
        b->opts.status = json_tokener_parse("{}");
}

static void parse(struct slice text, struct block *b)
{
    static const char *const none[] = {NULL};
    static const char *const mine[] = {"mine", NULL}, *const header[] = {"X-Group", NULL};
    struct slice line;

    *b = (struct block){.hostname = "cp-a",
                        .minor = 30,
                        .config = {.apiserver = "https://local",
                                   .apiserver_tls_server_name = "name",
                                   .apiserver_user = "me",
                                   .apiserver_groups = mine,
                                   .requestheader_group_headers = header,
                                   .proxy_client_cert_file = "",
                                   .requestheader_allowed_names = none,
                                   .client_ca_file = ca_path,
                                   .identity_lease = "auto"}};
    (void)slice_split(&text, '\n', &b->heading);
    while (text.n > 1 && (text.p[0] == '>' || text.p[0] == '@')) {
        (void)slice_split(&text, '\n', &line);
        ((char *)(uintptr_t)line.p)[line.n] = '\0'; /* of the golden text, which is ours */
        (line.p[0] == '>' ? take_answer : take_setting)(b, (char *)(uintptr_t)line.p + 2);
    }
    b->want = text;
}

/* ---- the sections ---- */

/* What a section says and leaves for the next. */
static void look(void (*section)(struct scene *s), struct block *b, struct origin *local, struct buf *out)
{
    static char requestheader_ca[] = CA_TEXT;
    struct scene s = {.opts = &b->opts, .f = findings_new(), .config = &b->config};

    deviations = b->differ;
    clocks = asked = 0;
    told[0] = '\0';
    (void)snprintf(s.hostname, sizeof(s.hostname), "%s", b->hostname);
    if (section == section_identity) { /* what the one before leaves */
        s.believed = !b->unbelieved;
        s.unready = b->unready;
        s.minor = b->minor;
    }
    s.held_back = b->held_back;
    s.stored_silent = b->stored_silent;
    s.around.local = local;
    s.around.annotate = b->advertised != NULL;
    (void)snprintf(s.around.advertise, sizeof(s.around.advertise), "%s", b->advertised == NULL ? "" : b->advertised);
    s.around.headers = *user_headers_default();
    s.trust.local_cert = b->no_cert ? NULL : (struct tls_ctx *)(void *)&s; /* that it is there is all that is asked */
    s.trust.requestheader_ca = requestheader_ca;
    section(&s);
    findings_print_text(s.f, false, out);
    buf_printf(out, "minor %u%s%s%s, clock looked at %u times, asked %u times\n", s.minor,
               s.local_answers ? ", answers" : "", s.believed ? ", believed" : "", s.mistaken ? ", mistaken" : "",
               clocks, asked);
    if (b->told)
        buf_append_str(out, told);
    findings_free(s.f);
}

/* Where the files of contrib/rbac are is configure's to say. */
static void put_without_place(const char *text, struct buf *out)
{
    const char *at;

    for (; (at = strstr(text, MVPROXY_RBAC_DIR "/")) != NULL; text = at + strlen(MVPROXY_RBAC_DIR))
        buf_printf(out, "%.*sRBAC", (int)(at - text), text);
    buf_append_str(out, text);
}

static void check_block(struct slice text, struct origin *local)
{
    bool identity = slice_has_prefix(text, SLICE_LIT("identity"));
    struct block b;
    struct buf said, out;

    parse(text, &b);
    buf_init(&said, TEXT);
    buf_init(&out, TEXT);
    look(identity ? section_identity : section_local, &b, local, &said);
    buf_append(&said, slice_of("", 1));
    put_without_place(buf_slice(&said).p, &out);
    buf_free(&said);
    if (!ok(slice_eq(buf_slice(&out), b.want), "%.*s", (int)b.heading.n, b.heading.p))
        fprintf(stderr, "%.*s", (int)buf_len(&out), buf_slice(&out).p);
    buf_free(&out);
    json_object_put(b.opts.status);
}

static void make_ca(void)
{
    int fd = mkstemp(ca_path);

    if (fd < 0 || write(fd, CA_TEXT, sizeof(CA_TEXT) - 1) < 0)
        tap_bail("no CA");
    (void)close(fd);
}

static void check_golden(struct origin *local)
{
    static char golden[GOLDEN_BYTES];
    const char *top = getenv("top_srcdir"), *at, *next;
    char path[4096];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/tests/unit/check/servers.golden", top == NULL ? "." : top);
    f = fopen(path, "r");
    if (f == NULL || fread(golden, 1, sizeof(golden) - 1, f) == 0)
        tap_bail("cannot read %s", path);
    (void)fclose(f);
    for (at = golden; at != NULL; at = next == NULL ? NULL : next + 1) {
        next = strstr(at, "\n== ");
        check_block(slice_of(at + 3, next == NULL ? strlen(at + 3) : (size_t)(next + 1 - (at + 3))), local);
    }
}

int main(void)
{
    struct metrics *metrics = metrics_new();
    struct loop *loop = loop_new(metrics);
    struct back *back = back_new(loop, metrics);
    struct origin *local = origin_new(back, &(struct origin_opts){.name = "local", .host = "127.0.0.1", .port = 1});
    unsigned descriptors;

    clock_fake(1, NOW_US);
    make_ca();
    descriptors = descriptors_open();
    check_golden(local);
    is_u64(descriptors_open(), descriptors, "all files are closed");
    (void)unlink(ca_path);
    origin_unref(local);
    back_free(back);
    loop_free(loop);
    metrics_free(metrics);
    return tap_end();
}
