/* SPDX-License-Identifier: Apache-2.0 */
/* What is noticed of servers between two polls of their discovery, and said of them in the list of changes. */
#include "base/changes.h"
#include "base/log.h"
#include "cluster/cluster_internal.h"
#include "cluster/disco_news.h"
#include "cluster/pulse.h"
#include "cluster/refresh.h"

static const char *peer_name(const struct peer *p)
{
    return p->hostname[0] != '\0' ? p->hostname : p->id;
}

static size_t servers(void *arg)
{
    const struct cluster *c = arg;

    return 1 + (c->peers == NULL ? 0 : peers_count_life(c->peers, PEER_LIVE));
}

static size_t servers_of_peer(void *arg)
{
    const struct peer *p = arg;

    return servers(p->owner);
}

static void say(struct cluster *c, const char *name, const struct pulse *p, enum pulse_state before)
{
    struct pulse_view v;

    pulse_look(p, &v);
    if (v.state == PULSE_SILENT)
        changes_add(c->o.changes, CHANGE_FAILED, name, "does not answer: %s", v.failure);
    else if (before == PULSE_SILENT)
        changes_add(c->o.changes, CHANGE_RECOVERED, name, "answers again, %s", v.says->binary);
    else
        changes_add(c->o.changes, before == PULSE_UNKNOWN ? CHANGE_CAME : CHANGE_CHANGED, name, "is %s%s%s",
                    v.says->binary[0] == '\0' ? "there" : v.says->binary,
                    v.says->emulated[0] == '\0' ? "" : ", emulates ", v.says->emulated);
    log_v(2, "Server probed", LT("server", name), LT("state", pulse_name(v.state)), LT("err", v.failure));
}

/* That it answers as long as anybody has asked is none. */
static bool is_news(const struct pulse *p, enum pulse_state before)
{
    struct pulse_view v;

    pulse_look(p, &v);
    return before != PULSE_UNKNOWN || v.state == PULSE_SILENT;
}

/* Discovery is polled as well: what is believed of it hangs on that, and on nothing that a pulse says. */
static void on_local_pulse(void *arg, enum pulse_state before)
{
    struct cluster *c = arg;

    say(c, c->hostname, c->pulse, before);
    if (is_news(c->pulse, before))
        (void)refresh_trigger(c->local, REFRESH_PULSE);
}

static void on_peer_pulse(void *arg, enum pulse_state before)
{
    struct peer *p = arg;

    say(p->owner, peer_name(p), p->pulse, before);
    if (p->refresh != NULL && is_news(p->pulse, before))
        (void)refresh_trigger(p->refresh, REFRESH_PULSE);
}

struct pulse *cluster_new_pulse(struct cluster *c, struct peer *peer)
{
    const struct pulse_opts o = {
        .api = c->api,
        .peer = peer != NULL,
        .servers = peer != NULL ? servers_of_peer : servers,
        .changed = peer != NULL ? on_peer_pulse : on_local_pulse,
        .arg = peer != NULL ? (void *)peer : (void *)c,
    };

    return pulse_new(&o);
}

void cluster_set_pulse(struct cluster *c, struct pulse *p, struct origin *o)
{
    pulse_set_origin(p, c->o.pulse ? o : NULL);
}

static void say_news(const struct cluster *c, const char *name, const struct disco_news *n)
{
    if (n->came[0] == '\0' && n->gone[0] == '\0' && n->changed[0] == '\0')
        return;
    changes_add(c->o.changes, CHANGE_CHANGED, name, "serves another set of APIs:%s%s%s%s%s%s",
                n->gone[0] == '\0' ? "" : " gone ", n->gone, n->came[0] == '\0' ? "" : " new ", n->came,
                n->changed[0] == '\0' ? "" : " changed ", n->changed);
}

void cluster_on_local_news(void *arg, const struct disco_news *news)
{
    const struct cluster *c = arg;

    say_news(c, c->hostname, news);
}

void cluster_on_peer_news(void *arg, const struct disco_news *news)
{
    const struct peer *p = arg;

    say_news(p->owner, peer_name(p), news);
}
