#include <openssl/x509.h>

#include "net/tls_internal.h"

static bool same_cert(X509 *a, X509 *b)
{
    return a == b || (a != NULL && b != NULL && X509_cmp(a, b) == 0);
}

/* In the order in which they are sent. */
static bool same_chain(SSL_CTX *a, SSL_CTX *b)
{
    STACK_OF(X509) *x = NULL, *y = NULL;

    SSL_CTX_get0_chain_certs(a, &x);
    SSL_CTX_get0_chain_certs(b, &y);
    if (sk_X509_num(x) != sk_X509_num(y))
        return false;
    for (int i = 0; i < sk_X509_num(x); i++)
        if (!same_cert(sk_X509_value(x, i), sk_X509_value(y, i)))
            return false;
    return true;
}

static bool same_pair(SSL_CTX *a, SSL_CTX *b)
{
    EVP_PKEY *x = SSL_CTX_get0_privatekey(a), *y = SSL_CTX_get0_privatekey(b);

    return same_cert(SSL_CTX_get0_certificate(a), SSL_CTX_get0_certificate(b)) && same_chain(a, b) &&
           (x == y || (x != NULL && y != NULL && EVP_PKEY_eq(x, y) == 1));
}

static bool is_among(X509 *cert, STACK_OF(X509) * list)
{
    for (int i = 0; i < sk_X509_num(list); i++)
        if (same_cert(cert, sk_X509_value(list, i)))
            return true;
    return false;
}

/* As sets: whoever one of them trusts the other trusts too. A store holds no certificate twice. */
static bool same_store(X509_STORE *a, X509_STORE *b)
{
    STACK_OF(X509) * x, *y;
    bool same;

    if (a == NULL || b == NULL)
        return a == b;
    x = X509_STORE_get1_all_certs(a);
    y = X509_STORE_get1_all_certs(b);
    same = x != NULL && y != NULL && sk_X509_num(x) == sk_X509_num(y);
    for (int i = 0; same && i < sk_X509_num(x); i++)
        same = is_among(sk_X509_value(x, i), y);
    sk_X509_pop_free(x, X509_free);
    sk_X509_pop_free(y, X509_free);
    return same;
}

static bool same_ciphers(SSL_CTX *a, SSL_CTX *b)
{
    STACK_OF(SSL_CIPHER) *x = SSL_CTX_get_ciphers(a), *y = SSL_CTX_get_ciphers(b);

    if (sk_SSL_CIPHER_num(x) != sk_SSL_CIPHER_num(y))
        return false;
    for (int i = 0; i < sk_SSL_CIPHER_num(x); i++)
        if (SSL_CIPHER_get_id(sk_SSL_CIPHER_value(x, i)) != SSL_CIPHER_get_id(sk_SSL_CIPHER_value(y, i)))
            return false;
    return true;
}

static bool same_name(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool tls_ctx_same(const struct tls_ctx *a, const struct tls_ctx *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL)
        return false;
    return a->server == b->server && a->http2 == b->http2 && same_name(a->server_name, b->server_name) &&
           SSL_CTX_get_min_proto_version(a->ssl_ctx) == SSL_CTX_get_min_proto_version(b->ssl_ctx) &&
           same_ciphers(a->ssl_ctx, b->ssl_ctx) && same_pair(a->ssl_ctx, b->ssl_ctx) &&
           same_store(SSL_CTX_get_cert_store(a->ssl_ctx), SSL_CTX_get_cert_store(b->ssl_ctx)) &&
           same_store(a->client_ca, b->client_ca) && same_store(a->requestheader_ca, b->requestheader_ca);
}
