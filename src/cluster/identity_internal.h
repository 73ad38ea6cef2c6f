/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of identity.h: identity.c decides who keeps the Lease, identity_lease.c writes ours, identity_leave.c
 * removes it. One request at a time: whoever asks is called back in the state that asked, or the state has been left.
 */
#ifndef MVPROXY_CLUSTER_IDENTITY_INTERNAL_H
#define MVPROXY_CLUSTER_IDENTITY_INTERNAL_H

#include "cluster/identity.h"

#include "base/buf.h"
#include "base/limits.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/lease_news.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    IDENTITY_BODY_BYTES = 16 << 10,
    IDENTITY_HOLDER_BYTES = SERVER_ID_BYTES + 37,
};

enum identity_state {
    STATE_STOPPED,
    STATE_DECIDING,   /* what does the local server do? */
    STATE_STARTING,   /* whose is the Lease that is there? */
    STATE_PUBLISHING, /* ours, and renewed */
    STATE_YIELDED,    /* somebody else renews it */
    STATE_OBSERVING,
    STATE_LEAVING, /* ours is being removed */
};

typedef void identity_step_fn(struct identity *i);

struct identity {
    struct identity_opts o;
    char *id, *hostname;
    char advertise[LIMIT_ADDRESS_TEXT_BYTES];
    char holder[IDENTITY_HOLDER_BYTES];
    char former[IDENTITY_HOLDER_BYTES]; /* until the present one is confirmed: the Lease may still have this; "": no
                                           such */
    bool anew;                          /* another holder, as soon as the present one is confirmed */
    char path[sizeof LEASE_COLLECTION_PATH + SERVER_ID_BYTES_126 + 1];
    struct loop *loop;
    enum identity_state state;
    struct fetch *call; /* at most one */
    struct loop_timer *timer, *deadline;
    identity_step_fn *next;
    struct backoff backoff;
    unsigned tries;  /* in a row without waiting: of renewing ours, or of writing into the server's */
    unsigned failed; /* in a row */
    unsigned minor;  /* of the local server, 0: unknown */
    bool decide_again;
    bool asked;     /* the local server for its version, in this row of requests without waiting */
    bool returning; /* LEAVING only for a moment: then decides anew, by another mode */
    bool may_exist; /* we have asked for it to be created, or it is ours */
    bool conceded;  /* that somebody else renews it has been said */
    char *uid, *version;
    int64_t sent_us, confirmed_us; /* renewals of ours: asked for, answered */
    char *other_holder;            /* as last looked at */
    int64_t other_renew_us;
    uint64_t other_noted_ms; /* when it was first seen like that */
    bool patched;            /* the annotation, in somebody else's Lease */
    bool overruled;          /* a differing address of the server's own stands */
    struct arena *arena;
    struct lease_gc *gc;
    struct lease_news *news; /* told where, while there is a Lease that stands for this server */
    void (*done)(void *arg); /* of the stop that is under way */
    void *done_arg;
    void (*due)(void *arg); /* of one that is over, called when the turn ends */
    void *due_arg;
    struct loop_deferred over;
};

/* The next step, so much later. */
void identity_after(struct identity *i, uint64_t ms, identity_step_fn *next);
/* It did not work: said (the second time in a row, as a warning), and `next` after a while. */
void identity_failing(struct identity *i, const char *what, const char *why, identity_step_fn *next);
/* Asks the local server; body may be NULL. False when out of memory. */
bool identity_send(struct identity *i, const char *method, const char *target, struct buf *body, fetch_fn *fn);
/* Every callback of a step begins so: true if the state that asked is no more. */
bool identity_left_meanwhile(struct identity *i);
void identity_set_state(struct identity *i, enum identity_state s);
/* Whose turn is it to keep the Lease? */
void identity_decide(struct identity *i);

/* identity_lease.c: whose is the Lease that is there? Ours is made, or renewed. */
void identity_look(struct identity *i);
void identity_renew(struct identity *i);
/* Another holder than any before: i->holder. */
void identity_take_holder(struct identity *i);
/* The Lease of an answer, in i->arena until the next one. */
bool identity_read(struct identity *i, const struct fetch_result *r, struct lease *l);
bool identity_is_ours(const struct identity *i, const struct lease *l);
/* With uid and resourceVersion as preconditions. False when out of memory. */
MEM_CHECK bool identity_remove(struct identity *i, const struct lease *l, fetch_fn *fn);

/* identity_leave.c: removes ours, if it still is. */
void identity_leave(struct identity *i);
/* i->deadline: it takes too long. */
void identity_too_late(void *arg);
/* Whoever asked for the stop that is over, or was overtaken by a start, hears of it when the turn ends. */
void identity_tell(struct identity *i);

#endif
