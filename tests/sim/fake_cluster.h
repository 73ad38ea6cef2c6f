/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between proxy and cluster, the one stand-in for src/cluster/cluster.c: what the proxy is told when it
 * asks (cluster/cluster.h) is what the test has put here, and what it reports is counted. Its snapshots are real ones
 * (cluster/served.h). By default all is well and nobody takes over for the local server.
 */
#ifndef MVPROXY_TESTS_SIM_FAKE_CLUSTER_H
#define MVPROXY_TESTS_SIM_FAKE_CLUSTER_H

#include "base/list.h"
#include "cluster/cluster.h"
#include "cluster/served_documents.h"

struct quota;

struct cluster {
    struct served *served;
    uint64_t generation; /* of that */
    struct list waiters; /* whose refresh, or whose document in protobuf form, is under way */
    /* What is said; may be changed at any time. */
    bool no_refresh;   /* there is nothing to be refreshed */
    bool no_protobuf;  /* the merged documents will never be there in that form */
    bool unread_peers; /* cluster_peers_synced() is not true yet */
    bool unread_local; /* the local server's discovery could not be read the last time */
    bool fails_over;   /* local-failover is on */
    enum readiness_state local_state;
    bool (*reaches_local)(const void *arg); /* NULL: where somebody takes over, a failed connection sets local_state */
    const void *arg;
    bool local_loading, peer_loading;
    enum api_word local_word; /* what peers are told of the local server */
    const char *denies;       /* host name of a server that answered 404 for what it lists, 12 s ago; NULL: none */
    /* What was reported. */
    unsigned misses, peer_misses, suspects, answered, local_seen, peer_seen, wanted_protobuf, local_failures;
    bool lost_local; /* a connection to it failed */
    char seen_etag[64];
};

/* The caller's. It knows nothing until fake_cluster_know(). */
struct cluster *fake_cluster_new(void);
void fake_cluster_free(struct cluster *c);
/* Another snapshot from now on; false, and the one that was, when out of memory. `in->generation` is set: one more each
 * time. */
bool fake_cluster_know(struct cluster *c, struct served_input *in);
/* What is known goes before the origins that it holds. */
void fake_cluster_forget(struct cluster *c);
/* The refresh that somebody has waited for longest ends. */
void fake_cluster_refreshed(struct cluster *c);

/* Parts of a snapshot, the caller's: the documents of one half in each JSON form (`long_indented`: as if they were,
 * laid out) and, unless NULL, in protobuf form; an index of schemas (NULL: none). */
#define FAKE_CLUSTER_ETAG "\"M\""
struct served_documents *fake_cluster_documents(const char *json, bool long_indented, const char *protobuf,
                                                const struct disco_doc *parsed);
struct schema_index *fake_cluster_schemas(const char *text, struct quota *q);

#endif
