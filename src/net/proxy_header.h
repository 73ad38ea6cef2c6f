/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header by which a load balancer of connections says for whom it connects: the PROXY protocol, versions 1 (text)
 * and 2 (binary), as HAProxy's proxy-protocol.txt has it. Pure; read strictly.
 */
#ifndef MVPROXY_NET_PROXY_HEADER_H
#define MVPROXY_NET_PROXY_HEADER_H

#include <sys/socket.h>

#include "base/slice.h"

/* Of version 2, whose further fields (TLVs) are skipped; version 1 has 107 at most. */
enum { PROXY_HEADER_MAX = 4096 };

enum proxy_header_verdict {
    PROXY_HEADER_MORE, /* the beginning of one; all of `in` belongs to it */
    PROXY_HEADER_OK,
    PROXY_HEADER_BAD,
};

struct proxy_header {
    size_t bytes; /* how long it is; what follows is the connection's */
    /* The client; ss_family AF_UNSPEC: the balancer speaks for itself (v1 UNKNOWN, v2 LOCAL or UNSPEC). */
    struct sockaddr_storage client;
};

enum proxy_header_verdict proxy_header_parse(struct slice in, struct proxy_header *out);

#endif
