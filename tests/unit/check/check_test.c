/* SPDX-License-Identifier: Apache-2.0 */
/* Which sections are looked at, in which order, and which are not for want of what an earlier one should have found. */
#include "check/check.h"

#include <json-c/json.h>
#include <stdio.h>

#include "check/sections.h"
#include "lib/tap.h"

enum { ROOM = 4096 };

/* What the sections find. */
static struct {
    bool elsewhere, config, trusted, connects, local_answers;
} facts;
static unsigned freed;
static struct config config;

static struct unit unit; /* what is told of it */
static char asked[256], user[256];
static bool etcd_asked; /* before the local server is */

/* ---- in place of check/unit.c, the sections and check/scene.c ---- */

void unit_read(const char *systemctl, const char *proc, pid_t pid, struct unit *out)
{
    (void)snprintf(asked, sizeof(asked), "%s %s %ld", systemctl, proc, (long)pid);
    *out = unit;
}

static void section(struct scene *s, enum check_section which, const char *name)
{
    findings_enter(s->f, which);
    findings_good(s->f, name, "%s", name);
}

bool section_elsewhere(struct scene *s)
{
    (void)s;
    return facts.elsewhere;
}

void section_configuration(struct scene *s)
{
    section(s, CHECK_CONFIGURATION, "configuration");
    (void)snprintf(user, sizeof(user), "%s", s->user == NULL ? "nobody" : s->user);
    s->config = facts.config ? &config : NULL;
}

void section_certificates(struct scene *s)
{
    section(s, CHECK_CERTIFICATES, "certificates");
    s->trusted = facts.trusted;
}

void section_etcd_begin(struct scene *s)
{
    (void)s;
    etcd_asked = true;
}

void section_local(struct scene *s)
{
    section(s, CHECK_LOCAL, etcd_asked ? "local" : "local, and etcd waits for it");
    etcd_asked = false;
    s->local_answers = facts.local_answers;
}

void section_identity(struct scene *s)
{
    section(s, CHECK_IDENTITY, "identity");
}

void section_peers(struct scene *s)
{
    section(s, CHECK_PEERS, "peers");
}

void section_etcd(struct scene *s)
{
    section(s, CHECK_ETCD, "etcd");
}

void section_host(struct scene *s)
{
    section(s, CHECK_HOST, "host");
}

bool scene_connect(struct scene *s)
{
    (void)s;
    return facts.connects;
}

void scene_free(struct scene *s)
{
    (void)s;
    freed++;
}

/* ---- the whole ---- */

#define FILES "configuration\nok configuration\n\ncertificates\nok certificates\n\n"
#define LOCAL "local API server\nok local\n\n"
#define REST "etcd\nok etcd\n\nhost\nok host\n\n"

static const struct {
    bool config, trusted, connects, local_answers;
    const char *want;
} rows[] = {
    {false, true, true, true, "configuration\nok configuration\n\nEverything is well: 1 checks.\n"},
    {true, false, true, true,
     FILES "local API server\n-- not examined: what is wrong with the certificates comes first\n\nhost\nok host\n\n"
           "Everything is well: 3 checks.\n"},
    {true, true, false, true,
     FILES "local API server\n-- not examined: what is wrong with the certificates comes first\n\nhost\nok host\n\n"
           "Everything is well: 3 checks.\n"},
    {true, true, true, false,
     FILES LOCAL
     "identity and Leases\n-- not examined: the local API server does not answer\n\npeers\nok peers\n\n" REST
     "Everything is well: 6 checks.\n"},
    {true, true, true, true,
     FILES LOCAL "identity and Leases\nok identity\n\npeers\nok peers\n\n" REST "Everything is well: 7 checks.\n"},
};

/* Whose service it is: of the process that answers, or of the unit that would be started. */
static void units(void)
{
    static const struct {
        const char *name, *proc, *unit_user;
        bool runs, loaded;
        pid_t pid;
        const char *asked, *user;
    } cases[] = {
        {"before a start", NULL, "mvproxy", false, true, 0, "systemctl /proc 0", "mvproxy"},
        {"another /proc", "/host/proc", "mvproxy", false, true, 7, "systemctl /host/proc 0", "mvproxy"},
        {"a unit of root's", NULL, "", false, true, 0, "systemctl /proc 0", "root"},
        {"a short name", NULL, "u", false, true, 0, "systemctl /proc 0", "u"},
        {"no unit", NULL, "mvproxy", false, false, 0, "systemctl /proc 0", "own"},
        {"a process", NULL, "mvproxy", true, true, 7, "systemctl /proc 7", "own"},
        {"one whose pid is not known", NULL, "mvproxy", true, true, 0, "", "own"},
    };

    for (size_t i = 0; i < ROWS(cases); i++) {
        struct json_object *status = cases[i].runs ? json_object_new_object() : NULL;
        const struct check_opts o = {
            .systemctl = "systemctl", .proc = cases[i].proc, .status = status, .pid = cases[i].pid, .user = "own"};
        struct findings *f = findings_new();

        asked[0] = '\0';
        facts.config = false;
        unit = (struct unit){.loaded = cases[i].loaded};
        (void)snprintf(unit.user, sizeof(unit.user), "%s", cases[i].unit_user);
        check_run(&o, f);
        is_str(asked, cases[i].asked, "%s: asked", cases[i].name);
        is_str(user, cases[i].user, "%s: as whom it runs", cases[i].name);
        findings_free(f);
        json_object_put(status);
    }
}

static void elsewhere(void)
{
    const struct check_opts o = {.before = true};
    struct findings *f = findings_new();
    struct buf out;

    facts.elsewhere = true;
    freed = 0;
    buf_init(&out, ROOM);
    check_run(&o, f);
    findings_print_text(f, false, &out);
    is_slice(buf_slice(&out), "Everything is well: 0 checks.\n", "what is elsewhere is not looked at");
    is_u64(freed, 1, "and let go");
    buf_free(&out);
    findings_free(f);
    facts.elsewhere = false;
}

int main(void)
{
    elsewhere();
    units();
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct check_opts o = {.before = true};
        struct findings *f = findings_new();
        struct buf out;

        facts.config = rows[i].config;
        facts.trusted = rows[i].trusted;
        facts.connects = rows[i].connects;
        facts.local_answers = rows[i].local_answers;
        freed = 0;
        buf_init(&out, ROOM);
        check_run(&o, f);
        findings_print_text(f, false, &out);
        is_slice(buf_slice(&out), rows[i].want, "row %zu", i);
        is_u64(freed, 1, "row %zu: let go", i);
        buf_free(&out);
        findings_free(f);
    }
    return tap_end();
}
