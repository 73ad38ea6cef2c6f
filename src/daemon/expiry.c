/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/expiry.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "daemon/trust.h"
#include "net/tls_ctx.h"

enum { DAY_S = 86400, SOON_S = 30 * DAY_S, VERY_SOON_S = 7 * DAY_S };

enum stage { STAGE_FINE, STAGE_SOON, STAGE_VERY_SOON, STAGE_OVER };

struct certificate {
    struct list_node node;
    char *option, *path;
    struct tls_validity valid;
    enum stage said;
    int64_t said_at; /* seconds since 1970 */
};

struct expiry {
    struct list certificates;
    struct metric_family *not_after, *lifetime;
};

struct expiry *expiry_new(struct metrics *m)
{
    static const char *const labels[] = {"option", "file", NULL};
    struct expiry *e = must_zalloc(sizeof(*e));

    list_init(&e->certificates);
    e->not_after = metric_family(m, METRIC_GAUGE, "mvproxy_certificate_not_after_seconds",
                                 "When the certificate in a file expires, in seconds since 1970: the first of a chain, "
                                 "the last of a bundle of CAs.",
                                 labels, LIMIT_METRIC_SERIES);
    e->lifetime = metric_family(m, METRIC_GAUGE, "mvproxy_certificate_lifetime_seconds",
                                "For how long the certificate of mvproxy_certificate_not_after_seconds is valid in "
                                "all, from its beginning to its end.",
                                labels, LIMIT_METRIC_SERIES);
    return e;
}

static void forget(struct list *l)
{
    struct list_node *node;

    while ((node = list_pop_front(l)) != NULL) {
        struct certificate *c = list_entry(node, struct certificate, node);

        mem_free(c->option);
        mem_free(c->path);
        mem_free(c);
    }
}

void expiry_free(struct expiry *e)
{
    if (e == NULL)
        return;
    forget(&e->certificates);
    mem_free(e);
}

/* ---- reading ---- */

struct reading {
    struct list old; /* what has been said of them */
    struct expiry *expiry;
};

static struct certificate *find(const struct list *l, const struct certificate *like)
{
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct certificate *c = list_entry(n, struct certificate, node);

        if (strcmp(c->option, like->option) == 0 && strcmp(c->path, like->path) == 0 &&
            c->valid.not_after == like->valid.not_after)
            return c;
    }
    return NULL;
}

static void export(struct expiry *e, const struct certificate *c)
{
    struct slice labels[] = {slice_str(c->option), slice_str(c->path)};

    metric_set(metric_child(e->not_after, labels), (double)c->valid.not_after);
    metric_set(metric_child(e->lifetime, labels), (double)(c->valid.not_after - c->valid.not_before));
}

static void add(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    struct reading *r = arg;
    struct tls_validity valid;
    struct certificate *c;
    const struct certificate *old;

    if (kind == TRUST_KEY || !tls_file_validity(path, kind == TRUST_BUNDLE, &valid))
        return;
    c = must_zalloc(sizeof(*c));
    c->option = must_strdup(option);
    c->path = must_strdup(path);
    c->valid = valid;
    old = find(&r->old, c);
    if (old != NULL) {
        c->said = old->said;
        c->said_at = old->said_at;
    }
    list_push_back(&r->expiry->certificates, &c->node);
    export(r->expiry, c);
}

static void move_all(struct list *from, struct list *to)
{
    struct list_node *node;

    list_init(to);
    while ((node = list_pop_front(from)) != NULL)
        list_push_back(to, node);
}

void expiry_read(struct expiry *e, const struct config *c)
{
    struct reading r = {.expiry = e};

    move_all(&e->certificates, &r.old);
    metric_family_clear(e->not_after);
    metric_family_clear(e->lifetime);
    trust_each_file(c, add, &r);
    forget(&r.old);
    expiry_check(e);
}

struct comparing {
    const struct expiry *expiry;
    struct buf *errors;
    int64_t now;
    bool worse;
};

static bool is_valid(const struct tls_validity *v, int64_t now)
{
    return v->not_before <= now && now < v->not_after;
}

