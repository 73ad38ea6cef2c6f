/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket's file, where something else is. */
#include "admin/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/tap.h"
#include "net/loop.h"

static const struct control_command commands[] = {{NULL, NULL, NULL}};
static struct loop *loop;
static char path[64];

static void put_file(const char *at)
{
    FILE *f = fopen(at, "w");

    ok(f != NULL && fputs("key", f) >= 0 && fclose(f) == 0, "a file at %s", at);
}

static bool is_file(const char *at)
{
    struct stat st;

    return lstat(at, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 3;
}

/* The path is a slip of an operator's, and the file his serving key. */
static void test_no_socket(void)
{
    struct control_opts o = {.path = path, .commands = commands};
    struct control *c;
    struct err err = {""};
    char beside[128];

    put_file(path);
    is_null(control_new(loop, &o, &err), "a file of that name");
    ok(strstr(err.text, "is there and no socket") != NULL, "said: %s", err.text);
    ok(is_file(path), "and it stays");
    ok(unlink(path) == 0 && symlink("/nonexistent/socket", path) == 0, "a symbolic link");
    is_null(control_new(loop, &o, &err), "refused as well");
    ok(unlink(path) == 0, "and it stays");
    (void)snprintf(beside, sizeof(beside), "%s.%ld", path, (long)getpid());
    put_file(beside);
    is_null(control_new(loop, &o, &err), "a file of the name under which it is made");
    ok(is_file(beside) && unlink(beside) == 0, "stays, too");
    c = control_new(loop, &o, &err);
    ok(c != NULL, "made where nothing is");
    ok(unlink(path) == 0, "removed");
    put_file(path);
    control_keep(c);
    ok(is_file(path), "a file that has come in its place stays");
    control_free(c);
    ok(is_file(path) && unlink(path) == 0, "at the end, too");
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* It is looked after all the time, and in vain for as long as something is in the way. */
static void test_said_once(void)
{
    static const char gone[] = "cannot be made again", there[] = "is there again";
    struct control_opts o = {.path = path, .commands = commands};
    struct control *c;
    struct err err = {""};
    char beside[128], *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        tap_bail("no memory");
    (void)snprintf(beside, sizeof(beside), "%s.%ld", path, (long)getpid());
    c = control_new(loop, &o, &err);
    ok(c != NULL, "made");
    log_set_stream(f);
    for (size_t round = 1; round <= 2; round++) {
        ok(unlink(path) == 0, "removed");
        put_file(beside);
        for (int i = 0; i < 3; i++)
            control_keep(c);
        log_flush();
        fflush(f);
        is_u64(count_of(text, gone), round, "loss %zu: said once", round);
        ok(unlink(beside) == 0, "nothing is in the way any more");
        control_keep(c);
        control_keep(c);
        log_flush();
        fflush(f);
        is_u64(count_of(text, there), round, "and once that it is there");
    }
    log_set_stream(stderr);
    fclose(f);
    free(text);
    control_free(c);
}

/* Whether it is taken must not depend on how many digits the process's number has. */
static void test_long(void)
{
    char longest[CONTROL_PATH_MAX + 2];
    struct control_opts o = {.path = longest, .commands = commands};
    struct control *c;
    struct err err = {""};

    memset(longest, 'x', sizeof(longest));
    memcpy(longest, path, strlen(path));
    longest[CONTROL_PATH_MAX + 1] = '\0';
    is_null(control_new(loop, &o, &err), "a path of %d characters is refused", CONTROL_PATH_MAX + 1);
    ok(strstr(err.text, "is longer than 99 bytes") != NULL, "said: %s", err.text);
    longest[CONTROL_PATH_MAX] = '\0';
    c = control_new(loop, &o, &err);
    ok(c != NULL, "one less is taken");
    control_free(c);
}

int main(void)
{
    (void)snprintf(path, sizeof(path), "/tmp/mvproxy-control-file-test-%ld", (long)getpid());
    loop = loop_new(NULL);
    test_no_socket();
    test_long();
    test_said_once();
    loop_free(loop);
    return tap_end();
}
