/* SPDX-License-Identifier: Apache-2.0 */
/* What is parsed before a configuration's files are used, and when. */
#include "daemon/trust_reading.h"

#include <stdio.h>
#include <string.h>

#include "base/metric.h"
#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "net/loop.h"
#include "net/tls_certs.h"

enum { ROOM = 1 << 20, MANY = 300, MOST_TURNS = 10000 };

#define TEXT                                                                                                           \
    "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: many.crt\n"                       \
    "client-ca-file: ca.crt\nbind-address: 10.0.0.9\n"

static struct metrics *m;
static struct loop *l;
static struct config *c;
static unsigned done;

static void make_files(void)
{
    static char text[ROOM], many[ROOM];
    size_t n;
    FILE *f;

    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');"
                        "a.issue('server', 's', ca='ca', eku='serverAuth', sans=('kubernetes.default.svc',))");
    folder_enter();
    f = fopen("ca.crt", "r");
    if (f == NULL)
        tap_bail("ca.crt");
    n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f);
    for (size_t i = 0, at = 0; i < MANY && at + n < ROOM; i++, at += n)
        memcpy(many + at, text, n);
    folder_write("many.crt", many);
}

static void load(void)
{
    struct buf errors;

    folder_write("mvproxy.yaml", TEXT);
    buf_init(&errors, ROOM);
    c = config_load("mvproxy.yaml", NULL, 0, &errors);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    buf_free(&errors);
}

static bool is_parsed(const char *path)
{
    struct tls_certs *certs = tls_certs_begin(path);
    bool parsed = certs != NULL && certs->rest == NULL;

    tls_certs_unref(certs);
    return parsed;
}

static void on_read(void *arg)
{
    struct trust_reading **r = arg;

    done++;
    ok(is_parsed("server.crt") && is_parsed("many.crt") && is_parsed("ca.crt"), "all certificates are parsed");
    trust_reading_free(*r);
    *r = NULL;
}

static unsigned turns_until_done(void)
{
    unsigned turns = 0;

    for (; done == 0 && turns < MOST_TURNS; turns++)
        loop_run_once(l, 0);
    return turns;
}

static void parses(void)
{
    struct trust_reading *r = trust_reading_begin(l, c, on_read, &r);
    unsigned turns;

    ok(r != NULL && done == 0 && !is_parsed("server.crt") && !is_parsed("many.crt"), "nothing at once");
    turns = turns_until_done();
    is_u64(done, 1, "then it is done");
    ok(turns > 1, "hundreds in several turns: %u", turns);
    ok(!is_parsed("server.crt") && !is_parsed("many.crt"), "without a context all is forgotten");
    loop_run_once(l, 0);
    is_u64(done, 1, "once");
}

static void is_given_up(void)
{
    struct trust_reading *r = trust_reading_begin(l, c, on_read, &r);

    done = 0;
    loop_run_once(l, 0);
    trust_reading_free(r);
    for (int i = 0; i < 10; i++)
        loop_run_once(l, 0);
    is_u64(done, 0, "in the middle: never done");
    ok(!is_parsed("many.crt"), "and forgotten");
    trust_reading_free(NULL);
}

static void on_bad(void *arg)
{
    (void)arg;
    done++;
}

/* Whoever uses them says so. */
static void cannot_be_read(void)
{
    struct trust_reading *r;

    folder_write("many.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    (void)remove("ca.crt");
    done = 0;
    r = trust_reading_begin(l, c, on_bad, NULL);
    (void)turns_until_done();
    is_u64(done, 1, "one that is damaged, and one that is gone");
    trust_reading_free(r);
}

static void without_memory(void)
{
    struct trust_reading *r;

    mem_fail_nth(1);
    is_null(trust_reading_begin(l, c, on_bad, NULL), "no memory");
    done = 0;
    mem_fail_nth(2);
    r = trust_reading_begin(l, c, on_bad, NULL);
    mem_fail_nth(0);
    (void)turns_until_done();
    is_u64(done, 1, "none for one file: it is left out");
    trust_reading_free(r);
}

int main(void)
{
    make_files();
    load();
    m = metrics_new();
    l = loop_new(m);
    parses();
    is_given_up();
    cannot_be_read();
    without_memory();
    loop_free(l);
    metrics_free(m);
    config_free(c);
    return tap_end();
}
