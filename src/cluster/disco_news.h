/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two discovery documents of a server, for the log: which group/versions were added, removed or changed.
 */
#ifndef MVPROXY_CLUSTER_DISCO_NEWS_H
#define MVPROXY_CLUSTER_DISCO_NEWS_H

#include "kube/disco.h"

enum { DISCO_NEWS_BYTES = 512 };

/* Each text: names separated by spaces, "..." at the end where there was no room for all. */
struct disco_news {
    char came[DISCO_NEWS_BYTES];    /* group/versions */
    char gone[DISCO_NEWS_BYTES];    /* group/versions */
    char changed[DISCO_NEWS_BYTES]; /* group/versions in both documents, but with other content */
};

/* `before` NULL: nothing was known, and all texts stay empty. */
void disco_news(const struct disco *before, const struct disco *now, struct disco_news *out);

#endif
