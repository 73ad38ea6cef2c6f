#include "daemon/yaml_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

/* What the next event may be. */
enum reader_state {
    READER_OUTSIDE, /* before the mapping, or after the document */
    READER_KEY,     /* in the mapping: a key or its end */
    READER_VALUE,   /* after a key */
    READER_ITEM,    /* in a sequence: an item or its end */
};

struct reader {
    const char *name;
    struct arena *arena;
    struct buf *errors;
    struct yaml_file *out;
    enum reader_state state;
    struct slice *values; /* of the setting being read */
    struct config_place *places;
    size_t n_values, cap_values;
    size_t documents;
    bool failed;
};

bool yaml_file_read(const char *path, struct arena *a, struct slice *text, struct buf *errors)
{
    struct stat st;
    char *p;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0) {
        buf_printf(errors, "%s: %s\n", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > YAML_FILE_MAX_BYTES) {
        buf_printf(errors, "%s: %s\n", path, S_ISREG(st.st_mode) ? "larger than 1 MiB" : "not a regular file");
        close(fd);
        return false;
    }
    p = arena_alloc(a, YAML_FILE_MAX_BYTES);
    n = p == NULL ? -1 : read(fd, p, YAML_FILE_MAX_BYTES);
    if (n < 0)
        buf_printf(errors, "%s: %s\n", path, p == NULL ? "out of memory" : strerror(errno));
    else
        *text = slice_of(p, (size_t)n);
    close(fd);
    return n >= 0;
}

static struct config_place place_of(const struct reader *r, const yaml_mark_t *m)
{
    return (struct config_place){r->name, m->line + 1, m->column + 1};
}

static void complain(struct reader *r, const yaml_mark_t *m, const char *what)
{
    r->failed = true;
    buf_printf(r->errors, "%s:%zu:%zu: %s\n", r->name, m->line + 1, m->column + 1, what);
}

static bool add_value(struct reader *r, const yaml_event_t *e)
{
    const yaml_mark_t *m = &e->start_mark;

    if (r->n_values == r->cap_values) {
        complain(r, m, "too many items");
        return false;
    }
    r->values[r->n_values] = arena_copy(r->arena, slice_of((const char *)e->data.scalar.value, e->data.scalar.length));
    if (r->values[r->n_values].p == NULL) {
        complain(r, m, "out of memory");
        return false;
    }
    r->places[r->n_values++] = place_of(r, m);
    return true;
}

static struct config_setting *current(struct reader *r)
{
    return &r->out->settings[r->out->n - 1];
}

static void check_repeated(struct reader *r, const yaml_mark_t *m, struct slice key)
{
    for (size_t i = 0; i + 1 < r->out->n; i++) {
        const struct config_setting *s = &r->out->settings[i];

        if (!slice_eq(s->key, key))
            continue;
        r->failed = true;
        buf_printf(r->errors, "%s:%zu:%zu: %.*s: repeated, first given in line %zu\n", r->name, m->line + 1,
                   m->column + 1, (int)key.n, key.p, s->place.line);
        return;
    }
}

static bool begin_setting(struct reader *r, const yaml_event_t *e)
{
    struct config_setting *s;

    if (r->out->n == YAML_FILE_MAX_SETTINGS) {
        complain(r, &e->start_mark, "too many settings");
        return false;
    }
    s = &r->out->settings[r->out->n++];
    *s = (struct config_setting){.place = place_of(r, &e->start_mark)};
    s->key = arena_copy(r->arena, slice_of((const char *)e->data.scalar.value, e->data.scalar.length));
    s->values = &r->values[r->n_values];
    s->places = &r->places[r->n_values];
    if (s->key.p == NULL) {
        complain(r, &e->start_mark, "out of memory");
        return false;
    }
    check_repeated(r, &e->start_mark, s->key);
    r->state = READER_VALUE;
    return true;
}

static bool is_null(const yaml_event_t *e)
{
    return e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (e->data.scalar.length == 0 || strcmp((const char *)e->data.scalar.value, "~") == 0 ||
            strcmp((const char *)e->data.scalar.value, "null") == 0);
}

static bool on_scalar(struct reader *r, const yaml_event_t *e)
{
    if (r->state == READER_KEY)
        return begin_setting(r, e);
    if (r->state == READER_OUTSIDE) {
        if (is_null(e))
            return true; /* a document of comments only */
        complain(r, &e->start_mark, "expected a mapping of options (name: value)");
        return false;
    }
    if (is_null(e)) {
        complain(r, &e->start_mark, "value missing");
        r->state = r->state == READER_VALUE ? READER_KEY : r->state;
        return true;
    }
    if (!add_value(r, e))
        return false;
    current(r)->n_values++;
    if (r->state == READER_VALUE)
        r->state = READER_KEY;
    return true;
}

static bool on_structure(struct reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_MAPPING_START_EVENT:
        if (r->state != READER_OUTSIDE) {
            complain(r, &e->start_mark, "nested mappings are not used: options are flat");
            return false;
        }
        r->state = READER_KEY;
        return true;
    case YAML_MAPPING_END_EVENT:
        r->state = READER_OUTSIDE;
        return true;
    case YAML_SEQUENCE_START_EVENT:
        if (r->state != READER_VALUE) {
            complain(r, &e->start_mark, "a list is not possible here");
            return false;
        }
        current(r)->is_list = true;
        r->state = READER_ITEM;
        return true;
    case YAML_SEQUENCE_END_EVENT:
        r->state = READER_KEY;
        return true;
    default:
        return true;
    }
}

static bool on_event(struct reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(r, e);
    case YAML_ALIAS_EVENT:
        complain(r, &e->start_mark, "aliases are not supported");
        return false;
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ > 0) {
            complain(r, &e->start_mark, "more than one document");
            return false;
        }
        return true;
    default:
        return on_structure(r, e);
    }
}

static void say_syntax_error(struct reader *r, const yaml_parser_t *p)
{
    r->failed = true;
    buf_printf(r->errors, "%s:%zu:%zu: %s\n", r->name, p->problem_mark.line + 1, p->problem_mark.column + 1,
               p->problem != NULL ? p->problem : "not valid YAML");
}

static void read_events(struct reader *r, yaml_parser_t *p)
{
    bool go_on = true;

    while (go_on) {
        yaml_event_t e;

        if (!yaml_parser_parse(p, &e)) {
            say_syntax_error(r, p);
            return;
        }
        go_on = e.type != YAML_STREAM_END_EVENT && on_event(r, &e);
        yaml_event_delete(&e);
    }
}

bool yaml_file_parse(const char *name, struct slice text, struct arena *a, struct yaml_file *out, struct buf *errors)
{
    struct reader r = {.name = name, .arena = a, .errors = errors, .out = out, .cap_values = YAML_FILE_MAX_ITEMS};
    yaml_parser_t p;

    out->n = 0;
    out->settings = arena_alloc(a, YAML_FILE_MAX_SETTINGS * sizeof(*out->settings));
    r.values = arena_alloc(a, r.cap_values * sizeof(*r.values));
    r.places = arena_alloc(a, r.cap_values * sizeof(*r.places));
    if (out->settings == NULL || r.values == NULL || r.places == NULL || !yaml_parser_initialize(&p)) {
        buf_printf(errors, "%s: out of memory\n", name);
        return false;
    }
    yaml_parser_set_input_string(&p, (const unsigned char *)text.p, text.n);
    read_events(&r, &p);
    yaml_parser_delete(&p);
    return !r.failed;
}
