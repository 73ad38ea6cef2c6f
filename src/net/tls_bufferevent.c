/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_bufferevent.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>

#include "net/tls_internal.h"

struct bufferevent *tls_bufferevent_new(struct tls_ctx *c, struct event_base *base)
{
    SSL *ssl = tls_ctx_new_ssl(c, NULL);
    struct bufferevent *bev;

    if (ssl == NULL)
        return NULL;
    bev = bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (bev == NULL)
        SSL_free(ssl);
    else
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1); /* requests and answers have their own lengths */
    return bev;
}

bool tls_bufferevent_peer(const struct tls_ctx *c, struct bufferevent *bev,
                          void (*fn)(const struct tls_peer *peer, void *arg), void *arg)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    struct tls_identity *id = NULL;

    if (ssl == NULL || !tls_identity_new(c, ssl, &id))
        return false;
    fn(tls_identity_peer(id), arg);
    tls_identity_free(id);
    return true;
}
