/* SPDX-License-Identifier: Apache-2.0 */
/* Every ceiling and default timeout of the program, on one page. Bytes and milliseconds if a name says nothing else. */
#ifndef MVPROXY_BASE_LIMITS_H
#define MVPROXY_BASE_LIMITS_H

enum {
    /* HTTP heads; kube-apiserver accepts 1 MiB of request header (reference: http.Server.MaxHeaderBytes). */
    LIMIT_HEAD_BYTES = 1 << 20,
    LIMIT_HEAD_FIELDS = 1024, /* kube-apiserver counts none; a front proxy sends one for each of a user's groups */
    LIMIT_HOP_FIELDS = 1280,  /* from another mvproxy: so many of a client, 64 groups and what else an mvproxy adds */
    LIMIT_CONNECTION_OPTIONS = 16,   /* in all Connection fields of a head, and in all of Upgrade: they are compared */
    LIMIT_FORWARDED_BYTES = 4 << 10, /* of the addresses that proxies have added */
    LIMIT_TARGET_BYTES = 64 << 10,
    LIMIT_TRAILER_BYTES = 16 << 10,
    LIMIT_CHUNK_EXCESS = 16 << 10,       /* of a body's chunk framing beyond what is fair, as Go's net/http */
    LIMIT_INTERIM_RESPONSES = 16,        /* 1xx heads a server may send before the final one */
    LIMIT_CONNECT_HEAD_BYTES = 64 << 10, /* a proxy's answer to CONNECT */
    LIMIT_EXCHANGE_ARENA = 4 << 20,      /* everything that is kept per request, heads included */
    LIMIT_CONNECTION_HEADS = 4 << 20,    /* heads that are still needed, of all requests of one client's connection */
    LIMIT_CLIENT_LITTLE = 256 << 10,     /* of an address: while others hold more than it that is not too much */

    /* Streams: what may wait in memory per direction. */
    LIMIT_STREAM_READ_TURN = 64 << 10,    /* ciphertext taken from the kernel per callback */
    LIMIT_STREAM_WRITE_TURN = 256 << 10,  /* taken for writing in one callback, even if the kernel would take more */
    LIMIT_STREAM_INPUT = 128 << 10,       /* decrypted bytes not yet consumed: reading pauses above */
    LIMIT_STREAM_OUTPUT_HIGH = 128 << 10, /* unsent bytes: the producer is told to pause above */
    LIMIT_STREAM_OUTPUT_LOW = 32 << 10,   /* and to go on below */
    LIMIT_STREAM_OUTPUT_HARD = 4 << 20,   /* a producer that ignores the pause is cut off here */
    LIMIT_TLS_MESSAGES = 32,              /* after the handshake, per minute: new keys, tickets */

    /* HTTP/2 to clients, as kube-apiserver's numbers where it has one; the rates are per connection and second. */
    LIMIT_H2_STREAMS = 100,
    LIMIT_H2_STREAM_WINDOW = 256 << 10,   /* of a request's body that the proxy does not take now */
    LIMIT_H2_CONNECTION_WINDOW = 1 << 20, /* of all bodies, on their way; given back at once */
    LIMIT_H2_OUTPUT_HIGH = 64 << 10,      /* of one response that waits: its producer is told to pause above */
    LIMIT_H2_OUTPUT_LOW = 16 << 10,
    LIMIT_H2_RESETS = 100,          /* requests given up, or malformed before their answer: more are an attack */
    LIMIT_CLIENT_RESETS = 300,      /* of all connections of one client address: those the proxy was never shown */
    LIMIT_H2_CONTROL_FRAMES = 1000, /* PING, SETTINGS, PRIORITY, RST_STREAM, DATA and CONTINUATION of next to nothing */
    LIMIT_H2_UNSENT_ACKS = 1000,    /* answers to PING and SETTINGS that a client does not read */

