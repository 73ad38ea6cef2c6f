/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is different in a server's discovery, for the log: group/versions that came and went, and whose resources did.
 */
#ifndef MVPROXY_CLUSTER_DISCO_NEWS_H
#define MVPROXY_CLUSTER_DISCO_NEWS_H

#include "kube/disco.h"

enum { DISCO_NEWS_BYTES = 512 };

/* Each text: names separated by spaces, "..." at the end where there was no room for all. */
struct disco_news {
    char came[DISCO_NEWS_BYTES];    /* group/versions */
    char gone[DISCO_NEWS_BYTES];    /* group/versions */
    char changed[DISCO_NEWS_BYTES]; /* group/versions that have other bytes than before */
};

/* `before` NULL: nothing was known, and nothing is news. */
void disco_news(const struct disco *before, const struct disco *now, struct disco_news *out);

#endif
