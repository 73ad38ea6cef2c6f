/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <openssl/evp.h>

#include "base/random.h"

enum { PIECE = 128 << 10 };

bool hash_sha256(struct slice data, unsigned char out[HASH_SHA256_BYTES])
{
    return EVP_Digest(data.p, data.n, out, NULL, EVP_sha256(), NULL) == 1;
}

bool hash_sha512(struct slice data, unsigned char out[HASH_SHA512_BYTES])
{
    return EVP_Digest(data.p, data.n, out, NULL, EVP_sha512(), NULL) == 1;
}

struct hash_stream {
    EVP_MD_CTX *ctx;
};

struct hash_stream *hash_sha512_start(void)
{
    struct hash_stream *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->ctx = EVP_MD_CTX_new();
    if (s->ctx != NULL && EVP_DigestInit_ex(s->ctx, EVP_sha512(), NULL) == 1)
        return s;
    (void)hash_sha512_end(s, NULL);
    return NULL;
}

bool hash_sha512_add(struct hash_stream *s, struct slice piece)
{
    return EVP_DigestUpdate(s->ctx, piece.p, piece.n) == 1;
}

bool hash_sha512_add_long(struct hash_stream *s, struct slice text, struct fiber *f, size_t bytes_per_unit)
{
    for (size_t n; text.n > 0; text = slice_from(text, n)) {
        n = text.n < PIECE ? text.n : PIECE;
        if (!hash_sha512_add(s, slice_of(text.p, n)) || !fiber_spend(f, n / bytes_per_unit))
            return false;
    }
    return true;
}

bool hash_sha512_end(struct hash_stream *s, unsigned char out[HASH_SHA512_BYTES])
{
    bool fine = out != NULL && EVP_DigestFinal_ex(s->ctx, out, NULL) == 1;

    EVP_MD_CTX_free(s->ctx);
    mem_free(s);
    return fine;
}

void hash_hex(const unsigned char *digest, size_t n, bool upper, char *out)
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *out++ = digits[digest[i] >> 4];
        *out++ = digits[digest[i] & 15];
    }
    *out = '\0';
}

void hash_base32_lower(const unsigned char *data, size_t n, char *out)
{
    uint32_t bits = 0;
    unsigned held = 0;

    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | data[i];
        held += 8;
        while (held >= 5) {
            held -= 5;
            *out++ = "abcdefghijklmnopqrstuvwxyz234567"[bits >> held & 31];
        }
    }
    if (held > 0)
        *out++ = "abcdefghijklmnopqrstuvwxyz234567"[bits << (5 - held) & 31];
    *out = '\0';
}

/* ---- SipHash ---- */

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t load_le(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(v) : v;
}

/* Inlined wherever it is called: the state then stays in registers, which halves the time for a short text. */
static inline __attribute__((always_inline)) void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static inline __attribute__((always_inline)) void sip_word(struct sip *s, uint64_t m)
{
    s->v3 ^= m;
    sip_round(s);
    sip_round(s);
    s->v0 ^= m;
}

uint64_t hash_siphash(const unsigned char key[HASH_SIP_KEY_BYTES], struct slice data)
{
    uint64_t k0 = load_le(key), k1 = load_le(key + 8);
    struct sip s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                    k1 ^ 0x7465646279746573u};
    unsigned char tail[8] = {0};
    size_t whole = data.n & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8)
        sip_word(&s, load_le(data.p + i));
    if (data.n > whole)
        memcpy(tail, data.p + whole, data.n - whole);
    tail[7] = (unsigned char)data.n;
    sip_word(&s, load_le(tail));
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t hash_seeded(struct slice data)
{
    static unsigned char seed[HASH_SIP_KEY_BYTES]; /* written once */
    static bool seeded;

    if (!seeded) {
        random_bytes(seed, sizeof(seed));
        seeded = true;
    }
    return hash_siphash(seed, data);
}

uint64_t hash_quick(struct slice data)
{
    const uint64_t odd = 0x9e3779b97f4a7c15;
    uint64_t h = data.n * odd, word;
    size_t i = 0;

    for (; i + sizeof(word) <= data.n; i += sizeof(word)) {
        memcpy(&word, data.p + i, sizeof(word));
        h = (h ^ word) * odd;
        h ^= h >> 32;
    }
    word = 0;
    if (i < data.n)
        memcpy(&word, data.p + i, data.n - i);
    h = (h ^ word) * odd;
    return h ^ h >> 32;
}
