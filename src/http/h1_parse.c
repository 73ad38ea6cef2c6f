/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_parse.h"

#include "base/buf.h"
#include "base/contract.h"
#include "base/limits.h"
#include "http/h1_check.h"
#include "http/llhttp_names.h"

enum { INLINE_MARKS = 32, MAX_EMPTY_LINES = 4 };

/* A field as offsets into the head's text: the text has no final place before the head is complete. */
struct mark {
    uint32_t name, name_len, value, value_len;
};

struct span {
    size_t at, len;
};

enum state { BEFORE, BEFORE_LF, INSIDE, DONE, FAILED };

struct h1_parser {
    llhttp_t ll;
    enum h1_kind kind;
    enum state state;
    size_t max_bytes, max_fields;
    struct arena *arena;
    struct http_head *head;

    struct buf partial;  /* text of a head that came in more than one piece */
    const char *piece;   /* where the piece being parsed starts */
    size_t before_piece; /* bytes of the head's text before it */
    unsigned empty_lines;

    struct span line; /* target or reason */
    struct mark *marks;
    size_t n_marks, cap_marks;
    bool field_open; /* the next piece of a name continues the last mark */
    struct mark inline_marks[INLINE_MARKS];

    unsigned status;
    const char *error;
};

static bool fail(struct h1_parser *p, unsigned status, const char *reason)
{
    if (p->error == NULL) {
        p->status = status;
        p->error = reason;
    }
    p->state = FAILED;
    return false;
}

static struct h1_parser *parser_of(llhttp_t *ll)
{
    return ll->data;
}

static size_t offset_of(const struct h1_parser *p, const char *at)
{
    return p->before_piece + (size_t)(at - p->piece);
}

static bool extend(struct h1_parser *p, struct span *s, const char *at, size_t n)
{
    if (s->len == 0)
        s->at = offset_of(p, at);
    s->len = offset_of(p, at) + n - s->at;
    return true;
}

static int on_target(llhttp_t *ll, const char *at, size_t n)
{
    struct h1_parser *p = parser_of(ll);

    extend(p, &p->line, at, n);
    if (p->line.len > LIMIT_TARGET_BYTES)
        return fail(p, 414, "request target is too long") ? 0 : -1;
    return 0;
}

static int on_reason(llhttp_t *ll, const char *at, size_t n)
{
    extend(parser_of(ll), &parser_of(ll)->line, at, n);
    return 0;
}

static bool grow_marks(struct h1_parser *p)
{
    struct mark *bigger;

    bigger = arena_alloc(p->arena, p->cap_marks * 2 * sizeof(*bigger));
    if (bigger == NULL)
        return fail(p, 503, "out of memory");
    memcpy(bigger, p->marks, p->n_marks * sizeof(*bigger));
    p->marks = bigger;
    p->cap_marks *= 2;
    return true;
}

static int on_name(llhttp_t *ll, const char *at, size_t n)
{
    struct h1_parser *p = parser_of(ll);

    if (!p->field_open) {
        if (p->n_marks >= p->max_fields)
            return fail(p, 431, "too many fields") ? 0 : -1;
        if (p->n_marks >= p->cap_marks && !grow_marks(p))
            return -1;
        p->marks[p->n_marks++] = (struct mark){.name = (uint32_t)offset_of(p, at)};
        p->field_open = true;
    }
    p->marks[p->n_marks - 1].name_len = (uint32_t)offset_of(p, at) + (uint32_t)n - p->marks[p->n_marks - 1].name;
    return 0;
}

static int on_value(llhttp_t *ll, const char *at, size_t n)
{
    struct h1_parser *p = parser_of(ll);
    struct mark *m;

    must_hold(p->n_marks > 0); /* llhttp tells of a name first */
    m = &p->marks[p->n_marks - 1];
    if (m->value_len == 0)
        m->value = (uint32_t)offset_of(p, at);
    m->value_len = (uint32_t)offset_of(p, at) + (uint32_t)n - m->value;
    return 0;
}

