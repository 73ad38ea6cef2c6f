/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

struct writer {
    struct buf *out;
    enum metrics_format format;
    size_t pause_at; /* bytes in `out` */
};

/* ---- which format ---- */

static bool is_parameter(struct slice s, const char *name, struct slice *value)
{
    size_t eq = slice_index(s, '=');

    if (!slice_ieq(slice_trim(slice_of(s.p, eq)), slice_str(name)))
        return false;
    *value = slice_trim(slice_from(s, eq + 1));
    if (value->n >= 2 && value->p[0] == '"' && value->p[value->n - 1] == '"')
        *value = slice_of(value->p + 1, value->n - 2);
    return true;
}

/* RFC 9110 12.4.2: a weight has at most three decimals; anything else counts as 0. */
static unsigned weight_of(struct slice q)
{
    unsigned value = 0, unit = 100;

    if (q.n == 0 || (q.p[0] != '0' && q.p[0] != '1') || (q.n > 1 && q.p[1] != '.') || q.n > 5)
        return 0;
    value = (unsigned)(q.p[0] - '0') * 1000;
    for (size_t i = 2; i < q.n; i++, unit /= 10) {
        if (q.p[i] < '0' || q.p[i] > '9')
            return 0;
        value += (unsigned)(q.p[i] - '0') * unit;
    }
    return value > 1000 ? 0 : value;
}

static const char *const versions[] = {
    [METRICS_PROMETHEUS] = "0.0.4", [METRICS_OPENMETRICS] = "1.0.0", [METRICS_OPENMETRICS_0_0_1] = "0.0.1"};

/* How much this clause wants the format: 0 is not at all, else 1000 * q. */
static unsigned clause_weight(struct slice clause, enum metrics_format format)
{
    struct slice part = SLICE_NONE, type = SLICE_NONE, value;
    unsigned weight = 1000;
    bool fits = true;

    slice_split(&clause, ';', &type);
    type = slice_trim(type);
    while (slice_split(&clause, ';', &part)) {
        if (is_parameter(part, "q", &value))
            weight = weight_of(value);
        else if (is_parameter(part, "version", &value))
            fits = slice_eq(value, slice_str(versions[format]));
    }
    if (format != METRICS_PROMETHEUS)
        fits = fits && slice_ieq(type, SLICE_LIT("application/openmetrics-text"));
    else
        fits = fits && (slice_ieq(type, SLICE_LIT("text/plain")) || slice_eq(type, SLICE_LIT("text/*")) ||
                        slice_eq(type, SLICE_LIT("*/*")));
    return fits ? weight : 0;
}

enum metrics_format metrics_text_negotiate(struct slice accept)
{
    struct slice clause;
    unsigned best = 0;
    enum metrics_format chosen = METRICS_PROMETHEUS;

    while (slice_split(&accept, ',', &clause)) {
        for (enum metrics_format f = METRICS_PROMETHEUS; f <= METRICS_OPENMETRICS_0_0_1; f++) {
            unsigned weight = clause_weight(clause, f);

            if (weight > best) {
                best = weight;
                chosen = f;
            }
        }
    }
    return chosen;
}

bool metrics_text_accepts_gzip(struct slice accept_encoding)
{
    struct slice clause, part, coding, value;

    while (slice_split(&accept_encoding, ',', &clause)) {
        unsigned weight = 1000;

        slice_split(&clause, ';', &coding);
        while (slice_split(&clause, ';', &part))
            if (is_parameter(part, "q", &value))
                weight = weight_of(value);
        if (slice_ieq(slice_trim(coding), SLICE_LIT("gzip")))
            return weight > 0;
    }
    return false;
}

