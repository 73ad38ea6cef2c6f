/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of certificates are parsed, how far, and for whom once. */
#include "net/tls_certs.h"

#include <errno.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/tls_internal.h"
#include "unit/net/fixture.h"

enum { ROOM = 1 << 16 };

static char *text_of(const char *name)
{
    size_t n;

    return read_file(cert_path(name), &n);
}

/* A file of these, one after the other. */
static const char *file_of(const char *name, const char *const *parts)
{
    static char text[ROOM];
    size_t n = 0;

    for (; *parts != NULL; parts++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", *parts);
    return scratch_file(name, text, n);
}

static void begins(struct tls_certs **c, const char *path)
{
    *c = tls_certs_begin(path);
    if (*c == NULL)
        tap_bail("%s: %s", path, strerror(errno));
}

static int steps(struct tls_certs *c)
{
    int n = 1;

    while (tls_certs_step(c) == STEP_MORE)
        n++;
    return n;
}

/* ---- what is in a file ---- */

static void reads(void)
{
    char *ca = text_of("ca.crt"), *other = text_of("foreign-ca.crt"), *key = text_of("ca.key");
    char *wrong = strdup(ca), *old = strdup(ca), *end = strstr(old, "-----END");
    const struct {
        const char *name, *parts[5];
        int certs;
        bool key, damaged;
    } rows[] = {
        {"nothing", {"none\n"}, 0, false, false},
        {"two, and what is said of them", {"first:\n", ca, other}, 2, false, false},
        {"a key alone", {key}, 0, true, false},
        {"a key before", {key, ca}, 1, true, false},
        {"a key behind", {ca, other, key}, 2, true, false},
        {"what is no certificate", {ca, wrong, other, key}, 1, true, true},
        {"cut short", {other, "-----BEGIN CERTIFICATE-----\nMIIB\n"}, 1, false, true},
        {"a cut key behind", {ca, "-----BEGIN EC PRIVATE KEY-----\nMIIB\n"}, 1, false, true},
        {"encrypted",
         {"-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\n", strchr(ca, '\n') + 1},
         0,
         false,
         true},
        {"the old name",
         {"-----BEGIN X509 CERTIFICATE-----", strchr(old, '\n'), "-----END X509 CERTIFICATE-----\n"},
         1,
         false,
         false},
    };

    memcpy(strchr(wrong, '\n') + 1, "AAAA", 4);
    *end = '\0';
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct tls_certs *c = tls_certs_read(file_of("parts.pem", rows[i].parts));

        ok(c != NULL && c->rest == NULL, "%s: read", rows[i].name);
        is_int(sk_X509_num(c->all), rows[i].certs, "%s: certificates", rows[i].name);
        is_int(c->has_key, rows[i].key, "%s: a key", rows[i].name);
        is_int(c->error != 0, rows[i].damaged, "%s: damaged", rows[i].name);
        tls_certs_unref(c);
    }
    free(ca);
    free(other);
    free(key);
    free(wrong);
    free(old);
}

static void refuses(void)
{
    const char *path;

    is_null(tls_certs_read(cert_path("no-such.crt")), "no file");
    is_int(errno, ENOENT, "and why");
    is_null(tls_certs_read("/"), "a folder");
    is_int(errno, EISDIR, "and why");
    path = scratch_file("long.pem", "", 0);
    if (truncate(path, (16 << 20) + 8192) != 0)
        tap_bail("truncate");
    is_null(tls_certs_read(path), "what is too long");
    is_int(errno, EFBIG, "and why");
    (void)unlink(path);
    mem_fail_nth(1);
    is_null(tls_certs_read(cert_path("ca.crt")), "no memory");
    mem_fail_nth(0);
    is_int(errno, ENOMEM, "and why");
}

/* ---- once for all ---- */

static void shares(void)
{
    char *ca = text_of("ca.crt"), *other = text_of("foreign-ca.crt");
    char one[640], two[640];
    struct tls_certs *a, *b, *c;
    X509_STORE *store;

    snprintf(one, sizeof(one), "%s", file_of("one.pem", (const char *const[]){ca, other, ca, NULL}));
    snprintf(two, sizeof(two), "%s", file_of("two.pem", (const char *const[]){ca, other, ca, NULL}));
    begins(&a, one);
    is_int(sk_X509_num(a->all), 0, "nothing is parsed at first");
    is_int(tls_certs_step(a), STEP_MORE, "a step");
    is_int(sk_X509_num(a->all), 1, "is one certificate");
    begins(&b, two);
    ok(a == b, "the same bytes in another file");
    is_int(steps(b), 3, "are parsed from there on");
    is_int(tls_certs_step(a), STEP_DONE, "for both");
    is_int(sk_X509_num(a->all), 3, "all");
    store = tls_certs_store(a);
    ok(store != NULL && tls_certs_store(b) == store, "one store");
    begins(&c, cert_path("ca.crt"));
    ok(c != a, "other bytes are others");
    tls_certs_unref(a);
    tls_certs_unref(c);
    begins(&a, one);
    ok(a == b && a->rest == NULL, "as long as somebody has them");
    tls_certs_unref(a);
    tls_certs_unref(b);
    begins(&a, one);
    ok(a->rest != NULL && sk_X509_num(a->all) == 0, "afterwards they are parsed anew");
    tls_certs_unref(a); /* in the middle */
    tls_certs_unref(NULL);
    free(ca);
    free(other);
}

