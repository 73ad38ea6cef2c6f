/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/snapshots.h"

#include "base/log.h"
#include "cluster/served_size.h"
#include "kube/status.h"
#include "proxy/job.h"

enum {
    MOST_OUTDATED = 4096, /* snapshots: small ones take time to go through, if not memory */
    ENDED_A_TURN = 100,   /* requests */
};

struct outdated {
    size_t n, bytes;
};

static struct job *oldest(const struct proxy *p)
{
    struct list_node *n = list_first(&p->holders);

    return n == NULL ? NULL : list_entry(n, struct job, holder);
}

/* The one that came after that of `j`, of those that are held; the current one if there is none. */
static struct served *next_held(const struct proxy *p, const struct job *j, struct job **holder)
{
    struct list_node *n = list_next(&p->holders, &j->holder);

    while (n != NULL && list_entry(n, struct job, holder)->served == j->served)
        n = list_next(&p->holders, n);
    *holder = n == NULL ? NULL : list_entry(n, struct job, holder);
    return n == NULL ? cluster_served(p->cluster) : (*holder)->served;
}

static struct outdated measure(const struct proxy *p)
{
    const struct served *now = cluster_served(p->cluster);
    struct outdated sum = {0, 0};
    struct job *j = oldest(p), *next;

    while (j != NULL && j->served != now) {
        sum.n++;
        sum.bytes += served_bytes_besides(j->served, next_held(p, j, &next));
        j = next;
    }
    return sum;
}

static void end(struct job *j)
{
    bool begun = j->state == JOB_SERVING || j->state == JOB_RELAYING;

    if (begun)
        job_abort(j, "discovery changed too often since it began");
    else
        job_refuse(j, j->state == JOB_FORWARDING ? 504 : 503, STATUS_OUTDATED);
}

/* False: there are more, who have to wait. */
static bool end_holders(struct proxy *p, const struct served *s, size_t *ended)
{
    for (struct job *j = oldest(p); j != NULL && j->served == s; j = oldest(p)) {
        if (*ended == ENDED_A_TURN)
            return false;
        end(j);
        ++*ended;
    }
    return true;
}

static bool is_too_much(const struct proxy *p, struct outdated o)
{
    size_t most = p->config->max_outdated_bytes;

    return o.n > MOST_OUTDATED || (most > 0 && o.bytes > most);
}

/* What was replaced last stays: whoever reads that has had no more time than from one change to the next. */
static void trim(void *arg)
{
    struct proxy *p = arg;
    struct outdated now = measure(p), before = now;
    size_t ended = 0;
    bool done = true;

    while (done && now.n > 1 && is_too_much(p, now)) {
        struct job *j = oldest(p), *next;
        struct served *s = served_ref(j->served);
        size_t bytes = served_bytes_besides(s, next_held(p, j, &next));

        done = end_holders(p, s, &ended);
        served_unref(s);
        now.n--;
        now.bytes -= bytes;
    }
    if (!done)
        loop_defer(p->loop, &p->trim, trim, p);
    if (ended > 0)
        log_warning("Requests ended: discovery changed too often since they came", LU("requests", ended),
                    LU("snapshots", before.n), LU("bytes", before.bytes));
}

void snapshots_look(struct proxy *p)
{
    uint64_t generation = served_generation(cluster_served(p->cluster));

    if (generation == p->generation)
        return;
    p->generation = generation;
    loop_defer(p->loop, &p->trim, trim, p);
}
