/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_check.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include "base/limits.h"

/* What a byte may be part of: a token, a host's name. */
enum { T = 1, H = 2, TH = T | H };

static const unsigned char classes[256] = {
    ['!'] = T,          ['#' ... '$'] = T,  ['%'] = TH,         ['&' ... '\''] = T, ['*' ... '+'] = T,
    ['-' ... '.'] = TH, ['0' ... '9'] = TH, ['A' ... 'Z'] = TH, ['^'] = T,          ['_'] = TH,
    ['`'] = T,          ['a' ... 'z'] = TH, ['|'] = T,          ['~'] = TH,
};

/* Does not stop at the first byte that is wrong: there is none, nearly always. */
static bool all(struct slice s, unsigned char class)
{
    for (size_t i = 0; i < s.n; i++)
        class &= classes[(unsigned char)s.p[i]];
    return class != 0;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* How many bytes have no control byte, in whole blocks: a vector at a time, for long values. */
enum { LANES = 16, BLOCK = 4 * LANES, LONG = 4 * BLOCK };
typedef unsigned char lanes __attribute__((vector_size(LANES)));

static size_t clean_blocks(struct slice s)
{
    size_t i = 0;

    for (; s.n - i >= BLOCK; i += BLOCK) {
        lanes bad = {0}, v;
        uint64_t found[LANES / 8];

        for (size_t at = 0; at < BLOCK; at += LANES) {
            memcpy(&v, s.p + i + at, LANES);
            bad |= (lanes)(v < 0x20) | (lanes)(v == 0x7f);
        }
        memcpy(found, &bad, LANES);
        if ((found[0] | found[1]) != 0)
            break;
    }
    return i;
}

/* How many bytes there are before the first control byte, a tab included. Every head is read with it: eight at a time.
 */
static size_t clean_run(struct slice s)
{
    const uint64_t ones = 0x0101010101010101, tops = ones << 7;
    size_t i = 0;

    for (; s.n - i >= 8; i += 8) {
        uint64_t w, del, found;

        memcpy(&w, s.p + i, sizeof(w));
        w = le64toh(w);
        del = w ^ ones * 0x7f;
        /* The lowest mark is right; those above it may come from its borrow. */
        found = (((w - ones * 0x20) & ~w) | ((del - ones) & ~del)) & tops;
        if (found != 0)
            return i + (size_t)__builtin_ctzll(found) / 8;
    }
    while (i < s.n && !is_control(s.p[i]))
        i++;
    return i;
}

bool h1_is_token(struct slice s)
{
    return s.n > 0 && all(s, T);
}

bool h1_is_value(struct slice s)
{
    size_t i = s.n < LONG ? 0 : clean_blocks(s);

    for (i += clean_run(slice_from(s, i)); i < s.n; i += clean_run(slice_from(s, i)))
        if (s.p[i++] != '\t')
            return false;
    return true;
}

const char *h1_check_bytes(struct slice text, size_t *lines)
{
    *lines = 0;
    for (size_t i = clean_run(text); i < text.n; i += clean_run(slice_from(text, i))) {
        char c = text.p[i++];

        if (c == '\t')
            continue;
        if (c == '\n')
            return "bare LF in head";
        if (c != '\r')
            return "control byte in head";
        if (i >= text.n || text.p[i] != '\n')
            return "bare CR in head";
        i++;
        ++*lines;
        if (i < text.n && (text.p[i] == ' ' || text.p[i] == '\t'))
            return "line folding in head";
    }
    return NULL;
}

bool h1_has_name(const struct http_field *f)
{
    return f->id != HTTP_NAME_OTHER || h1_is_token(f->name);
}

const char *h1_check_names(const struct http_head *head)
{
    for (size_t i = 0; i < head->n_fields; i++)
        if (!h1_has_name(&head->fields[i]))
            return "field name is not a token";
    return NULL;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Is the % there the beginning of an escape (RFC 3986 2.1)? */
static bool is_escape(struct slice s, size_t at)
{
    return s.n - at >= 3 && is_hex(s.p[at + 1]) && is_hex(s.p[at + 2]);
}

/* What kube-apiserver would route on and what we route on must not differ: no half escapes, no NUL, no fragment. */
static const char *check_path(struct slice path)
{
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] != '%')
            continue;
        if (!is_escape(path, i))
            return "bad percent escape in request target";
        if (path.p[i + 1] == '0' && path.p[i + 2] == '0')
            return "NUL in request target";
    }
    return NULL;
}

const char *h1_check_target(enum http_method method, struct slice t)
{
    if (slice_eq(t, SLICE_LIT("*")))
        return method == HTTP_OPTIONS ? NULL : "request target * without OPTIONS";
    if (t.n == 0 || t.p[0] != '/')
        return "request target is not in origin form";
    for (size_t i = 0; i < t.n; i++) {
        unsigned char c = (unsigned char)t.p[i];

        if (c <= ' ' || c >= 0x7f || c == '#')
            return "forbidden byte in request target";
    }
    return check_path(slice_of(t.p, slice_index(t, '?')));
}

