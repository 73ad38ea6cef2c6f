/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/yaml_file.h"

#include "daemon/options.h"
#include "daemon/yaml_tree.h"

static bool complain(struct buf *errors, const struct yaml_node *n, struct slice key, const char *what)
{
    yaml_complain(errors, &n->place, "%.*s%s%s", (int)key.n, key.n == 0 ? "" : key.p, key.n == 0 ? "" : ": ", what);
    return false;
}

static void complain_of_map(struct buf *errors, const struct yaml_node *n, struct slice key)
{
    const struct option *o = options_find(key);
    bool list = o != NULL && (o->type == OPTION_LIST || o->type == OPTION_ITEMS);

    yaml_complain(errors, &n->place, "%.*s: must be a %s, not a mapping: write \"%.*s: %s%s%s\"", (int)key.n, key.p,
                  list ? "list" : "value", (int)key.n, key.p, list ? "[" : "",
                  o == NULL || o->argument == NULL ? "VALUE" : o->argument, list ? "]" : "");
}

/* False with a complaint if it is no value. */
static bool check_value(const struct yaml_node *n, struct slice key, struct buf *errors)
{
    if (n->unended)
        return false; /* why, has been said */
    if (n->kind == YAML_MAP) {
        complain_of_map(errors, n, key);
        return false;
    }
    if (n->kind == YAML_LIST)
        return complain(errors, n, key, "a list within a list: write its entries into the outer one");
    return !yaml_is_null(n) || complain(errors, n, key, "value missing: give one, or take the option out");
}

static bool take_list(struct config_setting *s, const struct yaml_node *list, struct arena *a, struct buf *errors)
{
    struct slice *values;
    struct config_place *places;
    size_t n = 0;
    bool ok = true;

    for (const struct yaml_node *item = list->first; item != NULL; item = item->next)
        n++;
    values = arena_alloc(a, n * sizeof(*values));
    places = arena_alloc(a, n * sizeof(*places));
    if (values == NULL || places == NULL)
        return complain(errors, list, s->key, "out of memory");
    for (const struct yaml_node *item = list->first; item != NULL; item = item->next) {
        if (!check_value(item, s->key, errors)) {
            ok = false;
            continue;
        }
        values[s->n_values] = item->text;
        places[s->n_values++] = item->place;
    }
    s->is_list = true;
    s->values = values;
    s->places = places;
    return ok;
}

static bool take_setting(struct config_setting *s, const struct yaml_node *n, struct arena *a, struct buf *errors)
{
    *s = (struct config_setting){.key = n->key, .place = n->key_place};
    if (n->kind == YAML_LIST && !n->unended)
        return take_list(s, n, a, errors);
    if (!check_value(n, n->key, errors))
        return false;
    s->values = &n->text;
    s->places = &n->place;
    s->n_values = 1;
    return true;
}

bool yaml_file_parse(const char *name, struct slice text, struct arena *a, struct yaml_file *out, struct buf *errors)
{
    struct yaml_node *root;
    bool ok = yaml_tree_parse(name, text, a, &root, errors);

    out->n = 0;
    out->whole = root == NULL ? ok : root->kind == YAML_MAP && !root->unended;
    out->settings = arena_alloc(a, YAML_FILE_MAX_SETTINGS * sizeof(*out->settings));
    if (out->settings == NULL) {
        buf_printf(errors, "%s: out of memory\n", name);
        return false;
    }
    if (root == NULL || yaml_is_null(root)) {
        out->whole = ok;
        return ok;
    }
    if (root->kind != YAML_MAP)
        return complain(errors, root, SLICE_NONE, "not options and their values: write \"OPTION: VALUE\", a line each");
    for (const struct yaml_node *n = root->first; n != NULL; n = n->next) {
        if (out->n == YAML_FILE_MAX_SETTINGS)
            return complain(errors, n, SLICE_NONE, "more options than there are: take some out");
        ok = take_setting(&out->settings[out->n++], n, a, errors) && ok;
    }
    return ok;
}
