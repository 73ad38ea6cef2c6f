/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule of the fleet simulation (fleet_test.c): what has happened, what is true of it, and what answers and
 * documents are held against.
 */
#ifndef MVPROXY_TESTS_UNIT_PROXY_SCHEDULE_H
#define MVPROXY_TESTS_UNIT_PROXY_SCHEDULE_H

#include "sim/fleet.h"
#include "sim/fleet_customs.h"

enum {
    NODES_MAX = FLEET_MAX,
    /* What was changed so long ago is known everywhere: the interval of looks and what a look takes. */
    KNOWN_MS = 45000,
    DEAF_MS = 700000, /* until a watch that says nothing is taken for dead, or ends by itself */
    HEARD_MS = 15000, /* a Lease, of an mvproxy or a server that started that long ago */
    CONVERGED_MS = 2000,
    RENEWED_MS = 10000,    /* between renewals of a Lease */
    UNRENEWED_MS = 28000,  /* after its last renewal a server may be taken for away */
    FORGOTTEN_MS = 290000, /* after which a server that is away may be forgotten */
    STUCK_MS = 20000,      /* until a server that takes requests and answers none is known for that */
    /* Until a Lease that nobody renews is forgotten: so long what such a server has is not known, and what each mvproxy
       names in its place may be another. */
    GHOST_MS = 400000,
    N_THINGS = 11,
    N_NOTHINGS = 2, /* behind them: what no server ever has */
    /* Then subresources, which of the servers that have the resource only some have; then what is in fleet_customs.h.
     */
    SUB_THINGS = N_THINGS + N_NOTHINGS,
    N_SUBS = 4,
    CUSTOM_THINGS = SUB_THINGS + N_SUBS,
    LAG_MAX_MS = 900, /* until a server serves a custom resource that came, or no more one that went */
};

/* What a node's mvproxy must know of a server (schedule_shown.c). */
enum standing {
    STANDING_UNSURE,  /* it may know this or that, for all that can be said */
    STANDING_NOTHING, /* nor can have heard of it */
    STANDING_NAMED,   /* there is such a server, where it is, and it was never there to be read */
    STANDING_AWAY,    /* what it had as it was read, and it cannot be read any more */
    STANDING_THERE,   /* what it has */
};

/* And of all. */
struct schedule_view {
    unsigned node;
    enum standing of[NODES_MAX];
    bool unsure, named, there; /* of some server; there: of one other than its own */
};

/* What a group/version may be in a document: each of it, or not. */
struct may {
    bool be_absent, be_stale, be_current;
};

/* What releases have: each is there or not; versions of a group follow each other. */
struct thing {
    const char *group, *version, *resource;
};
const struct thing *schedule_thing(size_t i);

