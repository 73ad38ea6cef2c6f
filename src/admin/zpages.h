/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /statusz and /flagz in the form of Kubernetes' z-pages (KEP-4827, KEP-4828; k8s.io/component-base zpages): text for
 * people, JSON for who asks for it by its full media type (v1beta1 of Kubernetes 1.36, v1alpha1 of 1.35), 406 for
 * anything else.
 */
#ifndef MVPROXY_ADMIN_ZPAGES_H
#define MVPROXY_ADMIN_ZPAGES_H

#include "base/buf.h"

enum zpage { ZPAGE_STATUSZ, ZPAGE_FLAGZ };
enum zpage_form { ZPAGE_TEXT, ZPAGE_JSON, ZPAGE_JSON_ALPHA, ZPAGE_NOT_ACCEPTABLE };

/* By the Accept field; an empty one means text. */
enum zpage_form zpage_negotiate(enum zpage which, struct slice accept);
const char *zpage_content_type(enum zpage which, enum zpage_form form);
/* The value of Warning, as kube-apiserver 1.36 has it; NULL: none. */
const char *zpage_warning(enum zpage which, enum zpage_form form);

struct statusz {
    int64_t started_wall_us;
    uint64_t uptime_ms;
    const char *version;
    const char *const *paths; /* NULL-terminated */
    struct slice facts;       /* whole lines; in the other forms a JSON object, the member "status" beside those that
                                 Kubernetes knows, which its clients pass over */
};
void statusz_write(struct buf *out, enum zpage_form form, const struct statusz *s);

/* Begin, each flag in order, end. */
struct flagz {
    struct buf *out;
    enum zpage_form form;
    bool any;
};
void flagz_begin(struct flagz *f, struct buf *out, enum zpage_form form);
void flagz_add(struct flagz *f, const char *name, const char *value);
void flagz_end(struct flagz *f);

#endif
