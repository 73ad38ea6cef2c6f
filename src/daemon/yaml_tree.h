/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML (or JSON) document as a tree of nodes that know their places, for configuration files: one document, no
 * aliases, no tags, scalar keys, none of them twice (libyaml).
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
    bool unended;      /* nobody knows its end; of the root: of the text */
    struct slice key;  /* of a member of a MAP; NUL-terminated */
    struct config_place key_place;
    struct yaml_node *first, *last, *next, *parent; /* children in order of appearance */
};

/*
 * Reads `text`, called `name` in messages; everything lives in the arena. *root is NULL if there is nothing but
 * comments. On errors (false, each a line in *errors) *root is what was read before.
 */
bool yaml_tree_parse(const char *name, struct slice text, struct arena *a, struct yaml_node **root, struct buf *errors);
/* Reads a regular file of at most YAML_TREE_MAX_BYTES into the arena. False with a complaint. */
bool yaml_tree_read(const char *path, struct arena *a, struct slice *text, struct buf *errors);

/* A plain scalar that means "nothing". */
bool yaml_is_null(const struct yaml_node *n);
/* A plain scalar that YAML 1.1 reads as a number or a truth value: no text for kube-apiserver. */
bool yaml_is_untextual(const struct yaml_node *n);
/* "file:line:column: text" with a newline. */
void yaml_complain(struct buf *errors, const struct config_place *place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