static int on_value_complete(llhttp_t *ll)
{
    parser_of(ll)->field_open = false;
    return 0;
}

/* Bodies are not llhttp's business here: it stops behind the empty line. */
static int on_head_complete(llhttp_t *ll)
{
    (void)ll;
    return HPE_PAUSED;
}

static const llhttp_settings_t request_settings = {
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head_complete,
};
static const llhttp_settings_t response_settings = {
    .on_status = on_reason,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head_complete,
};
static const llhttp_settings_t trailer_settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head_complete,
};

struct h1_parser *h1_parser_new(enum h1_kind kind, size_t max_bytes)
{
    struct h1_parser *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    p->kind = kind;
    p->state = FAILED;
    p->error = "not begun";
    h1_parser_limit(p, max_bytes, LIMIT_HEAD_FIELDS);
    return p;
}

void h1_parser_limit(struct h1_parser *p, size_t max_bytes, size_t max_fields)
{
    p->max_fields = max_fields;
    p->max_bytes = max_bytes < UINT32_MAX ? max_bytes : UINT32_MAX;
    buf_free(&p->partial);
    buf_init(&p->partial, p->max_bytes);
}

void h1_parser_free(struct h1_parser *p)
{
    if (p == NULL)
        return;
    buf_free(&p->partial);
    mem_free(p);
}

void h1_parser_uncharge(struct h1_parser *p)
{
    buf_charge(&p->partial, NULL);
}

void h1_parser_begin(struct h1_parser *p, struct arena *a, struct http_head *head)
{
    static const char line[] = "HTTP/1.1 200 OK\r\n";
    enum h1_kind kind = p->kind;

    llhttp_init(&p->ll, kind == H1_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE,
                kind == H1_REQUEST    ? &request_settings
                : kind == H1_RESPONSE ? &response_settings
                                      : &trailer_settings);
    p->ll.data = p;
    /* llhttp has no entry for trailers alone, but they are what follows a status line. */
    if (kind == H1_TRAILERS)
        (void)llhttp_execute(&p->ll, line, sizeof(line) - 1);
    p->state = kind == H1_REQUEST ? BEFORE : INSIDE;
    p->arena = a;
    p->head = head;
    *head = (struct http_head){0};
    buf_release(&p->partial);
    buf_charge(&p->partial, arena_quota(a));
    p->before_piece = 0;
    p->empty_lines = 0;
    p->line = (struct span){0, 0};
    p->marks = p->inline_marks;
    p->cap_marks = INLINE_MARKS;
    p->n_marks = 0;
    p->field_open = false;
    p->status = 400;
    p->error = NULL;
}

/* RFC 9112 2.2: empty lines before a request line are ignored; a few of them. Returns how many bytes they take. */
static size_t skip_empty_lines(struct h1_parser *p, struct slice in)
{
    size_t i = 0;

    for (; i < in.n; i++) {
        if (p->state == BEFORE_LF) {
            if (in.p[i] != '\n')
                return fail(p, 400, "bare CR before request line") ? 0 : i;
            p->state = BEFORE;
        } else if (in.p[i] == '\r') {
            if (p->empty_lines++ >= MAX_EMPTY_LINES)
                return fail(p, 400, "too many empty lines before request line") ? 0 : i;
            p->state = BEFORE_LF;
        } else {
            p->state = INSIDE;
            break;
        }
    }
    return i;
}

static struct slice part(struct slice text, size_t at, size_t len)
{
    return at > text.n || len > text.n - at ? SLICE_NONE : slice_of(text.p + at, len);
}

