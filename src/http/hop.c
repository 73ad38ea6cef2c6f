/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hop.h"

#include <arpa/inet.h>

#include "base/limits.h"

/* Walks the comma-separated elements of every field with this id. */
struct elements {
    const struct http_head *head;
    enum http_name id;
    size_t field;
    struct slice rest;
};

static bool next_element(struct elements *e, struct slice *element)
{
    for (;;) {
        while (e->rest.p == NULL) {
            while (e->field < e->head->n_fields && e->head->fields[e->field].id != e->id)
                e->field++;
            if (e->field >= e->head->n_fields)
                return false;
            e->rest = e->head->fields[e->field++].value;
            if (e->rest.n == 0)
                e->rest = SLICE_NONE;
        }
        if (!slice_split(&e->rest, ',', element))
            continue;
        *element = slice_trim(*element);
        if (element->n > 0)
            return true;
    }
}

static bool lists(const struct http_head *head, enum http_name id, struct slice option)
{
    struct elements e = {.head = head, .id = id};
    struct slice element;

    while (next_element(&e, &element))
        if (slice_ieq(element, option))
            return true;
    return false;
}

bool hop_connection_has(const struct http_head *head, struct slice option)
{
    return lists(head, HTTP_CONNECTION, option);
}

/*
 * HTTP itself, or TLS below it, of whatever version or draft (HTTP/2.0, h2c-14): in a tunnel of these a client would
 * write requests that nobody checks.
 */
static bool carries_requests(struct slice protocol)
{
    static const struct slice names[] = {SLICE_LIT("h2c"), SLICE_LIT("h2"), SLICE_LIT("h3"), SLICE_LIT("HTTP"),
                                         SLICE_LIT("TLS")};

    protocol = slice_of(protocol.p, slice_index(protocol, '/'));
    protocol = slice_of(protocol.p, slice_index(protocol, '-'));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_ieq(slice_trim(protocol), names[i]))
            return true;
    return false;
}

/* Nobody has use for so many, and two such lists would cost their product. */
static bool has_too_many_protocols(const struct http_head *head)
{
    return http_head_lists_more(head, HTTP_UPGRADE, LIMIT_CONNECTION_OPTIONS);
}

bool hop_wants_upgrade(const struct http_head *request)
{
    struct elements e = {.head = request, .id = HTTP_UPGRADE};
    struct slice protocol;
    bool any = false;

    if (has_too_many_protocols(request))
        return false;
    for (; next_element(&e, &protocol); any = true)
        if (carries_requests(protocol))
            return false;
    return any && request->minor >= 1 && hop_connection_has(request, SLICE_LIT("upgrade"));
}

bool hop_accepts_upgrade(const struct http_head *request, const struct http_head *response)
{
    struct elements e = {.head = response, .id = HTTP_UPGRADE};
    struct slice protocol;

    if (has_too_many_protocols(request) || !hop_wants_upgrade(response))
        return false;
    while (next_element(&e, &protocol))
        if (!lists(request, HTTP_UPGRADE, protocol))
            return false;
    return true;
}

static bool always_drops(enum http_name id)
{
    switch (id) {
    case HTTP_CONNECTION:
    case HTTP_CONTENT_LENGTH:
    case HTTP_KEEP_ALIVE:
    case HTTP_PROXY_AUTHENTICATE:
    case HTTP_PROXY_AUTHORIZATION:
    case HTTP_PROXY_CONNECTION:
    case HTTP_TE:
    case HTTP_TRAILER:
    case HTTP_TRANSFER_ENCODING:
    case HTTP_UPGRADE:
        return true;
    default:
        return false;
    }
}

static bool impersonates(struct slice name)
{
    return slice_has_iprefix(name, SLICE_LIT("Impersonate-"));
}

unsigned hop_impersonations(const struct http_head *head)
{
    unsigned n = 0;

    for (size_t i = 0; i < head->n_fields; i++)
        n += head->fields[i].id == HTTP_NAME_OTHER && impersonates(head->fields[i].name);
    return n;
}

/*
 * Only fields without a meaning of ours can be one hop's own; naming the others would be a way to make us forget them.
 * So would naming Impersonate-*: a client of a proxy that adds these and lets Connection pass would become that proxy.
 */
static bool can_be_named(const struct http_field *field)
{
    return field->id == HTTP_NAME_OTHER && !impersonates(field->name);
}

/* What Connection names, besides options that are no field: nearly always nothing, and then nobody compares names. */
struct named {
    struct slice at[LIMIT_CONNECTION_OPTIONS];
    size_t n;
    bool more; /* a head that h1_check.c has not seen */
};

static void find_named(const struct http_head *head, struct named *out)
{
    struct elements e = {.head = head, .id = HTTP_CONNECTION};
    struct slice element;

    out->n = 0;
    out->more = false;
    while (next_element(&e, &element)) {
        if (slice_ieq(element, SLICE_LIT("close")) || slice_ieq(element, SLICE_LIT("keep-alive")) ||
            slice_ieq(element, SLICE_LIT("upgrade")))
            continue;
        if (out->n < LIMIT_CONNECTION_OPTIONS)
            out->at[out->n++] = element;
        else
            out->more = true;
    }
}

