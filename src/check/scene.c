/* SPDX-License-Identifier: Apache-2.0 */
#include "check/scene.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/metric.h"
#include "cluster/api.h"
#include "kube/user.h"
#include "net/loop.h"

enum {
    ASK_TIMEOUT_MS = 15000,
    ETCD_FAILS_TIMEOUT_MS = 5000, /* instead, of what can hardly come */
    IN_VAIN_MS = 4000,            /* a failure after so long is one of waiting */
    TURN_MS = 100,
    CLOCK_TOLERANCE_MS = 5000
};

bool scene_connect(struct scene *s)
{
    struct api_identity who;

    s->metrics = metrics_new();
    s->loop = loop_new(s->metrics);
    s->back = back_new(s->loop, s->metrics);
    s->connected = wire_surroundings_make(s->back, s->config, &s->trust, s->hostname, &s->around);
    if (!s->connected)
        return false;
    who = (struct api_identity){s->config->apiserver_user, s->config->apiserver_groups, &s->around.headers};
    s->api = api_new(s->loop, s->back, s->around.local, &who);
    return true;
}

void scene_free(struct scene *s)
{
    if (s->api != NULL)
        api_free(s->api);
    if (s->around.local != NULL)
        origin_unref(s->around.local);
    mem_free(s->etcd);
    wire_etcd_free(&s->around);
    if (s->back != NULL)
        back_free(s->back);
    wire_networks_free(s->around.networks);
    if (s->trusted)
        trust_free(&s->trust);
    if (s->loop != NULL)
        loop_free(s->loop);
    if (s->metrics != NULL)
        metrics_free(s->metrics);
    config_free(s->config);
    arena_free(s->arena);
}

/* ---- asking ---- */

/* RFC 9110 5.6.7, the form that servers must send. */
static bool read_date(struct slice text, int64_t *seconds)
{
    char date[64];
    struct tm tm = {0};

    if (text.n == 0 || text.n >= sizeof(date))
        return false;
    memcpy(date, text.p, text.n);
    date[text.n] = '\0';
    if (strptime(date, "%a, %d %b %Y %H:%M:%S GMT", &tm) == NULL)
        return false;
    *seconds = (int64_t)timegm(&tm);
    return true;
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct question *q = arg;
    struct answer *out = q->answer;
    const struct http_field *hop;
    int64_t date;

    q->over = true;
    out->ok = r->ok;
    if (!r->ok) {
        (void)snprintf(out->failure, sizeof(out->failure), "%s", r->failure);
        return;
    }
    out->status = r->head->status;
    hop = http_head_find_name(r->head, SLICE_LIT(USER_HOP));
    if (hop != NULL && hop->value.n < sizeof(out->hop))
        (void)snprintf(out->hop, sizeof(out->hop), "%.*s", (int)hop->value.n, hop->value.p);
    buf_append(q->body, r->body);
    out->body = buf_slice(q->body);
    if (read_date(http_head_value(r->head, HTTP_DATE), &date))
        out->late_ms = clock_wall_us() / 1000 - date * 1000;
}

void scene_send(struct scene *s, const struct api_request *r, struct question *q)
{
    struct api_request g = *r;

    *q->answer = (struct answer){.failure = "out of memory"};
    buf_reset(q->body);
    g.ceiling = LIMIT_SMALL_BODY;
    if (g.timeout_ms == 0)
        g.timeout_ms = ASK_TIMEOUT_MS;
    if (g.accept.n == 0)
        g.accept = SLICE_LIT("application/json");
    q->over = api_send(s->api, &g, on_answer, q) == NULL;
}

void scene_ask(struct scene *s, const struct api_request *r, struct buf *body, struct answer *out)
{
    struct question q = {out, body, false};

    scene_send(s, r, &q);
    while (!q.over)
        loop_run_once(s->loop, TURN_MS);
}

void scene_get(struct scene *s, const char *path, struct buf *body, struct answer *out)
{
    scene_ask(s, &(struct api_request){.origin = s->around.local, .target = slice_str(path)}, body, out);
}

void scene_get_stored(struct scene *s, const char *path, struct buf *body, struct answer *out)
{
    enum { FAILURES = 500 };
    const struct api_request r = {.origin = s->around.local,
                                  .target = slice_str(path),
                                  .timeout_ms = s->etcd_fails ? ETCD_FAILS_TIMEOUT_MS : ASK_TIMEOUT_MS};
    uint64_t begin_ms;

    if (s->stored_silent) {
        *out = (struct answer){.failure = "not asked again for what is in its etcd"};
        return;
    }
    begin_ms = loop_now_ms(s->loop);
    scene_ask(s, &r, body, out);
    s->stored_silent = (!out->ok || out->status >= FAILURES) && loop_now_ms(s->loop) - begin_ms >= IN_VAIN_MS;
}

void scene_post(struct scene *s, const char *path, const char *json, struct buf *body, struct answer *out)
{
    const struct api_request r = {
        .origin = s->around.local,
        .method = SLICE_LIT("POST"),
        .target = slice_str(path),
        .content_type = SLICE_LIT("application/json"),
        .body = slice_str(json),
    };

    scene_ask(s, &r, body, out);
}

void scene_judge_clock(struct scene *s, const char *check, const char *server, const struct answer *a)
{
    int64_t off = a->late_ms < 0 ? -a->late_ms : a->late_ms;

    if (off > CLOCK_TOLERANCE_MS)
        findings_warn(s->f, check, "let both machines follow the same time servers (chrony, systemd-timesyncd)",
                      "the clock of %s is %lld seconds %s this machine's", server, (long long)(off / 1000),
                      a->late_ms < 0 ? "ahead of" : "behind");
}
