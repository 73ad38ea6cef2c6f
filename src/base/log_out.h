/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where log lines go, without ever waiting for who reads them: a pipe or a terminal is written to only while it says
 * that it has room, a socket (the journal's) by calls that do not block, whatever flags the descriptor has: those are
 * shared with other processes. Regular files and memory streams take everything, unless writing fails (a full disk).
 */
#ifndef MVPROXY_BASE_LOG_OUT_H
#define MVPROXY_BASE_LOG_OUT_H

#include <stdbool.h>
#include <stdio.h>

struct log_out {
    FILE *stream;
    int fd; /* -1: through the stream */
    bool socket;
};

void log_out_open(struct log_out *o, FILE *f);
/* How many of the bytes were taken; fewer than n: no more for now. *error: why the rest never will be (errno), or 0. */
size_t log_out_write(struct log_out *o, const char *p, size_t n, int *error);
/* Waits until more is taken, for so long at most. */
void log_out_wait(const struct log_out *o, int milliseconds);

#endif
