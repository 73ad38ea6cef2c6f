/* SPDX-License-Identifier: Apache-2.0 */
#include "base/changes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/metric.h"

struct ring {
    struct change at[LIMIT_CHANGES];
    size_t n, next;
};

struct changes {
    struct ring sorts[2];              /* the disbelieved are the second */
    struct metric_family *disbelieved; /* NULL: nobody counts */
};

struct changes *changes_new(void)
{
    return must_zalloc(sizeof(struct changes));
}

void changes_free(struct changes *c)
{
    mem_free(c);
}

void changes_count(struct changes *c, struct metrics *m)
{
    static const char *const labels[] = {"about", NULL};

    c->disbelieved = metric_family(m, METRIC_COUNTER, "mvproxy_disbelieved_total",
                                   "What was not believed, by what or whom it was about.", labels, LIMIT_METRIC_SERIES);
}

static const struct change *at(const struct ring *r, size_t i)
{
    return i >= r->n ? NULL : &r->at[(r->next + LIMIT_CHANGES - 1 - i) % LIMIT_CHANGES];
}

const struct change *changes_at(const struct changes *c, bool disbelieved, size_t i)
{
    return c == NULL ? NULL : at(&c->sorts[disbelieved], i);
}

static bool is_same(const struct change *a, const struct change *b)
{
    return a != NULL && a->kind == b->kind && strcmp(a->subject, b->subject) == 0 && strcmp(a->text, b->text) == 0;
}

/* What is disbelieved may come again and again from several sides: each is listed once. */
static struct change *find_same(struct ring *r, const struct change *one)
{
    size_t look = one->kind == CHANGE_DISBELIEVED ? r->n : 1;

    for (size_t i = 0; i < look; i++)
        if (is_same(at(r, i), one))
            return &r->at[(r->next + LIMIT_CHANGES - 1 - i) % LIMIT_CHANGES];
    return NULL;
}

/* Within a character: its beginning goes as well. */
static void mark_cut(char *text, size_t room)
{
    static const char mark[] = "...";
    size_t end = room - sizeof(mark);

    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, mark, sizeof(mark));
}

void changes_add(struct changes *c, enum change_kind kind, const char *subject, const char *fmt, ...)
{
    struct change one = {.wall_us = clock_wall_us(), .kind = kind, .times = 1}, *same;
    struct ring *r;
    va_list ap;
    int n;

    if (c == NULL)
        return;
    r = &c->sorts[kind == CHANGE_DISBELIEVED];
    (void)snprintf(one.subject, sizeof(one.subject), "%s", subject);
    if (kind == CHANGE_DISBELIEVED && c->disbelieved != NULL)
        metric_inc(metric_child(c->disbelieved, (struct slice[]){slice_str(one.subject)}));
    va_start(ap, fmt);
    n = vsnprintf(one.text, sizeof(one.text), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(one.text))
        mark_cut(one.text, sizeof(one.text));
    same = find_same(r, &one);
    if (same != NULL) {
        same->times++;
        same->wall_us = one.wall_us;
        return;
    }
    r->at[r->next] = one;
    r->next = (r->next + 1) % LIMIT_CHANGES;
    if (r->n < LIMIT_CHANGES)
        r->n++;
}

const char *change_name(enum change_kind kind)
{
    static const char *const names[] = {
        [CHANGE_CAME] = "came",           [CHANGE_WENT] = "went",       [CHANGE_FAILED] = "failed",
        [CHANGE_RECOVERED] = "recovered", [CHANGE_CHANGED] = "changed", [CHANGE_DISBELIEVED] = "disbelieved",
    };

    return names[kind];
}
