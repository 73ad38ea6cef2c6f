/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_write.h"

#include <stdio.h>
#include <time.h>

#include "http/h1_check.h"
#include "http/hop.h"

enum { FRAMING_BYTES = 96 };

static bool skips(enum http_name id, unsigned flags)
{
    switch (id) {
    case HTTP_CONNECTION:
    case HTTP_CONTENT_LENGTH:
    case HTTP_KEEP_ALIVE:
    case HTTP_PROXY_CONNECTION:
    case HTTP_TRANSFER_ENCODING:
        return true;
    case HTTP_UPGRADE:
        return (flags & H1_WRITE_UPGRADE) == 0;
    default:
        return false;
    }
}

/* Bytes the fields take; false if one of them must not be sent. */
static bool measure(const struct http_head *head, unsigned flags, size_t *n)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];

        if (skips(f->id, flags))
            continue;
        if (!h1_has_name(f) || !h1_is_value(f->value))
            return false;
        *n += f->name.n + f->value.n + 4;
    }
    return true;
}

static char *put(char *w, struct slice s)
{
    if (s.n > 0)
        memcpy(w, s.p, s.n);
    return w + s.n;
}

static char *put_fields(char *w, const struct http_head *head, unsigned flags)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];

        if (skips(f->id, flags))
            continue;
        w = put(w, f->name);
        *w++ = ':';
        *w++ = ' ';
        w = put(w, f->value);
        *w++ = '\r';
        *w++ = '\n';
    }
    return w;
}

static char *put_u64(char *w, uint64_t v)
{
    char digits[SLICE_U64_BYTES];

    return put(w, slice_u64_text(v, digits));
}

/* The fields that belong to this connection only: framing, then Connection. */
static struct slice own_fields(struct http_body body, bool zero_length, unsigned flags, char out[FRAMING_BYTES])
{
    char *w = out;

    if (body.kind == HTTP_BODY_CHUNKED) {
        w = put(w, SLICE_LIT("Transfer-Encoding: chunked\r\n"));
    } else if (body.kind == HTTP_BODY_LENGTH || zero_length) {
        w = put(w, SLICE_LIT("Content-Length: "));
        w = put_u64(w, body.kind == HTTP_BODY_LENGTH ? body.length : 0);
        w = put(w, SLICE_LIT("\r\n"));
    }
    if ((flags & H1_WRITE_UPGRADE) != 0)
        w = put(w, SLICE_LIT("Connection: Upgrade\r\n"));
    else if ((flags & H1_WRITE_CLOSE) != 0)
        w = put(w, SLICE_LIT("Connection: close\r\n"));
    return slice_of(out, (size_t)(w - out));
}

static bool is_target(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || (unsigned char)s.p[i] == 0x7f)
            return false;
    return s.n > 0;
}

bool h1_write_request(struct buf *out, const struct http_head *head, struct http_body body, unsigned flags)
{
    char framing[FRAMING_BYTES], *start, *w;
    enum http_method m = head->method_id;
    bool zero_length = body.kind == HTTP_BODY_NONE && (m == HTTP_POST || m == HTTP_PUT || m == HTTP_PATCH);
    struct slice own = own_fields(body, zero_length, flags, framing), line_end = SLICE_LIT(" HTTP/1.1\r\n");
    size_t n = head->method.n + 1 + head->target.n + line_end.n + own.n + 2;

    if (body.kind == HTTP_BODY_CLOSE || !h1_is_token(head->method) || !is_target(head->target) ||
        !measure(head, flags, &n))
        return false;
    start = w = buf_reserve(out, n);
    if (w == NULL)
        return false;
    w = put(w, head->method);
    *w++ = ' ';
    w = put(w, head->target);
    w = put(w, line_end);
    w = put_fields(w, head, flags);
    w = put(w, own);
    w = put(w, SLICE_LIT("\r\n"));
    buf_commit(out, (size_t)(w - start));
    return true;
}

bool h1_write_response(struct buf *out, const struct http_head *head, struct http_body body, unsigned flags,
                       struct slice date)
{
    char framing[FRAMING_BYTES], *start, *w;
    bool bodiless = head->status < 200 || head->status == 204 || head->status == 304;
    bool zero_length = body.kind == HTTP_BODY_NONE && !bodiless && (flags & H1_WRITE_NO_LENGTH) == 0;
    bool add_date = date.n > 0 && http_head_find(head, HTTP_DATE) == NULL;
    struct slice reason = head->reason.n > 0 ? head->reason : http_reason(head->status), own;
    size_t n = sizeof("HTTP/1.1 200 ") - 1 + reason.n + 2 + 2;

    if (head->status < 200 || head->status == 204 || (flags & H1_WRITE_NO_LENGTH) != 0)
        body = (struct http_body){.kind = HTTP_BODY_NONE};
    own = own_fields(body, zero_length, flags, framing);
    n += own.n + (add_date ? sizeof("Date: \r\n") - 1 + date.n : 0);
    if (head->status < 100 || head->status > 999 || !h1_is_value(reason) || !h1_is_value(date) ||
        !measure(head, flags, &n))
        return false;
    start = w = buf_reserve(out, n);
    if (w == NULL)
        return false;
    w = put(w, SLICE_LIT("HTTP/1.1 "));
    w = put_u64(w, head->status);
    *w++ = ' ';
    w = put(w, reason);
    w = put(w, SLICE_LIT("\r\n"));
    w = put_fields(w, head, flags);
    if (add_date) {
        w = put(w, SLICE_LIT("Date: "));
        w = put(w, date);
        w = put(w, SLICE_LIT("\r\n"));
    }
    w = put(w, own);
    w = put(w, SLICE_LIT("\r\n"));
    buf_commit(out, (size_t)(w - start));
    return true;
}

bool h1_write_last_chunk(struct buf *out, const struct http_head *trailers)
{
    size_t n = 5;
    char *start, *w;

    for (size_t i = 0; trailers != NULL && i < trailers->n_fields; i++) {
        const struct http_field *f = &trailers->fields[i];

        if (!h1_is_token(f->name) || !h1_is_value(f->value))
            return false;
        n += f->name.n + f->value.n + 4;
    }
    start = w = buf_reserve(out, n);
    if (w == NULL)
        return false;
    w = put(w, SLICE_LIT("0\r\n"));
    for (size_t i = 0; trailers != NULL && i < trailers->n_fields; i++) {
        const struct http_field *f = &trailers->fields[i];

        if (!hop_trailer_allowed(f->name))
            continue;
        w = put(w, f->name);
        w = put(w, SLICE_LIT(": "));
        w = put(w, f->value);
        w = put(w, SLICE_LIT("\r\n"));
    }
    w = put(w, SLICE_LIT("\r\n"));
    buf_commit(out, (size_t)(w - start));
    return true;
}

struct slice h1_chunk_head(uint64_t n, char out[H1_CHUNK_HEAD_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    char *w = out + H1_CHUNK_HEAD_BYTES;

    *--w = '\n';
    *--w = '\r';
    do
        *--w = digits[n & 15];
    while ((n >>= 4) > 0);
    return slice_of(w, (size_t)(out + H1_CHUNK_HEAD_BYTES - w));
}

struct slice h1_date_text(struct h1_date *cache, int64_t wall_us)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t second = wall_us / 1000000;
    time_t t = (time_t)second;
    struct tm tm;

    if (cache->text[0] != '\0' && cache->second == second)
        return slice_str(cache->text);
    if (gmtime_r(&t, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 8099)
        return SLICE_NONE;
    (void)snprintf(cache->text, sizeof(cache->text), "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday,
                   tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    cache->second = second;
    return slice_str(cache->text);
}
