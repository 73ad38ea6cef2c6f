/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request holds the snapshot by which it was decided until its answer begins, and a document of ours until it is
 * sent. While the API servers' discovery changes again and again, those that clients, or servers, take their time with
 * hold one snapshot each: megabytes that no client's budget counts. What the replaced ones take together is bounded
 * here: beyond it the requests that hold the oldest are ended.
 */
#ifndef MVPROXY_PROXY_SNAPSHOTS_H
#define MVPROXY_PROXY_SNAPSHOTS_H

struct proxy;

/* A request has come: if there is another snapshot than for the last one, looks at the old ones at the end of the turn.
 * Nobody can hold more without requests. */
void snapshots_look(struct proxy *p);

#endif
