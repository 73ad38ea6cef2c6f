/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server says when it does not know a path at all, as opposed to an object that is not there. Two shapes
 * (k8s.io/apiserver, pkg/server/handler.go, and net/http): where the whole group is unknown "404 page not found" in
 * plain text; where its group or version is known, a Status with an empty `details` and a fixed message, 404 for a
 * resource or subresource, 405 for a verb. A Status about an object has details.name, one about a kind of objects
 * details.kind. And for as long as a server installs its paths it answers every unknown one with a 503 of its own.
 * One that stops refuses what comes late before anything else looks at it (k8s.io/apiserver, pkg/server/filters/
 * waitgroup.go, and with --shutdown-send-retry-after with_retry_after.go): that has not been carried out.
 */
#ifndef MVPROXY_KUBE_DENIAL_H
#define MVPROXY_KUBE_DENIAL_H

#include "base/slice.h"

enum denial {
    DENIAL_NONE,
    DENIAL_NEEDS_BODY, /* the body will tell; only of denial_by_head() */
    DENIAL_UNKNOWN,    /* this server does not know the path */
    DENIAL_STARTING,   /* it does not know its paths yet */
    DENIAL_STOPPING,   /* it stops, and has not looked at the request */
};

/* That of "404 page not found". */
bool denial_is_plain(struct slice content_type);
/* `body`: there is one. Without (HEAD) a 404 is about the path: no API server has HEAD for objects, but of custom
 * resources. */
enum denial denial_by_head(unsigned status, struct slice content_type, bool body);
/* The whole body, as API servers write a Status: in JSON, protobuf or YAML (CBOR, behind an alpha gate, is not read).
 * Any bytes. */
enum denial denial_by_body(unsigned status, struct slice body);

#endif
