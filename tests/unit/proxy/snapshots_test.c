/* SPDX-License-Identifier: Apache-2.0 */
/* What a request holds of what is known, and for how long: snapshots that were replaced take memory that nobody's
 * budget counts. */
#include "proxy/snapshots.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/quota.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#define INDEX(n) "{\"paths\":{\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=" n "\"}}}"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
#define TROUBLE                                                                                                        \
    "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

enum { DOCUMENT_BYTES = 16 << 20 /* more than the kernel takes */ };

/* As after each change of some server's discovery. */
static void change(struct proxy_kit *w)
{
    static const char *const indexes[] = {INDEX("1"), INDEX("22")};

    w->local_schemas = indexes[w->cluster->generation % 2];
    proxy_kit_know(w);
}

static struct played_end *ask(struct proxy_kit *w, const char *head)
{
    struct played_end *c = client(w);

    say(c, head);
    return c;
}

#define VERSION GET("/version", "")
#define GET(path, more) "GET " path " HTTP/1.1\r\nHost: k\r\n" more "\r\n"

/* What everybody served when a watch began may be megabytes, and another with each change: neither a watch holds it nor
 * who reads another answer as slowly as he likes. */
static void goes_when_the_answer_begins(void)
{
    static const struct {
        const char *head;
        bool peers;
        const char *answer;
    } rows[] = {
        {GET(PODS "?watch=1", ""), false, HEAD},
        {GET(JOBS "?watch=1", ""), true, HEAD},
        {GET(PODS, ""), false, HEAD},
        {GET(JOBS, ""), true, HEAD},
        {GET("/version", ""), false, HEAD},
        {GET("/apis", "Authorization: Bearer t\r\nAccept: " V2 "\r\n"), false, TROUBLE},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct quota quota;
        struct played_end *c, *s;
        struct proxy_kit w;

        quota_init(&quota, NULL, 0);
        proxy_kit_init(&w, 1);
        w.schemas_quota = &quota;
        w.local_schemas = w.peer_schemas = INDEX("1");
        w.peer_host = "cp-b";
        proxy_kit_start(&w);
        c = ask(&w, rows[i].head);
        s = conn(rows[i].peers ? &w.peers[0] : &w.local, 0);
        ok(has(s, "\r\n\r\n") && quota.held > 0, "%zu: asked for, by what is known", i);
        say(s, rows[i].answer);
        (void)has(c, "\r\n\r\n");
        w.schemas_quota = NULL;
        proxy_kit_know(&w);
        is_u64(quota.held, 0, "and of what was known nothing is left when it is no longer true");
        say(s, "3\r\none\r\n");
        ok(has(c, "one"), "it goes on");
        hang_up(s, STREAM_CLOSE_ABORT);
        ok(ended(c), "until the server breaks off");
        proxy_kit_close(&w);
    }
}

#define NO_PATH                                                                                                        \
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n"                  \
    "404 page not found\n"
#define FINE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* What the request before was decided by is too old by the second change: each of these holds what was there before. */
static void age(struct proxy_kit *w, size_t changes, const char *head)
{
    for (size_t i = 0; i < changes; i++) {
        change(w);
        (void)ask(w, head);
        proxy_kit_settle(w);
    }
}

/* So it does where a peer was asked before whether the client may: who answers now is no judge. */
static void goes_when_local_answers_at_last(void)
{
    struct quota quota;
    struct played_end *c, *s;
    struct proxy_kit w;

    quota_init(&quota, NULL, 0);
    proxy_kit_init(&w, 1);
    w.opts.max_outdated_bytes = 1;
    w.schemas_quota = &quota;
    w.local_schemas = INDEX("1");
    w.cluster->fails_over = true;
    proxy_kit_start(&w);
    c = ask(&w, GET("/apis", "Authorization: Bearer t\r\nAccept: " V2 "\r\n"));
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "the local server is asked whether the client may");
    w.local.refuse = true;
    hang_up(conn(&w.local, 0), STREAM_CLOSE_NOW);
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n"), "it does not say it: a peer is asked");
    w.local.refuse = false;
    say(conn(&w.peers[0], 0), "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    s = conn(&w.local, 1);
    ok(has(s, "\r\n\r\n"), "which does not know: the local server gets the request");
    say(s, HEAD);
    ok(has(c, "\r\n\r\n") && quota.held > 0, "it answers");
    w.schemas_quota = NULL;
    proxy_kit_know(&w);
    is_u64(quota.held, 0, "and of what was known nothing is left when it is no longer true");
    age(&w, 3, VERSION);
    say(s, "3\r\none\r\n");
    ok(has(c, "one"), "it goes on");
    proxy_kit_close(&w);
}

