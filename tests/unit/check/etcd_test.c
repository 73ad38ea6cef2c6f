/* SPDX-License-Identifier: Apache-2.0 */
/* All endpoints of etcd are asked at once for one key of the records; what is made of each kind of answer. */
#include "back/fetch.h"
#include "check/sections.h"
#include "lib/tap.h"
#include "net/loop.h"

#include <stdio.h>

enum { ROOM = 1 << 16, ENDPOINTS = 13 };

/* What endpoint i answers; 0: not at all, and why. */
static const struct {
    unsigned status;
    const char *failure;
} answers[ENDPOINTS] = {{200, ""},
                        {404, ""},
                        {403, ""},
                        {0, "d: connect: Connection refused"},
                        {0, "TLS: certificate refused: its CA"},
                        {500, ""},
                        {0, "TLS: certificate refused: it is not for x"},
                        {0, "TLS: certificate refused: it has expired"},
                        {0, "TLS: what answers does not speak TLS"},
                        {0, "timed out"},
                        {0, "TLS: the server refuses our certificate (TLS alert)"},
                        {0, "TLS: the server wants a client certificate (TLS alert)"},
                        {0, "server closed the connection"}};

static struct {
    fetch_fn *fn;
    void *arg;
    size_t i; /* of the endpoint */
} waiting[ENDPOINTS];
static const char *records = "";
static size_t others;
static size_t n_waiting, asked, no_memory_at, asked_first; /* before anybody answered */
static struct buf told;

/* ---- in place of back/fetch.c, net/loop.c and check/scene.c ---- */

struct fetch *fetch_start(struct back *b, struct loop *l, const struct fetch_opts *o, fetch_fn *fn, void *arg)
{
    (void)b;
    (void)l;
    buf_printf(&told, "%.*s %.*s %.*s: %.*s %.*s; ", (int)o->method.n, o->method.p, (int)o->target.n, o->target.p,
               (int)o->fields[0].name.n, o->fields[0].name.p, (int)o->fields[0].value.n, o->fields[0].value.p,
               (int)o->body.n, o->body.p);
    asked++;
    if (asked == no_memory_at)
        return NULL;
    waiting[n_waiting].fn = fn;
    waiting[n_waiting].arg = arg;
    waiting[n_waiting++].i = asked - 1;
    return arg;
}

/* Who was asked last answers first. */
void loop_run_once(struct loop *l, uint64_t max_wait_ms)
{
    size_t i = waiting[--n_waiting].i;
    struct http_head head = {.status = answers[i].status};
    const struct fetch_result r = {
        .ok = head.status != 0, .failure = answers[i].failure, .head = &head, .body = slice_str(records)};

    (void)l;
    (void)max_wait_ms;
    if (asked_first == 0)
        asked_first = asked;
    waiting[n_waiting].fn(waiting[n_waiting].arg, &r);
}

/* ---- the section ---- */

static void look(size_t n, const char *want, const char *name)
{
    static const char *const urls[] = {"http://a",  "http://b",  "http://c", "http://d", "http://e",
                                       "http://f",  "http://g",  "http://h", "http://i", "http://j",
                                       "https://k", "https://l", "http://m", NULL};
    struct config c = {.etcd_servers = urls, .etcd_prefix = "/registry"};
    struct scene s = {.config = &c, .f = findings_new(), .hostname = "cp-a", .with_records = others};
    struct buf out;

    buf_init(&out, ROOM);
    buf_reset(&told);
    asked = asked_first = 0;
    s.around.n_etcd = n;
    section_etcd_begin(&s);
    section_etcd(&s);
    mem_free(s.etcd);
    findings_print_text(s.f, false, &out);
    is_slice(buf_slice(&out), want, "%s", name);
    buf_free(&out);
    findings_free(s.f);
}

/* base64 of "/registry/peerserverleases/", and of the same with '0' at its end: all that begins so. */
#define QUESTION                                                                                                       \
    "POST /v3/kv/range Content-Type: application/json "                                                                \
    "{\"key\":\"L3JlZ2lzdHJ5L3BlZXJzZXJ2ZXJsZWFzZXMv\",\"range_end\":"                                                 \
    "\"L3JlZ2lzdHJ5L3BlZXJzZXJ2ZXJsZWFzZXMw\",\"limit\":1,\"keys_only\":true}; "

#define PAIR                                                                                                           \
    "    what to do: etcd-certfile and etcd-keyfile must be a client pair of the CA in etcd's --trusted-ca-file, and " \
    "not expired (kubeadm: /etc/kubernetes/pki/apiserver-etcd-client.crt and .key)\n"

