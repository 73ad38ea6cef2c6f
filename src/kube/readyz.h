/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what kube-apiserver's /readyz says when it is not good: a line for each check, those that fail begin with
 * `[-]NAME failed` (k8s.io/apiserver, pkg/server/healthz/healthz.go).
 */
#ifndef MVPROXY_KUBE_READYZ_H
#define MVPROXY_KUBE_READYZ_H

#include "base/slice.h"

/* The name of the first check that fails, within the body; empty: it names none. */
struct slice readyz_failed(struct slice body);
bool readyz_etcd_fails(struct slice body);
/*
 * Whether the server has not read yet what it judges clients by, or RBAC's own roles are not written: it may deny what
 * it will allow a moment later. Other checks may fail for ever.
 */
bool readyz_is_loading(struct slice body);

#endif
