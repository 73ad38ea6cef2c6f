/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a check has found: one list, made once, printed for people or as JSON.
 */
#ifndef MVPROXY_CHECK_FINDINGS_H
#define MVPROXY_CHECK_FINDINGS_H

#include "base/buf.h"
#include "base/mem.h"

enum check_section {
    CHECK_CONFIGURATION,
    CHECK_CERTIFICATES,
    CHECK_LOCAL,
    CHECK_IDENTITY,
    CHECK_PEERS,
    CHECK_ETCD,
    CHECK_HOST,
    CHECK_SECTIONS
};

enum check_mark {
    CHECK_GOOD,
    CHECK_SKIPPED, /* cannot be told because of something else, which has its own mark */
    CHECK_WARNING, /* works now, and should be looked at */
    CHECK_WRONG,
    CHECK_MARKS
};

struct findings;

/* Both end the process when out of memory: nothing runs that it could disturb. */
struct findings *findings_new(void);
void findings_free(struct findings *f);

/* Called whenever another section is entered: those before it are as they will be. */
typedef void findings_fn(void *arg);
void findings_on_enter(struct findings *f, findings_fn *fn, void *arg);
/* The section entered last: its title. */
const char *findings_section(const struct findings *f);
/* Of those that are added from now on. */
void findings_enter(struct findings *f, enum check_section s);
/* `check` is a stable name for scripts (a literal); `remedy` what to do, copied. The texts may hold anything. Those
 * beyond a thousand, which a hostile process can cause, are only counted. */
void findings_good(struct findings *f, const char *check, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void findings_skipped(struct findings *f, const char *check, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void findings_warn(struct findings *f, const char *check, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void findings_wrong(struct findings *f, const char *check, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

size_t findings_count(const struct findings *f, enum check_mark m);
/* 0: nothing to be done; 1: warnings only; 2: something is wrong. */
int findings_exit_status(const struct findings *f);

/* `utf8`: what the terminal can show. Control bytes are shown as '?'. Each section is printed once: */
/* those before the one that has been entered last, */
void findings_print_past(struct findings *f, bool utf8, struct buf *out);
/* all that is left, and what it comes to. */
void findings_print_text(struct findings *f, bool utf8, struct buf *out);
void findings_print_json(const struct findings *f, struct buf *out);

#endif
