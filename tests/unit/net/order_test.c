/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every order of what falls together in one turn of the loop, for what accepts clients: an own listening socket and an
 * inherited one, in each state of it, whatever up to four things happen there at once, and in whichever queue
 * what is put off waits. listener.c and the loop are the real ones, libevent is simulated (sim/sim_event.h), and so is
 * accept(). unit/proxy/order_test.c does the same for connections.
 *
 * What must hold: nobody is called after the end; a descriptor that others have, too, is closed only when epoll has
 * been told (else it wakes us for each client of theirs); each is closed once; what is queued while a queue runs waits
 * for the next turn; and the loop comes to rest.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/lifetime.h"
#include "net/listener.h"
#include "net/loop_internal.h"
#include "sim/sim_event.h"

enum {
    TURNS = 4,   /* from the moment on, so long every order is tried */
    CHOICES = 7, /* so many of them; further ones are as they come */
    WORKS = 3,   /* that somebody else has queued */
    LONG_MS = 1000,
    AT_ONCE = 4, /* different things */
};

enum moment {
    JUST_OPENED, /* epoll has not been told */
    LISTENING,
    HAS_ACCEPTED,
    PAUSED,
    STARVING, /* out of descriptors */
    CLOSED,   /* in the turn before */
    MOMENTS
};

enum happening {
    CLIENT_COMES,
    NO_DESCRIPTORS, /* for that client */
    HANDLER_CLOSES, /* on the first client */
    OWNER_CLOSES,
    OWNER_PAUSES,
    OWNER_RESUMES,
    WORK_CLOSES,  /* the owner closes it in what it had put off */
    WORK_COMES,   /* somebody else puts off some; each of it queues itself again, once */
    WORK_ENDS,    /* he ends in what he had put off, and with him what he had queued */
    TIMERS,       /* are due, in a busy process */
    LONG_SILENCE, /* of the process: timers wait for what has arrived */
    HAPPENINGS
};

static const char *const words[HAPPENINGS] = {
    "a client comes",     "no descriptor is left",     "the handler closes",
    "the owner closes",   "the owner pauses",          "the owner resumes",
    "queued work closes", "somebody queues work",      "somebody ends in queued work",
    "timers are due",     "the process was suspended",
};

struct scene {
    bool inherited;
    enum loop_queue queue;
    enum moment moment;
    unsigned happens; /* 1 << enum happening */
};

struct orders {
    unsigned char taken[CHOICES], of[CHOICES];
    size_t at, n;
};

/* Somebody else of the loop. */
struct other {
    struct lifetime life;
    struct lifetime_work works[WORKS];
    uint64_t queued_turn[WORKS]; /* by itself, while it ran; 0: it was not */
};

struct world {
    struct loop *loop;
    const struct scene *scene;
    struct listener *listener; /* NULL: closed */
    struct other *other;       /* NULL: it has ended */
    struct loop_deferred closing, ending;
    struct sim_source sources[HAPPENINGS];
    bool due[HAPPENINGS]; /* of these */
    int fd;               /* the listener's */
    unsigned waiting, accepted, closes;
    bool starved, handler_closes;
    const char *fault; /* the first */
};

static struct world *world; /* for what the linker puts in the place of the system's calls */

static void fault(struct world *w, const char *what)
{
    if (w->fault == NULL)
        w->fault = what;
}

/* ---- in place of the system (-Wl,--wrap) ---- */

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    (void)addr;
    (void)len;
    (void)flags;
    if (fd != world->fd || world->closes > 0)
        fault(world, "accepts from another's descriptor");
    errno = world->starved ? EMFILE : EAGAIN;
    if (world->starved || world->waiting == 0)
        return -1;
    world->waiting--;
    return 1000;
}

int __wrap_close(int fd)
{
    if (world != NULL && fd == world->fd) {
        world->closes++;
        if (world->scene->inherited && sim_kernel_watches(world->loop, fd))
            fault(world, "closed while epoll watches the socket, which others have, too");
    }
    return __real_close(fd);
}

static bool readable(void *arg, int fd)
{
    const struct world *w = arg;

    return fd == w->fd && w->waiting > 0;
}

/* ---- what can happen ---- */

static void shut(struct world *w)
{
    struct listener *l = w->listener;

    w->listener = NULL;
    listener_close(l);
}

static void on_client(int fd, void *arg)
{
    struct world *w = arg;

    (void)fd;
    if (w->listener == NULL)
        fault(w, "a client after the end");
    w->accepted++;
    if (w->handler_closes)
        shut(w);
}

static void close_in_work(void *arg)
{
    shut(arg);
}

