/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/zpages.h"

#include <time.h>

#define GROUP "config.k8s.io"
#define VERSION "v1beta1"
#define ALPHA "v1alpha1"

static const char *const kinds[] = {[ZPAGE_STATUSZ] = "Statusz", [ZPAGE_FLAGZ] = "Flagz"};
static const char *const names[] = {[ZPAGE_STATUSZ] = "statusz", [ZPAGE_FLAGZ] = "flagz"};

/* ---- negotiation ---- */

/* One clause of Accept; of a parameter that is there twice the last counts. */
struct clause {
    struct slice type, version, group, as;
    unsigned q; /* thousandths */
};

static struct slice unquoted(struct slice s)
{
    return s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"' ? slice_of(s.p + 1, s.n - 2) : s;
}

/* What cannot be read comes last (goautoneg: 0, which is no refusal there). */
static unsigned quality(struct slice s)
{
    unsigned q = 0, digit = 1000;

    if (s.n == 0 || (s.p[0] != '0' && s.p[0] != '1') || (s.n > 1 && s.p[1] != '.'))
        return 1;
    if (s.p[0] == '1')
        return 1000;
    for (size_t i = 2; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        q += (unsigned)(s.p[i] - '0') * (digit /= 10);
    return q;
}

static void take_parameter(struct clause *c, struct slice part)
{
    size_t eq = slice_index(part, '=');
    struct slice name = slice_trim(slice_of(part.p, eq)), value;

    if (eq == part.n)
        return;
    value = unquoted(slice_trim(slice_from(part, eq + 1)));
    if (slice_eq(name, SLICE_LIT("q")))
        c->q = quality(value);
    else if (slice_eq(name, SLICE_LIT("v")))
        c->version = value;
    else if (slice_eq(name, SLICE_LIT("g")))
        c->group = value;
    else if (slice_eq(name, SLICE_LIT("as")))
        c->as = value;
}

static struct clause read_clause(struct slice text)
{
    struct clause c = {.q = 1000};
    struct slice part = SLICE_NONE;

    if (slice_split(&text, ';', &part))
        c.type = slice_trim(part);
    while (slice_split(&text, ';', &part))
        take_parameter(&c, slice_trim(part));
    return c;
}

static enum zpage_form named_form(const struct clause *c, enum zpage which)
{
    if (!slice_eq(c->group, SLICE_LIT(GROUP)) || !slice_eq(c->as, slice_str(kinds[which])))
        return ZPAGE_NOT_ACCEPTABLE;
    if (slice_eq(c->version, SLICE_LIT(VERSION)))
        return ZPAGE_JSON;
    return slice_eq(c->version, SLICE_LIT(ALPHA)) ? ZPAGE_JSON_ALPHA : ZPAGE_NOT_ACCEPTABLE;
}

static enum zpage_form form_of(const struct clause *c, enum zpage which)
{
    if (slice_ieq(c->type, SLICE_LIT("application/json")))
        return named_form(c, which);
    if (c->version.n + c->group.n + c->as.n > 0) /* text has no kinds */
        return ZPAGE_NOT_ACCEPTABLE;
    if (slice_ieq(c->type, SLICE_LIT("text/plain")) || slice_eq(c->type, SLICE_LIT("text/*")) ||
        slice_eq(c->type, SLICE_LIT("*/*")))
        return ZPAGE_TEXT;
    return ZPAGE_NOT_ACCEPTABLE;
}

enum zpage_form zpage_negotiate(enum zpage which, struct slice accept)
{
    enum zpage_form best = ZPAGE_NOT_ACCEPTABLE;
    struct slice text;
    unsigned q = 0;

    if (slice_trim(accept).n == 0)
        return ZPAGE_TEXT;
    while (slice_split(&accept, ',', &text)) {
        struct clause c = read_clause(text);
        enum zpage_form form = c.q > q ? form_of(&c, which) : ZPAGE_NOT_ACCEPTABLE;

        if (form == ZPAGE_NOT_ACCEPTABLE)
            continue;
        best = form;
        q = c.q;
    }
    return best;
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
