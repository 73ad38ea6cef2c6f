/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effective configuration: one immutable snapshot, made by the option table (options.h) from defaults, file and
 * command line. Lists are NULL-terminated. Texts live as long as the snapshot.
 */
#ifndef MVPROXY_DAEMON_CONFIG_H
#define MVPROXY_DAEMON_CONFIG_H

#include "base/buf.h"
#include "base/mem.h"

/* Where a setting came from, for messages: file:line:column, or the command line. */
struct config_place {
    const char *file; /* NULL: command line */
    size_t line, column;
};

/* Where the value of an option came from. */
struct config_origin {
    bool given;  /* else it is the default */
    bool unread; /* given, but with an invalid value: the default is in its place */
    struct config_place place;
    const struct config_place *entries; /* of a list's entries; none for a default */
    size_t n_entries;
};

struct config {
    struct arena *arena;           /* holds all text below */
    struct config_origin *origins; /* in the order of the option table */

    /* serving */
    const char *const *bind_address;
    uint64_t secure_port;
    const char *tls_cert_file, *tls_private_key_file, *tls_min_version;
    const char *goaway_chance;
    const char *const *tls_cipher_suites, *const *tls_sni_cert_key;
    const char *const *trusted_proxies, *const *proxy_protocol_from;
    uint64_t max_connections, max_connections_per_client, max_fresh_connections, max_request_header_bytes;
    uint64_t max_client_memory;
    uint64_t max_requests_per_connection;
    uint64_t client_header_timeout, client_idle_timeout; /* ms */

    /* who is asking */
    const char *client_ca_file;
    const char *requestheader_client_ca_file;
    const char *const *requestheader_allowed_names, *const *requestheader_username_headers;
    const char *const *requestheader_uid_headers, *const *requestheader_group_headers;
    const char *const *requestheader_extra_headers_prefix;

    /* the local kube-apiserver */
    const char *apiserver, *apiserver_ca_file, *apiserver_tls_server_name, *apiserver_user;
    const char *const *apiserver_groups;
    const char *proxy_client_cert_file, *proxy_client_key_file;
    uint64_t request_timeout; /* ms */

    /* peers */
    const char *peer_ca_file, *hostname_override;
    const char *const *peers, *const *peer_allowed_cidrs;
    uint64_t peer_stale_after, peer_forget_after, peer_leave_grace; /* ms */
    uint64_t max_requests_inflight_per_peer;
    bool local_failover;
    const char *skewed_resources;
    const char *legacy_discovery;
    const char *identity_lease, *peer_advertise_ip;
    uint64_t peer_advertise_port; /* 0: none given */
    const char *const *feature_gates;
    const char *const *etcd_servers;
    const char *etcd_cafile, *etcd_certfile, *etcd_keyfile, *etcd_prefix;
    const char *egress_selector_config_file;

    /* discovery */
    uint64_t discovery_refresh_interval, discovery_authz_ttl; /* ms */

    /* life */
    uint64_t shutdown_delay_duration, shutdown_grace_period; /* ms */

    /* operators */
    const char *admin_bind_address, *control_socket;
    uint64_t v;
    const char *logging_format;
    const char *const *access_log;
    uint64_t access_log_sample;
    bool access_log_user;
};

/* One setting as given, before it has a type. A list may come as several values. */
struct config_setting {
    struct slice key;
    const struct slice *values;
    const struct config_place *places; /* one per value */
    size_t n_values;
    struct config_place place; /* of the key */
    bool is_list;              /* given as a sequence */
};

void config_free(struct config *c); /* NULL is fine */

/* Appends "file:line:column: " or "command line: ". */
void config_put_place(struct buf *errors, const struct config_place *place);
/* Appends "file:line:column: text" or "command line: text", with a newline. */
void config_complain(struct buf *errors, const struct config_place *place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
