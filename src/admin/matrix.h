/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server serves which group/version, and who describes it alike: the skew between servers, row by row, in pieces
 * that each take little time. 100 servers with 500 groups are not compared in one turn of the loop.
 */
#ifndef MVPROXY_ADMIN_MATRIX_H
#define MVPROXY_ADMIN_MATRIX_H

#include "cluster/served.h"

struct matrix;

enum { MATRIX_VARIANTS = 26 }; /* those beyond count as the last */

enum matrix_state { MATRIX_UNKNOWN, MATRIX_ABSENT, MATRIX_SERVED };

struct matrix_cell {
    enum matrix_state state;
    unsigned char variant; /* servers with the same describe it alike; from 0 on, by the first server that has it */
    unsigned char schema;  /* likewise of its OpenAPI schema; only if has_schema */
    bool has_schema;
    const struct disco_version *version; /* SERVED */
};

struct matrix_row {
    struct slice group, version;
    const struct matrix_cell *cells; /* of each server: the local one, then the peers; until the next call */
    unsigned variants;               /* how many there are */
    unsigned schemas;
    bool uneven; /* some of those that are known lack it, or describe it otherwise; schemas aside */
};

/* References the snapshot. NULL when out of memory. */
MEM_CHECK struct matrix *matrix_new(struct served *s);
void matrix_free(struct matrix *m); /* NULL is fine */
/* A step. True: the rows can be read. *failed when out of memory. */
bool matrix_gather(struct matrix *m, bool *failed);
size_t matrix_servers(const struct matrix *m);
const char *matrix_server(const struct matrix *m, size_t i); /* by host name */
size_t matrix_rows(const struct matrix *m);
/* In order of group and version. */
void matrix_name(const struct matrix *m, size_t i, struct slice *group, struct slice *version);
void matrix_row(struct matrix *m, size_t i, struct matrix_row *out);

#endif
