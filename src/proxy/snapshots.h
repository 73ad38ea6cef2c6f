/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request holds the snapshot by which it was decided until its answer begins, and a document of ours until it is
 * sent. While the API servers' discovery changes again and again, those that clients, or servers, take their time with
 * hold one snapshot each. What the replaced ones take together is bounded here. Beyond it those who hold the oldest and
 * wait for a server's answer go on with the current one; the others are ended.
 */
#ifndef MVPROXY_PROXY_SNAPSHOTS_H
#define MVPROXY_PROXY_SNAPSHOTS_H

struct proxy;

/* A request is decided on: if there is another snapshot than for the last one, looks at the old ones at the end of the
 * turn. Nobody can hold more without requests. */
void snapshots_look(struct proxy *p);

#endif
