/* SPDX-License-Identifier: Apache-2.0 */
#include "check/visits.h"

#include <stdio.h>

#include "base/state.h"
#include "cluster/api.h"
#include "cluster/cluster.h"
#include "kube/readyz.h"
#include "net/loop.h"

enum { AT_ONCE = 16, BODY_BYTES = 2 << 20, TURN_MS = 100, BEGIN_MS = 60000, PATIENCE_MS = 10000 };

static const char *const state_names[] = {
    [VISIT_NONE] = "none",       [VISIT_WAITING] = "waiting", [VISIT_ASKED] = "asked",
    [VISIT_READING] = "reading", [VISIT_OVER] = "over",
};
static const uint32_t state_next[] = {
    [VISIT_NONE] = 0,
    [VISIT_WAITING] = STATE(VISIT_ASKED),
    [VISIT_ASKED] = STATE(VISIT_READING) | STATE(VISIT_OVER),
    [VISIT_READING] = STATE(VISIT_OVER),
    [VISIT_OVER] = 0,
};
static const struct state_table states = STATE_TABLE("visit", state_names, state_next);

static void move(struct visit *one, enum visit_state to)
{
    state_move(&states, &one->state, to);
}

static bool under_way(const struct visit *one)
{
    return one->state == VISIT_ASKED || one->state == VISIT_READING;
}

static bool is_read(const struct served *v, const char *id)
{
    for (size_t i = 0; i < served_n_peers(v); i++)
        if (strcmp(served_peer_at(v, i)->id, id) == 0)
            return served_peer_at(v, i)->discovery_known;
    return false;
}

static void start(struct scene *s, struct visit *one)
{
    const struct api_request r = {.origin = one->peer->origin, .peer = true, .target = SLICE_LIT("/version")};

    buf_init(&one->body, BODY_BYTES);
    one->question = (struct question){&one->answer, &one->body, false};
    move(one, VISIT_ASKED);
    scene_send(s, &r, &one->question);
}

/* With its etcd away a server says its version and all of its discovery as ever. */
static void ask_ready(struct scene *s, struct visit *one)
{
    const struct api_request r = {
        .origin = one->peer->origin, .peer = true, .target = SLICE_LIT("/readyz"), .accept = SLICE_LIT("text/plain")};

    one->question = (struct question){&one->ready, &one->body, false};
    scene_send(s, &r, &one->question);
}

static void take_answer(struct scene *s, struct visit *one, uint64_t now_ms)
{
    const struct answer *a = &one->answer;
    bool said = a->ok && a->status == 200 && version_read(a->body, &one->version) && one->version.major != 0;

    if (!said)
        one->version.major = 0;
    one->since_ms = now_ms;
    move(one, said ? VISIT_READING : VISIT_OVER);
    one->answer.body = SLICE_NONE;
    if (said)
        ask_ready(s, one);
}

static void take_ready(struct visit *one)
{
    enum { SHOWN = 64 }; /* of a name; a longer one is no check of kube-apiserver's */
    const struct answer *a = &one->ready;
    struct slice failed = readyz_failed(a->body);

    if (!a->ok)
        (void)snprintf(one->unready, sizeof(one->unready), "/readyz: %s", a->failure);
    else if (a->status >= 500 && (failed.n == 0 || failed.n > SHOWN))
        (void)snprintf(one->unready, sizeof(one->unready), "/readyz answers %u", a->status);
    else if (a->status >= 500)
        (void)snprintf(one->unready, sizeof(one->unready), "/readyz answers %u (%.*s failed)", a->status, (int)failed.n,
                       failed.p);
    one->etcd_fails = a->ok && a->status >= 500 && readyz_etcd_fails(a->body);
    one->ready.body = SLICE_NONE;
}

static void go_on(struct scene *s, struct visit *one, const struct served *v, uint64_t now_ms)
{
    if (one->state == VISIT_ASKED && one->question.over)
        take_answer(s, one, now_ms);
    if (one->state == VISIT_READING) {
        one->read = is_read(v, one->peer->id);
        if (!one->question.over || (!one->read && now_ms - one->since_ms < PATIENCE_MS))
            return;
        take_ready(one);
        move(one, VISIT_OVER);
    }
    if (one->state == VISIT_OVER)
        buf_free(&one->body);
}

/* NULL: nobody waits. */
static struct visit *next_waiting(struct visit *visits, size_t n)
{
    struct visit *silent = NULL;

    for (size_t i = 0; i < n; i++) {
        if (visits[i].state == VISIT_WAITING && !visits[i].silent)
            return &visits[i];
        if (visits[i].state == VISIT_WAITING && silent == NULL)
            silent = &visits[i];
    }
    return silent;
}

static size_t count_under_way(const struct visit *visits, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += under_way(&visits[i]);
    return count;
}

void visits_make(struct scene *s, struct cluster *c, struct visit *visits, size_t n)
{
    uint64_t begin_ms = loop_now_ms(s->loop), now_ms = begin_ms;
    size_t busy = 0;

    for (;;) {
        struct visit *next;

        while (busy < AT_ONCE && now_ms - begin_ms < BEGIN_MS && (next = next_waiting(visits, n)) != NULL) {
            start(s, next);
            go_on(s, next, cluster_served(c), now_ms);
            busy += under_way(next);
        }
        if (busy == 0)
            return;
        loop_run_once(s->loop, TURN_MS);
        now_ms = loop_now_ms(s->loop);
        for (size_t i = 0; i < n; i++)
            go_on(s, &visits[i], cluster_served(c), now_ms);
        busy = count_under_way(visits, n);
    }
}

size_t visits_with_records(const struct visit *visits, size_t n)
{
    enum { FIRST_MINOR = 36 };
    size_t with = 0;

    for (size_t i = 0; i < n; i++) {
        const struct visit *v = &visits[i];

        with +=
            v->answer.ok && (v->answer.hop[0] != '\0' || (v->version.major == 1 && v->version.minor >= FIRST_MINOR));
    }
    return with;
}
