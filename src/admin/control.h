/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: what mvproxyctl talks to. A Unix socket whose file mode (0600) says who may; a request is a line
 * of JSON, the answer another:
 *
 *   {"v":1,"command":"explain","method":"GET","path":"/api/v1/pods"}
 *   {"v":1,"ok":true,"result":{...}}        {"v":1,"ok":false,"error":"..."}
 *
 * An answer that is made in pieces may turn out too long, or find no memory, when some of it has been sent: then its
 * line ends where it is, half an object, and a line with the error follows.
 *
 * Bounded in everything: LIMIT_CONTROL_CLIENTS at once, LIMIT_CONTROL_LINE bytes of a request, LIMIT_CONTROL_ANSWER of
 * an answer, TIMEOUT_CONTROL_MS without progress in either direction. Who breaks a rule is told so and closed; nobody
 * else notices.
 */
#ifndef MVPROXY_ADMIN_CONTROL_H
#define MVPROXY_ADMIN_CONTROL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

struct control;
struct json_object;
struct loop;

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

struct control_opts {
    const char *path;                       /* absolute */
    const struct control_command *commands; /* must live as long as the socket; NULL name ends it */
    void *arg;
};

/*
 * Listens there. A file of that name is replaced in one step, so that a process that takes over has the name and the
 * one before it keeps its open connections. NULL with *err: one line.
 */
struct control *control_new(struct loop *l, const struct control_opts *o, struct err *err);
/* To be called now and then: a file that somebody has removed (a cleaner of /run) is made again. One that another
 * process has put there stays. */
void control_keep(struct control *c);
/* Closes all, and removes the file if it is still ours. NULL is nothing. */
void control_free(struct control *c);

/* A member of a request: text, "" if it is missing; a whole number, or the fallback; a truth. */
const char *control_text(const struct json_object *request, const char *name);
int64_t control_number(const struct json_object *request, const char *name, int64_t fallback);
bool control_flag(const struct json_object *request, const char *name);

#endif
