/* SPDX-License-Identifier: Apache-2.0 */
/* Long work shares the turns of the loop: two milliseconds of each, whoever they are for. */
#include "cluster/work.h"

#include "base/clock.h"
#include "lib/tap.h"
#include "sim/sim_loop.h"

enum { JOBS = 6, PIECES = 5, MOST_TURNS = 100, PER_TURN = WORK_TURN_US / WORK_PIECE_US };

struct job {
    struct work work;
    struct work_queue *queue;
    struct loop *loop;
    unsigned left, done, over;
    uint64_t takes_us; /* each step */
    bool fails, good;
    uint64_t last_turn;
    unsigned *in_turn; /* pieces by turn, from `first` on */
    uint64_t first;
};

static enum step step(void *arg)
{
    struct job *j = arg;

    clock_fake(clock_us() + j->takes_us, clock_wall_us());
    j->done++;
    j->last_turn = sim_turns(j->loop);
    j->in_turn[j->last_turn - j->first]++;
    return --j->left > 0 ? STEP_MORE : j->fails ? STEP_FAILED : STEP_DONE;
}

static void over(void *arg, bool done)
{
    struct job *j = arg;

    j->over++;
    j->good = done;
}

static void begin(struct job *j)
{
    work_start(j->queue, &j->work, step, over, j);
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
        jobs[i] = (struct job){
            .queue = &q, .loop = l, .left = PIECES, .takes_us = WORK_PIECE_US, .in_turn = in_turn, .first = first};
        begin(&jobs[i]);
    }
    is_u64(jobs[0].done, 0, "nothing is done from inside");
    sim_run_ms(l, 10);
    turns = sim_turns(l) - first;
    for (size_t i = 0; i < JOBS; i++) {
        is_u64(jobs[i].done, PIECES, "job %zu is done, once each piece", i);
        last = jobs[i].last_turn > last ? jobs[i].last_turn : last;
        earliest = jobs[i].last_turn < earliest ? jobs[i].last_turn : earliest;
    }
    is_u64(most_of(in_turn), PER_TURN, "no turn does more than two pieces");
    is_u64(turns, JOBS * PIECES / PER_TURN, "and none does less while there is work");
    ok(last - earliest < JOBS, "nobody is done long before the others");
    work_queue_close(&q);
    loop_free(l);
}

static void alone(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct work_queue q;
    struct job j = {
        .queue = &q, .loop = l, .left = PIECES, .takes_us = WORK_PIECE_US, .in_turn = in_turn, .first = sim_turns(l)};

    work_queue_init(&q, l);
    begin(&j);
    begin(&j);
    sim_run_ms(l, 10);
    is_u64(j.done, PIECES, "queued twice is queued once");
    is_u64(most_of(in_turn), PER_TURN, "who is alone has both pieces of a turn");
    work_queue_close(&q);
    loop_free(l);
}

static void long_pieces(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct work_queue q;
    struct job a = {.queue = &q, .loop = l, .left = 1, .in_turn = in_turn, .first = sim_turns(l)}, b = a;

    a.takes_us = WORK_TURN_US;
    work_queue_init(&q, l);
    begin(&a);
    begin(&b);
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
    begin(&a);
    begin(&b);
    work_cancel(&q, &a.work);
    work_cancel(&q, &c.work);
    sim_run_ms(l, 10);
    ok(a.done == 0 && a.over == 0 && b.done == 1, "what was cancelled is not done");
    begin(&c);
    work_queue_close(&q);
    sim_run_ms(l, 10);
    is_u64(c.done, 0, "nor what was queued when the queue was closed");
    loop_free(l);
}

/* Small steps share a piece; who waits is told how it ended, and what it took. */
static void small_steps(void)
{
    struct loop *l = loop_new(NULL);
    unsigned in_turn[MOST_TURNS] = {0};
    struct work_queue q;
    struct job a = {.queue = &q, .loop = l, .left = 4, .in_turn = in_turn, .first = sim_turns(l)}, b = a;

    a.takes_us = b.takes_us = WORK_PIECE_US / 4;
    b.fails = true;
    work_queue_init(&q, l);
    begin(&a);
    begin(&b);
    sim_run_ms(l, 10);
    is_u64(most_of(in_turn), 8, "both pieces of a turn are full of small steps");
    ok(a.over == 1 && a.good && b.over == 1 && !b.good, "one is done, the other one failed");
    is_u64(a.work.busy_us, WORK_PIECE_US, "and it is known what that took");
    work_queue_close(&q);
    loop_free(l);
}

int main(void)
{
    shared();
    alone();
    long_pieces();
    ends();
    small_steps();
    return tap_end();
}
