/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/trust_reading.h"

#include "base/clock.h"
#include "base/list.h"
#include "daemon/trust.h"
#include "net/loop.h"
#include "net/tls_certs.h"

enum { TURN_US = 2000 };

struct read_file {
    struct list_node node;
    struct tls_certs *certs;
};

struct trust_reading {
    struct loop *loop;
    struct loop_deferred turn;
    struct list files;
    void (*done)(void *arg);
    void *arg;
};

/* A file that is there twice, or in use, is parsed already. */
static void add(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    struct trust_reading *r = arg;
    struct read_file *f = kind == TRUST_KEY ? NULL : mem_zalloc(sizeof(*f));

    (void)option;
    if (f == NULL)
        return;
    f->certs = tls_certs_begin(path);
    list_push_back(&r->files, &f->node);
}

static bool parse_next(const struct trust_reading *r)
{
    for (struct list_node *n = list_first(&r->files); n != NULL; n = list_next(&r->files, n)) {
        struct tls_certs *c = list_entry(n, struct read_file, node)->certs;

        if (c != NULL && tls_certs_step(c) == STEP_MORE)
            return true;
    }
    return false;
}

static void turn(void *arg)
{
    struct trust_reading *r = arg;
    uint64_t start = clock_us();

    while (parse_next(r)) {
        if (clock_us() - start < TURN_US)
            continue;
        loop_defer(r->loop, &r->turn, turn, r);
        return;
    }
    r->done(r->arg);
}

struct trust_reading *trust_reading_begin(struct loop *l, const struct config *c, void (*done)(void *arg), void *arg)
{
    struct trust_reading *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->loop = l;
    r->done = done;
    r->arg = arg;
    list_init(&r->files);
    trust_each_file(c, add, r);
    loop_defer(l, &r->turn, turn, r);
    return r;
}

void trust_reading_free(struct trust_reading *r)
{
    struct list_node *n;

    if (r == NULL)
        return;
    loop_defer_cancel(r->loop, &r->turn);
    while ((n = list_pop_front(&r->files)) != NULL) {
        struct read_file *f = list_entry(n, struct read_file, node);

        tls_certs_unref(f->certs);
        mem_free(f);
    }
    mem_free(r);
}
