/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a snapshot that was replaced takes, for as long as somebody holds it.
 */
#ifndef MVPROXY_CLUSTER_SERVED_SIZE_H
#define MVPROXY_CLUSTER_SERVED_SIZE_H

#include "cluster/served.h"

/* About the bytes that go with `old`, if nobody holds it any more and somebody holds `newer`: they share most. */
size_t served_bytes_besides(const struct served *old, const struct served *newer);

#endif
