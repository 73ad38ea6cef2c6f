/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sections of a check share: the configuration once it is known, and what is needed to ask servers, each as
 * the daemon makes it.
 */
#ifndef MVPROXY_CHECK_SCENE_H
#define MVPROXY_CHECK_SCENE_H

#include "check/check.h"
#include "check/unit.h"
#include "daemon/config.h"
#include "daemon/trust.h"
#include "daemon/wire.h"

struct api;
struct api_request;
struct arena;
struct etcd_endpoint;
struct metrics;

struct scene {
    const struct check_opts *opts;
    struct findings *f;
    struct unit unit;      /* of the process, or mvproxy.service */
    const char *user;      /* as whom the service runs; borrowed */
    struct arena *arena;   /* of the command line of the process */
    const char *file;      /* of the configuration; NULL: none */
    struct config *config; /* NULL: it is wrong */
    bool of_process;       /* the file is gone, and that is what the process has */
    char hostname[256];
    struct trust trust;
    bool trusted; /* all of it could be loaded */

    struct metrics *metrics;
    struct loop *loop;
    struct back *back;
    struct wire_surroundings around;
    struct api *api;
    bool connected;             /* the five above are there */
    struct etcd_endpoint *etcd; /* as many as around has, once they are asked; NULL: none */

    bool local_answers;
    bool held_back;      /* the process uses certificate files as they were before, not those that are there */
    bool unready;        /* it answers, and its /readyz is not good */
    bool etcd_fails;     /* that is what its /readyz says */
    bool stored_silent;  /* what is in its etcd has been waited for in vain */
    bool believed;       /* the local server takes us for whom we say */
    bool mistaken;       /* the local server is somebody else than we take it for */
    bool recalled;       /* the Leases cannot be read: peers are those that the running process knows */
    size_t with_records; /* other servers that write a record into etcd if that is configured there */
    unsigned minor;      /* of the local server's version 1.x; 0: not known */
};

/* Needs trust; false when out of memory. */
bool scene_connect(struct scene *s);
/* Of all that is there. */
void scene_free(struct scene *s);

struct answer {
    bool ok; /* of whatever status */
    unsigned status;
    char failure[256]; /* when not ok */
    char hop[128];     /* the ID of the server before which an mvproxy answered; "": it did not say */
    struct slice body; /* in the buffer */
    int64_t late_ms;   /* our clock is so far ahead of the server's (a second more or less); 0 if it did not say */
};

/* A question under way: it stays where it is until it is over. */
struct question {
    struct answer *answer;
    struct buf *body; /* of the answer; forgotten before */
    bool over;
};

/* Asks. loop_run_once() of the scene's loop until it is over. */
void scene_send(struct scene *s, const struct api_request *r, struct question *q);
/* Asks and waits. The body is in `body`, which is forgotten before. */
void scene_ask(struct scene *s, const struct api_request *r, struct buf *body, struct answer *out);
/* A GET of the local server for JSON. */
void scene_get(struct scene *s, const char *path, struct buf *body, struct answer *out);
/* The same for what it has to read from its etcd. While that is away it lets one wait: who has waited in vain once does
 * not ask again, and *out says so. */
void scene_get_stored(struct scene *s, const char *path, struct buf *body, struct answer *out);
/* A POST of JSON to it. */
void scene_post(struct scene *s, const char *path, const char *json, struct buf *body, struct answer *out);

/* A finding if the server's clock is not ours. */
void scene_judge_clock(struct scene *s, const char *check, const char *server, const struct answer *a);

#endif
