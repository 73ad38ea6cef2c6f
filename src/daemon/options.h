/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option table, from which command line, configuration file, --help, --dump-config and the manual's list of options
 * are made. A new option is a row here and a field in struct config.
 */
#ifndef MVPROXY_DAEMON_OPTIONS_H
#define MVPROXY_DAEMON_OPTIONS_H

#include <stdio.h>

#include "daemon/config.h"

enum option_type {
    OPTION_TEXT,
    OPTION_LIST,     /* comma-separated or a YAML sequence */
    OPTION_ITEMS,    /* values may have commas: a YAML sequence, or the flag several times */
    OPTION_NUMBER,   /* plain decimal */
    OPTION_DURATION, /* Go's notation, e.g. 1m30s */
    OPTION_BOOL,     /* true or false */
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset;        /* of the field in struct config */
    const char *initial;  /* default, as in a configuration file; "": none */
    uint64_t min, max;    /* NUMBER; DURATION in ms */
    uint64_t sensible;    /* DURATION in ms: what is below that is warned of; 0: nothing is */
    bool or_zero;         /* 0 is possible as well, below `min` */
    const char *choices;  /* TEXT: "a|b|c", NULL: anything */
    bool skips_empty;     /* LIST: an empty entry is skipped; otherwise it is an error */
    bool restart;         /* a reload cannot change it */
    const char *section;  /* heading in help and manual */
    const char *argument; /* e.g. "FILE" */
    const char *help;     /* one or two sentences; mdoc-safe plain text */
};

/* Sections are contiguous. */
const struct option *options_table(size_t *count);
const struct option *options_find(struct slice name);
size_t options_index(const struct option *o); /* its index in the table */
/* Appends a line that there is no such option, and which one may be meant. */
void options_complain_unknown(struct buf *errors, const struct config_place *place, struct slice name);

/* Parses and stores one setting. False, with a line in *errors, on failure. ITEMS are added to the present ones. */
bool options_set(struct config *c, const struct option *o, const struct config_setting *s, struct buf *errors);
/* ITEMS: removes the present ones; options_set() must follow. */
void options_forget_items(struct config *c, const struct option *o);
/* Sets every default. False when out of memory. */
bool options_set_defaults(struct config *c);

void options_print_help(FILE *f);
/* The effective configuration as a configuration file. */
void options_print_config(FILE *f, const struct config *c);
/* One effective value as it would stand in a configuration file. False when the buffer failed. */
bool options_append_value(struct buf *out, const struct config *c, const struct option *o);
/* The same as kube-apiserver's /flagz has its flags: text as it is, a list as [a,b]; CERT,KEY pairs between semicolons.
 */
bool options_append_flag(struct buf *out, const struct config *c, const struct option *o);
/* The first option in the order of names that comes after this one, "" for the first of all; NULL: none. */
const struct option *options_next_name(const char *name);
/* A 48-bit hash of the effective values, the same in every process. The contents of files that they name are not
 * included. 0 when out of memory. */
uint64_t options_hash(const struct config *c);
/* The list of options for the manual. */
void options_print_mdoc(FILE *f);
/* docs/configure.md. */
void options_print_markdown(FILE *f);
/* Appends the names of the `restart` options that differ, comma-separated. */
void options_restart_needed(const struct config *a, const struct config *b, struct buf *names);

#endif
