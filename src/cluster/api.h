/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mvproxy's own requests to API servers, made as the configured user over the front-proxy certificate. Those to peers
 * carry both loop marks, so that no proxy sends them on (KEP-4020's mark is ours, the second is the one that
 * kube-apiserver uses).
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
/* A reload: the identity of all further requests. False, with nothing changed, when it cannot be put into headers or
 * when out of memory. */
bool api_set_identity(struct api *a, const struct api_identity *who);
/* A reload: the origin of the local server for all further requests; referenced. */
void api_set_local(struct api *a, struct origin *local);
/* The last attempt to connect to the local server failed. That is logged once for the server, so callers need not warn
 * about each request that fails for it. */
bool api_local_unreachable(const struct api *a);
struct loop *api_loop(const struct api *a);

/* The queue in which long work on answers is done (work.h). Borrowed. */
struct work_queue *api_work(struct api *a);

struct api_request {
    struct origin *origin; /* NULL: the local server */
    bool peer;             /* adds the loop marks */
    bool probe;            /* as in back_opts */
    struct slice method;   /* empty: GET */
    struct slice target, accept;
    struct slice content_type, body; /* empty: none; copied */
    struct slice if_none_match;      /* empty: none */
    size_t ceiling;                  /* bytes of body */
    uint64_t timeout_ms;             /* for the whole request */
    uint64_t head_timeout_ms;        /* as in fetch_opts, as the next two */
    void (*on_head)(void *arg, const struct http_head *head);
    bool (*on_piece)(void *arg, const struct http_head *head, struct slice piece);
};
/* As fetch_start: fn is called once unless fetch_cancel'led, never from inside. NULL when out of memory. */
MEM_CHECK struct fetch *api_send(struct api *a, const struct api_request *g, fetch_fn *fn, void *arg);
/* The same for a small object of the local server's: `body` may be empty, and is a merge patch where the method is
 * PATCH, else JSON. */
MEM_CHECK struct fetch *api_ask(struct api *a, const char *method, const char *target, struct slice body, fetch_fn *fn,
                                void *arg);
/* Whether it was answered, with this status. */
bool api_answered(const struct fetch_result *r, unsigned status);
/* Whether this answer of a peer came through an mvproxy in front of it. */
bool api_through_mvproxy(const struct http_head *head);
/* What a peer's mvproxy says of the server whose answer it hands on (USER_HOP_READY). */
enum api_word { API_WORD_NONE, API_WORD_READY, API_WORD_LOADING };
enum api_word api_word(const struct http_head *head);
/* Why a request failed, for logs: the failure, or "answered STATUS". Points to r's text or to `text`. */
enum { API_WHY_BYTES = 32 };
const char *api_why(const struct fetch_result *r, char text[API_WHY_BYTES]);

#endif
