/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may read the admin listener.
 *
 * On a loopback address: whoever is on this machine, except pages in a browser that were led here by a foreign name
 * (DNS rebinding): the Host must be a loopback address or "localhost".
 *
 * Anywhere else, where it is served over TLS: the health endpoints themselves for everybody, as Kubernetes'
 * system:public-info-viewer allows; all else for a client certificate that client-ca-file verifies and whose
 * organizations name system:masters or system:monitoring, the groups that may read kube-apiserver's own.
 */
#ifndef MVPROXY_ADMIN_ACCESS_H
#define MVPROXY_ADMIN_ACCESS_H

#include "base/slice.h"

struct tls_peer;

enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_NO_IDENTITY,    /* 401: no certificate, or one that is not verified or is over */
    ACCESS_FOREIGN_HOST,   /* 403 */
    ACCESS_NOT_MONITORING, /* 403: of neither group */
    ACCESS_IN_CLEAR        /* 403: without TLS where others come; access_check() does not see that */
};

/* Is this listening address one that only this machine reaches (127.0.0.0/8, ::1)? */
bool access_is_loopback(const char *address);
/* `peer` may be NULL (no TLS). `now`: seconds since 1970. `path` without the query. */
enum access_verdict access_check(bool loopback, struct slice path, struct slice host, const struct tls_peer *peer,
                                 int64_t now);
/* Why the certificate that was shown is not taken, or what it names does not do; NULL: none was shown, or it does.
 * Static. */
const char *access_why_not(const struct tls_peer *peer, int64_t now);

#endif
