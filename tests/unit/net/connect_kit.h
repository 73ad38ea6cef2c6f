/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CONNECT proxy inside the test's own loop that does as it is told: answers anything, in pieces of any size, then
 * carries, closes, resets or says nothing.
 */
#ifndef MVPROXY_TESTS_UNIT_NET_CONNECT_KIT_H
#define MVPROXY_TESTS_UNIT_NET_CONNECT_KIT_H

#include "unit/net/fixture.h"

enum proxy_then { PROXY_CARRIES, PROXY_CLOSES, PROXY_RESETS, PROXY_STAYS };

struct connect_kit {
    struct loop *l;
    struct listener *listener;
    struct loop_timer *tick;
    struct tls_ctx *tls; /* NULL: plain */
    struct slice answer;
    size_t piece; /* of the answer at once; 0: all */
    enum proxy_then then;
    unsigned target_port; /* where it carries to, whatever was asked for */

    unsigned accepted;
    struct stream *client, *server;
    struct buf request;
    size_t answered;
    bool carrying, client_ended, server_ended;
    char client_cn[64]; /* of the verified certificate that was shown */
};

/* `path` NULL: on loopback. Answers 200 and carries until told otherwise. */
void connect_kit_open(struct connect_kit *p, struct loop *l, const char *path, struct tls_ctx *tls);
/* Forgets the connection, if there is one. */
void connect_kit_reset(struct connect_kit *p);
void connect_kit_close(struct connect_kit *p);

#endif
