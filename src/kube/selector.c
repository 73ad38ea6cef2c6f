/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/selector.h"

#include "kube/gvr.h"

bool selector_path_segment(struct slice name)
{
    return !slice_eq(name, SLICE_LIT(".")) && !slice_eq(name, SLICE_LIT("..")) && slice_index(name, '/') == name.n &&
           slice_index(name, '%') == name.n;
}

/* ---- fields ---- */

/* Cuts the next term off *rest; a comma behind a backslash is data. */
static bool next_term(struct slice *rest, struct slice *term)
{
    bool escaped = false;
    size_t i;

    if (rest->p == NULL)
        return false;
    for (i = 0; i < rest->n; i++) {
        if (escaped)
            escaped = false;
        else if (rest->p[i] == '\\')
            escaped = true;
        else if (rest->p[i] == ',')
            break;
    }
    *term = slice_of(rest->p, i);
    *rest = i < rest->n ? slice_of(rest->p + i + 1, rest->n - i - 1) : SLICE_NONE;
    return true;
}

/* Splits at the first "!=", "==" or "=". */
static bool split_term(struct slice term, struct slice *field, bool *equal, struct slice *value)
{
    for (size_t i = 0; i < term.n; i++) {
        bool next_is_equal = i + 1 < term.n && term.p[i + 1] == '=';

        if (term.p[i] != '=' && !(term.p[i] == '!' && next_is_equal))
            continue;
        *equal = term.p[i] == '=';
        *field = slice_of(term.p, i);
        i += next_is_equal ? 2 : 1;
        *value = slice_of(term.p + i, term.n - i);
        return true;
    }
    return false;
}

/* Backslash before backslash, comma and equals sign only; the latter two never bare. */
static bool value_well_formed(struct slice v)
{
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] == ',' || v.p[i] == '=')
            return false;
        if (v.p[i] != '\\')
            continue;
        i++;
        if (i == v.n || (v.p[i] != '\\' && v.p[i] != ',' && v.p[i] != '='))
            return false;
    }
    return true;
}

static struct slice unescape_value(struct arena *a, struct slice v)
{
    char *to;
    size_t n = 0;

    if (slice_index(v, '\\') == v.n)
        return v.n == 0 ? SLICE_LIT("") : v;
    to = arena_alloc(a, v.n);
    if (to == NULL)
        return SLICE_NONE;
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] == '\\')
            i++;
        to[n++] = v.p[i];
    }
    return slice_of(to, n);
}

bool selector_fields_name(struct arena *a, struct slice selector, struct selector_name *out)
{
    struct slice rest = selector, term, field, value = SLICE_NONE, best = SLICE_NONE, best_value = SLICE_NONE;
    bool equal;

    *out = (struct selector_name){.valid = true, .name = SLICE_LIT("")};
    while (next_term(&rest, &term)) {
        if (term.n == 0)
            continue;
        if (!split_term(term, &field, &equal, &value) || !value_well_formed(value)) {
            out->valid = false;
            return true;
        }
        if (!equal || !slice_eq(field, SLICE_LIT("metadata.name")))
            continue;
        if (best.p == NULL || slice_cmp(term, best) < 0) {
            best = term;
            best_value = value;
        }
    }
    if (best.p == NULL)
        return true;
    out->exact = true;
    out->name = unescape_value(a, best_value);
    return out->name.p != NULL;
}

/* ---- labels ---- */

enum token { TOKEN_END, TOKEN_WORD, TOKEN_COMMA, TOKEN_NOT, TOKEN_OPEN, TOKEN_CLOSE, TOKEN_EQUAL, TOKEN_ORDER };

struct lexer {
    struct slice text;
    size_t pos;
    enum token token; /* the current one */
    struct slice word;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_symbol(char c)
{
    return c != '\0' && strchr("=!(),><", c) != NULL;
}

static enum token lex_symbol(struct lexer *l)
{
    char c = l->text.p[l->pos++];
    bool equal = l->pos < l->text.n && l->text.p[l->pos] == '=';