/* base64 of "/registry/peerserverleases/" and cp-a's server ID. */
#define OWN "L3JlZ2lzdHJ5L3BlZXJzZXJ2ZXJsZWFzZXMvYXBpc2VydmVyLXRxc3l2bmM3cnM0N2ZheXppcHN1cXBmZzRt"
#define ALONE                                                                                                          \
    "etcd\n!! etcd-servers: http://a has no record but our own below etcd-prefix (/registry), and by the Leases "      \
    "there "                                                                                                           \
    "are 2 other servers that should have one\n    what to do: etcd-prefix must be kube-apiserver's --etcd-prefix "    \
    "(/registry without that flag), and etcd-servers its etcd, here and on the other nodes\n\n0 wrong, 1 to be "       \
    "looked "                                                                                                          \
    "at, 0 well.\n"

static const struct {
    const char *records;
    size_t others;
    bool alone;
} prefixes[] = {
    {"{\"kvs\":[{\"key\":\"" OWN "\"}],\"count\":\"1\"}", 2, true},
    {"{\"header\":{}}", 2, true},
    {"{\"kvs\":[{\"key\":\"" OWN "\"}],\"count\":\"1\"}", 0, false},
    {"{\"kvs\":[{\"key\":\"" OWN "\"}],\"count\":\"2\"}", 2, false},
    {"{\"kvs\":[{\"key\":\"bm90IG91cnM=\"}],\"count\":\"1\"}", 2, false},
    {"{\"kvs\":7,\"count\":\"1\"}", 2, false},
    {"[1", 2, false},
};

int main(void)
{
    buf_init(&told, ROOM);
    look(0,
         "etcd\nok not used: addresses of peers come from their Leases and from peers\n\nEverything is well: 1 "
         "checks.\n",
         "none is configured");
    is_u64(asked, 0, "none is asked");
    look(1, "etcd\nok http://a lets the records of peers be read\n\nEverything is well: 1 checks.\n", "well");
    is_slice(buf_slice(&told), QUESTION, "the question");
    look(ENDPOINTS,
         "etcd\nok http://a lets the records of peers be read\nXX etcd-servers: http://b has no JSON gateway (404)\n"
         "    what to do: etcd 3.4 or newer, without --enable-grpc-gateway=false\n"
         "XX etcd-servers: http://c does not let records be read: it answers 403\n"
         "    what to do: give etcd-certfile and etcd-keyfile that etcd believes, with rights to read\n"
         "XX etcd-servers: d: connect: Connection refused\n    what to do: start etcd, or correct etcd-servers\n"
         "XX etcd-servers: http://e: TLS: certificate refused: its CA\n"
         "    what to do: etcd-servers must be etcd's client URLs (port 2379), and etcd-cafile the CA of its serving "
         "certificate\n"
         "XX etcd-servers: http://f does not read records: it answers 500\n"
         "    what to do: see to etcd there: its log, whether it has a leader, and its disk\n"
         "XX etcd-servers: http://g: TLS: certificate refused: it is not for x\n"
         "    what to do: etcd-servers must be etcd's client URLs (port 2379), by a name or an address of its "
         "certificate\n"
         "XX etcd-servers: http://h: TLS: certificate refused: it has expired\n"
         "    what to do: renew etcd's serving certificate (kubeadm certs renew etcd-server), or set this machine's "
         "clock\n"
         "XX etcd-servers: http://i: TLS: what answers does not speak TLS\n"
         "    what to do: etcd-servers must begin with http:// if etcd serves without TLS there, and be its client "
         "URLs\nXX etcd-servers: http://j: timed out\n"
         "    what to do: if etcd runs there, it hangs or is overloaded: its log, and CPU, memory and disks of its "
         "machine; "
         "if it does not, correct etcd-servers: something drops what is sent there\n"
         "XX etcd-servers: https://k: TLS: the server refuses our certificate (TLS alert)\n" PAIR
         "XX etcd-servers: https://l: TLS: the server wants a client certificate (TLS alert)\n" PAIR
         "XX etcd-servers: http://m: server closed the connection\n"
         "    what to do: etcd-servers must begin with https:// if etcd serves with TLS there, and be its client "
         "URLs\n\n12 wrong, 0 to be looked at, 1 "
         "well.\n",
         "every kind of answer");
    is_u64(asked_first, ENDPOINTS, "all are asked before any has answered");
    for (size_t i = 0; i < ROWS(prefixes); i++) {
        records = prefixes[i].records;
        others = prefixes[i].others;
        look(1,
             prefixes[i].alone
                 ? ALONE
                 : "etcd\nok http://a lets the records of peers be read\n\nEverything is well: 1 checks.\n",
             prefixes[i].records);
    }
    records = "";
    others = 0;
    no_memory_at = 1;
    look(2,
         "etcd\nXX etcd-servers: http://b has no JSON gateway (404)\n"
         "    what to do: etcd 3.4 or newer, without --enable-grpc-gateway=false\n\n1 wrong, 0 to be looked at, 0 "
         "well.\n",
         "one cannot be asked");
    buf_free(&told);
    return tap_end();
}
