/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a new CA file fits what servers show: by handshakes with servers of this process, over loopback. */
#include "daemon/trust_trial.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/folder.h"
#include "lib/tap.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/tls_ctx.h"

enum { SERVERS = 4, TURNS = 1500, TURN_MS = 20 };

struct server {
    struct loop *loop;
    struct listener *listener;
    struct tls_ctx *tls; /* NULL: says nothing */
    struct stream *open[8];
    size_t n;
};

struct result {
    unsigned calls;
    enum trust_verdict verdict;
    char server[64], why[256];
};

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    struct server *at = arg;

    if (ev != STREAM_EOF && ev != STREAM_FAILED)
        return;
    for (size_t i = 0; i < at->n; i++)
        if (at->open[i] == s)
            at->open[i] = NULL;
    stream_close(s, STREAM_CLOSE_NOW);
}

static void on_accept(int fd, void *arg)
{
    struct server *at = arg;
    const struct stream_opts o = {.tls = at->tls, .fn = on_stream, .arg = at};

    if (at->tls == NULL || at->n == ROWS(at->open))
        (void)close(fd);
    else
        at->open[at->n++] = stream_accept(at->loop, fd, &o);
}

static void server_start(struct server *at, struct loop *l, const char *name)
{
    char crt[64], key[64];
    struct tls_server_opts o = {.cert_file = crt, .key_file = key};
    struct err err = {.text = ""};

    *at = (struct server){.loop = l};
    (void)snprintf(crt, sizeof(crt), "%s.crt", name);
    (void)snprintf(key, sizeof(key), "%s.key", name);
    at->tls = name[0] == '\0' ? NULL : tls_server_ctx_new(&o, &err);
    at->listener = listener_open(l, "127.0.0.1", 0, on_accept, at, &err);
    if (at->listener == NULL || (name[0] != '\0' && at->tls == NULL))
        tap_bail("%s", err.text);
}

static void server_stop(struct server *at)
{
    for (size_t i = 0; i < at->n; i++)
        if (at->open[i] != NULL)
            stream_close(at->open[i], STREAM_CLOSE_NOW);
    listener_close(at->listener);
    tls_ctx_unref(at->tls);
}

static struct tls_ctx *believes(const char *bundle)
{
    struct tls_client_opts o = {
        .ca_file = bundle, .bundle_option = "peer-ca-file", .server_name = "kubernetes.default.svc"};
    struct err err = {.text = ""};
    struct tls_ctx *c = tls_client_ctx_new(&o, &err);

    if (c == NULL)
        tap_bail("%s", err.text);
    return c;
}

static void on_done(void *arg, enum trust_verdict v, const char *server, const char *why)
{
    struct result *r = arg;

    r->calls++;
    r->verdict = v;
    (void)snprintf(r->server, sizeof(r->server), "%s", server);
    (void)snprintf(r->why, sizeof(r->why), "%s", why);
}

static bool forbids(const struct sockaddr *addr, void *arg)
{
    (void)addr;
    (void)arg;
    return false;
}

/* Each server by its certificate; "": it closes, "-": there is none. */
static const struct row {
    const char *what, *servers[SERVERS];
    enum trust_verdict want;
    const char *lost, *why;
} rows[] = {
    {"what the old CA has signed", {"by-old"}, TRUST_UNFIT, "0", "its CA is not in peer-ca-file"},
    {"what the new CA has signed", {"by-new"}, TRUST_FITS, "", ""},
    {"what neither has signed", {"by-other"}, TRUST_FITS, "", ""},
    {"a name that is not asked for", {"misnamed"}, TRUST_FITS, "", ""},
    {"what has expired", {"expired"}, TRUST_FITS, "", ""},
    {"no TLS", {""}, TRUST_UNKNOWN, "", ""},
    {"nobody there", {"-"}, TRUST_UNKNOWN, "", ""},
    {"one of several by the new CA", {"by-old", "by-old", "by-new"}, TRUST_FITS, "", ""},
    {"none of several", {"-", "by-old", "by-other", "by-old"}, TRUST_UNFIT, "1", "its CA is not in peer-ca-file"},
    {"one that neither believes, and silence", {"by-other", "-"}, TRUST_UNKNOWN, "", ""},
};

static struct trust_trial *trial(struct loop *l, const char *fresh, const char *old, struct result *r)
{
    struct trust_trial_opts o = {.loop = l, .fresh = believes(fresh), .old = believes(old), .done = on_done, .arg = r};
    struct trust_trial *t = trust_trial_new(&o);

    tls_ctx_unref(o.fresh);
    tls_ctx_unref(o.old);
    return t;
}

static void await(struct loop *l, const struct result *r)
{
    for (int i = 0; i < TURNS && r->calls == 0; i++)
        loop_run_once(l, TURN_MS);
    for (int i = 0; i < 5; i++)
        loop_run_once(l, 1);
}

