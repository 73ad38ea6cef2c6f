/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged while a test listens. */
#ifndef MVPROXY_TESTS_LIB_LISTEN_H
#define MVPROXY_TESTS_LIB_LISTEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "lib/tap.h"

static char *logged;
static size_t n_logged;
static FILE *log_file;

static void listen_to_log(void)
{
    log_file = open_memstream(&logged, &n_logged);
    if (log_file == NULL)
        tap_bail("no memory stream");
    log_set_stream(log_file);
}

/* How often a line has this in it. */
static unsigned heard(const char *what)
{
    unsigned n = 0;

    (void)fflush(log_file);
    for (const char *at = logged; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

static void listen_no_more(void)
{
    log_set_stream(stderr);
    (void)fclose(log_file);
    free(logged);
}

#endif
