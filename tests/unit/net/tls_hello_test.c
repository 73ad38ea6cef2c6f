/* SPDX-License-Identifier: Apache-2.0 */
/* Hellos that anybody may send: how long they may be, and that they may come in any pieces. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "lib/tap.h"
#include "net/tls_hello.h"
#include "unit/net/fixture.h"

/* A hello that says it had so many bytes behind its head, of which none follows. */
#define ANNOUNCE(a, b, c) "\x16\x03\x01\x00\x04\x01" a b c
#define LONGEST ANNOUNCE("\x00", "\x3f", "\xfc")
#define TOO_LONG ANNOUNCE("\x00", "\x3f", "\xfd")
#define HUGE ANNOUNCE("\x01", "\xff", "\x00")
#define ALERT "\x15\x03\x01\x00\x02\x01\x5a"
#define CCS "\x14\x03\x03\x00\x01\x01"
#define DATA "\x17\x03\x03\x00\x03\x16\x03\x03"
#define SHORT_HELLO "\x16\x03\x01\x00\x06\x01\x00\x00\x02xx"

#define ROW(text, tls12, good)                                                                                         \
    {                                                                                                                  \
#text, text, sizeof(text) - 1, tls12, good                                                                     \
    }
static const struct {
    const char *name, *bytes;
    size_t n;
    bool tls12, good;
} rows[] = {
    ROW(LONGEST, false, true),
    ROW(TOO_LONG, false, false),
    ROW(HUGE, false, false),
    ROW("\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x02\xff\x00", false, false),
    ROW("\x16\x03\x01\x00\x00" HUGE, false, false),
    ROW(ALERT HUGE, false, false),
    ROW(CCS HUGE, false, false),
    ROW(SHORT_HELLO HUGE, false, false),
    ROW(SHORT_HELLO CCS DATA HUGE, false, false),
    ROW("\x16\x03\x01\x00\x0a\x01\x00\x00\x02xx\x01\x01\xff\x00", false, false),
    ROW("\x16\x03\x01\x00\x04\x0b\x01\xff\x00", false, true), /* OpenSSL bounds all other messages */
    ROW(SHORT_HELLO CCS HUGE, true, true),                    /* encrypted: it means something else */
    ROW("GET / HTTP/1.1\r\n\r\n" HUGE, false, true),
};

/* In pieces of every size. */
static void test_read(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        size_t wrong = 0;

        for (size_t piece = 1; piece <= rows[i].n; piece++) {
            struct tls_hello h = {.refused = false};
            bool good = true;

            for (size_t at = 0; at < rows[i].n; at += piece) {
                size_t n = rows[i].n - at < piece ? rows[i].n - at : piece;

                good = tls_hello_read(&h, (const unsigned char *)rows[i].bytes + at, n, rows[i].tls12);
            }
            wrong += good != rows[i].good;
            if (!good)
                wrong += tls_hello_read(&h, (const unsigned char *)SHORT_HELLO, sizeof(SHORT_HELLO) - 1, false);
        }
        is_u64(wrong, 0, "%s is %s, in pieces of any size", rows[i].name, rows[i].good ? "read" : "refused for good");
    }
}

/* ---- streams ---- */

static struct tls_ctx *sctx;

static void put(int fd, const void *bytes, size_t n)
{
    if (write(fd, bytes, n) != (ssize_t)n)
        tap_bail("write");
}

static void test_refused(struct loop *l)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct end e = {.discard = true};
        int fd;

        if (rows[i].good)
            continue;
        half_pair(l, &e, sctx, &fd);
        put(fd, rows[i].bytes, rows[i].n);
        ok(run_until(l, e.seen[STREAM_FAILED] == 1), "%s ends it", rows[i].name);
        diag("%s", e.failure);
        end_release(&e);
        close(fd);
        settle(l);
    }
}

