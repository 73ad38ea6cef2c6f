/* SPDX-License-Identifier: Apache-2.0 */
/* The face to operators: cluster_describe() of cluster.h. */
#include "back/back.h"
#include "base/buf.h"
#include "cluster/cluster_internal.h"
#include "cluster/exclusions.h"
#include "cluster/informer.h"
#include "cluster/leases.h"
#include "cluster/peers.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/refresh.h"

void cluster_describe(struct cluster *c, struct buf *out)
{
    buf_append_str(out, "{\"etcd\":");
    records_describe(c->records, out);
    if (c->leases != NULL) {
        buf_printf(out, ",\"ownLeaseSeen\":%s,\"leases\":", leases_own_seen(c->leases) ? "true" : "false");
        leases_describe(c->leases, out);
    }
    if (c->exclusions != NULL) {
        buf_append_str(out, ",\"exclusions\":");
        exclusions_describe(c->exclusions, out);
    }
    buf_append_char(out, '}');
}

void cluster_etcd_state(struct cluster *c, char *text, size_t n)
{
    records_state(c->records, text, n);
}
