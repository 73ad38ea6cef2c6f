/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_head.h"

#include "base/clock.h"
#include "base/contract.h"
#include "http/h1_check.h"
#include "http/h1_parse.h"
#include "http/h2_fields.h"
#include "http/hop.h"

/* ---- requests: nghttp2 has made sure of names in lower case, the set and order of pseudo-header fields, no fields of
 * connections, and content-length against the body (RFC 9113 8.1.1, 8.2, 8.3) ---- */

static void refuse(struct h2_stream *st, unsigned status, const char *reason)
{
    if (st->refusal == 0) {
        st->refusal = status;
        st->refusal_reason = reason;
    }
}

void h2_head_no_room(struct h2_stream *st)
{
    const struct memory_holder *m = &st->c->fc->memory;

    if (!quota_has_room(&m->held, LIMIT_HEAD_BYTES))
        refuse(st, 429, "clients hold too much memory");
    else if (!quota_has_room(&m->heads, LIMIT_HEAD_BYTES))
        refuse(st, 429, "heads of too many bytes at once");
    else
        refuse(st, 503, "out of memory");
}

static struct slice keep(struct h2_stream *st, struct arena *a, struct slice text)
{
    struct slice copy = arena_copy(a, text);

    if (copy.p == NULL)
        h2_head_no_room(st);
    return copy;
}

static void pseudo_field(struct h2_stream *st, struct slice name, struct slice value)
{
    struct http_head *h = &st->x.request;
    struct arena *a = st->x.request_arena;

    if (slice_eq(name, SLICE_LIT(":method"))) {
        h->method = keep(st, st->x.arena, value);
        h->method_id = http_method_of(h->method);
    } else if (slice_eq(name, SLICE_LIT(":path"))) {
        if (value.n > LIMIT_TARGET_BYTES)
            refuse(st, 414, "request target is too long");
        else
            h->target = keep(st, st->x.arena, value);
    } else if (slice_eq(name, SLICE_LIT(":authority"))) {
        /* Pseudo-header fields come first: so does Host, for which the table has room. */
        (void)!http_head_add_id(h, a, HTTP_HOST, keep(st, a, value));
    }
}

static void regular_field(struct h2_stream *st, struct slice name, struct slice value)
{
    struct http_head *h = &st->x.request;
    struct arena *a = st->x.request_arena;
    enum http_name id = http_name_of(name);
    const struct http_field *host;
    struct http_field field;

    value = slice_trim(value);
    if (id == HTTP_HOST && (host = http_head_find(h, HTTP_HOST)) != NULL) {
        /* Next to :authority it may stand only with the same value (RFC 9113 8.3.1). */
        if (!slice_ieq(host->value, value))
            refuse(st, 400, "Host and :authority differ");
        return;
    }
    field = (struct http_field){id == HTTP_NAME_OTHER ? keep(st, a, name) : http_name_text(id), keep(st, a, value), id};
    if (st->refusal == 0 && !http_head_add_field(h, a, &field))
        h2_head_no_room(st);
}

/* Against both limits; false beyond. */
static bool count_field(struct h2_stream *st, struct slice name, struct slice value, size_t most)
{
    st->head_bytes += name.n + value.n + H2_FIELD_OVERHEAD;
    st->head_fields++;
    if (st->head_bytes > most)
        refuse(st, 431, "head is too large");
    else if (st->head_fields > st->c->fc->limits.max_head_fields)
        refuse(st, 431, "too many fields");
    else if (front_conn_must_wait(st->c->fc)) /* a head whose end never comes must not take what others need */
        refuse(st, 429, "clients hold too much memory");
    return st->refusal == 0;
}

void h2_head_field(struct h2_stream *st, struct slice name, struct slice value)
{
    if (!count_field(st, name, value, st->c->fc->limits.max_head_bytes))
        return;
    if (name.n > 0 && name.p[0] == ':')
        pseudo_field(st, name, value);
    else
        regular_field(st, name, value);
}

void h2_head_trailer(struct h2_stream *st, struct slice name, struct slice value)
{
    struct arena *a = st->x.arena;

    if (!count_field(st, name, value, LIMIT_TRAILER_BYTES) || !hop_trailer_allowed(name))
        return;
    name = keep(st, a, name);
    value = keep(st, a, slice_trim(value));
    if (st->refusal == 0 && !http_head_add(&st->trailers, a, name, value))
        refuse(st, 503, "out of memory");
}

static bool is_cookie(const struct http_field *f)
{
    return f->id == HTTP_NAME_OTHER && slice_eq(f->name, SLICE_LIT("cookie"));
}

/* The text of all cookie fields as one, `n` bytes with its separators. */
static struct slice join_crumbs(struct h2_stream *st, size_t n)
{
    const struct http_head *h = &st->x.request;
    char *text = arena_alloc(st->x.request_arena, n);
    size_t at = 0;