static void test_words(struct loop *l)
{
    struct end e = {.discard = true};
    int fd;

    half_pair(l, &e, sctx, &fd);
    put(fd, HUGE, sizeof(HUGE) - 1);
    ok(run_until(l, e.seen[STREAM_FAILED] == 1), "a hello of 128 KB ends it");
    is_str(e.failure, "TLS handshake: the client's hello is more than 16 KiB", "reason");
    end_release(&e);
    close(fd);
    settle(l);
}

/* A client whose bytes we carry. */
static SSL *carried_client(const char *groups)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);

    SSL_CTX_free(ctx);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl);
    if (groups != NULL && SSL_set1_groups_list(ssl, groups) != 1)
        tap_bail("groups %s", groups);
    return ssl;
}

/* What it has to say; in records of one byte, and one write each, if wanted. */
static void carry_there(struct loop *l, SSL *ssl, int fd, bool crumbs)
{
    unsigned char *p, record[6] = {0x16, 3, 1, 0, 1, 0};
    size_t n = (size_t)BIO_get_mem_data(SSL_get_wbio(ssl), &p);

    for (size_t i = 0; crumbs && p[0] == 0x16 && i + 5 < n; i++) {
        record[5] = p[5 + i];
        for (size_t at = 0; at < sizeof(record); at++) {
            put(fd, record + at, 1);
            loop_run_once(l, 0);
        }
    }
    if (!crumbs || p[0] != 0x16)
        put(fd, p, n);
    (void)BIO_reset(SSL_get_wbio(ssl));
}

static void carry_back(SSL *ssl, int fd)
{
    char bytes[16384];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        BIO_write(SSL_get_rbio(ssl), bytes, (int)n);
}

static void test_crumbs(struct loop *l)
{
    SSL *ssl = carried_client(NULL);
    struct end e = {.discard = true};
    uint64_t give_up = deadline();
    int fd;

    half_pair(l, &e, sctx, &fd);
    for (bool first = true; SSL_do_handshake(ssl) != 1 && !passed(give_up); first = false) {
        carry_there(l, ssl, fd, first);
        loop_run_once(l, 1);
        carry_back(ssl, fd);
    }
    carry_there(l, ssl, fd, false);
    ok(run_until(l, e.seen[STREAM_OPENED] == 1), "a hello in records of a byte, and each in six pieces, shakes hands");
    end_release(&e);
    SSL_free(ssl);
    close(fd);
    settle(l);
}

/* A second hello is asked for where the first offers no key of ours (RFC 8446, 4.1.4). */
static void test_second_hello(struct loop *l, bool good)
{
    SSL *ssl = carried_client("P-521:P-256");
    struct end e = {.discard = true};
    uint64_t give_up = deadline();
    int fd;

    half_pair(l, &e, sctx, &fd);
    SSL_do_handshake(ssl);
    carry_there(l, ssl, fd, false);
    ok(run_until(l, (carry_back(ssl, fd), BIO_pending(SSL_get_rbio(ssl)) > 0)), "another hello is asked for");
    is_int(e.seen[STREAM_FAILED], 0, "the first one was good");
    if (!good) {
        put(fd, CCS HUGE, sizeof(CCS HUGE) - 1);
        ok(run_until(l, e.seen[STREAM_FAILED] == 1), "a second one of 128 KB ends it");
        is_str(e.failure, "TLS handshake: the client's hello is more than 16 KiB", "reason");
    }
    while (good && SSL_do_handshake(ssl) != 1 && !passed(give_up)) {
        carry_there(l, ssl, fd, false);
        loop_run_once(l, 1);
        carry_back(ssl, fd);
    }
    if (good) {
        carry_there(l, ssl, fd, false);
        ok(run_until(l, e.seen[STREAM_OPENED] == 1), "and with a good one it goes on");
    }
    end_release(&e);
    SSL_free(ssl);
    close(fd);
    settle(l);
}

/* ---- tickets ---- */

