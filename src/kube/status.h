/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1 Status, the form of all errors that mvproxy itself answers with (apimachinery, pkg/apis/meta/v1 and
 * pkg/api/errors).
 */
#ifndef MVPROXY_KUBE_STATUS_H
#define MVPROXY_KUBE_STATUS_H

#include "base/buf.h"

struct status {
    unsigned code;        /* HTTP status; 502 becomes 503, which client-go knows */
    struct slice message; /* any bytes */
    unsigned retry_after; /* seconds; 0 leaves details.retryAfterSeconds (and the Retry-After header) out */
};

/* The messages of kube-apiserver's peer proxy, and our own. */
#define STATUS_NO_ENDPOINT "Error getting ip and port info of the remote server while proxying"
#define STATUS_PROXY_FAILED "Error while proxying request to destination apiserver"
#define STATUS_REROUTED "The request was already rerouted by a peer and the requested resource is not served here"
#define STATUS_SYNCING "The proxy has not yet loaded what the API servers serve, please try again"
#define STATUS_PEER_UNKNOWN                                                                                            \
    "The requested resource is not served here, and a peer that may serve it, or the Leases that name the peers, "     \
    "cannot be read now or have not been read yet, please try again"
#define STATUS_SERVERS_AWAY "None of the API servers that serve the requested resource can be reached, please try again"
#define STATUS_NO_PEER_CONFIG "The requested resource is served by a peer, but peer proxying is not configured"
#define STATUS_LOCAL_FAILED "Error while proxying request to the local apiserver"
#define STATUS_LOADING "The API server is starting and does not know yet who may do what, please try again"
#define STATUS_OTHER_FORM "Other API servers serve it, and their discovery is given as JSON, YAML or protobuf only"
#define STATUS_LOOP                                                                                                    \
    "The address of the local apiserver leads back to a proxy like this one: the request would go round for ever"
#define STATUS_NOT_READY "The local apiserver is not ready, please try another one"
#define STATUS_OUTDATED "What the API servers serve has changed too often since the request came, please try again"
#define STATUS_SHUTTING_DOWN "The proxy is shutting down, please try again"
#define STATUS_OVERLOADED "The proxy has too many requests in flight, please try again later"
#define STATUS_WASTEFUL                                                                                                \
    "This client has too many connections to servers, holds too much memory or has wasted too many connections, "      \
    "please try again later"
#define STATUS_CANCELLING                                                                                              \
    "Too many requests of this client were cancelled, or their heads are too large together, please try again later"
#define STATUS_NO_MEMORY "The proxy is out of memory, please try again later"
#define STATUS_UNAUTHORIZED "Unauthorized"
#define STATUS_BAD_TARGET "The request target is malformed or ambiguous"
#define STATUS_GATEWAY_TIMEOUT "The API server did not answer in time"

/* Retry-After of our own 503 and 429, in seconds: client-go then retries up to ten times by itself. */
enum { STATUS_RETRY_AFTER = 1 };

/* 503 for 502; any other code unchanged. */
unsigned status_code(unsigned code);
/* The metav1.StatusReason of a code, "" if apimachinery has none (414, 431). Static. */
const char *status_reason(unsigned code);
/* Appends the compact JSON document with a newline, as kube-apiserver's encoder does. False: the buffer failed. */
bool status_print(const struct status *s, struct buf *out);
#define STATUS_CONTENT_TYPE "application/json"

#endif
