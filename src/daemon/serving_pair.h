/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By whom the certificate of tls-cert-file is believed, as far as this configuration tells: peers are likely to have
 * the same peer-ca-file, and clients come by the addresses of bind-address.
 */
#ifndef MVPROXY_DAEMON_SERVING_PAIR_H
#define MVPROXY_DAEMON_SERVING_PAIR_H

#include "base/buf.h"
#include "daemon/config.h"

enum {
    SERVING_SIGNED = 1 << 0,  /* peer-ca-file has signed it; not without such a file */
    SERVING_NAMED = 1 << 1,   /* it is valid for kubernetes.default.svc, by which peers know us */
    SERVING_ADDRESS = 1 << 2, /* for the first address where clients are served, the next bit for the second ... */
};

/* A set of these. */
unsigned serving_pair_fits(const struct config *c);
/* Adds an error: the certificate lacks what the one before it had, `lost`, of which this configuration still asks for
 * some. False: it asks for none of that. */
bool serving_pair_say_lost(const struct config *c, unsigned lost, struct buf *errors);
/* Appends a warning, as config_warn() does, for each of the first and third kind that lacks. Nothing is said of files
 * that cannot be read. */
void serving_pair_warn(const struct config *c, struct buf *out);

#endif
