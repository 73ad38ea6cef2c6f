/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /statusz and /flagz in the form of Kubernetes' z-pages (KEP-4827, KEP-4828; k8s.io/component-base zpages): text for
 * people, JSON or YAML for who asks for it by its full media type (v1beta1 of Kubernetes 1.36, v1alpha1 of 1.35), 406
 * for anything else: CBOR, too, which kube-apiserver 1.36 and 1.37 have behind an alpha feature gate
 * (CBORServingAndStorage).
 */
#ifndef MVPROXY_ADMIN_ZPAGES_H
#define MVPROXY_ADMIN_ZPAGES_H

#include "base/buf.h"

enum zpage { ZPAGE_STATUSZ, ZPAGE_FLAGZ };
enum zpage_form {
    ZPAGE_TEXT,
    ZPAGE_JSON,
    ZPAGE_JSON_ALPHA,
    ZPAGE_JSON_PRETTY,
    ZPAGE_JSON_ALPHA_PRETTY,
    ZPAGE_YAML,
    ZPAGE_YAML_ALPHA,
    ZPAGE_NOT_ACCEPTABLE
};

/* What of a request says in which form: the Accept field, of which an empty one means text, and whether JSON is to be
 * laid out for people all the same (negotiate_pretty_asked()). */
enum zpage_form zpage_negotiate(enum zpage which, struct slice accept, bool pretty);
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
/* Failure is the buffer's, here and below. */
void statusz_write(struct buf *out, enum zpage_form form, const struct statusz *s);

/* Begin, each flag in order, end. */
struct flagz {
    struct buf *out, json;
    enum zpage_form form;
    bool any;
};
void flagz_begin(struct flagz *f, struct buf *out, enum zpage_form form);
void flagz_add(struct flagz *f, const char *name, const char *value);
void flagz_end(struct flagz *f);

#endif
