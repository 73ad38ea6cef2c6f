/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_load.h"

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

    if (o == NULL) {
        options_complain_unknown(errors, &all[i].place, all[i].key);
        return false;
    }
    if (all[i].n_values == 0 && !all[i].is_list)
        return true;
    if (o->type == OPTION_ITEMS && is_first(all, i))
        options_forget_items(c, o);
    c->origins[options_index(o)] = (struct config_origin){true, all[i].place};
    return options_set(c, o, &all[i], errors);
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

struct config *config_load(const char *file, const struct config_setting *flags, size_t n_flags, struct buf *errors)
{
    struct config *c = config_new();
    struct config_sources o = {.flags = flags, .n_flags = n_flags, .errors = errors, .ok = true};
    struct yaml_file yaml = {NULL, 0};
    struct slice text;

    if (c == NULL) {
        buf_append_str(errors, "out of memory\n");
        return NULL;
    }
    if (file != NULL) {
        struct slice name = arena_copy(c->arena, slice_str(file));

        o.ok = name.p != NULL && yaml_tree_read(file, c->arena, &text, errors) &&
               yaml_file_parse(name.p, text, c->arena, &yaml, errors);
    }
    o.file = yaml.settings;
    o.n_file = yaml.n;
    o.ok = apply(c, yaml.settings, yaml.n, errors) && o.ok;
    o.ok = apply(c, flags, n_flags, errors) && o.ok;
    /* What could not be read is reported as such, not as missing too. */
    if (o.ok && config_check(&o, c))
        return c;
    config_free(c);
    return NULL;
}
