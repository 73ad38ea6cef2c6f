/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a watch stream into events: one JSON document per line, as kube-apiserver sends them.
 */
#ifndef MVPROXY_KUBE_WATCH_H
#define MVPROXY_KUBE_WATCH_H

#include "base/mem.h"

enum watch_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

struct watch_event {
    enum watch_type type;
    struct slice object;           /* raw JSON */
    struct slice resource_version; /* object.metadata.resourceVersion; "" if absent */
    struct slice ns, name;         /* of object.metadata, for object_join(); p is NULL if absent, or with escapes */
    unsigned code;                 /* WATCH_ERROR: the Status' code (410: relist), else 0 */
    struct slice message;          /* WATCH_ERROR: the Status' message as JSON text without its quotes, else "" */
};

enum watch_result {
    WATCH_EVENT,    /* *ev is filled; its slices live until the next call on the parser */
    WATCH_MORE,     /* no complete line is left: feed more */
    WATCH_BAD_LINE, /* a line that is not an event was skipped: count it; the stream goes on with the next line (or
                       relist) */
    WATCH_TOO_LONG, /* a line over the limit is being skipped; *ev has its type, and the beginning of its object (n is 0
                     * if none has arrived). The stream goes on after it */
    WATCH_NO_MEMORY, /* sticky: the stream must be ended */
};

struct watch_parser;

/* `line_limit`: bytes. NULL when out of memory. */
MEM_CHECK struct watch_parser *watch_parser_new(size_t line_limit);
void watch_parser_free(struct watch_parser *p);
/*
 * Copies bytes into the parser. To be followed by watch_parser_next() until WATCH_MORE before the next call, so that
 * the parser never holds more than one line and the bytes of one call.
 */
void watch_parser_feed(struct watch_parser *p, struct slice bytes);
enum watch_result watch_parser_next(struct watch_parser *p, struct watch_event *ev);

#endif
