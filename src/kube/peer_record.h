/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer endpoint records: what kube-apiserver (KEP-4020, pkg/reconcilers/peer_endpoint_lease.go) keeps in etcd under
 * <prefix>/peerserverleases/<server ID> so that its peers find it. The value is a core/v1 Endpoints without a name:
 * label apiserverIdentity, one subset with one address and one port. kube-apiserver writes protobuf in an envelope and
 * reads JSON as well; we read both and write JSON.
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
 * A value of etcd. Taken are, as kube-apiserver does, the first address and the first port of the first subset. False
 * with a reason: in neither form, encrypted, too large, no server ID, no literal address, no port.
 */
bool peer_record_parse(struct slice value, struct peer_record *out, struct err *err);
/* As JSON with a newline. False: the buffer failed. */
bool peer_record_print(const struct peer_record *r, struct buf *out);
/* "IP:port" as our options have it into ip and port. False: not a literal address and port. */
bool peer_record_set_address(struct peer_record *r, struct slice address);
bool peer_record_same_address(const struct peer_record *a, const struct peer_record *b);

/* The key of a server's record; `prefix` as in etcd-prefix (slashes at its ends do not matter). False: buffer failed.
 */
bool peer_record_key(struct slice prefix, struct slice id, struct buf *out);
/* The server ID that a key under the prefix names; p is NULL if it is no such key. */
struct slice peer_record_key_id(struct slice prefix, struct slice key);

#endif
