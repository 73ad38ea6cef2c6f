/* SPDX-License-Identifier: Apache-2.0 */
/* An admin listener with what it shows, and its client: for the tests that ask it over real sockets. */
#ifndef MVPROXY_TESTS_UNIT_ADMIN_KIT_H
#define MVPROXY_TESTS_UNIT_ADMIN_KIT_H

#include "admin/admin.h"
#include "admin/process_metrics.h"
#include "base/buf.h"
#include "base/changes.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/tls_ctx.h"

enum { PATIENCE_MS = 60000, ANSWER_BYTES = 1 << 20 };

struct admin_kit {
    struct loop *loop;
    struct metrics *metrics;
    struct process_metrics *process;
    struct health *health;
    struct admin_opts opts;
    struct admin *admin;
    struct changes *changes;
    const char *not_ready;
    size_t servers; /* that the status has; 0: one */
};

void admin_kit_init(struct admin_kit *k, const char *address, struct tls_ctx *tls);
void admin_kit_end(struct admin_kit *k);

/* What a stream of the client's has read; `arg` of admin_client_on_event(). */
struct admin_client {
    struct buf in;
    bool over;
};
void admin_client_on_event(struct stream *s, enum stream_event ev, void *arg);

/* A connection that says nothing yet. */
int dial_admin(struct admin_kit *k);
/* The whole answer, NUL-terminated, valid until the next call. */
const char *ask_over(struct admin_kit *k, int fd, struct tls_ctx *tls, const char *request);
const char *ask(struct admin_kit *k, struct tls_ctx *tls, const char *request);
const char *get(struct admin_kit *k, struct tls_ctx *tls, const char *path);
/* The same answer, whatever bytes are in it. */
struct slice answer_bytes(void);
bool has(const char *text, const char *part);
const char *body_of(const char *answer);

#endif
