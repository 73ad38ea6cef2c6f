/* SPDX-License-Identifier: Apache-2.0 */
#include "back/withhold.h"

#include "base/log.h"
#include "base/metric.h"
#include "http/hop.h"
#include "net/stream.h"

static bool fits(const struct back_claims *c, enum pool_kind kind, const struct stream *s)
{
    if (kind == POOL_CERT)
        return c->users == 1;
    return c->users == 0 && c->others == 0 && (kind == POOL_NO_CERT || stream_is_hop(s));
}

void withhold_read(struct back_request *r)
{
    struct back *b = r->back;

    if (b->check.claims != NULL)
        b->check.claims(r->opts.head, b->check.arg, &r->claims);
    r->stripped = hop_impersonations(r->opts.head) < r->opts.impersonations;
}

bool request_must_be_withheld(const struct back_request *r, enum pool_kind kind, const struct stream *s)
{
    static const char *const kinds[POOL_KINDS] = {
        [POOL_NO_CERT] = "none", [POOL_CERT] = "front-proxy", [POOL_HOP] = "front-proxy, to an mvproxy"};
    struct back *b = r->back;

    if (b->check.claims == NULL || (fits(&r->claims, kind, s) && !r->stripped))
        return false;
    metric_inc(metric_child(b->check.withheld, (struct slice[]){slice_str(r->origin->server)}));
    log_error("Request withheld: its identity does not fit the connection", LT("server", r->origin->server),
              LT("certificate", kinds[kind]), LU("users", r->claims.users), LU("otherFields", r->claims.others),
              LB("impersonationLost", r->stripped));
    return true;
}
