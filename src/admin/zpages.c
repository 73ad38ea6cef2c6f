/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/zpages.h"

#include <time.h>

#include "http/negotiate.h"

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

static enum zpage_form named_form(const struct negotiate_clause *c, enum zpage which)
{
    struct slice version = unquoted(c->version);

    if (!is(unquoted(c->group), GROUP) || !is(unquoted(c->as), kinds[which]))
        return ZPAGE_NOT_ACCEPTABLE;
    if (is(version, VERSION))
        return ZPAGE_JSON;
    return is(version, ALPHA) ? ZPAGE_JSON_ALPHA : ZPAGE_NOT_ACCEPTABLE;
}

static enum zpage_form form_of(const struct negotiate_clause *c, enum zpage which)
{
    if (is(c->type, "application") && is(c->subtype, "json"))
        return named_form(c, which);
    if (c->version.n + c->group.n + c->as.n > 0) /* text has no kinds */
        return ZPAGE_NOT_ACCEPTABLE;
    if ((is(c->type, "text") && (is(c->subtype, "plain") || is(c->subtype, "*"))) || is(c->type, "*"))
        return ZPAGE_TEXT;
    return ZPAGE_NOT_ACCEPTABLE;
}

enum zpage_form zpage_negotiate(enum zpage which, struct slice accept)
{
    struct negotiate_clause clauses[NEGOTIATE_CLAUSES];
    size_t n = negotiate_clauses(accept, clauses);

    for (size_t i = 0; i < n; i++) {
        /* To kube-apiserver q=0 is only the last choice; here it is what it says (RFC 9110, section 12.4.2). */
        enum zpage_form form = clauses[i].q == 0 ? ZPAGE_NOT_ACCEPTABLE : form_of(&clauses[i], which);

        if (form != ZPAGE_NOT_ACCEPTABLE)
            return form;
    }
    return slice_trim(accept).n == 0 ? ZPAGE_TEXT : ZPAGE_NOT_ACCEPTABLE;
}

static bool is_json(enum zpage_form form)
{
    return form == ZPAGE_JSON || form == ZPAGE_JSON_ALPHA;
}

const char *zpage_content_type(enum zpage which, enum zpage_form form)
{
    if (!is_json(form))
        return "text/plain; charset=utf-8";
    if (form == ZPAGE_JSON_ALPHA)
        return which == ZPAGE_STATUSZ ? "application/json;v=" ALPHA ";g=" GROUP ";as=Statusz"
                                      : "application/json;v=" ALPHA ";g=" GROUP ";as=Flagz";
    return which == ZPAGE_STATUSZ ? "application/json;v=" VERSION ";g=" GROUP ";as=Statusz"
                                  : "application/json;v=" VERSION ";g=" GROUP ";as=Flagz";
}

const char *zpage_warning(enum zpage which, enum zpage_form form)
{
    if (form != ZPAGE_JSON_ALPHA)
        return NULL;
    return which == ZPAGE_STATUSZ
               ? "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\""
               : "299 - \"This version of the flagz endpoint is deprecated. Please use a newer version.\"";
}

/* ---- writing ---- */

static void begin(struct buf *out, enum zpage which, enum zpage_form form)
{
    if (is_json(form))
        buf_printf(out, "{\"kind\":\"%s\",\"apiVersion\":\"" GROUP "/%s\",\"metadata\":{\"name\":\"mvproxy\"}",
                   kinds[which], form == ZPAGE_JSON ? VERSION : ALPHA);
    else
        buf_printf(out,
                   "\nmvproxy %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting "
                   "compatibility guarantees and is for debugging purposes only.\n\n",
                   names[which]);
}

static void put_string(struct buf *out, const char *s)
{
    buf_append_char(out, '"');
    buf_append_json(out, slice_str(s));
    buf_append_char(out, '"');
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
    put_string(out, s->version);
    buf_append_str(out, ",\"paths\":[");
    for (size_t i = 0; s->paths[i] != NULL; i++) {
        if (i > 0)
            buf_append_char(out, ',');
        put_string(out, s->paths[i]);
    }
    buf_append_char(out, ']');
    if (s->facts.n > 0) {
        buf_append_str(out, ",\"status\":");
        buf_append(out, s->facts);
    }
    buf_append_str(out, "}\n");
}

static void statusz_text(struct buf *out, const struct statusz *s)
{
    uint64_t seconds = s->uptime_ms / 1000;
    struct tm tm;
    time_t t = (time_t)(s->started_wall_us / 1000000);
    char text[64];

    gmtime_r(&t, &tm);
    strftime(text, sizeof(text), "%a %b %e %H:%M:%S UTC %Y", &tm);
    buf_printf(out, "Started: %s\nUp: %llu hr %02llu min %02llu sec\nBinary version: %s\nPaths:", text,
               (unsigned long long)(seconds / 3600), (unsigned long long)(seconds / 60 % 60),
               (unsigned long long)(seconds % 60), s->version);
    for (size_t i = 0; s->paths[i] != NULL; i++)
        buf_printf(out, " %s", s->paths[i]);
    buf_append_char(out, '\n');
    buf_append(out, s->facts);
}

void statusz_write(struct buf *out, enum zpage_form form, const struct statusz *s)
{
    begin(out, ZPAGE_STATUSZ, form);
    if (is_json(form))
        statusz_json(out, s);
    else
        statusz_text(out, s);
}

void flagz_begin(struct flagz *f, struct buf *out, enum zpage_form form)
{
    *f = (struct flagz){out, form, false};
    begin(out, ZPAGE_FLAGZ, form);
    if (is_json(form))
        buf_append_str(out, ",\"flags\":{");
}

void flagz_add(struct flagz *f, const char *name, const char *value)
{
    if (is_json(f->form)) {
        if (f->any)
            buf_append_char(f->out, ',');
        put_string(f->out, name);
        buf_append_char(f->out, ':');
        put_string(f->out, value);
    } else {
        buf_printf(f->out, "%s=%s\n", name, value);
    }
    f->any = true;
}

void flagz_end(struct flagz *f)
{
    if (is_json(f->form))
        buf_append_str(f->out, "}}\n");
}