static bool is_parsed(const char *name)
{
    struct tls_certs *c;
    bool parsed;

    begins(&c, cert_path(name));
    parsed = c->rest == NULL;
    tls_certs_unref(c);
    return parsed;
}

/* So a reload parses nothing that has not changed. */
static void contexts_have(void)
{
    char crt[640], key[640], ca[640], front[640];
    struct tls_server_opts s = {
        .cert_file = crt, .key_file = key, .client_ca_file = ca, .requestheader_ca_file = front};
    struct tls_client_opts o = {.ca_file = ca, .cert_file = crt, .key_file = key, .server_name = "x"};
    struct err err = {""};
    struct tls_ctx *server, *client, *second;

    snprintf(crt, sizeof(crt), "%s", cert_path("node-a.crt"));
    snprintf(key, sizeof(key), "%s", cert_path("node-a.key"));
    snprintf(ca, sizeof(ca), "%s", cert_path("ca.crt"));
    snprintf(front, sizeof(front), "%s", cert_path("front-proxy-ca.crt"));
    ok(!is_parsed("node-a.crt") && !is_parsed("ca.crt") && !is_parsed("front-proxy-ca.crt"), "nobody has them");
    server = tls_server_ctx_new(&s, &err);
    client = tls_client_ctx_new(&o, &err);
    o.ca_of = client;
    second = tls_client_ctx_new(&o, &err);
    if (server == NULL || client == NULL || second == NULL)
        tap_bail("%s", err.text);
    ok(is_parsed("node-a.crt") && is_parsed("ca.crt") && is_parsed("front-proxy-ca.crt"), "a server has");
    tls_ctx_unref(server);
    ok(is_parsed("node-a.crt") && is_parsed("ca.crt"), "a client has");
    ok(!is_parsed("front-proxy-ca.crt"), "not what was the server's");
    tls_ctx_unref(client);
    ok(is_parsed("ca.crt"), "nor is one left alone that has the CAs of another");
    tls_ctx_unref(second);
    ok(!is_parsed("node-a.crt") && !is_parsed("ca.crt"), "nobody has them any more");
}

/* ---- keys ---- */

static bool loads(const char *key, struct tls_pair *out)
{
    char crt[640], path[640];
    struct tls_digest d = {{0}};
    struct err err = {""};

    snprintf(crt, sizeof(crt), "%s", cert_path("node-a.crt"));
    snprintf(path, sizeof(path), "%s", cert_path(key));
    return tls_pair_load(crt, path, out, &d, &err);
}

static void keys(void)
{
    struct tls_pair first, second, third;
    char *key = text_of("node-a.key");

    ok(loads("node-a.key", &first) && loads("node-a.key", &second), "a pair, twice");
    ok(first.key == second.key && first.cert == second.cert, "is parsed once");
    ok(!loads("node-b.key", &third), "another key does not belong to it");
    tls_pair_clear(&second);
    ok(loads("node-a.key", &second) && first.key == second.key, "nor does it take the place of the first");
    tls_pair_clear(&second);
    scratch_file("copy.pem", key, strlen(key));
    ok(loads("copy.pem", &second) && first.key == second.key, "a copy");
    tls_pair_clear(&second);
    (void)file_of("copy.pem", (const char *const[]){"once more:\n", key, NULL});
    ok(loads("copy.pem", &second) && first.key != second.key, "other bytes are parsed, though it is the same key");
    ok(loads("copy.pem", &third) && second.key == third.key, "and known from then on");
    tls_pair_clear(&third);
    tls_pair_clear(&second);
    tls_pair_clear(&first);
    free(key);
}

/* ---- without memory ---- */

static struct {
    unsigned long calls, fail_at; /* 0: none */
} library;

static bool library_fails(void)
{
    return ++library.calls == library.fail_at;
}

static void *library_malloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return n == 0 || library_fails() ? NULL : malloc(n);
}

static void *library_realloc(void *p, size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    if (n > 0)
        return library_fails() ? NULL : realloc(p, n);
    free(p);
    return NULL;
}

static void library_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    free(p);
}

/* Never as if the file had ended there. */
static void starved(void)
{
    char path[640];
    unsigned cut = 0, torn = 0;

    snprintf(path, sizeof(path), "%s", cert_path("ca.crt"));
    tls_certs_unref(tls_certs_read(path)); /* what the library keeps is there */
    for (unsigned long nth = 1; library.fail_at <= library.calls; nth++) {
        struct tls_certs *c;

        library.calls = 0;
        library.fail_at = nth;
        c = tls_certs_read(path);
        cut += c != NULL && c->error == 0 && sk_X509_num(c->all) != 1;
        for (int i = 0; c != NULL && i < sk_X509_num(c->all); i++) {
            X509 *cert = sk_X509_value(c->all, i);

            torn += X509_get0_pubkey(cert) == NULL || (X509_get_extension_flags(cert) & EXFLAG_INVALID) != 0;
        }
        tls_certs_unref(c);
    }
    library.fail_at = 0;
    is_u64(cut, 0, "whichever allocation fails: all, or damaged");
    is_u64(torn, 0, "and each with its key and its extensions");
}

int main(void)
{
    if (CRYPTO_set_mem_functions(library_malloc, library_realloc, library_free) != 1)
        tap_bail("OpenSSL was used before");
    reads();
    refuses();
    shares();
    contexts_have();
    keys();
    starved();
    return tap_end();
}
