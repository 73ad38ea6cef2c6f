/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_load.h"

#include <errno.h>
#include <unistd.h>

#include "daemon/config_check.h"
#include "daemon/options.h"
#include "daemon/yaml_file.h"
#include "daemon/yaml_tree.h"

enum { CONFIG_ARENA_CEILING = 16 << 20 };

/* The first setting of such an option replaces what a default or the file says, further ones add to it. */
static bool is_first(const struct config_setting *all, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (slice_eq(all[k].key, all[i].key))
            return false;
    return true;
}

static bool apply_one(struct config *c, const struct config_setting *all, size_t i, struct buf *errors)
{
    const struct option *o = options_find(all[i].key);
    struct config_origin *at;

    if (o == NULL) {
        options_complain_unknown(errors, &all[i].place, all[i].key);
        return false;
    }
    at = &c->origins[options_index(o)];
    if (o->type == OPTION_ITEMS && is_first(all, i))
        options_forget_items(c, o);
    at->given = true;
    at->place = all[i].place;
    if (all[i].n_values == 0 && !all[i].is_list)
        at->unread = true; /* that has been said */
    else if (!options_set(c, o, &all[i], errors))
        at->unread = true;
    return !at->unread;
}

static bool apply(struct config *c, const struct config_setting *settings, size_t n, struct buf *errors)
{
    bool ok = true;

    for (size_t i = 0; i < n; i++)
        ok = apply_one(c, settings, i, errors) && ok;
    return ok;
}

static struct config *config_new(void)
{
    struct config *c = mem_zalloc(sizeof(*c));
    size_t n;

    if (c == NULL)
        return NULL;
    c->arena = arena_new(CONFIG_ARENA_CEILING);
    (void)options_table(&n);
    c->origins = c->arena == NULL ? NULL : arena_zalloc(c->arena, n * sizeof(*c->origins));
    if (c->origins == NULL || !options_set_defaults(c)) {
        config_free(c);
        return NULL;
    }
    return c;
}

static bool read_file(struct config *c, const char *file, struct yaml_file *out, struct buf *errors)
{
    struct slice name = arena_copy(c->arena, slice_str(file)), text;

    return name.p != NULL && yaml_tree_read(file, c->arena, &text, errors) &&
           yaml_file_parse(name.p, text, c->arena, out, errors);
}

struct config *config_load_doubtful(const char *file, const struct config_setting *flags, size_t n_flags,
                                    struct buf *errors, bool *ok)
{
    struct config *c = config_new();
    struct yaml_file yaml = {NULL, 0, file == NULL};

    *ok = false;
    if (c == NULL) {
        buf_append_str(errors, "out of memory\n");
        return NULL;
    }
    *ok = file == NULL || read_file(c, file, &yaml, errors);
    *ok = apply(c, yaml.settings, yaml.n, errors) && *ok;
    *ok = apply(c, flags, n_flags, errors) && *ok;
    if (yaml.whole) { /* else nobody knows what it lacks */
        *ok = config_check(c, errors) && *ok;
        return c;
    }
    config_free(c);
    return NULL;
}

struct config *config_load(const char *file, const struct config_setting *flags, size_t n_flags, struct buf *errors)
{
    bool ok;
    struct config *c = config_load_doubtful(file, flags, n_flags, errors, &ok);

    if (ok)
        return c;
    config_free(c);
    return NULL;
}

bool config_is_there(const char *file)
{
    return access(file, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}
