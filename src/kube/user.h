/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identities of users, and the header fields in which front proxies pass them on (X-Remote-*). Names and values are
 * plain slices, since the types of the HTTP layer are not known here.
 */
#ifndef MVPROXY_KUBE_USER_H
#define MVPROXY_KUBE_USER_H

#include "base/mem.h"

struct user_extra {
    struct slice key; /* decoded, lower-case */
    struct slice value;
};

/* `extras` has one entry per value: a key with two values is there twice. */
struct user {
    struct slice name, uid; /* uid may be "" */
    const struct slice *groups;
    size_t n_groups;
    const struct user_extra *extras;
    size_t n_extras;
};

/* Header names as configured (requestheader-*-headers). Arrays may be empty; the text must outlive the users. */
struct user_headers {
    const struct slice *username, *uid, *group, *extra_prefix;
    size_t n_username, n_uid, n_group, n_extra_prefix;
};

#define USER_MARK_REROUTED "X-Kubernetes-APIServer-Rerouted" /* KEP-4020's name */
#define USER_MARK_PROXIED "x-kubernetes-peer-proxied"        /* kube-apiserver's name */
#define USER_OWN_PREFIX "X-Mvproxy-"                         /* what mvproxies say to each other: */
/* On requests with a loop mark: answer 503 instead of sending it to a server that is only starting. */
#define USER_IF_READY "X-Mvproxy-If-Ready"
/* Likewise: if no server has what is asked for, and none may have it, answer what your server says to it. */
#define USER_MAY_DENY "X-Mvproxy-May-Deny"
/* On answers to such requests of verified front proxies: an mvproxy answers; the value is the ID of its server. */
#define USER_HOP "X-Mvproxy-Hop"
/* With it, on answers to non-resource requests: the version of mvproxy. */
#define USER_HOP_VERSION "X-Mvproxy-Version"
/* Likewise: whether its server was ready as it was asked, so that it knows all custom resources ("true"), or is only
 * starting ("false"). Not there: it is not known. */
#define USER_HOP_READY "X-Mvproxy-Ready"

/* X-Remote-User, X-Remote-Group, X-Remote-Extra-; no uid header (kubeadm's defaults). Static. */
const struct user_headers *user_headers_default(void);

/*
 * Whether a header asserts an identity or marks a hop, and so must be removed from requests that are not of a verified
 * front proxy: the standard names, the configured ones and both marks, case-insensitive and with '_' read as '-' (some
 * servers treat them alike).
 */
bool user_header_is_identity(const struct user_headers *h, struct slice name);
/* Whether it is one of those that only mvproxies write, compared as above. */
bool user_header_is_own(struct slice name);
enum user_field {
    USER_FIELD_NONE,
    USER_FIELD_NAME,  /* names a user */
    USER_FIELD_OTHER, /* UID, group or extra */
};
/* The part of an identity that a header asserts, by the standard names and the configured ones, compared as above. What
 * API servers and mvproxies tell each other by asserts nobody, even if a configured name or prefix covers it. */
enum user_field user_header_field(const struct user_headers *h, struct slice name);
/*
 * Whether a header of this name, or with this prefix, can be one for identities, which is removed from what clients
 * send. Compared as above, whole words only: what covers a reserved name, or is covered by it, takes it away as well.
 */
enum user_name {
    USER_NAME_FINE,
    USER_NAME_RESERVED, /* Impersonate-*, without which an impersonator acts as himself; what upgrades need */
    USER_NAME_GENERAL,  /* a prefix that takes in headers which have nothing to do with each other */
};
enum user_name user_name_judge(struct slice name, bool prefix);
/* Whether clients in general send headers of this name, or some with this prefix, for another purpose. As above. */
bool user_name_is_used(struct slice name, bool prefix);
/* Whether both have the same names in the same order. */
bool user_headers_same(const struct user_headers *a, const struct user_headers *b);
/* Whether this header marks a request that a peer sent on: one of the two names, with the value "true". */
bool user_header_marks_loop(struct slice name, struct slice value);

enum user_result {
    USER_OK,
    USER_NONE,        /* no user name header with a value: not a request of a front proxy */
    USER_UNENCODABLE, /* no name, or a value that no header can have unchanged (control bytes, outer white space) */
    USER_NO_MEMORY,
};

/*
 * Emits the headers for `u` in the order name, uid, groups, extras, under the first configured name of each kind, or
 * the standard name if none is configured. `emit` gets slices that live as long as `a` and `u`; it returns false when
 * out of memory. Empty uid and empty groups are left out. Nothing is emitted unless everything can be encoded.
 */
typedef bool user_emit_fn(void *arg, struct slice name, struct slice value);
enum user_result user_encode(const struct user *u, const struct user_headers *h, struct arena *a, user_emit_fn *emit,
                             void *arg);

/*
 * Reads an identity from a request's headers: user_decoder_new(), user_decoder_field() for each header line in order,
 * user_decoder_end(). By kube-apiserver's rules: the first configured user name header whose first line is not empty;
 * all group values; extra keys in lower case and percent-decoded (unchanged if malformed).
 */
struct user_decoder;
MEM_CHECK struct user_decoder *user_decoder_new(struct arena *a, const struct user_headers *h); /* lives in the arena */
/* Keeps the slices, which must live as long as the user. False when out of memory. */
MEM_CHECK bool user_decoder_field(struct user_decoder *d, struct slice name, struct slice value);
enum user_result user_decoder_end(struct user_decoder *d, struct user *out);

/* Escapes an extra key: '%' and every byte that is not an RFC 7230 token character becomes %XX. p is NULL when out of
 * memory. */
MEM_CHECK struct slice user_escape_key(struct arena *a, struct slice key);
/* The inverse, as the receiver does it: converts to lower case, then decodes, unless an escape is malformed. */
MEM_CHECK struct slice user_unescape_key(struct arena *a, struct slice escaped);

#endif