static bool is_named(const struct http_head *head, const struct http_field *f, const struct named *named)
{
    if (named->n == 0 || !can_be_named(f))
        return false;
    for (size_t i = 0; i < named->n; i++)
        if (slice_ieq(named->at[i], f->name))
            return true;
    return named->more && lists(head, HTTP_CONNECTION, f->name);
}

bool hop_copy(const struct http_head *from, struct http_head *to, struct arena *a)
{
    struct named named;

    find_named(from, &named);
    for (size_t i = 0; i < from->n_fields; i++) {
        const struct http_field *f = &from->fields[i];

        if (always_drops(f->id) || is_named(from, f, &named))
            continue;
        if (!(f->id == HTTP_NAME_OTHER ? http_head_add_field(to, a, f) : http_head_add_id(to, a, f->id, f->value)))
            return false;
    }
    return true;
}

bool hop_trailer_allowed(struct slice name)
{
    static const bool in_heads_only[HTTP_NAME_COUNT] = {
        [HTTP_ACCEPT] = true,        [HTTP_ACCEPT_ENCODING] = true,  [HTTP_AUTHORIZATION] = true,
        [HTTP_CACHE_CONTROL] = true, [HTTP_CONTENT_ENCODING] = true, [HTTP_CONTENT_TYPE] = true,
        [HTTP_DATE] = true,          [HTTP_EXPECT] = true,           [HTTP_HOST] = true,
        [HTTP_IF_NONE_MATCH] = true, [HTTP_RETRY_AFTER] = true,      [HTTP_SEC_WEBSOCKET_PROTOCOL] = true,
        [HTTP_VARY] = true,          [HTTP_X_FORWARDED_FOR] = true,  [HTTP_X_FORWARDED_PROTO] = true,
    };
    static const struct slice others[] = {SLICE_LIT("Cookie"), SLICE_LIT("Set-Cookie"), SLICE_LIT("Content-Range")};
    enum http_name id = http_name_of(name);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (slice_ieq(name, others[i]))
            return false;
    return !in_heads_only[id] && !always_drops(id) && !slice_has_iprefix(name, SLICE_LIT("X-Remote-")) &&
           !impersonates(name);
}

static bool is_address(struct slice s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr ip;

    if (s.n == 0 || s.n >= sizeof(text)) /* nothing may have no pointer */
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return inet_pton(AF_INET, text, &ip) == 1 || inet_pton(AF_INET6, text, &ip) == 1;
}

struct slice hop_bare_address(struct slice element)
{
    bool bracket = element.n > 0 && element.p[0] == '[';
    size_t end = slice_index(element, bracket ? ']' : ':');
    struct slice address, port;
    uint64_t number;

    if (is_address(element))
        return element;
    if (end == element.n)
        return SLICE_NONE;
    address = bracket ? slice_of(element.p + 1, end - 1) : slice_of(element.p, end);
    port = slice_from(element, bracket ? end + 1 : end);
    if (port.n > 0 && (port.p[0] != ':' || !slice_u64(slice_from(port, 1), &number)))
        return SLICE_NONE;
    return is_address(address) ? address : SLICE_NONE;
}

/* `at`: how much there is before. */
static size_t append_address(char *text, size_t at, struct slice address)
{
    if (at > 0) {
        memcpy(text + at, ", ", 2);
        at += 2;
    }
    memcpy(text + at, address.p, address.n);
    return at + address.n;
}

/* Leaves out the beginning, so many bytes at least, commas and ends of fields counted: up to the next element. */
static void skip_bytes(struct elements *e, size_t bytes)
{
    struct slice cut;

    for (; bytes > 0 && e->field < e->head->n_fields; e->field++) {
        struct slice value = e->head->fields[e->field].value;

        if (e->head->fields[e->field].id != e->id)
            continue;
        if (bytes < value.n) {
            e->field++;
            e->rest = slice_from(value, bytes);
            (void)slice_split(&e->rest, ',', &cut);
            return;
        }
        bytes -= bytes < value.n + 2 ? bytes : value.n + 2;
    }
}

struct slice hop_forwarded_for(const struct http_head *request, struct slice client_ip, struct arena *a)
{
    struct elements e = {.head = request, .id = HTTP_X_FORWARDED_FOR};
    size_t n = client_ip.n, at = 0;
    struct slice element;
    char *text;

    for (size_t i = 0; i < request->n_fields; i++)
        if (request->fields[i].id == HTTP_X_FORWARDED_FOR)
            n += request->fields[i].value.n + 2;
    if (n > LIMIT_FORWARDED_BYTES) {
        skip_bytes(&e, n - LIMIT_FORWARDED_BYTES);
        n = LIMIT_FORWARDED_BYTES;
    }
    text = arena_alloc(a, 2 * n + 2); /* behind each address two bytes, where there may have been a comma alone */
    if (text == NULL)
        return SLICE_NONE;
    while (next_element(&e, &element)) {
        struct slice address = hop_bare_address(slice_trim(element));

        at = address.n > 0 ? append_address(text, at, address) : 0;
    }
    if (client_ip.n > 0)
        at = append_address(text, at, client_ip);
    return slice_of(text, at);
}
