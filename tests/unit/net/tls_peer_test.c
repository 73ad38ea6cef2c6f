/* SPDX-License-Identifier: Apache-2.0 */
/* Who a client certificate says it is, with which bundle, and that resumption neither loses nor preserves it wrongly.
 */
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/quota.h"
#include "lib/tap.h"
#include "unit/net/fixture.h"

struct visit {
    struct end server;
    int fd;
    SSL *ssl;
};

static bool visit(struct loop *l, struct visit *v, struct tls_ctx *ctx, const char *client, int version,
                  SSL_SESSION *session)
{
    *v = (struct visit){.server = {.echo = true, .discard = true}};
    half_pair(l, &v->server, ctx, &v->fd);
    v->ssl = bare_client(l, v->fd, client, version, session);
    settle(l);
    return v->ssl != NULL && v->server.seen[STREAM_OPENED] == 1;
}

static void leave(struct loop *l, struct visit *v)
{
    end_release(&v->server);
    if (v->ssl != NULL)
        SSL_shutdown(v->ssl); /* or OpenSSL would refuse to resume the session */
    SSL_free(v->ssl);
    close(v->fd);
    settle(l);
}

/* ---- who ---- */

struct row {
    const char *client;
    bool client_ca, requestheader_ca;
    const char *cn;
    const char *orgs; /* joined by '|' */
    const char *why_not;
};

#define WEAKLY_SIGNED "the certificate, or its issuer's, is signed with SHA-1 or what else kube-apiserver does not take"

static const struct row rows[] = {
    {"admin", true, false, "kubernetes-admin", "system:masters", NULL},
    {"alice", true, false, "alice", "dev|testers", NULL},
    {"controller-manager", true, false, "system:kube-controller-manager", "", NULL},
    {"deep", true, false, "deep", "dev", NULL},
    {"front-proxy-client", false, true, "front-proxy-client", "", NULL},
    {"foreign", false, false, "kubernetes-admin", "system:masters",
     "no CA that clients are judged by has signed the certificate"},
    {"expired", false, false, "alice", "dev", "the certificate has expired"},
    {"not-yet", false, false, "alice", "dev", "the certificate is not valid yet"},
    {"any-eku", true, false, "alice", "dev", NULL},
    {"no-signature", true, false, "alice", "dev", NULL},
    {"below-any-ca", true, false, "deep", "dev", NULL},
    {"below-ed-ca", true, false, "deep", "dev", NULL},
    {"pss", true, false, "deep", "dev", NULL},
    {"short-pss", false, false, "deep", "dev", WEAKLY_SIGNED},
    {"below-named-ca", true, false, "alice.smith", "dev", NULL},
    {"below-server-ca", false, false, "deep", "dev",
     "the certificate must not be used by clients (extended key usage)"},
    {"sha1", false, false, "alice", "dev", WEAKLY_SIGNED},
    {"sha224", false, false, "alice", "dev", WEAKLY_SIGNED},
    {"below-sha1-ca", false, false, "deep", "dev", WEAKLY_SIGNED},
    {"wrong-eku", false, false, "alice", "dev", "the certificate must not be used by clients (extended key usage)"},
};

static void join_orgs(const struct tls_peer *p, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < p->n_orgs; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%.*s", i == 0 ? "" : "|", (int)p->orgs[i].n, p->orgs[i].p);
}

static void check_row(const struct row *r, const struct tls_peer *p, const char *how)
{
    char orgs[256];

    join_orgs(p, orgs, sizeof(orgs));
    ok(p->present, "%s, %s: present", r->client, how);
    is_int(p->client_ca, r->client_ca, "%s, %s: client CA", r->client, how);
    is_int(p->requestheader_ca, r->requestheader_ca, "%s, %s: requestheader CA", r->client, how);
    is_slice(p->common_name, r->cn, "%s, %s: CN", r->client, how);
    is_str(orgs, r->orgs, "%s, %s: organizations", r->client, how);
    is_str(p->why_not, r->why_not, "%s, %s: why not", r->client, how);
    is_slice(p->uid, NULL, "%s, %s: no UID", r->client, how);
    is_u64(strlen(p->sha256), 64, "%s, %s: fingerprint", r->client, how);
    ok(p->not_after > 1500000000, "%s, %s: notAfter", r->client, how);
}

