/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kube-apiserver's EgressSelectorConfiguration file, apiVersion apiserver.k8s.io/v1beta1 or v1alpha1, with the rules of
 * k8s.io/apiserver/pkg/server/egressselector/config.go (1.37): strict, so unknown and repeated fields are errors. Also
 * refused are a URL without port, which kube-apiserver accepts but can never connect to, and what this program does not
 * support: GRPC in a selection that it uses, user names in URLs, abstract sockets.
 */
#ifndef MVPROXY_DAEMON_EGRESS_FILE_H
#define MVPROXY_DAEMON_EGRESS_FILE_H

#include "daemon/config.h"

/* Names are case-insensitive; v1alpha1 also has "master" for controlplane. */
enum egress_name { EGRESS_CONTROLPLANE, EGRESS_CLUSTER, EGRESS_ETCD, EGRESS_NAMES };
enum egress_protocol { EGRESS_DIRECT, EGRESS_HTTP_CONNECT, EGRESS_GRPC };

/* A text of the file; "" if not given; never NULL in a selection that is given. */
struct egress_text {
    const char *text;
    struct config_place place;
};

struct egress_selection {
    bool given;
    enum egress_protocol protocol;
    bool tls;
    const char *host; /* of the proxy; "unix:/path" for a Unix socket */
    unsigned port;
    struct egress_text ca_bundle, client_cert, client_key, server_name; /* TLS only; server_name "": the URL's host */
};

struct egress {
    struct egress_selection of[EGRESS_NAMES];
};

/* False, with a line in *errors for each error, with file:line:column. Texts live in the arena. Opens no other file. */
bool egress_file_parse(const char *name, struct slice text, struct arena *a, struct egress *out, struct buf *errors);

#endif
