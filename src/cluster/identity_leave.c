/* SPDX-License-Identifier: Apache-2.0 */
/* The end of our Lease: removed, if it is still ours, within a deadline. */
#include "base/contract.h"
#include "base/log.h"
#include "cluster/identity_internal.h"

enum { STOP_MS = 2000 };

static void tell(void *arg)
{
    struct identity *i = arg;
    void (*due)(void *arg) = i->due;

    i->due = NULL;
    due(i->due_arg);
}

/* Another stop may begin before the turn ends, and has a `done` of its own. */
void identity_tell(struct identity *i)
{
    if (i->done == NULL)
        return;
    contract(i->due == NULL); /* identity_stop() */
    i->due = i->done;
    i->due_arg = i->done_arg;
    i->done = NULL;
    loop_defer(i->loop, &i->over, tell, i);
}

static void gone(struct identity *i)
{
    loop_timer_cancel(i->timer);
    loop_timer_cancel(i->deadline);
    i->may_exist = false;
    identity_set_state(i, STATE_STOPPED);
    identity_tell(i);
    if (!i->returning)
        return;
    i->returning = false;
    identity_start(i);
}

void identity_too_late(void *arg)
{
    struct identity *i = arg;

    log_warning("Could not remove the own identity Lease in time; it expires by itself", LT("lease", i->id));
    fetch_cancel(&i->call);
    gone(i);
}

static void on_left(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[API_WHY_BYTES];

    i->call = NULL;
    if (i->state != STATE_LEAVING)
        return;
    if (api_answered(r, 409)) {
        identity_leave(i);
        return;
    }
    if (api_answered(r, 200) || api_answered(r, 404))
        log_info("Removed the own identity Lease", LT("lease", i->id));
    else if (!r->ok || r->head->status >= 500) {
        identity_after(i, backoff_next(&i->backoff), identity_leave);
        return;
    } else
        log_warning("Could not remove the own identity Lease", LT("lease", i->id), LT("err", api_why(r, text)));
    gone(i);
}

static void on_last_look(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;

    i->call = NULL;
    if (i->state != STATE_LEAVING)
        return;
    if (api_answered(r, 200) && identity_read(i, r, &l) && identity_is_ours(i, &l)) {
        if (identity_remove(i, &l, on_left))
            return;
    } else if (r->ok && r->head->status < 500) {
        gone(i); /* it is not there, not ours any more, or none of our business */
        return;
    }
    identity_after(i, backoff_next(&i->backoff), identity_leave);
}

void identity_leave(struct identity *i)
{
    if (!identity_send(i, "GET", i->path, NULL, on_last_look))
        gone(i);
}

void identity_stop(struct identity *i, void (*done)(void *arg), void *arg)
{
    bool ours = i->may_exist;

    i->returning = false;
    if (done != NULL) {
        contract(i->done == NULL);
        i->done = done;
        i->done_arg = arg;
    }
    loop_timer_cancel(i->timer);
    if (!ours) {
        fetch_cancel(&i->call);
        gone(i);
        return;
    }
    identity_set_state(i, STATE_LEAVING);
    backoff_reset(&i->backoff);
    loop_timer_set(i->deadline, STOP_MS);
    /* What is under way may change the Lease yet: first its answer. */
    if (i->call == NULL)
        identity_leave(i);
}
