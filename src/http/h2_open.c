/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_open.h"

#include "base/limits.h"
#include "base/mem.h"

/*
 * What a block of header fields that we send may count: nghttp2 refuses longer ones, and its own limit is 64 KiB. A
 * head that HTTP/1.1 would carry has at most LIMIT_HEAD_BYTES; ours come on top, and 12 bytes for each field.
 */
enum { SEND_HEAD_BYTES = LIMIT_HEAD_BYTES + (64 << 10) };

enum {
    /*
     * A head is more than one side takes long before it has so many frames; but who sends it (a server behind
     * kube-apiserver may send 10 MiB) must end his own stream with it, and not the connection that others share.
     */
    CONTINUATIONS = 1024,
    SMALL_CONTINUATION = 1024,
    /* Of nghttp2's own count of resets, which knows no clients behind a connection: ours are below (front/clients.h).
     */
    RESETS = 1 << 20,
};

bool h2_frame_is_cheap(const nghttp2_frame_hd *hd)
{
    switch (hd->type) {
    case NGHTTP2_DATA:
        return hd->length == 0 && (hd->flags & NGHTTP2_FLAG_END_STREAM) == 0;
    case NGHTTP2_CONTINUATION:
        return hd->length < SMALL_CONTINUATION && (hd->flags & NGHTTP2_FLAG_END_HEADERS) == 0;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
        return (hd->flags & NGHTTP2_FLAG_ACK) == 0;
    case NGHTTP2_HEADERS:
        return false;
    default:
        return true;
    }
}

/* What nghttp2 allocates; `arg` is the quota. */
static void *charged(void *p, struct quota *b)
{
    if (p == NULL || quota_take(b, mem_size(p)))
        return p;
    mem_free(p);
    return NULL;
}

static void *session_alloc(size_t size, void *arg)
{
    return charged(mem_alloc(size), arg);
}

static void session_free(void *p, void *arg)
{
    quota_give(arg, mem_size(p));
    mem_free(p);
}

static void *session_calloc(size_t count, size_t size, void *arg)
{
    return charged(mem_array(count, size), arg);
}

static void *session_realloc(void *p, size_t size, void *arg)
{
    size_t before = mem_size(p);
    void *moved = quota_has_room(arg, size) ? mem_realloc(p, size) : NULL;

    if (moved == NULL)
        return NULL;
    quota_add(arg, mem_size(moved));
    quota_give(arg, before);
    return moved;
}

static nghttp2_session *session_new(const struct h2_opening *o, const nghttp2_session_callbacks *callbacks,
                                    const nghttp2_option *option)
{
    nghttp2_mem mem = {o->quota, session_alloc, session_free, session_calloc, session_realloc};
    nghttp2_session *session = NULL;
    int failed = o->server ? nghttp2_session_server_new3(&session, callbacks, o->arg, option, &mem)
                           : nghttp2_session_client_new3(&session, callbacks, o->arg, option, &mem);

    if (failed != 0)
        return NULL;
    if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, o->settings, o->n_settings) != 0 ||
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, o->window) != 0) {
        nghttp2_session_del(session);
        return NULL;
    }
    return session;
}

nghttp2_session *h2_session_open(const struct h2_opening *o)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0) {
        o->set_callbacks(callbacks);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_max_outbound_ack(option, LIMIT_H2_UNSENT_ACKS);
        nghttp2_option_set_max_send_header_block_length(option, SEND_HEAD_BYTES);
#ifdef MVPROXY_NGHTTP2_MAX_CONTINUATIONS
        nghttp2_option_set_max_continuations(option, CONTINUATIONS);
#endif
#ifdef MVPROXY_NGHTTP2_STREAM_RESET_RATE_LIMIT
        nghttp2_option_set_stream_reset_rate_limit(option, RESETS, RESETS);
#endif
        session = session_new(o, callbacks, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}
