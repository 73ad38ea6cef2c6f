/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer endpoint records in etcd, both ways: addresses of peers come out of them, that of this server goes in. Without
 * endpoints in the configuration there is no etcd, and the Lease annotations are all there is.
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
    struct changes *changes; /* gets what is not believed; NULL: nobody wants to know */
    const char *own_id;      /* copied; "": nothing is published */
    /* What etcd says of a server's address; host NULL: nothing. Lives during the call. */
    void (*on_address)(void *arg, struct slice id, const char *host, unsigned port);
    /* Whether peers should be told to come here now. */
    bool (*may_publish)(void *arg);
    /* Whether there is another address for this peer. */
    bool (*has_other)(void *arg, struct slice id);
    void *arg;
};

/* Does nothing before records_configure. Ends the process when out of memory. */
struct records *records_new(const struct records_opts *o);
void records_free(struct records *r); /* NULL is fine; leaves the own record to expire */

struct records_config {
    struct origin *const *servers; /* of etcd; n_servers 0: none */
    size_t n_servers;
    const char *prefix;    /* etcd-prefix, at most LIMIT_ETCD_PREFIX_BYTES; copied */
    const char *advertise; /* "IP:port" of this server; NULL or "": not published; copied */
};
/* Also a reload. What did not change goes on undisturbed. */
void records_configure(struct records *r, const struct records_config *c);
/* The local server answers: what may_publish held back goes on. */
void records_local_answers(struct records *r);
/* Says again what is known of this server, through on_address: for a peer that has just become known. */
void records_tell(struct records *r, struct slice id);
/* Withdraws the own record, in 2 s at most; `done` (may be NULL) is called once, never from inside. */
void records_stop(struct records *r, void (*done)(void *arg), void *arg);

/* One line for people. */
void records_state(const struct records *r, char *text, size_t n);
/* Appends a JSON object for the status page. */
void records_describe(const struct records *r, struct buf *out);

#endif
