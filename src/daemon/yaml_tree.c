/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/yaml_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/contract.h"
#include "daemon/yaml_fault.h"

struct reader {
    const char *name;
    struct arena *arena;
    struct buf *errors;
    struct yaml_node *root;
    struct yaml_node *open;   /* the innermost list or map that has not ended; NULL: outside */
    struct yaml_node pending; /* a key that waits for its value */
    bool has_key;
    size_t documents, nodes, depth;
    bool failed;
};

/* Root may have asked: of a reload the process reads it, as whom it runs. */
static void say_unreadable(const char *path, int error, struct buf *errors)
{
    const struct passwd *pw = error == EACCES && getuid() != 0 ? getpwuid(geteuid()) : NULL;

    buf_printf(errors, "%s: %s: ", path, strerror(error));
    if (error != EACCES)
        buf_append_str(errors, "give the path of a YAML file\n");
    else if (getuid() == 0)
        buf_append_str(errors, "let the user that the service runs as read it\n");
    else if (pw == NULL)
        buf_printf(errors, "let the user %lu, as whom this process runs, read it, or run it as root\n",
                   (unsigned long)geteuid());
    else
        buf_printf(errors, "let the user %s, as whom this process runs, read it, or run it as root\n", pw->pw_name);
}

bool yaml_tree_read(const char *path, struct arena *a, struct slice *text, struct buf *errors)
{
    struct stat st;
    char *p;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) != 0) {
        say_unreadable(path, errno, errors);
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > YAML_TREE_MAX_BYTES) {
        buf_printf(errors, "%s: %s\n", path,
                   S_ISREG(st.st_mode) ? "larger than 1 MiB, which no configuration is: give the right file"
                                       : "not a regular file: give the path of a YAML file");
        close(fd);
        return false;
    }
    p = arena_alloc(a, YAML_TREE_MAX_BYTES);
    n = p == NULL ? -1 : read(fd, p, YAML_TREE_MAX_BYTES);
    if (n < 0)
        buf_printf(errors, "%s: %s\n", path, p == NULL ? "out of memory" : strerror(errno));
    else
        *text = slice_of(p, (size_t)n);
    close(fd);
    return n >= 0;
}

void yaml_complain(struct buf *errors, const struct config_place *place, const char *fmt, ...)
{
    va_list ap;

    buf_printf(errors, "%s:%zu:%zu: ", place->file, place->line, place->column);
    va_start(ap, fmt);
    buf_vprintf(errors, fmt, ap);
    va_end(ap);
    buf_append_char(errors, '\n');
}

static struct config_place place_of(const struct reader *r, const yaml_mark_t *m)
{
    return (struct config_place){r->name, m->line + 1, m->column + 1};
}

static bool complain(struct reader *r, const yaml_mark_t *m, const char *what)
{
    struct config_place place = place_of(r, m);

    r->failed = true;
    yaml_complain(r->errors, &place, "%s", what);
    return false;
}

static void check_repeated(struct reader *r, const yaml_mark_t *m)
{
    struct config_place place = place_of(r, m);

    for (const struct yaml_node *n = r->open->first; n != NULL; n = n->next) {
        if (!slice_eq(n->key, r->pending.key))
            continue;
        r->failed = true;
        yaml_complain(r->errors, &place, "%.*s: repeated, first given in line %zu: keep one of them", (int)n->key.n,
                      n->key.p, n->key_place.line);
        return;
    }
}

static bool take_key(struct reader *r, const yaml_event_t *e)
{
    r->pending = (struct yaml_node){.key_place = place_of(r, &e->start_mark)};
    r->pending.key = arena_copy(r->arena, slice_of((const char *)e->data.scalar.value, e->data.scalar.length));
    if (r->pending.key.p == NULL)
        return complain(r, &e->start_mark, "out of memory");
    check_repeated(r, &e->start_mark);
    r->has_key = true;
    return true;
}

/* Puts a new node where it belongs. NULL with a complaint. */
static struct yaml_node *add_node(struct reader *r, const yaml_event_t *e, enum yaml_kind kind)
{
    struct yaml_node *n = r->nodes++ < YAML_TREE_MAX_NODES ? arena_alloc(r->arena, sizeof(*n)) : NULL;

    if (n == NULL) {
        complain(r, &e->start_mark, r->nodes > YAML_TREE_MAX_NODES ? "too many items" : "out of memory");
        return NULL;
    }
    *n = r->has_key ? r->pending : (struct yaml_node){0};
    r->has_key = false;
    n->kind = kind;
    n->place = place_of(r, &e->start_mark);
    n->parent = r->open;
    if (r->open == NULL)
        r->root = n;
    else if (r->open->last == NULL)
        r->open->first = n;
    else
        r->open->last->next = n;
    if (r->open != NULL)
        r->open->last = n;
    return n;
}

static bool expects_key(const struct reader *r)
{
    return r->open != NULL && r->open->kind == YAML_MAP && !r->has_key;
}

