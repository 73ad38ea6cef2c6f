/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the snapshots. Changes are gathered for some milliseconds and collected together. If the input of the merge
 * changed, the discovery documents are merged in steps of a few milliseconds, and then one snapshot is published with
 * the new routing and the new documents. If the merge takes longer (15 ms), the new routing is published first, with
 * the previous documents.
 *
 * The first snapshot that counts as synced waits for its documents, so that no client gets a document that grows a
 * moment later.
 */
#ifndef MVPROXY_CLUSTER_PUBLISH_H
#define MVPROXY_CLUSTER_PUBLISH_H

#include "cluster/served.h"

struct cluster_metrics;
struct loop;
struct publish;
struct work_queue;

struct publish_opts {
    struct loop *loop;
    struct work_queue *work; /* merges take their turns there */
    struct cluster_metrics *metrics;
    /*
     * Fills *in (zeroed) with the present facts, except for documents and generation. Arrays come from mem_array and
     * are freed by publish; texts are borrowed. False when out of memory: tried again later.
     */
    bool (*collect)(void *arg, struct served_input *in);
    /* A snapshot with all changes so far was published; the documents may follow in a later one. */
    void (*on_published)(void *arg);
    /* The merge has ended: the documents exist in each form wanted when it began, or could not be made. */
    void (*on_documents)(void *arg);
    void *arg;
};

/* Ends the process when out of memory. publish_current() is never NULL: it starts with a snapshot that is not
 * synced. */
struct publish *publish_new(const struct publish_opts *o);
void publish_free(struct publish *p);
/* Something changed: a new snapshot follows some milliseconds later. Cheap to call often. */
void publish_request(struct publish *p);
/* The same, but the new routing is published in this turn, without waiting for a merge. */
void publish_request_now(struct publish *p);
/* From now on documents are made in protobuf form as well; requests a merge that makes the present ones. False if that
 * was asked before and no merge is pending: on_documents will not be called. */
bool publish_want_protobuf(struct publish *p);
/* A requested snapshot has not been made yet. */
bool publish_pending(const struct publish *p);
/* No change is pending, no merge is under way, and no merge has just failed for the first time (it is retried soon, so
 * the present documents may lack what peers have). */
bool publish_settled(const struct publish *p);
struct served *publish_current(const struct publish *p);

#endif
