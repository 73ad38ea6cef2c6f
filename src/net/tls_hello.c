/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_hello.h"

#include <openssl/err.h>

#include "base/limits.h"
#include "net/tls_words.h"

/* The byte in front of a record says what is in it (RFC 8446, 5.1). */
enum { CHANGE_CIPHER_SPEC = 20, HANDSHAKE = 22, APPLICATION_DATA = 23 };
enum { CLIENT_HELLO = 1 };

/* Up to `want` bytes of a head. */
static size_t collect(unsigned char *head, unsigned char *have, size_t want, const unsigned char *p, size_t n)
{
    size_t taken = 0;

    while (*have < want && taken < n)
        head[(*have)++] = p[taken++];
    return taken;
}

/*
 * In TLS 1.2 the messages behind a ChangeCipherSpec are encrypted. In TLS 1.3 it means nothing, and may stand between a
 * hello and the second one that was asked for, as may early data; there what is encrypted is in records of data.
 * OpenSSL refuses all other kinds but hellos of SSL 2, which are one record.
 */
static void begin_record(struct tls_hello *h, bool tls12)
{
    unsigned type = h->record[0];

    h->over = type < CHANGE_CIPHER_SPEC || type > APPLICATION_DATA || (type == CHANGE_CIPHER_SPEC && tls12);
    h->record_left = (uint16_t)(h->record[3] << 8 | h->record[4]);
    h->record_n = 0;
}

/* A part of a record of handshake messages: any number of them, or pieces. */
static bool read_messages(struct tls_hello *h, const unsigned char *p, size_t n)
{
    while (n > 0) {
        size_t part = h->message_left < n ? h->message_left : n;

        h->message_left -= (uint32_t)part;
        p += part;
        n -= part;
        part = collect(h->message, &h->message_n, sizeof(h->message), p, n);
        p += part;
        n -= part;
        if (h->message_n < sizeof(h->message))
            continue;
        h->message_n = 0;
        h->message_left = (uint32_t)h->message[1] << 16 | (uint32_t)h->message[2] << 8 | h->message[3];
        if (h->message[0] == CLIENT_HELLO && h->message_left > LIMIT_CLIENT_HELLO_BYTES - sizeof(h->message))
            return false;
    }
    return true;
}

bool tls_hello_read(struct tls_hello *h, const unsigned char *p, size_t n, bool tls12)
{
    while (n > 0 && !h->over && !h->refused) {
        size_t part;

        if (h->record_left == 0) {
            part = collect(h->record, &h->record_n, sizeof(h->record), p, n);
            if (h->record_n == sizeof(h->record))
                begin_record(h, tls12);
        } else {
            part = h->record_left < n ? h->record_left : n;
            h->refused = h->record[0] == HANDSHAKE && !read_messages(h, p, part);
            h->record_left -= (uint16_t)part;
        }
        p += part;
        n -= part;
    }
    return !h->refused;
}

/* What was read is given to OpenSSL when this returns, or not at all. */
static long on_bio(BIO *bio, int what, const char *bytes, size_t want, int argi, long argl, int ret, size_t *n)
{
    struct tls_hello *h = (struct tls_hello *)(void *)BIO_get_callback_arg(bio);

    (void)want;
    (void)argi;
    (void)argl;
    if (what != (BIO_CB_READ | BIO_CB_RETURN) || ret <= 0)
        return ret;
    if (tls_hello_read(h, (const unsigned char *)bytes, *n, SSL_version(h->ssl) <= TLS1_2_VERSION))
        return ret;
    ERR_raise(ERR_LIB_USER, TLS_WORDS_LONG_HELLO);
    return -1;
}

/* RFC 8446, 4.2.11: identities, each with its length before and its age behind it. What is malformed is OpenSSL's. */
bool tls_hello_tickets_good(SSL *ssl)
{
    const unsigned char *p;
    size_t n, count = 0;

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &p, &n) != 1 || n < 2)
        return true;
    n = (size_t)(p[0] << 8 | p[1]) < n - 2 ? (size_t)(p[0] << 8 | p[1]) : n - 2;
    for (p += 2; n > 2 && count <= LIMIT_CLIENT_TICKETS; count++) {
        size_t one = 2 + (size_t)(p[0] << 8 | p[1]) + 4;

        one = one < n ? one : n;
        p += one;
        n -= one;
    }
    if (count > LIMIT_CLIENT_TICKETS)
        ERR_raise(ERR_LIB_USER, TLS_WORDS_MANY_TICKETS);
    return count <= LIMIT_CLIENT_TICKETS;
}

void tls_hello_watch(struct tls_hello *h, SSL *ssl)
{
    BIO *bio = SSL_get_rbio(ssl);

    h->ssl = ssl;
    BIO_set_callback_arg(bio, (char *)h);
    BIO_set_callback_ex(bio, on_bio);
}

void tls_hello_unwatch(struct tls_hello *h)
{
    BIO *bio = h->ssl == NULL ? NULL : SSL_get_rbio(h->ssl);

    if (bio != NULL)
        BIO_set_callback_ex(bio, NULL);
    h->ssl = NULL;
}
