/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status pages on their way, each made piece by piece: the next one when the client has taken the one before, so that
 * neither a large world nor a slow reader costs a long turn or much memory.
 */
#ifndef MVPROXY_ADMIN_PIECES_H
#define MVPROXY_ADMIN_PIECES_H

#include "base/slice.h"

struct evhttp_request;
struct gzipper;
struct loop;
struct pieces;
struct status_page;

struct pieces *pieces_new(struct loop *l);
/* Pages that are being sent are given up; their requests go with their connections. NULL: nothing. */
void pieces_free(struct pieces *p);
/* No more than eight are sent at once: of more, that whose client has taken nothing for longest ends. True: one did. */
bool pieces_make_room(struct pieces *p);
/*
 * Answers `req`, whose header fields are set: `first`, then what the page says. Takes the page, and `gzip`, through
 * which all of it goes; NULL: as it is. False when out of memory: nothing has been sent, and both are still the
 * caller's.
 */
bool pieces_send(struct pieces *p, struct evhttp_request *req, struct slice first, struct status_page *page,
                 struct gzipper *gzip);

#endif
