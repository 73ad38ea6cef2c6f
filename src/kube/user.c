/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/user.h"

#include "base/contract.h"

#define STANDARD_USER "X-Remote-User"
#define STANDARD_UID "X-Remote-Uid"
#define STANDARD_GROUP "X-Remote-Group"
#define STANDARD_EXTRA "X-Remote-Extra-"

static const struct slice standard_user = SLICE_LIT(STANDARD_USER);
static const struct slice standard_uid = SLICE_LIT(STANDARD_UID);
static const struct slice standard_group = SLICE_LIT(STANDARD_GROUP);
static const struct slice standard_extra = SLICE_LIT(STANDARD_EXTRA);

const struct user_headers *user_headers_default(void)
{
    static const struct user_headers standard = {
        .username = &standard_user,
        .n_username = 1,
        .group = &standard_group,
        .n_group = 1,
        .extra_prefix = &standard_extra,
        .n_extra_prefix = 1,
    };

    return &standard;
}

/* ---- recognition ---- */

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c + 32);
    return c == '_' ? '-' : c;
}

static bool folded_prefix(struct slice name, struct slice prefix)
{
    if (name.n < prefix.n)
        return false;
    for (size_t i = 0; i < prefix.n; i++)
        if (fold(name.p[i]) != fold(prefix.p[i]))
            return false;
    return true;
}

static bool folded_eq(struct slice a, struct slice b)
{
    return a.n == b.n && folded_prefix(a, b);
}

static bool any_eq(struct slice name, const struct slice *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (folded_eq(name, names[i]))
            return true;
    return false;
}

/* An empty prefix would make every header an identity header: it never matches. */
static bool any_prefix(struct slice name, const struct slice *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (prefixes[i].n > 0 && folded_prefix(name, prefixes[i]))
            return true;
    return false;
}

/* Of a trimmed name: what mvproxies and API servers tell each other by. */
static bool is_mark(struct slice name)
{
    static const struct slice marks[] = {SLICE_LIT(USER_MARK_REROUTED), SLICE_LIT(USER_MARK_PROXIED)};

    return any_eq(name, marks, sizeof(marks) / sizeof(marks[0]));
}

static enum user_field field_of(const struct user_headers *h, struct slice name)
{
    if (folded_eq(name, standard_user) || any_eq(name, h->username, h->n_username))
        return USER_FIELD_NAME;
    if (folded_eq(name, standard_uid) || folded_eq(name, standard_group) || any_prefix(name, &standard_extra, 1) ||
        any_eq(name, h->uid, h->n_uid) || any_eq(name, h->group, h->n_group) ||
        any_prefix(name, h->extra_prefix, h->n_extra_prefix))
        return USER_FIELD_OTHER;
    return USER_FIELD_NONE;
}

enum user_field user_header_field(const struct user_headers *h, struct slice name)
{
    enum user_field is;

    name = slice_trim(name);
    is = field_of(h, name);
    return is != USER_FIELD_NONE && (is_mark(name) || user_header_is_own(name)) ? USER_FIELD_NONE : is;
}

bool user_header_is_identity(const struct user_headers *h, struct slice name)
{
    return user_header_field(h, name) != USER_FIELD_NONE || is_mark(slice_trim(name));
}

bool user_header_is_own(struct slice name)
{
    return folded_prefix(slice_trim(name), SLICE_LIT(USER_OWN_PREFIX));
}

enum user_name user_name_judge(struct slice name, bool prefix)
{
    static const struct slice reserved[] = {SLICE_LIT("Impersonate-"), SLICE_LIT("Sec-WebSocket-")};
    enum { PREFIX_MIN = 4 }; /* "X-a-" */

    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (folded_prefix(name, reserved[i]) || (prefix && folded_prefix(reserved[i], name)))
            return USER_NAME_RESERVED;
    return prefix && (name.n < PREFIX_MIN || fold(name.p[name.n - 1]) != '-') ? USER_NAME_GENERAL : USER_NAME_FINE;
}

