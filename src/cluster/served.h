/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Served": who serves which resource, and the discovery documents, as one immutable, reference-counted snapshot. A
 * request takes a reference when it starts and keeps that view to its end.
 */
#ifndef MVPROXY_CLUSTER_SERVED_H
#define MVPROXY_CLUSTER_SERVED_H

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
    bool drained;                 /* gets requests only where nobody else is left */
    bool discovery_known;         /* fetched at least once since the Lease appeared or changed holder */
    bool stale;                   /* lapsed, or its refreshes fail: what nobody else serves becomes Stale when merged */
    bool pending;                 /* will be known in a moment: live, can be asked, and has not answered for long */
    struct origin *origin;        /* NULL: no usable address */
    const char *source;           /* of the address: literal; NULL: not told */
    const struct disco *disco;    /* NULL until first fetched; the last known document afterwards */
    struct schema_index *schemas; /* NULL: not known */
    uint64_t release;             /* see kube/version.h; 0: not known */
};

enum served_half { SERVED_APIS, SERVED_CORE, SERVED_HALVES }; /* the two documents of discovery */

struct served_gv {
    struct slice group, version;
};

/*
 * What one is built of; arrays are copied, discos and origins referenced. served_is() compares each field but those
 * that are only merged (`stale`, `incomplete`), which the documents stand for.
 */
struct served_input {
    bool peers_enabled;                     /* feature gate on, peer CA and proxy pair configured */
    bool leases_synced;                     /* the Lease informer has listed (or is not needed) */
    const char *local_id, *local_host;      /* local_host NULL: the ID */
    bool local_refused;                     /* the local server does not let us know what it serves */
    const struct disco *local;              /* NULL until first fetched */
    struct slice local_etag[SERVED_HALVES]; /* copied; see served_local_etag */
    struct schema_index *local_schemas;     /* as of a peer */
    uint64_t local_release;
    const struct served_peer *peers;
    size_t n_peers;
    bool behind; /* there may be peers that are not known yet: the Leases could not be followed a moment ago */
    const struct slice *excluded; /* "group/version" of CRDs and aggregated APIs, now or until 5 minutes ago */
    size_t n_excluded;
    /* While what some peer serves is not known: what the cluster's stored APIServices name. */
    struct served_gv *undiscovered;
    size_t n_undiscovered;
    bool incomplete; /* merged discovery has a placeholder for what `undiscovered` names */
    uint64_t generation;
    struct served_documents *documents[SERVED_HALVES]; /* referenced; NULL: not available yet */
};

/* NULL when out of memory. One reference. */
MEM_CHECK struct served *served_new(const struct served_input *in);
/* Whether served_new() would make the same again: the same facts out of the same objects, with the same documents. */
bool served_is(const struct served *s, const struct served_input *in);
/* Before anybody else has seen it: with these documents, and whether the Leases count as listed. */
void served_complete(struct served *s, struct served_documents *const d[SERVED_HALVES], bool leases_synced,
                     uint64_t generation);
struct served *served_ref(struct served *s);
void served_unref(struct served *s);

uint64_t served_generation(const struct served *s);
bool served_peers_enabled(const struct served *s);
/* Local discovery and the Leases have both been seen. */
bool served_synced(const struct served *s);
/* What the local server serves is unknown and will stay so: it does not let us read its discovery. */
bool served_forbidden(const struct served *s);
/* All peers that have a Lease are in it, and what is excluded, whatever is known of the local server. */
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
/* Whether the schema of a group/version, of kube-apiserver's own, is not the same on all live servers that have one. */
bool served_skewed(const struct served *s, struct slice group, struct slice version);
/* The hash of a server's schema (0: the local one, i: peer i - 1); empty if none is known. */
struct slice served_schema(const struct served *s, size_t server, struct slice group, struct slice version);
/* The indexes of schemas of all live servers, each that is another one; *n of them. */
const struct schema_index *const *served_distinct_schemas(const struct served *s, size_t *n);
/* Whether the servers of both say the same of what they serve, and nothing is excluded in only one of them. */
bool served_says_same(const struct served *a, const struct served *b);
const struct schema_index *served_local_schemas(const struct served *s); /* NULL: not known */
uint64_t served_local_release(const struct served *s);
/* Never a peer's: row 7 of the routing table. */
bool served_excluded(const struct served *s, struct slice group, struct slice version);
/* Row 11 of the routing table: some peer, maybe not known yet, is about to say what it serves: it may be anything. */
bool served_unknown_peer(const struct served *s);
/*
 * And for those that will not say it so soon (no address, no answers, lapsed), until they are forgotten: it may be
 * theirs, for stored APIServices name it, or what they said before they were replaced. Version empty: any of the
 * group.
 */
bool served_undiscovered(const struct served *s, struct slice group, struct slice version);

/* A live peer, whose discovery is known, names it. Version empty: any of the group. */
bool served_live_peer_names(const struct served *s, struct slice group, struct slice version);

/* The merged documents (of /apis), or NULL while there is none. */
const struct served_document *served_merged(const struct served *s, enum served_shape shape);
const struct served_document *served_merged_half(const struct served *s, enum served_half h, enum served_shape shape);
/* The same to look things up in. Where nobody differs it is the local server's own. */
const struct disco_doc *served_merged_doc(const struct served *s, enum served_half half);
/* The quoted ETag of the local server's own v2 document as it sent it; empty if unknown (legacy server). */
struct slice served_local_etag(const struct served *s, enum served_half half);
const struct disco *served_local_disco(const struct served *s);

#endif