/* RFC 3986 3.2.2 without sub-delims, which no host has, and by which a list or a parameter would pass for a name. */
static bool is_host_name(struct slice s)
{
    if (s.n == 0 || !all(s, H))
        return false;
    for (size_t i = slice_index(s, '%'); i < s.n; i++)
        if (s.p[i] == '%' && !is_escape(s, i))
            return false;
    return true;
}

/* What is in the brackets. The zone is written "%25eth0" by RFC 6874 and "%eth0" by many: both have one reading. */
static bool is_ipv6(struct slice s)
{
    char text[INET6_ADDRSTRLEN] = "";
    struct in6_addr address;
    size_t zone = slice_index(s, '%');

    if (zone >= sizeof(text))
        return false;
    memcpy(text, s.p, zone);
    return inet_pton(AF_INET6, text, &address) == 1 && (zone == s.n || is_host_name(slice_from(s, zone + 1)));
}

/* It may be empty (RFC 3986 3.2.3). */
static bool is_port(struct slice s)
{
    uint64_t port;

    return s.n == 0 || (s.n <= 5 && slice_u64(s, &port) && port <= UINT16_MAX);
}

/* uri-host [ ":" port ] (RFC 9112 3.2); an https URI has a host that is not empty (RFC 9110 4.2.2). */
static bool is_authority(struct slice s)
{
    size_t end;

    if (s.n > 0 && s.p[0] == '[') {
        end = slice_index(s, ']');
        if (end == s.n || !is_ipv6(slice_of(s.p + 1, end - 1)))
            return false;
        end++;
    } else {
        end = slice_index(s, ':');
        if (!is_host_name(slice_of(s.p, end)))
            return false;
    }
    return end == s.n || (s.p[end] == ':' && is_port(slice_from(s, end + 1)));
}

static const char *check_host(const struct http_head *head)
{
    const struct http_field *host = NULL;

    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id != HTTP_HOST)
            continue;
        if (host != NULL)
            return "more than one Host";
        host = &head->fields[i];
    }
    if (host == NULL)
        return head->minor == 0 ? NULL : "no Host";
    return is_authority(host->value) ? NULL : "invalid Host";
}

/* At most one Content-Length or one Transfer-Encoding: chunked; RFC 9112 6.1 and 6.3 at their strictest. */
static const char *check_framing(const struct http_head *head, bool *unknown_coding)
{
    const struct http_field *length = NULL, *coding = NULL;
    uint64_t n;

    *unknown_coding = false;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];

        if (f->id == HTTP_CONTENT_LENGTH) {
            if (length != NULL)
                return "more than one Content-Length";
            length = f;
        } else if (f->id == HTTP_TRANSFER_ENCODING) {
            if (coding != NULL)
                return "more than one Transfer-Encoding";
            coding = f;
        }
    }
    if (length != NULL && coding != NULL)
        return "both Content-Length and Transfer-Encoding";
    if (length != NULL && (!slice_u64(length->value, &n) || n > INT64_MAX))
        return "invalid Content-Length";
    if (coding == NULL)
        return NULL;
    if (head->minor == 0)
        return "Transfer-Encoding in HTTP/1.0";
    if (!slice_ieq(coding->value, SLICE_LIT("chunked"))) {
        *unknown_coding = true;
        return "Transfer-Encoding is not chunked";
    }
    return NULL;
}

/* What they name is looked for among all fields: a list without bound would make that their product. */
static const char *check_connection(const struct http_head *head)
{
    return http_head_lists_more(head, HTTP_CONNECTION, LIMIT_CONNECTION_OPTIONS) ? "too many Connection options" : NULL;
}

const char *h1_check_request(const struct http_head *head, unsigned *status)
{
    const char *bad = h1_check_target(head->method_id, head->target);
    bool unknown_coding = false;

    *status = 400;
    /* What follows it may be meant for a tunnel, so the connection must not go on. */
    if (head->method_id == HTTP_CONNECT) {
        *status = 405;
        return "CONNECT is not supported";
    }
    if (bad == NULL)
        bad = check_host(head);
    if (bad == NULL)
        bad = check_connection(head);
    if (bad == NULL)
        bad = check_framing(head, &unknown_coding);
    if (unknown_coding)
        *status = 501;
    return bad;
}

const char *h1_check_response(const struct http_head *head)
{
    const char *bad = check_connection(head);
    bool unknown_coding;

    if (head->status < 100 || head->status > 599)
        return "status out of range";
    if ((head->status < 200 || head->status == 204) && http_head_find(head, HTTP_TRANSFER_ENCODING) != NULL)
        return "Transfer-Encoding in a response without body";
    return bad != NULL ? bad : check_framing(head, &unknown_coding);
}
