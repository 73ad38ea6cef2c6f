#include "net/tls_memory.h"

#include <malloc.h>
#include <openssl/crypto.h>

#include "base/mem.h"

/*
 * Larger blocks are the buffers of records, which come and go with each: traffic, and no keys. A key of RSA with 16384
 * bits has 9 KiB.
 */
enum { WIPED_BYTES = 12 << 10 };

static void wipe_and_free(void *p, const char *file, int line)
{
    size_t size = p == NULL ? 0 : malloc_usable_size(p);

    (void)file;
    (void)line;
    if (size > WIPED_BYTES)
        mem_free(p);
    else
        mem_free_secret(p, size);
}

/* Never moves a block without wiping where it was. */
static void *wipe_and_realloc(void *p, size_t size, const char *file, int line)
{
    size_t old = p == NULL ? 0 : malloc_usable_size(p);
    void *moved;

    if (old > WIPED_BYTES || p == NULL)
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
