/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/heal_denial.h"

#include "kube/status.h"
#include "proxy/decide.h"
#include "proxy/job.h"

enum served_half heal_half(const struct heal_subject *of)
{
    return of->path.kind == SURFACE_RESOURCES && of->path.group.n == 0 ? SERVED_CORE : SERVED_APIS;
}

bool heal_is_about_one(const struct heal_subject *of)
{
    return of->path.kind == SURFACE_GROUP || of->path.kind == SURFACE_RESOURCES;
}

static bool is_in(const struct disco_doc *doc, const struct heal_subject *of)
{
    if (doc == NULL)
        return false;
    return of->path.kind == SURFACE_GROUP ? disco_doc_group(doc, of->path.group) != NULL
                                          : disco_doc_version(doc, of->path.group, of->path.version) != NULL;
}

static bool is_in_half(const struct disco *d, const struct heal_subject *of)
{
    return is_in(disco_half(d, heal_half(of) == SERVED_CORE), of);
}

static bool is_in_local(const struct served *s, const struct heal_subject *of)
{
    return is_in_half(served_local_disco(s), of);
}

static bool is_excluded(const struct served *s, const struct heal_subject *of)
{
    return served_excluded(s, of->path.group, of->path.version);
}

/* Some server that nothing, or not all, is known of. */
static bool may_be_elsewhere(const struct served *s, const struct heal_subject *of)
{
    return served_unknown_peer(s) || served_undiscovered(s, of->path.group, of->path.version);
}

/* The local server has come back serving less, and its discovery has not been read since. */
static bool local_has_drifted(const struct job *j, const struct heal_subject *of)
{
    return j->judge == NULL && !j->looked_again && is_in_local(j->served, of) && !is_excluded(j->served, of);
}

/* If others may have it, what the local server had itself counts as while it is away. */
bool heal_is_unsettled(const struct job *j, const struct heal_subject *of)
{
    bool others = may_be_elsewhere(j->served, of);

    if (!j->unread || !heal_is_about_one(of) || is_excluded(j->served, of))
        return false;
    for (size_t i = 0; i < served_n_peers(j->served) && !others; i++)
        others = is_in_half(served_peer_at(j->served, i)->disco, of);
    return others && is_in_local(j->served, of);
}

/*
 * What a 404 becomes, a 503 with this message; NULL: it stays. What nobody is known to have may still be somebody's.
 * `by_peer`: in place of the local server a peer says so.
 */
static const char *why_withheld(const struct served *s, const struct heal_subject *of, bool by_peer)
{
    /* Nor is it known who there is: as for what is in the group (row 4). */
    if (served_peers_enabled(s) && !served_synced(s) && !served_forbidden(s))
        return STATUS_SYNCING;
    if (is_excluded(s, of))
        return NULL;
    /* It is somebody's: of a peer that has lapsed, or of the local server, in whose place a peer is asked? */
    if (is_in(of->merged, of))
        return (by_peer || !is_in_local(s, of)) && !served_live_peer_names(s, of->path.group, of->path.version)
                   ? STATUS_SERVERS_AWAY
                   : NULL;
    return may_be_elsewhere(s, of) ? STATUS_PEER_UNKNOWN : NULL;
}

/* Others have what the answering server lacks. */
static bool is_elsewhere(const struct job *j, const struct heal_subject *of)
{
    return is_in(of->merged, of) && (j->judge != NULL || !is_in_local(j->served, of)) && !is_excluded(j->served, of);
}

/* Nobody had it when the request came, which may be long ago; by now somebody has it, or may. */
static bool is_outdated(const struct job *j, const struct heal_subject *of)
{
    const struct served *now = cluster_served(j->proxy->cluster);
    struct heal_subject anew = *of;

    if (j->judge != NULL || j->decided_anew || now == j->served || is_in(of->merged, of))
        return false;
    anew.merged = served_merged_doc(now, heal_half(of));
    return is_in(anew.merged, of) || why_withheld(now, &anew, false) != NULL;
}

bool heal_denied(struct job *j, const struct heal_subject *of, bool completed)
{
    bool unsettled = j->judge == NULL && heal_is_unsettled(j, of);
    const char *why;

    if (local_has_drifted(j, of)) {
        decide_again(j, &(struct gvr){of->path.group, of->path.version, SLICE_NONE});
        return true;
    }
    if (is_outdated(j, of)) {
        decide_anew(j);
        return true;
    }
    why = why_withheld(j->served, of, j->judge != NULL || unsettled);
    if (why == NULL && unsettled && !completed)
        why = STATUS_SYNCING;
    if (why != NULL) {
        job_refuse(j, 503, why);
        return true;
    }
    if (is_elsewhere(j, of) && !completed) { /* it will be no different if the client comes again */
        job_refuse(j, 406, STATUS_OTHER_FORM);
        return true;
    }
    return false;
}

const char *heal_outlook(const struct served *s, struct slice path, bool away)
{
    struct heal_subject of = {.path = surface_of(path)};

    if (of.path.kind == SURFACE_SCHEMAS && served_schemas_pending(s))
        return STATUS_SYNCING;
    if (!heal_is_about_one(&of) || (!away && is_in_local(s, &of)))
        return NULL;
    of.merged = served_merged_doc(s, heal_half(&of));
    return why_withheld(s, &of, away);
}
