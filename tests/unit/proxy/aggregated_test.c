/* SPDX-License-Identifier: Apache-2.0 */
/* What an aggregated API answers is relayed, whoever hands it the request. */
#include "back/back.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"
#include "unit/proxy/kit.h"
#include "unit/proxy/stopping.h"

#define STARTING_BODY                                                                                                  \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"the request has " \
    "been made before all known HTTP paths have been installed, please try again\",\"code\":503}"
#define STARTING                                                                                                       \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n"                         \
    "Connection: close\r\n\r\n" STARTING_BODY
#define NO_PATH                                                                                                        \
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n"                  \
    "404 page not found\n"
#define NO_RESOURCE_BODY                                                                                               \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"message\":\"the server could not find the "          \
    "requested "                                                                                                       \
    "resource\",\"reason\":\"NotFound\",\"details\":{},\"code\":404}"
#define NO_RESOURCE                                                                                                    \
    "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" NO_RESOURCE_BODY

static void shut_down(struct played_server *s)
{
    listener_close(s->listener);
    s->listener = NULL;
}

/*
 * An aggregated API server says in the words of kube-apiserver what it has to say: its answer, whoever handed it the
 * request. Another server would hand it the same once more.
 */
static void aggregated(bool away, const char *request, const char *answer, const char *text)
{
    struct proxy_kit w;
    struct played_end *c, *server;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = w.local_has_jobs = w.jobs_aggregated = true;
    w.cluster->local_state = away ? READINESS_UNREACHABLE : READINESS_READY;
    proxy_kit_start(&w);
    if (away)
        shut_down(&w.local);
    c = client(&w);
    say(c, request);
    ok(until(&w, w.local.n_conns + w.peers[0].n_conns + w.peers[1].n_conns > 0), "one server is asked");
    server = away ? conn(w.peers[0].n_conns > 0 ? &w.peers[0] : &w.peers[1], 0) : conn(&w.local, 0);
    ok(has(server, JOBS), "which hands it on");
    say(server, answer);
    if (strstr(answer, "Connection: close") != NULL)
        hang_up(server, STREAM_CLOSE_FLUSH);
    ok(has(c, text), "its answer is relayed, whole");
    ok(strstr(answer, "Retry-After: 5") == NULL || got(c, "Retry-After: 5\r\n"), "and when to come again");
    is_u64(w.local.n_conns + w.peers[0].n_conns + w.peers[1].n_conns, 1, "nobody else is asked");
    is_u64(w.cluster->suspects, 0, "nor suspected");
    proxy_kit_close(&w);
}

/* kube-apiserver ends the request of who has reached it: on each connection on which there is one. */
static void break_off(struct played_server *s)
{
    for (size_t i = 0; i < s->n_conns; i++)
        if (s->conns[i].s != NULL && got(&s->conns[i], "\r\n\r\n"))
            hang_up(&s->conns[i], STREAM_CLOSE_ABORT);
}

/* Nor is it the servers' fault when it breaks off what it says of itself: its discovery, its schemas. */
static void breaks_off(const char *path)
{
    struct proxy_kit w;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = w.local_has_jobs = w.jobs_aggregated = true;
    proxy_kit_start(&w);
    for (unsigned i = 0; i < 20; i++) {
        struct played_end *c = client(&w);

        say(c, "GET ");
        say(c, path);
        say(c, " HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\n\r\n");
        for (unsigned turn = 0; turn < 400 && c->n_got == 0 && !c->eof && !c->failed; turn++) {
            break_off(&w.local);
            break_off(&w.peers[0]);
            break_off(&w.peers[1]);
            loop_run_once(w.loop, 5);
        }
        hang_up(c, STREAM_CLOSE_NOW);
    }
    ok(origin_healthy(w.peers[0].origin) && origin_healthy(w.peers[1].origin), "%s: no server is an outlier", path);
    proxy_kit_close(&w);
}

int main(void)
{
    static const struct {
        const char *answer, *text;
    } answers[] = {
        {NO_PATH, "404 page not found"},
        {NO_RESOURCE, NO_RESOURCE_BODY},
        {STOPPING, STOPPING_BODY},
        {STARTING, STARTING_BODY},
        {AWAY, AWAY_BODY},
    };

    for (size_t i = 0; i < ROWS(answers); i++)
        for (unsigned away = 0; away < 2; away++) {
            aggregated(away, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n", answers[i].answer, answers[i].text);
            aggregated(away, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc", answers[i].answer,
                       answers[i].text);
        }
    breaks_off("/apis/batch/v1");
    breaks_off("/openapi/v3/apis/batch/v1");
    return tap_end();
}
