/* SPDX-License-Identifier: Apache-2.0 */
#include "http/head.h"

#include "base/contract.h"
#include "base/limits.h"

enum { LONGEST_NAME = 22, SAME_LENGTH = 4 };

static const struct slice names[HTTP_NAME_COUNT] = {
    [HTTP_ACCEPT] = SLICE_LIT("Accept"),
    [HTTP_ACCEPT_ENCODING] = SLICE_LIT("Accept-Encoding"),
    [HTTP_AUDIT_ID] = SLICE_LIT("Audit-Id"),
    [HTTP_AUTHORIZATION] = SLICE_LIT("Authorization"),
    [HTTP_CACHE_CONTROL] = SLICE_LIT("Cache-Control"),
    [HTTP_CONNECTION] = SLICE_LIT("Connection"),
    [HTTP_CONTENT_ENCODING] = SLICE_LIT("Content-Encoding"),
    [HTTP_CONTENT_LENGTH] = SLICE_LIT("Content-Length"),
    [HTTP_CONTENT_TYPE] = SLICE_LIT("Content-Type"),
    [HTTP_DATE] = SLICE_LIT("Date"),
    [HTTP_ETAG] = SLICE_LIT("ETag"),
    [HTTP_EXPECT] = SLICE_LIT("Expect"),
    [HTTP_HOST] = SLICE_LIT("Host"),
    [HTTP_IF_NONE_MATCH] = SLICE_LIT("If-None-Match"),
    [HTTP_KEEP_ALIVE] = SLICE_LIT("Keep-Alive"),
    [HTTP_PROXY_AUTHENTICATE] = SLICE_LIT("Proxy-Authenticate"),
    [HTTP_PROXY_AUTHORIZATION] = SLICE_LIT("Proxy-Authorization"),
    [HTTP_PROXY_CONNECTION] = SLICE_LIT("Proxy-Connection"),
    [HTTP_RETRY_AFTER] = SLICE_LIT("Retry-After"),
    [HTTP_SEC_WEBSOCKET_PROTOCOL] = SLICE_LIT("Sec-WebSocket-Protocol"),
    [HTTP_TE] = SLICE_LIT("TE"),
    [HTTP_TRAILER] = SLICE_LIT("Trailer"),
    [HTTP_TRANSFER_ENCODING] = SLICE_LIT("Transfer-Encoding"),
    [HTTP_UPGRADE] = SLICE_LIT("Upgrade"),
    [HTTP_USER_AGENT] = SLICE_LIT("User-Agent"),
    [HTTP_VARY] = SLICE_LIT("Vary"),
    [HTTP_X_FORWARDED_FOR] = SLICE_LIT("X-Forwarded-For"),
    [HTTP_X_FORWARDED_PROTO] = SLICE_LIT("X-Forwarded-Proto"),
};

/* Names by length: at most four candidates, nearly always decided by the first letter. */
static const unsigned char by_length[LONGEST_NAME + 1][SAME_LENGTH] = {
    [2] = {HTTP_TE},
    [4] = {HTTP_HOST, HTTP_DATE, HTTP_VARY, HTTP_ETAG},
    [6] = {HTTP_ACCEPT, HTTP_EXPECT},
    [7] = {HTTP_UPGRADE, HTTP_TRAILER},
    [8] = {HTTP_AUDIT_ID},
    [10] = {HTTP_USER_AGENT, HTTP_CONNECTION, HTTP_KEEP_ALIVE},
    [11] = {HTTP_RETRY_AFTER},
    [12] = {HTTP_CONTENT_TYPE},
    [13] = {HTTP_AUTHORIZATION, HTTP_CACHE_CONTROL, HTTP_IF_NONE_MATCH},
    [14] = {HTTP_CONTENT_LENGTH},
    [15] = {HTTP_ACCEPT_ENCODING, HTTP_X_FORWARDED_FOR},
    [16] = {HTTP_CONTENT_ENCODING, HTTP_PROXY_CONNECTION},
    [17] = {HTTP_TRANSFER_ENCODING, HTTP_X_FORWARDED_PROTO},
    [18] = {HTTP_PROXY_AUTHENTICATE},
    [19] = {HTTP_PROXY_AUTHORIZATION},
    [22] = {HTTP_SEC_WEBSOCKET_PROTOCOL},
};

