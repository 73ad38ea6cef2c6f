/* SPDX-License-Identifier: Apache-2.0 */
#include "http/credential.h"

#include "base/utf8.h"
#include "http/h1_parse.h"
#include "http/hop.h"

/* White space at either end, and protocols, that are walked over: a client may send a megabyte of them. */
enum { SPACE_BYTES = 4 << 10, PROTOCOLS = 1000 };

#define WEBSOCKET_BEARER "base64url.bearer.authorization.k8s.io."

/* Bytes of the white space (unicode.IsSpace) at the front; 0: there is none. */
static size_t space_at(struct slice s)
{
    uint32_t code;
    size_t n = utf8_next(s, &code);

    if (n == 0)
        return 0;
    switch (code) {
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
        return n;
    default:
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x2000 && code <= 0x200a) ? n : 0;
    }
}

/* No white space has more than three bytes. */
static size_t space_before_end(struct slice s)
{
    for (size_t n = 1; n <= 3 && n <= s.n; n++)
        if (space_at(slice_of(s.p + s.n - n, n)) == n)
            return n;
    return 0;
}

/* White space beyond SPACE_BYTES stays. */
static struct slice trim(struct slice s)
{
    size_t n, kept = s.n > SPACE_BYTES ? s.n - SPACE_BYTES : 0;

    while (s.n > kept && (n = space_at(s)) > 0)
        s = slice_from(s, n);
    kept = s.n > SPACE_BYTES ? s.n - SPACE_BYTES : 0;
    while (s.n > kept && (n = space_before_end(s)) > 0)
        s.n -= n;
    return s;
}

bool credential_is_bearer(struct slice authorization)
{
    static const struct slice scheme = SLICE_LIT("Bearer ");
    struct slice s = trim(authorization);

    /* More white space than is walked over: the server may find a token behind it. */
    if (space_at(s) > 0)
        return true;
    /* What ends in no space and has one has something behind it. */
    return slice_has_iprefix(s, scheme) && s.n > scheme.n && s.p[scheme.n] != ' ';
}

struct slice credential_token(struct slice authorization)
{
    struct slice s = trim(authorization);

    /* What has more white space than is walked over is no token that could be told from another one. */
    if (!credential_is_bearer(authorization) || space_at(s) > 0 || space_before_end(s) > 0)
        return SLICE_NONE;
    s = slice_from(s, sizeof("Bearer ") - 1);
    return slice_index(s, ' ') < s.n ? SLICE_NONE : s;
}

/* Only what is passed on as an upgrade is one to the server. */
static bool is_websocket(const struct http_head *request)
{
    struct http_body body = h1_request_body(request);

    return (body.kind == HTTP_BODY_NONE || (body.kind == HTTP_BODY_LENGTH && body.length == 0)) &&
           hop_wants_upgrade(request) &&
           slice_ieq(slice_trim(http_head_value(request, HTTP_UPGRADE)), SLICE_LIT("websocket"));
}

/* An empty one is none, but a second one is an error. */
static bool has_websocket_token(const struct http_head *request)
{
    size_t seen = 0, read = 0;

    for (size_t i = 0; i < request->n_fields; i++) {
        struct slice rest = request->fields[i].value, part;

        if (request->fields[i].id != HTTP_SEC_WEBSOCKET_PROTOCOL)
            continue;
        while (slice_split(&rest, ',', &part)) {
            if (++read > PROTOCOLS) /* for all we know */
                return true;
            part = trim(part);
            if (slice_has_prefix(part, SLICE_LIT(WEBSOCKET_BEARER)) &&
                (part.n > sizeof(WEBSOCKET_BEARER) - 1 || ++seen > 1))
                return true;
        }
    }
    return false;
}

bool credential_shown(const struct http_head *request)
{
    return credential_is_bearer(http_head_value(request, HTTP_AUTHORIZATION)) ||
           (is_websocket(request) && has_websocket_token(request));
}
