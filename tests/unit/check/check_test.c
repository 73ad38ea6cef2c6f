/* SPDX-License-Identifier: Apache-2.0 */
/* Which sections are looked at, in which order, and which are not for want of what an earlier one should have found. */
#include "check/check.h"

#include "check/sections.h"
#include "lib/tap.h"

enum { ROOM = 4096 };

/* What the sections find. */
static struct {
    bool config, trusted, connects, local_answers;
} facts;
static unsigned freed;
static struct config config;

/* ---- in place of the sections and check/scene.c ---- */

static void section(struct scene *s, enum check_section which, const char *name)
{
    findings_enter(s->f, which);
    findings_good(s->f, name, "%s", name);
}

bool section_elsewhere(struct scene *s)
{
    (void)s;
    return false;
}

void section_configuration(struct scene *s)
{
    section(s, CHECK_CONFIGURATION, "configuration");
    s->config = facts.config ? &config : NULL;
}

void section_certificates(struct scene *s)
{
    section(s, CHECK_CERTIFICATES, "certificates");
    s->trusted = facts.trusted;
}

void section_local(struct scene *s)
{
    section(s, CHECK_LOCAL, "local");
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

int main(void)
{
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
