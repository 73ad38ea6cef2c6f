/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/deliver.h"

#include "kube/status.h"
#include "proxy/disco_pretty.h"

enum { PIECE_BYTES = 64 << 10 };

static enum step lay_out(void *arg)
{
    struct job *j = arg;

    return disco_pretty_next(j->pretty, &j->document) ? STEP_DONE : STEP_FAILED;
}

static void send_pretty(struct job *j);

static void laid_out(void *arg, bool done)
{
    struct job *j = arg;

    if (!done) {
        job_abort(j, STATUS_NO_MEMORY);
        return;
    }
    if (j->document.n > 0 && !exchange_body(j->x, j->document))
        return; /* on_gone follows */
    if (disco_pretty_done(j->pretty))
        job_finish(j, NULL);
    else
        send_pretty(j);
}

/* The next piece, when its turn comes: many that compress well are not to hold up everybody else. */
static void send_pretty(struct job *j)
{
    if (!exchange_congested(j->x))
        work_start(&j->proxy->work, &j->work, lay_out, laid_out, j);
}

static void send_prepared(struct job *j)
{
    while (j->document_sent < j->document.n) {
        struct slice piece = slice_from(j->document, j->document_sent);

        if (exchange_congested(j->x))
            return;
        if (piece.n > PIECE_BYTES)
            piece.n = PIECE_BYTES;
        if (!exchange_body(j->x, piece))
            return; /* on_gone follows */
        j->document_sent += piece.n;
    }
    job_finish(j, NULL);
}

void deliver_resume(struct job *j)
{
    if (j->pretty != NULL)
        send_pretty(j);
    else
        send_prepared(j);
}

void deliver(struct job *j, const struct http_head *head, struct http_body body)
{
    bool no_body = head->status == 304 || exchange_request(j->x)->method_id == HTTP_HEAD;

    j->summary.status = head->status;
    job_set_state(j, JOB_SERVING);
    if (!exchange_respond(j->x, head, body))
        return;
    job_forget_request(j);
    if (no_body)
        job_finish(j, NULL);
    else
        deliver_resume(j);
}
