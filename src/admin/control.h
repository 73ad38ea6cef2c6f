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
 * an answer; TIMEOUT_CONTROL_MS for each whole request, and in all for taking each answer, however many bytes come or
 * go meanwhile. Who breaks a rule is told so and closed; nobody else notices.
 *
 * Nobody shuts out another: for who finds no place, the one makes room that has been asking or taking its answer for
 * longest, and for GRACE_CONTROL_MS at least (in a flood for less and less). Who waits for an answer that is being made
 * stays; if all do, and for as long, who got one makes room when it asks again.
 */
#ifndef MVPROXY_ADMIN_CONTROL_H
#define MVPROXY_ADMIN_CONTROL_H

#include "admin/control_request.h"

struct control;
struct loop;
struct metrics;

/* Of its path: it is made under another name first, with the number of the process behind. */
enum { CONTROL_PATH_MAX = 99 };

struct control_opts {
    const char *path;                       /* absolute, at most CONTROL_PATH_MAX bytes */
    const struct control_command *commands; /* must live as long as the socket; NULL name ends it */
    void *arg;
    struct metrics *metrics;       /* NULL: nothing is counted */
    uint64_t timeout_ms, grace_ms; /* for tests; 0: as in base/limits.h */
};

/*
 * Listens there. A socket of that name is replaced in one step, so that a process that takes over has the name and the
 * one before it keeps its open connections; but what is no socket is neither replaced nor removed, here and below.
 * NULL with *err: one line.
 */
struct control *control_new(struct loop *l, const struct control_opts *o, struct err *err);
/* To be called now and then: a file that somebody has removed (a cleaner of /run) is made again. One that another
 * process has put there stays. */
void control_keep(struct control *c);
/* Closes all, and removes the file if it is still ours. NULL is nothing. */
void control_free(struct control *c);

#endif