static void compare(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    struct comparing *to = arg;
    const struct list *all = &to->expiry->certificates;
    char when[CLOCK_RFC3339_BYTES];
    struct tls_validity fresh;
    bool bundle = kind == TRUST_BUNDLE, over;

    if (kind == TRUST_KEY || !tls_file_validity(path, bundle, &fresh) || is_valid(&fresh, to->now))
        return;
    over = fresh.not_after <= to->now;
    if (bundle && !over)
        return; /* the last to end is not valid yet, of the others nothing is known */
    clock_rfc3339((over ? fresh.not_after : fresh.not_before) * 1000000, when);
    for (struct list_node *n = list_first(all); n != NULL; n = list_next(all, n)) {
        const struct certificate *c = list_entry(n, struct certificate, node);

        if (strcmp(c->option, option) != 0 || strcmp(c->path, path) != 0 || !is_valid(&c->valid, to->now))
            continue;
        to->worse = true;
        buf_printf(to->errors, "%s: %s %s, and the one before it is valid: renew it\n", path,
                   over ? "expired at" : "is not valid before", when);
    }
}

bool expiry_would_end(const struct expiry *e, const struct config *c, struct buf *errors)
{
    struct comparing to = {.expiry = e, .errors = errors, .now = clock_wall_us() / 1000000};

    trust_each_file(c, compare, &to);
    return to.worse;
}

/* ---- saying ---- */

/* The last quarter: what lives for an hour is renewed by somebody, and thirty days are nothing to go by. */
static enum stage stage_of(const struct tls_validity *v, int64_t now)
{
    int64_t left = v->not_after - now, quarter = (v->not_after - v->not_before) / 4;

    if (left <= 0)
        return STAGE_OVER;
    if (left >= quarter || left >= SOON_S)
        return STAGE_FINE;
    return left < VERY_SOON_S ? STAGE_VERY_SOON : STAGE_SOON;
}

static void say(const struct certificate *c, enum stage stage, int64_t now)
{
    char when[CLOCK_RFC3339_BYTES];

    clock_rfc3339(c->valid.not_after * 1000000, when);
    if (stage == STAGE_OVER)
        log_error("Certificate has expired", LT("option", c->option), LT("file", c->path), LT("notAfter", when));
    else
        log_warning("Certificate will expire", LT("option", c->option), LT("file", c->path), LT("notAfter", when),
                    LI("hoursLeft", (c->valid.not_after - now) / 3600));
}

void expiry_check(struct expiry *e)
{
    int64_t now = clock_wall_us() / 1000000;

    for (struct list_node *n = list_first(&e->certificates); n != NULL; n = list_next(&e->certificates, n)) {
        struct certificate *c = list_entry(n, struct certificate, node);
        enum stage stage = stage_of(&c->valid, now);
        bool again = stage >= STAGE_VERY_SOON && now - c->said_at >= DAY_S;

        if (stage != STAGE_FINE && (stage != c->said || again)) {
            say(c, stage, now);
            c->said_at = now;
        }
        c->said = stage;
    }
}

static struct expiry_entry entry_of(const struct certificate *c)
{
    return (struct expiry_entry){
        .option = c->option,
        .path = c->path,
        .not_after = c->valid.not_after,
        .soon = stage_of(&c->valid, clock_wall_us() / 1000000) != STAGE_FINE,
    };
}

bool expiry_is_over(const struct expiry *e, const char *option, struct expiry_entry *out)
{
    for (struct list_node *n = list_first(&e->certificates); n != NULL; n = list_next(&e->certificates, n)) {
        const struct certificate *c = list_entry(n, struct certificate, node);

        if (strcmp(c->option, option) == 0 && stage_of(&c->valid, clock_wall_us() / 1000000) == STAGE_OVER) {
            *out = entry_of(c);
            return true;
        }
    }
    return false;
}

void expiry_each(const struct expiry *e, void (*fn)(const struct expiry_entry *entry, void *arg), void *arg)
{
    for (struct list_node *n = list_first(&e->certificates); n != NULL; n = list_next(&e->certificates, n)) {
        struct expiry_entry entry = entry_of(list_entry(n, struct certificate, node));

        fn(&entry, arg);
    }
}
