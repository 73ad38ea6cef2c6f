/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/farewell.h"

#include "base/contract.h"

void farewell_init(struct farewell *f, struct loop *l)
{
    *f = (struct farewell){.loop = l};
}

void farewell_await(struct farewell *f, void (*done)(void *arg), void *arg)
{
    if (done == NULL)
        return;
    contract(f->done == NULL);
    f->done = done;
    f->arg = arg;
}

static void tell(void *arg)
{
    struct farewell *f = arg;
    void (*due)(void *arg) = f->due;

    f->due = NULL;
    due(f->due_arg);
}

void farewell_tell(struct farewell *f)
{
    if (f->done == NULL)
        return;
    contract(f->due == NULL); /* farewell_await() */
    f->due = f->done;
    f->due_arg = f->arg;
    f->done = NULL;
    loop_defer(f->loop, &f->turn, tell, f);
}

void farewell_cancel(struct farewell *f)
{
    loop_defer_cancel(f->loop, &f->turn);
}
