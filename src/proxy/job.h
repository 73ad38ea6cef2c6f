/* SPDX-License-Identifier: Apache-2.0 */
/* One client's request on its way through the proxy, and the proxy's own state: what the files of this folder share. A
 * job lives in the exchange's arena and ends with the exchange. */
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
#include "proxy/holders.h"
#include "proxy/insight.h"
#include "proxy/proxy_config.h"
#include "proxy/request_metrics.h"
#include "proxy/route.h"
#include "proxy/traffic.h"

enum job_state {
    JOB_DECIDING,   /* inside the handler, or waiting for a refresh of local discovery */
    JOB_ASKING,     /* waits for a server's verdict on a client, or for an answer that is to be completed (judge.h) */
    JOB_FORWARDING, /* a request to a server is under way, nothing of the response has been relayed */
    JOB_RELAYING,   /* the response's head has gone to the client */
    JOB_SERVING,    /* sends a prepared document, piece by piece */
    JOB_ENDED,      /* the exchange is over; the job must not be touched */
};

/* Which servers are tried in a failover of the local server; in this order, each once, until it is decided anew. */
enum job_stage {
    JOB_STAGE_READY_PEERS, /* the candidates, unless they are only starting */
    JOB_STAGE_LOCAL,       /* the local server after all */
    JOB_STAGE_ANY_PEER,    /* the candidates again, even if they are starting */
};

struct job {
    struct proxy *proxy;
    struct proxy_config *config;
    struct served *served; /* never NULL */
    struct exchange *x;
    enum job_state state;
    struct list_node under_way, holder; /* in the proxy's list; in its holders, unless `served` is proxy->nobody */
    struct list_node node;              /* in proxy->long_running while it is one */

    struct reqinfo info;
    struct authn authn;
    struct route route;
    struct cluster_waiter *waiter;
    const char *client; /* address whose budgets count; NULL: a peer sent it, which counts its clients itself */

    /* forwarding */
    struct back_request *back;
    struct origin *target;          /* referenced while a request is under way */
    uint64_t sent_ms, bearer;       /* when that was sent, by the loop's clock; back_bearer() of who is passed on */
    const struct served_peer *peer; /* NULL: local */
    size_t next_candidate, denied;  /* of the candidates; how many of them denied what nobody is known to serve */
    enum job_stage stage;
    bool stays, local_tried; /* the local server: nobody else can answer; it failed before the route went to peers */
    bool peers_starting, peers_busy; /* a candidate said that it starts; one was over max_in_flight_per_peer */
    bool unauthorized;               /* a server answered 401: the client gets that if no other server answers */
    struct http_head request;        /* as sent to the target */
    bool body_started, body_ended;   /* the target may have received a byte of the client's body; that is complete */
    bool keeps_body, bare;           /* all of it so far is in `kept`, for another server; discovery: asked without */
    struct buf kept;                 /* initialized with the first byte of the body */
    bool maybe_done;              /* a server may have executed it: neither client nor peer is told to send it again */
    struct held *held;            /* a response that is held back until it is known whether it is a denial (held.h) */
    bool refreshed, decided_anew; /* local discovery was polled, once; by a later snapshot */
    bool moved;                   /* given a later snapshot since it was decided on (snapshots.c) */
    bool had_schema, had_verb;    /* by the one before: who is asked has it (answer_remember()) */
    bool looked_again, unread;    /* the local server denied what its discovery lists; that could not be read since */

    /* serving a document */
    struct slice document;
    size_t document_sent;
    unsigned char credential[AUTHN_KEY_BYTES];
    unsigned verdict;        /* disco_serve.c */
    struct judging *judging; /* the question asked with the client's credential, and the servers asked (judge.c) */
    const struct served_peer *judge;   /* the peer asked now; NULL: the local server */
    const struct http_field *filtered; /* fields that the local server's filters put on every answer */
    size_t n_filtered;
    struct work work;                  /* long work on a document: completing it, indenting it */
    struct heal *heal;                 /* an answer that is being completed (heal.c) */
    struct schema_completion *schemas; /* of an index: what `document` is in; owned */
    struct disco_pretty *pretty;       /* instead of `document`: made while it is sent; owned */

    struct request_summary summary;
    enum insight_kind insight;
    uint64_t noted_ms; /* clock_ms() when insight last counted it; 0: never */
    struct audit_entry audit;
};

/* The proxy itself. */
struct proxy {
    struct loop *loop;
    struct back *back;
    struct cluster *cluster;
    struct request_metrics *request_metrics;
    struct audit *audit;
    struct authz_cache *authz;
    struct insight *insight;
    struct served *nobody; /* a snapshot without servers */
    struct proxy_config *config;
    void (*act)(struct job *j); /* decides where a job goes and sends it there; for decide.c, below that code */
    struct list under_way, long_running; /* of struct job, the oldest first */
    struct holders holders;              /* of struct job */
    struct list tunnels;                 /* of struct upgrade, oldest first */
    struct work_queue work;              /* of jobs */
    struct traffic traffic;
    char *hsts; /* Strict-Transport-Security of the local server; NULL: none, or not known yet */
    uint64_t dice;
    bool stopping;
};

/* Whether the client's X-Forwarded-For is believed: it is a front proxy by its certificate, or in trusted-proxies. */
bool job_believes_client(const struct job *j);

/* mvproxy will answer itself: an audit line is written when the job ends. Returns the answer's Audit-ID, SLICE_NONE
 * when out of memory. To be called before the request's fields are freed. */
struct slice job_answers_itself(struct job *j);
void job_set_state(struct job *j, enum job_state state); /* the only way it changes */
void job_set_stage(struct job *j, enum job_stage stage); /* likewise */
/* Whether it may have an effect each time it is sent, whatever its method: an upgrade, a program behind the server. */
bool job_acts(const struct job *j);
void job_vouch(struct job *j); /* if there is a certificate, a front proxy, or a server that has taken its token */
/* Counts who asks for what not all servers serve: once, and again for each further hour that the request is open. */
void job_note_asker(struct job *j);
/* These end a job: they count and log it, cancel what is under way, drop references and end the exchange. */
void job_refuse(struct job *j, unsigned status, const char *message);
/* 503 because the local server cannot serve anybody now. A client's connection ends with it, as it would without
 * mvproxy, so that a balancer of connections can choose another node. A peer's does not: it wants this very server. */
void job_refuse_unserved(struct job *j, const char *message);
/* The message for its failure, with its node's name, since the client may get it through a peer. */
const char *job_local_failed_text(const struct job *j);
/* 508 because the configured local server leads back to a proxy. A peer gets 503, so that it asks another server. */
void job_refuse_loop(struct job *j);
void job_finish(struct job *j, const struct http_head *trailers);
void job_abort(struct job *j, const char *reason);
void job_release(struct job *j, const char *reason); /* the exchange is over already: client gone, or a tunnel */
void job_take_snapshot(struct job *j);               /* the current one, and lets go of another */
void job_waited(struct job *j);          /* the poll that it waited for is over: takes the current snapshot */
uint64_t job_throw_dice(struct job *j);  /* a random number, but predictable: not for secrets */
void job_forget_request(struct job *j);  /* its fields: the answer has begun, so there can be no retry */
void job_forget_snapshot(struct job *j); /* nor is it decided on again: keeps the peer's names, else proxy->nobody */
void job_drop_back(struct job *j);       /* cancels a request to a server, if one is under way */

#endif