struct schedule {
    struct fleet *fleet;
    uint64_t number, state, more_state; /* more: of what was added later, so that old schedules stay what they are */
    bool tell, failed;
    char apis[NODES_MAX][600];
    bool heard[NODES_MAX][NODES_MAX]; /* this mvproxy, since it started, of that server */
    bool told[NODES_MAX][NODES_MAX];  /* and where it is, since that was withdrawn */
    bool met[NODES_MAX][NODES_MAX];   /* and has read it, as it is or was last */
    uint64_t slow_ms;                 /* until when some server was slow to answer, or memory short */
    uint64_t dawdled_ms[NODES_MAX];   /* and when this one last was by so much that a probe may have failed; 0: never */
    uint64_t deaf_ms;                 /* when watches fell silent; 0: never */
    unsigned kinds;                   /* of steps */
    struct customs *customs;          /* NULL: none */
    bool excluded[NODES_MAX][CUSTOMS]; /* this mvproxy, since it started, knows that it is one */
    /* Of answers for these; NULL: there are none. */
    void (*judge_custom)(struct schedule *s, const struct fleet_answer *a);
    bool newest;                                   /* skewed-resources */
    unsigned minor[NODES_MAX], schemas[NODES_MAX]; /* its version; which schemas it has */
    /* Since when a server does not renew its Lease, and may not have, if it began again only for a while; and does so
       again. 0: never did not. */
    uint64_t unrenewed_ms[NODES_MAX], silent_ms[NODES_MAX], renewed_ms[NODES_MAX];
    /* This mvproxy, since it started, might have read that server at some time, or heard of it. */
    bool could_read[NODES_MAX][NODES_MAX], could_hear[NODES_MAX][NODES_MAX];
    bool legacy[NODES_MAX];
    uint64_t formed_ms[NODES_MAX];  /* when the form of a server's discovery was changed as it ran; 0: never */
    int64_t skew_us[NODES_MAX];     /* of its clock */
    uint64_t settles_ms[NODES_MAX]; /* until its Lease, with its address, is the one that counts */
    bool keeps_holder[NODES_MAX];   /* of its Lease, when another process of it starts */
    bool mute[NODES_MAX];           /* a server without a Lease of its own: its mvproxy has to publish one */
    unsigned nodes;
    bool short_of_memory;
    uint64_t started_ms[NODES_MAX], load_ms[NODES_MAX]; /* a server, as it is or was last; ready that much later */
    bool lies[NODES_MAX];
    uint64_t lied_ms[NODES_MAX];             /* when a server began or ceased to lie of what it serves; 0: never did */
    unsigned asked, refused, listed, denied; /* denied: of what nobody has, while only the node's server is away */
    uint64_t looked_ms;                      /* at documents, last */
    unsigned shown, whole, same; /* group/versions that were judged, documents of which all was known, pairs */
    uint64_t digest;             /* of all answers */
    bool only_etcd;              /* knows addresses */
    bool cut_etcd[NODES_MAX];
    uint64_t hung_ms[NODES_MAX], woke_ms[NODES_MAX]; /* a server hung last from then till then; 0: never, still */
    uint64_t ghost_ms;               /* when the Lease of a server that is not there was written, or by when all have
                                        seen it if watches had fallen silent before; 0: never */
    bool settled;                    /* all is well, and has been for long enough to be known everywhere */
    bool leaderless, silent, lost;   /* etcd: without leader; its watches; records */
    uint64_t etcd_since_ms, etcd_ms; /* its trouble began, and was there last; 0: never */
};

uint64_t schedule_dice(struct schedule *s, uint64_t sides);
uint64_t schedule_more_dice(struct schedule *s, uint64_t sides);
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
/* What is held to be true of a node; times in milliseconds, 0: it is not so. */
bool schedule_believed(struct schedule *s, unsigned node); /* it does not lie, nor did of late */
uint64_t schedule_in_touch(struct schedule *s, unsigned from,
                           unsigned to);                           /* nothing has kept one from reading the other */
uint64_t schedule_patience(struct schedule *s);                    /* how long what changes may take to be known */
bool schedule_haunted(struct schedule *s);                         /* there is, or was, a Lease of nobody */
bool schedule_may_have_lapsed(struct schedule *s, unsigned node);  /* for want of renewals of its Lease */
bool schedule_may_be_forgotten(struct schedule *s, unsigned node); /* as soon as it does not answer */
/* What a server has that was read, and is there or only away, is in the merged document: clients act on what vanishes.
 */
void schedule_judge_documents(struct schedule *s);
/* The documents have all that they must have, each group/version Current or Stale as it must be, and nothing else; and
 * are the same where they must be (schedule_shown.c). */
void schedule_judge_shown(struct schedule *s);
/* For how long that server has not been there to be read from a node, as far as that can have been found out. */
uint64_t schedule_unreachable(struct schedule *s, unsigned from, unsigned to);
struct gvr schedule_custom_gvr(size_t which);
/* What must be true of custom resources and aggregated APIs (schedule_customs.c): in a document, and in answers. */
struct may schedule_custom_may(struct schedule *s, const struct schedule_view *v, size_t which);
void schedule_judge_custom(struct schedule *s, const struct fleet_answer *a);
void schedule_note_customs(struct schedule *s);
/* Whether nodes may describe them differently: each is as one server tells it, and legacy discovery tells less. */
bool schedule_customs_differ(struct schedule *s);
void schedule_note_shown(struct schedule *s); /* before anything changes, with schedule_note() */
void schedule_on_answer(void *schedule, const struct fleet_answer *a);

#endif