/* The start line byte by byte: llhttp tolerates more space than the grammar has. Returns its length with CRLF, or 0. */
static size_t start_line(const struct h1_parser *p, struct slice text)
{
    const struct http_head *h = p->head;
    size_t at;

    if (p->kind == H1_REQUEST) {
        at = h->method.n + 1 + h->target.n;
        return h->target.n > 0 && slice_has_prefix(text, h->method) && text.p[h->method.n] == ' ' &&
                       h->target.p == text.p + h->method.n + 1 &&
                       slice_has_prefix(slice_from(text, at),
                                        h->minor == 0 ? SLICE_LIT(" HTTP/1.0\r\n") : SLICE_LIT(" HTTP/1.1\r\n"))
                   ? at + sizeof(" HTTP/1.1\r\n") - 1
                   : 0;
    }
    if (text.n < 14 || !slice_has_prefix(text, SLICE_LIT("HTTP/1.")) || text.p[8] != ' ' ||
        (text.p[12] != ' ' && text.p[12] != '\r'))
        return 0;
    for (size_t i = 9; i < 12; i++)
        if (text.p[i] < '0' || text.p[i] > '9')
            return 0;
    at = slice_index(text, '\n');
    return at < text.n ? at + 1 : 0;
}

/* Turns marks into fields. Each line must be exactly name, colon, value: what llhttp saw and what stands there agree.
 */
static bool fill_fields(struct h1_parser *p, struct slice text, size_t at)
{
    struct http_head *h = p->head;

    if (p->n_marks > 0) {
        h->fields = arena_alloc(p->arena, p->n_marks * sizeof(*h->fields));
        if (h->fields == NULL)
            return fail(p, 503, "out of memory");
    }
    h->cap_fields = p->n_marks;
    for (size_t i = 0; i < p->n_marks; i++) {
        const struct mark *m = &p->marks[i];
        struct http_field *f = &h->fields[i];
        size_t line_end;

        if (m->name != at || at + m->name_len >= text.n || text.p[at + m->name_len] != ':')
            return fail(p, 400, "malformed field line");
        at += m->name_len + 1;
        line_end = at + slice_index(slice_from(text, at), '\r');
        f->name = part(text, m->name, m->name_len);
        f->value = slice_trim(part(text, at, line_end - at));
        if (m->value_len > 0 && f->value.n > 0 && f->value.p != text.p + m->value)
            return fail(p, 400, "malformed field line");
        f->id = http_name_of(f->name);
        at = line_end + 2;
    }
    h->n_fields = p->n_marks;
    if (at + 2 != text.n)
        return fail(p, 400, "malformed head");
    return true;
}

static bool finish(struct h1_parser *p, struct slice text)
{
    struct http_head *h = p->head;
    size_t lines, first = 0;
    const char *bad = h1_check_bytes(text, &lines);

    if (bad != NULL)
        return fail(p, 400, bad);
    if (p->kind != H1_TRAILERS) {
        if (p->ll.http_major != 1 || p->ll.http_minor > 1)
            return fail(p, 505, "unknown HTTP version");
        h->minor = p->ll.http_minor;
    }
    if (p->kind == H1_REQUEST) {
        h->method = slice_str(llhttp_method_name((llhttp_method_t)p->ll.method));
        h->method_id = http_method_of(h->method);
        h->target = part(text, p->line.at, p->line.len);
    } else if (p->kind == H1_RESPONSE) {
        h->status = p->ll.status_code;
        h->reason = slice_trim(part(text, p->line.at, p->line.len));
    }
    if (p->kind != H1_TRAILERS && (first = start_line(p, text)) == 0)
        return fail(p, 400, "malformed start line");
    if (lines != p->n_marks + (p->kind == H1_TRAILERS ? 1 : 2))
        return fail(p, 400, "malformed head");
    if (!fill_fields(p, text, first))
        return false;
    bad = h1_check_names(h);
    p->status = 400;
    if (bad == NULL && p->kind == H1_REQUEST)
        bad = h1_check_request(h, &p->status);
    if (bad == NULL && p->kind == H1_RESPONSE)
        bad = h1_check_response(h);
    return bad == NULL || fail(p, p->status, bad);
}

