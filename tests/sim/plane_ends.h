/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who are at the other ends of the data plane (plane.h): clients and servers that do nothing by themselves. What
 * they read they check.
 */
#ifndef MVPROXY_TESTS_SIM_PLANE_ENDS_H
#define MVPROXY_TESTS_SIM_PLANE_ENDS_H

#include "sim/plane_form.h"
#include "sim/sim_net.h"

enum { PLANE_ASKS = 256, PLANE_CLIENTS = 16, PLANE_CONNECTIONS = 256 };

enum plane_cert { CERT_NONE, CERT_ALICE, CERT_BOB, CERT_FRONT_PROXY, CERTS };

/* One request of a client's, for all who deal with it. */
struct ask {
    unsigned k;
    enum plane_target to;
    bool token, remote; /* Authorization; X-Remote-User, which only a front proxy may say */
    enum plane_cert cert;
    unsigned special; /* enum ask_bit */
    size_t body;      /* bytes of it */
    bool maybe_done;  /* a write that some server has read and not refused */
    bool rubbish;     /* a server mixed something into its answer */
    char user[16];    /* of X-Remote-User */
};

struct plane;

struct client {
    struct plane *plane;
    struct sim_sock *sock; /* NULL: closed by its own will */
    enum plane_cert cert;
    bool http2, spoiled; /* what it sent breaks the protocol, or itself: nothing is promised to it */
    unsigned special;    /* enum ask_bit, of what is asked from here on */
    struct bytes out, in;
    struct ask *asks[PLANE_ASKS]; /* [i] is HTTP/2's stream 2 * i + 1; NULL: reset */
    size_t n_asks;
    /* HTTP/1.1 */
    size_t n_answered;
    bool in_body, chunked, tunnel;
    uint64_t left;
    /* of each answer's body */
    size_t got[PLANE_ASKS];
    size_t due[PLANE_ASKS]; /* as the server says */
    bool ended[PLANE_ASKS];
    bool theirs[PLANE_ASKS];          /* a server's answer */
    bool completed[PLANE_ASKS];       /* by the proxy */
    enum plane_form form[PLANE_ASKS]; /* as the server says */
    void *inflater;
};

enum answering { UNANSWERED, ANSWERING, ANSWERED };

/* One request as a server has it. */
struct served_ask {
    struct ask *ask; /* NULL: of the proxy's own */
    uint32_t stream;
    enum answering state;
    bool body_ended, refused, upgrade;
    bool chunked, answer_chunked;
    enum plane_form form; /* of the answer */
    uint64_t body_left, answer_left;
    size_t got, sent;
};

struct connection {
    struct plane *plane;
    struct sim_host *host;
    struct sim_sock *sock;
    bool with_cert, http2;
    bool hop;                  /* this server was an mvproxy then */
    unsigned odd;              /* enum answer_bit, of answers from here on */
    enum plane_form denies_by; /* of those that are not 200 */
    struct bytes out, in;
    struct served_ask asks[PLANE_ASKS];
    size_t n_asks;
    bool in_body, tunnel, preface;
    bool leaving; /* GOAWAY is sent: what comes behind `last` is ignored */
    uint32_t last;
    void *inflater;
};

/* ---- clients ---- */

/* NULL when there are enough of them, or nobody listens. A window of UINT32_MAX: as in the RFC. */
struct client *client_new(struct plane *p, enum plane_cert cert, bool http2, uint32_t window);
/* Queues a request; NULL when there are enough. `body`: bytes of it, for writes. */
struct ask *client_ask(struct client *c, enum plane_target to, bool token, bool remote, size_t body);
void client_send(struct client *c, size_t most);
void client_read(struct client *c, size_t most); /* and checks */
void client_hang_up(struct client *c, bool reset);
void client_window(struct client *c, uint32_t more); /* for the connection and each stream */
void client_reset_stream(struct client *c, size_t i, uint32_t code);
bool client_over(const struct client *c);
void client_free(struct client *c);

/* ---- servers ---- */

void server_connected(struct sim_host *h, struct sim_sock *s, const struct tls_peer *shows, bool http2);
void server_read(struct connection *c, size_t most);
void server_send(struct connection *c, size_t most);
/* The next part of an answer: its head (with `status`), so many bytes of its body, its end. */
void server_answer(struct connection *c, size_t i, unsigned status, size_t most);
void server_end_answer(struct connection *c, size_t i);
void server_refuse_stream(struct connection *c, size_t i, uint32_t code);
void server_goaway(struct connection *c);
void server_rubbish(struct connection *c, unsigned seed);
void server_hang_up(struct connection *c, bool reset);
void server_free(struct connection *c);

#endif