static void judges(struct loop *l, const struct row *row)
{
    struct server servers[SERVERS];
    struct result r = {.calls = 0};
    struct trust_trial *t = trial(l, "new.crt", "old.crt", &r);
    size_t n = 0;

    for (; n < SERVERS && row->servers[n] != NULL; n++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "%zu", n);
        server_start(&servers[n], l, row->servers[n][0] == '-' ? "" : row->servers[n]);
        if (row->servers[n][0] == '-')
            listener_pause(servers[n].listener);
        trust_trial_ask(t, name, "127.0.0.1", row->servers[n][0] == '-' ? 1 : listener_port(servers[n].listener));
    }
    ok(trust_trial_asks(t), "%s: asked", row->what);
    is_u64(r.calls, 0, "%s: nobody is called from inside", row->what);
    await(l, &r);
    is_u64(r.calls, 1, "%s: one verdict", row->what);
    is_int(r.verdict, row->want, "%s: the verdict", row->what);
    is_str(r.server, row->lost, "%s: who would be lost", row->what);
    ok(row->why[0] == '\0' ? r.why[0] == '\0' : strstr(r.why, row->why) != NULL, "%s: why (%s)", row->what, r.why);
    while (n > 0)
        server_stop(&servers[--n]);
    for (int i = 0; i < 5; i++)
        loop_run_once(l, 1);
}

static void edges(struct loop *l)
{
    struct result r = {.calls = 0};
    struct trust_trial *t = trial(l, "new.crt", "old.crt", &r);
    struct trust_trial_opts o = {
        .loop = l, .fresh = believes("new.crt"), .old = believes("old.crt"), .done = on_done, .arg = &r};
    struct server s;

    ok(!trust_trial_asks(t), "nobody was asked");
    trust_trial_free(t);
    server_start(&s, l, "by-old");
    t = trial(l, "new.crt", "old.crt", &r);
    for (int i = 0; i < TRUST_TRIAL_SERVERS + 3; i++)
        trust_trial_ask(t, "many", "127.0.0.1", 1);
    trust_trial_free(t);
    for (int i = 0; i < 5; i++)
        loop_run_once(l, 1);
    is_u64(r.calls, 0, "one that is freed says nothing");
    o.way.allow = forbids;
    t = trust_trial_new(&o);
    trust_trial_ask(t, "far", "127.0.0.1", listener_port(s.listener));
    await(l, &r);
    is_int(r.verdict, TRUST_UNKNOWN, "where nobody may be dialled nobody answers");
    is_u64(s.n, 0, "nor is anybody dialled");
    tls_ctx_unref(o.fresh);
    tls_ctx_unref(o.old);
    server_stop(&s);
    trust_trial_free(NULL);
}

/* Without memory for one, nobody is asked, and nothing is left. */
static void out_of_memory(struct loop *l)
{
    struct result r = {.calls = 0};
    struct trust_trial_opts o = {.loop = l, .done = on_done, .arg = &r};
    struct server s;
    unsigned asked = 0, nth;

    server_start(&s, l, "by-old");
    o.fresh = believes("new.crt");
    o.old = believes("old.crt");
    for (nth = 1; asked == 0 && nth < 100; nth++) {
        struct trust_trial *t;

        mem_fail_nth(nth);
        t = trust_trial_new(&o);
        if (t != NULL)
            trust_trial_ask(t, "a", "127.0.0.1", listener_port(s.listener));
        asked += t != NULL && trust_trial_asks(t);
        mem_fail_nth(0);
        trust_trial_free(t);
    }
    ok(asked == 1 && nth > 4, "asked once there is memory (%u)", nth);
    is_u64(r.calls, 0, "and given up");
    tls_ctx_unref(o.fresh);
    tls_ctx_unref(o.old);
    server_stop(&s);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    folder_certificates("a.issue('old', 'old', is_ca=True, eku='');"
                        "a.issue('new', 'new', is_ca=True, eku='');"
                        "a.issue('other', 'other', is_ca=True, eku='');"
                        "n = ('kubernetes.default.svc',);"
                        "a.issue('by-old', 's', ca='old', eku='serverAuth', sans=n);"
                        "a.issue('by-new', 's', ca='new', eku='serverAuth', sans=n);"
                        "a.issue('by-other', 's', ca='other', eku='serverAuth', sans=n);"
                        "a.issue('misnamed', 's', ca='old', eku='serverAuth', sans=('b.example',));"
                        "a.issue('expired', 's', ca='old', eku='serverAuth', sans=n, start='20200101000000Z', "
                        "end='20210101000000Z')");
    folder_enter();
    for (size_t i = 0; i < ROWS(rows); i++)
        judges(l, &rows[i]);
    edges(l);
    out_of_memory(l);
    loop_free(l);
    return tap_end();
}
