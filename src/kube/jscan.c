/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/jscan.h"

#include "base/utf8.h"

/* Bytes inside a string that stand for themselves. */
static bool plain_in_string(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static bool fail(struct jscan *s, const char *why)
{
    if (s->error == NULL)
        s->error = why;
    return false;
}

static size_t scan_end(const struct jscan *s)
{
    return s->limit < s->text.n ? s->limit : s->text.n;
}

static bool fail_at_end(struct jscan *s)
{
    return fail(s, s->limit < s->text.n ? "a part is too big" : "truncated");
}

void jscan_init(struct jscan *s, struct slice text, unsigned max_depth)
{
    *s = (struct jscan){.text = text, .limit = text.n};
    s->max_depth = max_depth < JSCAN_MAX_DEPTH ? max_depth : JSCAN_MAX_DEPTH;
}

static void skip_space(struct jscan *s)
{
    size_t end = scan_end(s);

    while (s->pos < end) {
        char c = s->text.p[s->pos];

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        s->pos++;
    }
}

/* The next byte that is not white space; 0 at an error or the end (a NUL byte is no JSON anyway). */
static char next_byte(struct jscan *s)
{
    if (s->error != NULL)
        return 0;
    skip_space(s);
    if (s->pos >= scan_end(s)) {
        fail_at_end(s);
        return 0;
    }
    return s->text.p[s->pos];
}

/* Four hex digits; false if they are not. */
static bool hex4(const char *p, size_t n, uint32_t *out)
{
    uint64_t v;

    if (n < 4 || !slice_hex_u64(slice_of(p, 4), &v))
        return false;
    *out = (uint32_t)v;
    return true;
}

/*
 * One escape sequence at p, which points at the backslash. Gives the code point and returns the length, 0 if it is
 * malformed. A surrogate must be one half of a pair.
 */
static size_t escape_decode(const char *p, size_t n, uint32_t *cp)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t low;
    const char *at;

    if (n < 2)
        return 0;
    if (p[1] != 'u') {
        at = p[1] == '\0' ? NULL : strchr(names, p[1]);
        if (at == NULL)
            return 0;
        *cp = (unsigned char)values[at - names];
        return 2;
    }
    if (!hex4(p + 2, n - 2, cp))
        return 0;
    if (*cp < 0xd800 || *cp > 0xdfff)
        return 6;
    if (*cp > 0xdbff || n < 12 || p[6] != '\\' || p[7] != 'u' || !hex4(p + 8, n - 8, &low) || low < 0xdc00 ||
        low > 0xdfff)
        return 0;
    *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

/* Of eight bytes: the highest bit of each that is not plain. Those behind the first may be wrong. */
static uint64_t not_plain(const char *p)
{
    static const uint64_t ones = 0x0101010101010101;
    uint64_t eight, quote, backslash;

    memcpy(&eight, p, sizeof(eight));
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        eight = __builtin_bswap64(eight);
    quote = eight ^ (ones * '"');
    backslash = eight ^ (ones * '\\');
    return (eight | (eight - ones * 0x20) | (quote - ones) | (backslash - ones)) & (ones * 0x80);
}

/* The first byte from pos on that is not plain, or the end. */
static size_t skip_plain(const char *p, size_t pos, size_t end)
{
    while (end - pos >= 8) {
        uint64_t found = not_plain(p + pos);

        if (found != 0)
            return pos + (size_t)__builtin_ctzll(found) / 8;
        pos += 8;
    }
    while (pos < end && plain_in_string((unsigned char)p[pos]))
        pos++;
    return pos;
}

/* At the opening quote. */
static bool skip_string(struct jscan *s, bool *escaped)
{
    const char *p = s->text.p;
    size_t end = scan_end(s), pos = s->pos + 1, len;
    uint32_t cp;

    for (;;) {
        pos = skip_plain(p, pos, end);
        if (pos >= end)
            return fail_at_end(s);
        if (p[pos] == '"')
            break;
        if (p[pos] == '\\') {
            *escaped = true;
            len = escape_decode(p + pos, end - pos, &cp);
            if (len == 0)
                return fail(s, "bad escape in a string");
        } else {
            len = (unsigned char)p[pos] < 0x20 ? 0 : utf8_next(slice_of(p + pos, end - pos), &cp);
            if (len == 0)
                return fail(s, "control byte or bad UTF-8 in a string");
        }
        pos += len;
    }
    s->pos = pos + 1;
    return true;
}

static size_t skip_digits(const struct jscan *s, size_t pos)
{
    size_t end = scan_end(s);

    while (pos < end && s->text.p[pos] >= '0' && s->text.p[pos] <= '9')
        pos++;
    return pos;
}

static char byte_at(const struct jscan *s, size_t pos)
{
    return pos < scan_end(s) ? s->text.p[pos] : '\0';
}

static bool skip_number(struct jscan *s)
{
    size_t pos = s->pos, from;

    if (byte_at(s, pos) == '-')
        pos++;
    from = pos;
    pos = byte_at(s, pos) == '0' ? pos + 1 : skip_digits(s, pos);
    if (pos == from)
        return fail(s, "bad number");
    if (byte_at(s, pos) == '.') {
        from = ++pos;
        pos = skip_digits(s, pos);
        if (pos == from)
            return fail(s, "bad number");
    }
    if (byte_at(s, pos) == 'e' || byte_at(s, pos) == 'E') {
        pos++;
        if (byte_at(s, pos) == '+' || byte_at(s, pos) == '-')
            pos++;
        from = pos;
        pos = skip_digits(s, pos);
        if (pos == from)
            return fail(s, "bad number");
    }
    s->pos = pos;
    return true;
}

static bool skip_word(struct jscan *s, const char *word)
{
    size_t n = strlen(word);

    if (scan_end(s) - s->pos < n)
        return fail_at_end(s);
    if (memcmp(s->text.p + s->pos, word, n) != 0)
        return fail(s, "bad literal");
    s->pos += n;
    return true;
}

static bool type_of(struct jscan *s, enum jscan_type *type)
{
    char c = next_byte(s);

    switch (c) {
    case '{':
        *type = JSCAN_OBJECT;
        return true;
    case '[':
        *type = JSCAN_ARRAY;
        return true;
    case '"':
        *type = JSCAN_STRING;
        return true;
    case 't':
        *type = JSCAN_TRUE;
        return true;
    case 'f':
        *type = JSCAN_FALSE;
        return true;
    case 'n':
        *type = JSCAN_NULL;
        return true;
    default:
        *type = JSCAN_NUMBER;
        return c == '-' || (c >= '0' && c <= '9') ? true : fail(s, "a value was expected");
    }
}

static bool skip_scalar(struct jscan *s, enum jscan_type type, bool *escaped)
{
    switch (type) {
    case JSCAN_STRING:
        return skip_string(s, escaped);
    case JSCAN_NUMBER:
        return skip_number(s);
    case JSCAN_TRUE:
        return skip_word(s, "true");
    case JSCAN_FALSE:
        return skip_word(s, "false");
    case JSCAN_NULL:
        return skip_word(s, "null");
    case JSCAN_OBJECT:
    case JSCAN_ARRAY:
        break;
    }
    return fail(s, "a scalar was expected");
}

static bool skip_key(struct jscan *s, struct jscan_value *key)
{
    size_t start;

    if (next_byte(s) != '"')
        return fail(s, "a key was expected");
    start = s->pos;
    *key = (struct jscan_value){.type = JSCAN_STRING};
    if (!skip_string(s, &key->escaped))
        return false;
    key->raw = slice_of(s->text.p + start, s->pos - start);
    if (next_byte(s) != ':')
        return fail(s, "a colon was expected");
    s->pos++;
    return true;
}

static bool enter(struct jscan *s, char open, bool *first)
{
    if (next_byte(s) != open)
        return fail(s, open == '{' ? "an object was expected" : "an array was expected");
    if (s->depth >= s->max_depth)
        return fail(s, "nested too deeply");
    s->depth++;
    s->pos++;
    *first = true;
    return true;
}

/* Before a member or element: true if one follows, false if the container was closed, or at an error. */
static bool more(struct jscan *s, char close, bool *first)
{
    char c = next_byte(s);

    if (s->error != NULL)
        return false;
    if (c == close) {
        s->pos++;
        s->depth--;
        return false;
    }
    if (!*first) {
        if (c != ',')
            return fail(s, "a comma was expected");
        s->pos++;
        if (next_byte(s) == close)
            return fail(s, "a comma too many");
    }
    *first = false;
    return s->error == NULL;
}

bool jscan_enter_object(struct jscan *s, bool *first)
{
    return enter(s, '{', first);
}

bool jscan_enter_array(struct jscan *s, bool *first)
{
    return enter(s, '[', first);
}

bool jscan_member(struct jscan *s, bool *first, struct jscan_value *key)
{
    return more(s, '}', first) && skip_key(s, key);
}

bool jscan_element(struct jscan *s, bool *first)
{
    return more(s, ']', first);
}

bool jscan_peek(struct jscan *s, enum jscan_type *type)
{
    return type_of(s, type);
}

/* One bit per level: set for objects. */
struct kinds {
    uint64_t bits[JSCAN_MAX_DEPTH / 64];
};

static void set_kind(struct kinds *k, unsigned depth, bool object)
{
    uint64_t bit = (uint64_t)1 << ((depth - 1) % 64);
    uint64_t *word = &k->bits[(depth - 1) / 64];

    *word = object ? *word | bit : *word & ~bit;
}

static bool is_object(const struct kinds *k, unsigned depth)
{
    return (k->bits[(depth - 1) / 64] >> ((depth - 1) % 64) & 1) != 0;
}

/* Passes over a container without recursion. */
static bool skip_container(struct jscan *s)
{
    struct kinds kinds; /* written at each level before it is read */
    unsigned outer = s->depth;
    enum jscan_type type;
    struct jscan_value key;
    bool escaped = false, first = false;

    do {
        /* A value stands here; open it or pass over it. */
        if (!type_of(s, &type))
            return false;
        if (type == JSCAN_OBJECT || type == JSCAN_ARRAY) {
            if (!enter(s, type == JSCAN_OBJECT ? '{' : '[', &first))
                return false;
            set_kind(&kinds, s->depth, type == JSCAN_OBJECT);
        } else if (!skip_scalar(s, type, &escaped)) {
            return false;
        }
        /* Then close what ends here, up to the next value. */
        while (s->depth > outer && !more(s, is_object(&kinds, s->depth) ? '}' : ']', &first)) {
            if (s->error != NULL)
                return false;
            first = false; /* the container around it now has a member */
        }
        if (s->depth > outer && is_object(&kinds, s->depth) && !skip_key(s, &key))
            return false;
    } while (s->depth > outer);
    return true;
}

bool jscan_value(struct jscan *s, struct jscan_value *out)
{
    size_t start;

    *out = (struct jscan_value){.escaped = false};
    if (!type_of(s, &out->type))
        return false;
    start = s->pos;
    if (out->type == JSCAN_OBJECT || out->type == JSCAN_ARRAY) {
        if (!skip_container(s))
            return false;
    } else if (!skip_scalar(s, out->type, &out->escaped)) {
        return false;
    }
    out->raw = slice_of(s->text.p + start, s->pos - start);
    return true;
}

bool jscan_end(struct jscan *s)
{
    if (s->error != NULL)
        return false;
    skip_space(s);
    return s->pos == s->text.n ? true : fail(s, "something follows the document");
}

static size_t utf8_put(char *to, uint32_t cp)
{
    if (cp < 0x80) {
        to[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        to[0] = (char)(0xc0 | (cp >> 6));
        to[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        to[0] = (char)(0xe0 | (cp >> 12));
        to[1] = (char)(0x80 | ((cp >> 6) & 0x3f));
        to[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | (cp >> 18));
    to[1] = (char)(0x80 | ((cp >> 12) & 0x3f));
    to[2] = (char)(0x80 | ((cp >> 6) & 0x3f));
    to[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

/* The next piece of a string's inside: plain bytes, or one decoded escape in tmp. The string was validated. */
static struct slice text_piece(struct slice *rest, char tmp[4])
{
    const char *back = memchr(rest->p, '\\', rest->n);
    size_t n = back == NULL ? rest->n : (size_t)(back - rest->p), len;
    struct slice piece = slice_of(rest->p, n);
    uint32_t cp = 0;

    if (n > 0) {
        *rest = slice_from(*rest, n);
        return piece;
    }
    len = escape_decode(rest->p, rest->n, &cp);
    *rest = slice_from(*rest, len == 0 ? rest->n : len);
    return slice_of(tmp, utf8_put(tmp, cp));
}

static struct slice inside(const struct jscan_value *v)
{
    return slice_of(v->raw.p + 1, v->raw.n - 2);
}

bool jscan_text(struct arena *a, const struct jscan_value *v, struct slice *out)
{
    struct slice rest;
    char tmp[4], *to;
    size_t n = 0;

    if (v->type != JSCAN_STRING)
        return false;
    rest = inside(v);
    if (!v->escaped) {
        *out = rest;
        return true;
    }
    to = arena_alloc(a, rest.n); /* decoding never makes it longer */
    if (to == NULL)
        return false;
    while (rest.n > 0) {
        struct slice piece = text_piece(&rest, tmp);

        memcpy(to + n, piece.p, piece.n);
        n += piece.n;
    }
    *out = slice_of(to, n);
    return true;
}

bool jscan_text_eq(const struct jscan_value *v, struct slice s)
{
    struct slice rest;
    char tmp[4];

    if (v->type != JSCAN_STRING)
        return false;
    rest = inside(v);
    if (!v->escaped)
        return slice_eq(rest, s);
    while (rest.n > 0) {
        struct slice piece = text_piece(&rest, tmp);

        if (!slice_has_prefix(s, piece))
            return false;
        s = slice_from(s, piece.n);
    }
    return s.n == 0;
}

bool jscan_object(struct slice text, unsigned max_depth, struct slice *object, struct err *err)
{
    struct jscan_value v;
    struct jscan s;

    jscan_init(&s, text, max_depth);
    if (!jscan_value(&s, &v) || !jscan_end(&s))
        return err_set(err, "not JSON: %s", s.error);
    *object = v.raw;
    return v.type == JSCAN_OBJECT || err_set(err, "not a JSON object");
}

bool jscan_get(struct slice object, struct slice key, struct jscan_value *out)
{
    struct jscan s;
    struct jscan_value k;
    bool first;

    jscan_init(&s, object, JSCAN_MAX_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return false;
    while (jscan_member(&s, &first, &k)) {
        if (!jscan_value(&s, out))
            return false;
        if (jscan_text_eq(&k, key))
            return true;
    }
    return false;
}

void jscan_get_each(struct slice object, const struct slice *keys, struct jscan_value *values, size_t n)
{
    struct jscan_value key, v;
    struct jscan s;
    bool first;

    memset(values, 0, n * sizeof(*values));
    jscan_init(&s, object, JSCAN_MAX_DEPTH);
    if (object.n == 0 || object.p[0] != '{' || !jscan_enter_object(&s, &first))
        return;
    while (jscan_member(&s, &first, &key) && jscan_value(&s, &v))
        for (size_t i = 0; i < n; i++)
            if (values[i].raw.p == NULL && jscan_text_eq(&key, keys[i]))
                values[i] = v;
}

struct slice jscan_get_inside(struct slice object, struct slice key)
{
    struct jscan_value v;

    return jscan_get(object, key, &v) && v.type == JSCAN_STRING ? inside(&v) : SLICE_LIT("");
}
