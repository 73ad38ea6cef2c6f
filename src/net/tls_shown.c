/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_shown.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <string.h>

#include "base/limits.h"
#include "net/tls_words.h"

enum { MESSAGE_HEAD = 4 };

/* A vector with a length of `wide` bytes (RFC 8446, 3.4) is taken off the front. False when it is cut short. */
static bool skip_vector(const unsigned char **p, size_t *n, size_t wide)
{
    size_t length = 0;

    if (*n < wide)
        return false;
    for (size_t i = 0; i < wide; i++)
        length = length << 8 | (*p)[i];
    if (*n - wide < length)
        return false;
    *p += wide + length;
    *n -= wide + length;
    return true;
}

size_t tls_shown_count(const unsigned char *p, size_t n, bool tls13)
{
    size_t count = 0;

    if ((tls13 && !skip_vector(&p, &n, 1)) || n < 3) /* the context */
        return 0;
    p += 3; /* the length of the list: it is the rest */
    n -= 3;
    while (skip_vector(&p, &n, 3) && (!tls13 || skip_vector(&p, &n, 2)))
        count++;
    return count;
}

/*
 * OpenSSL shows a message that is whole to this callback before it parses it, and cannot be told to stop by it. So the
 * message becomes one that it refuses: neither a context of 255 bytes (TLS 1.3) nor a list of 16 MB is one.
 */
static void on_message(int sent, int version, int type, const void *message, size_t n, SSL *ssl, void *arg)
{
    unsigned char *p = (unsigned char *)(uintptr_t)message;

    (void)version;
    (void)arg;
    if (sent || type != SSL3_RT_HANDSHAKE || n < MESSAGE_HEAD + 3 || p[0] != SSL3_MT_CERTIFICATE)
        return;
    if (tls_shown_count(p + MESSAGE_HEAD, n - MESSAGE_HEAD, SSL_version(ssl) >= TLS1_3_VERSION) <=
        LIMIT_CLIENT_CERTIFICATES)
        return;
    memset(p + MESSAGE_HEAD, 0xff, 3);
    ERR_raise(ERR_LIB_USER, TLS_WORDS_MANY_CERTIFICATES);
}

void tls_shown_bound(SSL_CTX *ctx)
{
    SSL_CTX_set_msg_callback(ctx, on_message);
}

/* ---- keys ---- */

/* A signature is checked by raising it to the exponent: a long one makes it as dear as making one, or dearer. */
static bool is_cheap_rsa(const EVP_PKEY *key)
{
    BIGNUM *e = NULL;
    bool good = EVP_PKEY_get_bits(key) <= LIMIT_CLIENT_RSA_BITS &&
                EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e) == 1 && BN_num_bits(e) <= 31;

    BN_free(e);
    return good;
}

static bool is_known_curve(const EVP_PKEY *key)
{
    static const char *const curves[] = {SN_X9_62_prime256v1, SN_secp384r1, SN_secp521r1};
    char name[64];
    size_t n;

    if (EVP_PKEY_get_group_name(key, name, sizeof(name), &n) != 1)
        return false;
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
        if (strcmp(name, curves[i]) == 0)
            return true;
    return false;
}

bool tls_shown_key_good(X509 *cert)
{
    const EVP_PKEY *key = X509_get0_pubkey(cert);

    if (key != NULL && EVP_PKEY_is_a(key, "RSA") == 1 && is_cheap_rsa(key))
        return true;
    if (key != NULL && EVP_PKEY_is_a(key, "EC") == 1 && is_known_curve(key))
        return true;
    if (key != NULL && EVP_PKEY_is_a(key, "ED25519") == 1)
        return true;
    ERR_raise(ERR_LIB_USER, TLS_WORDS_DEAR_KEY);
    return false;
}
