/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer endpoint records, by which API servers find each other: kube-apiserver (KEP-4020,
 * pkg/reconcilers/peer_endpoint_lease.go) keeps one in etcd under <prefix>/peerserverleases/<server ID>. The value is a
 * core/v1 Endpoints without a name: label apiserverIdentity, one subset with one address and one port. kube-apiserver
 * writes protobuf in an envelope and reads JSON as well; mvproxy reads both and writes JSON.
 */
#ifndef MVPROXY_KUBE_PEER_RECORD_H
#define MVPROXY_KUBE_PEER_RECORD_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/server_id.h"

#define PEER_RECORD_FOLDER "/peerserverleases/"
enum { PEER_RECORD_BYTES = 16 << 10, PEER_RECORD_IP_BYTES = 46 };

enum peer_record_form { PEER_RECORD_JSON, PEER_RECORD_PROTOBUF };

struct peer_record {
    char id[SERVER_ID_BYTES];
    char ip[PEER_RECORD_IP_BYTES]; /* a literal address as inet_pton takes it, without zone */
    uint16_t port;                 /* never 0 */
    uint64_t generation;           /* counts writes; only printed */
    enum peer_record_form form;
};

/*
 * Parses a value. As in kube-apiserver the first address and the first port of the first subset count. False, with *err
 * set: in neither form, encrypted, too large, no server ID, no literal address, no port.
 */
bool peer_record_parse(struct slice value, struct peer_record *out, struct err *err);
/* Prints it as JSON with a newline. False: the buffer failed. */
bool peer_record_print(const struct peer_record *r, struct buf *out);
/* Sets ip and port from "IP:port", the form of our options. False: not a literal address and port. */
bool peer_record_set_address(struct peer_record *r, struct slice address);
bool peer_record_same_address(const struct peer_record *a, const struct peer_record *b);

/* The key of a server's record; `prefix` as in etcd-prefix (slashes at its ends do not matter). False: buffer failed.
 */
bool peer_record_key(struct slice prefix, struct slice id, struct buf *out);
/* The server ID in a key; p is NULL if it is not the key of a record under the prefix. */
struct slice peer_record_key_id(struct slice prefix, struct slice key);

#endif
