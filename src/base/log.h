/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log lines as Kubernetes components print them: klog text
 *   I1121 05:11:35.303239    8146 peers.c:148] "Peer added" id="apiserver-..." address="10.0.0.2:6443"
 * or JSON, chosen once. Messages start with a capital and have no full stop; facts go into the pairs.
 * A value is cut where it takes more than LIMIT_LOG_VALUE bytes of its line (1 KiB where the line would be longer than
 * LIMIT_LOG_LINE): the last pair, "truncated", names those that were.
 * The logger's own state is the documented exception to "no mutable globals". Never log credentials.
 *
 *   log_info("Peer added", LS("id", id), LU("port", port));
 *   log_error("Could not load certificate", LT("file", path), LT("err", err.text));
 */
#ifndef MVPROXY_BASE_LOG_H
#define MVPROXY_BASE_LOG_H

#include <stdio.h>

#include "base/slice.h"

enum log_level { LOG_FATAL, LOG_ERROR, LOG_WARNING, LOG_INFO };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_kv {
    const char *key; /* NULL ends the array */
    enum { LOG_KV_TEXT, LOG_KV_LIST, LOG_KV_UINT, LOG_KV_INT, LOG_KV_BOOL } kind;
    struct slice text;
    const struct slice *list; /* `u` texts */
    uint64_t u;
    int64_t i;
};

/* clang-format off */
#define LS(k, s) {.key = (k), .kind = LOG_KV_TEXT, .text = (s)}
#define LT(k, s) {.key = (k), .kind = LOG_KV_TEXT, .text = slice_str(s)}
#define LL(k, s, n) {.key = (k), .kind = LOG_KV_LIST, .list = (s), .u = (n)}
#define LU(k, v) {.key = (k), .kind = LOG_KV_UINT, .u = (uint64_t)(v)}
#define LI(k, v) {.key = (k), .kind = LOG_KV_INT, .i = (int64_t)(v)}
#define LB(k, v) {.key = (k), .kind = LOG_KV_BOOL, .u = (v)}
/* clang-format on */

/* `verbosity`: 0 always shown, n shown at -v=n and above (errors and warnings pass 0). */
void log_emit(enum log_level level, int verbosity, const char *file, int line, const char *msg,
              const struct log_kv *kv);
bool log_enabled(int verbosity);

#define LOG_KVS(...) ((const struct log_kv[]){__VA_ARGS__ __VA_OPT__(, ){.key = NULL}})
#define log_error(msg, ...) log_emit(LOG_ERROR, 0, __FILE__, __LINE__, (msg), LOG_KVS(__VA_ARGS__))
#define log_warning(msg, ...) log_emit(LOG_WARNING, 0, __FILE__, __LINE__, (msg), LOG_KVS(__VA_ARGS__))
#define log_info(msg, ...) log_emit(LOG_INFO, 0, __FILE__, __LINE__, (msg), LOG_KVS(__VA_ARGS__))
/* Verbose: evaluated only when enabled. What each level is for is said by the option v (tests/lint/log compares). */
#define log_v(n, msg, ...)                                                                                             \
    do {                                                                                                               \
        if (log_enabled(n))                                                                                            \
            log_emit(LOG_INFO, (n), __FILE__, __LINE__, (msg), LOG_KVS(__VA_ARGS__));                                  \
    } while (0)

void log_set_verbosity(int v);
int log_verbosity(void);
void log_set_format(enum log_format format);
/*
 * Where lines go; stderr by default. Tests may give a memory stream. If it is the stream that systemd connected to the
 * journal (JOURNAL_STREAM), each line starts with its priority in angle brackets.
 */
void log_set_stream(FILE *f);
/*
 * Buffered: information waits for log_flush(), which the event loop calls once per turn, and many lines become one
 * write(2); warnings and errors are written at once, with all that waits before them. Off at first.
 */
void log_set_buffered(bool on);
void log_flush(void);
/*
 * Nothing here waits for whoever reads: up to LIMIT_LOG_BUFFER is kept for him, in order, and taken out of by each
 * log_flush(); lines for which there is no room, or that cannot be written (a full disk), are dropped, counted, and
 * said later. log_finish() is for who ends: it waits, for a moment at most. So does LOG_FATAL.
 */
void log_finish(void);
uint64_t log_dropped(void); /* lines, in all */

#endif
