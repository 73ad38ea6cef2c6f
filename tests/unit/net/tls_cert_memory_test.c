/* SPDX-License-Identifier: Apache-2.0 */
/* What a certificate is charged with, held against what OpenSSL takes for it, by certificates that are made for that.
 */
#include "net/tls_cert_memory.h"

#include <malloc.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/slice.h"
#include "lib/tap.h"

enum { ARENA_BYTES = 1 << 20 };

static size_t held; /* by OpenSSL, with what malloc adds */

/* As glibc's malloc does, also where a sanitizer's is in its place. */
static size_t size_of(void *p)
{
    size_t size = p == NULL ? 0 : (malloc_usable_size(p) + 8 + 15) / 16 * 16;

    return p != NULL && size < 32 ? 32 : size;
}

static void *count_malloc(size_t n, const char *file, int line)
{
    void *p = malloc(n);

    (void)file;
    (void)line;
    held += size_of(p);
    return p;
}

static void count_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    held -= size_of(p);
    free(p);
}

static void *count_realloc(void *p, size_t n, const char *file, int line)
{
    void *moved = count_malloc(n, file, line);

    if (moved != NULL && p != NULL)
        memcpy(moved, p, malloc_usable_size(p) < n ? malloc_usable_size(p) : n);
    if (moved != NULL)
        count_free(p, file, line);
    return moved;
}

/* ---- DER ---- */

static struct slice join(struct arena *a, struct slice x, struct slice y)
{
    char *p = arena_alloc(a, x.n + y.n + 1);

    if (p == NULL)
        tap_bail("out of memory");
    if (x.n > 0)
        memcpy(p, x.p, x.n);
    if (y.n > 0)
        memcpy(p + x.n, y.p, y.n);
    return slice_of(p, x.n + y.n);
}

static struct slice element(struct arena *a, unsigned tag, struct slice content)
{
    char head[4] = {(char)tag, (char)0x82, (char)(content.n >> 8), (char)content.n};

    if (content.n < 128)
        head[1] = (char)content.n;
    return join(a, slice_of(head, content.n < 128 ? 2 : 4), content);
}

static struct slice hex(struct arena *a, const char *text)
{
    char *p = arena_alloc(a, strlen(text) / 2 + 1);
    size_t n = 0;

    for (; p != NULL && text[2 * n] != '\0'; n++) {
        char digits[3] = {text[2 * n], text[2 * n + 1], '\0'};

        p[n] = (char)strtoul(digits, NULL, 16);
    }
    return slice_of(p, n);
}

static struct slice extension(struct arena *a, const char *oid, struct slice value)
{
    return element(a, 0x30, join(a, element(a, 6, hex(a, oid)), value));
}

/* Signed by nobody. */
static struct slice certificate(struct arena *a, struct slice subject, struct slice extensions)
{
    static const char version_serial_ed25519[] = "a003020102020101300506032b6570";
    static const char issuer[] = "300c310a300806035504030c0161";
    static const char dates[] = "301e170d3235303130313030303030305a170d3335303130313030303030305a";
    static const char key[] =
        "302a300506032b65700321000101010101010101010101010101010101010101010101010101010101010101";
    static const char end[] = "300506032b65700303000101";
    struct slice tbs = join(a, hex(a, version_serial_ed25519), hex(a, issuer));

    tbs = join(a, tbs, hex(a, dates));
    tbs = join(a, tbs, element(a, 0x30, subject));
    tbs = join(a, tbs, hex(a, key));
    tbs = join(a, tbs, element(a, 0xa3, element(a, 0x30, extensions)));
    return element(a, 0x30, join(a, element(a, 0x30, tbs), hex(a, end)));
}

/* ---- what it takes ---- */

/* What is held of the second one: the first makes what OpenSSL keeps for good. */
static size_t held_of(struct slice der, size_t *charged)
{
    size_t before = 0, after = 0;

    for (int i = 0; i < 2; i++) {
        const unsigned char *p = (const unsigned char *)der.p;
        X509 *cert;

        before = held;
        cert = d2i_X509(NULL, &p, (long)der.n);
        if (cert == NULL)
            tap_bail("not a certificate");
        (void)X509_check_purpose(cert, -1, 0); /* what verification looks at first, and keeps */
        ERR_clear_error();
        after = held;
        *charged = tls_cert_memory(cert);
        is_u64(held, after, "the charge keeps nothing");
        X509_free(cert);
    }
    return after - before;
}

