/* SPDX-License-Identifier: Apache-2.0 */
#include "http/negotiate.h"

#include <stdlib.h>

static struct slice trim_spaces(struct slice s)
{
    while (s.n > 0 && s.p[0] == ' ')
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n > 0 && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

/* Text before the separator; *rest becomes what follows, empty when there is no separator or nothing behind it. */
static struct slice cut(struct slice *rest, char sep)
{
    size_t i = slice_index(*rest, sep);
    struct slice head = slice_of(rest->p, i);

    *rest = i < rest->n ? slice_of(rest->p + i + 1, rest->n - i - 1) : slice_of(rest->p, 0);
    return head;
}

/* strconv.ParseFloat(s, 32), which returns 0 for what it cannot read. */
static float parse_q(struct slice s)
{
    char text[64], *end;
    float q;

    if (s.n == 0 || s.n >= sizeof(text) || s.p[0] == ' ' || s.p[0] == '\t')
        return 0;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    q = strtof(text, &end);
    return end == text + s.n ? q : 0;
}

static void set_param(struct negotiate_clause *c, struct slice name, struct slice raw)
{
    struct slice value = trim_spaces(raw);

    if (slice_eq(name, SLICE_LIT("q")))
        c->q = parse_q(raw);
    else if (slice_eq(name, SLICE_LIT("g")))
        c->group = value;
    else if (slice_eq(name, SLICE_LIT("v")))
        c->version = value;
    else if (slice_eq(name, SLICE_LIT("as")))
        c->as = value;
    else if (slice_eq(name, SLICE_LIT("profile")))
        c->profile = value;
    else if (slice_eq(name, SLICE_LIT("stream")))
        c->stream = value;
    else if (slice_eq(name, SLICE_LIT("sv")))
        c->server_version = value;
    else if (slice_eq(name, SLICE_LIT("pretty")))
        c->pretty = slice_eq(value, SLICE_LIT("1"));
}

/* One element of the list; false if goautoneg would drop it. */
static bool parse_clause(struct slice part, struct negotiate_clause *c)
{
    struct slice rest = trim_spaces(part), range = cut(&rest, ';');

    *c = (struct negotiate_clause){.q = 1};
    c->type = trim_spaces(cut(&range, '/'));
    if (range.n == 0) {
        if (!slice_eq(c->type, SLICE_LIT("*")))
            return false;
        c->subtype = SLICE_LIT("*");
    } else {
        c->subtype = trim_spaces(cut(&range, '/'));
        if (range.n > 0)
            return false;
    }
    while (rest.n > 0) {
        struct slice value = cut(&rest, ';'), name = cut(&value, '='), raw;

        if (value.n == 0)
            continue;
        raw = cut(&value, '=');
        if (value.n == 0)
            set_param(c, trim_spaces(name), raw);
    }
    return true;
}

static bool is_star(struct slice s)
{
    return slice_eq(s, SLICE_LIT("*"));
}

/* goautoneg's Less: not a strict order, so the sorting below must be the same as Go's for short slices. */
static bool less(const struct negotiate_clause *a, const struct negotiate_clause *b)
{
    return a->q > b->q || (!is_star(a->type) && is_star(b->type)) || (!is_star(a->subtype) && is_star(b->subtype));
}

/* Go sorts up to 12 elements by insertion; nobody sends more. */
static void sort_clauses(struct negotiate_clause *c, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && less(&c[j], &c[j - 1]); j--) {
            struct negotiate_clause t = c[j];

            c[j] = c[j - 1];
            c[j - 1] = t;
        }
}

static bool matches(const struct negotiate_clause *c, enum negotiate_format format)
{
    static const struct {
        struct slice type, subtype;
    } types[] = {
        [NEGOTIATE_JSON] = {SLICE_LIT("application"), SLICE_LIT("json")},
        [NEGOTIATE_YAML] = {SLICE_LIT("application"), SLICE_LIT("yaml")},
        [NEGOTIATE_PROTOBUF] = {SLICE_LIT("application"), SLICE_LIT("vnd.kubernetes.protobuf")},
    };

    if (is_star(c->type) && is_star(c->subtype))
        return true;
    return slice_eq(c->type, types[format].type) &&
           (is_star(c->subtype) || slice_eq(c->subtype, types[format].subtype));
}

static enum negotiate_document document_of(const struct negotiate_clause *c, enum negotiate_format format,
                                           unsigned offers)
{
    if (c->server_version.n > 0)
        return NEGOTIATE_LEGACY;
    /* Only watch is a stream here, and YAML has no stream serializer. */
    if (c->stream.n > 0 && (format == NEGOTIATE_YAML || !slice_eq(c->stream, SLICE_LIT("watch"))))
        return NEGOTIATE_LEGACY;
    if (!slice_eq(c->group, SLICE_LIT("apidiscovery.k8s.io")) || !slice_eq(c->as, SLICE_LIT("APIGroupDiscoveryList")))
        return NEGOTIATE_LEGACY;
    if (slice_eq(c->version, SLICE_LIT("v2")))
        return NEGOTIATE_V2;
    if ((offers & NEGOTIATE_OFFER_V2BETA1) != 0 && slice_eq(c->version, SLICE_LIT("v2beta1")))
        return NEGOTIATE_V2BETA1;
    return NEGOTIATE_LEGACY;
}

