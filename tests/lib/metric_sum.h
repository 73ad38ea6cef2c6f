/* SPDX-License-Identifier: Apache-2.0 */
/* What a metric says. For tests that link libbase. */
#ifndef MVPROXY_TESTS_LIB_METRIC_SUM_H
#define MVPROXY_TESTS_LIB_METRIC_SUM_H

struct metrics;

/* Of all its series that have this value of some label; NULL: of all. 0 if there is none. */
double metric_sum(struct metrics *m, const char *name, const char *label_value);

#endif
