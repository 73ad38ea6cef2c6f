/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole small exchange of our own: request without (or with a short) body, response collected up to a ceiling. It is
 * asked for as it is, without compression; an answer that is encoded all the same is a failure.
 */
#ifndef MVPROXY_BACK_FETCH_H
#define MVPROXY_BACK_FETCH_H

#include "back/back.h"

struct fetch;

struct fetch_result {
    bool ok;                      /* a complete response arrived (of whatever status) */
    const char *failure;          /* when not ok */
    bool timed_out;               /* it is not ok, for that reason */
    const struct http_head *head; /* when ok */
    struct slice body;            /* valid during the call */
    uint64_t connection;          /* when ok: that it came over; one opened later has a higher number */
};

typedef void fetch_fn(void *arg, const struct fetch_result *r);

struct fetch_opts {
    struct origin *origin;
    bool with_cert, probe; /* as in back_opts */
    struct slice method, target;
    const struct http_field *fields; /* copied; Host is added if missing */
    size_t n_fields;
    struct slice body;        /* copied */
    size_t ceiling;           /* of the response's body, bytes */
    uint64_t timeout_ms;      /* for all of it */
    uint64_t head_timeout_ms; /* as in back_opts */
    /* If set, is told of the head before the first piece; may cancel the fetch. */
    void (*on_head)(void *arg, const struct http_head *head);
    /* If set, gets the body piece by piece as it arrives (fetch_result.body is empty then); false ends the fetch as a
     * failure. */
    bool (*on_piece)(void *arg, const struct http_head *head, struct slice piece);
};

/* fn is called exactly once unless cancelled, never from inside this call. NULL when out of memory. */
MEM_CHECK struct fetch *fetch_start(struct back *b, struct loop *l, const struct fetch_opts *o, fetch_fn *fn,
                                    void *arg);
/* No call any more, and *f is NULL then; if it is already, nothing is cancelled. */
void fetch_cancel(struct fetch **f);

#endif
