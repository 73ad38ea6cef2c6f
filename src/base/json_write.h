/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON objects and arrays into a buffer, with the commas where they belong. The names are literals of ours and
 * need no escaping; values may be anything (buf_append_json). Failure is the buffer's.
 *
 *   struct json_write w = json_open(out, '{');
 *   json_text(&w, "name", name);
 *   struct json_write list = json_nested(&w, "list", '[');
 *   json_u64(&list, NULL, 7);
 *   json_close(&list);
 *   json_close(&w);
 */
#ifndef MVPROXY_BASE_JSON_WRITE_H
#define MVPROXY_BASE_JSON_WRITE_H

#include "base/buf.h"

struct json_write {
    struct buf *out;
    char close;
    bool any;
};

/* `kind`: '{' or '['. */
struct json_write json_open(struct buf *out, char kind);
/* `name`: of a member; NULL in an array, here and below. The outer one must wait until this is closed. */
struct json_write json_nested(struct json_write *w, const char *name, char kind);
void json_close(struct json_write *w);

void json_text(struct json_write *w, const char *name, const char *value); /* NULL: null */
void json_slice(struct json_write *w, const char *name, struct slice value);
void json_u64(struct json_write *w, const char *name, uint64_t value);
void json_i64(struct json_write *w, const char *name, int64_t value);
void json_bool(struct json_write *w, const char *name, bool value);
/* Milliseconds as seconds with a decimal. */
void json_seconds(struct json_write *w, const char *name, uint64_t ms);
/* A value that somebody else writes into w->out now. */
void json_raw(struct json_write *w, const char *name);

#endif
