/* SPDX-License-Identifier: Apache-2.0 */
/* The troubles of etcd in a schedule (schedule.h). */
#ifndef MVPROXY_TESTS_UNIT_PROXY_SCHEDULE_ETCD_H
#define MVPROXY_TESTS_UNIT_PROXY_SCHEDULE_ETCD_H

#include "unit/proxy/schedule.h"

/* Milliseconds by which something is late: none, or some. */
uint64_t schedule_draw_delay(struct schedule *s);
/* Whether there is trouble now; to be noted for as long as there is. */
bool schedule_etcd_in_trouble(struct schedule *s);
void schedule_note_etcd(struct schedule *s, bool trouble);
/* One more trouble, or one less. `node` may be cut from it. */
void schedule_trouble_etcd(struct schedule *s, unsigned node);
void schedule_heal_etcd(struct schedule *s);

#endif
