/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule of the fleet simulation (fleet_test.c): what has happened, what is true of it, and what answers and
 * documents are held against.
 */
#ifndef MVPROXY_TESTS_UNIT_PROXY_SCHEDULE_H
#define MVPROXY_TESTS_UNIT_PROXY_SCHEDULE_H

#include "sim/fleet.h"

enum {
    NODES_MAX = FLEET_MAX,
    /* What was changed so long ago is known everywhere: the interval of looks and what a look takes. */
    KNOWN_MS = 45000,
    DEAF_MS = 700000, /* until a watch that says nothing is taken for dead, or ends by itself */
    HEARD_MS = 15000, /* a Lease, of an mvproxy or a server that started that long ago */
    CONVERGED_MS = 2000,
    STUCK_MS = 20000, /* until a server that takes requests and answers none is known for that */
    /* Until a Lease that nobody renews is forgotten: so long what such a server has is not known, and what each mvproxy
       names in its place may be another. */
    GHOST_MS = 400000,
    N_THINGS = 11,
    N_NOTHINGS = 2, /* behind them: what no server ever has */
};

/* What releases have: each is there or not; versions of a group follow each other. */
struct thing {
    const char *group, *version, *resource;
};
const struct thing *schedule_thing(size_t i);

struct schedule {
    struct fleet *fleet;
    uint64_t number, state;
    bool tell, failed;
    char apis[NODES_MAX][600];
    bool heard[NODES_MAX][NODES_MAX]; /* this mvproxy, since it started, of that server */
    bool told[NODES_MAX][NODES_MAX];  /* and where it is, since that was withdrawn */
    bool met[NODES_MAX][NODES_MAX];   /* and has read it, as it is or was last */
    uint64_t slow_ms;                 /* until when some server was slow to answer, or memory short */
    uint64_t deaf_ms;                 /* when watches fell silent; 0: never */
    unsigned kinds;                   /* of steps */
    int64_t skew_us[NODES_MAX];       /* of its clock */
    uint64_t settles_ms[NODES_MAX];   /* until its Lease, with its address, is the one that counts */
    bool keeps_holder[NODES_MAX];     /* of its Lease, when another process of it starts */
    bool mute[NODES_MAX];             /* a server without a Lease of its own: its mvproxy has to publish one */
    unsigned nodes;
    bool short_of_memory;
    uint64_t started_ms[NODES_MAX]; /* a server, as it is or was last */
    bool lies[NODES_MAX];
    uint64_t lied_ms[NODES_MAX];             /* when a server began or ceased to lie of what it serves; 0: never did */
    unsigned asked, refused, listed, denied; /* denied: of what nobody has, while only the node's server is away */
    uint64_t digest;                         /* of all answers */
    bool only_etcd;                          /* knows addresses */
    bool cut_etcd[NODES_MAX];
    uint64_t hung_ms[NODES_MAX], woke_ms[NODES_MAX]; /* a server hung last from then till then; 0: never, still */
    uint64_t ghost_ms;               /* when the Lease of a server that is not there was written, or by when all have
                                        seen it if watches had fallen silent before; 0: never */
    bool settled;                    /* all is well, and has been for long enough to be known everywhere */
    bool leaderless, silent, lost;   /* etcd: without leader; its watches; records */
    uint64_t etcd_since_ms, etcd_ms; /* its trouble began, and was there last; 0: never */
};

uint64_t schedule_dice(struct schedule *s, uint64_t sides);
/* In the story, if it is told. */
void __attribute__((format(printf, 2, 3))) schedule_say(struct schedule *s, const char *fmt, ...);
/* Something that must hold does not. */
void __attribute__((format(printf, 2, 3))) schedule_broken(struct schedule *s, const char *fmt, ...);
struct gvr schedule_gvr(size_t thing);

/* Who may have seen whose Lease, through his own server; who has read whom. To be called before anything changes. */
void schedule_note(struct schedule *s);
/* A node's mvproxy takes back what it has said of itself. */
void schedule_withdraw(struct schedule *s, unsigned node);
bool schedule_etcd_troubled(struct schedule *s);
/* What a server has that was read, and is there or only away, is in the merged document: clients act on what vanishes.
 */
void schedule_judge_documents(struct schedule *s);
void schedule_on_answer(void *schedule, const struct fleet_answer *a);

#endif
