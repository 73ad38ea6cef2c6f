/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery documents: a compact, immutable index over the bytes that the server sent.
 *
 * A server has two documents: /api (the core group) and /apis. Each is a `struct disco_doc`; a `struct disco` is the
 * pair, the whole discovery of one server. Documents are made by disco_parse.h, for legacy servers by disco_legacy.h,
 * and merged by disco_merge.h.
 */
#ifndef MVPROXY_KUBE_DISCO_H
#define MVPROXY_KUBE_DISCO_H

#include "base/mem.h"
#include "kube/gvr.h"

#define DISCO_GROUP "apidiscovery.k8s.io"
#define DISCO_LIST_KIND "APIGroupDiscoveryList"

/* The form of a document. Legacy ones were converted: their raw bytes are made here, in v2 form. */
enum disco_form { DISCO_V2, DISCO_V2BETA1 };

/* Texts are decoded; `raw` has the bytes as sent. Lists are linked, in the server's order. Everything lives as long as
 * the document. */
enum { DISCO_EXTRAS = 64 };
/* A field that we do not know, as sent. */
struct disco_extra {
    const struct disco_extra *next;
    struct slice key; /* with its quotes */
    struct slice value;
};
/* The first DISCO_EXTRAS of them, without those of names that no API server has. */
struct disco_extras {
    const struct disco_extra *first;
    size_t n;
};

struct disco_subresource {
    const struct disco_subresource *next;
    struct slice name, raw;
    const struct slice *verbs;
    size_t n_verbs;
};

/* Fields of a resource whose bytes are kept as well. */
enum disco_field {
    DISCO_FIELD_CATEGORIES,
    DISCO_FIELD_SHORT_NAMES,
    DISCO_FIELD_VERBS,
    DISCO_FIELD_SUBRESOURCES,
    DISCO_FIELD_KIND,
    DISCO_FIELD_SCOPE,
    DISCO_FIELD_SINGULAR,
    DISCO_FIELDS
};

struct disco_resource {
    const struct disco_resource *next;
    uint64_t hash; /* of the raw bytes; here and below */
    uint64_t said; /* of these without the singular name (disco_same.h); here and below */
    struct disco_extras extras;
    bool reduced;                      /* something was left out (disco_parser_judge): raw says more than there is */
    bool odd;                          /* has texts of more than printing ASCII (known only where that is judged) */
    struct slice fields[DISCO_FIELDS]; /* values as sent; p is NULL if absent */
    struct slice name, raw;
    const struct disco_version *version;
    struct slice scope; /* "Namespaced", "Cluster", or "" */
    struct slice kind;  /* responseKind.kind, "" if absent or null */
    const struct slice *verbs;
    size_t n_verbs;
    const struct disco_subresource *subresources;
    size_t n_subresources;
};

struct disco_version {
    const struct disco_version *next;
    uint64_t hash, said;
    const struct disco_resource *resources;
    size_t n_resources;
    bool stale; /* freshness is Stale */
    struct disco_extras extras;
    bool reduced; /* something was left out (disco_parser_judge): raw says more than there is */
    struct slice name, raw;
    struct slice freshness; /* "" if absent */
    const struct disco_group *group;
};

struct disco_group {
    const struct disco_group *next;
    uint64_t hash;
    const struct disco_version *versions;
    size_t n_versions;
    struct disco_extras extras;
    bool reduced;           /* something was left out (disco_parser_judge): raw says more than there is */
    struct slice name, raw; /* "" is the core group */
    struct slice metadata;  /* its bytes, "" if absent */
};

struct disco_doc; /* reference-counted, immutable */

struct disco_doc *disco_doc_ref(const struct disco_doc *d);
void disco_doc_unref(struct disco_doc *d); /* NULL is fine */
const struct disco_group *disco_doc_groups(const struct disco_doc *d);
size_t disco_doc_n_groups(const struct disco_doc *d);
size_t disco_doc_n_resources(const struct disco_doc *d);
size_t disco_doc_bytes(const struct disco_doc *d); /* of memory */
enum disco_form disco_doc_form(const struct disco_doc *d);
/* A hash of the groups' bytes in their order; different ones have the same by chance only, once in 2^64. NULL is
 * fine. */
uint64_t disco_doc_hash(const struct disco_doc *d);
/* How many groups, versions, resources and subresources were left out because of their names (disco_parser_judge), and
 * the first of them, as "group/version/resource/subresource". */
size_t disco_doc_left_out(const struct disco_doc *d, struct slice *first);
/* The whole body as sent. */
struct slice disco_doc_raw(const struct disco_doc *d);
/* The apiVersion's text (without quotes) within raw, which is replaced to make the other form. */
struct slice disco_doc_api_version(const struct disco_doc *d);
const struct disco_group *disco_doc_group(const struct disco_doc *d, struct slice group);
const struct disco_version *disco_doc_version(const struct disco_doc *d, struct slice group, struct slice version);
const struct disco_resource *disco_doc_resource(const struct disco_doc *d, const struct gvr *g);

struct disco; /* reference-counted, immutable */

/* Takes a reference to each; `core` may be NULL (a server without /api). NULL when out of memory. */
MEM_CHECK struct disco *disco_new(const struct disco_doc *core, const struct disco_doc *apis);
struct disco *disco_ref(const struct disco *d);
void disco_unref(struct disco *d);                         /* NULL is fine */
const struct disco_doc *disco_core(const struct disco *d); /* may be NULL */
const struct disco_doc *disco_apis(const struct disco *d);
/* One of them; NULL if d is. */
const struct disco_doc *disco_half(const struct disco *d, bool core);
/* Group "" is looked up in /api, all others in /apis. NULL if it is not there or d is NULL. */
const struct disco_resource *disco_resource(const struct disco *d, const struct gvr *g);

enum disco_answer {
    DISCO_SERVED,
    DISCO_NO_RESOURCE, /* or only its subresources are served, and none was given */
    DISCO_NO_SUBRESOURCE,
    DISCO_NO_VERB,
};
/*
 * `subresource` and `verb` may be empty: any. A verb is looked up in the subresource's verbs if one is given, else in
 * the resource's.
 */
enum disco_answer disco_lookup(const struct disco *d, const struct gvr *g, struct slice subresource, struct slice verb);

enum disco_gv { DISCO_GV_ABSENT, DISCO_GV_STALE, DISCO_GV_CURRENT };
enum disco_gv disco_gv(const struct disco *d, struct slice group, struct slice version);

#endif