    if (text == NULL) {
        h2_head_no_room(st);
        return SLICE_NONE;
    }
    for (size_t i = 0; i < h->n_fields; i++) {
        const struct slice value = h->fields[i].value;

        if (!is_cookie(&h->fields[i]))
            continue;
        must_hold(value.n + 2 <= n - at);
        if (value.n > 0)
            memcpy(text + at, value.p, value.n);
        memcpy(text + at + value.n, "; ", 2);
        at += value.n + 2;
    }
    return slice_of(text, at - 2);
}

/* RFC 9113 8.2.3: a cookie may come in crumbs; whoever does not speak HTTP/2 must see one field. Once, when all are
 * there: a head of crumbs must not cost more than any other. */
static void join_cookies(struct h2_stream *st)
{
    struct http_head *h = &st->x.request;
    size_t crumbs = 0, n = 0, kept = 0;
    struct slice whole;
    bool put = false;

    for (size_t i = 0; i < h->n_fields; i++)
        if (is_cookie(&h->fields[i])) {
            crumbs++;
            n += h->fields[i].value.n + 2;
        }
    if (crumbs < 2)
        return;
    whole = join_crumbs(st, n);
    for (size_t i = 0; i < h->n_fields; i++) {
        if (is_cookie(&h->fields[i])) {
            if (put)
                continue;
            put = true;
            h->fields[i].value = whole;
        }
        h->fields[kept++] = h->fields[i];
    }
    h->n_fields = kept;
}

/* The same judgement as on HTTP/1.1: what is refused there is refused here. */
const char *h2_head_check(struct h2_stream *st, unsigned *status)
{
    const struct http_head *h = &st->x.request;
    const char *bad;

    if (st->refusal == 0)
        join_cookies(st);
    *status = st->refusal;
    if (st->refusal != 0)
        return st->refusal_reason;
    *status = 405;
    if (h->method_id == HTTP_CONNECT)
        return "CONNECT is not served";
    *status = 501;
    if (!h1_method_known(h->method))
        return "unknown method";
    *status = 400;
    bad = h1_check_names(h);
    for (size_t i = 0; bad == NULL && i < h->n_fields; i++)
        if (!h1_is_value(h->fields[i].value))
            bad = "control byte in head";
    return bad != NULL ? bad : h1_check_request(h, status);
}

/* ---- responses ---- */

static struct slice number(struct arena *a, uint64_t v)
{
    char *out = arena_alloc(a, SLICE_U64_BYTES);

    return out == NULL ? SLICE_NONE : slice_u64_text(v, out);
}

nghttp2_nv *h2_head_response(struct h2_stream *st, const struct http_head *head, struct http_body body, size_t *n)
{
    struct arena *a = st->x.arena;
    nghttp2_nv *nva = arena_alloc(a, (head->n_fields + 3) * sizeof(*nva));
    struct slice status = number(a, head->status), length, date;

    *n = 0;
    if (nva == NULL || status.p == NULL || head->status < 100 || head->status > 999)
        return NULL;
    nva[(*n)++] = h2_nv(SLICE_LIT(":status"), status);
    if (!h2_put_fields(nva, n, head))
        return NULL;
    date = head->status < 200 ? SLICE_NONE : h1_date_text(&st->c->fc->host->date, clock_wall_us());
    if (date.n > 0 && http_head_find(head, HTTP_DATE) == NULL)
        nva[(*n)++] = h2_nv(SLICE_LIT("date"), date);
    if (body.kind == HTTP_BODY_LENGTH) {
        length = number(a, body.length);
        if (length.p == NULL)
            return NULL;
        nva[(*n)++] = h2_nv(SLICE_LIT("content-length"), length);
    }
    return nva;
}

nghttp2_nv *h2_head_trailers(struct h2_stream *st, const struct http_head *trailers, size_t *n)
{
    nghttp2_nv *nva = arena_alloc(st->x.arena, trailers->n_fields * sizeof(*nva));

    *n = 0;
    for (size_t i = 0; nva != NULL && i < trailers->n_fields; i++) {
        const struct http_field *f = &trailers->fields[i];

        if (!h1_is_token(f->name) || !h1_is_value(f->value))
            return NULL;
        if (hop_trailer_allowed(f->name))
            nva[(*n)++] = h2_nv(f->name, f->value);
    }
    return nva;
}

bool h2_head_keep(struct h2_stream *st, nghttp2_nv *nva, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct slice name = arena_copy(st->x.arena, slice_of((const char *)nva[i].name, nva[i].namelen));
        struct slice value = arena_copy(st->x.arena, slice_of((const char *)nva[i].value, nva[i].valuelen));

        if (name.p == NULL || value.p == NULL)
            return false;
        nva[i] = h2_nv(name, value);
    }
    return true;
}
