/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether the API servers accept the front proxies that mvproxy accepts, by the same headers, and a CA of
 * clients that mvproxy has. Their configuration (kube/request_header.h) is read once a minute, after a reload that
 * changes ours or the local server, and after any reload while there is a difference.
 *
 * If they differ (request_header_compare()), users with certificates are somebody else there than they are taken for
 * here, so that is logged and makes mvproxy unready.
 * If we may not read it, that is logged once.
 *
 * The question itself shows whether the local server believes us: it answers 401 to a front proxy of a CA or a name
 * that it does not accept, and 403 to system:masters, whom it refuses nothing, only if it has not read the groups. Then
 * users with certificates are refused as we are, so that is logged and makes mvproxy unready, too: not after one such
 * answer, for a server whose CA file was replaced takes a moment to read it, but after FRONT_TRUST_DOUBT_MS of nothing
 * else; at a start, where nothing is lost by it, at once. An expired certificate is not meant: that is told elsewhere
 * (daemon/readiness_checks.h).
 */
#ifndef MVPROXY_CLUSTER_FRONT_TRUST_H
#define MVPROXY_CLUSTER_FRONT_TRUST_H

#include "kube/request_header.h"

struct api;
struct changes;
struct front_trust;
struct metric;

/* FRONT_TRUST_DOUBT_STEP_MS: between questions while it is in doubt; FRONT_TRUST_REFUSED_MS: while it refuses us. */
enum {
    FRONT_TRUST_INTERVAL_MS = 60000,
    FRONT_TRUST_DOUBT_MS = 10000,
    FRONT_TRUST_DOUBT_STEP_MS = 1000,
    FRONT_TRUST_REFUSED_MS = 5000
};

struct front_trust_opts {
    struct api *api;
    struct metric *differs;  /* gauge */
    struct metric *refused;  /* gauge: the local server does not believe us */
    struct changes *changes; /* list of changes for people; NULL: not kept */
};

/* As whom the local server is asked. */
struct front_trust_self {
    int64_t until_s; /* end of the front-proxy certificate, in seconds since 1970; 0: there is none, so nobody is
                        asserted */
    bool masters;    /* with the group system:masters */
};

/* Ends the process when out of memory. Asks nothing before front_trust_configure. */
struct front_trust *front_trust_new(const struct front_trust_opts *o);
void front_trust_free(struct front_trust *t); /* NULL is fine */
/*
 * Also a reload. The lists and texts of `ours` must live until the next call; headers NULL: nothing is asked. `moved`:
 * the local server is another one.
 */
void front_trust_configure(struct front_trust *t, const struct request_header *ours,
                           const struct front_trust_self *self, bool moved);
/* The local server refused us something else: it is asked soon whether it still believes us. */
void front_trust_doubt(struct front_trust *t);
/* Whether this answer of the local server to us, 401 or 403, says that it does not believe us (yet), and not that a
 * right is missing. */
bool front_trust_is_disbelief(const struct front_trust *t, unsigned status);
/* False, with the difference in `reason`, if the servers were found to be configured differently, or the local one not
 * to believe us. */
bool front_trust_agrees(const struct front_trust *t, char *reason, size_t n);
/* A header that the servers name and that is not configured here, for people; NULL: there is none, or it is not known.
 */
const char *front_trust_more(const struct front_trust *t);
/* The same of what is configured now by what the servers said last, which nobody may have asked them since: true where
 * that is not known. */
bool front_trust_expected(const struct front_trust *t, char *reason, size_t n);
/* What they said last of this bundle of CAs of clients, as request_header_clients(). */
enum request_header_verdict front_trust_clients(const struct front_trust *t, struct slice client_ca);
/* They are asked again now, if they are asked at all. */
void front_trust_ask(struct front_trust *t);
/* The headers that they name, to be removed from requests besides those that are configured. Valid until the loop goes
 * on. */
const struct user_headers *front_trust_named(const struct front_trust *t);

#endif
