/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager says of the unit, by a program in place of systemctl; and of which unit it is asked. */
#include "check/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/descriptors.h"
#include "lib/tap.h"

static char root[] = "/tmp/unit_test.XXXXXX";

static void put(const char *path, const char *text)
{
    char whole[256];
    FILE *f;

    (void)snprintf(whole, sizeof(whole), "%s/%s", root, path);
    f = fopen(whole, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0 || chmod(whole, 0700) != 0)
        tap_bail("cannot write %s", whole);
}

/* It says this of that unit, and nothing of any other. */
static void says(const char *unit, const char *text)
{
    char script[1024];

    (void)snprintf(script, sizeof(script), "#!/bin/sh\n[ \"$1 $3 $#\" = 'show %s 3' ] && printf '%s'\n", unit, text);
    put("systemctl", script);
}

static void ask(pid_t pid, struct unit *u)
{
    char program[256];

    (void)snprintf(program, sizeof(program), "%s/systemctl", root);
    unit_read(program, root, pid, u);
}

static void properties(void)
{
    static const struct {
        const char *name, *says, *user, *status;
        bool loaded, failing, disabled;
        uint64_t descriptors;
    } rows[] = {
        {"one that runs",
         "ActiveState=active\\nSubState=running\\nLoadState=loaded\\nLimitNOFILE=1048576\\nUser=mvproxy\\nStatusText="
         "Serving\\n"
         "UnitFileState=enabled\\nTriggeredBy=\\n",
         "mvproxy", "", true, false, false, 1048576},
        {"one that fails, and waits",
         "LoadState=loaded\\nActiveState=activating\\nSubState=auto-restart\\nStatusText=Cannot start: \\033[31mx\\n",
         "", "Cannot start: ?[31mx", true, true, false, 0},
        {"one that has failed", "LoadState=loaded\\nActiveState=failed\\nSubState=failed\\n", "", "", true, true, false,
         0},
        {"one that nothing starts",
         "LoadState=loaded\\nActiveState=active\\nUnitFileState=disabled\\nLimitNOFILE=infinity\\n", "", "", true,
         false, true, UINT64_MAX},
        {"one that its socket starts",
         "LoadState=loaded\\nActiveState=active\\nUnitFileState=disabled\\nTriggeredBy=mvproxy.socket\\n", "", "", true,
         false, false, 0},
        {"none", "LoadState=not-found\\nLimitNOFILE=524288\\nUser=x\\n", "", "", false, false, false, 0},
        {"nothing", "", "", "", false, false, false, 0},
        {"half a line", "LoadState=loaded\\nUser", "", "", true, false, false, 0},
    };
    struct unit u;

    for (size_t i = 0; i < ROWS(rows); i++) {
        says("mvproxy.service", rows[i].says);
        ask(0, &u);
        ok(u.loaded == rows[i].loaded && u.failing == rows[i].failing && u.disabled == rows[i].disabled, "%s: %d %d %d",
           rows[i].name, u.loaded, u.failing, u.disabled);
        is_str(u.user, rows[i].user, "its user");
        is_str(u.status, rows[i].status, "what it said");
        is_u64(u.descriptors, rows[i].descriptors, "descriptors");
    }
}

/* The guide's drop-in, as systemctl shows it. */
static void leave(void)
{
    struct unit u;

    says("mvproxy.service",
         "LoadState=loaded\\nExecStartPre={ path=/usr/bin/setfacl ; argv[]=setfacl -m u:x:r /k ; }\\n");
    ask(0, &u);
    ok(u.gives_leave, "it gives its user leave to read keys");
    says("mvproxy.service", "LoadState=loaded\\nExecStartPre=\\n");
    ask(0, &u);
    ok(!u.gives_leave, "it does not");
}

static void low_ports(void)
{
    static const struct {
        const char *name, *says;
        bool may;
    } rows[] = {
        {"as it ships", "User=mvproxy\\nCapabilityBoundingSet=\\nAmbientCapabilities=\\nPrivateUsers=yes\\n", false},
        {"by the drop-in",
         "User=mvproxy\\nCapabilityBoundingSet=cap_net_bind_service\\nAmbientCapabilities=cap_net_bind_service\\n"
         "PrivateUsers=no\\n",
         true},
        {"in a user namespace",
         "User=mvproxy\\nCapabilityBoundingSet=cap_net_bind_service\\nAmbientCapabilities=cap_net_bind_service\\n"
         "PrivateUsers=yes\\n",
         false},
        {"not in the bounding set",
         "User=mvproxy\\nCapabilityBoundingSet=\\nAmbientCapabilities=cap_net_bind_service\\nPrivateUsers=no\\n",
         false},
        {"not ambient",
         "User=mvproxy\\nCapabilityBoundingSet=cap_net_bind_service\\nAmbientCapabilities=\\nPrivateUsers=no\\n",
         false},
        {"as root", "CapabilityBoundingSet=cap_chown cap_net_bind_service\\nPrivateUsers=no\\n", true},
        {"by its socket", "User=mvproxy\\nTriggeredBy=mvproxy.socket\\nPrivateUsers=yes\\n", true},
    };
    char text[512];
    struct unit u;

    for (size_t i = 0; i < ROWS(rows); i++) {
        (void)snprintf(text, sizeof(text), "LoadState=loaded\\n%s", rows[i].says);
        says("mvproxy.service", text);
        ask(0, &u);
        is_int(u.binds_low, rows[i].may, "low ports: %s", rows[i].name);
    }
}

static void names(void)
{
    static const struct {
        const char *group, *unit;
    } rows[] = {
        {"0::/system.slice/mvproxy.service\n", "mvproxy.service"},
        {"12:cpu:/\n1:name=systemd:/system.slice/system-mvproxy.slice/mvproxy@blue.service\n0::/\n",
         "mvproxy@blue.service"},
        {"0::/kubepods.slice/pod1/x.scope\n", ""},
        {"0::/system.slice/other-mvproxy.service\n", ""},
        {"", ""},
    };
    char path[256];
    struct unit u;

    (void)snprintf(path, sizeof(path), "%s/7", root);
    if (mkdir(path, 0700) != 0)
        tap_bail("mkdir");
    for (size_t i = 0; i < ROWS(rows); i++) {
        put("7/cgroup", rows[i].group);
        says(rows[i].unit, "LoadState=loaded\\n");
        ask(7, &u);
        is_str(u.name, rows[i].unit, "a process of %s", rows[i].unit);
        is_int(u.loaded, rows[i].unit[0] != '\0', "it is asked for");
    }
    ask(8, &u);
    ok(!u.loaded, "a process that is gone");
    unit_read(NULL, root, 0, &u);
    ok(!u.loaded, "no service manager");
    unit_read("/nonexistent/systemctl", root, 0, &u);
    ok(!u.loaded, "no such program");
}

int main(void)
{
    unsigned descriptors;
    char command[64];

    if (mkdtemp(root) == NULL)
        tap_bail("mkdtemp");
    descriptors = descriptors_open();
    properties();
    leave();
    low_ports();
    names();
    is_u64(descriptors_open(), descriptors, "all files are closed");
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    if (system(command) != 0)
        diag("%s stays", root);
    return tap_end();
}