/* Who waits for a server's answer goes on with what is known now, and is answered. */
static void those_who_wait(void)
{
    struct quota quota;
    struct played_end *c;
    struct proxy_kit w;

    quota_init(&quota, NULL, 0);
    proxy_kit_init(&w, 1);
    w.opts.max_outdated_bytes = 1;
    w.local_schemas = INDEX("1");
    w.schemas_quota = &quota;
    proxy_kit_start(&w);
    c = ask(&w, GET(PODS, ""));
    ok(has(conn(&w.local, 0), "\r\n\r\n") && quota.held > 0, "a request waits");
    w.schemas_quota = NULL;
    change(&w);
    proxy_kit_settle(&w);
    ok(quota.held > 0, "by what it was decided by is kept while that is the only old one");
    age(&w, 3, VERSION);
    ok(until(&w, quota.held == 0), "and goes when there are others");
    ok(c->n_got == 0, "the request waits on");
    say(conn(&w.local, 0), FINE);
    ok(has(c, "\r\n\r\nok"), "and is answered");
    proxy_kit_close(&w);
}

/* Who waits until discovery was read again takes the current snapshot then in any case. */
static void those_who_wait_for_a_poll(void)
{
    struct played_end *c;
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.max_outdated_bytes = 1;
    w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = ask(&w, GET(JOBS, ""));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), NO_PATH);
    ok(until(&w, proxy_kit_waiting(&w)), "what the local server denies waits until that was read again");
    w.local_has_jobs = false;
    age(&w, 3, VERSION);
    ok(c->n_got == 0 && proxy_kit_waiting(&w), "for as long as that takes");
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n"), "and is then asked of who has it");
    say(conn(&w.peers[0], 0), FINE);
    ok(has(c, "\r\n\r\nok"), "who answers");
    proxy_kit_close(&w);
}

/* Of two peers; which one has it. */
static size_t asked_of_peers(struct proxy_kit *w, struct played_end **c)
{
    proxy_kit_init(w, 2);
    w->opts.max_outdated_bytes = 1;
    proxy_kit_start(w);
    *c = ask(w, GET(JOBS, ""));
    (void)until(w, w->peers[0].n_conns + w->peers[1].n_conns > 0);
    return w->peers[1].n_conns;
}

/* The peers that are left are where they were not before; who is not left takes his requests with him. */
static void those_who_wait_for_peers(void)
{
    for (size_t gone = 0; gone <= 2; gone++) {
        struct played_end *c, *first;
        struct proxy_kit w;
        size_t asked;

        asked = asked_of_peers(&w, &c);
        first = conn(&w.peers[asked], 0);
        ok(has(first, "\r\n\r\n"), "a request waits for peer %zu", asked);
        if (gone == 2 || (gone == 1 && asked == 0)) /* the last ones */
            w.n_peers = gone == 2 ? 0 : 1;
        age(&w, 3, VERSION);
        if (gone == 2) {
            ok(has(c, "HTTP/1.1 504 ") && has(c, "changed too often"), "nobody is left: it is ended");
        } else {
            ok(c->n_got == 0, "it waits on");
            w.peers[asked].refuse = true;
            hang_up(first, STREAM_CLOSE_NOW);
            if (w.n_peers == 2) {
                ok(has(conn(&w.peers[1 - asked], 0), "\r\n\r\n"), "when that fails the other one is asked");
                say(conn(&w.peers[1 - asked], 0), FINE);
                ok(has(c, "\r\n\r\nok"), "which answers");
            } else {
                ok(has(c, "HTTP/1.1 503 "), "when that fails there is nobody else");
            }
        }
        w.n_peers = 2;
        proxy_kit_close(&w);
    }
}

