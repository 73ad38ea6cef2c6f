/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/zpages.h"

#include <time.h>

#include "admin/yaml_text.h"
#include "http/negotiate.h"
#include "kube/json_indent.h"

#define GROUP "config.k8s.io"
#define VERSION "v1beta1"
#define ALPHA "v1alpha1"

static const char *const kinds[] = {[ZPAGE_STATUSZ] = "Statusz", [ZPAGE_FLAGZ] = "Flagz"};
static const char *const names[] = {[ZPAGE_STATUSZ] = "statusz", [ZPAGE_FLAGZ] = "flagz"};

/* ---- negotiation ---- */

/* Others than goautoneg take a quoted value for what is quoted (RFC 9110, section 5.6.6). */
static struct slice unquoted(struct slice s)
{
    return s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"' ? slice_of(s.p + 1, s.n - 2) : s;
}

static bool is(struct slice s, const char *text)
{
    return slice_eq(s, slice_str(text));
}

static enum zpage_form named_form(const struct negotiate_clause *c, enum zpage which, bool pretty)
{
    struct slice version = unquoted(c->version);
    bool alpha = is(version, ALPHA);

    if (!is(unquoted(c->group), GROUP) || !is(unquoted(c->as), kinds[which]) || (!alpha && !is(version, VERSION)))
        return ZPAGE_NOT_ACCEPTABLE;
    if (is(c->subtype, "yaml"))
        return alpha ? ZPAGE_YAML_ALPHA : ZPAGE_YAML;
    if (pretty || c->pretty)
        return alpha ? ZPAGE_JSON_ALPHA_PRETTY : ZPAGE_JSON_PRETTY;
    return alpha ? ZPAGE_JSON_ALPHA : ZPAGE_JSON;
}

/* kube-apiserver tries JSON, YAML and text in this order. */
static enum zpage_form form_of(const struct negotiate_clause *c, enum zpage which, bool pretty)
{
    bool any = is(c->subtype, "*"), anything = is(c->type, "*") && any;

    if (c->stream.n > 0 || c->server_version.n > 0) /* neither is there */
        return ZPAGE_NOT_ACCEPTABLE;
    if (c->version.n + c->group.n + c->as.n > 0) { /* text has no kinds */
        if (anything || (is(c->type, "application") && (any || is(c->subtype, "json") || is(c->subtype, "yaml"))))
            return named_form(c, which, pretty);
        return ZPAGE_NOT_ACCEPTABLE;
    }
    return anything || (is(c->type, "text") && (any || is(c->subtype, "plain"))) ? ZPAGE_TEXT : ZPAGE_NOT_ACCEPTABLE;
}

enum zpage_form zpage_negotiate(enum zpage which, struct slice accept, bool pretty)
{
    struct negotiate_clause clauses[NEGOTIATE_CLAUSES];
    size_t n = negotiate_clauses(accept, clauses);

    for (size_t i = 0; i < n; i++) {
        /* To kube-apiserver q=0 is only the last choice; here it is what it says (RFC 9110, section 12.4.2). */
        enum zpage_form form = clauses[i].q == 0 ? ZPAGE_NOT_ACCEPTABLE : form_of(&clauses[i], which, pretty);

        if (form != ZPAGE_NOT_ACCEPTABLE)
            return form;
    }
    return slice_trim(accept).n == 0 ? ZPAGE_TEXT : ZPAGE_NOT_ACCEPTABLE;
}

static bool is_yaml(enum zpage_form form)
{
    return form == ZPAGE_YAML || form == ZPAGE_YAML_ALPHA;
}

static bool is_pretty(enum zpage_form form)
{
    return form == ZPAGE_JSON_PRETTY || form == ZPAGE_JSON_ALPHA_PRETTY;
}

static bool is_alpha(enum zpage_form form)
{
    return form == ZPAGE_JSON_ALPHA || form == ZPAGE_JSON_ALPHA_PRETTY || form == ZPAGE_YAML_ALPHA;
}

const char *zpage_content_type(enum zpage which, enum zpage_form form)
{
#define TYPES(subtype, version)                                                                                        \
    {                                                                                                                  \
        "application/" subtype ";v=" version ";g=" GROUP ";as=Statusz",                                                \
            "application/" subtype ";v=" version ";g=" GROUP ";as=Flagz"                                               \
    }
    static const char *const types[2][2][2] = {{TYPES("json", VERSION), TYPES("json", ALPHA)},
                                               {TYPES("yaml", VERSION), TYPES("yaml", ALPHA)}};
#undef TYPES

    return form == ZPAGE_TEXT ? "text/plain; charset=utf-8" : types[is_yaml(form)][is_alpha(form)][which];
}