static bool on_scalar(struct reader *r, const yaml_event_t *e)
{
    struct yaml_node *n;

    if (expects_key(r))
        return take_key(r, e);
    n = add_node(r, e, YAML_SCALAR);
    if (n == NULL)
        return false;
    n->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    n->text = arena_copy(r->arena, slice_of((const char *)e->data.scalar.value, e->data.scalar.length));
    return n->text.p != NULL || complain(r, &e->start_mark, "out of memory");
}

static bool is_placeholder(const struct reader *r, const yaml_event_t *e)
{
    return e->type == YAML_MAPPING_START_EVENT && r->open->place.line == e->start_mark.line + 1 &&
           r->open->place.column == e->start_mark.column; /* directly behind its bracket */
}

static bool on_start(struct reader *r, const yaml_event_t *e, enum yaml_kind kind)
{
    struct yaml_node *n;

    if (expects_key(r))
        return complain(r, &e->start_mark,
                        is_placeholder(r, e)
                            ? "a template's placeholder (\"{{\") that is not filled in: put its value here"
                            : "a name must be a plain word: write \"NAME: VALUE\"");
    if (++r->depth > YAML_TREE_MAX_DEPTH)
        return complain(r, &e->start_mark, "nested too deeply: write it with fewer levels");
    n = add_node(r, e, kind);
    r->open = n;
    return n != NULL;
}

static bool on_end(struct reader *r)
{
    contract(r->open != NULL); /* libyaml tells of no end without its beginning */
    r->open = r->open->parent;
    r->depth--;
    return true;
}

static bool on_event(struct reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(r, e, YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        return on_start(r, e, YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(r);
    case YAML_ALIAS_EVENT:
        return complain(r, &e->start_mark,
                        "aliases are not supported: write the value itself, in quotes if it begins with \"*\"");
    case YAML_DOCUMENT_START_EVENT:
        return r->documents++ == 0 ||
               complain(r, &e->start_mark, "a second document begins here: give one, without \"---\" in between");
    default:
        return true;
    }
}

static void say_syntax_error(struct reader *r, const yaml_parser_t *p, struct slice text)
{
    struct yaml_fault f;

    yaml_fault_explain(p, text, &f);
    r->failed = true;
    yaml_complain(r->errors, &(struct config_place){r->name, f.line, f.column}, "%s", f.text);
}

/* What is not whole is nobody's to judge. */
static void mark_unended(struct reader *r)
{
    if (r->root != NULL)
        r->root->unended = true;
    if (r->root != NULL && r->root->last != NULL)
        r->root->last->unended = true; /* it may have been taken further than it was meant to go */
    for (struct yaml_node *n = r->open; n != NULL; n = n->parent)
        n->unended = true;
}

/* False: not to its end. */
static bool read_events(struct reader *r, yaml_parser_t *p, struct slice text)
{
    bool over = false, go_on = true;

    while (go_on && !over) {
        yaml_event_t e;

        if (!yaml_parser_parse(p, &e)) {
            say_syntax_error(r, p, text);
            return false;
        }
        over = e.type == YAML_STREAM_END_EVENT;
        go_on = on_event(r, &e);
        yaml_event_delete(&e);
    }
    return over;
}

bool yaml_tree_parse(const char *name, struct slice text, struct arena *a, struct yaml_node **root, struct buf *errors)
{
    struct reader r = {.name = name, .arena = a, .errors = errors};
    yaml_parser_t p;

    *root = NULL;
    if (!yaml_parser_initialize(&p)) {
        buf_printf(errors, "%s: out of memory\n", name);
        return false;
    }
    yaml_parser_set_input_string(&p, (const unsigned char *)text.p, text.n);
    if (!read_events(&r, &p, text))
        mark_unended(&r);
    yaml_parser_delete(&p);
    *root = r.root;
    return !r.failed;
}

const struct yaml_node *yaml_member(const struct yaml_node *map, const char *name)
{
    if (map == NULL || map->kind != YAML_MAP)
        return NULL;
    for (const struct yaml_node *n = map->first; n != NULL; n = n->next)
        if (slice_eq(n->key, slice_str(name)))
            return yaml_is_null(n) ? NULL : n;
    return NULL;
}

bool yaml_is_null(const struct yaml_node *n)
{
    return n->kind == YAML_SCALAR && n->plain &&
           (n->text.n == 0 || slice_eq(n->text, SLICE_LIT("~")) || slice_ieq(n->text, SLICE_LIT("null")));
}

bool yaml_is_untextual(const struct yaml_node *n)
{
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off", "true", "false"};
    char *end = NULL;
    bool digit_first;

    if (n->kind != YAML_SCALAR || !n->plain || n->text.n == 0)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (slice_ieq(n->text, slice_str(words[i])))
            return true;
    digit_first = strchr("0123456789+-.", n->text.p[0]) != NULL;
    (void)strtod(n->text.p, &end);
    return digit_first && end == n->text.p + n->text.n;
}
