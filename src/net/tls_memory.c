/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_memory.h"

#include <malloc.h>
#include <openssl/crypto.h>

#include "base/mem.h"

/*
 * Which blocks may hold what was read of a key: 48 bytes are the DER form of one of Ed25519, 9 KiB that of RSA with
 * 16384 bits. Most of a handshake's are smaller (secret numbers among them OpenSSL clears itself), and larger ones are
 * buffers of records, which come and go with each.
 */
enum { WIPED_LEAST = 48, WIPED_MOST = 12 << 10 };

static bool is_wiped(size_t size)
{
    return size >= WIPED_LEAST && size <= WIPED_MOST;
}

static void wipe_and_free(void *p, const char *file, int line)
{
    size_t size = p == NULL ? 0 : malloc_usable_size(p);

    (void)file;
    (void)line;
    if (is_wiped(size))
        mem_free_secret(p, size);
    else
        mem_free(p);
}

/* Never moves a block without wiping where it was. */
static void *wipe_and_realloc(void *p, size_t size, const char *file, int line)
{
    size_t old = p == NULL ? 0 : malloc_usable_size(p);
    void *moved;

    if (size > 0 && !is_wiped(old))
        return mem_realloc(p, size);
    if (size > 0 && size <= old)
        return p;
    moved = size == 0 ? NULL : mem_alloc(size);
    if (moved != NULL)
        memcpy(moved, p, old);
    if (moved != NULL || size == 0)
        wipe_and_free(p, file, line);
    return moved;
}

void tls_memory_wipe(void)
{
    (void)CRYPTO_set_mem_functions(NULL, wipe_and_realloc, wipe_and_free);
}
