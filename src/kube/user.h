/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identities, and the request-header form in which front proxies pass them on (X-Remote-*). Header names and values are
 * plain slices: the HTTP layer's types are not known here.
 */
#ifndef MVPROXY_KUBE_USER_H
#define MVPROXY_KUBE_USER_H

#include "base/mem.h"

struct user_extra {
    struct slice key; /* decoded, lower-case */
    struct slice value;
};

/* One entry of `extras` per value: a key with two values stands there twice. */
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
/* On marked requests: 503 rather than an answer of a server that is only starting. */
#define USER_IF_READY "X-Mvproxy-If-Ready"
/* On answers to marked requests of verified front proxies: an mvproxy stands here; the value is its server ID. */
#define USER_HOP "X-Mvproxy-Hop"
/* Beside it, where it is no resource that was asked for: which version of mvproxy. */
#define USER_HOP_VERSION "X-Mvproxy-Version"

/* X-Remote-User, X-Remote-Group, X-Remote-Extra-; no uid header (kubeadm's defaults). Static. */
const struct user_headers *user_headers_default(void);

/*
 * True for every header that asserts an identity or marks a hop, and so must be removed from whatever is not a verified
 * front proxy: the standard names, the configured ones and both markers, without regard to case and with '_' read
 * as '-' (some servers fold it).
 */
bool user_header_is_identity(const struct user_headers *h, struct slice name);
enum user_field {
    USER_FIELD_NONE,
    USER_FIELD_NAME,  /* names a user */
    USER_FIELD_OTHER, /* UID, group or extra */
};
/* What a header says of an identity, under the standard names and the configured ones, compared as above. */
enum user_field user_header_field(const struct user_headers *h, struct slice name);
/* The same names in the same order. */
bool user_headers_same(const struct user_headers *a, const struct user_headers *b);
/* True if this header marks a request that was already sent on by a peer: one of the two names, value exactly "true".
 */
bool user_header_marks_loop(struct slice name, struct slice value);

enum user_result {
    USER_OK,
    USER_NONE,        /* no user name header with a value: not a front-proxy request */
    USER_UNENCODABLE, /* no name, or a value that a header cannot carry unchanged (control bytes, outer white space) */
    USER_NO_MEMORY,
};

/*
 * Emits the headers for `u` in the order name, uid, groups, extras, under the first configured name of each kind, or
 * the standard name where none is configured. `emit` gets slices that live as long as `a` and `u`; it returns false
 * when out of memory. Empty uid and empty groups are left out. Nothing is emitted unless everything can be.
 */
typedef bool user_emit_fn(void *arg, struct slice name, struct slice value);
enum user_result user_encode(const struct user *u, const struct user_headers *h, struct arena *a, user_emit_fn *emit,
                             void *arg);

/*
 * Reads an identity from a request's headers: begin, one field call per header line in order of arrival, end. The same
 * rules as kube-apiserver: the first configured user name header whose first line is not empty; all group values; extra
 * keys lower-cased and percent-decoded (left as they are if malformed).
 */
struct user_decoder;
MEM_CHECK struct user_decoder *user_decoder_new(struct arena *a, const struct user_headers *h); /* lives in the arena */
/* False when out of memory. Keeps the slices: they must live as long as the user. */
MEM_CHECK bool user_decoder_field(struct user_decoder *d, struct slice name, struct slice value);
enum user_result user_decoder_end(struct user_decoder *d, struct user *out);

/* Escaping of extra keys: every byte that is not an RFC 7230 token character, and '%', becomes %XX. p is NULL without
 * memory. */
MEM_CHECK struct slice user_escape_key(struct arena *a, struct slice key);
/* The inverse as the receiver does it: lower-cases, then decodes; malformed escapes leave the lower-cased text. */
MEM_CHECK struct slice user_unescape_key(struct arena *a, struct slice escaped);

#endif
