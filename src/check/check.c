/* SPDX-License-Identifier: Apache-2.0 */
#include "check/check.h"

#include "check/sections.h"

static void ask_servers(struct scene *s)
{
    if (!s->trusted || !scene_connect(s)) {
        findings_enter(s->f, CHECK_LOCAL);
        findings_skipped(s->f, "local-reachable", "not examined: what is wrong with the certificates comes first");
        return;
    }
    section_etcd_begin(s);
    section_local(s);
    if (s->local_answers) {
        section_identity(s);
    } else {
        findings_enter(s->f, CHECK_IDENTITY);
        findings_skipped(s->f, "identity-rights", "not examined: the local API server does not answer");
    }
    section_peers(s);
    section_etcd(s);
}

void check_run(const struct check_opts *o, struct findings *f)
{
    struct scene s = {.opts = o, .f = f, .user = o->user};

    /* Of a process of another PID namespace the unit is not known. */
    if (o->status == NULL || o->pid != 0)
        unit_read(o->systemctl, o->proc == NULL ? "/proc" : o->proc, o->status == NULL ? 0 : o->pid, &s.unit);
    if (o->status == NULL && s.unit.loaded)
        s.user = s.unit.user[0] == '\0' ? "root" : s.unit.user;
    if (section_elsewhere(&s)) {
        scene_free(&s);
        return;
    }
    section_configuration(&s);
    if (s.config != NULL) {
        section_certificates(&s);
        ask_servers(&s);
        section_host(&s);
    }
    scene_free(&s);
}
