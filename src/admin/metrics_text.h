/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry as text: Prometheus 0.0.4, OpenMetrics 1.0.0 and 0.0.1, which differ in name only for what is written
 * (prometheus.io/docs/instrumenting/exposition_formats, .../content_negotiation).
 */
#ifndef MVPROXY_ADMIN_METRICS_TEXT_H
#define MVPROXY_ADMIN_METRICS_TEXT_H

#include "base/buf.h"
#include "base/metric.h"

enum metrics_format { METRICS_PROMETHEUS, METRICS_OPENMETRICS, METRICS_OPENMETRICS_0_0_1 };

/* By the Accept field: OpenMetrics if it is preferred to plain text, by q, then by order; 1.0.0 if no version is asked
 * for. An empty value: Prometheus. */
enum metrics_format metrics_text_negotiate(struct slice accept);
/* By the Accept-Encoding field: gzip is named, with a weight above 0. */
bool metrics_text_accepts_gzip(struct slice accept_encoding);
const char *metrics_text_content_type(enum metrics_format format);
/* Collects and appends everything. False when out of room. */
bool metrics_text_write(struct buf *out, struct metrics *m, enum metrics_format format);

/* The same in pieces of METRICS_TEXT_PIECE bytes, or what a series more takes: there can be megabytes of it. */
enum { METRICS_TEXT_PIECE = 16 << 10 };
struct metrics_text;
MEM_CHECK struct metrics_text *metrics_text_new(struct metrics *m, enum metrics_format format); /* NULL: no memory */
void metrics_text_free(struct metrics_text *t);                                                 /* NULL is fine */
/* False: that was the last, or `out` has failed. */
bool metrics_text_more(struct metrics_text *t, struct buf *out);

#endif
