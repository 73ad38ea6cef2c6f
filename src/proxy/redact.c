/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/redact.h"

#include <string.h>

enum { LONGEST_NAME = 32 };

/* Parameters of the Kubernetes API (meta/v1 options, pod log and exec options) whose values are no secrets. */
static bool is_harmless(struct slice name)
{
    static const char *const names[] = {
        "allowWatchBookmarks",
        "container",
        "continue",
        "dryRun",
        "fieldManager",
        "fieldSelector",
        "fieldValidation",
        "follow",
        "force",
        "labelSelector",
        "limit",
        "limitBytes",
        "orphanDependents",
        "pretty",
        "previous",
        "propagationPolicy",
        "resourceVersion",
        "stderr",
        "stdin",
        "gracePeriodSeconds",
        "sendInitialEvents",
        "resourceVersionMatch",
        "sinceSeconds",
        "sinceTime",
        "stdout",
        "stream",
        "tailLines",
        "timeout",
        "timeoutSeconds",
        "timestamps",
        "tty",
        "watch",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_eq(name, slice_str(names[i])))
            return true;
    return false;
}

/* What has room: a path of 64 KiB leaves its beginning. */
static void append(struct slice s, struct buf *out)
{
    size_t room = out->ceiling - buf_len(out);

    if (s.n > room) {
        buf_append(out, slice_of(s.p, room));
        s = slice_from(s, room);
    }
    buf_append(out, s);
}

/* A secret may stand where a name does: "?SECRET", "?token%3DSECRET", or one in base64 with its padding. */
static bool is_name(struct slice s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

    for (size_t i = 0; i < s.n; i++)
        if (memchr(letters, s.p[i], sizeof(letters) - 1) == NULL)
            return false;
    return s.n <= LONGEST_NAME;
}

static bool is_padding(struct slice value)
{
    size_t n = 0;

    while (n < value.n && value.p[n] == '=')
        n++;
    return n == value.n;
}

/* Where the first of these characters stands, as it is or percent-encoded: who decodes takes it for a separator. */
static size_t index_decoded(struct slice s, const char *separators)
{
    for (size_t i = 0; i < s.n; i++) {
        int c = (unsigned char)s.p[i];

        if (c == '%' && s.n - i > 2 && slice_hex_digit(s.p[i + 1]) >= 0 && slice_hex_digit(s.p[i + 2]) >= 0)
            c = slice_hex_digit(s.p[i + 1]) * 16 + slice_hex_digit(s.p[i + 2]);
        if (c != '\0' && strchr(separators, c) != NULL)
            return i;
    }
    return s.n;
}

struct slice redact_path(struct slice s)
{
    return slice_of(s.p, index_decoded(s, ";?#"));
}

/* Up to what some programs take for the next parameter. */
static void append_value(struct slice value, struct buf *out)
{
    size_t n = index_decoded(value, "&;?#");

    append(slice_of(value.p, n), out);
    if (n < value.n)
        append(SLICE_LIT("..."), out);
}

static void append_parameter(struct slice pair, bool known, struct buf *out)
{
    size_t eq = slice_index(pair, '=');
    struct slice name = slice_of(pair.p, eq);

    if (pair.n == 0 || (known && is_harmless(name))) {
        append_value(pair, out);
        return;
    }
    if (eq < pair.n && is_name(name) && !is_padding(slice_from(pair, eq + 1))) {
        append(name, out);
        append(SLICE_LIT("="), out);
    }
    append(SLICE_LIT("..."), out);
}

/* Without parameters of its segments (RFC 3986 3.3), which the Kubernetes API has none of. */
static void append_path(struct slice path, struct buf *out)
{
    struct slice segment;
    bool first = true;

    while (buf_len(out) < out->ceiling && slice_split(&path, '/', &segment)) {
        struct slice seen = redact_path(segment);

        if (!first)
            append(SLICE_LIT("/"), out);
        first = false;
        append(seen, out);
        if (seen.n < segment.n)
            append(SLICE_LIT(";..."), out);
    }
}

/* The Kubernetes API itself answers, whose parameters are known. */
static bool is_kubernetes(const struct reqinfo *info)
{
    return info->is_resource && !slice_eq(info->subresource, SLICE_LIT("proxy")) &&
           !slice_eq(info->verb, SLICE_LIT("proxy"));
}

void redact_target(struct slice target, const struct reqinfo *info, struct buf *out)
{
    struct slice rest = target, part;
    bool known = is_kubernetes(info);
    char before = '?';

    if (!slice_split(&rest, '?', &part))
        return;
    append_path(part, out);
    while (rest.p != NULL && buf_len(out) < out->ceiling && slice_split(&rest, '&', &part)) {
        append(slice_of(&before, 1), out);
        append_parameter(part, known, out);
        before = '&';
    }
}
