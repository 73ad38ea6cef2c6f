/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_suites.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/buf.h"

struct suite {
    const char *name;    /* Go's */
    const char *openssl; /* NULL: of TLS 1.3 */
    bool insecure;
    bool by_default;
};

/*
 * In the order of preference. Go's default list, which kube-apiserver has, holds the four ECDHE suites with CBC and
 * SHA-1, too; every client that speaks to Kubernetes has the others, so they are for who asks for them.
 */
static const struct suite suites[] = {
    /* clang-format off */
    {"TLS_AES_128_GCM_SHA256", NULL, false, true},
    {"TLS_AES_256_GCM_SHA384", NULL, false, true},
    {"TLS_CHACHA20_POLY1305_SHA256", NULL, false, true},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", false, true},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", false, true},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", false, true},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", false, true},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", false, true},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", false, true},
    /* Older names of the same two. */
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305", false, false},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305", false, false},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA", false, false},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA", false, false},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", false, false},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA", false, false},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256", true, false},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256", true, false},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256", true, false},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384", true, false},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256", true, false},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", true, false},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA", true, false},
    {"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "ECDHE-RSA-DES-CBC3-SHA", true, false},
    {"TLS_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA", true, false},
    {"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", "ECDHE-ECDSA-RC4-SHA", true, false},
    {"TLS_ECDHE_RSA_WITH_RC4_128_SHA", "ECDHE-RSA-RC4-SHA", true, false},
    {"TLS_RSA_WITH_RC4_128_SHA", "RC4-SHA", true, false},
    /* clang-format on */
};

enum { N_SUITES = sizeof(suites) / sizeof(suites[0]) };

/* Without suites of TLS 1.3 in the way: those are always there. */
static bool library_has(const char *openssl)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    bool has = ctx != NULL && SSL_CTX_set_ciphersuites(ctx, "") == 1 && SSL_CTX_set_cipher_list(ctx, openssl) == 1;

    SSL_CTX_free(ctx);
    ERR_clear_error();
    return has;
}

enum tls_suite_kind tls_suite_kind(const char *name)
{
    for (size_t i = 0; i < N_SUITES; i++) {
        if (strcmp(suites[i].name, name) != 0)
            continue;
        if (suites[i].openssl == NULL)
            return TLS_SUITE_ALWAYS;
        if (!library_has(suites[i].openssl))
            return TLS_SUITE_MISSING;
        return suites[i].insecure ? TLS_SUITE_INSECURE : TLS_SUITE_PREFERRED;
    }
    return TLS_SUITE_UNKNOWN;
}

static bool is_wanted(const struct suite *s, const char *const *names)
{
    if (names == NULL || names[0] == NULL)
        return s->by_default;
    for (size_t i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], s->name) == 0)
            return library_has(s->openssl);
    return false;
}

bool tls_suites_for_tls12(const char *const *names, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < N_SUITES; i++) {
        if (suites[i].openssl == NULL || !is_wanted(&suites[i], names))
            continue;
        buf_printf(out, "%s%s", any ? ":" : "", suites[i].openssl);
        any = true;
    }
    return any;
}

const char *tls_suites_for_tls13(void)
{
    /* Like Go: AES-128 first. */
    return "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
}
