/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last line before a head goes out: whom it names must fit the connection it goes over (back.h). Who placed the
 * request has seen to that; here it is checked against the connection itself, whatever led to it. Nor does a request
 * go out without the Impersonate-* that its client sent: it would be the impersonator's own.
 */
#ifndef MVPROXY_BACK_WITHHOLD_H
#define MVPROXY_BACK_WITHHOLD_H

#include "back/request.h"

/*
 * Reads whom it names, when it is started: a reload may add names while it waits for its connection, which nobody could
 * have removed from it.
 */
void withhold_read(struct back_request *r);
/* True: it must not be sent on this connection of the pool's kind. Counted, and logged as the defect that it is. */
bool request_must_be_withheld(const struct back_request *r, enum pool_kind kind, const struct stream *s);

#endif
