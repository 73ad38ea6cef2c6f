/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/local_names.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/tap.h"

static char file[64];

static const char hosts[] = "# of this machine\n"
                            "127.0.0.1 localhost\n"
                            "::1\tlocalhost ip6-localhost\n"
                            "\n"
                            "10.0.0.1  cp-a.example.com\tcp-a # cp-x\n"
                            "fd00::a cp-a\r\n"
                            "#10.0.0.9 cp-a\n"
                            "cp-a\n"
                            "  192.0.2.1 indented last";

static const struct {
    const char *name;
    size_t n;
    const char *first, *second;
} rows[] = {
    {"cp-a", 2, "10.0.0.1", "fd00::a"},
    {"CP-A.Example.com", 1, "10.0.0.1", NULL},
    {"cp-a.example.com.", 1, "10.0.0.1", NULL},
    {"ip6-localhost", 1, "::1", NULL},
    {"indented", 1, "192.0.2.1", NULL},
    {"last", 1, "192.0.2.1", NULL},
    {"cp-x", 0, NULL, NULL},
    {"cp", 0, NULL, NULL},
    {"cp-a.example", 0, NULL, NULL},
    {"10.0.0.1", 0, NULL, NULL},
    {"", 0, NULL, NULL},
};

static void put(const char *text)
{
    FILE *f = fopen(file, "w");

    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("%s cannot be written", file);
}

static void test_find(void)
{
    char out[LOCAL_NAMES_MAX][LOCAL_NAMES_BYTES];

    put(hosts);
    for (size_t i = 0; i < ROWS(rows); i++) {
        is_u64(local_names_find(file, rows[i].name, out), rows[i].n, "how many \"%s\" has", rows[i].name);
        if (rows[i].n > 0)
            is_str(out[0], rows[i].first, "the first");
        if (rows[i].n > 1)
            is_str(out[1], rows[i].second, "the second");
    }
    put("1.1.1.1 a\n1.1.1.2 a\n1.1.1.3 a\n1.1.1.4 a\n1.1.1.5 a\n1.1.1.6 a\n1.1.1.7 a\n1.1.1.8 a\n1.1.1.9 a\n");
    is_u64(local_names_find(file, "a", out), LOCAL_NAMES_MAX, "not more than there is room for");
    is_str(out[LOCAL_NAMES_MAX - 1], "1.1.1.8", "the last");
    put("11111111111111111111111111111111111111111111111111111111111111111111 a\n");
    is_u64(local_names_find(file, "a", out), 0, "no address is so long");
    (void)unlink(file);
    is_u64(local_names_find(file, "a", out), 0, "no file");
}

static void test_own(void)
{
    char own[256] = "", other[300];

    if (gethostname(own, sizeof(own) - 2) != 0 || own[0] == '\0')
        tap_bail("this machine has no name");
    ok(local_names_is_own(own), "%s", own);
    (void)snprintf(other, sizeof(other), "%s.", own);
    ok(local_names_is_own(other), "%s", other);
    (void)snprintf(other, sizeof(other), "%.*s", (int)strcspn(own, "."), own);
    ok(local_names_is_own(other), "its first label: %s", other);
    (void)snprintf(other, sizeof(other), "%s-x", own);
    ok(!local_names_is_own(other), "another: %s", other);
    (void)snprintf(other, sizeof(other), "%s.another.invalid", own);
    ok(!local_names_is_own(other), "another: %s", other);
    ok(!local_names_is_own(""), "none");
}

int main(void)
{
    (void)snprintf(file, sizeof(file), "/tmp/mvproxy-local-names-test-%ld", (long)getpid());
    test_find();
    test_own();
    return tap_end();
}
