/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the control socket (control.h): one line with a JSON object, its members, and the commands that answer
 * it. What is not as it has to be is refused with a text for whoever asked: a member of another type is never taken
 * for one that is missing.
 */
#ifndef MVPROXY_ADMIN_CONTROL_REQUEST_H
#define MVPROXY_ADMIN_CONTROL_REQUEST_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

struct json_object;

/* One command: appends its result, a JSON value, to *result. False with *err: the answer is that, and no result. */
typedef bool control_fn(const struct json_object *request, struct buf *result, struct err *err, void *arg);

/*
 * A command whose answer may be long or take more than a moment: begin() makes what more() appends the next piece of
 * the result from, which is all if it is false; a piece is some milliseconds and some ten KiB, and the next is asked
 * for in another turn, when the client has taken it, or after pause_ms if it was empty. end() is called once. NULL of
 * begin with *err: the answer is that.
 */
struct control_job {
    void *(*begin)(const struct json_object *request, struct err *err, void *arg);
    bool (*more)(void *job, struct buf *piece);
    void (*end)(void *job);
    uint64_t pause_ms; /* 0: the next turn */
};

struct control_command {
    const char *name;
    control_fn *fn;
    const struct control_job *job; /* if fn is NULL */
};

/* To be released with json_object_put(). NULL with *err. The line is without its newline. */
struct json_object *control_request_parse(struct slice line, struct err *err);
/* Which of them is asked for; a NULL name ends the list. NULL with *err. */
const struct control_command *control_request_command(const struct json_object *request,
                                                      const struct control_command *commands, struct err *err);

/*
 * A member of a request: text without a NUL, a whole number, a truth. One that is missing leaves *out as it is. False
 * with *err: it is of another type.
 */
bool control_text(const struct json_object *request, const char *name, const char **out, struct err *err);
bool control_number(const struct json_object *request, const char *name, int64_t *out, struct err *err);
bool control_flag(const struct json_object *request, const char *name, bool *out, struct err *err);

#endif