/*
 * What IANA's registry has for requests, and what browsers, proxies, kubectl and its streams send, also through the
 * proxy of a Service or Pod. Families end in "-".
 */
bool user_name_is_used(struct slice name, bool prefix)
{
    static const char *const used[] = {"Accept-",
                                       "Access-Control-",
                                       "Baggage",
                                       "CDN-Loop",
                                       "Content-",
                                       "Cookie",
                                       "DNT",
                                       "DPoP",
                                       "Early-Data",
                                       "Forwarded",
                                       "From",
                                       "Grpc-",
                                       "HTTP2-Settings",
                                       "Idempotency-Key",
                                       "If-",
                                       "Kubectl-",
                                       "Last-Event-ID",
                                       "Max-Forwards",
                                       "Origin",
                                       "Pragma",
                                       "Prefer",
                                       "Priority",
                                       "Proxy-",
                                       "Range",
                                       "Referer",
                                       "Sec-",
                                       "Signature",
                                       "Signature-Input",
                                       "Traceparent",
                                       "Tracestate",
                                       "Upgrade-Insecure-Requests",
                                       "Via",
                                       "Warning",
                                       "X-Api-Key",
                                       "X-Auth-Token",
                                       "X-B3-",
                                       "X-Csrf-Token",
                                       "X-CsrfToken",
                                       "X-Forwarded-For",
                                       "X-Forwarded-Host",
                                       "X-Forwarded-Port",
                                       "X-Forwarded-Prefix",
                                       "X-Forwarded-Proto",
                                       "X-Forwarded-Uri",
                                       "X-HTTP-Method-Override",
                                       "X-Real-IP",
                                       "X-Request-ID",
                                       "X-Requested-With",
                                       "X-Stream-Protocol-Version",
                                       "X-XSRF-Token"};

    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        struct slice u = slice_str(used[i]);
        bool family = u.p[u.n - 1] == '-';

        if (folded_eq(name, u) || (family && folded_prefix(name, u)) || (prefix && folded_prefix(u, name)))
            return true;
    }
    return false;
}

static bool same_names(const struct slice *a, size_t n_a, const struct slice *b, size_t n_b)
{
    bool same = n_a == n_b;

    for (size_t i = 0; same && i < n_a; i++)
        same = slice_eq(a[i], b[i]);
    return same;
}

bool user_headers_same(const struct user_headers *a, const struct user_headers *b)
{
    return same_names(a->username, a->n_username, b->username, b->n_username) &&
           same_names(a->uid, a->n_uid, b->uid, b->n_uid) && same_names(a->group, a->n_group, b->group, b->n_group) &&
           same_names(a->extra_prefix, a->n_extra_prefix, b->extra_prefix, b->n_extra_prefix);
}

bool user_header_marks_loop(struct slice name, struct slice value)
{
    return (slice_ieq(name, SLICE_LIT(USER_MARK_REROUTED)) || slice_ieq(name, SLICE_LIT(USER_MARK_PROXIED))) &&
           slice_eq(value, SLICE_LIT("true"));
}

/* ---- escaping of keys ---- */

static bool is_token_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$&'*+-.^_`|~", c) != NULL);
}

static struct slice escape_behind(struct arena *a, struct slice prefix, struct slice key)
{
    static const char digits[] = "0123456789ABCDEF";
    char *to = key.n > (SIZE_MAX - prefix.n) / 3 ? NULL : arena_alloc(a, prefix.n + 3 * key.n);
    size_t n = prefix.n;

    if (to == NULL)
        return SLICE_NONE;
    if (prefix.n > 0)
        memcpy(to, prefix.p, prefix.n);
    for (size_t i = 0; i < key.n; i++) {
        unsigned char c = (unsigned char)key.p[i];

        if (is_token_byte(key.p[i])) {
            to[n++] = key.p[i];
            continue;
        }
        to[n++] = '%';
        to[n++] = digits[c >> 4];
        to[n++] = digits[c & 15];
    }
    return slice_of(to, n);
}