/* A peer without an address can be asked nothing, and which of the candidates has answered would not be known of it. */
static void candidate_without_address(bool asked_one)
{
    struct played_end *c, *first;
    struct origin *kept;
    struct proxy_kit w;
    size_t asked, gone;

    asked = asked_of_peers(&w, &c);
    gone = asked_one ? asked : 1 - asked;
    first = conn(&w.peers[asked], 0);
    ok(has(first, "\r\n\r\n"), "a request waits for peer %zu", asked);
    kept = w.peers[gone].origin;
    w.peers[gone].origin = NULL;
    age(&w, 3, VERSION);
    if (asked_one) {
        ok(has(c, "HTTP/1.1 504 "), "which has no address any more");
    } else {
        ok(c->n_got == 0, "it waits on, and the other one has no address any more");
        w.peers[asked].refuse = true;
        hang_up(first, STREAM_CLOSE_NOW);
        ok(has(c, "HTTP/1.1 503 "), "when that fails there is nobody else");
    }
    w.peers[gone].origin = kept;
    proxy_kit_close(&w);
}

/* What nobody had when it came somebody may have by now, whether it was given another snapshot or not. */
static void denied_by_local(bool over)
{
    struct played_end *c, *s;
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.max_outdated_bytes = over ? 1 : 0;
    w.peers_without_jobs = 1;
    w.cluster->no_refresh = true;
    proxy_kit_start(&w);
    c = ask(&w, GET(JOBS, ""));
    s = conn(&w.local, 0);
    ok(has(s, "\r\n\r\n"), "the local server is asked for what nobody has");
    w.peers_without_jobs = 0;
    age(&w, 2, VERSION);
    ok(c->n_got == 0, "by now the peer has it");
    say(s, NO_PATH);
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n") && c->n_got == 0, "the peer is asked, instead of a false 404");
    say(conn(&w.peers[0], 0), FINE);
    ok(has(c, "\r\n\r\nok"), "and answers");
    proxy_kit_close(&w);
}

#define JOBS_SCHEMA "/openapi/v3/apis/batch/v1"
#define JOBS_INDEX "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"" JOBS_SCHEMA "?hash=1\"}}}"

/* By what is known now the local server never had it, and its 404 would be an honest one. */
static void schema_denied_by_local(void)
{
    struct played_end *c, *s;
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.max_outdated_bytes = 1;
    w.local_has_jobs = true;
    w.local_schemas = w.peer_schemas = JOBS_INDEX;
    proxy_kit_start(&w);
    c = ask(&w, GET(JOBS_SCHEMA, ""));
    s = conn(&w.local, 0);
    ok(has(s, "\r\n\r\n"), "the local server is asked for a schema that its index names");
    w.local_has_jobs = false;
    age(&w, 3, VERSION);
    ok(c->n_got == 0, "by now its index does not");
    say(s, NO_PATH);
    if (ok(until(&w, proxy_kit_waiting(&w)), "its 404 is doubted all the same: what it serves is read again")) {
        proxy_kit_refreshed(&w);
        ok(has(conn(&w.peers[0], 0), "GET " JOBS_SCHEMA), "the peer is asked");
        say(conn(&w.peers[0], 0), FINE);
        ok(has(c, "\r\n\r\nok"), "and answers");
    }
    proxy_kit_close(&w);
}

#define NO_VERB                                                                                                        \
    "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\nContent-Length: 93\r\n\r\n"                  \
    "{\"kind\":\"Status\",\"message\":\"the server does not allow this method on the requested resource\"}"

/* The peer that is asked comes back without the verb, which it had, or it had not been asked. */
static void verb_denied_by_peer(void)
{
    struct played_end *c;
    struct proxy_kit w;
    size_t asked;

    asked = asked_of_peers(&w, &c);
    ok(has(conn(&w.peers[asked], 0), "\r\n\r\n"), "peer %zu is asked for a list", asked);
    w.without_list = asked + 1;
    age(&w, 3, VERSION);
    ok(c->n_got == 0, "which it is known not to allow by now");
    say(conn(&w.peers[asked], 0), NO_VERB);
    if (ok(until(&w, c->n_got > 0 || w.peers[1 - asked].n_conns > 0) && c->n_got == 0, "its 405 is not passed on")) {
        ok(has(conn(&w.peers[1 - asked], 0), "GET " JOBS), "the other one, which allows it, is asked");
        say(conn(&w.peers[1 - asked], 0), FINE);
        ok(has(c, "\r\n\r\nok"), "and answers");
    }
    proxy_kit_close(&w);
}

