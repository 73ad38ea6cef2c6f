/* SPDX-License-Identifier: Apache-2.0 */
/*
 * THE option table. Command line, configuration file, --help, --dump-config and the manual's list of options all come
 * from it: a new option is a row here and a field in struct config.
 */
#ifndef MVPROXY_DAEMON_OPTIONS_H
#define MVPROXY_DAEMON_OPTIONS_H

#include <stdio.h>

#include "daemon/config.h"

enum option_type {
    OPTION_TEXT,
    OPTION_LIST,     /* comma-separated or a YAML sequence */
    OPTION_ITEMS,    /* values with commas of their own: a YAML sequence, or the flag several times */
    OPTION_NUMBER,   /* plain decimal */
    OPTION_DURATION, /* Go's notation, e.g. 1m30s */
    OPTION_BOOL,     /* true or false */
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset;        /* of the field in struct config */
    const char *initial;  /* default, as one would write it; "" for none */
    uint64_t min, max;    /* NUMBER; DURATION in ms */
    const char *choices;  /* TEXT: "a|b|c", NULL: anything */
    bool skips_empty;     /* LIST: nothing between two commas is nothing, else it is an error */
    bool restart;         /* a reload cannot change it */
    const char *section;  /* heading in help and manual */
    const char *argument; /* e.g. "FILE" */
    const char *help;     /* one or two sentences; mdoc-safe plain text */
};

/* Sections are contiguous. */
const struct option *options_table(size_t *count);
const struct option *options_find(struct slice name);
size_t options_index(const struct option *o); /* its place in the table */
/* Says that there is no such option, and which one may have been meant. */
void options_complain_unknown(struct buf *errors, const struct config_place *place, struct slice name);

/* Parses and stores one setting; false with a complaint in *errors. ITEMS are added to those that are there. */
bool options_set(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors);
/* ITEMS: forgets those that are there; options_set() must follow. */
void options_forget_items(struct config *c, const struct option *o);
/* Sets every default. False when out of memory. */
bool options_set_defaults(struct config *c);

void options_print_help(FILE *f);
/* The effective configuration as a configuration file. */
void options_print_config(FILE *f, const struct config *c);
/* One effective value as it would stand in a configuration file. False when the buffer failed. */
bool options_append_value(struct buf *out, const struct config *c, const struct option *o);
/* 48 bits that stand for the effective values, the same in every process; what the files hold that they name is not in
 * it. 0: out of memory. */
uint64_t options_hash(const struct config *c);
/* The list of options for the manual. */
void options_print_mdoc(FILE *f);
/* docs/configure.md. */
void options_print_markdown(FILE *f);
/* Names of options marked `restart` that differ, comma-separated; empty if none does. */
void options_restart_needed(const struct config *a, const struct config *b, struct buf *names);

#endif