    /* HTTP/2 to servers. */
    LIMIT_H2_BACK_CONNECTIONS = 1024,          /* per pool; when they are all busy requests go over HTTP/1.1 */
    LIMIT_H2_BACK_STREAMS = 250,               /* per connection, or what the server allows; Go's servers: 100 or 250 */
    LIMIT_H2_BACK_SPREAD = 8,                  /* connections with large answers, before these share with small ones */
    LIMIT_H2_BACK_DIALS = 32,                  /* connections being made at once, per pool */
    LIMIT_ACCEPTED_BEARERS = 4096,             /* tokens that a server took, remembered as a hash each */
    LIMIT_H2_BACK_WINDOW = 64 << 10,           /* of a response that its owner does not take now */
    LIMIT_H2_BACK_WINDOW_MAX = 1 << 20,        /* one that is taken as fast as it comes may have more on its way */
    LIMIT_H2_BACK_CONNECTION_WINDOW = 4 << 20, /* of all responses, on their way; given back at once */
    LIMIT_H2_BACK_HEAD = 16 << 10,         /* of a request, each field and 32 bytes: a longer one goes over HTTP/1.1 */
    LIMIT_H2_BACK_UPLOAD = 512 << 10,      /* of a request's body: waits for the server's windows */
    LIMIT_H2_BACK_UPLOAD_LENGTH = 4 << 20, /* longer bodies go over HTTP/1.1; kube-apiserver takes objects of 3 MB */
    LIMIT_DISCOVERY_BYTES = 64 << 20,
    LIMIT_DISCOVERY_PEER_BYTES = 24 << 20, /* so that some peers' lies leave room for the others: 15,000 CRDs */
    LIMIT_DISCOVERY_DEPTH = 32,
    LIMIT_DISCOVERY_INDEX_BYTES = 96 << 20,   /* the index over one document */
    LIMIT_DISCOVERY_PART_BYTES = 512 << 10,   /* one subresource, or one field that we pass over */
    LIMIT_DISCOVERY_PEER_GROUPS = 10000,      /* a merge has memory for each, of each server */
    LIMIT_DISCOVERY_PEER_LIST = 5000,         /* versions of a group, resources of a version */
    LIMIT_DISCOVERY_PEER_SUBRESOURCES = 1000, /* of a resource; each request for one looks through them */
    LIMIT_SCHEMA_INDEX_BYTES = 8 << 20,       /* /openapi/v3 without the documents: 230 bytes for each group/version */
    LIMIT_SCHEMAS = 64 << 10,                 /* more than fit, of real ones: what an index costs beside its text */
    LIMIT_HEALED_BYTES = 256 << 10,     /* an answer that is completed in one turn; a longer one is relayed as it is */
    LIMIT_HEALED_WORK = 1 << 20,        /* of others' documents that is looked at for it, in bytes */
    LIMIT_LEASE_BYTES = 16 << 10,       /* an API server's has 1.5 KB; a larger one is nobody's identity */
    LIMIT_LEASE_LIST_BYTES = 16 << 20,  /* of those that are not too large */
    LIMIT_LIST_BYTES = 256 << 20,       /* of a list as it comes, with what is passed over */
    LIMIT_APISERVICE_BYTES = 4 << 20,   /* as a CRD: more than etcd takes (1.5 MiB), so none is left out */
    LIMIT_TRUST_DATA_BYTES = 256 << 10, /* what a ConfigMap says of front proxies: a few texts, two of them CAs */
    LIMIT_PEERS = 256,                  /* all of which may go in one turn */
    LIMIT_ADDRESS_TEXT_BYTES = 64,      /* IP:port */
    LIMIT_ETCD_PREFIX_BYTES = 1024,
    LIMIT_ETCD_RANGE_BYTES = 4 << 20,    /* all endpoint records, or a value of somebody else's (etcd: 1.5 MiB) */
    LIMIT_ETCD_ANSWER_BYTES = 128 << 10, /* any other answer */
    LIMIT_SMALL_BODY = 1 << 20,          /* own API calls that are neither discovery nor lists */
    LIMIT_DENIAL_BODY = 4 << 10,  /* of an error that may be read before it is relayed; a Status without details */
    LIMIT_DRAIN_BYTES = 64 << 10, /* of the answer to a cancelled request, read so that its connection can be kept */
    LIMIT_CHURN_ACCOUNTS = 4096,  /* clients whose cancelled requests are counted */
    LIMIT_CHURN_REQUESTS = 2000,  /* that a client may give up at once, soon after it has asked */
    LIMIT_CHURN_REQUESTS_SECOND = 200,
    LIMIT_CHURN_DIALS = 100,       /* connections to servers that these may end at once */
    LIMIT_CHURN_DIALS_SECOND = 10, /* and each second after; four such clients together */
    LIMIT_CHURN_RESETS = 100,      /* the same of HTTP/2 streams to servers that are reset at once */
    LIMIT_CHURN_RESETS_SECOND = 50,
    LIMIT_CHURN_TOGETHER = 4,
    LIMIT_REPLAY_BYTES = 64 << 10, /* of a request's body that is kept for the keep-alive race */
    LIMIT_POOL_IDLE_PER_ORIGIN = 1024,
    LIMIT_POOL_CONNECTIONS = 24000,              /* an address pair has 28 000 ports */
    LIMIT_POOL_DIALS = 16,                       /* at once, for those who wait in one pool */
    LIMIT_POOL_WAITING = LIMIT_POOL_CONNECTIONS, /* what a client may have of both is a share (back/shares.h) */
    LIMIT_METRIC_SERIES = 1000,
    LIMIT_ASKERS = 500, /* for what only old, only new or only some servers serve: resource, user agent, user */
    LIMIT_ASKERS_RESOURCES = 500, /* how often each was asked for, likewise */
    LIMIT_CHANGES = 100, /* of what happened lately that is kept for people, and as many of what was not believed */
    LIMIT_CONTROL_CLIENTS = 8,           /* of the control socket, at once */
    LIMIT_CONTROL_LINE = 64 << 10,       /* one request there */
    LIMIT_CONTROL_ANSWER = 16 << 20,     /* one answer; 100 servers and 500 groups are 3 MB */
    LIMIT_PROXY_HEADERS = 1024,          /* connections of balancers whose PROXY header has not come */
    LIMIT_ADMIN_CONNECTIONS = 256,       /* with the admin listener */
    LIMIT_ADMIN_HANDSHAKES = 128,        /* of these, in their handshakes */
    LIMIT_ADMIN_UNTAKEN = 64 << 20,      /* of its answers, until they are read: then no more long ones are made */
    LIMIT_PEM_BYTES = 16 << 20,          /* a file of certificates or keys */
    LIMIT_CLIENT_HELLO_BYTES = 16 << 10, /* one record; real ones have 2 KB and the ticket that they show (up to 9) */
    LIMIT_CLIENT_TICKETS = 5,            /* in one: as many as Go looks at, 0.1 ms each with a certificate in it */
    /* Certificates: 0.1 to 0.2 ms and 2 to 4 KB each before anybody is known, and they may be of 170 bytes. */
    LIMIT_CLIENT_CHAIN_BYTES = 8 << 10,  /* that a client shows; with RSA-4096 one has 1.3 KB */
    LIMIT_CLIENT_CERTIFICATES = 6,       /* so many at once */
    LIMIT_CLIENT_RSA_BITS = 8192,        /* of his own: 1 ms */
    LIMIT_SERVER_CHAIN_BYTES = 16 << 10, /* that a server shows; and that it names CAs in */
    LIMIT_LOG_VALUE = 4 << 10,           /* one value as it stands in a log line; the rest is cut off */
    LIMIT_LOG_LINE = 40 << 10,           /* journald makes two of what is over 48 KiB (LineMax=) */
    LIMIT_LOG_BUFFER = 64 << 10,         /* lines that wait for the end of the loop turn */
};