const char *metrics_text_content_type(enum metrics_format format)
{
    static const char *const types[] = {
        [METRICS_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
        [METRICS_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
        [METRICS_OPENMETRICS_0_0_1] = "application/openmetrics-text; version=0.0.1; charset=utf-8"};

    return types[format];
}

/* ---- values ---- */

enum { NUMBER_BYTES = 32 };

/* The shortest text that reads back as the same number, as Prometheus' own library writes it. */
static void number_text(double v, char out[NUMBER_BYTES])
{
    if (isnan(v) || isinf(v)) {
        snprintf(out, NUMBER_BYTES, "%s", isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, NUMBER_BYTES, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            break;
    }
}

static void put_number(struct writer *w, double v)
{
    char text[NUMBER_BYTES];

    number_text(v, text);
    buf_append_str(w->out, text);
}

/* From a million on as Go writes it: whoever adds up the buckets of several servers goes by this text. */
static void bound_text(double v, char out[NUMBER_BYTES])
{
    if (!isfinite(v) || v < 1e6) {
        number_text(v, out);
        return;
    }
    for (int digits = 0; digits <= 16; digits++) {
        snprintf(out, NUMBER_BYTES, "%.*e", digits, v);
        if (strtod(out, NULL) == v)
            break;
    }
}

/* OpenMetrics wants a bound to look like a float. */
static void put_bound(struct writer *w, double v)
{
    char text[NUMBER_BYTES];

    bound_text(v, text);
    buf_append_str(w->out, text);
    if (w->format != METRICS_PROMETHEUS && isfinite(v) && strpbrk(text, ".e") == NULL)
        buf_append_str(w->out, ".0");
}

/*
 * Label values come from outside: what is no UTF-8 becomes U+FFFD, so that one odd name cannot spoil a scrape. What a
 * terminal acts upon, or what hides text, becomes the six characters of \uXXXX, for people look at this with curl, too;
 * and the backslash of a \u that stands there itself likewise, so that no two values become one.
 */
static void put_escaped(struct writer *w, struct slice s, bool quotes)
{
    while (s.n > 0) {
        uint32_t code;
        size_t n = utf8_next(s, &code);

        if (n == 0)
            buf_append_str(w->out, "\xEF\xBF\xBD");
        else if ((utf8_unprintable(code) && code != '\n') || slice_has_prefix(s, SLICE_LIT("\\u")))
            buf_printf(w->out, "\\\\u%04x", (unsigned)code);
        else if (code == '\\')
            buf_append_str(w->out, "\\\\");
        else if (code == '\n')
            buf_append_str(w->out, "\\n");
        else if (code == '"' && quotes)
            buf_append_str(w->out, "\\\"");
        else
            buf_append(w->out, slice_of(s.p, n));
        s = slice_from(s, n == 0 ? 1 : n);
    }
}

/* ---- families and samples ---- */

static bool needs_total(const struct writer *w, const struct metric_view *v)
{
    return w->format != METRICS_PROMETHEUS && v->kind == METRIC_COUNTER &&
           !slice_has_suffix(slice_str(v->name), SLICE_LIT("_total"));
}

/* OpenMetrics names a counter's family without the suffix that its samples have. */
static struct slice family_name(const struct writer *w, const struct metric_view *v)
{
    struct slice name = slice_str(v->name);

    if (w->format != METRICS_PROMETHEUS && v->kind == METRIC_COUNTER && !needs_total(w, v))
        name.n -= sizeof("_total") - 1;
    return name;
}

static void put_family(struct writer *w, const struct metric_view *v)
{
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    struct slice name = family_name(w, v);

    buf_append_str(w->out, "# HELP ");
    buf_append(w->out, name);
    buf_append_char(w->out, ' ');
    put_escaped(w, slice_str(v->help), w->format != METRICS_PROMETHEUS);
    buf_append_str(w->out, "\n# TYPE ");
    buf_append(w->out, name);
    buf_printf(w->out, " %s\n", types[v->kind]);
}

static void put_name(struct writer *w, const struct metric_view *v, const char *suffix, const double *bound)
{
    const char *separator = "{";

    buf_append_str(w->out, v->name);
    buf_append_str(w->out, suffix);
    for (size_t i = 0; i < v->n_labels; i++) {
        buf_append_str(w->out, separator);
        buf_append_str(w->out, v->label_names[i]);
        buf_append_str(w->out, "=\"");
        put_escaped(w, v->label_values[i], true);
        buf_append_char(w->out, '"');
        separator = ",";
    }
    if (bound != NULL) {
        buf_printf(w->out, "%sle=\"", separator);
        put_bound(w, *bound);
        buf_append_char(w->out, '"');
    }
    if (v->n_labels > 0 || bound != NULL)
        buf_append_char(w->out, '}');
    buf_append_char(w->out, ' ');
}

static void put_sample(struct writer *w, const struct metric_view *v, const char *suffix, double value)
{
    put_name(w, v, suffix, NULL);
    put_number(w, value);
    buf_append_char(w->out, '\n');
}

static void put_histogram(struct writer *w, const struct metric_view *v)
{
    const double infinity = INFINITY;
    uint64_t sum = 0;

    for (size_t i = 0; i <= v->n_bounds; i++) {
        sum += v->counts[i];
        put_name(w, v, "_bucket", i < v->n_bounds ? &v->bounds[i] : &infinity);
        buf_append_u64(w->out, sum);
        buf_append_char(w->out, '\n');
    }
    put_sample(w, v, "_sum", v->value);
    put_sample(w, v, "_count", (double)v->count);
}

static bool put_view(const struct metric_view *v, void *arg)
{
    struct writer *w = arg;

    if (v->first_of_family)
        put_family(w, v);
    if (v->kind == METRIC_HISTOGRAM)
        put_histogram(w, v);
    else
        put_sample(w, v, needs_total(w, v) ? "_total" : "", v->value);
    return buf_len(w->out) < w->pause_at && !w->out->failed;
}

struct metrics_text {
    struct metrics_walk *walk;
    enum metrics_format format;
};

struct metrics_text *metrics_text_new(struct metrics *m, enum metrics_format format)
{
    struct metrics_text *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->format = format;
    t->walk = metrics_walk_new(m);
    if (t->walk == NULL) {
        mem_free(t);
        return NULL;
    }
    metrics_collect(m);
    return t;
}

void metrics_text_free(struct metrics_text *t)
{
    if (t == NULL)
        return;
    metrics_walk_free(t->walk);
    mem_free(t);
}

bool metrics_text_more(struct metrics_text *t, struct buf *out)
{
    struct writer w = {out, t->format, buf_len(out) + METRICS_TEXT_PIECE};
    enum metrics_walked walked = metrics_walk_on(t->walk, put_view, &w);

    out->failed = out->failed || walked == METRICS_NO_MEMORY;
    if (walked == METRICS_PAUSED && !out->failed)
        return true;
    if (t->format != METRICS_PROMETHEUS)
        buf_append_str(out, "# EOF\n");
    return false;
}

bool metrics_text_write(struct buf *out, struct metrics *m, enum metrics_format format)
{
    struct metrics_text *t = metrics_text_new(m, format);

    out->failed = out->failed || t == NULL;
    while (t != NULL && metrics_text_more(t, out))
        ;
    metrics_text_free(t);
    return !out->failed;
}
