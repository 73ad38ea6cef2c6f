/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises the answers of an API server that does not know a path at all, as opposed to those about a missing object.
 * They have two forms (k8s.io/apiserver, pkg/server/handler.go, and net/http): if the whole group is unknown, "404 page
 * not found" in plain text; if its group or version is known, a Status with empty `details` and a fixed message, 404
 * for a resource or subresource, 405 for a verb. (A Status about an object has details.name, one about a kind of
 * objects details.kind.)
 *
 * Also those of a server that has not read the request: while it installs its paths it answers unknown ones with a 503
 * of its own; and when it stops it refuses late requests before anything else sees them (k8s.io/apiserver,
 * pkg/server/filters/waitgroup.go, and with --shutdown-send-retry-after with_retry_after.go).
 */
#ifndef MVPROXY_KUBE_DENIAL_H
#define MVPROXY_KUBE_DENIAL_H

#include "base/slice.h"

enum denial {
    DENIAL_NONE,
    DENIAL_NEEDS_BODY, /* the body decides; only from denial_by_head() */
    DENIAL_UNKNOWN,    /* this server does not know the path */
    DENIAL_STARTING,   /* it does not know its paths yet */
    DENIAL_STOPPING,   /* it is stopping, and has not read the request */
};

/* Whether it is the Content-Type of "404 page not found". */
bool denial_is_plain(struct slice content_type);
/* `body`: the answer has one. Without one (HEAD) a 404 is about the path, since API servers have HEAD only for objects
 * of custom resources. */
enum denial denial_by_head(unsigned status, struct slice content_type, bool body);
/* Takes the whole body, any bytes. A Status is read as API servers write it: JSON, protobuf or YAML, but not CBOR (an
 * alpha feature). */
enum denial denial_by_body(unsigned status, struct slice body);
/*
 * Whether the body of a 401 shows that the server knew the user: it is a Status of what comes after authentication, an
 * admission webhook or policy, whose message says by whom. Authentication itself says "Unauthorized" and no details
 * (k8s.io/apiserver, pkg/endpoints/filters/authentication.go). False for what cannot be read.
 */
bool denial_knows_user(struct slice body);

#endif
