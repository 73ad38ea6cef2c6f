/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process_* metrics that every Prometheus client library has, and mvproxy_build_info.
 */
#ifndef MVPROXY_ADMIN_PROCESS_METRICS_H
#define MVPROXY_ADMIN_PROCESS_METRICS_H

#include "base/metric.h"

struct process_metrics;

/*
 * Declares them and has them refreshed before every exposition. `version` is mvproxy's own. Once per registry, and to
 * be freed after the registry. Ends the process when out of memory (start-up only).
 */
struct process_metrics *process_metrics_new(struct metrics *m, const char *version);
/* Only when the process was started. */
void process_metrics_start_time(struct metrics *m);
void process_metrics_free(struct process_metrics *p);

#endif
