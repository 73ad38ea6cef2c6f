/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be asked about a stream: who is on the other side, and how it went.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/sockopt.h"
#include "net/stream_tls.h"
#include "net/tls_peer.h"

void stream_describe(struct stream *s, const struct sockaddr *addr)
{
    char ip[INET6_ADDRSTRLEN];

    sockopt_ip(addr, ip);
    if (addr->sa_family == AF_INET || addr->sa_family == AF_INET6)
        snprintf(s->remote, sizeof(s->remote), strchr(ip, ':') == NULL ? "%s:%u" : "[%s]:%u", ip,
                 ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port)); /* at one place in both */
    else
        snprintf(s->remote, sizeof(s->remote), "unix");
    snprintf(s->remote_ip, sizeof(s->remote_ip), "%s", ip);
}

const char *stream_remote_text(const struct stream *s)
{
    return s->remote;
}

const char *stream_remote_ip(const struct stream *s)
{
    return s->remote_ip;
}

bool stream_lacks_memory(const struct stream *s)
{
    return s->lacks_memory;
}

bool stream_was_left(const struct stream *s)
{
    return s->left;
}

const char *stream_failure(const struct stream *s)
{
    return s->failure != NULL ? s->failure : s->state == STREAM_BROKEN ? "out of memory" : "";
}

const char *stream_alpn(const struct stream *s)
{
    return s->tls == NULL ? "" : tls_conn_alpn(s->tls);
}

bool stream_is_hop(const struct stream *s)
{
    return s->tls != NULL && tls_conn_is_hop(s->tls);
}

bool stream_is_tls(const struct stream *s)
{
    return s->tls != NULL;
}

bool stream_tls_resumed(const struct stream *s)
{
    return s->tls != NULL && tls_conn_resumed(s->tls);
}

bool stream_is_quiet(const struct stream *s)
{
    char byte;

    /* An end may have been read, but not told yet: of a close_notify the kernel knows nothing. */
    if (s->state != STREAM_OPEN || s->in_eof || s->send_broken)
        return false;
    return stream_input_len(s) == 0 && recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

uint64_t stream_wire_bytes(const struct stream *s)
{
    return s->wire_out;
}

bool stream_unread(const struct stream *s, uint64_t mark)
{
    uint64_t sent = s->wire_out - mark;
    int unacknowledged;

    if (sent == 0)
        return true;
    /* A Unix socket acknowledges nothing, and what a relay acknowledged it may not have passed on. */
    return s->peer_ended && s->remote_ip[0] != '\0' && !s->tunnelled && s->carrier_fn == NULL &&
           ioctl(s->fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0 && (uint64_t)unacknowledged >= sent;
}

size_t stream_unacknowledged(const struct stream *s)
{
    int queued = 0;

    if (ioctl(s->fd, SIOCOUTQ, &queued) != 0 || queued < 0)
        queued = 0;
    return stream_unsent(s) + (size_t)queued;
}

bool stream_is_open(const struct stream *s)
{
    return s->state == STREAM_OPEN;
}

const struct tls_peer *stream_tls_peer(const struct stream *s)
{
    static const struct tls_peer nobody;

    return s->tls == NULL ? &nobody : tls_conn_peer(s->tls);
}

void stream_judge_again(struct stream *s, const struct tls_ctx *c)
{
    if (s->tls != NULL)
        tls_conn_judge_again(s->tls, c);
}

uint64_t stream_bytes_in(const struct stream *s)
{
    return s->bytes_in;
}

uint64_t stream_bytes_out(const struct stream *s)
{
    return s->bytes_out;
}
