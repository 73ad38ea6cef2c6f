/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/yaml_file.h"

#include "daemon/yaml_tree.h"

static bool complain(struct buf *errors, const struct yaml_node *n, const char *what)
{
    yaml_complain(errors, &n->place, "%s", what);
    return false;
}

/* False with a complaint if it is no value. */
static bool check_value(const struct yaml_node *n, struct buf *errors)
{
    if (n->kind == YAML_MAP)
        return complain(errors, n, "nested mappings are not used: options are flat");
    if (n->kind == YAML_LIST)
        return complain(errors, n, "a list is not possible here");
    return !yaml_is_null(n) || complain(errors, n, "value missing");
}

static bool take_list(struct config_setting *s, const struct yaml_node *list, struct arena *a, struct buf *errors)
{
    struct slice *values;
    struct config_place *places;
    size_t n = 0;
    bool ok = true;

    for (const struct yaml_node *item = list->first; item != NULL; item = item->next)
        n++;
    values = arena_alloc(a, (n + 1) * sizeof(*values));
    places = arena_alloc(a, (n + 1) * sizeof(*places));
    if (values == NULL || places == NULL)
        return complain(errors, list, "out of memory");
    for (const struct yaml_node *item = list->first; item != NULL; item = item->next) {
        if (!check_value(item, errors)) {
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
    if (n->kind == YAML_LIST)
        return take_list(s, n, a, errors);
    if (!check_value(n, errors))
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
    out->settings = arena_alloc(a, YAML_FILE_MAX_SETTINGS * sizeof(*out->settings));
    if (out->settings == NULL) {
        buf_printf(errors, "%s: out of memory\n", name);
        return false;
    }
    if (root == NULL || yaml_is_null(root))
        return ok;
    if (root->kind != YAML_MAP)
        return complain(errors, root, "expected a mapping of options (name: value)");
    for (const struct yaml_node *n = root->first; n != NULL; n = n->next) {
        if (out->n == YAML_FILE_MAX_SETTINGS)
            return complain(errors, n, "too many settings");
        ok = take_setting(&out->settings[out->n++], n, a, errors) && ok;
    }
    return ok;
}
