/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of which server serves which resource, with the prepared discovery documents: immutable and
 * reference-counted. A request takes a reference when it starts and keeps that view until its answer begins. */
#ifndef MVPROXY_CLUSTER_SERVED_H
#define MVPROXY_CLUSTER_SERVED_H

#include "base/list.h"
#include "cluster/served_documents.h"
#include "kube/schema_index.h"

struct origin;
struct served;

enum served_life {
    SERVED_LIVE,   /* its Lease is being renewed (or it is static) */
    SERVED_LAPSED, /* not seen renewed for peer-stale-after: kept, its groups Stale */
};

struct served_peer {
    const char *id;   /* server ID (or the text of a static peer that has no Lease yet) */
    const char *host; /* its host name, for people; in a snapshot the ID where none is known. Input: may be NULL */
    enum served_life life;
    bool drained;         /* by an operator: gets requests only if no other server can take them */
    bool discovery_known; /* fetched at least once since the Lease appeared or changed holder */
    bool stale;   /* lapsed, without address, or its polls fail: what only it serves is Stale in the merged document */
    bool silent;  /* its last poll or probe failed: while the local server is away it is known, and may matter */
    bool vouches; /* excluded group/versions are as it lists them in merged discovery, not as the local server did */
    bool pending; /* its discovery is not known yet, but expected: live, has an address, not silent for over a minute */
    bool schemas_pending;      /* they are not known yet, and may be at any moment */
    struct origin *origin;     /* NULL: no usable address */
    const char *source;        /* where the address comes from ("static", ...); static text, NULL: not told */
    const struct disco *disco; /* NULL until first fetched; the last known document afterwards */
    struct schema_index *schemas, *last_schemas; /* NULL: not known; or of an earlier process (input NULL: `schemas`) */
    uint64_t release;                            /* see kube/version.h; 0: not known */
};

enum served_half { SERVED_APIS, SERVED_CORE, SERVED_HALVES }; /* the two documents of discovery */

struct served_gv {
    struct slice group, version;
};

/*
 * The facts that a snapshot is made of. Arrays are copied, documents and origins referenced. served_is() compares all
 * but what is in the merged documents: `stale`, `local_stale`, `vouches`, `incomplete`, `doubtful`.
 */
struct served_input {
    bool peers_enabled;                     /* feature gate on, peer CA and proxy pair configured */
    bool leases_synced;                     /* the Lease informer has listed (or is not needed) */
    const char *local_id, *local_host;      /* local_host NULL: the ID */
    bool local_refused;                     /* the local server does not let us read its discovery, or we cannot */
    const struct disco *local;              /* NULL until first fetched */
    struct slice local_etag[SERVED_HALVES]; /* copied; see served_local_etag */
    struct schema_index *local_schemas;     /* as of a peer */
    uint64_t local_release;
    const struct served_peer *peers;
    size_t n_peers;
    bool peers_read; /* what each of them serves is known of its present process */
    bool behind;     /* the Leases could not be followed until a moment ago, so there may be peers that are not known */
    bool local_stale; /* it cannot be read and others can: what only it serves is Stale, as others say it */
    bool local_read;  /* the local server was read since it was last in trouble, so `local` is of its present process */
    const struct slice *excluded; /* "group/version" of CRDs and aggregated APIs, now or until 5 minutes ago */
    size_t n_excluded;
    const struct slice *aggregated; /* of these, what an APIService with a service names now */
    size_t n_aggregated;
    /* Filled while some peer's discovery is not known: group/versions of the cluster's stored APIServices */
    struct served_gv *undiscovered;
    size_t n_undiscovered;
    bool incomplete; /* merged discovery has a placeholder for what `undiscovered` names */
    bool doubtful;   /* what there is of `excluded` nobody knows: all of it is there, as Stale */
    uint64_t generation;
    struct served_documents *documents[SERVED_HALVES]; /* referenced; NULL: not available yet */
};

/* The caller has the one reference. NULL when out of memory. */
MEM_CHECK struct served *served_new(const struct served_input *in);
/* Whether served_new() would make an equal snapshot: the same facts, objects (by address) and documents. */
bool served_is(const struct served *s, const struct served_input *in);
/* Sets the documents (NULL: that half is kept), whether the Leases count as listed, and the generation. Only before the
 * snapshot is shown to anybody. */
