/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/pieces.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <strings.h>
#include <sys/socket.h>

#include "admin/status_page.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "http/gzip.h"
#include "net/loop.h"

enum { MAX_AT_ONCE = 8, MAX_PIECE = 16 << 20 };

struct pieces {
    struct loop *loop;
    struct list jobs;  /* of struct page_job; who has taken nothing for longest first */
    struct list ended; /* of struct page_job; libevent will see the end of their connections */
};

struct page_job {
    struct list_node node;
    struct list *list; /* that it is in */
    struct pieces *pieces;
    struct evhttp_request *req;
    struct evhttp_connection *connection;
    struct status_page *page;  /* NULL: what is being sent is the last */
    struct gzipper *gzip;      /* NULL: as it is */
    struct loop_deferred next; /* once a piece has been sent */
};

struct pieces *pieces_new(struct loop *l)
{
    struct pieces *p = must_zalloc(sizeof(*p));

    p->loop = l;
    list_init(&p->jobs);
    list_init(&p->ended);
    return p;
}

static void enlist(struct page_job *j, struct list *list)
{
    j->list = list;
    list_push_back(list, &j->node);
}

bool pieces_make_room(struct pieces *p)
{
    struct page_job *j;

    if (p->jobs.count < MAX_AT_ONCE)
        return false;
    j = list_entry(list_first(&p->jobs), struct page_job, node);
    list_remove(&p->jobs, &j->node);
    enlist(j, &p->ended);
    (void)shutdown(bufferevent_getfd(evhttp_connection_get_bufferevent(j->connection)), SHUT_RDWR);
    return true;
}

static void page_free(struct page_job *j)
{
    evhttp_connection_set_closecb(j->connection, NULL, NULL);
    loop_defer_cancel(j->pieces->loop, &j->next);
    list_remove(j->list, &j->node);
    status_page_free(j->page);
    gzipper_free(j->gzip);
    mem_free(j);
}

static void page_over(struct page_job *j)
{
    struct evhttp_request *req = j->req;

    page_free(j);
    evhttp_send_reply_end(req);
}

/* The connection broke: the request is nobody's now, and its end frees it. */
static void on_page_gone(struct evhttp_connection *connection, void *arg)
{
    (void)connection;
    page_over(arg);
}

static void on_piece_sent(struct evhttp_connection *connection, void *arg);

static void send_bytes(struct page_job *j, struct slice text)
{
    struct evbuffer *out = evbuffer_new();

    if (out == NULL || evbuffer_add(out, text.p, text.n) != 0)
        page_over(j); /* cut off: out of memory */
    else
        evhttp_send_reply_chunk_with_cb(j->req, out, on_piece_sent, j);
    if (out != NULL)
        evbuffer_free(out);
}

static void next_piece(void *arg);

/* What goes out of it may be nothing yet, for what is only gathered has no text, and gzip keeps some KiB back. */
static void send_piece(struct page_job *j, struct slice text, bool last)
{
    struct buf packed;
    bool ok = true;

    buf_init(&packed, MAX_PIECE);
    if (j->gzip != NULL) {
        ok = gzipper_feed(j->gzip, text, last, &packed) == GZIP_OK;
        text = buf_slice(&packed);
    }
    if (ok && text.n > 0)
        send_bytes(j, text);
    else if (!ok || last)
        page_over(j); /* cut off, if it is not ok: out of memory */
    else
        loop_defer(j->pieces->loop, &j->next, next_piece, j);
    buf_free(&packed);
}

static void next_piece(void *arg)
{
    struct page_job *j = arg;
    struct buf piece;
    bool more = true;

    buf_init(&piece, MAX_PIECE);
    if (j->page != NULL)
        more = status_page_more(j->page, &piece);
    if (!more) {
        status_page_free(j->page);
        j->page = NULL;
    }
    if (piece.failed)
        page_over(j);
    else
        send_piece(j, buf_slice(&piece), !more);
    buf_free(&piece);
}

static void on_piece_sent(struct evhttp_connection *connection, void *arg)
{
    struct page_job *j = arg;

    (void)connection;
    list_remove(j->list, &j->node);
    enlist(j, j->list);
    if (j->page == NULL)
        page_over(j);
    else
        loop_defer(j->pieces->loop, &j->next, next_piece, j);
}

bool pieces_send(struct pieces *p, struct evhttp_request *req, struct slice first, struct status_page *page,
                 struct gzipper *gzip)
{
    struct page_job *j = mem_zalloc(sizeof(*j));
    struct evkeyvalq *fields = evhttp_request_get_input_headers(req);
    const char *kept;

    if (j == NULL)
        return false;
    /* To HTTP/1.0 a page without a length ends with its connection; where that is to be kept libevent names a length
       of 0. To HTTP/1.1 the field says nothing. */
    while ((kept = evhttp_find_header(fields, "Connection")) != NULL && strncasecmp(kept, "keep-alive", 10) == 0)
        (void)evhttp_remove_header(fields, "Connection");
    j->pieces = p;
    j->req = req;
    j->connection = evhttp_request_get_connection(req);
    j->page = page;
    j->gzip = gzip;
    enlist(j, &p->jobs);
    evhttp_connection_set_closecb(j->connection, on_page_gone, j);
    evhttp_send_reply_start(req, HTTP_OK, "OK");
    send_piece(j, first, false);
    return true;
}

void pieces_free(struct pieces *p)
{
    struct list_node *n;

    if (p == NULL)
        return;
    while ((n = list_first(&p->jobs)) != NULL)
        page_free(list_entry(n, struct page_job, node));
    while ((n = list_first(&p->ended)) != NULL)
        page_free(list_entry(n, struct page_job, node));
    mem_free(p);
}