static void run_work(struct world *w, size_t i)
{
    struct other *o = w->other;

    if (o == NULL) {
        fault(w, "work of who has ended");
        return;
    }
    if (o->queued_turn[i] != 0) {
        if (o->queued_turn[i] == loop_turn(w->loop) && w->scene->queue != LOOP_AT_LEAVE)
            fault(w, "what was queued while the queue ran, ran in the same turn");
        return;
    }
    o->queued_turn[i] = loop_turn(w->loop);
    lifetime_queue(&o->works[i]);
}

static void run_first(void *arg)
{
    run_work(arg, 0);
}

static void run_second(void *arg)
{
    run_work(arg, 1);
}

static void run_third(void *arg)
{
    run_work(arg, 2);
}

static void end_other(void *arg)
{
    struct world *w = arg;
    struct other *o = w->other;

    w->other = NULL;
    if (o != NULL)
        lifetime_retire(&o->life, free, o);
}

static void other_new(struct world *w)
{
    static loop_fn *const runs[WORKS] = {run_first, run_second, run_third};
    struct other *o = calloc(1, sizeof(*o));

    if (o == NULL)
        tap_bail("out of memory");
    w->other = o;
    lifetime_init(&o->life, w->loop, "somebody else");
    for (size_t i = 0; i < WORKS; i++)
        lifetime_work_init(&o->life, &o->works[i], w->scene->queue, runs[i], w);
}

static void happen(struct world *w, enum happening what)
{
    switch (what) {
    case OWNER_CLOSES:
        shut(w);
        break;
    case OWNER_PAUSES:
        if (w->listener != NULL)
            listener_pause(w->listener);
        break;
    case OWNER_RESUMES:
        if (w->listener != NULL)
            listener_resume(w->listener);
        break;
    case WORK_CLOSES:
        loop_queue(w->loop, w->scene->queue, &w->closing, close_in_work, w);
        break;
    case WORK_COMES:
        for (size_t i = 0; i < WORKS && w->other != NULL; i++)
            lifetime_queue(&w->other->works[i]);
        break;
    case WORK_ENDS:
        loop_queue(w->loop, w->scene->queue, &w->ending, end_other, w);
        break;
    default:
        break;
    }
}

/* Each as an event of its own, so that it has its place in the order. */
static bool is_due(void *arg)
{
    return *(bool *)arg;
}

#define EVENT(name, what)                                                                                              \
    static void name(void *arg)                                                                                        \
    {                                                                                                                  \
        *(bool *)arg = false;                                                                                          \
        loop_enter(world->loop);                                                                                       \
        happen(world, what);                                                                                           \
        loop_leave(world->loop);                                                                                       \
    }
EVENT(owner_closes, OWNER_CLOSES)
EVENT(owner_pauses, OWNER_PAUSES)
EVENT(owner_resumes, OWNER_RESUMES)
EVENT(work_closes, WORK_CLOSES)
EVENT(work_comes, WORK_COMES)
EVENT(work_ends, WORK_ENDS)

static loop_fn *const events[HAPPENINGS] = {
    [OWNER_CLOSES] = owner_closes, [OWNER_PAUSES] = owner_pauses, [OWNER_RESUMES] = owner_resumes,
    [WORK_CLOSES] = work_closes,   [WORK_COMES] = work_comes,     [WORK_ENDS] = work_ends,
};

/* What does not wait for its turn, and what does. */
static void begin(struct world *w, enum happening what)
{
    if (events[what] != NULL) {
        w->due[what] = true;
        sim_source_add(w->loop, &w->sources[what], is_due, events[what], &w->due[what]);
    } else if (what == TIMERS) {
        sim_pass_busy_ms(w->loop, LONG_MS);
    } else if (what == LONG_SILENCE) {
        sim_pass_ms(LONG_MS);
    } else if (what == HANDLER_CLOSES) {
        w->handler_closes = true;
    } else {
        w->waiting++;
        w->starved |= what == NO_DESCRIPTORS;
    }
}

/* ---- orders ---- */

static size_t choose(void *arg, size_t n)
{
    struct orders *o = arg;

    if (o->at == CHOICES)
        return 0;
    if (o->at == o->n) {
        o->taken[o->n] = 0;
        o->of[o->n++] = (unsigned char)n;
    }
    return o->taken[o->at++];
}

/* The next order; false when all were had. */
static bool advance(struct orders *o)
{
    o->at = 0;
    while (o->n > 0 && o->taken[o->n - 1] + 1 >= o->of[o->n - 1])
        o->n--;
    if (o->n == 0)
        return false;
    o->taken[o->n - 1]++;
    return true;
}

/* ---- one story ---- */

static int listening_socket(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0 || listen(fd, 5) != 0)
        tap_bail("listen");
    return fd;
}