/* The ticket of a finished visit, after one exchange (TLS 1.3 sends it behind the handshake). */
static SSL_SESSION *ticket_of(struct loop *l, struct visit *v)
{
    char c;

    SSL_write(v->ssl, "x", 1);
    bare_read(l, v->ssl, &c, 1);
    return SSL_get1_session(v->ssl);
}

static void test_who(struct loop *l, int version)
{
    struct tls_ctx *ctx = server_ctx(false);

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct row *r = &rows[i];
        bool needs_chain = strcmp(r->cn, "deep") == 0 || strcmp(r->cn, "alice.smith") == 0;
        SSL_SESSION *session;
        struct visit v;

        ok(visit(l, &v, ctx, r->client, version, NULL), "%s: the handshake never fails", r->client);
        check_row(r, stream_tls_peer(v.server.s), "full handshake");
        session = ticket_of(l, &v);
        leave(l, &v);
        ok(visit(l, &v, ctx, r->client, version, session), "%s: again", r->client);
        is_int(SSL_session_reused(v.ssl), !needs_chain, "%s: resumed, unless that would lose the chain", r->client);
        check_row(r, stream_tls_peer(v.server.s), "second connection");
        SSL_SESSION_free(session);
        leave(l, &v);
    }
    tls_ctx_unref(ctx);
}

/* A ticket is worth nothing to another context, even one of the same files: a reload may have changed the bundles. */
static void test_other_context(struct loop *l, int version)
{
    struct tls_ctx *before = server_ctx(false);
    struct tls_ctx *after = server_ctx(false);
    SSL_SESSION *session;
    struct visit v;

    visit(l, &v, before, "alice", version, NULL);
    session = ticket_of(l, &v);
    leave(l, &v);
    ok(visit(l, &v, after, "alice", version, session), "a ticket of another context is no error");
    is_int(SSL_session_reused(v.ssl), 0, "but not taken either");
    leave(l, &v);
    SSL_SESSION_free(session);
    tls_ctx_unref(before);
    tls_ctx_unref(after);
}

/* ---- odd certificates ---- */

enum { ODD_ORGS_MAX = TLS_PEER_MAX_ORGS + 1 };

/* Issues NAME.crt, NAME.key from the cluster CA with the given subject entries. */
struct odd {
    const char *cn[2];
    int cn_len[2];
    unsigned n_cn, n_orgs, n_uid;
    int type; /* of the CN; 0: UTF8String */
    long lifetime_s;
};

static X509_NAME *odd_subject(const struct odd *o)
{
    X509_NAME *name = X509_NAME_new();
    char org[32];

    for (unsigned i = 0; i < o->n_orgs; i++) {
        snprintf(org, sizeof(org), "org-%u", i);
        X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (unsigned char *)org, -1, -1, 0);
    }
    for (unsigned i = 0; i < o->n_cn; i++)
        X509_NAME_add_entry_by_txt(name, "CN", o->type == 0 ? V_ASN1_UTF8STRING : o->type,
                                   (const unsigned char *)o->cn[i], o->cn_len[i], -1, 0);
    for (unsigned i = 0; i < o->n_uid; i++) {
        ASN1_OBJECT *oid = OBJ_txt2obj("1.3.6.1.4.1.57683.2", 1);

        X509_NAME_add_entry_by_OBJ(name, oid, V_ASN1_UTF8STRING, (const unsigned char *)"uid-42", -1, -1, 0);
        ASN1_OBJECT_free(oid);
    }
    return name;
}

