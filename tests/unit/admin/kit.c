/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/admin/kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "admin/status.h"
#include "base/clock.h"
#include "cluster/served.h"
#include "lib/tap.h"
#include "net/loop_internal.h"
#include "net/stream_internal.h"
#include "proxy/traffic.h"

/* ---- a client: one request, one answer, the end ---- */

void admin_client_on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct admin_client *c = arg;
    struct slice piece;

    while (ev == STREAM_READABLE && (piece = stream_peek(s)).n > 0) {
        buf_append(&c->in, piece);
        stream_consume(s, piece.n);
    }
    if (ev == STREAM_EOF || ev == STREAM_FAILED)
        c->over = true;
}

/* A connection that says nothing yet. */
int dial_admin(struct admin_kit *k)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)admin_port(k->admin)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        tap_bail("connect");
    return fd;
}

static char last_text[ANSWER_BYTES];
static struct slice last = {last_text, 0};

struct slice answer_bytes(void)
{
    return last;
}

const char *ask_over(struct admin_kit *k, int fd, struct tls_ctx *tls, const char *request)
{
    struct admin_client c = {.over = false};
    struct stream_opts o = {.fn = admin_client_on_event, .arg = &c, .tls = tls};
    uint64_t end = clock_ms() + PATIENCE_MS;
    struct stream *s;

    buf_init(&c.in, ANSWER_BYTES - 1);
    s = stream_adopt(k->loop, fd, NULL, "admin", &o);
    if (s == NULL || !stream_write(s, slice_str(request)))
        tap_bail("no client");
    while (!c.over && clock_ms() < end)
        loop_run_once(k->loop, 20);
    ok(c.over, "%.*s: the answer ends", (int)strcspn(request, "\r"), request);
    last.n = buf_len(&c.in);
    memcpy(last_text, last.n == 0 ? "" : buf_slice(&c.in).p, last.n);
    last_text[last.n] = '\0';
    stream_close(s, STREAM_CLOSE_NOW);
    buf_free(&c.in);
    return last_text;
}

const char *ask(struct admin_kit *k, struct tls_ctx *tls, const char *request)
{
    return ask_over(k, dial_admin(k), tls, request);
}

const char *get(struct admin_kit *k, struct tls_ctx *tls, const char *path)
{
    char request[512];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
    return ask(k, tls, request);
}

bool has(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        return true;
    diag("not found in: %.300s", text);
    return false;
}

const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");

    return end == NULL ? "(no body)" : end + 4;
}

/* ---- the listener ---- */

static bool check_ready(void *arg, struct err *why)
{
    struct admin_kit *k = arg;

    return k->not_ready == NULL || err_set(why, "%s", k->not_ready);
}

static void flags(admin_flag_fn *each, void *each_arg, void *arg)
{
    (void)arg;
    each(each_arg, "secure-port", "6443");
    each(each_arg, "v", "2");
}

static const struct cluster_server hostile = {.id = "apiserver-x",
                                              .host = "<script>alert(1)</script>",
                                              .life = "live",
                                              .holder = "",
                                              .source = "static",
                                              .version = "v1.34.0",
                                              .emulated = "",
                                              .mvproxy = "",
                                              .lease_ms = UINT64_MAX,
                                              .error = "<img src=x onerror=alert(2)>"};

static bool status(struct status *s, void *arg)
{
    static const struct traffic nothing;
    struct admin_kit *k = arg;
    struct served_input in = {.local_id = "apiserver-l", .local_host = "cp-a", .local_etag = {SLICE_LIT("")}};
    size_t n = k->servers == 0 ? 1 : k->servers;

    memset(s, 0, sizeof(*s));
    s->cluster.servers = mem_array(n, sizeof(hostile));
    s->served = served_new(&in);
    if (s->cluster.servers == NULL || s->served == NULL)
        tap_bail("out of memory");
    while (s->cluster.n < n)
        s->cluster.servers[s->cluster.n++] = hostile;
    s->cluster.own_id = s->cluster.hostname = s->cluster.identity = "";
    s->ready = k->not_ready == NULL;
    s->phase = s->version = s->hostname = s->reload_refused = s->files_refused = s->skewed_resources = "";
    s->changes = k->changes;
    s->traffic = &nothing;
    buf_init(&s->internals, 1);
    return true;
}

void admin_kit_init(struct admin_kit *k, const char *address, struct tls_ctx *tls)
{
    struct err err = {""};

    memset(k, 0, sizeof(*k));
    k->metrics = metrics_new();
    k->process = process_metrics_new(k->metrics, "0.0");
    k->loop = loop_new(k->metrics);
    k->health = health_new();
    k->changes = changes_new();
    health_add(k->health, HEALTH_READYZ, "ready", check_ready, k);
    k->opts = (struct admin_opts){.bind_address = address,
                                  .tls = tls,
                                  .version = "0.0",
                                  .metrics = k->metrics,
                                  .health = k->health,
                                  .flags = flags,
                                  .status = status,
                                  .arg = k};
    k->admin = admin_new(k->loop, &k->opts, &err);
    if (k->admin == NULL)
        tap_bail("admin_new: %s", err.text);
}

void admin_kit_end(struct admin_kit *k)
{
    admin_free(k->admin);
    loop_free(k->loop);
    health_free(k->health);
    metrics_free(k->metrics);
    process_metrics_free(k->process);
    changes_free(k->changes);
}
