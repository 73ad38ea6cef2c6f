/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_memory.h"

static size_t blocks;

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static void *counted(void *p)
{
    blocks += p != NULL;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return counted(__real_malloc(n));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    return p == NULL ? counted(__real_realloc(p, n)) : __real_realloc(p, n);
}

void __wrap_free(void *p)
{
    blocks -= p != NULL;
    __real_free(p);
}

size_t sim_blocks(void)
{
    return blocks;
}
