/* SPDX-License-Identifier: Apache-2.0 */
/* Each endpoint of etcd: answers, by its JSON gateway, and lets us read the records of peers. */
#include "check/sections.h"

#include <stdio.h>

#include "back/fetch.h"
#include "base/base64.h"
#include "base/limits.h"
#include "net/loop.h"

enum { TIMEOUT_MS = 10000, TURN_MS = 100, REQUEST_BYTES = 4096 };

struct waiting {
    struct scene *s;
    const char *url;
    bool over;
};

static const char *remedy_for(const char *failure)
{
    if (strstr(failure, "it has expired") != NULL || strstr(failure, "it is not valid yet") != NULL)
        return "renew etcd's serving certificate (kubeadm certs renew etcd-server), or set this machine's clock";
    if (strstr(failure, "it is not for") != NULL)
        return "etcd-servers must be etcd's client URLs (port 2379), by a name or an address of its certificate";
    if (strstr(failure, "certificate refused") != NULL)
        return "etcd-servers must be etcd's client URLs (port 2379), and etcd-cafile the CA of its serving certificate";
    if (strstr(failure, "does not speak TLS") != NULL || strstr(failure, "TLS handshake: the server closed") != NULL)
        return "etcd-servers must begin with http:// if etcd serves without TLS there, and be its client URLs";
    return "start etcd, or correct etcd-servers";
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct waiting *w = arg;
    struct findings *f = w->s->f;
    char failure[256] = "";

    w->over = true;
    if (!r->ok)
        (void)snprintf(failure, sizeof(failure), "%s", r->failure);
    if (!r->ok)
        findings_wrong(f, "etcd-reachable", remedy_for(failure), "etcd-servers: %s", failure);
    else if (r->head->status == 404)
        findings_wrong(f, "etcd-gateway", "etcd 3.4 or newer, without --enable-grpc-gateway=false",
                       "etcd-servers: %s has no JSON gateway (404)", w->url);
    else if (r->head->status != 200)
        findings_wrong(f, "etcd-rights", "give etcd-certfile and etcd-keyfile that etcd believes, with rights to read",
                       "etcd-servers: %s does not let records be read: it answers %u", w->url, r->head->status);
    else
        findings_good(f, "etcd-reachable", "%s lets the records of peers be read", w->url);
}

/* One key of the records' range, none of its value. */
static void put_question(const struct config *c, struct buf *out)
{
    char key[1280], end[1280];
    size_t n = (size_t)snprintf(key, sizeof(key), "%s/peerserverleases/", c->etcd_prefix);

    memcpy(end, key, n + 1);
    end[n - 1]++; /* '/' and what follows it */
    buf_append_str(out, "{\"key\":\"");
    base64_append(out, slice_of(key, n));
    buf_append_str(out, "\",\"range_end\":\"");
    base64_append(out, slice_of(end, n));
    buf_append_str(out, "\",\"limit\":1,\"keys_only\":true}");
}

static void check_endpoint(struct scene *s, size_t i, struct slice body)
{
    const struct http_field type = {
        .name = SLICE_LIT("Content-Type"), .value = SLICE_LIT("application/json"), .id = HTTP_CONTENT_TYPE};
    struct waiting w = {s, s->config->etcd_servers[i], false};
    const struct fetch_opts o = {
        .origin = s->around.etcd[i],
        .method = SLICE_LIT("POST"),
        .target = SLICE_LIT("/v3/kv/range"),
        .fields = &type,
        .n_fields = 1,
        .body = body,
        .ceiling = LIMIT_SMALL_BODY,
        .timeout_ms = TIMEOUT_MS,
    };

    if (fetch_start(s->back, s->loop, &o, on_answer, &w) == NULL)
        return;
    while (!w.over)
        loop_run_once(s->loop, TURN_MS);
}

void section_etcd(struct scene *s)
{
    struct buf body;

    findings_enter(s->f, CHECK_ETCD);
    if (s->around.n_etcd == 0) {
        findings_good(s->f, "etcd", "not used: addresses of peers come from their Leases and from peers");
        return;
    }
    buf_init(&body, REQUEST_BYTES);
    put_question(s->config, &body);
    for (size_t i = 0; i < s->around.n_etcd; i++)
        check_endpoint(s, i, buf_slice(&body));
    buf_free(&body);
}