static void is_bounded(const char *what, struct slice der, unsigned most_times)
{
    size_t charged, h = held_of(der, &charged);

    ok(charged >= h - h / 20 && charged <= most_times * h, "%s: of %zu bytes %zu are held and %zu charged", what, der.n,
       h, charged);
}

struct kind {
    const char *name, *oid; /* oid NULL: in the subject */
    unsigned tags[3];       /* around the pieces, the outermost first */
    const char *piece;
    unsigned most_times;
};

static const struct kind kinds[] = {
    {"empty DNS names", "551d11", {0x30}, "8200", 2},
    {"empty directories", "551d11", {0x30}, "a4023000", 2},
    {"directories of empty sets", "551d11", {0x30}, "a40430023100", 3},
    {"other names", "551d11", {0x30}, "a00706012aa0020500", 7},
    {"EDI parties", "551d11", {0x30}, "a504a1020c00", 4},
    {"object identifiers", "551d11", {0x30}, "88012a", 5},
    {"empty distribution points", "551d1f", {0x30}, "3000", 3},
    {"distribution points relative to their issuer", "551d1f", {0x30}, "3004a002a100", 2},
    {"distribution points of issuers without names", "551d1f", {0x30}, "3002a200", 4},
    {"name constraints", "551d1e", {0x30, 0xa0}, "30028200", 3},
    {"names of an issuer", "551d23", {0x30, 0xa1}, "8200", 2},
    {"AS numbers", "2b06010505070108", {0x30, 0xa0, 0x30}, "020100", 2},
    {"address families", "2b06010505070107", {0x30}, "3006040200013000", 4},
    {"attributes", NULL, {0}, "3107300506012a0c00", 6},
    {"attributes in one set", NULL, {0x31}, "300506012a0c00", 5},
};

static void test_kind(const struct kind *k, size_t bytes)
{
    struct arena *a = arena_new(ARENA_BYTES);
    struct slice piece = hex(a, k->piece), all, value;
    char *p = arena_alloc(a, bytes);
    size_t n = bytes / piece.n;

    for (size_t i = 0; p != NULL && i < n; i++)
        memcpy(p + i * piece.n, piece.p, piece.n);
    all = slice_of(p, n * piece.n);
    for (size_t i = ROWS(k->tags); i > 0; i--)
        if (k->tags[i - 1] != 0)
            all = element(a, k->tags[i - 1], all);
    if (k->oid == NULL) {
        is_bounded(k->name, certificate(a, all, SLICE_NONE), k->most_times);
        arena_free(a);
        return;
    }
    value = extension(a, k->oid, element(a, 4, all));
    is_bounded(k->name, certificate(a, SLICE_NONE, value), k->most_times);
    /* The same in pieces, as BER allows, so that each alone seems to be one long element or none. */
    value = element(a, 4, slice_of(all.p, 5));
    value = join(a, value, element(a, 4, slice_of(all.p + 5, all.n - 5)));
    value = extension(a, k->oid, element(a, 0x24, value));
    is_bounded("in pieces", certificate(a, SLICE_NONE, value), k->most_times * 2);
    arena_free(a);
}

static void test_ordinary(void)
{
    struct arena *a = arena_new(ARENA_BYTES);
    struct slice subject;
    struct slice extensions = extension(a, "551d0f", hex(a, "040403020780")), names = SLICE_NONE;

    subject = hex(a, "3117301506035504030c0e73797374656d3a6e6f64653a6e31311530130603550"
                     "40a0c0c73797374656d3a6e6f646573");
    extensions = join(a, extensions, extension(a, "551d25", hex(a, "040c300a06082b06010505070302")));
    is_bounded("a node's", certificate(a, subject, extensions), 3);
    for (int i = 0; i < 40; i++)
        names = join(a, names, element(a, 0x82, SLICE_LIT("kubernetes.default.svc.cluster.local")));
    extensions = join(a, extensions, extension(a, "551d11", element(a, 4, element(a, 0x30, names))));
    is_bounded("one with forty names", certificate(a, subject, extensions), 2);
    arena_free(a);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free) != 1)
        tap_bail("OpenSSL was used before");
    test_ordinary();
    for (size_t i = 0; i < ROWS(kinds); i++) {
        test_kind(&kinds[i], 1200);
        test_kind(&kinds[i], 7500);
    }
    is_u64(tls_cert_memory(NULL), 0, "none takes nothing");
    return tap_end();
}