const char *zpage_warning(enum zpage which, enum zpage_form form)
{
    if (!is_alpha(form))
        return NULL;
    return which == ZPAGE_STATUSZ
               ? "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\""
               : "299 - \"This version of the flagz endpoint is deprecated. Please use a newer version.\"";
}

/* ---- writing ---- */

static void begin_text(struct buf *out, enum zpage which)
{
    buf_printf(out,
               "\nmvproxy %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting "
               "compatibility guarantees and is for debugging purposes only.\n",
               names[which]);
}

static void begin_json(struct buf *json, enum zpage which, enum zpage_form form)
{
    buf_printf(json, "{\"kind\":\"%s\",\"apiVersion\":\"" GROUP "/%s\",\"metadata\":{\"name\":\"mvproxy\"}",
               kinds[which], is_alpha(form) ? ALPHA : VERSION);
}

/* The whole of it, in the form that was asked for. */
static void put_json(struct buf *out, enum zpage_form form, struct buf *json)
{
    struct json_indenter pretty = {buf_slice(json), 0};

    if (json->failed)
        out->failed = true;
    else if (is_yaml(form))
        (void)yaml_text_from_json(buf_slice(json), out);
    else if (is_pretty(form))
        (void)json_indent_some(&pretty, SIZE_MAX, out);
    else
        buf_append(out, buf_slice(json));
    if (!is_yaml(form))
        buf_append_char(out, '\n');
    buf_free(json);
}

static void statusz_json(struct buf *out, const struct statusz *s)
{
    struct tm tm;
    time_t t = (time_t)(s->started_wall_us / 1000000);
    char text[32];

    gmtime_r(&t, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_printf(out, ",\"startTime\":\"%s\",\"uptimeSeconds\":%llu,\"binaryVersion\":", text,
               (unsigned long long)(s->uptime_ms / 1000));
    buf_append_quoted(out, "", slice_str(s->version));
    buf_append_str(out, ",\"paths\":[");
    for (size_t i = 0; s->paths[i] != NULL; i++) {
        if (i > 0)
            buf_append_char(out, ',');
        buf_append_quoted(out, "", slice_str(s->paths[i]));
    }
    buf_append_char(out, ']');
    if (s->facts.n > 0) {
        buf_append_str(out, ",\"status\":");
        buf_append(out, s->facts);
    }
    buf_append_char(out, '}');
}

static void statusz_text(struct buf *out, const struct statusz *s)
{
    uint64_t seconds = s->uptime_ms / 1000;
    struct tm tm;
    time_t t = (time_t)(s->started_wall_us / 1000000);
    char text[64];

    gmtime_r(&t, &tm);
    strftime(text, sizeof(text), "%a %b %e %H:%M:%S UTC %Y", &tm);
    buf_printf(out, "\nStarted: %s\nUp: %llu hr %02llu min %02llu sec\nBinary version: %s\nPaths:", text,
               (unsigned long long)(seconds / 3600), (unsigned long long)(seconds / 60 % 60),
               (unsigned long long)(seconds % 60), s->version);
    for (size_t i = 0; s->paths[i] != NULL; i++)
        buf_printf(out, " %s", s->paths[i]);
    buf_append_char(out, '\n');
    buf_append(out, s->facts);
}

void statusz_write(struct buf *out, enum zpage_form form, const struct statusz *s)
{
    struct buf json;

    if (form == ZPAGE_TEXT) {
        begin_text(out, ZPAGE_STATUSZ);
        statusz_text(out, s);
        return;
    }
    buf_init(&json, out->ceiling);
    begin_json(&json, ZPAGE_STATUSZ, form);
    statusz_json(&json, s);
    put_json(out, form, &json);
}

void flagz_begin(struct flagz *f, struct buf *out, enum zpage_form form)
{
    *f = (struct flagz){.out = out, .form = form};
    buf_init(&f->json, out->ceiling);
    if (form == ZPAGE_TEXT) {
        begin_text(out, ZPAGE_FLAGZ);
    } else {
        begin_json(&f->json, ZPAGE_FLAGZ, form);
        buf_append_str(&f->json, ",\"flags\":{");
    }
}

void flagz_add(struct flagz *f, const char *name, const char *value)
{
    if (f->form == ZPAGE_TEXT) {
        buf_printf(f->out, "%s=%s\n", name, value);
        return;
    }
    buf_append_quoted(&f->json, f->any ? "," : "", slice_str(name));
    buf_append_quoted(&f->json, ":", slice_str(value));
    f->any = true;
}

void flagz_end(struct flagz *f)
{
    if (f->form == ZPAGE_TEXT)
        return;
    buf_append_str(&f->json, "}}");
    put_json(f->out, f->form, &f->json);
}
