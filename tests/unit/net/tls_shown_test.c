/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that a client shows: how many, and with which keys. */
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <unistd.h>

#include "base/limits.h"
#include "lib/tap.h"
#include "net/tls_shown.h"
#include "unit/net/fixture.h"

#define COUNT(text, tls13) tls_shown_count((const unsigned char *)(text), sizeof(text) - 1, tls13)

static void test_count(void)
{
    is_u64(COUNT("\0\0\0", false), 0, "no certificate");
    is_u64(COUNT("\0\0\x0a\0\0\x02xx\0\0\x02yy", false), 2, "TLS 1.2");
    is_u64(COUNT("\0\0\0\x0e\0\0\x02xx\0\0\0\0\x02yy\0\0", true), 2, "TLS 1.3");
    is_u64(COUNT("\x01z\0\0\x0b\0\0\x02xx\0\x02zz", true), 1, "with a context and extensions");
    is_u64(COUNT("\0\0\x0a\0\0\x02xx\0\0\x03yy", false), 1, "the second is cut short");
    is_u64(COUNT("\0\0\0\x0a\0\0\x02xx\0", true), 0, "extensions are cut short");
    is_u64(COUNT("\x05zz", true), 0, "the context is cut short");
    is_u64(COUNT("\0\0", true), 0, "nothing");
    is_u64(COUNT("", true), 0, "not a byte");
}

/* ---- keys ---- */

/* An RSA key of which nobody knows the private part: `e` is 2^exponent - 1. */
static EVP_PKEY *rsa_of(int bits, int exponent)
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    BIGNUM *n = BN_new(), *e = BN_new();
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params;

    BN_rand(n, bits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ODD);
    BN_one(e);
    BN_lshift(e, e, exponent);
    BN_sub_word(e, 1);
    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n);
    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e);
    params = OSSL_PARAM_BLD_to_param(build);
    if (EVP_PKEY_fromdata_init(ctx) != 1 || EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        tap_bail("RSA of %d bits", bits);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(ctx);
    BN_free(n);
    BN_free(e);
    return key;
}

static bool good(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    bool is;

    if (X509_set_pubkey(cert, key) != 1)
        tap_bail("X509_set_pubkey");
    is = tls_shown_key_good(cert);
    X509_free(cert);
    EVP_PKEY_free(key);
    return is;
}

static void test_keys(void)
{
    X509 *none = X509_new();

    ok(good(rsa_of(1024, 17)), "RSA of 1024 bits");
    ok(good(rsa_of(4096, 31)), "RSA of 4096 bits, the longest exponent that Go takes");
    ok(good(rsa_of(8192, 17)), "RSA of 8192 bits");
    ok(!good(rsa_of(8193, 17)), "no longer one");
    ok(!good(rsa_of(2048, 32)), "no longer exponent");
    ok(!good(rsa_of(3072, 3071)), "nor one as long as the key");
    ok(good(EVP_EC_gen("P-256")), "P-256");
    ok(good(EVP_EC_gen("P-384")), "P-384");
    ok(good(EVP_EC_gen("P-521")), "P-521");
    ok(!good(EVP_EC_gen("sect571r1")), "no curve that kube-apiserver does not know");
    ok(!good(EVP_EC_gen("brainpoolP512r1")), "nor another one");
    ok(good(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")), "Ed25519");
    ok(!good(EVP_PKEY_Q_keygen(NULL, NULL, "ED448")), "not Ed448");
    ok(!tls_shown_key_good(none), "nor no key at all");
    X509_free(none);
}

/* ---- handshakes ---- */

/* chain.crt and chain.key: one certificate of its own, so many times. */
static void make_chain(EVP_PKEY *key, size_t times)
{
    bool hashed = EVP_PKEY_is_a(key, "EC") == 1 || EVP_PKEY_is_a(key, "RSA") == 1;
    X509 *cert = X509_new();
    FILE *f;

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    if (X509_sign(cert, key, hashed ? EVP_sha256() : NULL) == 0)
        tap_bail("X509_sign");
    f = fopen(cert_path("shown.crt"), "w");
    for (size_t i = 0; i < times; i++)
        PEM_write_X509(f, cert);
    fclose(f);
    f = fopen(cert_path("shown.key"), "w");
    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* `why` NULL: the handshake comes to its end. */
static void visit(struct loop *l, struct tls_ctx *ctx, int version, const char *why, const char *what)
{
    struct end e = {.discard = true};
    SSL *ssl;
    int fd;

    half_pair(l, &e, ctx, &fd);
    ssl = bare_client(l, fd, "shown", version, NULL);
    ok(run_until(l, e.seen[STREAM_OPENED] + e.seen[STREAM_FAILED] == 1), "%s: done (%x)", what, version);
    is_int(e.seen[STREAM_OPENED], why == NULL, "%s: taken or not (%x)", what, version);
    is_str(e.failure, why == NULL ? "" : why, "%s: reason (%x)", what, version);
    end_release(&e);
    SSL_free(ssl);
    close(fd);
    settle(l);
}

static void test_handshakes(struct loop *l, struct tls_ctx *ctx, int version)
{
    static const char key[] = "TLS handshake: the key of the client's certificate is none of RSA (up to 8192 bits, "
                              "exponent below 2^31), P-256, P-384, P-521 and Ed25519";

    make_chain(EVP_EC_gen("P-256"), LIMIT_CLIENT_CERTIFICATES);
    visit(l, ctx, version, NULL, "as many certificates as may be");
    make_chain(EVP_EC_gen("P-256"), LIMIT_CLIENT_CERTIFICATES + 1);
    visit(l, ctx, version, "TLS handshake: the client shows more than 6 certificates", "one more");
    make_chain(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), 1);
    visit(l, ctx, version, NULL, "Ed25519");
    make_chain(EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048), 1);
    visit(l, ctx, version, NULL, "RSA");
    make_chain(EVP_PKEY_Q_keygen(NULL, NULL, "ED448"), 1);
    visit(l, ctx, version, key, "Ed448");
}

int main(void)
{
    struct loop *l = loop_new(NULL);
    struct tls_ctx *ctx = server_ctx(false);

    test_count();
    test_keys();
    test_handshakes(l, ctx, TLS1_2_VERSION);
    test_handshakes(l, ctx, TLS1_3_VERSION);
    tls_ctx_unref(ctx);
    loop_free(l);
    return tap_end();
}