enum {
    TIMEOUT_HANDSHAKE_MS = 10000,
    TIMEOUT_CONTROL_MS = 30000,     /* a client of the control socket: a request; taking an answer */
    GRACE_CONTROL_MS = 1000,        /* before it makes room for another */
    TIMEOUT_PROXY_HEADER_MS = 5000, /* a balancer sends it at once */
    TIMEOUT_CONNECT_MS = 5000,
    TIMEOUT_HEADER_MS = 32000,     /* kube-apiserver's ReadHeaderTimeout */
    TIMEOUT_IDLE_MS = 90000,       /* kube-apiserver's IdleTimeout */
    TIMEOUT_BACK_IDLE_MS = 60000,  /* below the server's 90 s, so that we close first */
    TIMEOUT_SOON_MS = 10000,       /* who gives up a request later has waited for its answer, or watched */
    TIMEOUT_DRAIN_MS = 1000,       /* for the rest of the answer to a cancelled request */
    TIMEOUT_BODY_STALL_MS = 60000, /* no progress on an ordinary request's body */
    TIMEOUT_BODY_SLOW_MS = 20000,  /* and where others wait for room: of a body that comes more slowly than */
    LIMIT_SLOW_BODY_RATE = 500,    /* so many bytes a second (both as Apache's RequestReadTimeout) */
    TIMEOUT_BODY_DRAIN_MS = 5000,  /* instead, in a drain: a packet may be lost three times meanwhile */
    /* Of what waits for a client; longer, since an answer of which nothing is taken is given up only after a minute. */
    TIMEOUT_SLOW_READER_MS = 30000,
    LIMIT_SLOW_READER_RATE = 500,
    TIMEOUT_LINGER_MS = 2000,
    TIMEOUT_H2_GOAWAY_MS = 1000,       /* for the client to hear that we leave, before we refuse new streams */
    TIMEOUT_H2_PING_MS = 30000,        /* without a word of the server: it is asked; as client-go */
    TIMEOUT_H2_PONG_MS = 15000,        /* and without an answer it is dead */
    TIMEOUT_SUSPECT_MS = 10000,        /* between two times that all connections to a server are in doubt */
    TIMEOUT_HTTP2_REFUSED_MS = 300000, /* a server that did not speak HTTP/2 is asked again */
    TIMEOUT_RELOAD_DISTANCE_MS = 500,  /* between two SIGHUPs that are followed */
    TIMEOUT_ADDRESS_IN_USE_MS = 60000, /* at the start: for kube-apiserver to leave it; less than systemd's 90 s */
    TIMEOUT_BARE_MS = 30000,           /* a server without an mvproxy is asked again whether it has one */
    TIMEOUT_DISCOVERY_MS = 10000,
    TIMEOUT_PEER_FIRST_ANSWER_MS = 5000,
    TIMEOUT_PEER_ADDRESS_MS = 60000, /* for a peer to get an address, once it was seen */
    TIMEOUT_LEASES_READ_MS = 500,    /* from when Leases are watched again to when all that has happened is known */
    TIMEOUT_PEER_UNKNOWN_MS = 60000, /* so long anything may be what a live peer serves that was not read yet */
};

#endif