static void issue_odd(const char *as, const struct odd *o)
{
    FILE *f = fopen(cert_path("ca.crt"), "r");
    X509 *ca = PEM_read_X509(f, NULL, NULL, NULL);
    X509 *cert = X509_new();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_NAME *subject = odd_subject(o);
    EVP_PKEY *ca_key;
    char name[64];

    fclose(f);
    f = fopen(cert_path("ca.key"), "r");
    ca_key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 4242);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), o->lifetime_s == 0 ? 3600 : o->lifetime_s);
    X509_set_subject_name(cert, subject);
    X509_set_issuer_name(cert, X509_get_subject_name(ca));
    X509_set_pubkey(cert, key);
    if (X509_sign(cert, ca_key, EVP_sha256()) == 0)
        tap_bail("X509_sign");
    snprintf(name, sizeof(name), "%s.crt", as);
    f = fopen(cert_path(name), "w");
    PEM_write_X509(f, cert);
    fclose(f);
    snprintf(name, sizeof(name), "%s.key", as);
    f = fopen(cert_path(name), "w");
    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    X509_NAME_free(subject);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
}

static void test_odd_subjects(struct loop *l)
{
    static const struct {
        const char *name;
        struct odd odd;
        bool client_ca;
        size_t cn_len, orgs;
        const char *uid, *why_not;
    } table[] = {
        {"no names at all", {.n_cn = 0}, true, 0, 0, NULL, NULL},
        {"control bytes and NUL in the CN", {.cn = {"a\0b\r\nX: y"}, .cn_len = {9}, .n_cn = 1}, true, 9, 0, NULL, NULL},
        {"two CNs: the last counts", {.cn = {"first", "second"}, .cn_len = {5, 6}, .n_cn = 2}, true, 6, 0, NULL, NULL},
        {"T61String", {.cn = {"Zo\xeb"}, .cn_len = {3}, .n_cn = 1, .type = V_ASN1_T61STRING}, true, 4, 0, NULL, NULL},
        {"BMPString",
         {.cn = {"\0Z\0o\0\xeb"}, .cn_len = {6}, .n_cn = 1, .type = V_ASN1_BMPSTRING},
         true,
         4,
         0,
         NULL,
         NULL},
        {"an IA5String that is not UTF-8",
         {.cn = {"Zo\xeb"}, .cn_len = {3}, .n_cn = 1, .type = V_ASN1_IA5STRING},
         false,
         0,
         0,
         NULL,
         "subject not understood"},
        {"a string type that Go does not know",
         {.cn = {"\0\0\0Z"}, .cn_len = {4}, .n_cn = 1, .type = V_ASN1_UNIVERSALSTRING},
         false,
         0,
         0,
         NULL,
         "subject not understood"},
        {"as many organizations as fit", {.n_orgs = TLS_PEER_MAX_ORGS}, true, 0, TLS_PEER_MAX_ORGS, NULL, NULL},
        {"one too many", {.n_orgs = ODD_ORGS_MAX}, false, 0, TLS_PEER_MAX_ORGS, NULL, "too many organizations"},
        {"a UID", {.cn = {"u"}, .cn_len = {1}, .n_cn = 1, .n_uid = 1}, true, 1, 0, "uid-42", NULL},
        {"two UIDs",
         {.cn = {"u"}, .cn_len = {1}, .n_cn = 1, .n_uid = 2},
         false,
         1,
         0,
         "uid-42",
         "subject not understood"},
    };
    struct tls_ctx *ctx = server_ctx(false);

    for (size_t i = 0; i < ROWS(table); i++) {
        const struct tls_peer *p;
        struct visit v;

        issue_odd("odd", &table[i].odd);
        ok(visit(l, &v, ctx, "odd", 0, NULL), "%s: handshake", table[i].name);
        p = stream_tls_peer(v.server.s);
        is_int(p->client_ca, table[i].client_ca, "%s: verified", table[i].name);
        is_int(p->requestheader_ca, 0, "%s: not by the other CA", table[i].name);
        is_u64(p->common_name.n, table[i].cn_len, "%s: CN", table[i].name);
        is_u64(p->n_orgs, table[i].orgs, "%s: organizations", table[i].name);
        is_slice(p->uid, table[i].uid, "%s: UID", table[i].name);
        is_str(p->why_not, table[i].why_not, "%s: why not", table[i].name);
        leave(l, &v);
    }
    tls_ctx_unref(ctx);
}

