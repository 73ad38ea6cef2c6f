/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/untaken.h"

#include <event2/buffer.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/mem.h"

struct untaken {
    size_t bytes;
    unsigned users; /* the answers, and the listener */
};

/* An answer's body until its reader has it. */
struct answer {
    struct untaken *untaken;
    struct buf body;
};

struct untaken *untaken_new(void)
{
    struct untaken *u = must_zalloc(sizeof(*u));

    u->users = 1;
    return u;
}

void untaken_unref(struct untaken *u)
{
    must_hold(u->users > 0);
    if (--u->users == 0)
        mem_free(u);
}

size_t untaken_bytes(const struct untaken *u)
{
    return u->bytes;
}

static void on_taken(const void *data, size_t n, void *arg)
{
    struct answer *a = arg;

    (void)data;
    must_hold(a->untaken->bytes >= n);
    a->untaken->bytes -= n;
    untaken_unref(a->untaken);
    buf_free(&a->body);
    mem_free(a);
}

bool untaken_add(struct untaken *u, struct evbuffer *out, struct buf *body)
{
    struct answer *a = mem_zalloc(sizeof(*a));
    struct slice bytes = buf_slice(body);

    if (a == NULL)
        return false;
    a->untaken = u;
    a->body = *body;
    if (evbuffer_add_reference(out, bytes.p, bytes.n, on_taken, a) != 0) {
        mem_free(a);
        return false;
    }
    u->users++;
    u->bytes += bytes.n;
    return true;
}
