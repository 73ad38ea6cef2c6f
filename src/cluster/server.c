/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/server.h"

#include "base/changes.h"
#include "base/log.h"
#include "cluster/disco_news.h"
#include "cluster/peers.h"
#include "cluster/publish.h"

static const char *name(const struct server *s)
{
    return s->peer == NULL ? s->env->hostname : peer_label(s->peer);
}

/* Who answers in its place; NULL: it does, as far as can be told. */
static const char *another(const struct server *s, const struct pulse_view *v)
{
    const struct peer *p = s->peer;
    const char *known;

    if (p == NULL || v->state != PULSE_ANSWERS || !v->hop || strcmp(v->hop_id, p->id) == 0)
        return NULL;
    known = s->handler->known(s->arg, v->hop_id);
    return known != NULL ? known : v->hop_id;
}

/* Nothing of what is answered is this server's, its version neither. */
static void say_elsewhere(struct server *s, const char *other)
{
    changes_add(s->env->o.changes, CHANGE_FAILED, name(s),
                "its address leads to %s, and what answers there is not believed", other);
    log_warning("Address of a server leads to another one, which answers there", LT("server", name(s)),
                LT("leadsTo", other), LT("address", origin_address(s->peer->origin)));
    s->elsewhere = true;
}

static void log_pulse(const struct server *s, const struct pulse_view *v, bool again)
{
    if (v->state == PULSE_UNREACHABLE)
        log_warning("Server does not answer", LT("server", name(s)), LT("err", v->failure));
    else
        log_v(again ? 0 : 2, again ? "Server answers again" : "Server answers", LT("server", name(s)),
              LT("version", v->says->binary));
}

static void say_itself(struct server *s, const struct pulse_view *v, enum pulse_state before)
{
    bool again = before == PULSE_UNREACHABLE || s->elsewhere;
    bool upgraded = s->said.binary[0] != '\0' && strcmp(s->said.binary, v->says->binary) != 0;

    if (v->state == PULSE_UNREACHABLE)
        changes_add(s->env->o.changes, CHANGE_FAILED, name(s), "does not answer: %s", v->failure);
    else if (again)
        changes_add(s->env->o.changes, CHANGE_RECOVERED, name(s), "answers again, %s%s%s", v->says->binary,
                    upgraded ? ", before " : "", upgraded ? s->said.binary : "");
    else
        changes_add(s->env->o.changes, before == PULSE_UNKNOWN ? CHANGE_CAME : CHANGE_CHANGED, name(s), "is %s%s%s%s%s",
                    v->says->binary[0] == '\0' ? "there" : v->says->binary,
                    v->says->emulated[0] == '\0' ? "" : ", emulates ", v->says->emulated, upgraded ? ", before " : "",
                    upgraded ? s->said.binary : "");
    log_pulse(s, v, again);
    s->elsewhere = false;
    if (v->state == PULSE_ANSWERS && v->says->binary[0] != '\0')
        s->said = *v->says;
}

static void say_pulse(struct server *s, const struct pulse_view *v, enum pulse_state before)
{
    const char *other = another(s, v);

    if (other != NULL)
        say_elsewhere(s, other);
    else
        say_itself(s, v, before);
}

/* What is believed hangs on nothing that a pulse says: it has those asked who decide that. */
static void on_pulse(void *arg, enum pulse_state before)
{
    struct server *s = arg;
    struct pulse_view v;

    pulse_look(s->pulse, &v);
    say_pulse(s, &v, before);
    if (before == PULSE_UNREACHABLE && v.state == before) /* for another reason */
        return;
    /* That it answers as long as anybody has asked is no news. */
    if (before != PULSE_UNKNOWN || v.state == PULSE_UNREACHABLE)
        refresh_trigger(s->discovery, REFRESH_PULSE);
    if (v.state == PULSE_UNREACHABLE && s->handler->silent != NULL)
        s->handler->silent(s->arg, s);
}

static void on_news(void *arg, const struct disco_news *n)
{
    const struct server *s = arg;
    bool gone = n->gone[0] != '\0', came = n->came[0] != '\0', changed = n->changed[0] != '\0';

    if (!gone && !came && !changed)
        return;
    changes_add(s->env->o.changes, CHANGE_CHANGED, name(s), "serves another set of APIs:%s%s%s%s%s%s%s%s",
                gone ? " gone: " : "", n->gone, gone && came ? ";" : "", came ? " new: " : "", n->came,
                (gone || came) && changed ? ";" : "", changed ? " changed: " : "", n->changed);
}

static void on_polled(void *arg, bool ok, bool changed)
{
    struct server *s = arg;

    if (ok)
        pulse_answered(s->pulse, refresh_look(s->discovery)->started_ms);
    else
        pulse_doubt(s->pulse);
    if (changed)
        publish_request(s->env->publish);
    s->handler->polled(s->arg, s, ok, changed);
}

static void on_schemas(void *arg)
{
    const struct server *s = arg;

    publish_request(s->env->publish);
}

static const char *is_anothers(void *arg, const char *id)
{
    const struct server *s = arg;

    return s->peer == NULL || strcmp(id, s->peer->id) == 0 ? NULL : s->handler->known(s->arg, id);
}

struct server *server_new(const struct cluster_env *env, struct peer *peer, const struct server_handler *h, void *arg)
{
    struct server *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->env = env;
    s->peer = peer;
    s->handler = h;
    s->arg = arg;
    s->discovery = refresh_new(&(struct refresh_opts){
        .api = env->api,
        .name = name(s)[0] != '\0' ? name(s) : "local",
        .peer = peer != NULL,
        .interval_ms = env->o.refresh_interval_ms,
        .metrics = env->metrics,
        .changes = env->o.changes,
        .on_end = on_polled,
        .on_news = on_news,
        .another = is_anothers,
        .arg = s,
    });
    s->schemas = schemas_new(env->api, peer != NULL, on_schemas, s);
    s->pulse = pulse_new(&(struct pulse_opts){.api = env->api,
                                              .peer = peer != NULL,
                                              .servers = env->servers,
                                              .servers_arg = env->servers_arg,
                                              .changed = on_pulse,
                                              .arg = s});
    if (s->discovery != NULL && s->schemas != NULL && s->pulse != NULL)
        return s;
    server_free(s);
    return NULL;
}

void server_free(struct server *s)
{
    if (s == NULL)
        return;
    refresh_free(s->discovery);
    schemas_free(s->schemas);
    pulse_free(s->pulse);
    mem_free(s);
}

void server_set_origin(struct server *s, struct origin *o, bool pulse)
{
    refresh_set_origin(s->discovery, o);
    pulse_set_origin(s->pulse, pulse ? o : NULL);
}

void server_invalidate(struct server *s)
{
    refresh_invalidate(s->discovery);
    schemas_invalidate(s->schemas);
}