void served_complete(struct served *s, struct served_documents *const d[SERVED_HALVES], bool leases_synced,
                     uint64_t generation);
size_t served_own_bytes(const struct served *s); /* that it shares with no other one: names, lists */
struct served *served_ref(struct served *s);
void served_unref(struct served *s);
/* The same, but what nobody else holds is only put on the list: freeing one may take milliseconds. */
void served_bury(struct served *s, struct list *dead);
bool served_free_next(struct list *dead); /* false: there was none left */

uint64_t served_generation(const struct served *s);
bool served_peers_enabled(const struct served *s);
/* Local discovery and the Leases have both been seen. */
bool served_synced(const struct served *s);
/* The local server's discovery is not known, and polling it again does not help: it answers 401 or 403. */
bool served_forbidden(const struct served *s);
/* The Leases and exclusions had been listed when it was made, whether or not local discovery was known. */
bool served_leases_listed(const struct served *s);
size_t served_n_peers(const struct served *s);
const struct served_peer *served_peer_at(const struct served *s, size_t i);
const char *served_local_id(const struct served *s);
const char *served_local_host(const struct served *s); /* as served_peer.host */

/* Does the local server serve it? `subresource` and `verb` may be empty: then they are not asked for. */
enum disco_answer served_local(const struct served *s, const struct gvr *gvr, struct slice subresource,
                               struct slice verb);
/* Same for one peer; DISCO_NO_RESOURCE while its discovery is unknown. */
enum disco_answer served_by_peer(const struct served *s, size_t peer, const struct gvr *gvr, struct slice subresource,
                                 struct slice verb);
/* Whether live servers have different schemas for it; false for excluded ones, which are not kube-apiserver's. */
bool served_skewed(const struct served *s, struct slice group, struct slice version);
/* The hash of a server's schema (0: the local one, i: peer i - 1); empty if none is known. */
struct slice served_schema(const struct served *s, size_t server, struct slice group, struct slice version);
/* The different schema indexes of the live servers, *n of them, each once. Borrowed. */
const struct schema_index *const *served_distinct_schemas(const struct served *s, size_t *n);
/* Whether all servers have the same discovery and schemas in both, and the same group/versions are excluded. */
bool served_says_same(const struct served *a, const struct served *b);
const struct schema_index *served_local_schemas(const struct served *s); /* NULL: not known */
uint64_t served_local_release(const struct served *s);
/* A CRD's or an aggregated API server's: requests for it never go to a peer (row 7 of the routing table). */
bool served_excluded(const struct served *s, struct slice group, struct slice version);
/* Whether another program answers for it, by way of every kube-apiserver. */
bool served_aggregated(const struct served *s, struct slice group, struct slice version);
bool served_peers_read(const struct served *s); /* as of the input, here and below */
bool served_local_read(const struct served *s);
bool served_pending(const struct served *s); /* some peer is, here and below */
bool served_schemas_pending(const struct served *s);
/* Of what `undiscovered` names, without hashes: there may be schemas. NULL: none. Borrowed. */
const struct schema_index *served_undiscovered_schemas(const struct served *s);
/* Some peer's discovery is expected in a moment (`pending`), or peers may be missing (`behind`): whatever nobody else
 * serves may be theirs. Row 11 of the routing table. */
bool served_unknown_peer(const struct served *s);
/*
 * Whether it may belong to a peer whose discovery will not be known that soon (no address, no answers, lapsed): a
 * stored APIService names it, or that peer's last document before it was replaced. Until the peer is forgotten. Version
 * empty: any version of the group.
 */
bool served_undiscovered(const struct served *s, struct slice group, struct slice version);
/* Whether the known discovery of a live peer has it. Version empty: any version of the group. */
bool served_live_peer_names(const struct served *s, struct slice group, struct slice version);
/* A merged document, of /apis or of either half. Borrowed. NULL while there is none. */
const struct served_document *served_merged(const struct served *s, enum served_shape shape);
const struct served_document *served_merged_half(const struct served *s, enum served_half h, enum served_shape shape);
/* The same, parsed. If all servers agree it is the local server's own document. */
const struct disco_doc *served_merged_doc(const struct served *s, enum served_half half);
/* The quoted ETag of the local server's own v2 document; empty if unknown (a legacy server sends none). */
struct slice served_local_etag(const struct served *s, enum served_half half);
const struct disco *served_local_disco(const struct served *s);

#endif
