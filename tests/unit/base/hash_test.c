/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <sys/wait.h>
#include <unistd.h>

#include "lib/tap.h"

static void digests(void)
{
    unsigned char d[HASH_SHA512_BYTES], again[HASH_SHA512_BYTES];
    char hex[2 * HASH_SHA512_BYTES + 1];
    struct slice pieces[] = {SLICE_LIT("a"), SLICE_NONE, SLICE_LIT("bc")};
    struct hash_stream *s = hash_sha512_start();

    /* FIPS 180-2, appendices B and C. */
    ok(hash_sha256(SLICE_LIT("abc"), d), "SHA-256");
    hash_hex(d, HASH_SHA256_BYTES, false, hex);
    is_str(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "of abc");
    ok(hash_sha256(SLICE_NONE, d), "SHA-256 of nothing");
    hash_hex(d, 4, true, hex);
    is_str(hex, "E3B0C442", "upper case");
    ok(hash_sha512(SLICE_LIT("abc"), d), "SHA-512");
    hash_hex(d, HASH_SHA512_BYTES, false, hex);
    is_str(hex,
           "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
           "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
           "of abc");
    for (size_t i = 0; s != NULL && i < ROWS(pieces); i++)
        ok(hash_sha512_add(s, pieces[i]), "piece %zu", i);
    ok(s != NULL && hash_sha512_end(s, again) && memcmp(d, again, sizeof(d)) == 0, "in pieces");
}

static void base32(void)
{
    /* RFC 4648, section 10, in lower case and without padding. */
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "my"},
        {"fo", "mzxq"},
        {"foo", "mzxw6"},
        {"foob", "mzxw6yq"},
        {"fooba", "mzxw6ytb"},
        {"foobar", "mzxw6ytboi"},
    };
    char out[32];

    for (size_t i = 0; i < ROWS(rows); i++) {
        hash_base32_lower((const unsigned char *)rows[i][0], strlen(rows[i][0]), out);
        is_str(out, rows[i][1], "base32 of \"%s\"", rows[i][0]);
    }
}

static void sip(void)
{
    /* From the vectors that the authors of SipHash publish: key 00..0f, input 00..(n-1). */
    static const struct {
        size_t n;
        uint64_t want;
    } rows[] = {
        {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd},  {7, 0xab0200f58b01d137},
        {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}, {63, 0x958a324ceb064572},
    };
    unsigned char key[HASH_SIP_KEY_BYTES];
    char data[64];

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)i;
    for (size_t i = 0; i < ROWS(rows); i++)
        is_u64(hash_siphash(key, slice_of(data, rows[i].n)), rows[i].want, "SipHash of %zu bytes", rows[i].n);
    ok(hash_seeded(SLICE_LIT("x")) == hash_seeded(SLICE_LIT("x")), "the seed stays");
    ok(hash_seeded(SLICE_LIT("x")) != hash_seeded(SLICE_LIT("y")), "texts differ");
}

/* What a process of its own, which has hashed nothing yet, makes of a text. */
static uint64_t elsewhere(void)
{
    uint64_t h = 0;
    int ends[2];
    pid_t child;

    if (pipe(ends) != 0 || (child = fork()) < 0)
        tap_bail("no child");
    if (child == 0) {
        h = hash_seeded(SLICE_LIT("x"));
        _exit(write(ends[1], &h, sizeof(h)) == sizeof(h) ? 0 : 1);
    }
    if (read(ends[0], &h, sizeof(h)) != sizeof(h) || waitpid(child, NULL, 0) != child)
        tap_bail("the child says nothing");
    close(ends[0]);
    close(ends[1]);
    return h;
}

/* Must come first: afterwards children inherit the seed. */
static void seeds(void)
{
    uint64_t one = elsewhere(), two = elsewhere();

    ok(one != two && one != hash_seeded(SLICE_LIT("x")) && two != hash_seeded(SLICE_LIT("x")),
       "each process has a seed of its own");
    ok(elsewhere() == hash_seeded(SLICE_LIT("x")), "which stays");
}

/* Not specified, so it is only asked whether every byte and the length matter. */
static void quick(void)
{
    char text[24] = {0};
    unsigned same = 0;

    for (size_t n = 1; n <= sizeof(text); n++) {
        uint64_t h = hash_quick(slice_of(text, n));

        same += h == hash_quick(slice_of(text, n - 1));
        for (size_t i = 0; i < n; i++) {
            text[i] = 'x';
            same += h == hash_quick(slice_of(text, n));
            text[i] = '\0';
        }
        same += h != hash_quick(slice_of(text, n));
    }
    is_u64(same, 0, "every byte counts for the quick one, too");
}

int main(void)
{
    seeds();
    digests();
    base32();
    sip();
    quick();
    return tap_end();
}
