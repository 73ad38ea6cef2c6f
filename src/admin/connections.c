/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/contract.h"
#include "base/limits.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/sockopt.h"

enum {
    BATCH = 64,      /* accepted in one turn */
    PAUSE_MS = 100,  /* without descriptors */
    MISSES_MOST = 2, /* looks in a row at which somebody waited and nobody was accepted */
    /* Who has asked nothing yet is about to; where there are more, their oldest are not. */
    SILENT_MOST = LIMIT_ADMIN_CONNECTIONS / 2,
    READING_MS = 5000, /* for which an answer may take to be made and read */
};

/*
 * libevent does not say when a connection is closed. So that is looked for when it matters, and a connection is known
 * by what its descriptor is: the number alone may be another's by then.
 */
struct connection {
    int fd;
    ino_t inode;
    struct bufferevent *bev;              /* there as long as the descriptor is, which it closes */
    enum { SILENT, WAITING, IDLE } state; /* has asked nothing; has not all of its answer; has it */
    uint64_t since_ms;                    /* when it came, or asked last */
    uint64_t number;                      /* in the order of their coming */
    size_t alike;                         /* of the same address; for the moment of a choice */
    char ip[INET6_ADDRSTRLEN];
};

struct connections {
    struct loop *loop;
    struct lifetime life;
    struct evconnlistener *listener;
    struct event waiting; /* somebody is in the kernel's queue; the listener has an event of its own for that */
    struct lifetime_work look, end_flooded;
    struct loop_timer *retry;
    connections_fn *fn;
    void *arg;
    unsigned misses;
    size_t n_arriving, n_open;
    size_t n_silent; /* for the moment of a choice */
    uint64_t last_number;
    struct bufferevent *arriving[BATCH]; /* of this turn; a reference of each is ours */
    struct connection open[LIMIT_ADMIN_CONNECTIONS + BATCH];
};

/* ---- who is there ---- */

static bool inode_of(int fd, ino_t *out)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    *out = st.st_ino;
    return true;
}

static void forget_closed(struct connections *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n_open; i++) {
        ino_t inode = 0;

        if (inode_of(c->open[i].fd, &inode) && inode == c->open[i].inode)
            c->open[kept++] = c->open[i];
    }
    c->n_open = kept;
}

static struct connection *by_fd(struct connections *c, int fd)
{
    for (size_t i = 0; i < c->n_open; i++)
        if (c->open[i].fd == fd)
            return &c->open[i];
    return NULL;
}

static void enter(struct connections *c, struct bufferevent *bev)
{
    int fd = bufferevent_getfd(bev);
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    struct connection *one = by_fd(c, fd); /* if it is there, it is one that was closed */
    ino_t inode = 0;

    if (!inode_of(fd, &inode))
        return;
    if (one == NULL) {
        must_hold(c->n_open < sizeof(c->open) / sizeof(c->open[0]));
        one = &c->open[c->n_open++];
    }
    *one = (struct connection){
        .fd = fd, .inode = inode, .bev = bev, .since_ms = loop_now_ms(c->loop), .number = ++c->last_number};
    (void)getpeername(fd, (struct sockaddr *)&addr, &len);
    sockopt_ip((const struct sockaddr *)&addr, one->ip);
}

/* ---- too many ---- */

static void count(struct connections *c)
{
    c->n_silent = 0;
    for (size_t i = 0; i < c->n_open; i++) {
        c->n_silent += c->open[i].state == SILENT;
        c->open[i].alike = 0;
        for (size_t j = 0; j < c->n_open; j++)
            c->open[i].alike += strcmp(c->open[i].ip, c->open[j].ip) == 0;
    }
}

/* Of one address: the smallest goes. Neither those who stay when they have asked may keep out who comes, nor the
 * silent. */
static uint64_t place(const struct connections *c, const struct connection *one)
{
    if (one->state == SILENT)
        return c->n_silent > SILENT_MOST ? 0 : UINT64_MAX;
    return one->since_ms + (one->state == WAITING ? READING_MS : 0);
}

static bool goes_before(const struct connections *c, const struct connection *a, const struct connection *b)
{
    uint64_t place_a = place(c, a), place_b = place(c, b);

    if (a->alike != b->alike)
        return a->alike > b->alike;
    return place_a != place_b ? place_a < place_b : a->number < b->number;
}

/* The server of libevent sees its end, and closes it. */
static void end_one(struct connections *c)
{
    struct connection *first = &c->open[0];

    must_hold(c->n_open > 0);
    for (size_t i = 1; i < c->n_open; i++)
        if (goes_before(c, &c->open[i], first))
            first = &c->open[i];
    shutdown(first->fd, SHUT_RDWR);
    c->n_silent -= first->state == SILENT;
    for (size_t i = 0; i < c->n_open; i++)
        c->open[i].alike -= strcmp(c->open[i].ip, first->ip) == 0;
    *first = c->open[--c->n_open];
    c->fn(CONNECTIONS_TOO_MANY, c->arg);
}

bool connections_end_reader(struct connections *c, int fd)
{
    struct connection *first = NULL;

    forget_closed(c);
    for (size_t i = 0; i < c->n_open; i++) {
        struct connection *one = &c->open[i];

        if (one->state == WAITING && one->fd != fd && (first == NULL || one->since_ms < first->since_ms))
            first = one;
    }
    if (first == NULL)
        return false;
    shutdown(first->fd, SHUT_RDWR);
    *first = c->open[--c->n_open];
    return true;
}