/* A ticket may live longer than the certificate in it. */
static void test_expires_between(struct loop *l, int version)
{
    struct odd brief = {.cn = {"brief"}, .cn_len = {5}, .n_cn = 1, .lifetime_s = 2};
    bool verified = false;
    struct tls_ctx *ctx = server_ctx(false);
    SSL_SESSION *session;
    struct visit v;

    for (;; brief.lifetime_s *= 4) { /* a machine may need longer than that to come to it */
        issue_odd("odd", &brief);
        visit(l, &v, ctx, "odd", version, NULL);
        verified = stream_tls_peer(v.server.s)->client_ca;
        if (verified || brief.lifetime_s > 100)
            break;
        leave(l, &v);
    }
    ok(verified, "a certificate with %ld seconds to live is verified", brief.lifetime_s);
    session = ticket_of(l, &v);
    leave(l, &v);
    sleep((unsigned)brief.lifetime_s + 1);
    visit(l, &v, ctx, "odd", version, session);
    is_int(SSL_session_reused(v.ssl), 1, "its session is resumed later");
    is_int(stream_tls_peer(v.server.s)->client_ca, 0, "but it is not verified any more");
    is_str(stream_tls_peer(v.server.s)->why_not, "the certificate has expired", "reason");
    leave(l, &v);
    SSL_SESSION_free(session);
    tls_ctx_unref(ctx);
}

/* ---- CA hints ---- */

static void test_hints(struct loop *l)
{
    struct tls_ctx *ctx = server_ctx(false);
    const STACK_OF(X509_NAME) * names;
    struct visit v;
    char text[256];
    bool cluster = false;
    bool front_proxy = false;

    visit(l, &v, ctx, "alice", TLS1_2_VERSION, NULL);
    names = SSL_get0_peer_CA_list(v.ssl);
    for (int i = 0; i < sk_X509_NAME_num(names); i++) {
        X509_NAME_oneline(sk_X509_NAME_value(names, i), text, sizeof(text));
        cluster |= strstr(text, "CN=kubernetes") != NULL;
        front_proxy |= strstr(text, "CN=front-proxy-ca") != NULL;
    }
    ok(cluster && front_proxy, "clients are told both CAs");
    leave(l, &v);
    tls_ctx_unref(ctx);
}

/* `pairs` of the two CAs, each so often in a row. */
static void test_many_cas(struct loop *l, size_t pairs, size_t in_a_row, int want)
{
    char crt[640], key[640], cas[640];
    struct tls_server_opts o = {.cert_file = crt, .key_file = key, .client_ca_file = cas};
    struct err err = {""};
    struct tls_ctx *ctx;
    size_t n[2];
    char *text[2] = {read_file(cert_path("ca.crt"), &n[0]), read_file(cert_path("front-proxy-ca.crt"), &n[1])};
    struct visit v;
    struct buf b;

    buf_init(&b, 16 << 20);
    for (size_t i = 0; i < 2 * pairs * in_a_row; i++)
        buf_append(&b, slice_of(text[i / in_a_row % 2], n[i / in_a_row % 2]));
    snprintf(cas, sizeof(cas), "%s", scratch_file("many-cas.crt", buf_slice(&b).p, buf_len(&b)));
    snprintf(crt, sizeof(crt), "%s", cert_path("node-a.crt"));
    snprintf(key, sizeof(key), "%s", cert_path("node-a.key"));
    buf_free(&b);
    free(text[0]);
    free(text[1]);
    ctx = tls_server_ctx_new(&o, &err);
    if (ctx == NULL)
        tap_bail("%s", err.text);
    ok(visit(l, &v, ctx, "alice", TLS1_2_VERSION, NULL), "%zu CAs: a handshake", 2 * pairs * in_a_row);
    is_int(sk_X509_NAME_num(SSL_get0_peer_CA_list(v.ssl)), want, "names of CAs");
    leave(l, &v);
    tls_ctx_unref(ctx);
}

/* ---- how many ---- */

