/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the control socket (control.h): its requests, one answer at a time, and its end.
 *
 * Either it asks, or it takes an answer, or it waits for one that is being made. The first two are its own affair, and
 * have an end that no byte moves: timeout_ms for each whole request, and as much for taking each answer. What takes us
 * longer is not held against it.
 */
#ifndef MVPROXY_ADMIN_CONTROL_CLIENT_H
#define MVPROXY_ADMIN_CONTROL_CLIENT_H

#include "admin/control_request.h"
#include "base/list.h"

struct control_client;
struct loop;
struct metric;
struct metrics;

enum control_close {
    CONTROL_CLOSE_CLIENT,          /* the client ended it between two requests */
    CONTROL_CLOSE_CLIENT_GONE,     /* the client ended it in the middle of a request or of an answer */
    CONTROL_CLOSE_IDLE_TIMEOUT,    /* nothing was asked */
    CONTROL_CLOSE_REQUEST_TIMEOUT, /* a request that never ended */
    CONTROL_CLOSE_ANSWER_TIMEOUT,  /* an answer that was not taken in time */
    CONTROL_CLOSE_BAD_REQUEST,     /* a request too long, or that ended half-way */
    CONTROL_CLOSE_ANSWER_ABORTED,  /* an answer that could not be completed */
    CONTROL_CLOSE_CROWDED_OUT,     /* another one waited, and it was the one to go */
    CONTROL_CLOSE_NO_MEMORY,
    CONTROL_CLOSE_SHUTDOWN,
    CONTROL_CLOSE_COUNT
};

/* What all clients of a socket share; it must outlive them. */
struct control_host {
    struct loop *loop;
    const struct control_command *commands;
    void *arg; /* of the commands */
    uint64_t timeout_ms;
    struct list clients;
    struct metric *closed[CONTROL_CLOSE_COUNT]; /* NULL: not counted */
    void (*on_left)(void *arg);                 /* one has been closed */
    void *on_left_arg;
    bool wanted; /* a place: who has had an answer makes room instead of asking again */
};

/* Declares what is counted. */
void control_host_count(struct control_host *h, struct metrics *m);

/* Takes fd; on failure it is closed. */
void control_client_serve(struct control_host *h, int fd);
/* Closes one that has left while its answer is made, else the one that has kept us waiting for longest, and for
 * grace_ms at least. False: none has to go now. */
bool control_client_make_room(struct control_host *h, uint64_t grace_ms);
void control_client_close_all(struct control_host *h);

#endif