enum http_name http_name_of(struct slice name)
{
    enum { CASE_BIT = 0x20 };

    if (name.n > LONGEST_NAME)
        return HTTP_NAME_OTHER;
    for (size_t i = 0; i < SAME_LENGTH && by_length[name.n][i] != HTTP_NAME_OTHER; i++) {
        struct slice known = names[by_length[name.n][i]];

        if (((name.p[0] ^ known.p[0]) & ~CASE_BIT) == 0 && slice_ieq(name, known))
            return (enum http_name)by_length[name.n][i];
    }
    return HTTP_NAME_OTHER;
}

bool http_name_is_known(struct slice name)
{
    return http_name_of(name) != HTTP_NAME_OTHER;
}

struct slice http_name_text(enum http_name id)
{
    return names[id];
}

enum http_method http_method_of(struct slice method)
{
    static const struct {
        struct slice text;
        enum http_method id;
    } methods[] = {
        {SLICE_LIT("GET"), HTTP_GET},         {SLICE_LIT("HEAD"), HTTP_HEAD},       {SLICE_LIT("POST"), HTTP_POST},
        {SLICE_LIT("PUT"), HTTP_PUT},         {SLICE_LIT("PATCH"), HTTP_PATCH},     {SLICE_LIT("DELETE"), HTTP_DELETE},
        {SLICE_LIT("OPTIONS"), HTTP_OPTIONS}, {SLICE_LIT("CONNECT"), HTTP_CONNECT},
    };

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (slice_eq(method, methods[i].text))
            return methods[i].id;
    return HTTP_METHOD_OTHER;
}

bool http_method_is_safe(enum http_method m)
{
    return m == HTTP_GET || m == HTTP_HEAD || m == HTTP_OPTIONS;
}