/* A hello of TLS 1.3 that offers n tickets, of which none is ours. */
static size_t hello_with_tickets(unsigned char *out, unsigned n)
{
    static const unsigned char before[] = {
        0x16, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3, /* lengths to come, then the random bytes */
    };
    static const unsigned char between[] = {
        0, 0,  2, 0x13, 1, 1,  0, 0,    0,     /* suites, extensions */
        0, 43, 0, 3,    2, 3,  4,              /* TLS 1.3 */
        0, 10, 0, 4,    0, 2,  0, 0x1d,        /* X25519 */
        0, 13, 0, 6,    0, 4,  4, 3,    8, 4,  /* signatures */
        0, 45, 0, 2,    1, 1,                  /* sessions with new keys */
        0, 51, 0, 38,   0, 36, 0, 0x1d, 0, 32, /* a key */
    };
    static const unsigned char identity[] = {0, 8, 't', 'i', 'c', 'k', 'e', 't', 's', '!', 0, 0, 0, 0};
    size_t at = 0, extensions, psk;
    unsigned char *p;

    memcpy(out, before, sizeof(before));
    at += sizeof(before);
    memset(out + at, 9, 32);
    at += 32;
    memcpy(out + at, between, sizeof(between));
    extensions = at + 7;
    at += sizeof(between);
    memset(out + at, 9, 32);
    at += 32;
    psk = at;
    out[at + 1] = 41;
    at += 6;
    for (unsigned i = 0; i < n; i++, at += sizeof(identity))
        memcpy(out + at, identity, sizeof(identity));
    p = out + psk;
    p[4] = (unsigned char)((at - psk - 6) >> 8);
    p[5] = (unsigned char)(at - psk - 6);
    p = out + at;
    p[0] = (unsigned char)(33 * n >> 8);
    p[1] = (unsigned char)(33 * n);
    at += 2;
    for (unsigned i = 0; i < n; i++, at += 33) {
        memset(out + at, 9, 33);
        out[at] = 32;
    }
    p = out + psk;
    p[0] = 0;
    p[2] = (unsigned char)((at - psk - 4) >> 8);
    p[3] = (unsigned char)(at - psk - 4);
    p = out + extensions;
    p[0] = (unsigned char)((at - extensions - 2) >> 8);
    p[1] = (unsigned char)(at - extensions - 2);
    out[3] = (unsigned char)((at - 5) >> 8);
    out[4] = (unsigned char)(at - 5);
    out[7] = (unsigned char)((at - 9) >> 8);
    out[8] = (unsigned char)(at - 9);
    return at;
}

static void test_tickets(struct loop *l)
{
    for (unsigned n = LIMIT_CLIENT_TICKETS; n <= LIMIT_CLIENT_TICKETS + 1; n++) {
        unsigned char hello[1024] = {0}, answer[16] = {0};
        bool few = n <= LIMIT_CLIENT_TICKETS;
        struct end e = {.discard = true};
        int fd;

        half_pair(l, &e, sctx, &fd);
        put(fd, hello, hello_with_tickets(hello, n));
        ok(run_until(l, recv(fd, answer, sizeof(answer), MSG_PEEK) > 0), "a hello with %u tickets is answered", n);
        is_int(answer[0], few ? 0x16 : 0x15, "by %s", few ? "another" : "an alert");
        ok(few || run_until(l, e.seen[STREAM_FAILED] == 1), "and that is the end");
        is_str(e.failure, few ? "" : "TLS handshake: the client's hello offers more than 5 sessions to resume",
               "reason");
        end_release(&e);
        close(fd);
        settle(l);
    }
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    sctx = server_ctx(false);
    test_read();
    test_refused(l);
    test_words(l);
    test_crumbs(l);
    test_second_hello(l, true);
    test_second_hello(l, false);
    test_tickets(l);
    loop_free(l);
    tls_ctx_unref(sctx);
    return tap_end();
}
