/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of an API server, computed from its host name as kube-apiserver does (pkg/server/config.go).
 */
#ifndef MVPROXY_KUBE_SERVER_ID_H
#define MVPROXY_KUBE_SERVER_ID_H

#include "base/slice.h"

#define SERVER_ID_PREFIX "apiserver-"
enum { SERVER_ID_CHARS = 36, SERVER_ID_BYTES = SERVER_ID_CHARS + 1 };
/* kube-apiserver 1.26 has IDs of another form: another prefix, and the hash of the bare host name. */
#define SERVER_ID_PREFIX_126 "kube-apiserver-"
enum { SERVER_ID_CHARS_126 = 41, SERVER_ID_BYTES_126 = SERVER_ID_CHARS_126 + 1 };

/* "apiserver-" + 26 lower-case base32 digits, NUL-terminated. False if the host name is empty or over 256 bytes, or if
 * libcrypto fails. */
bool server_id_from_hostname(struct slice hostname, char out[SERVER_ID_BYTES]);
bool server_id_126_from_hostname(struct slice hostname, char out[SERVER_ID_BYTES_126]);
/* True if `s` has the shape of a server ID (prefix, length, alphabet). */
bool server_id_valid(struct slice s);

#endif
