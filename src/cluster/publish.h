/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes snapshots. What changes is gathered for some milliseconds and collected once; if what is merged has changed,
 * too, a merge follows in steps of a few milliseconds, and then there is one snapshot, with the new routing and the new
 * documents. A merge that takes longer is not waited for: then the new routing comes first, with the documents as they
 * were. The very first snapshot that counts as synced waits for its documents, so that nobody is served a document that
 * will grow a moment later.
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
     * Fills *in (zeroed) with what is known now, without documents and generation; arrays of mem_array, freed by
     * publish, texts borrowed. False when out of memory: tried again a little later.
     */
    bool (*collect)(void *arg, struct served_input *in);
    /* There is a new snapshot; its routing says all that is known (the documents may follow a moment later). */
    void (*on_published)(void *arg);
    /* The documents are there in each form that was wanted when they were begun, or cannot be made in it. */
    void (*on_documents)(void *arg);
    void *arg;
};

/* Ends the process when out of memory; there is a (not synced) snapshot from the start. */
struct publish *publish_new(const struct publish_opts *o);
void publish_free(struct publish *p);
/* Something changed. Cheap; takes effect some milliseconds later. */
void publish_request(struct publish *p);
/* The same, and nobody waits for a merge before the new routing counts. */
void publish_request_now(struct publish *p);
/* From now on documents are prepared in protobuf form as well, the current one by a merge that is requested here.
 * False: they were already, and nothing is under way. */
bool publish_want_protobuf(struct publish *p);
/* A requested snapshot has not been made yet. */
bool publish_pending(const struct publish *p);
/* Nothing is pending, no merge is under way, and none that failed will be tried again at once (that it is the first
 * time: who starts must not take the document of before for what the peers have said). */
bool publish_settled(const struct publish *p);
struct served *publish_current(const struct publish *p);

#endif
