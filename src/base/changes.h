/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened lately, for people: who came, went or changed, what was not believed, and when. The last
 * LIMIT_CHANGES of each of the two sorts; what is older is forgotten.
 */
#ifndef MVPROXY_BASE_CHANGES_H
#define MVPROXY_BASE_CHANGES_H

#include "base/mem.h"

struct metrics;

enum change_kind {
    CHANGE_CAME,
    CHANGE_WENT,
    CHANGE_FAILED,
    CHANGE_RECOVERED,
    CHANGE_CHANGED,
    CHANGE_DISBELIEVED, /* kept apart: many of the others do not push it out */
};

enum { CHANGE_SUBJECT_BYTES = 80, CHANGE_TEXT_BYTES = 512 };

struct change {
    int64_t wall_us; /* when it happened; the last time, if it is repeated */
    enum change_kind kind;
    unsigned times;
    char subject[CHANGE_SUBJECT_BYTES]; /* a server's host name, or what else it is about; cut off where it is longer */
    char text[CHANGE_TEXT_BYTES];       /* ends with "..." where it is longer */
};

struct changes;

struct changes *changes_new(void); /* ends the process when out of memory */
void changes_free(struct changes *c);
/* Counts from now on what is disbelieved, by subject, each time: mvproxy_disbelieved_total. */
void changes_count(struct changes *c, struct metrics *m);
/* The same once more after the last of its sort counts up. NULL changes: nobody wants to know. */
void changes_add(struct changes *c, enum change_kind kind, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Of the disbelieved, or all others: the latest is 0. NULL: there are no more, or nobody keeps them. */
const struct change *changes_at(const struct changes *c, bool disbelieved, size_t i);
/* "came", "went", "failed", "recovered", "changed", "disbelieved". Static. */
const char *change_name(enum change_kind kind);

#endif
