/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint64_t steps;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    steps++;
}

/* --wrap of the linker; eight bytes at a time are near what these do. */
void *__real_memchr(const void *p, int c, size_t n);
void *__wrap_memchr(const void *p, int c, size_t n);
void *__wrap_memchr(const void *p, int c, size_t n)
{
    const void *hit = __real_memchr(p, c, n);

    steps += (hit == NULL ? n : (size_t)((const char *)hit - (const char *)p)) / 8 + 1;
    return (void *)(uintptr_t)hit;
}

int __real_memcmp(const void *a, const void *b, size_t n);
int __wrap_memcmp(const void *a, const void *b, size_t n);
int __wrap_memcmp(const void *a, const void *b, size_t n)
{
    steps += n / 8 + 1;
    return __real_memcmp(a, b, n);
}

void *__real_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n)
{
    steps += n / 8 + 1;
    return __real_memcpy(to, from, n);
}

void *__real_memmove(void *to, const void *from, size_t n);
void *__wrap_memmove(void *to, const void *from, size_t n);
void *__wrap_memmove(void *to, const void *from, size_t n)
{
    steps += n / 8 + 1;
    return __real_memmove(to, from, n);
}

int __real_vsnprintf(char *to, size_t n, const char *fmt, va_list ap);
int __wrap_vsnprintf(char *to, size_t n, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
int __wrap_vsnprintf(char *to, size_t n, const char *fmt, va_list ap)
{
    int length = __real_vsnprintf(to, n, fmt, ap);

    steps += length > 0 ? (size_t)length / 8 + 1 : 1;
    return length;
}

/* What it is with _FORTIFY_SOURCE. */
int __real___vsnprintf_chk(char *to, size_t n, int flag, size_t room, const char *fmt, va_list ap);
int __wrap___vsnprintf_chk(char *to, size_t n, int flag, size_t room, const char *fmt, va_list ap)
    __attribute__((format(printf, 5, 0)));
int __wrap___vsnprintf_chk(char *to, size_t n, int flag, size_t room, const char *fmt, va_list ap)
{
    int length = __real___vsnprintf_chk(to, n, flag, room, fmt, ap);

    steps += length > 0 ? (size_t)length / 8 + 1 : 1;
    return length;
}

uint64_t steps_taken(void)
{
    return steps;
}

void steps_reset(void)
{
    steps = 0;
}
