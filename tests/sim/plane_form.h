/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked in the data plane (plane.h), and what the bodies of servers' answers consist of: the number of the
 * request again and again, or a text that the proxy reads. Which it is the server writes into the head, so that the
 * client knows each byte that must come.
 */
#ifndef MVPROXY_TESTS_SIM_PLANE_FORM_H
#define MVPROXY_TESTS_SIM_PLANE_FORM_H

#include "sim/sim_bytes.h"

enum plane_target {
    TO_LOCAL, /* GET a list that the local server has */
    TO_PEER,  /* one that only the peer has */
    TO_WRITE, /* POST to the local server */
    TO_WRITE_PEER,
    TO_WATCH,
    TO_EXEC, /* HTTP/1.1: an upgrade */
    TO_APIS, /* the merged document, which the local server must allow */
    PLANE_TARGETS_PLAIN,
    TO_PRETTY = PLANE_TARGETS_PLAIN, /* the same, laid out for people */
    TO_GROUPS,                       /* legacy discovery, which the proxy completes */
    TO_GROUP,
    TO_RESOURCES,
    TO_SCHEMAS, /* the index of OpenAPI: the same */
    TO_WATCH_PEER,
    TO_LOG,    /* follows it */
    TO_NOBODY, /* what no server has */
    TO_READYZ,
    PLANE_TARGETS
};

bool target_is_watch(enum plane_target to);    /* lasts until somebody ends it */
bool target_is_document(enum plane_target to); /* a body asked with is thrown away, or goes on whole */

/* What is special about requests. */
enum ask_bit {
    ASK_BODY = 1 << 0, /* it has a body, whatever it is */
    ASK_GZIP = 1 << 1,
    ASK_EXPECT = 1 << 2,
    ASK_REROUTED = 1 << 3, /* the mark of a peer; believed of front proxies only */
    ASK_IF_READY = 1 << 4,
    ASK_MAY_DENY = 1 << 5,
    ASK_BITS = 6
};

/* What is odd about answers; of a server that is no mvproxy the proxy must not believe all of it. */
enum answer_bit {
    ANSWER_TRY_ANOTHER = 1 << 0,
    ANSWER_UNSERVED = 1 << 1,
    ANSWER_HOP = 1 << 2,
    ANSWER_GZIP = 1 << 3, /* it says so, and it is not true */
    ANSWER_TEXT = 1 << 4,
    ANSWER_TRAILERS = 1 << 5,
    ANSWER_RAW = 1 << 6,    /* of a document there is none, but a pattern */
    ANSWER_BEYOND = 1 << 7, /* a body with 204 or 304 */
    ANSWER_BITS = 8
};

enum plane_form {
    FORM_PATTERN,
    FORM_EMPTY,
    FORM_NO_PAGE, /* as kube-apiserver says it where nothing is installed */
    FORM_NO_PAGE_TWICE,
    FORM_NOT_FOUND,
    FORM_STOPPING,
    FORM_UNAUTHORIZED,
    FORM_DENIALS, /* those before are answers to anything */
    FORM_GROUPS = FORM_DENIALS,
    FORM_GROUP,
    FORM_RESOURCES,
    FORM_SCHEMAS,
    PLANE_FORMS
};

#define TAG "\"L\"" /* of all that servers answer */

/* The document that is asked for; FORM_PATTERN: it is none. */
enum plane_form form_of_target(enum plane_target to);
/* All of it; n 0 for a pattern, which is as long as it likes. */
struct slice form_text(enum plane_form f);
/* So many bytes of the body of an answer to request k, from its byte `from`. */
void form_add(struct bytes *b, enum plane_form f, unsigned k, size_t from, size_t n);
/* Whether this is what it has at `from`. */
bool form_holds(struct slice s, enum plane_form f, unsigned k, size_t from);
/* The same of a document that the proxy has completed: that it is one of that kind. */
bool form_holds_completed(struct slice s, enum plane_form f, size_t from);

#endif