static void make_room(struct connections *c)
{
    if (c->n_open <= LIMIT_ADMIN_CONNECTIONS)
        return;
    forget_closed(c);
    count(c);
    while (c->n_open > LIMIT_ADMIN_CONNECTIONS)
        end_one(c);
}

/* ---- too much input ---- */

static bool is_flooded(const struct connection *one)
{
    return evbuffer_get_length(bufferevent_get_input(one->bev)) > CONNECTIONS_MOST_INPUT;
}

/* By telling the server that reading failed: after a shutdown() it would read all that is there. */
static void end_flooded(void *arg)
{
    struct connections *c = arg;

    forget_closed(c);
    for (size_t i = c->n_open; i-- > 0;) {
        struct bufferevent *bev = c->open[i].bev;

        if (!is_flooded(&c->open[i]))
            continue;
        c->open[i] = c->open[--c->n_open];
        bufferevent_trigger_event(bev, BEV_EVENT_READING | BEV_EVENT_ERROR, 0);
        c->fn(CONNECTIONS_FLOODED, c->arg);
    }
}

static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info, void *arg)
{
    struct connections *c = arg;

    if (info->n_added > 0 && evbuffer_get_length(in) > CONNECTIONS_MOST_INPUT)
        lifetime_queue(&c->end_flooded);
}

/* ---- accepting ---- */

static void starve(struct connections *c)
{
    evconnlistener_disable(c->listener);
    event_del(&c->waiting);
    loop_timer_set(c->retry, PAUSE_MS);
    c->fn(CONNECTIONS_STARVED, c->arg);
}

static void on_retry(void *arg)
{
    struct connections *c = arg;

    event_add(&c->waiting, NULL);
    evconnlistener_enable(c->listener);
}

/* At the end of a turn in which somebody waited, or was accepted. */
static void look(void *arg)
{
    struct connections *c = arg;
    size_t n = c->n_arriving;

    c->misses = n > 0 ? 0 : c->misses + 1;
    for (size_t i = 0; i < n; i++) {
        enter(c, c->arriving[i]);
        bufferevent_decref(c->arriving[i]);
    }
    c->n_arriving = 0;
    make_room(c);
    if (c->misses >= MISSES_MOST)
        starve(c);
    else
        evconnlistener_enable(c->listener);
}

static void on_waiting(evutil_socket_t fd, short what, void *arg)
{
    struct connections *c = arg;

    (void)fd;
    (void)what;
    loop_enter(c->loop);
    lifetime_queue(&c->look);
    loop_leave(c->loop);
}

/* Its argument is libevent's HTTP server. Whether to try again, look() decides. */
static void on_accept_failed(struct evconnlistener *listener, void *arg)
{
    (void)arg;
    evconnlistener_disable(listener);
}

void connections_arrived(struct connections *c, struct bufferevent *bev)
{
    must_hold(c->n_arriving < BATCH);
    /* Not a high watermark: libevent tells of a full buffer again and again, and does nothing else. */
    (void)!evbuffer_add_cb(bufferevent_get_input(bev), on_input, c); /* out of memory: this one is not watched */
    bufferevent_incref(bev);
    c->arriving[c->n_arriving++] = bev;
    if (c->n_arriving == BATCH)
        evconnlistener_disable(c->listener);
    lifetime_queue(&c->look);
}

void connections_asked(struct connections *c, int fd)
{
    struct connection *one = by_fd(c, fd);

    if (one == NULL)
        return;
    one->state = WAITING;
    one->since_ms = loop_now_ms(c->loop);
}

void connections_answered(struct connections *c, int fd)
{
    struct connection *one = by_fd(c, fd);

    if (one != NULL)
        one->state = IDLE;
}

/* ---- life ---- */

static void stop_waiting(struct connections *c)
{
    event_del(&c->waiting);
    while (c->n_arriving > 0)
        bufferevent_decref(c->arriving[--c->n_arriving]);
}

struct connections *connections_new(struct loop *l, struct evconnlistener *listener, connections_fn *fn, void *arg)
{
    struct connections *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->loop = l;
    c->listener = listener;
    c->fn = fn;
    c->arg = arg;
    lifetime_init(&c->life, l, "connections with the admin listener");
    lifetime_work_init(&c->life, &c->look, LOOP_DEFERRED, look, c);
    lifetime_work_init(&c->life, &c->end_flooded, LOOP_DEFERRED, end_flooded, c);
    c->retry = lifetime_timer(&c->life, on_retry, c);
    event_assign(&c->waiting, loop_base(l), evconnlistener_get_fd(listener), EV_READ | EV_PERSIST, on_waiting, c);
    if (c->retry == NULL || event_add(&c->waiting, NULL) != 0) {
        lifetime_retire(&c->life, mem_free, c);
        return NULL;
    }
    evconnlistener_set_error_cb(listener, on_accept_failed);
    return c;
}

void connections_free(struct connections *c)
{
    if (c == NULL)
        return;
    stop_waiting(c);
    lifetime_retire(&c->life, mem_free, c);
}