struct slice user_escape_key(struct arena *a, struct slice key)
{
    return escape_behind(a, SLICE_LIT(""), key);
}

struct slice user_unescape_key(struct arena *a, struct slice escaped)
{
    char *lower = arena_alloc(a, escaped.n), *to = arena_alloc(a, escaped.n);
    size_t n = 0;
    uint64_t byte;

    if (lower == NULL || to == NULL)
        return SLICE_NONE;
    for (size_t i = 0; i < escaped.n; i++)
        lower[i] = (char)(escaped.p[i] >= 'A' && escaped.p[i] <= 'Z' ? escaped.p[i] + 32 : escaped.p[i]);
    for (size_t i = 0; i < escaped.n; i++) {
        if (lower[i] != '%') {
            to[n++] = lower[i];
            continue;
        }
        if (escaped.n - i < 3 || !slice_hex_u64(slice_of(lower + i + 1, 2), &byte))
            return slice_of(lower, escaped.n);
        to[n++] = (char)byte;
        i += 2;
    }
    return slice_of(to, n);
}

/* ---- encoding ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A field value that every receiver reads back as it is: no control bytes but inner tabs, no white space at the ends
 * (it would be trimmed). */
static bool carries(struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return value.n == 0 || (!is_blank(value.p[0]) && !is_blank(value.p[value.n - 1]));
}

/* The receiver lower-cases keys, so one with capitals would arrive as another key. An empty one is the bare prefix, as
 * kube-apiserver reads it. */
static bool key_carries(struct slice key)
{
    for (size_t i = 0; i < key.n; i++)
        if (key.p[i] >= 'A' && key.p[i] <= 'Z')
            return false;
    return true;
}

static bool encodable(const struct user *u)
{
    if (u->name.n == 0 || !carries(u->name) || !carries(u->uid))
        return false;
    for (size_t i = 0; i < u->n_groups; i++)
        if (!carries(u->groups[i]))
            return false;
    for (size_t i = 0; i < u->n_extras; i++)
        if (!carries(u->extras[i].value) || !key_carries(u->extras[i].key))
            return false;
    return true;
}

static struct slice first_of(const struct slice *names, size_t n, struct slice standard)
{
    return n > 0 ? names[0] : standard;
}

enum user_result user_encode(const struct user *u, const struct user_headers *h, struct arena *a, user_emit_fn *emit,
                             void *arg)
{
    struct slice group = first_of(h->group, h->n_group, standard_group);
    struct slice prefix = first_of(h->extra_prefix, h->n_extra_prefix, standard_extra);

    if (!encodable(u))
        return USER_UNENCODABLE;
    if (!emit(arg, first_of(h->username, h->n_username, standard_user), u->name))
        return USER_NO_MEMORY;
    if (u->uid.n > 0 && !emit(arg, first_of(h->uid, h->n_uid, standard_uid), u->uid))
        return USER_NO_MEMORY;
    for (size_t i = 0; i < u->n_groups; i++)
        if (u->groups[i].n > 0 && !emit(arg, group, u->groups[i]))
            return USER_NO_MEMORY;
    for (size_t i = 0; i < u->n_extras; i++) {
        struct slice name = escape_behind(a, prefix, u->extras[i].key);

        if (name.p == NULL || !emit(arg, name, u->extras[i].value))
            return USER_NO_MEMORY;
    }
    return USER_OK;
}

/* ---- decoding ---- */

/* Lines of interest in order of arrival; `rank` is the position of the configured name that matched. */
struct line {
    struct line *next;
    enum { LINE_NAME, LINE_UID, LINE_GROUP, LINE_EXTRA } kind;
    size_t rank;
    struct slice name, value;
};

struct user_decoder {
    struct arena *arena;
    const struct user_headers *headers;
    struct line *first, **last;
    size_t n_groups, n_extras;
};