static void open_listener(struct world *w, int theirs)
{
    struct err err = {.text = ""};
    int next = dup(theirs);

    if (w->scene->inherited) {
        w->listener = listener_adopt(w->loop, next, on_client, w, &err);
    } else {
        __real_close(next);
        w->listener = listener_open(w->loop, "127.0.0.1", 0, on_client, w, &err);
    }
    if (w->listener == NULL)
        tap_bail("%s", err.text);
    w->fd = next; /* the lowest that was free: a listener that is opened has the same */
}

static void settle(struct world *w)
{
    if (!sim_settle(w->loop, 200))
        fault(w, "the loop does not come to rest");
}

static void live(struct world *w)
{
    if (w->scene->moment == JUST_OPENED)
        return;
    settle(w);
    switch (w->scene->moment) {
    case HAS_ACCEPTED:
        w->waiting++;
        settle(w);
        break;
    case PAUSED:
        listener_pause(w->listener);
        settle(w);
        break;
    case STARVING:
        w->waiting++;
        w->starved = true;
        (void)sim_turn(w->loop);
        w->starved = false;
        break;
    case CLOSED:
        shut(w);
        break;
    default:
        break;
    }
}

/* Whoever still waits comes in, unless the door is shut; then it is, and all is over. */
static void wind_down(struct world *w)
{
    sim_order(w->loop, NULL, NULL);
    w->starved = w->handler_closes = false;
    if (w->listener != NULL) {
        listener_resume(w->listener);
        settle(w);
        sim_pass_ms(LONG_MS); /* descriptors are looked for again */
        settle(w);
        if (w->waiting > 0)
            fault(w, "nobody lets a client in");
    }
    shut(w);
    end_other(w);
    settle(w);
    if (w->closes != 1)
        fault(w, "the descriptor was not closed once");
    for (size_t i = 0; i < HAPPENINGS; i++)
        sim_source_remove(&w->sources[i]);
}

static const char *tell_in_order(struct loop *l, const struct scene *s, int theirs, struct orders *o)
{
    struct world w = {.loop = l, .scene = s, .fd = -1};

    world = &w;
    sim_descriptors(l, readable, &w);
    other_new(&w);
    open_listener(&w, theirs);
    live(&w);
    for (int what = HAPPENINGS; what-- > 0;) /* time passes first */
        if ((s->happens & 1U << what) != 0)
            begin(&w, (enum happening)what);
    sim_order(l, choose, o);
    for (unsigned i = 0; i < TURNS; i++)
        (void)sim_turn(l);
    wind_down(&w);
    world = NULL;
    return w.fault;
}

static const char *tell(struct loop *l, const struct scene *s, int theirs, unsigned *orders)
{
    struct orders o = {.n = 0};
    const char *why;

    do {
        ++*orders;
        why = tell_in_order(l, s, theirs, &o);
    } while (why == NULL && advance(&o));
    return why;
}

static void say(const struct scene *s, const char *why)
{
    diag("%s: %s socket, moment %u, queue %u, at once:", why, s->inherited ? "inherited" : "own", (unsigned)s->moment,
         (unsigned)s->queue);
    for (size_t i = 0; i < HAPPENINGS; i++)
        if ((s->happens & 1U << i) != 0)
            diag("  %s", words[i]);
}

static void test_all(struct loop *l, bool inherited, enum loop_queue queue, const char *name)
{
    struct scene s = {.inherited = inherited, .queue = queue};
    unsigned scenes = 0, orders = 0, faults = 0;
    int theirs = listening_socket();

    for (unsigned moment = 0; moment < MOMENTS; moment++)
        for (s.happens = 1; s.happens < 1U << HAPPENINGS; s.happens++) {
            const char *why;

            if (__builtin_popcount(s.happens) > AT_ONCE)
                continue;
            s.moment = (enum moment)moment;
            scenes++;
            why = tell(l, &s, theirs, &orders);
            if (why != NULL && faults++ < 5)
                say(&s, why);
        }
    close(theirs);
    ok(faults == 0, "%s, %s: %u scenes, %u orders", inherited ? "an inherited socket" : "an own socket", name, scenes,
       orders);
}

int main(void)
{
    struct loop *l;

    sim_clock_start();
    l = loop_new(NULL);
    for (int inherited = 0; inherited < 2; inherited++) {
        test_all(l, inherited, LOOP_DEFERRED, "work at the end of the turn");
        test_all(l, inherited, LOOP_BULK, "work that has a part of the turn");
        test_all(l, inherited, LOOP_AT_LEAVE, "work at the end of a callback");
    }
    loop_free(l);
    return tap_end();
}
