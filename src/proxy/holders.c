/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/holders.h"

static enum step free_next(void *arg)
{
    struct holders *h = arg;

    return served_free_next(&h->dead) && h->dead.count > 0 ? STEP_MORE : STEP_DONE;
}

static void freed(void *arg, bool done)
{
    (void)arg;
    (void)done;
}

void holders_init(struct holders *h, struct work_queue *work)
{
    h->work = work;
    list_init(&h->of_old);
    list_init(&h->dead);
}

void holders_close(struct holders *h)
{
    while (served_free_next(&h->dead))
        ;
}

struct served *holders_take(struct holders *h, struct list_node *holder, struct served *s)
{
    list_push_back(&h->of_old, holder);
    return served_ref(s);
}

void holders_drop(struct holders *h, struct list_node *holder, struct served *s)
{
    if (list_linked(holder))
        list_remove(&h->of_old, holder);
    served_bury(s, &h->dead);
    if (h->dead.count > 0)
        work_start(h->work, &h->burial, free_next, freed, h);
}
