/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it stands with one server, in the words that every view of it has.
 */
#ifndef MVPROXY_ADMIN_SERVER_STATE_H
#define MVPROXY_ADMIN_SERVER_STATE_H

#include "cluster/cluster_view.h"

enum { SERVER_STATE_BYTES = 128 };

enum server_mood { SERVER_GOOD, SERVER_WARNING, SERVER_BAD };

/* Its state, and all that is the matter with it: "live", "live, does not answer, drained", "lapsed, ejected", ... */
enum server_mood server_state(const struct cluster_server *s, char words[SERVER_STATE_BYTES]);
/* It is there, and its discovery was never read: it may serve anything. */
bool server_is_unread(const struct cluster_server *s);

#endif
