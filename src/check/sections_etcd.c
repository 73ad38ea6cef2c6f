/* SPDX-License-Identifier: Apache-2.0 */
/* Each endpoint of etcd, all asked at once, at the beginning: answers, by its JSON gateway, and lets us read the
 * records of peers. */
#include "check/sections.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "back/fetch.h"
#include "base/base64.h"
#include "base/limits.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum { TIMEOUT_MS = 10000, TURN_MS = 100, REQUEST_BYTES = 4096 };

struct etcd_endpoint {
    const struct scene *scene;
    const char *url;
    bool asked, over;
    bool alone;      /* it has no record, or ours alone */
    unsigned status; /* 0: no answer */
    char failure[256];
};

static const char *remedy_for(const char *failure)
{
    if (strstr(failure, "egress proxy") != NULL)
        return "see to the egress proxy (selection etcd of egress-selector-config-file): does it run at that address, "
               "is its certificate of the caBundle there, and does it let this machine through to etcd?";
    if (strstr(failure, "(TLS alert)") != NULL && strstr(failure, "certificate") != NULL)
        return "etcd-certfile and etcd-keyfile must be a client pair of the CA in etcd's --trusted-ca-file, and not "
               "expired (kubeadm: /etc/kubernetes/pki/apiserver-etcd-client.crt and .key)";
    if (strstr(failure, "it has expired") != NULL || strstr(failure, "it is not valid yet") != NULL)
        return "renew etcd's serving certificate (kubeadm certs renew etcd-server), or set this machine's clock";
    if (strstr(failure, "it is not for") != NULL)
        return "etcd-servers must be etcd's client URLs (port 2379), by a name or an address of its certificate";
    if (strstr(failure, "certificate refused") != NULL)
        return "etcd-servers must be etcd's client URLs (port 2379), and etcd-cafile the CA of its serving certificate";
    if (strstr(failure, "does not speak TLS") != NULL || strstr(failure, "TLS handshake: the server closed") != NULL)
        return "etcd-servers must begin with http:// if etcd serves without TLS there, and be its client URLs";
    if (strstr(failure, "server closed") != NULL)
        return "etcd-servers must begin with https:// if etcd serves with TLS there, and be its client URLs";
    if (strstr(failure, "timed out") != NULL)
        return "if etcd runs there, it hangs or is overloaded: its log, and CPU, memory and disks of its machine; if "
               "it does not, correct etcd-servers: something drops what is sent there";
    return "start etcd, or correct etcd-servers";
}

/* The key of our own record, as JSON has it. */
static bool is_own_key(const struct scene *s, const char *text)
{
    char id[SERVER_ID_BYTES], key[1280];
    struct buf own;
    bool same;

    if (!server_id_from_hostname(slice_str(s->hostname), id))
        return false;
    (void)snprintf(key, sizeof(key), "%s/peerserverleases/%s", s->config->etcd_prefix, id);
    buf_init(&own, REQUEST_BYTES);
    base64_append(&own, slice_str(key));
    same = slice_eq(buf_slice(&own), slice_str(text));
    buf_free(&own);
    return same;
}

/* Of the first record, and how many there are. */
static bool is_alone(const struct scene *s, struct slice body)
{
    struct json_tokener *t = json_tokener_new();
    struct json_object *all = t == NULL ? NULL : json_tokener_parse_ex(t, body.p, (int)body.n), *kvs = NULL;
    bool alone = false;

    if (json_object_is_type(all, json_type_object)) {
        unsigned long count = strtoul(sections_text(all, "count"), NULL, 10);

        (void)json_object_object_get_ex(all, "kvs", &kvs);
        alone = count == 0 || (count == 1 && json_object_is_type(kvs, json_type_array) &&
                               is_own_key(s, sections_text(json_object_array_get_idx(kvs, 0), "key")));
    }
    json_object_put(all);
    if (t != NULL)
        json_tokener_free(t);
    return alone;
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct etcd_endpoint *e = arg;

    e->over = true;
    if (r->ok) {
        e->status = r->head->status;
        e->alone = e->status == 200 && r->body.n > 0 && is_alone(e->scene, r->body);
    } else
        (void)snprintf(e->failure, sizeof(e->failure), "%s", r->failure);
}

/* What failed may begin with the endpoint; of several it has to be said which. */
static void say_failure(struct findings *f, const struct etcd_endpoint *e)
{
    const char *authority = strstr(e->url, "//");
    bool named = authority != NULL && strncmp(e->failure, authority + 2, strlen(authority + 2)) == 0;

    findings_wrong(f, "etcd-reachable", remedy_for(e->failure), "etcd-servers: %s%s%s", named ? "" : e->url,
                   named ? "" : ": ", e->failure);
}

static void judge(struct findings *f, const struct etcd_endpoint *e)
{
    enum { FAILURES = 500 };

    if (e->status == 0)
        say_failure(f, e);
    else if (e->status == 404)
        findings_wrong(f, "etcd-gateway", "etcd 3.4 or newer, without --enable-grpc-gateway=false",
                       "etcd-servers: %s has no JSON gateway (404)", e->url);
    else if (e->status >= FAILURES)
        findings_wrong(f, "etcd-ready", "see to etcd there: its log, whether it has a leader, and its disk",
                       "etcd-servers: %s does not read records: it answers %u", e->url, e->status);
    else if (e->status != 200)
        findings_wrong(f, "etcd-rights", "give etcd-certfile and etcd-keyfile that etcd believes, with rights to read",
                       "etcd-servers: %s does not let records be read: it answers %u", e->url, e->status);
    else if (e->alone && e->scene->with_records > 0)
        findings_warn(f, "etcd-prefix",
                      "etcd-prefix must be kube-apiserver's --etcd-prefix (/registry without that flag), and "
                      "etcd-servers its etcd, here and on the other nodes",
                      "etcd-servers: %s has no record but our own below etcd-prefix (%s), and by the Leases there are "
                      "%zu other servers that should have one",
                      e->url, e->scene->config->etcd_prefix, e->scene->with_records);
    else
        findings_good(f, "etcd-reachable", "%s lets the records of peers be read", e->url);
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

static void ask(struct scene *s, size_t i, struct slice body, struct etcd_endpoint *out)
{
    const struct http_field type = {
        .name = SLICE_LIT("Content-Type"), .value = SLICE_LIT("application/json"), .id = HTTP_CONTENT_TYPE};
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

    out->scene = s;
    out->url = s->config->etcd_servers[i];
    out->asked = fetch_start(s->back, s->loop, &o, on_answer, out) != NULL;
}

static bool any_waited_for(const struct etcd_endpoint *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (e[i].asked && !e[i].over)
            return true;
    return false;
}

void section_etcd_begin(struct scene *s)
{
    size_t n = s->around.n_etcd;
    struct buf body;

    if (n == 0)
        return;
    s->etcd = must_zalloc(n * sizeof(*s->etcd));
    buf_init(&body, REQUEST_BYTES);
    put_question(s->config, &body);
    for (size_t i = 0; i < n; i++)
        ask(s, i, buf_slice(&body), &s->etcd[i]);
    buf_free(&body);
}

void section_etcd(struct scene *s)
{
    size_t n = s->around.n_etcd;

    findings_enter(s->f, CHECK_ETCD);
    if (n == 0)
        findings_good(s->f, "etcd", "not used: addresses of peers come from their Leases and from peers");
    while (any_waited_for(s->etcd, n))
        loop_run_once(s->loop, TURN_MS);
    for (size_t i = 0; i < n; i++)
        if (s->etcd[i].asked)
            judge(s->f, &s->etcd[i]);
}