/* What the first one had says nothing of the next one, which is asked when it is known not to allow it. */
static void verb_denied_by_the_next(void)
{
    struct played_end *c, *first;
    struct proxy_kit w;
    size_t asked;

    asked = asked_of_peers(&w, &c);
    first = conn(&w.peers[asked], 0);
    ok(has(first, "\r\n\r\n"), "peer %zu is asked for a list", asked);
    w.without_list = 2 - asked;
    age(&w, 3, VERSION);
    w.peers[asked].refuse = true;
    hang_up(first, STREAM_CLOSE_NOW);
    ok(has(conn(&w.peers[1 - asked], 0), "\r\n\r\n"),
       "it fails: the other one is asked, which lost the verb meanwhile");
    say(conn(&w.peers[1 - asked], 0), NO_VERB);
    ok(has(c, "HTTP/1.1 405 "), "its 405 is the truth");
    proxy_kit_close(&w);
}

/* Nobody is known to have jobs, and the local server is away: so live peers are to say it. */
static void init_without_jobs(struct proxy_kit *w, size_t n_peers, bool over)
{
    proxy_kit_init(w, n_peers);
    w->opts.max_outdated_bytes = over ? 1 : 0;
    w->peers_without_jobs = n_peers;
    w->cluster->fails_over = w->local.refuse = true;
    w->cluster->local_state = READINESS_UNREACHABLE;
}

/* Who has no address any more has not said that it has no such thing, and can no longer be asked. */
static void last_word_without_the_other(void)
{
    struct origin *kept;
    struct played_end *c;
    struct proxy_kit w;
    size_t asked, gone;

    init_without_jobs(&w, 2, true);
    proxy_kit_start(&w);
    c = ask(&w, GET(JOBS, ""));
    (void)until(&w, w.peers[0].n_conns + w.peers[1].n_conns > 0);
    asked = w.peers[1].n_conns;
    gone = 1 - asked;
    ok(has(conn(&w.peers[asked], 0), "\r\n\r\n"), "peer %zu is asked for what nobody is known to have", asked);
    kept = w.peers[gone].origin;
    w.peers[gone].origin = NULL;
    age(&w, 3, GET(JOBS, ""));
    ok(c->n_got == 0, "the other one has no address any more");
    say(conn(&w.peers[asked], 0), NO_PATH);
    ok(has(c, "HTTP/1.1 503 "), "one that denies it is not all of them");
    w.peers[gone].origin = kept;
    proxy_kit_close(&w);
}

/* What all peers deny that there were somebody may have who has come since. */
static void last_word_before_a_newcomer(bool over)
{
    struct played_end *c;
    struct proxy_kit w;

    init_without_jobs(&w, 2, over);
    w.local.refuse = false;
    w.n_peers = w.peers_without_jobs = 1;
    proxy_kit_start(&w);
    c = ask(&w, GET(JOBS, ""));
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n"), "the only peer is asked for what nobody is known to have");
    w.n_peers = 2;
    age(&w, 3, GET(JOBS, ""));
    ok(c->n_got == 0, "another one has come, which has it");
    say(conn(&w.peers[0], 0), NO_PATH);
    ok(has(conn(&w.peers[1], 3), "GET " JOBS), "the first one's 404 is not the last word: that one is asked");
    say(conn(&w.peers[1], 3), FINE);
    ok(has(c, "\r\n\r\nok") && w.local.n_conns == 0, "and answers, and nobody waits for a local server that hangs");
    proxy_kit_close(&w);
}

/* The next server that is asked for what nobody is known to have, of three; 3: none. */
static size_t next_asked(struct proxy_kit *w, const bool seen[3])
{
    size_t i = 0;

    (void)until(w, (!seen[0] && w->peers[0].n_conns > 0) || (!seen[1] && w->peers[1].n_conns > 0) ||
                       (!seen[2] && w->peers[2].n_conns > 0));
    while (i < 3 && (seen[i] || w->peers[i].n_conns == 0))
        i++;
    if (i < 3)
        (void)has(conn(&w->peers[i], 0), "\r\n\r\n");
    return i;
}

/* Who denied is forgotten, who failed without a word is still there: the last one's 404 is not the last word. False:
 * the dice had another order, in which nobody can be forgotten here. */
