/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a request be sent again, and where? One pure function for the whole program, tested as a table
 * (docs/internals/retry.md): request.c asks it whether to repeat at the same origin, the proxy whether to try another.
 *
 * The rule (RFC 9110 9.2.2; Go's http.Transport is stricter by one case): what a server may have read is repeated only
 * if its method is safe and it is no upgrade (exec over WebSocket is a GET), what none can have read always, and
 * nothing once a part of the answer was passed on.
 */
#ifndef MVPROXY_BACK_RETRY_H
#define MVPROXY_BACK_RETRY_H

#include "back/back.h"

enum { RETRY_MAX_HERE = 2 }; /* repetitions at one origin; the last on a connection of its own */

enum retry_verdict {
    RETRY_HERE,      /* the same origin, on another connection */
    RETRY_ELSEWHERE, /* the next candidate */
    RETRY_ANSWER,    /* with an error of ours */
    RETRY_BREAK,     /* part of the response is with the client: it must see that it is broken */
};

struct retry_case {
    enum http_method method;
    enum back_failure why;
    bool relayed;      /* a final head has gone to the client */
    bool sent;         /* the server may have read some of the request */
    bool body_gone;    /* some of its body was taken and cannot be given again */
    bool upgrade;      /* has a connection of its own, and whatever its method is not safe: a command may run */
    bool others;       /* another candidate is left */
    bool hangs;        /* the server does, and would take the request again without a word */
    bool affordable;   /* by the retry budget of the origin that failed */
    unsigned repeated; /* at this origin so far; RETRY_MAX_HERE for who asks about another one */
};

enum retry_verdict retry_decide(const struct retry_case *c);
/*
 * Whether the client may be told to try again by itself (Retry-After: client-go does so for every method). Not if the
 * request may have been carried out and changes something: a second create would report AlreadyExists for an object
 * that it made, or make two by generateName; a second DELETE would delete what somebody has made meanwhile by that
 * name.
 */
bool retry_is_harmless(enum http_method method, bool upgrade, bool sent);
/* Whether it says that the server may be gone, rather than that this request was not to its liking. */
bool retry_server_is_lost(enum back_failure why);
/* It says nothing of the server, and any other would have done the same: the client, or mvproxy, has no room. */
bool retry_is_of_client(enum back_failure why);

#endif