static bool offered(enum negotiate_format format, unsigned offers)
{
    return format == NEGOTIATE_JSON || (format == NEGOTIATE_YAML && (offers & NEGOTIATE_OFFER_YAML) != 0) ||
           (format == NEGOTIATE_PROTOBUF && (offers & NEGOTIATE_OFFER_PROTOBUF) != 0);
}

enum { ACCEPT_BYTES = 8 << 10 }; /* what is behind so many is not read */

size_t negotiate_clauses(struct slice accept, struct negotiate_clause clauses[NEGOTIATE_CLAUSES])
{
    size_t n = 0;

    if (accept.n > ACCEPT_BYTES)
        accept.n = ACCEPT_BYTES;
    while (accept.n > 0 && n < NEGOTIATE_CLAUSES)
        if (parse_clause(cut(&accept, ','), &clauses[n]))
            n++;
    sort_clauses(clauses, n);
    return n;
}

bool negotiate_plain(struct slice accept, unsigned offers, enum negotiate_format *out)
{
    struct negotiate_clause clauses[NEGOTIATE_CLAUSES];
    size_t n = negotiate_clauses(accept, clauses);

    *out = NEGOTIATE_JSON;
    for (size_t i = 0; i < n; i++)
        for (enum negotiate_format f = NEGOTIATE_JSON; f <= NEGOTIATE_PROTOBUF; f++)
            if (offered(f, offers) && matches(&clauses[i], f) && clauses[i].group.n == 0 && clauses[i].version.n == 0 &&
                clauses[i].as.n == 0) {
                *out = f;
                return true;
            }
    return accept.n == 0;
}

struct negotiated negotiate_discovery(struct slice accept, unsigned offers)
{
    struct negotiate_clause clauses[NEGOTIATE_CLAUSES];
    size_t n = negotiate_clauses(accept, clauses);

    for (size_t i = 0; i < n; i++)
        for (enum negotiate_format f = NEGOTIATE_JSON; f <= NEGOTIATE_PROTOBUF; f++) {
            enum negotiate_document d;

            if (!offered(f, offers) || !matches(&clauses[i], f))
                continue;
            d = document_of(&clauses[i], f, offers);
            if (d != NEGOTIATE_LEGACY)
                return (struct negotiated){d, f, clauses[i].profile, clauses[i].pretty};
        }
    return (struct negotiated){.document = NEGOTIATE_LEGACY};
}

struct slice negotiate_content_type(enum negotiate_document document, enum negotiate_format format)
{
#define TYPE(type, v) SLICE_LIT(type ";g=apidiscovery.k8s.io;v=" v ";as=APIGroupDiscoveryList")
    static const struct slice types[][2] = {
        [NEGOTIATE_JSON] = {TYPE("application/json", "v2"), TYPE("application/json", "v2beta1")},
        [NEGOTIATE_YAML] = {TYPE("application/yaml", "v2"), TYPE("application/yaml", "v2beta1")},
        [NEGOTIATE_PROTOBUF] = {TYPE("application/vnd.kubernetes.protobuf", "v2"),
                                TYPE("application/vnd.kubernetes.protobuf", "v2beta1")},
    };
#undef TYPE

    return document == NEGOTIATE_LEGACY ? SLICE_NONE : types[format][document == NEGOTIATE_V2BETA1];
}

bool negotiate_gzip(const struct http_head *request)
{
    struct slice rest = http_head_value(request, HTTP_ACCEPT_ENCODING), element;

    while (slice_split(&rest, ',', &element))
        if (slice_eq(slice_trim(element), SLICE_LIT("gzip")))
            return true;
    return false;
}

struct slice negotiate_query_value(struct slice target, struct slice name)
{
    size_t mark = slice_index(target, '?');
    struct slice rest = slice_from(target, mark + 1), pair;

    while (slice_split(&rest, '&', &pair)) {
        size_t eq = slice_index(pair, '=');

        /* Go drops pairs with a semicolon in them. */
        if (slice_index(pair, ';') == pair.n && slice_eq(slice_of(pair.p, eq), name))
            return eq < pair.n ? slice_of(pair.p + eq + 1, pair.n - eq - 1) : slice_of(pair.p + eq, 0);
    }
    return SLICE_NONE;
}

/* strconv.ParseBool, false for what it refuses. */
static bool parse_bool(struct slice s)
{
    static const struct slice yes[] = {SLICE_LIT("1"),    SLICE_LIT("t"),    SLICE_LIT("T"),
                                       SLICE_LIT("true"), SLICE_LIT("TRUE"), SLICE_LIT("True")};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (slice_eq(s, yes[i]))
            return true;
    return false;
}

bool negotiate_pretty_asked(struct slice target, struct slice agent)
{
    struct slice asked = negotiate_query_value(target, SLICE_LIT("pretty"));

    if (asked.n > 0)
        return parse_bool(asked);
    return slice_has_prefix(agent, SLICE_LIT("curl")) || slice_has_prefix(agent, SLICE_LIT("Wget")) ||
           slice_has_prefix(agent, SLICE_LIT("Mozilla/5.0"));
}

bool negotiate_pretty(const struct http_head *request, const struct negotiated *n)
{
    return n->format == NEGOTIATE_JSON &&
           (n->pretty || negotiate_pretty_asked(request->target, http_head_value(request, HTTP_USER_AGENT)));
}