struct slice http_reason(unsigned status)
{
    static const struct {
        unsigned status;
        struct slice text;
    } reasons[] = {
        {200, SLICE_LIT("OK")},
        {100, SLICE_LIT("Continue")},
        {101, SLICE_LIT("Switching Protocols")},
        {103, SLICE_LIT("Early Hints")},
        {201, SLICE_LIT("Created")},
        {202, SLICE_LIT("Accepted")},
        {204, SLICE_LIT("No Content")},
        {206, SLICE_LIT("Partial Content")},
        {301, SLICE_LIT("Moved Permanently")},
        {302, SLICE_LIT("Found")},
        {304, SLICE_LIT("Not Modified")},
        {307, SLICE_LIT("Temporary Redirect")},
        {308, SLICE_LIT("Permanent Redirect")},
        {400, SLICE_LIT("Bad Request")},
        {401, SLICE_LIT("Unauthorized")},
        {403, SLICE_LIT("Forbidden")},
        {404, SLICE_LIT("Not Found")},
        {405, SLICE_LIT("Method Not Allowed")},
        {406, SLICE_LIT("Not Acceptable")},
        {408, SLICE_LIT("Request Timeout")},
        {409, SLICE_LIT("Conflict")},
        {410, SLICE_LIT("Gone")},
        {413, SLICE_LIT("Content Too Large")},
        {414, SLICE_LIT("URI Too Long")},
        {415, SLICE_LIT("Unsupported Media Type")},
        {417, SLICE_LIT("Expectation Failed")},
        {422, SLICE_LIT("Unprocessable Entity")},
        {429, SLICE_LIT("Too Many Requests")},
        {431, SLICE_LIT("Request Header Fields Too Large")},
        {500, SLICE_LIT("Internal Server Error")},
        {501, SLICE_LIT("Not Implemented")},
        {502, SLICE_LIT("Bad Gateway")},
        {503, SLICE_LIT("Service Unavailable")},
        {504, SLICE_LIT("Gateway Timeout")},
        {505, SLICE_LIT("HTTP Version Not Supported")},
        {508, SLICE_LIT("Loop Detected")},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return SLICE_LIT("Unknown");
}

bool http_head_init(struct http_head *h, struct arena *a, size_t cap)
{
    *h = (struct http_head){.minor = 1};
    if (cap == 0)
        return true;
    h->fields = arena_alloc(a, cap * sizeof(*h->fields));
    if (h->fields == NULL)
        return false;
    h->cap_fields = cap;
    return true;
}

static bool grow(struct http_head *h, struct arena *a)
{
    size_t cap = h->cap_fields < 8 ? 16 : h->cap_fields * 2;
    struct http_field *fields;

    if (h->n_fields >= LIMIT_HOP_FIELDS)
        return false;
    if (cap > LIMIT_HOP_FIELDS)
        cap = LIMIT_HOP_FIELDS;
    fields = arena_alloc(a, cap * sizeof(*fields));
    if (fields == NULL)
        return false;
    if (h->n_fields > 0)
        memcpy(fields, h->fields, h->n_fields * sizeof(*fields));
    h->fields = fields;
    h->cap_fields = cap;
    return true;
}

static bool add(struct http_head *h, struct arena *a, const struct http_field *f)
{
    if (h->n_fields >= h->cap_fields && !grow(h, a))
        return false;
    must_hold(h->n_fields < h->cap_fields);
    h->fields[h->n_fields++] = *f;
    return true;
}

bool http_head_add(struct http_head *h, struct arena *a, struct slice name, struct slice value)
{
    return add(h, a, &(struct http_field){name, value, http_name_of(name)});
}

bool http_head_add_id(struct http_head *h, struct arena *a, enum http_name id, struct slice value)
{
    return add(h, a, &(struct http_field){names[id], value, id});
}

bool http_head_add_field(struct http_head *h, struct arena *a, const struct http_field *f)
{
    return add(h, a, f);
}

bool http_head_copy(const struct http_head *h, struct arena *a, struct http_head *out)
{
    if (!http_head_init(out, a, h->n_fields))
        return false;
    out->method = arena_copy(a, h->method);
    out->target = arena_copy(a, h->target);
    out->method_id = h->method_id;
    out->status = h->status;
    out->reason = arena_copy(a, h->reason);
    out->minor = h->minor;
    if (out->method.p == NULL || out->target.p == NULL || out->reason.p == NULL)
        return false;
    for (size_t i = 0; i < h->n_fields; i++) {
        struct http_field f = h->fields[i];

        f.name = arena_copy(a, f.name);
        f.value = arena_copy(a, f.value);
        if (f.name.p == NULL || f.value.p == NULL || !http_head_add_field(out, a, &f))
            return false;
    }
    return true;
}

const struct http_field *http_head_find(const struct http_head *h, enum http_name id)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (h->fields[i].id == id)
            return &h->fields[i];
    return NULL;
}

const struct http_field *http_head_find_name(const struct http_head *h, struct slice name)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (slice_ieq(h->fields[i].name, name))
            return &h->fields[i];
    return NULL;
}

struct slice http_head_value(const struct http_head *h, enum http_name id)
{
    const struct http_field *f = http_head_find(h, id);

    return f == NULL ? SLICE_NONE : f->value;
}

bool http_head_lists_more(const struct http_head *h, enum http_name id, size_t most)
{
    size_t seen = 0;

    for (size_t i = 0; i < h->n_fields; i++) {
        struct slice rest = h->fields[i].value, element;

        while (h->fields[i].id == id && seen <= most && slice_split(&rest, ',', &element))
            seen++;
    }
    return seen > most;
}
