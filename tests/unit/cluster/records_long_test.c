/* SPDX-License-Identifier: Apache-2.0 */
/* Long answers of etcd: many peer endpoint records in one, or one that is no record and very large. */
#include <stdio.h>

#include "base/base64.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define FOLDER "/registry/peerserverleases/"

enum { LARGE_BYTES = 200000, RECORD_BYTES = 400 };

struct story {
    struct cluster_kit w;
    struct sim_etcd *etcd;
    struct sim_server *member;
    struct origin *origin;
    struct kube_server *b;
    char b_key[80];
};

static void begin(struct story *s)
{
    struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};

    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    s->member = sim_etcd_member(s->etcd, s->w.back, "10.0.1.1:2379");
    s->origin = origin_new(s->w.back, &o);
    s->w.opts.etcd_servers = &s->origin;
    s->w.opts.n_etcd_servers = 1;
    s->w.opts.etcd_prefix = "/registry";
    s->w.opts.advertise = "10.0.0.11:6443";
    (void)snprintf(s->b_key, sizeof(s->b_key), FOLDER "%s", kube_id(s->b));
}

static void end(struct story *s)
{
    origin_unref(s->origin);
    /* The requests that are open end with the cluster, before their etcd does. */
    cluster_free(s->w.cluster);
    s->w.cluster = NULL;
    sim_run_ms(s->w.loop, 0);
    sim_etcd_free(s->etcd);
    cluster_kit_end(&s->w);
}

/* A record as an API server would write it. */
static struct slice record(const struct story *s, const char *ip, char text[RECORD_BYTES])
{
    return slice_of(
        text,
        (size_t)snprintf(
            text, RECORD_BYTES,
            "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"%s\"}},"
            "\"subsets\":[{\"addresses\":[{\"ip\":\"%s\"}],\"ports\":[{\"port\":6443}]}]}",
            kube_id(s->b), ip));
}

static void put_record(struct story *s, const char *ip)
{
    char text[RECORD_BYTES];

    sim_etcd_put(s->etcd, s->b_key, record(s, ip, text), 3600);
}

static void is_at(struct story *s, const char *want, const char *what)
{
    const struct served_peer *p = cluster_kit_peer_of(&s->w, s->b);

    is_str(p == NULL || p->origin == NULL ? "nowhere" : origin_address(p->origin), want, "%s", what);
}

static void from(struct story *s, const char *want, const char *what)
{
    const struct served_peer *p = cluster_kit_peer_of(&s->w, s->b);

    is_str(p == NULL || p->source == NULL ? "" : p->source, want, "%s", what);
}

/* A line of many events is not one long turn at its end: each is taken when it is there. */
static void as_they_come(void)
{
    struct story s;
    struct buf line;
    char text[RECORD_BYTES];

    begin(&s);
    put_record(&s, "10.0.0.21");
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    is_at(&s, "10.0.0.21:6443", "read");
    buf_init(&line, 4096);
    buf_append_str(
        &line, "{\"result\":{\"header\":{\"cluster_id\":\"77\",\"revision\":\"900\"},\"events\":[{\"kv\":{\"key\":\"");
    base64_append(&line, slice_str(s.b_key));
    buf_append_str(&line, "\",\"mod_revision\":\"900\",\"value\":\"");
    base64_append(&line, record(&s, "10.0.0.22", text));
    buf_append_str(&line, "\"}},");
    buf_append_char(&line, '\0');
    sim_etcd_say(s.etcd, line.p);
    sim_run_ms(s.w.loop, 100);
    is_at(&s, "10.0.0.22:6443", "an event counts before its line has ended");
    buf_free(&line);
    end(&s);
}

/* Whose record is none, but 200 KB, has no say in those of others. */
static void too_large(void)
{
    struct story s;
    struct buf value;

    begin(&s);
    buf_init(&value, 1 << 20);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        buf_append_char(&value, 'x');
    sim_etcd_put(s.etcd, FOLDER "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa", buf_slice(&value), 0);
    put_record(&s, "10.0.0.21");
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    is_at(&s, "10.0.0.21:6443", "read beside one that is far too large");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_record_changes_total", "refused", NULL), 1,
              "which is refused");
    sim_etcd_put(s.etcd, s.b_key, buf_slice(&value), 0);
    sim_run_ms(s.w.loop, 100);
    from(&s, "annotation", "one that becomes so large is gone");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_record_changes_total", "refused", NULL), 2,
              "and refused");
    put_record(&s, "10.0.0.22");
    sim_run_ms(s.w.loop, 100);
    is_at(&s, "10.0.0.22:6443", "until it is a record again");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_records_watching", NULL), 1, "on the same watch");
    buf_free(&value);
    end(&s);
}

/* What it began to say, another endpoint, which is further, does not say: it is not so. */
static void broken_off(void)
{
    struct origin_opts o = {.name = "etcd", .host = "10.0.1.2", .port = 2379};
    struct story s;
    struct buf value;
    struct sim_etcd *further;
    struct origin *origins[2];

    begin(&s);
    buf_init(&value, 1 << 20);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        buf_append_char(&value, 'x');
    put_record(&s, "10.0.0.21");
    sim_etcd_put(s.etcd, FOLDER "zzz", buf_slice(&value), 0);
    further = sim_etcd_new(s.w.loop, 77);
    (void)sim_etcd_member(further, s.w.back, "10.0.1.2:2379");
    s.member->fault = SIM_CUT;
    origins[0] = s.origin;
    origins[1] = origin_new(s.w.back, &o);
    s.w.opts.etcd_servers = origins;
    s.w.opts.n_etcd_servers = 2;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 3000);
    ok(sim_etcd_ranges(s.etcd) > 0 && sim_etcd_ranges(further) > 0, "one breaks off, the other is asked");
    from(&s, "annotation", "what only the first has said counts for nothing");
    origin_unref(origins[1]);
    buf_free(&value);
    cluster_free(s.w.cluster);
    s.w.cluster = NULL;
    sim_run_ms(s.w.loop, 0);
    sim_etcd_free(further);
    end(&s);
}

int main(void)
{
    broken_off();
    as_they_come();
    too_large();
    return tap_end();
}
