/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: a refusal says why, and what is accepted says the same after --dump-config. */
#include "daemon/options.h"
#include "daemon/yaml_file.h"
#include "fuzz/fuzz.h"

/* NULL if the text was refused; then *errors is not empty. */
static struct config *load(struct slice text, struct buf *errors)
{
    struct config *c = must_zalloc(sizeof(*c));
    struct yaml_file file = {0};
    bool fine;

    c->arena = arena_new(8 << 20);
    must_hold(c->arena != NULL && options_set_defaults(c));
    fine = yaml_file_parse("fuzz.conf", text, c->arena, &file, errors);
    for (size_t i = 0; i < file.n; i++) {
        const struct option *o = options_find(file.settings[i].key);
        bool set = o != NULL && options_set(c, o, &file.settings[i], errors);

        must_hold(o == NULL || set || buf_len(errors) > 0);
        fine = fine && set;
    }
    if (fine)
        return c;
    arena_free(c->arena);
    mem_free(c);
    return NULL;
}

static struct slice dump(const struct config *c)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    must_hold(f != NULL);
    options_print_config(f, c);
    fclose(f);
    return slice_of(text, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size);
    struct config *c, *again;
    struct buf errors;

    buf_init(&errors, 8 << 20);
    c = load(in, &errors);
    if (c != NULL) {
        struct slice first = dump(c), second;

        must_hold(buf_len(&errors) == 0);
        again = load(first, &errors);
        must_hold(again != NULL);
        second = dump(again);
        must_hold(slice_eq(first, second));
        free((char *)(uintptr_t)first.p);
        free((char *)(uintptr_t)second.p);
        arena_free(again->arena);
        mem_free(again);
        arena_free(c->arena);
        mem_free(c);
    }
    buf_free(&errors);
    return 0;
}
