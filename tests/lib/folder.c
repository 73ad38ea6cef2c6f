/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/tap.h"

enum { COMMAND = 4096 };

static char path[] = "/tmp/mvproxy-test-XXXXXX";
static pid_t maker; /* 0: it has not been made. A child that ends takes nothing with it. */
static char start[1024];

static void remove_all(void)
{
    char command[64];

    if (getpid() != maker)
        return;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
    if (chdir("/") != 0 || system(command) != 0)
        diag("%s stays", path);
}

const char *folder(void)
{
    if (maker != 0)
        return path;
    if (getcwd(start, sizeof(start)) == NULL || mkdtemp(path) == NULL)
        tap_bail("mkdtemp");
    maker = getpid();
    if (atexit(remove_all) != 0)
        tap_bail("atexit");
    return path;
}

void folder_enter(void)
{
    if (chdir(folder()) != 0)
        tap_bail("cannot enter %s", path);
}

void folder_write(const char *name, const char *text)
{
    char whole[256];
    FILE *f;

    (void)snprintf(whole, sizeof(whole), "%s/%s", folder(), name);
    f = fopen(whole, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("cannot write %s", whole);
}

void folder_certificates(const char *calls)
{
    const char *top = getenv("top_srcdir");
    char command[COMMAND];
    const char *into = folder();
    int n = snprintf(command, sizeof(command),
                     "cd '%s' && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='%s/tests/lib' python3 -c \"import certs; a = "
                     "certs.Authority('%s'); %s\"",
                     start, top == NULL ? "." : top, into, calls);

    if (n < 0 || n >= COMMAND || system(command) != 0)
        tap_bail("could not make certificates");
}
