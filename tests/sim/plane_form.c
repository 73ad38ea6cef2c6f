/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plane_form.h"

#define STATUS(message, reason, code)                                                                                  \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"" message         \
    "\",\"reason\":\"" reason "\",\"details\":{},\"code\":" code "}"

/* `begins`: what it has in common with what becomes of it when it is completed. */
static const struct {
    const char *text, *begins;
} forms[PLANE_FORMS] = {
    [FORM_PATTERN] = {"", ""},
    [FORM_EMPTY] = {"", ""},
    [FORM_NO_PAGE] = {"404 page not found\n", ""},
    [FORM_NO_PAGE_TWICE] = {"404 page not found\n404 page not found\n", ""},
    [FORM_NOT_FOUND] = {STATUS("the server could not find the requested resource", "NotFound", "404"), ""},
    [FORM_STOPPING] = {STATUS("apiserver is shutting down", "ServiceUnavailable", "503"), ""},
    [FORM_UNAUTHORIZED] = {STATUS("Unauthorized", "Unauthorized", "401"), ""},
    [FORM_GROUPS] = {"{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[]}", "{\"kind\":\"APIGroupList\","},
    [FORM_GROUP] =
        {"{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"batch\",\"versions\":[],\"preferredVersion\":{}}",
         "{\"kind\":\"APIGroup\","},
    [FORM_RESOURCES] =
        {"{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"batch/v1\",\"resources\":[]}",
         "{\"kind\":\"APIResourceList\","},
    [FORM_SCHEMAS] = {"{\"paths\":{\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=AA\"}}}",
                      "{\"paths\":{\"ap"},
};

bool target_is_watch(enum plane_target to)
{
    return to == TO_WATCH || to == TO_WATCH_PEER || to == TO_LOG;
}

bool target_is_document(enum plane_target to)
{
    return to == TO_APIS || (to >= TO_PRETTY && to <= TO_SCHEMAS);
}

enum plane_form form_of_target(enum plane_target to)
{
    switch (to) {
    case TO_GROUPS:
        return FORM_GROUPS;
    case TO_GROUP:
        return FORM_GROUP;
    case TO_RESOURCES:
        return FORM_RESOURCES;
    case TO_SCHEMAS:
        return FORM_SCHEMAS;
    default:
        return FORM_PATTERN;
    }
}

struct slice form_text(enum plane_form f)
{
    return slice_str(forms[f].text);
}

void form_add(struct bytes *b, enum plane_form f, unsigned k, size_t from, size_t n)
{
    if (f == FORM_PATTERN)
        bytes_pattern(b, k, from, n);
    else
        bytes_add(b, slice_of(forms[f].text + from, n));
}

/* Whether `s` is what `text` has at `from`; what is behind its end is not looked at. */
static bool agrees(struct slice s, struct slice text, size_t from)
{
    size_t n = from >= text.n ? 0 : text.n - from;

    n = n < s.n ? n : s.n;
    return n == 0 || memcmp(s.p, text.p + from, n) == 0;
}

bool form_holds(struct slice s, enum plane_form f, unsigned k, size_t from)
{
    if (f == FORM_PATTERN)
        return pattern_holds(s, k, from);
    return from + s.n <= form_text(f).n && agrees(s, form_text(f), from);
}

bool form_holds_completed(struct slice s, enum plane_form f, size_t from)
{
    return forms[f].begins[0] != '\0' && agrees(s, slice_str(forms[f].begins), from);
}
