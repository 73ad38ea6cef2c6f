/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/snapshots.h"

#include "base/log.h"
#include "cluster/served_size.h"
#include "kube/status.h"
#include "proxy/answer.h"
#include "proxy/job.h"

enum {
    MOST_OUTDATED = 256, /* snapshots: small ones have names to keep, and take time to go through */
    ENDED_A_TURN = 100,  /* requests */
};

struct outdated {
    size_t n, bytes;
};

static struct job *oldest(const struct proxy *p)
{
    struct list_node *n = list_first(&p->holders.of_old);

    return n == NULL ? NULL : list_entry(n, struct job, holder);
}

/* The one that came after that of `j`, of those that are held; the current one if there is none. */
static struct served *next_held(const struct proxy *p, const struct job *j, struct job **holder)
{
    struct list_node *n = list_next(&p->holders.of_old, &j->holder);

    while (n != NULL && list_entry(n, struct job, holder)->served == j->served)
        n = list_next(&p->holders.of_old, n);
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

/* Most stand where they stood: at `at`. */
static const struct served_peer *find(const struct served *s, const char *id, size_t at)
{
    if (at < served_n_peers(s) && strcmp(served_peer_at(s, at)->id, id) == 0)
        return served_peer_at(s, at);
    for (size_t i = 0; i < served_n_peers(s); i++)
        if (strcmp(served_peer_at(s, i)->id, id) == 0)
            return served_peer_at(s, i);
    return NULL;
}

/* Of the candidates those that are still there and have an address; who was tried keeps his place before the others.
 * Who is gone may have been one that denied: none may count as denied that was not asked. */
static void keep_candidates(struct job *j, const struct served *now)
{
    struct route *r = &j->route;
    size_t n = 0, tried = 0;

    for (size_t i = 0; i < r->n_candidates; i++) {
        size_t at = r->candidates[i];
        const struct served_peer *p = find(now, served_peer_at(j->served, at)->id, at);

        if (p == NULL || p->origin == NULL) {
            j->denied -= i < j->next_candidate && j->denied > 0;
            r->untold = r->untold || (r->unserved && p != NULL); /* there, and cannot be asked */
            continue;
        }
        tried += i < j->next_candidate;
        r->candidates[n++] = (uint16_t)(p - served_peer_at(now, 0));
    }
    r->n_candidates = n;
    j->next_candidate = tried;
}

/* Who waits for a server's answer goes on with what is known now: by that it will be judged, and asked of others.
 * False: the server is not known any more, or has no address, and then none of the candidates is it. */
static bool goes_on(struct job *j)
{
    const struct served *now = cluster_served(j->proxy->cluster);
    size_t at = j->peer == NULL ? 0 : (size_t)(j->peer - served_peer_at(j->served, 0));
    const struct served_peer *peer = j->peer == NULL ? NULL : find(now, j->peer->id, at);

    if (j->state == JOB_DECIDING && j->waiter != NULL) {
        j->judge = NULL;
        job_take_snapshot(j); /* as it would when it has waited */
        return true;
    }
    if (j->state != JOB_FORWARDING || (j->peer != NULL && (peer == NULL || peer->origin == NULL)))
        return false;
    answer_remember(j);
    keep_candidates(j, now);
    j->peer = peer;
    j->judge = NULL;
    j->summary.peer = peer == NULL ? NULL : peer->host;
    j->moved = true;
    job_take_snapshot(j);
    return true;
}

static void end(struct job *j)
{
    bool begun = j->state == JOB_SERVING || j->state == JOB_RELAYING;

    if (begun)
        job_abort(j, "discovery changed too often since it began");
    else
        job_refuse(j, j->state == JOB_FORWARDING ? 504 : 503, STATUS_OUTDATED);
}

/* False: there are more, who have to wait. Those who go on are cheap, and the last in the list. */
static bool end_holders(struct proxy *p, const struct served *s, size_t *ended)
{
    for (struct job *j = oldest(p); j != NULL && j->served == s; j = oldest(p)) {
        if (*ended == ENDED_A_TURN)
            return false;
        if (!goes_on(j)) {
            end(j);
            ++*ended;
        }
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
    struct job *j = oldest(p), *next;
    size_t ended = 0;
    bool done = true;

    while (done && now.n > 1 && is_too_much(p, now) && j != NULL && j->served != cluster_served(p->cluster)) {
        now.n--;
        now.bytes -= served_bytes_besides(j->served, next_held(p, j, &next));
        done = end_holders(p, j->served, &ended); /* whoever drops it last does not free it in this turn (holders.h) */
        j = oldest(p);
    }
    if (!done)
        loop_defer(p->loop, &p->holders.trim, trim, p);
    if (ended > 0)
        log_warning("Requests ended: discovery changed too often since they came", LU("requests", ended),
                    LU("snapshots", before.n), LU("bytes", before.bytes));
}

void snapshots_look(struct proxy *p)
{
    uint64_t generation = served_generation(cluster_served(p->cluster));

    if (generation != p->holders.generation)
        loop_defer(p->loop, &p->holders.trim, trim, p);
    p->holders.generation = generation;
}