/* NAME.crt and NAME.key become those of `of`, with its certificate once and again. */
static size_t make_chain(const char *name, const char *of, size_t times)
{
    char path[64];
    struct buf b;
    size_t n, size;
    char *text;

    snprintf(path, sizeof(path), "%s.key", of);
    text = read_file(cert_path(path), &n);
    snprintf(path, sizeof(path), "%s.key", name);
    scratch_file(path, text, n);
    free(text);
    snprintf(path, sizeof(path), "%s.crt", of);
    text = read_file(cert_path(path), &n);
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < times; i++)
        buf_append(&b, slice_of(text, n));
    snprintf(path, sizeof(path), "%s.crt", name);
    size = buf_len(&b);
    scratch_file(path, buf_slice(&b).p, size);
    buf_free(&b);
    free(text);
    return size;
}

static void test_chain_is_charged(struct loop *l, int version)
{
    struct tls_ctx *ctx = server_ctx(false);
    size_t nobody = 0;

    for (size_t n = 0; n <= 6; n += 3) {
        struct quota q;
        struct visit v;

        quota_init(&q, NULL, 0);
        if (n > 0)
            make_chain("chain", "alice", n);
        v = (struct visit){.server = {.discard = true}};
        half_pair(l, &v.server, ctx, &v.fd);
        stream_charge(v.server.s, &q);
        v.ssl = bare_client(l, v.fd, n > 0 ? "chain" : NULL, version, NULL);
        settle(l);
        is_int(v.server.seen[STREAM_OPENED], 1, "%zu certificates shake hands", n);
        if (n == 0)
            nobody = q.held;
        ok(q.held >= nobody + n * 3000 && q.held <= nobody + n * 8000, "and are charged (%zu, %zu)", q.held, nobody);
        leave(l, &v);
        is_u64(q.held, 0, "and given back");
    }
    tls_ctx_unref(ctx);
}

/* Before anybody is known. */
static void test_long_chain(struct loop *l, int version)
{
    struct tls_ctx *ctx = server_ctx(false);
    struct visit v;
    size_t size = make_chain("chain", "alice", 40);

    visit(l, &v, ctx, "chain", version, NULL);
    ok(run_until(l, v.server.seen[STREAM_FAILED] == 1), "a chain of %zu bytes ends it", size);
    is_str(v.server.failure, "TLS handshake: the client's certificates are more than 8 KiB", "reason");
    leave(l, &v);
    tls_ctx_unref(ctx);
}

static void test_long_chain_of_server(struct loop *l, size_t times, bool taken)
{
    char crt[640], key[640];
    size_t size = make_chain("chain", "node-a", times);
    struct tls_server_opts o = {.cert_file = crt, .key_file = key};
    struct tls_ctx *cctx = client_ctx("alice", false), *sctx;
    struct end client = {.discard = true}, server = {.discard = true};
    struct err err = {""};

    snprintf(crt, sizeof(crt), "%s", cert_path("chain.crt"));
    snprintf(key, sizeof(key), "%s", cert_path("chain.key"));
    sctx = tls_server_ctx_new(&o, &err);
    if (sctx == NULL)
        tap_bail("%s", err.text);
    pair_open(l, &client, &server, cctx, sctx);
    is_int(client.seen[STREAM_OPENED], taken, "a server's chain of %zu bytes: %s", size, client.failure);
    if (!taken)
        ok(strstr(client.failure, "the server's certificates, or ") != NULL && strstr(client.failure, "16 KiB") != NULL,
           "reason: %s", client.failure);
    end_release(&client);
    end_release(&server);
    settle(l);
    tls_ctx_unref(cctx);
    tls_ctx_unref(sctx);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    test_who(l, TLS1_2_VERSION);
    test_who(l, TLS1_3_VERSION);
    test_other_context(l, TLS1_2_VERSION);
    test_other_context(l, TLS1_3_VERSION);
    test_odd_subjects(l);
    test_expires_between(l, TLS1_3_VERSION);
    test_hints(l);
    test_many_cas(l, 1, 20, 2);
    test_many_cas(l, 250, 1, 0);
    test_chain_is_charged(l, TLS1_2_VERSION);
    test_chain_is_charged(l, TLS1_3_VERSION);
    test_long_chain(l, TLS1_2_VERSION);
    test_long_chain(l, TLS1_3_VERSION);
    test_long_chain_of_server(l, 15, true);
    test_long_chain_of_server(l, 60, false);
    loop_free(l);
    return tap_end();
}
