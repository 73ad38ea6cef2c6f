/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests (libcrypto) and the seeded hash of the maps.
 */
#ifndef MVPROXY_BASE_HASH_H
#define MVPROXY_BASE_HASH_H

#include "base/fiber.h"
#include "base/mem.h"

enum { HASH_SHA256_BYTES = 32, HASH_SHA512_BYTES = 64, HASH_SIP_KEY_BYTES = 16 };

/* False only if libcrypto fails. */
bool hash_sha256(struct slice data, unsigned char out[HASH_SHA256_BYTES]);
bool hash_sha512(struct slice data, unsigned char out[HASH_SHA512_BYTES]);
/* SHA-512 of what comes in turns. start: NULL when out of memory; end also frees, out NULL: only frees. */
struct hash_stream;
MEM_CHECK struct hash_stream *hash_sha512_start(void);
bool hash_sha512_add(struct hash_stream *s, struct slice piece);
/* A long text, in pieces; so many bytes of it are worth one of the budget. False as well if it is given up. */
bool hash_sha512_add_long(struct hash_stream *s, struct slice text, struct fiber *f, size_t bytes_per_unit);
bool hash_sha512_end(struct hash_stream *s, unsigned char out[HASH_SHA512_BYTES]);
/* out gets 2 * n + 1 bytes, NUL-terminated. */
void hash_hex(const unsigned char *digest, size_t n, bool upper, char *out);
/* RFC 4648 base32, no padding, lower case: out gets ceil(n * 8 / 5) + 1 bytes. */
void hash_base32_lower(const unsigned char *data, size_t n, char *out);
/* SipHash-2-4. */
uint64_t hash_siphash(const unsigned char key[HASH_SIP_KEY_BYTES], struct slice data);
/* The same under the process's random seed. */
uint64_t hash_seeded(struct slice data);
/* Fast, unseeded, easily made to collide: only to tell apart quickly what is compared as well. */
uint64_t hash_quick(struct slice data);

#endif