    switch (c) {
    case '(':
        return TOKEN_OPEN;
    case ')':
        return TOKEN_CLOSE;
    case ',':
        return TOKEN_COMMA;
    case '<':
    case '>':
        return TOKEN_ORDER;
    case '!':
        l->pos += equal ? 1 : 0;
        return equal ? TOKEN_EQUAL : TOKEN_NOT;
    default:
        l->pos += equal ? 1 : 0;
        return TOKEN_EQUAL;
    }
}

static void lex(struct lexer *l)
{
    size_t start;

    while (l->pos < l->text.n && is_space(l->text.p[l->pos]))
        l->pos++;
    if (l->pos == l->text.n) {
        l->token = TOKEN_END;
        return;
    }
    if (is_symbol(l->text.p[l->pos])) {
        l->token = lex_symbol(l);
        return;
    }
    start = l->pos;
    while (l->pos < l->text.n && !is_symbol(l->text.p[l->pos]) && !is_space(l->text.p[l->pos]))
        l->pos++;
    l->token = TOKEN_WORD;
    l->word = slice_of(l->text.p + start, l->pos - start);
}

bool selector_is_label(struct slice s)
{
    return slice_is_of(s, "-_.") && s.n <= 63 && slice_is_of(slice_of(s.p, 1), "") &&
           slice_is_of(slice_from(s, s.n - 1), "");
}

static bool is_label_value(struct slice s)
{
    return s.n == 0 || selector_is_label(s);
}

static bool is_label_key(struct slice s)
{
    size_t slash = slice_index(s, '/');

    if (slash == s.n)
        return selector_is_label(s);
    return gvr_is_group(slice_of(s.p, slash)) && selector_is_label(slice_from(s, slash + 1));
}

/* "(a,b,,c)", also "()" and "(,)". */
static bool value_set(struct lexer *l)
{
    bool word_before = false;

    if (l->token != TOKEN_OPEN)
        return false;
    for (lex(l); l->token != TOKEN_CLOSE; lex(l)) {
        if (l->token == TOKEN_COMMA) {
            word_before = false;
        } else if (l->token == TOKEN_WORD && !word_before && is_label_value(l->word)) {
            word_before = true;
        } else {
            return false;
        }
    }
    lex(l);
    return true;
}

/* A label value that is an integer has no sign, since it must start with a letter or digit. */
static bool is_integer(struct slice s)
{
    uint64_t v;

    return slice_u64(s, &v) && v <= INT64_MAX;
}

static bool single_value(struct lexer *l, bool ordered)
{
    struct slice value = SLICE_LIT("");

    if (l->token == TOKEN_WORD) {
        value = l->word;
        lex(l);
    } else if (l->token != TOKEN_END && l->token != TOKEN_COMMA) {
        return false;
    }
    return is_label_value(value) && (!ordered || is_integer(value));
}

static bool requirement(struct lexer *l)
{
    bool negated = l->token == TOKEN_NOT;
    enum token oper;

    if (negated)
        lex(l);
    if (l->token != TOKEN_WORD || !is_label_key(l->word))
        return false;
    lex(l);
    if (negated || l->token == TOKEN_END || l->token == TOKEN_COMMA)
        return true;
    oper = l->token;
    if (oper == TOKEN_EQUAL || oper == TOKEN_ORDER) {
        lex(l);
        return single_value(l, oper == TOKEN_ORDER);
    }
    if (oper != TOKEN_WORD || (!slice_eq(l->word, SLICE_LIT("in")) && !slice_eq(l->word, SLICE_LIT("notin"))))
        return false;
    lex(l);
    return value_set(l);
}

bool selector_labels_valid(struct slice selector)
{
    struct lexer l = {.text = selector};

    lex(&l);
    if (l.token == TOKEN_END)
        return true;
    while (requirement(&l)) {
        if (l.token == TOKEN_END)
            return true;
        if (l.token != TOKEN_COMMA)
            return false;
        lex(&l);
    }
    return false;
}
