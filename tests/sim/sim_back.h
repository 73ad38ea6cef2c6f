/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated client side: the contracts of back/back.h and back/fetch.h, over servers that are C functions. Link it
 * instead of libback. Servers answer when and how the test says; every failure of the real thing can be had.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_BACK_H
#define MVPROXY_TESTS_SIM_SIM_BACK_H

#include "back/fetch.h"
#include "base/list.h"

struct sim_request;

enum sim_fault {
    SIM_FINE,
    SIM_REFUSE, /* no connection */
    SIM_HANG,   /* takes requests, says nothing; open streams stay silent */
    SIM_RESET,  /* connection lost before the head */
    SIM_CUT,    /* connection lost in the middle of the body */
};

struct sim_server {
    struct list_node node;
    char *address; /* host:port */
    enum sim_fault fault;
    uint64_t delay_ms; /* of every answer */
    uint64_t late_ms;  /* of what comes of an answer that has begun long ago: events of a watch */
    void (*serve)(void *arg, struct sim_request *q);
    /* The request is over (answered, failed, or the client went): q dies. NULL: not asked. */
    void (*gone)(void *arg, struct sim_request *q);
    void *arg;
    bool mvproxy;        /* and proves it to whom connects */
    bool leads_back;     /* to the mvproxy that asks it (origin_loops()) */
    uint64_t requests;   /* that arrived */
    uint64_t silent_ms;  /* HANG: since when it is suspected */
    uint64_t suspected;  /* times that connections to it were (origin_suspect()) */
    uint64_t given_up;   /* times that no answer was expected of it any more (origin_fail_unanswered()) */
    uint64_t connection; /* all its requests go over one, of this number; 0: the next one opens another */
    struct list open;
    struct loop *loop;
};

/* At this address from now on; freed with the back. */
struct sim_server *sim_server_new(struct back *b, struct loop *l, const char *address,
                                  void (*serve)(void *arg, struct sim_request *q), void *arg);
/* From now on this one's requests go to the servers of another one, as in one network. */
void sim_back_join(struct back *b, struct back *net);
/* Who reaches whom in that network; without: everybody everybody. Asked when a request arrives. */
void sim_back_paths(struct back *net, bool (*reach)(void *arg, const struct back *from, const struct sim_server *to),
                    void *arg);
/* Every open request fails now: the process died. */
void sim_server_break(struct sim_server *s);
/* Requests under way, all servers. */
size_t sim_open(const struct back *b);
/* Origins that their owner had no more use for. */
size_t sim_retired(const struct back *b);

const struct http_head *sim_request_head(const struct sim_request *q);
struct arena *sim_arena(const struct sim_request *q); /* lives as long as the request */
struct slice sim_method(const struct sim_request *q);
struct slice sim_path(const struct sim_request *q); /* without query */
/* The undecoded value of a query parameter; p is NULL if absent. */
struct slice sim_query(const struct sim_request *q, const char *name);
struct slice sim_header(const struct sim_request *q, const char *name); /* the first; p is NULL if absent */
bool sim_with_cert(const struct sim_request *q);
struct slice sim_body(const struct sim_request *q);
void *sim_note(const struct sim_request *q); /* for the server's own use */
void sim_set_note(struct sim_request *q, void *note);

/* A whole answer; etag NULL: none. The delay of the server applies once. */
void sim_reply(struct sim_request *q, unsigned status, const char *content_type, const char *etag, struct slice body);
/* An answer in pieces. */
void sim_head(struct sim_request *q, unsigned status, const char *content_type, const char *etag);
/* The same, with all fields of another answer. */
void sim_relay_head(struct sim_request *q, const struct http_head *head);
/* A further field of the answer, after sim_head or sim_reply. */
void sim_field(struct sim_request *q, const char *name, const char *value);
void sim_write(struct sim_request *q, struct slice data);
void sim_end(struct sim_request *q);
void sim_fail(struct sim_request *q);

#endif
