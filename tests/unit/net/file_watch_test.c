/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes of files are noticed, and what is called how often. */
#include "net/file_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/tap.h"
#include "unit/net/fixture.h"

static char folder[256];

static const char *in(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *p = paths[next++ % 4];

    snprintf(p, sizeof(paths[0]), "%s/%s", folder, name);
    return p;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("%s", path);
}

static void must(int result)
{
    if (result != 0)
        tap_bail("%d", errno);
}

struct calls {
    struct file_watch *w;
    unsigned n;
    unsigned refuse; /* so many times they are not good */
    bool later;      /* it is not said in the call */
};

static void judge(struct calls *c)
{
    bool good = c->refuse == 0;

    c->refuse -= !good;
    file_watch_done(c->w, good);
}

static void on_change(void *arg)
{
    struct calls *c = arg;

    c->n++;
    if (!c->later)
        judge(c);
}

static struct file_watch *watch(struct loop *l, struct calls *c, const char *path)
{
    struct file_watch *w = file_watch_new(l, on_change, c);

    if (w == NULL || !file_watch_add(w, path))
        tap_bail("memory");
    c->w = w;
    file_watch_start(w);
    settle(l);
    return w;
}

/* ---- kinds ---- */

static void to_rename(void)
{
    write_file(in("staged"), "2");
    must(rename(in("staged"), in("file")));
}

static void to_write(void)
{
    write_file(in("file"), "22");
}

static void to_truncate(void)
{
    must(truncate(in("file"), 0));
}

static void to_remove(void)
{
    must(unlink(in("file")));
}

static void to_create(void)
{
    must(unlink(in("file")));
    write_file(in("file"), "333");
}

static void to_chmod(void)
{
    must(chmod(in("file"), 0400));
}

static void to_relink(void)
{
    write_file(in("other"), "4");
    must(symlink("other", in("staged")));
    must(rename(in("staged"), in("link")));
}

/* ..data of a Kubernetes volume. */
static void to_swap_folder(void)
{
    must(mkdir(in("two"), 0700));
    write_file(in("two/file"), "5");
    must(symlink("two", in("staged")));
    must(rename(in("staged"), in("data")));
}

/* Where the link leads is another folder: there it is replaced. */
static void to_rename_far(void)
{
    write_file(in("one/staged"), "6");
    must(rename(in("one/staged"), in("one/file")));
}

static void to_touch_another(void)
{
    write_file(in("nothing-of-ours"), "7");
}

static const struct {
    const char *what, *file;
    void (*act)(void);
    bool noticed;
} rows[] = {
    {"renamed over", "file", to_rename, true},
    {"written in place", "file", to_write, true},
    {"truncated by its path", "file", to_truncate, true},
    {"removed", "file", to_remove, true},
    {"removed and made again", "file", to_create, true},
    {"its mode changed", "file", to_chmod, true},
    {"a link that leads elsewhere", "link", to_relink, true},
    {"what a link leads to, renamed over", "link", to_rename, true},
    {"a folder that is a link, swapped", "data/file", to_swap_folder, true},
    {"a link through such a folder, swapped", "through", to_swap_folder, true},
    {"renamed over in such a folder", "through", to_rename_far, true},
    {"an absolute link", "absolute", to_rename_far, true},
    {"a link in a circle", "circle", to_touch_another, false},
    {"another file of the folder", "file", to_touch_another, false},
};

static void clean_up(void)
{
    char command[600];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    must(system(command));
}

static void set_up(void)
{
    clean_up();
    must(mkdir(folder, 0700));
    must(mkdir(in("one"), 0700));
    write_file(in("file"), "1");
    write_file(in("one/file"), "1");
    must(symlink("file", in("link")));
    must(symlink("one", in("data")));
    must(symlink("data/file", in("through")));
    must(symlink(in("one/file"), in("absolute")));
    must(symlink("circle", in("circle")));
}

static void test_kinds(struct loop *l)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct calls c = {.n = 0};
        struct calls sentinel = {.n = 0};
        struct file_watch *w, *other;

        set_up();
        w = watch(l, &c, in(rows[i].file));
        is_u64(c.n, 0, "%s: not before", rows[i].what);
        rows[i].act();
        if (rows[i].noticed) {
            ok(run_until(l, c.n > 0), "%s: noticed", rows[i].what);
            settle(l);
        } else {
            /* Another watch, of a file that changes later, has had its turn: so would this one have. */
            write_file(in("sentinel"), "1");
            other = watch(l, &sentinel, in("sentinel"));
            write_file(in("sentinel"), "22");
            ok(run_until(l, sentinel.n > 0), "%s: a change elsewhere is noticed", rows[i].what);
            file_watch_free(other);
        }
        is_u64(c.n, rows[i].noticed ? 1 : 0, "%s: called", rows[i].what);
        file_watch_free(w);
    }
}

