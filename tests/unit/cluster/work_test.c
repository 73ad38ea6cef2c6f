/* SPDX-License-Identifier: Apache-2.0 */
/* Long work shares the turns of the loop: two pieces in each, whoever they are for. */
#include "cluster/work.h"

#include "base/clock.h"
#include "lib/tap.h"
#include "sim/sim_loop.h"

enum { JOBS = 6, PIECES = 5, MOST_TURNS = 100 };

struct job {
    struct work work;
    struct work_queue *queue;
    struct loop *loop;
    unsigned left, done;
    uint64_t last_turn;
    unsigned *in_turn; /* pieces by turn, from `first` on */
    uint64_t first;
};

static void piece(void *arg)
{
    struct job *j = arg;

    j->done++;
    j->last_turn = sim_turns(j->loop);
    j->in_turn[j->last_turn - j->first]++;
    if (--j->left > 0)
        work_add(j->queue, &j->work, piece, j);
}

static unsigned most_of(const unsigned *in_turn)
{
    unsigned most = 0;

    for (size_t i = 0; i < MOST_TURNS; i++)
        most = in_turn[i] > most ? in_turn[i] : most;
    return most;
}

/* Six documents come in at once. */
static void shared(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct job jobs[JOBS] = {{.left = 0}};
    uint64_t first = sim_turns(l), turns, last = 0, earliest = UINT64_MAX;
    struct work_queue q;

    work_queue_init(&q, l);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.queue = &q, .loop = l, .left = PIECES, .in_turn = in_turn, .first = first};
        work_add(&q, &jobs[i].work, piece, &jobs[i]);
    }
    is_u64(jobs[0].done, 0, "nothing is done from inside");
    sim_run_ms(l, 10);
    turns = sim_turns(l) - first;
    for (size_t i = 0; i < JOBS; i++) {
        is_u64(jobs[i].done, PIECES, "job %zu is done, once each piece", i);
        last = jobs[i].last_turn > last ? jobs[i].last_turn : last;
        earliest = jobs[i].last_turn < earliest ? jobs[i].last_turn : earliest;
    }
    is_u64(most_of(in_turn), WORK_PIECES_PER_TURN, "no turn does more than two pieces");
    is_u64(turns, JOBS * PIECES / WORK_PIECES_PER_TURN, "and none does less while there is work");
    ok(last - earliest < JOBS, "nobody is done long before the others");
    work_queue_close(&q);
    loop_free(l);
}

static void alone(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct work_queue q;
    struct job j = {.queue = &q, .loop = l, .left = PIECES, .in_turn = in_turn, .first = sim_turns(l)};

    work_queue_init(&q, l);
    work_add(&q, &j.work, piece, &j);
    work_add(&q, &j.work, piece, &j);
    sim_run_ms(l, 10);
    is_u64(j.done, PIECES, "queued twice is queued once");
    is_u64(most_of(in_turn), WORK_PIECES_PER_TURN, "who is alone has both pieces of a turn");
    work_queue_close(&q);
    loop_free(l);
}

static void takes_long(void *arg)
{
    piece(arg);
    clock_fake(clock_us() + WORK_LONG_US, clock_wall_us());
}

static void long_pieces(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct work_queue q;
    struct job a = {.queue = &q, .loop = l, .left = 1, .in_turn = in_turn, .first = sim_turns(l)}, b = a;

    work_queue_init(&q, l);
    work_add(&q, &a.work, takes_long, &a);
    work_add(&q, &b.work, piece, &b);
    sim_run_ms(l, 10);
    ok(a.done == 1 && b.done == 1 && b.last_turn == a.last_turn + 1,
       "a piece that took long has had its turn for itself");
    work_queue_close(&q);
    loop_free(l);
}

static void ends(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct work_queue q;
    struct job a = {.queue = &q, .loop = l, .left = 1, .in_turn = in_turn, .first = sim_turns(l)}, b = a, c = a;

    work_queue_init(&q, l);
    work_add(&q, &a.work, piece, &a);
    work_add(&q, &b.work, piece, &b);
    work_cancel(&q, &a.work);
    work_cancel(&q, &c.work);
    sim_run_ms(l, 10);
    ok(a.done == 0 && b.done == 1, "what was cancelled is not done");
    work_add(&q, &c.work, piece, &c);
    work_queue_close(&q);
    sim_run_ms(l, 10);
    is_u64(c.done, 0, "nor what was queued when the queue was closed");
    loop_free(l);
}

int main(void)
{
    shared();
    alone();
    long_pieces();
    ends();
    return tap_end();
}