struct user_decoder *user_decoder_new(struct arena *a, const struct user_headers *h)
{
    struct user_decoder *d = arena_zalloc(a, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->arena = a;
    d->headers = h;
    d->last = &d->first;
    return d;
}

static bool add_line(struct user_decoder *d, struct line line)
{
    struct line *copy = arena_alloc(d->arena, sizeof(*copy));

    if (copy == NULL)
        return false;
    *copy = line;
    copy->next = NULL;
    *d->last = copy;
    d->last = &copy->next;
    return true;
}

static bool find(struct slice name, const struct slice *names, size_t n, size_t *rank)
{
    for (*rank = 0; *rank < n; (*rank)++)
        if (slice_ieq(name, names[*rank]))
            return true;
    return false;
}

bool user_decoder_field(struct user_decoder *d, struct slice name, struct slice value)
{
    const struct user_headers *h = d->headers;
    struct line line = {.name = name, .value = value};

    if (find(name, h->username, h->n_username, &line.rank)) {
        line.kind = LINE_NAME;
        if (!add_line(d, line))
            return false;
    }
    if (find(name, h->uid, h->n_uid, &line.rank)) {
        line.kind = LINE_UID;
        if (!add_line(d, line))
            return false;
    }
    if (value.n > 0 && find(name, h->group, h->n_group, &line.rank)) {
        line.kind = LINE_GROUP;
        d->n_groups++;
        if (!add_line(d, line))
            return false;
    }
    for (size_t i = 0; i < h->n_extra_prefix; i++) {
        if (h->extra_prefix[i].n == 0 || !slice_has_iprefix(name, h->extra_prefix[i]))
            continue;
        line.kind = LINE_EXTRA;
        line.rank = i;
        line.name = slice_of(name.p + h->extra_prefix[i].n, name.n - h->extra_prefix[i].n);
        d->n_extras++;
        if (!add_line(d, line))
            return false;
    }
    return true;
}

/* The first line of the first configured name counts, if it is not empty; then the next name. */
static struct slice first_value(const struct user_decoder *d, unsigned kind, size_t n_names)
{
    for (size_t rank = 0; rank < n_names; rank++) {
        const struct line *l = d->first;

        while (l != NULL && (l->kind != kind || l->rank != rank))
            l = l->next;
        if (l != NULL && l->value.n > 0)
            return l->value;
    }
    return SLICE_LIT("");
}

static bool collect(const struct user_decoder *d, struct slice *groups, struct user_extra *extras)
{
    size_t n_groups = 0, n_extras = 0;

    for (size_t rank = 0; rank < d->headers->n_group; rank++)
        for (const struct line *l = d->first; l != NULL; l = l->next)
            if (l->kind == LINE_GROUP && l->rank == rank) {
                must_hold(n_groups < d->n_groups);
                groups[n_groups++] = l->value;
            }
    for (size_t rank = 0; rank < d->headers->n_extra_prefix; rank++)
        for (const struct line *l = d->first; l != NULL; l = l->next) {
            struct user_extra *extra = &extras[n_extras];

            if (l->kind != LINE_EXTRA || l->rank != rank)
                continue;
            must_hold(n_extras < d->n_extras);
            extra->key = user_unescape_key(d->arena, l->name);
            extra->value = l->value;
            if (extra->key.p == NULL)
                return false;
            n_extras++;
        }
    must_hold(n_groups == d->n_groups && n_extras == d->n_extras); /* none that says nothing */
    return true;
}

enum user_result user_decoder_end(struct user_decoder *d, struct user *out)
{
    struct slice *groups = arena_alloc(d->arena, d->n_groups * sizeof(*groups));
    struct user_extra *extras = arena_alloc(d->arena, d->n_extras * sizeof(*extras));

    *out = (struct user){.name = first_value(d, LINE_NAME, d->headers->n_username)};
    if (out->name.n == 0)
        return USER_NONE;
    if (groups == NULL || extras == NULL || !collect(d, groups, extras))
        return USER_NO_MEMORY;
    out->uid = first_value(d, LINE_UID, d->headers->n_uid);
    out->groups = groups;
    out->n_groups = d->n_groups;
    out->extras = extras;
    out->n_extras = d->n_extras;
    return USER_OK;
}