/* ---- calls ---- */

static void test_follows(struct loop *l)
{
    struct calls c = {.n = 0};
    struct file_watch *w;

    set_up();
    w = watch(l, &c, in("through"));
    to_swap_folder();
    ok(run_until(l, c.n == 1), "the folder is swapped");
    write_file(in("two/staged"), "8");
    must(rename(in("two/staged"), in("two/file")));
    ok(run_until(l, c.n == 2), "and the file in the new folder is watched");
    file_watch_free(w);
}

static void test_before_start(struct loop *l)
{
    struct calls c = {.n = 0};
    struct file_watch *w = file_watch_new(l, on_change, &c);

    set_up();
    c.w = w;
    if (w == NULL || !file_watch_add(w, in("file")))
        tap_bail("memory");
    to_rename();
    settle(l);
    is_u64(c.n, 0, "nobody is called before the start");
    file_watch_start(w);
    ok(run_until(l, c.n == 1), "what changed since the file was added is found then");
    file_watch_free(w);
}

/* Of another folder, added while the watch is at work. */
static void test_added_later(struct loop *l)
{
    struct calls c = {.n = 0};
    struct file_watch *w;

    set_up();
    w = watch(l, &c, in("file"));
    if (!file_watch_add(w, in("one/file")) || !file_watch_add(w, in("one/file")))
        tap_bail("memory");
    to_rename_far();
    ok(run_until(l, c.n == 1), "a file that was added later");
    file_watch_free(w);
}

static void test_absent(struct loop *l)
{
    struct calls c = {.n = 0};
    struct file_watch *w;

    set_up();
    w = watch(l, &c, in("late"));
    write_file(in("late"), "1");
    ok(run_until(l, c.n == 1), "a file that comes into being");
    file_watch_free(w);
}

static void test_retry(struct loop *l)
{
    struct calls c = {.refuse = 2};
    struct file_watch *w;

    set_up();
    w = watch(l, &c, in("file"));
    to_rename();
    ok(run_until(l, c.n == 3), "refused twice, called three times for one change");
    is_u64(c.refuse, 0, "and then it was taken");
    settle(l);
    is_u64(c.n, 3, "that is all");
    file_watch_free(w);
}

/* How many folders the kernel watches for us. */
static unsigned watched(void)
{
    FILE *lines = popen("cat /proc/$PPID/fdinfo/* 2>/dev/null | grep -c '^inotify wd'", "r");
    char text[32] = "";

    if (lines == NULL || fgets(text, sizeof(text), lines) == NULL)
        tap_bail("fdinfo");
    (void)pclose(lines);
    return (unsigned)strtoul(text, NULL, 10);
}

/* No event says that it is there again: what tries the files sees to it that they are watched from then on. */
static void test_folder_made_again(struct loop *l)
{
    struct calls c = {.refuse = 1};
    struct file_watch *w;

    set_up();
    w = watch(l, &c, in("one/file"));
    must(unlink(in("one/file")));
    must(rmdir(in("one")));
    ok(run_until(l, c.n == 1), "a folder that is removed");
    is_u64(watched(), 0, "is watched no more");
    must(mkdir(in("one"), 0700));
    write_file(in("one/file"), "22");
    ok(run_until(l, c.n == 2), "made again: tried again, and good");
    is_u64(watched(), 1, "and watched"); /* or it would be noticed within a minute */
    write_file(in("one/file"), "333");
    ok(run_until(l, c.n == 3), "what changes in it now is noticed");
    settle(l);
    is_u64(c.n, 3, "that is all");
    file_watch_free(w);
}

/* Who judges them asks others first. */
static void test_judged_later(struct loop *l)
{
    struct calls c = {.refuse = 1, .later = true};
    struct file_watch *w;

    set_up();
    w = watch(l, &c, in("file"));
    to_rename();
    ok(run_until(l, c.n == 1), "called");
    settle(l);
    is_u64(c.n, 1, "and not again before it is said what they are");
    judge(&c);
    ok(run_until(l, c.n == 2), "not good: tried again");
    to_write();
    ok(run_until(l, c.n == 3), "called for a further change though nothing was said");
    judge(&c);
    settle(l);
    is_u64(c.n, 3, "good: that is all");
    file_watch_free(w);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    snprintf(folder, sizeof(folder), "%s/mvproxy-watch-XXXXXX", getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"));
    if (mkdtemp(folder) == NULL)
        tap_bail("mkdtemp");
    test_kinds(l);
    test_follows(l);
    test_before_start(l);
    test_added_later(l);
    test_absent(l);
    test_retry(l);
    test_folder_made_again(l);
    test_judged_later(l);
    loop_free(l);
    clean_up();
    return tap_end();
}