/* The head's text in one piece that lives as long as the arena. */
static bool gather(struct h1_parser *p, struct slice last, struct slice *text)
{
    if (p->before_piece == 0) {
        *text = arena_copy(p->arena, last);
    } else if (!buf_append(&p->partial, last)) {
        *text = SLICE_NONE;
    } else {
        *text = arena_copy(p->arena, buf_slice(&p->partial));
        buf_release(&p->partial);
    }
    return text->p != NULL || fail(p, 503, "out of memory");
}

static void explain(struct h1_parser *p, llhttp_errno_t e)
{
    const char *at = llhttp_get_error_pos(&p->ll);

    switch (e) {
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        fail(p, 505, "unknown HTTP version");
        return;
    case HPE_INVALID_METHOD:
        /* Letters that spell no method we know, or something that is no request at all (a TLS hello, say)? */
        fail(p, at != NULL && *at >= 'A' && *at <= 'Z' ? 501 : 400, "unknown method");
        return;
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        fail(p, 400, "conflicting Content-Length");
        return;
    case HPE_INVALID_CONTENT_LENGTH:
        fail(p, 400, "invalid Content-Length");
        return;
    case HPE_INVALID_TRANSFER_ENCODING:
        fail(p, 400, "invalid Transfer-Encoding");
        return;
    case HPE_INVALID_HEADER_TOKEN:
        fail(p, 400, "malformed field");
        return;
    case HPE_INVALID_URL:
        fail(p, 400, "malformed request target");
        return;
    default:
        fail(p, 400, "malformed head");
    }
}

enum h1_result h1_parser_feed(struct h1_parser *p, struct slice in, size_t *consumed)
{
    size_t skipped = 0, room = p->max_bytes - p->before_piece, taken;
    struct slice piece, text;
    llhttp_errno_t e;

    *consumed = 0;
    if (p->state == BEFORE || p->state == BEFORE_LF)
        skipped = skip_empty_lines(p, in);
    if (p->state != INSIDE) {
        *consumed = skipped;
        return p->state == BEFORE || p->state == BEFORE_LF ? H1_MORE : H1_ERROR;
    }
    piece = slice_from(in, skipped);
    if (piece.n > room)
        piece.n = room;
    p->piece = piece.p;
    if (piece.n == 0) {
        *consumed = skipped;
        return skipped == in.n ? H1_MORE : (fail(p, 431, "head is too large"), H1_ERROR);
    }
    e = llhttp_execute(&p->ll, piece.p, piece.n);
    if (e == HPE_OK) {
        if (piece.n < in.n - skipped)
            return fail(p, 431, "head is too large"), H1_ERROR;
        if (!buf_append(&p->partial, piece))
            return fail(p, 503, "out of memory"), H1_ERROR;
        p->before_piece += piece.n;
        *consumed = in.n;
        return H1_MORE;
    }
    if (e != HPE_PAUSED)
        return explain(p, e), H1_ERROR;
    taken = (size_t)(llhttp_get_error_pos(&p->ll) - piece.p);
    if (!gather(p, slice_of(piece.p, taken), &text) || !finish(p, text))
        return H1_ERROR;
    p->state = DONE;
    *consumed = skipped + taken;
    return H1_DONE;
}

bool h1_method_known(struct slice method)
{
#define METHOD_TEXT(number, name, string) SLICE_LIT(#string),
    static const struct slice known[] = {HTTP_METHOD_MAP(METHOD_TEXT)};
#undef METHOD_TEXT

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (slice_eq(method, known[i]))
            return true;
    return false;
}

bool h1_parser_started(const struct h1_parser *p)
{
    return p->before_piece > 0 || p->state == DONE || p->state == FAILED;
}

unsigned h1_parser_status(const struct h1_parser *p)
{
    return p->status;
}

const char *h1_parser_error(const struct h1_parser *p)
{
    return p->error;
}
