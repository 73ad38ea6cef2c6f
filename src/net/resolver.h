/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is asked for the addresses of names, as the files of the host say. They change while we run (DHCP, a network that
 * comes up after us, an operator), so they are looked at again before each question.
 */
#ifndef MVPROXY_NET_RESOLVER_H
#define MVPROXY_NET_RESOLVER_H

#include "base/mem.h"

struct event_base;
struct evdns_base;
struct resolver;

/* `conf` as resolv.conf(5), `hosts` as hosts(5); both must outlive it. NULL when out of memory. */
MEM_CHECK struct resolver *resolver_new(struct event_base *base, const char *conf, const char *hosts);
/* Questions under way end with a failure, in a later turn. */
void resolver_free(struct resolver *r);
/* To ask a question now. Questions under way go to the name servers that are there now. */
struct evdns_base *resolver_ask(struct resolver *r);

#endif
