/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of our own to API servers: as the configured user, over the front-proxy certificate. Towards peers they
 * carry both loop marks, so that nobody proxies them a second time (KEP-4020; kube-apiserver's name for it is the
 * second).
 */
#ifndef MVPROXY_CLUSTER_API_H
#define MVPROXY_CLUSTER_API_H

#include "back/fetch.h"

struct api;
struct back;
struct loop;
struct user_headers;
struct work_queue;

struct api_identity {
    const char *user;                   /* X-Remote-User */
    const char *const *groups;          /* NULL-terminated; NULL for none */
    const struct user_headers *headers; /* header names that servers expect; NULL: user_headers_default() */
};

/* Ends the process when out of memory. Identity text is copied; the header names must outlive it. */
struct api *api_new(struct loop *l, struct back *b, struct origin *local, const struct api_identity *who);
void api_free(struct api *a);
/* A reload: requests from now on. False (and nothing changed) when it cannot be put into headers. */
bool api_set_identity(struct api *a, const struct api_identity *who);
/* A reload: the local server is reached so from the next request on. Referenced. */
void api_set_local(struct api *a, struct origin *local);
/* Nothing can be asked of it just now: that is said of the server, and need not be of each question. */
bool api_local_unreachable(const struct api *a);
struct loop *api_loop(const struct api *a);

/* Where work on answers waits for its turns. */
struct work_queue *api_work(struct api *a);

struct api_request {
    struct origin *origin; /* NULL: the local server */
    bool peer;             /* adds the loop marks */
    bool probe;            /* as in back_opts */
    struct slice method;   /* empty: GET */
    struct slice target, accept;
    struct slice content_type, body;                                               /* empty: none; copied */
    struct slice if_none_match;                                                    /* empty: none */
    size_t ceiling;                                                                /* bytes of body */
    uint64_t timeout_ms;                                                           /* for all of it */
    bool (*on_piece)(void *arg, const struct http_head *head, struct slice piece); /* as in fetch_opts */
};
/* As fetch_start: fn is called once unless fetch_cancel'led, never from inside. NULL when out of memory. */
MEM_CHECK struct fetch *api_send(struct api *a, const struct api_request *g, fetch_fn *fn, void *arg);
/* It was answered with this status. */
bool api_answered(const struct fetch_result *r, unsigned status);
/* An mvproxy hands this on from the server that it stands before: its own word for it would not say so. Only where a
 * peer was asked. */
bool api_through_mvproxy(const struct http_head *head);
/* Why an answer is not the one hoped for; the text is r's or `text`. */
enum { API_WHY_BYTES = 32 };
const char *api_why(const struct fetch_result *r, char text[API_WHY_BYTES]);

struct api_stream;
struct api_stream_handler {
    void (*on_head)(void *arg, const struct http_head *head);
    void (*on_data)(void *arg, struct slice data);
    /* The last call; NULL: the server ended it properly. Not after api_stream_cancel. */
    void (*on_over)(void *arg, const char *failure);
};
/*
 * A GET whose answer never ends by itself (a watch). Cancel it from anywhere, also from its own callbacks; it is freed
 * when the turn ends. Only to the local server. NULL when out of memory.
 */
MEM_CHECK struct api_stream *api_stream_start(struct api *a, struct slice target, uint64_t head_timeout_ms,
                                              const struct api_stream_handler *h, void *arg);
void api_stream_cancel(struct api_stream *s);

#endif
