/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/denial.h"

#include <string.h>

#include "kube/jscan.h"
#include "kube/pbread.h"

enum { DENIAL_DEPTH = 8 };

/* NewGenericServerResponse() of apimachinery; notfoundhandler, waitgroup and with_retry_after of k8s.io/apiserver. */
static const struct {
    unsigned status;
    enum denial means;
    const char *message;
    bool plain; /* in plain text, and nothing else; else the message of a Status begins so */
} known[] = {
    {404, DENIAL_UNKNOWN, "the server could not find the requested resource", false},
    {405, DENIAL_UNKNOWN, "the server does not allow this method on the requested resource", false},
    {503, DENIAL_STARTING, "the request has been made before all known HTTP paths have been installed", false},
    {503, DENIAL_STOPPING, "apiserver is shutting down", false},
    {429, DENIAL_STOPPING, "The apiserver is shutting down, please try again later.", true},
};

bool denial_is_plain(struct slice content_type)
{
    return slice_has_iprefix(content_type, SLICE_LIT("text/plain"));
}

enum denial denial_by_head(unsigned status, struct slice content_type, bool body)
{
    bool plain = denial_is_plain(content_type);

    if (status == 404 && (plain || !body))
        return DENIAL_UNKNOWN;
    for (size_t i = 0; body && i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].status == status && known[i].plain == plain)
            return DENIAL_NEEDS_BODY;
    return DENIAL_NONE;
}

/* What a Status says, as far as it matters here. */
struct said {
    struct slice message;
    bool about_something; /* details name an object or a kind of objects */
};

static bool read_json(struct slice body, struct said *out)
{
    struct jscan_value kind, message, details, v;
    struct slice object;

    if (!jscan_object(body, DENIAL_DEPTH, &object, NULL) || !jscan_get(object, SLICE_LIT("kind"), &kind) ||
        !jscan_text_eq(&kind, SLICE_LIT("Status")) || !jscan_get(object, SLICE_LIT("message"), &message) ||
        message.type != JSCAN_STRING)
        return false;
    out->message = slice_from(message.raw, 1);
    out->about_something =
        jscan_get(object, SLICE_LIT("details"), &details) && details.type == JSCAN_OBJECT &&
        (jscan_get(details.raw, SLICE_LIT("name"), &v) || jscan_get(details.raw, SLICE_LIT("kind"), &v));
    return true;
}

static bool is_status(struct slice type_meta)
{
    struct pbread r;
    struct pb_field f;
    bool found = false;

    pbread_init(&r, type_meta);
    while (pbread_next(&r, &f))
        found |= pb_is_bytes(&f, 2) && slice_eq(f.bytes, SLICE_LIT("Status"));
    return found && r.error == NULL;
}

/* StatusDetails: name = 1, kind = 3; Go's encoder writes both of them also where they are empty. */
static bool names_something(struct slice details)
{
    struct pbread r;
    struct pb_field f;
    bool found = false;

    pbread_init(&r, details);
    while (pbread_next(&r, &f))
        found |= (pb_is_bytes(&f, 1) || pb_is_bytes(&f, 3)) && f.bytes.n > 0;
    return found || r.error != NULL;
}

static bool read_status_fields(struct slice raw, struct said *out)
{
    struct pbread r;
    struct pb_field f;

    pbread_init(&r, raw);
    while (pbread_next(&r, &f)) {
        if (pb_is_bytes(&f, 3))
            out->message = f.bytes;
        if (pb_is_bytes(&f, 5))
            out->about_something |= names_something(f.bytes);
    }
    return r.error == NULL;
}

/* "k8s\0", then runtime.Unknown: typeMeta = 1, raw = 2. */
static bool read_protobuf(struct slice body, struct said *out)
{
    struct slice raw = SLICE_NONE;
    bool status = false;
    struct pbread r;
    struct pb_field f;

    pbread_init(&r, slice_from(body, 4));
    while (pbread_next(&r, &f)) {
        status |= pb_is_bytes(&f, 1) && is_status(f.bytes);
        if (pb_is_bytes(&f, 2))
            raw = f.bytes;
    }
    return r.error == NULL && status && read_status_fields(raw, out);
}

/*
 * As kube-apiserver writes YAML: block style, one line for each member that is read here. What clients have chosen,
 * such as a name that reads like one of the messages, stands in a line that is indented, or behind other words.
 */
static bool read_yaml(struct slice body, struct said *out)
{
    bool status = false, details = false;
    struct slice line;

    while (slice_split(&body, '\n', &line)) {
        if (slice_has_prefix(line, SLICE_LIT(" "))) {
            out->about_something |= details && (slice_has_prefix(line, SLICE_LIT("  name: ")) ||
                                                slice_has_prefix(line, SLICE_LIT("  kind: ")));
            continue;
        }
        details = slice_eq(line, SLICE_LIT("details:"));
        status |= slice_eq(line, SLICE_LIT("kind: Status"));
        if (slice_has_prefix(line, SLICE_LIT("message: ")))
            out->message = slice_from(line, sizeof("message: ") - 1);
    }
    return status;
}

static bool read_status(struct slice body, struct said *out)
{
    *out = (struct said){.message = SLICE_LIT("")};
    if (slice_has_prefix(body, SLICE_LIT("{")))
        return read_json(body, out);
    if (slice_has_prefix(body, SLICE_LIT("k8s\0")))
        return read_protobuf(body, out);
    return read_yaml(body, out);
}

enum denial denial_by_body(unsigned status, struct slice body)
{
    struct said s;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct slice message = slice_str(known[i].message);

        if (known[i].status != status)
            continue;
        if (known[i].plain && slice_has_prefix(body, message) && body.n <= message.n + 1)
            return known[i].means; /* and the line's end */
        if (read_status(body, &s) && !s.about_something && slice_has_prefix(s.message, message))
            return known[i].means;
    }
    return DENIAL_NONE;
}

bool denial_knows_user(struct slice body)
{
    const struct slice nobody = SLICE_LIT("Unauthorized");
    struct slice rest;
    struct said s;

    if (!read_status(body, &s))
        return false;
    rest = slice_from(s.message, nobody.n);
    return s.about_something || !slice_has_prefix(s.message, nobody) || (rest.n > 0 && rest.p[0] != '"');
}
