/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request and response heads, and trailers, as data: slices into memory that the owner of the head keeps (normally the
 * exchange's arena). Well-known names are classified once, at parsing, so that nobody compares strings on the hot path.
 */
#ifndef MVPROXY_HTTP_HEAD_H
#define MVPROXY_HTTP_HEAD_H

#include "base/mem.h"

/* Names that some code of ours asks for; everything else is HTTP_NAME_OTHER. */
enum http_name {
    HTTP_NAME_OTHER,
    HTTP_ACCEPT,
    HTTP_ACCEPT_ENCODING,
    HTTP_AUDIT_ID,
    HTTP_AUTHORIZATION,
    HTTP_CACHE_CONTROL,
    HTTP_CONNECTION,
    HTTP_CONTENT_ENCODING,
    HTTP_CONTENT_LENGTH,
    HTTP_CONTENT_TYPE,
    HTTP_DATE,
    HTTP_ETAG,
    HTTP_EXPECT,
    HTTP_HOST,
    HTTP_IF_NONE_MATCH,
    HTTP_KEEP_ALIVE,
    HTTP_PROXY_AUTHENTICATE,
    HTTP_PROXY_AUTHORIZATION,
    HTTP_PROXY_CONNECTION,
    HTTP_RETRY_AFTER,
    HTTP_SEC_WEBSOCKET_PROTOCOL,
    HTTP_TE,
    HTTP_TRAILER,
    HTTP_TRANSFER_ENCODING,
    HTTP_UPGRADE,
    HTTP_USER_AGENT,
    HTTP_VARY,
    HTTP_X_FORWARDED_FOR,
    HTTP_X_FORWARDED_PROTO,
    HTTP_NAME_COUNT
};

enum http_method {
    HTTP_METHOD_OTHER,
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_CONNECT
};

struct http_field {
    struct slice name, value;
    enum http_name id;
};

struct http_head {
    /* request */
    struct slice method, target;
    enum http_method method_id;
    /* response */
    unsigned status;
    struct slice reason;
    /* both */
    unsigned minor; /* HTTP/1.minor as received; 1 in heads we make */
    struct http_field *fields;
    size_t n_fields, cap_fields;
};

/* How a message's body is delimited. */
enum http_body_kind {
    HTTP_BODY_NONE,   /* there is none, by rule (HEAD, 204, 304, GET without length …) */
    HTTP_BODY_LENGTH, /* Content-Length */
    HTTP_BODY_CHUNKED,
    HTTP_BODY_CLOSE, /* responses only: until the connection ends */
};

struct http_body {
    enum http_body_kind kind;
    uint64_t length; /* HTTP_BODY_LENGTH only, bytes */
};

enum http_name http_name_of(struct slice name);
/* It is one of those, however it is spelled. */
bool http_name_is_known(struct slice name);
/* The canonical spelling, e.g. "Content-Length"; SLICE_NONE for HTTP_NAME_OTHER. */
struct slice http_name_text(enum http_name id);
enum http_method http_method_of(struct slice method);
/* GET, HEAD, OPTIONS: may be repeated without harm (RFC 9110 9.2.1). */
bool http_method_is_safe(enum http_method m);
/* The standard reason phrase; "Unknown" for what has none. */
struct slice http_reason(unsigned status);

/* Empty head whose field array has room for `cap` fields out of the arena. False when out of memory. */
MEM_CHECK bool http_head_init(struct http_head *h, struct arena *a, size_t cap);
/*
 * Appends without copying the text (name may be of any spelling). Grows from the arena; false when out of memory or at
 * LIMIT_HOP_FIELDS, beyond which there is only the room that http_head_init() was asked for: n_fields may be more.
 */
MEM_CHECK bool http_head_add(struct http_head *h, struct arena *a, struct slice name, struct slice value);
MEM_CHECK bool http_head_add_id(struct http_head *h, struct arena *a, enum http_name id, struct slice value);
/* One of another head, whose id is known. */
MEM_CHECK bool http_head_add_field(struct http_head *h, struct arena *a, const struct http_field *f);
/* With its own text of everything, out of the arena. */
MEM_CHECK bool http_head_copy(const struct http_head *h, struct arena *a, struct http_head *out);
/* First field with that id / name (case-insensitive), or NULL. */
const struct http_field *http_head_find(const struct http_head *h, enum http_name id);
const struct http_field *http_head_find_name(const struct http_head *h, struct slice name);
/* The first value or SLICE_NONE. */
struct slice http_head_value(const struct http_head *h, enum http_name id);
/* Whether all fields with that id together list more than so many elements; empty ones count, they are walked over just
 * as well. No more of them are looked at than that takes. */
bool http_head_lists_more(const struct http_head *h, enum http_name id, size_t most);

#endif
