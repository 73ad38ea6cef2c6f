/* SPDX-License-Identifier: Apache-2.0 */
/* What happened lately: bounded, the latest first, and what is repeated is counted. */
#include "base/changes.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/metric.h"
#include "lib/tap.h"

static void test_ring(void)
{
    struct changes *c = changes_new();
    char name[16];

    ok(changes_at(c, false, 0) == NULL && changes_at(c, true, 0) == NULL, "nothing happened");
    clock_fake(1, 5000000);
    changes_add(c, CHANGE_CAME, "cp-a", "is known by its %s", "Lease");
    clock_fake(1, 6000000);
    changes_add(c, CHANGE_FAILED, "cp-b", "does not answer");
    is_str(changes_at(c, false, 0)->subject, "cp-b", "the latest first");
    is_str(changes_at(c, false, 1)->text, "is known by its Lease", "then what was before");
    ok(changes_at(c, false, 1)->wall_us == 5000000 && changes_at(c, false, 1)->kind == CHANGE_CAME,
       "and when, and what");
    clock_fake(1, 7000000);
    changes_add(c, CHANGE_FAILED, "cp-b", "does not answer");
    ok(changes_at(c, false, 0)->times == 2 && changes_at(c, false, 0)->wall_us == 7000000, "the same again is counted");
    ok(changes_at(c, false, 2) == NULL, "and takes no room");
    for (int i = 0; i < 3 * LIMIT_CHANGES; i++) {
        (void)snprintf(name, sizeof(name), "cp-%d", i);
        changes_add(c, CHANGE_CHANGED, name, "address");
    }
    ok(changes_at(c, false, LIMIT_CHANGES - 1) != NULL && changes_at(c, false, LIMIT_CHANGES) == NULL, "bounded");
    is_str(changes_at(c, false, 0)->subject, "cp-299", "the latest are kept");
    is_str(changes_at(c, false, LIMIT_CHANGES - 1)->subject, "cp-200", "the oldest are forgotten");
    changes_free(c);
    clock_real();
}

static void test_disbelieved(void)
{
    struct changes *c = changes_new();
    char text[2 * CHANGE_TEXT_BYTES];

    changes_add(c, CHANGE_DISBELIEVED, "Lease", "a");
    changes_add(c, CHANGE_DISBELIEVED, "Lease", "b");
    changes_add(c, CHANGE_DISBELIEVED, "Lease", "a");
    for (int i = 0; i < 2 * LIMIT_CHANGES; i++)
        changes_add(c, i % 2 == 0 ? CHANGE_FAILED : CHANGE_RECOVERED, "cp-a", "again");
    is_str(changes_at(c, true, 0)->text, "b", "kept apart from the others");
    is_u64(changes_at(c, false, 1)->times, 1, "what takes turns is listed each time");
    ok(changes_at(c, true, 1)->times == 2 && changes_at(c, true, 2) == NULL, "each once, however they take turns");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    changes_add(c, CHANGE_CAME, text, "%s", text);
    is_u64(strlen(changes_at(c, false, 0)->subject), CHANGE_SUBJECT_BYTES - 1, "what is too long is cut off");
    is_u64(strlen(changes_at(c, false, 0)->text), CHANGE_TEXT_BYTES - 1, "here, too");
    is_str(changes_at(c, false, 0)->text + CHANGE_TEXT_BYTES - 6, "xx...", "and it is to be seen");
    memcpy(text + CHANGE_TEXT_BYTES - 5, "\xc3\xa4", 2);
    changes_add(c, CHANGE_CAME, "cp-a", "%s", text);
    is_str(changes_at(c, false, 0)->text + CHANGE_TEXT_BYTES - 7, "xx...", "between two characters");
    changes_add(NULL, CHANGE_CAME, "cp-a", "nobody listens");
    is_str(change_name(CHANGE_DISBELIEVED), "disbelieved", "names");
    changes_free(c);
}

/* Each time, also of what is listed once. */
static void test_counted(void)
{
    static const char *const labels[] = {"about", NULL};
    struct changes *c = changes_new();
    struct metrics *m = metrics_new();
    struct metric_family *f;

    changes_count(c, m);
    f = metric_family(m, METRIC_COUNTER, "mvproxy_disbelieved_total", "", labels, LIMIT_METRIC_SERIES);
    for (int i = 0; i < 3; i++)
        changes_add(c, CHANGE_DISBELIEVED, "Lease", "a");
    changes_add(c, CHANGE_DISBELIEVED, "cp-b", "b");
    changes_add(c, CHANGE_FAILED, "cp-c", "c");
    is_double(metric_value(metric_child(f, (struct slice[]){SLICE_LIT("Lease")})), 3, "counted by what it is about");
    is_double(metric_value(metric_child(f, (struct slice[]){SLICE_LIT("cp-b")})), 1, "or by whom");
    is_double(metric_value(metric_child(f, (struct slice[]){SLICE_LIT("cp-c")})), 0, "what is believed is not");
    changes_free(c);
    metrics_free(m);
}

int main(void)
{
    test_ring();
    test_disbelieved();
    test_counted();
    return tap_end();
}
