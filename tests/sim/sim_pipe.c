/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_pipe.h"

#include <stdlib.h>

struct sim_sock {
    struct pipe *pipe;
};

static void *need(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

struct pipe *pipe_new(struct sim_net *n, const char *ip, bool tls, bool http2)
{
    struct pipe *p = need(calloc(1, sizeof(*p)));

    p->refs = 1;
    p->number = ++n->numbers;
    p->to[PIPE_OURS].room = p->to[PIPE_THEIRS].room = n->room;
    p->ip = ip;
    p->tls = tls;
    p->http2 = http2;
    return p;
}

struct pipe *pipe_ref(struct pipe *p)
{
    p->refs++;
    return p;
}

void pipe_unref(struct pipe *p)
{
    if (--p->refs > 0)
        return;
    free(p->to[PIPE_OURS].p);
    free(p->to[PIPE_THEIRS].p);
    free(p);
}

bool pipe_may_put(const struct way *w)
{
    return w->gone || w->reset || w->n < w->room;
}

/* The memory is made anew for each change, so that a sanitizer sees who reads what is no longer there. */
static void replace(struct way *w, size_t keep_from, struct slice more)
{
    size_t kept = w->n - keep_from;
    char *p = kept + more.n > 0 ? need(malloc(kept + more.n)) : NULL;

    if (kept > 0)
        memcpy(p, w->p + keep_from, kept);
    if (more.n > 0)
        memcpy(p + kept, more.p, more.n);
    free(w->p);
    w->p = p;
    w->n = kept + more.n;
}

size_t pipe_put(struct way *w, struct slice data)
{
    size_t n = data.n < w->room - w->n ? data.n : w->room - w->n;

    if (w->gone || w->reset)
        return 0;
    if (n > 0)
        replace(w, 0, slice_of(data.p, n));
    w->total += n;
    return n;
}

void pipe_drop(struct way *w, size_t n)
{
    if (n > 0)
        replace(w, n, SLICE_NONE);
}

void pipe_close(struct pipe *p, enum pipe_side side, bool reset)
{
    struct way *in = &p->to[side], *out = &p->to[!side];

    /* Unread bytes, or those that come later, are answered with a reset. */
    out->reset |= reset || in->n > 0;
    out->fin |= !out->reset;
    in->gone = true;
    pipe_drop(in, in->n);
}

/* ---- the test's end ---- */

struct sim_sock *pipe_sock(struct pipe *p)
{
    struct sim_sock *s = need(malloc(sizeof(*s)));

    s->pipe = pipe_ref(p);
    return s;
}

static struct way *mine(const struct sim_sock *s)
{
    return &s->pipe->to[PIPE_THEIRS];
}

static struct way *others(const struct sim_sock *s)
{
    return &s->pipe->to[PIPE_OURS];
}

size_t sim_room(const struct sim_sock *s)
{
    const struct way *w = others(s);

    return w->gone || w->reset || w->fin ? 0 : w->room - w->n;
}

size_t sim_send(struct sim_sock *s, struct slice data)
{
    struct way *w = others(s);

    if (w->gone && data.n > 0)
        mine(s)->reset = true;
    return w->fin ? 0 : pipe_put(w, data);
}

struct slice sim_arrived(const struct sim_sock *s)
{
    return slice_of(mine(s)->n > 0 ? mine(s)->p : "", mine(s)->n);
}

void sim_take(struct sim_sock *s, size_t n)
{
    pipe_drop(mine(s), n);
}

void sim_finish(struct sim_sock *s)
{
    if (!others(s)->reset)
        others(s)->fin = true;
}

void sim_reset(struct sim_sock *s)
{
    others(s)->reset = true;
    mine(s)->gone = true;
}

bool sim_was_reset(const struct sim_sock *s)
{
    return mine(s)->reset;
}

bool sim_at_end(const struct sim_sock *s)
{
    return mine(s)->fin && mine(s)->n == 0;
}

bool sim_abandoned(const struct sim_sock *s)
{
    return others(s)->gone;
}

void sim_close(struct sim_sock *s)
{
    if (!mine(s)->gone)
        pipe_close(s->pipe, PIPE_THEIRS, false);
    pipe_unref(s->pipe);
    free(s);
}
