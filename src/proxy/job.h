/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request on its way through the proxy: what the files of this folder share. Lives in the exchange's arena and ends
 * with the exchange.
 */
#ifndef MVPROXY_PROXY_JOB_H
#define MVPROXY_PROXY_JOB_H

#include "back/back.h"
#include "base/buf.h"
#include "base/list.h"
#include "cluster/cluster.h"
#include "cluster/work.h"
#include "front/exchange.h"
#include "kube/reqinfo.h"
#include "proxy/audit.h"
#include "proxy/authn.h"
#include "proxy/authz_cache.h"
#include "proxy/insight.h"
#include "proxy/proxy_config.h"
#include "proxy/request_metrics.h"
#include "proxy/route.h"
#include "proxy/traffic.h"

struct loop;
struct proxy;

enum job_state {
    JOB_DECIDING,   /* inside the handler, or waiting for a refresh of local discovery */
    JOB_ASKING,     /* waits for the local server's verdict on a reader, or for an answer to be completed */
    JOB_FORWARDING, /* a request to a server is under way, nothing of the response has been relayed */
    JOB_RELAYING,   /* the response's head has gone to the client */
    JOB_SERVING,    /* sends a prepared document, piece by piece */
    JOB_ENDED,      /* the exchange is over; the job must not be touched */
};

/* Whose turn it is when the local server is failed over; each comes once, and only forward.c moves on. */
enum job_stage {
    JOB_STAGE_READY_PEERS, /* the candidates, unless they are only starting */
    JOB_STAGE_LOCAL,       /* the local server after all */
    JOB_STAGE_ANY_PEER,    /* the candidates once more, starting or not */
};

struct job {
    struct proxy *proxy;
    struct proxy_config *config;
    struct served *served;
    struct exchange *x;
    enum job_state state;
    struct list_node under_way; /* in proxy->under_way */
    struct list_node node;      /* in proxy->long_running while it is one */

    struct reqinfo info;
    struct authn authn;
    struct route route;
    struct cluster_waiter *waiter;
    const char *client; /* address whose budgets count; NULL: a peer's, which counts its clients itself */

    /* forwarding */
    struct back_request *back;
    struct origin *target;          /* referenced while a request is under way */
    const struct served_peer *peer; /* NULL: local */
    size_t next_candidate;
    enum job_stage stage;
    bool local_tried;          /* and failed, before the route was one to peers */
    bool peers_starting;       /* a candidate answered that it is only starting */
    bool peers_busy;           /* a candidate was passed over for max_in_flight_per_peer */
    bool unauthorized;         /* a server has answered 401: where no other answers, that is all that is known */
    struct http_head request;  /* as sent to the target */
    bool body_started;         /* the target took a byte of the client's body, or may have */
    bool keeps_body;           /* and all that was taken so far is in `kept`, for another server */
    struct buf kept;           /* initialized with the first byte of the body */
    bool body_ended;           /* the client's body is complete */
    bool maybe_done;           /* it may have been carried out: neither client nor peer is told to send it again */
    struct forward_held *held; /* a response that may be a denial, until it is known (forward.c) */
    bool refreshed;            /* local discovery was read again for this request: not once more */
    bool looked_again;         /* the local server denied what we believed of it: its next answer is final */

    /* serving a document */
    struct slice document;
    size_t document_sent;
    unsigned char credential[AUTHN_KEY_BYTES];
    unsigned verdict;                  /* disco_serve.c */
    struct judging *judging;           /* what is asked in the client's name, and who was (judge.c) */
    const struct served_peer *judge;   /* who is asked now; NULL: the local server */
    const struct http_field *filtered; /* fields that the local server's filters put on every answer */
    size_t n_filtered;
    struct work work;            /* on a document: completing it, laying it out */
    struct heal *heal;           /* an answer that is being completed (heal.c) */
    struct disco_pretty *pretty; /* instead of `document`: made while it is sent; freed with the job */

    struct request_summary summary;
    enum insight_kind insight;
    uint64_t noted_ms; /* clock_ms() when it was counted there; 0: not yet */
    struct audit_entry audit;
};

/* What a proxy consists of, for the files of this folder. */
struct proxy {
    struct loop *loop;
    struct back *back;
    struct cluster *cluster;
    struct request_metrics *request_metrics;
    struct audit *audit;
    struct authz_cache *authz;
    struct insight *insight;
    struct proxy_config *config;
    void (*act)(struct job *j); /* decides where it goes and sends it there: for who is below (decide.c) */
    struct list under_way;      /* of struct job, the oldest first */
    struct list long_running;   /* of struct job */
    struct list tunnels;        /* of struct upgrade, oldest first */
    struct work_queue work;     /* of jobs */
    struct traffic traffic;
    char *hsts; /* Strict-Transport-Security as the local server has it; NULL: it has none, or is not known */
    uint64_t dice;
    bool stopping;
};

/* Whether the client may say in whose name it asks: a front proxy by its certificate, or one of trusted-proxies. */
bool job_believes_client(const struct job *j);

/* The answer will be ours, and leaves an audit line when the job ends. Returns its Audit-ID, NONE when out of memory.
 * To be called before the request's fields are forgotten. */
struct slice job_answers_itself(struct job *j);

void job_set_state(struct job *j, enum job_state state); /* the only way it changes */
/* Whatever its method it does something each time that it is read: an upgrade, or a program behind the server. */
bool job_acts(const struct job *j);
/* Counts who asks for what not all servers serve: once, and when it is open for an hour more, again. */
void job_note_asker(struct job *j);
/* The ways a job ends: accounted for, what is under way cancelled, references dropped, the exchange ended. */
void job_refuse(struct job *j, unsigned status, const char *message);
/* 503 because the server behind us cannot serve anybody now. A client that came by itself is sent away, which it would
 * have been without us, and to which a balancer of connections finds another node. A peer wants this very server. */
void job_refuse_unserved(struct job *j, const char *message);
/* What the client is told where the local server failed, also through a peer: of which node it is. */
const char *job_local_failed_text(const struct job *j);
/* What would be sent to the local server would come back to a proxy. To a peer it is 503, so that it asks another. */
void job_refuse_loop(struct job *j);
void job_finish(struct job *j, const struct http_head *trailers);
void job_abort(struct job *j, const char *reason);
void job_release(struct job *j, const char *reason); /* the exchange is over already: client gone, or a tunnel */
/* What it waited for is there: from now on it sees the cluster as it is now. */
void job_waited(struct job *j);
uint64_t job_throw_dice(struct job *j); /* not unguessable */
/* The answer has begun, so no retry can come: what the request's fields took is freed. */
void job_forget_request(struct job *j);
void job_drop_back(struct job *j); /* cancels a request to a server, if one is under way */

#endif
