/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer endpoint records in etcd, both ways: reads the addresses of peers, and publishes that of this server. Without
 * etcd endpoints in the configuration it does nothing, and addresses come from Lease annotations.
 */
#ifndef MVPROXY_CLUSTER_RECORDS_H
#define MVPROXY_CLUSTER_RECORDS_H

#include "base/mem.h"

struct back;
struct buf;
struct changes;
struct cluster_metrics;
struct loop;
struct origin;
struct records;

struct records_opts {
    struct loop *loop;
    struct back *back;
    struct cluster_metrics *metrics;
    struct changes *changes; /* list of changes for people, for refused records; NULL: not kept */
    const char *own_id;      /* copied; "": nothing is published */
    /* The address of a server in etcd was read or changed; host NULL: it has none any more. Valid during the call. */
    void (*on_address)(void *arg, struct slice id, const char *host, unsigned port);
    /* As record_publish_opts.may. */
    bool (*may_publish)(void *arg);
    /* Whether the peer has an address from another source (then records that could not be confirmed for a minute are
     * dropped). */
    bool (*has_other)(void *arg, struct slice id);
    void *arg;
};

/* Does nothing before records_configure. Ends the process when out of memory. */
struct records *records_new(const struct records_opts *o);
void records_free(struct records *r); /* NULL is fine; the own record is left to expire */

struct records_config {
    struct origin *const *servers; /* of etcd; n_servers 0: none */
    size_t n_servers;
    const char *prefix;    /* etcd-prefix, at most LIMIT_ETCD_PREFIX_BYTES; copied */
    const char *advertise; /* "IP:port" of this server; NULL or "": not published; copied */
};
/* At start and at a reload. Parts whose configuration is the same go on undisturbed. */
void records_configure(struct records *r, const struct records_config *c);
/* The local server answers: if may_publish() said no, it is asked again. */
void records_local_answers(struct records *r);
/* Calls on_address again with the known address of this server, for a peer that was just added. */
void records_tell(struct records *r, struct slice id);
/* Withdraws the own record, in 2 s at most; then `done` is called once, maybe from inside. */
void records_stop(struct records *r, void (*done)(void *arg), void *arg);

/* One line for people, on whether etcd's records can be used. */
void records_state(const struct records *r, char *text, size_t n);
/* Appends a JSON object for the status page. */
void records_describe(const struct records *r, struct buf *out);

#endif