static bool denied_by_peers(bool over)
{
    bool seen[3] = {false};
    struct proxy_kit w;
    struct played_end *c;
    size_t i;

    init_without_jobs(&w, 3, over);
    proxy_kit_start(&w);
    c = ask(&w, GET(JOBS, ""));
    i = next_asked(&w, seen);
    seen[2] = i == 2;
    if (seen[2]) {
        say(conn(&w.peers[2], 0), NO_PATH);
        i = next_asked(&w, seen);
        seen[i] = w.peers[i].refuse = true;
        hang_up(conn(&w.peers[i], 0), STREAM_CLOSE_NOW);
        i = next_asked(&w, seen);
        w.peers[0].refuse = w.peers[1].refuse = false;
        w.n_peers = 2;
        age(&w, 2, GET(JOBS, ""));
        say(conn(&w.peers[i], 0), NO_PATH);
        ok(has(c, "HTTP/1.1 503 "), "one has not said that it has no such thing");
    }
    w.n_peers = 3;
    proxy_kit_close(&w);
    return seen[2];
}

/* Each takes what is known when it is decided on again, and no request has to come for that. */
static void those_who_are_decided_anew(void)
{
    enum { REQUESTS = 8 };
    struct quota quota;
    struct proxy_kit w;
    size_t one;

    quota_init(&quota, NULL, 0);
    proxy_kit_init(&w, 1);
    w.opts.max_outdated_bytes = 1;
    w.peers_without_jobs = 1;
    w.cluster->no_refresh = true;
    w.local_schemas = INDEX("1");
    proxy_kit_start(&w);
    for (size_t i = 0; i < REQUESTS; i++) {
        (void)ask(&w, GET(JOBS, ""));
        (void)has(conn(&w.local, i), "\r\n\r\n");
    }
    w.peers_without_jobs = 0;
    w.schemas_quota = &quota;
    change(&w);
    one = quota.held;
    for (size_t i = 0; i < REQUESTS; i++) {
        say(conn(&w.local, i), NO_PATH);
        ok(has(conn(&w.peers[0], i), "\r\n\r\n"), "%zu: by now the peer has it, and is asked", i);
        change(&w);
        proxy_kit_settle(&w);
    }
    ok(quota.held <= 3 * one, "they hold the current snapshot and two that were replaced, not one each");
    proxy_kit_close(&w);
}

static char *long_document(void)
{
    char *d = malloc(DOCUMENT_BYTES + 1);

    if (d == NULL)
        tap_bail("no memory");
    memset(d, 'x', DOCUMENT_BYTES);
    d[DOCUMENT_BYTES] = '\0';
    return d;
}

static struct played_end *slow_reader(struct proxy_kit *w, size_t n)
{
    struct played_end *c = client(w), *s;

    c->count_only = true;
    stop_reading(c);
    say(c, GET("/apis", "Authorization: Bearer t\r\nAccept: " V2 "\r\n"));
    s = conn(&w->local, n == 0 ? 0 : w->local.n_conns - 1);
    if (n == 0) {
        (void)has(s, "\r\n\r\n");
        say(s, "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n");
    }
    proxy_kit_settle(w);
    return c;
}

/* So does who reads a document of ours: there is room for two that were replaced, each of which counts four times here
 * (in two versions, and the same for both halves of discovery). */
static void those_who_read(void)
{
    char *document = long_document();
    struct played_end *c[4];
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.document = document;
    w.opts.discovery_authz_ttl_ms = 60000;
    w.opts.max_outdated_bytes = (size_t)DOCUMENT_BYTES * 4 * 5 / 2;
    proxy_kit_start(&w);
    for (size_t i = 0; i < ROWS(c); i++) {
        c[i] = slow_reader(&w, i);
        change(&w);
    }
    for (size_t i = 0; i < ROWS(c); i++)
        go_on_reading(c[i]);
    ok(ended(c[0]) && c[0]->n_got < DOCUMENT_BYTES, "the first is broken off");
    for (size_t i = 1; i < ROWS(c); i++)
        ok(until(&w, c[i]->n_got > DOCUMENT_BYTES), "%zu is not", i);
    proxy_kit_close(&w);
    free(document);
}

int main(void)
{
    goes_when_the_answer_begins();
    goes_when_local_answers_at_last();
    those_who_wait();
    those_who_wait_for_a_poll();
    those_who_wait_for_peers();
    candidate_without_address(false);
    candidate_without_address(true);
    for (int over = 0; over <= 1; over++) {
        denied_by_local(over != 0);
        last_word_before_a_newcomer(over != 0);
        while (!denied_by_peers(over != 0))
            ;
    }
    schema_denied_by_local();
    verb_denied_by_peer();
    verb_denied_by_the_next();
    last_word_without_the_other();
    those_who_are_decided_anew();
    those_who_read();
    return tap_end();
}
