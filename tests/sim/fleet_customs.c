/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fleet_customs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"

static const struct custom known[CUSTOMS] = {
    {"stable.example.com", "v1", "crontabs", false},
    {"widgets.example.com", "v1alpha1", "widgets", false},
    {"metrics.k8s.io", "v1beta1", "nodes", true},
};

const struct custom *customs_known(size_t which)
{
    return &known[which];
}

struct customs {
    struct loop *loop;
    struct kube_store *store;
    bool exists[CUSTOMS];
    uint64_t changed_ms[CUSTOMS]; /* 0: never */
    struct list servers;
};

struct custom_server {
    struct list_node node;
    struct customs *customs;
    void (*serve)(void *arg, bool loading);
    void *arg;
    struct loop_timer *timer;
    uint64_t lag_ms, load_ms, loaded_ms;
    bool serves[CUSTOMS], loading, paused, due;
};

struct customs *customs_new(struct loop *l, struct kube_store *s)
{
    struct customs *c = must_zalloc(sizeof(*c));

    c->loop = l;
    c->store = s;
    list_init(&c->servers);
    return c;
}

void customs_free(struct customs *c)
{
    mem_free(c);
}

bool customs_owns(struct slice group)
{
    for (size_t i = 0; i < CUSTOMS; i++)
        if (slice_eq(group, slice_str(known[i].group)))
            return true;
    return false;
}

/* A custom resource has an APIService as well, which kube-apiserver makes. */
static void store(struct customs *c, const struct custom *k, bool exists)
{
    char crd[128], service[128];

    (void)snprintf(crd, sizeof(crd), "%s.%s", k->resource, k->group);
    (void)snprintf(service, sizeof(service), "%s.%s", k->version, k->group);
    if (exists) {
        if (!k->service)
            kube_put_crd(c->store, crd, k->group, k->version);
        kube_put_apiservice(c->store, k->group, k->version, k->service);
    } else {
        if (!k->service)
            kube_delete(c->store, KUBE_CRD, crd);
        kube_delete(c->store, KUBE_APISERVICE, service);
    }
}

void customs_set(struct customs *c, size_t which, bool exists)
{
    if (c->exists[which] == exists)
        return;
    c->exists[which] = exists;
    c->changed_ms[which] = loop_now_ms(c->loop);
    store(c, &known[which], exists);
    for (struct list_node *n = list_first(&c->servers); n != NULL; n = list_next(&c->servers, n)) {
        struct custom_server *s = list_entry(n, struct custom_server, node);

        if (!s->loading && !loop_timer_pending(s->timer))
            loop_timer_set(s->timer, s->lag_ms);
    }
}

bool customs_exists(const struct customs *c, size_t which)
{
    return c->exists[which];
}

uint64_t customs_changed(const struct customs *c, size_t which)
{
    return c->changed_ms[which] == 0 ? 0 : loop_now_ms(c->loop) - c->changed_ms[which] + 1;
}

/* ---- a server ---- */

static void on_timer(void *arg)
{
    struct custom_server *s = arg;

    s->due = s->paused;
    if (s->paused)
        return;
    memcpy(s->serves, s->customs->exists, sizeof(s->serves));
    if (s->loading)
        s->loaded_ms = loop_now_ms(s->customs->loop);
    s->loading = false;
    s->serve(s->arg, false);
}

struct custom_server *customs_server_new(struct customs *c, void (*serve)(void *arg, bool loading), void *arg)
{
    struct custom_server *s = must_zalloc(sizeof(*s));

    s->customs = c;
    s->serve = serve;
    s->arg = arg;
    s->paused = true;
    s->timer = loop_timer_new(c->loop, on_timer, s);
    if (s->timer == NULL)
        abort();
    list_push_back(&c->servers, &s->node);
    return s;
}

void customs_server_free(struct custom_server *s)
{
    list_remove(&s->customs->servers, &s->node);
    loop_timer_free(s->timer);
    mem_free(s);
}

void customs_server_pace(struct custom_server *s, uint64_t lag_ms, uint64_t load_ms)
{
    s->lag_ms = lag_ms;
    s->load_ms = load_ms;
}

void customs_server_start(struct custom_server *s)
{
    memset(s->serves, 0, sizeof(s->serves));
    s->paused = s->due = false;
    s->loading = true;
    s->serve(s->arg, true);
    if (s->load_ms > 0)
        loop_timer_set(s->timer, s->load_ms);
    else
        on_timer(s);
}

void customs_server_pause(struct custom_server *s, bool paused)
{
    s->paused = paused;
    if (!paused && s->due)
        loop_timer_set(s->timer, 0);
}

bool customs_server_loading(const struct custom_server *s)
{
    return s->loading;
}

uint64_t customs_server_loaded(const struct custom_server *s)
{
    return s->loading || s->paused ? 0 : loop_now_ms(s->customs->loop) - s->loaded_ms + 1;
}

void customs_print(const struct custom_server *s, char *apis, size_t n)
{
    size_t at = strlen(apis);

    for (size_t i = 0; i < CUSTOMS && at < n; i++)
        if (s->serves[i])
            at += (size_t)snprintf(apis + at, n - at, "%s%s/%s:%s", at > 0 ? ";" : "", known[i].group, known[i].version,
                                   known[i].resource);
}
