/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a YAML (or JSON) document, by libyaml, into a tree of nodes with their places, for configuration files: one
 * document, without aliases and tags, with scalar keys, none of them repeated.
 */
#ifndef MVPROXY_DAEMON_YAML_TREE_H
#define MVPROXY_DAEMON_YAML_TREE_H

#include "daemon/config.h"

enum { YAML_TREE_MAX_BYTES = 1 << 20, YAML_TREE_MAX_NODES = 11000, YAML_TREE_MAX_DEPTH = 16 };

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_kind kind;
    struct config_place place;
    struct slice text; /* SCALAR; NUL-terminated */
    bool plain;        /* SCALAR without quotes */
    bool unended;      /* parsing failed before its end; root: before the end of the text */
    struct slice key;  /* of a member of a MAP; NUL-terminated */
    struct config_place key_place;
    struct yaml_node *first, *last, *next, *parent; /* children in order of appearance */
};

/*
 * Parses `text`, called `name` in messages; everything lives in the arena. *root is NULL if there is nothing but
 * comments. False on errors, with a line in *errors for each; *root is then what was read before.
 */
bool yaml_tree_parse(const char *name, struct slice text, struct arena *a, struct yaml_node **root, struct buf *errors);
/* Reads a regular file of at most YAML_TREE_MAX_BYTES into the arena. False, with a line in *errors, on failure. */
bool yaml_tree_read(const char *path, struct arena *a, struct slice *text, struct buf *errors);

/* The member of a map with that name; NULL: there is none, it is null, which is the same for Kubernetes, or `map` is no
 * map (or NULL). */
const struct yaml_node *yaml_member(const struct yaml_node *map, const char *name);
/* Whether it is a plain scalar that means null. */
bool yaml_is_null(const struct yaml_node *n);
/* Whether it is a plain scalar that YAML 1.1 reads as a number or boolean, so that it is no text for kube-apiserver. */
bool yaml_is_untextual(const struct yaml_node *n);
/* Appends "file:line:column: text" with a newline. */
void yaml_complain(struct buf *errors, const struct config_place *place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
