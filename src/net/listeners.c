/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listeners.h"

#include <errno.h>

struct listeners {
    size_t n;
    struct listener *each[LISTENERS_MAX];
};

static struct listener *adopt(struct loop *l, int fd, listener_fn *fn, void *arg, struct err *err)
{
    struct listener *adopted = listener_adopt(l, fd, fn, arg, err);
    struct listen_address address;

    if (adopted == NULL || listener_address_of(fd, &address))
        return adopted;
    err_set(err, "inherited descriptor %d: not a TCP socket", fd);
    listener_close(adopted);
    return NULL;
}

static struct listener *open_one(struct loop *l, const struct listeners_opts *o, size_t i, listener_fn *fn, void *arg,
                                 struct err *err)
{
    if (o->n_inherited > 0)
        return adopt(l, o->inherited[i], fn, arg, err);
    return listener_open(l, o->addresses[i].host, o->addresses[i].port, fn, arg, err);
}

struct listeners *listeners_open(struct loop *l, const struct listeners_opts *o, listener_fn *fn, void *arg,
                                 struct err *err)
{
    struct listeners *s = must_zalloc(sizeof(*s));
    size_t n = o->n_inherited > 0 ? o->n_inherited : o->n_addresses;
    int saved;

    errno = 0;
    if (n == 0 || n > LISTENERS_MAX)
        err_set(err, "%zu listening sockets, of 1 to %d that are possible", n, LISTENERS_MAX);
    for (; n <= LISTENERS_MAX && s->n < n; s->n++) {
        s->each[s->n] = open_one(l, o, s->n, fn, arg, err);
        if (s->each[s->n] == NULL)
            break;
    }
    if (s->n > 0 && s->n == n)
        return s;
    saved = errno;
    listeners_close(s);
    errno = saved;
    return NULL;
}

void listeners_close(struct listeners *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n; i++)
        listener_close(s->each[i]);
    mem_free(s);
}

void listeners_pause(struct listeners *s)
{
    for (size_t i = 0; i < s->n; i++)
        listener_pause(s->each[i]);
}

void listeners_resume(struct listeners *s)
{
    for (size_t i = 0; i < s->n; i++)
        listener_resume(s->each[i]);
}

unsigned listeners_port(const struct listeners *s)
{
    return listener_port(s->each[0]);
}

void listeners_on_starved(struct listeners *s, listener_starved_fn *fn)
{
    for (size_t i = 0; i < s->n; i++)
        listener_on_starved(s->each[i], fn);
}
