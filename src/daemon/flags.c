/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/flags.h"

#include "base/nearest.h"
#include "daemon/options.h"

struct parser {
    char *const *argv;
    int argc, next;
    struct arena *arena;
    struct flags *out;
    struct buf *errors;
};

static const struct {
    const char *name;
    enum flags_mode mode;
} modes[] = {
    {"t", FLAGS_CHECK},
    {"dump-config", FLAGS_DUMP},
    {"version", FLAGS_VERSION},
    {"help", FLAGS_HELP},
    {"h", FLAGS_HELP},
    {"print-options-mdoc", FLAGS_MDOC},
    {"print-options-markdown", FLAGS_MARKDOWN},
};

static bool set_mode(struct parser *p, struct slice name)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (!slice_eq(name, slice_str(modes[i].name)))
            continue;
        p->out->mode = modes[i].mode;
        return true;
    }
    return false;
}

/* The value behind '=', or the next argument. */
static bool take_value(struct parser *p, struct slice name, struct slice *rest)
{
    if (rest->p != NULL)
        return true;
    if (p->next >= p->argc) {
        buf_printf(p->errors, "command line: --%.*s: value missing: write --%.*s=VALUE\n", (int)name.n, name.p,
                   (int)name.n, name.p);
        return false;
    }
    *rest = slice_str(p->argv[p->next++]);
    return true;
}

static bool add_setting(struct parser *p, struct slice name, struct slice value)
{
    struct slice *v = arena_alloc(p->arena, sizeof(*v));
    struct config_place *place = arena_zalloc(p->arena, sizeof(*place));

    if (v == NULL || place == NULL)
        return false;
    *v = value;
    p->out->settings[p->out->n++] = (struct config_setting){.key = name, .values = v, .places = place, .n_values = 1};
    return true;
}

/* What follows may be its value, and is then no argument of its own. */
static bool refuse_unknown(struct parser *p, const char *arg, struct slice name, bool has_value)
{
    struct nearest n = nearest_to(name);
    const struct option *table;
    size_t count;

    nearest_try(&n, "config");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (modes[i].mode < FLAGS_MDOC)
            nearest_try(&n, modes[i].name);
    table = options_table(&count);
    for (size_t i = 0; i < count; i++)
        nearest_try(&n, table[i].name);
    buf_printf(p->errors,
               n.best == NULL
                   ? "command line: %.*s: unknown option: take it out (mvproxy --help names those that there are)\n"
                   : "command line: %.*s: unknown option: did you mean --%s?\n",
               (int)(name.p + name.n - arg), arg, n.best);
    if (!has_value && p->next < p->argc && p->argv[p->next][0] != '-')
        p->next++;
    return false;
}

static bool parse_one(struct parser *p)
{
    const char *arg = p->argv[p->next++];
    struct slice rest = slice_str(arg), name;
    const struct option *option;
    bool is_config;

    if (arg[0] != '-' || arg[1] == '\0') {
        buf_printf(p->errors, "command line: \"%s\": unexpected argument: options begin with --%s\n", arg,
                   arg[0] == '-' ? "" : ", and commands are mvproxyctl's");
        return false;
    }
    rest = slice_from(rest, arg[1] == '-' ? 2 : 1);
    if (!slice_split(&rest, '=', &name) || name.n == 0) {
        buf_printf(p->errors, "command line: \"%s\": unexpected argument: options begin with --\n", arg);
        return false;
    }
    if (rest.p == NULL && set_mode(p, name))
        return true;
    is_config = slice_eq(name, SLICE_LIT("config"));
    option = options_find(name);
    if (option == NULL && !is_config)
        return refuse_unknown(p, arg, name, rest.p != NULL);
    /* As with Go's flags, a bare --flag is --flag=true. */
    if (rest.p == NULL && option != NULL && option->type == OPTION_BOOL)
        rest = SLICE_LIT("true");
    if (!take_value(p, name, &rest))
        return false;
    if (!is_config)
        return add_setting(p, name, rest);
    p->out->config_file = rest.p;
    if (rest.n > 0)
        return true;
    buf_append_str(p->errors, "command line: --config: the name is empty: give the path of a YAML file\n");
    return false;
}

bool flags_parse(int argc, char *const *argv, struct arena *a, struct flags *out, struct buf *errors)
{
    struct parser p = {argv, argc, 1, a, out, errors};
    bool ok = true;

    *out = (struct flags){.mode = FLAGS_RUN};
    out->settings = arena_alloc(a, ((size_t)argc + 1) * sizeof(*out->settings));
    if (out->settings == NULL)
        return false;
    while (p.next < argc)
        ok = parse_one(&p) && ok;
    return ok;
}
