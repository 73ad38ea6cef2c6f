/* SPDX-License-Identifier: Apache-2.0 */
#include "front/stats.h"

#include <stdio.h>

#include "base/contract.h"
#include "base/metric.h"

struct front_stats {
    size_t in_flight;
    size_t connections;
    const size_t *held;
    struct metric *given_up, *given_up_refused, *not_taken, *slow_readers, *held_gauge, *held_limit;
    struct metric *open, *fresh, *accepted, *in_flight_gauge, *requests, *received, *sent, *handshake_seconds;
    struct metric *closed[FRONT_CLOSE_COUNT];
    struct metric *paused[FRONT_PAUSE_COUNT];
    struct metric_family *refused;
};

static const char *const close_names[FRONT_CLOSE_COUNT] = {
    [FRONT_CLOSE_CLIENT] = "client",
    [FRONT_CLOSE_CLIENT_REQUEST] = "client_request",
    [FRONT_CLOSE_CLIENT_GONE] = "client_gone",
    [FRONT_CLOSE_STREAM_FAILED] = "stream_failed",
    [FRONT_CLOSE_PROXY_HEADER] = "proxy_header",
    [FRONT_CLOSE_HANDSHAKE] = "handshake",
    [FRONT_CLOSE_NO_REQUEST] = "no_request",
    [FRONT_CLOSE_IDLE_TIMEOUT] = "idle_timeout",
    [FRONT_CLOSE_HEADER_TIMEOUT] = "header_timeout",
    [FRONT_CLOSE_BODY_TIMEOUT] = "body_timeout",
    [FRONT_CLOSE_READ_TIMEOUT] = "read_timeout",
    [FRONT_CLOSE_BAD_REQUEST] = "bad_request",
    [FRONT_CLOSE_FLOOD] = "flood",
    [FRONT_CLOSE_BODY_UNREAD] = "body_unread",
    [FRONT_CLOSE_RESPONSE_ABORTED] = "response_aborted",
    [FRONT_CLOSE_REQUEST_LIMIT] = "request_limit",
    [FRONT_CLOSE_CLIENT_LIMIT] = "client_limit",
    [FRONT_CLOSE_CROWDED_OUT] = "crowded_out",
    [FRONT_CLOSE_SLOW_READER] = "slow_reader",
    [FRONT_CLOSE_SENT_AWAY] = "sent_away",
    [FRONT_CLOSE_MEMORY] = "memory",
    [FRONT_CLOSE_NO_MEMORY] = "no_memory",
    [FRONT_CLOSE_DRAIN] = "drain",
    [FRONT_CLOSE_SHUTDOWN] = "shutdown",
    [FRONT_CLOSE_UPGRADED] = "upgraded",
};

const char *front_close_name(enum front_close reason)
{
    return close_names[reason];
}

static void declare_closed(struct front_stats *s, struct metrics *m)
{
    static const char *const labels[] = {"reason", NULL};
    struct metric_family *f = metric_family(m, METRIC_COUNTER, "mvproxy_front_closed_total",
                                            "Client connections that ended, by reason.", labels, FRONT_CLOSE_COUNT);

    for (size_t i = 0; i < FRONT_CLOSE_COUNT; i++) {
        struct slice value = slice_str(close_names[i]);

        s->closed[i] = metric_child(f, &value);
    }
}

static void declare_connections(struct front_stats *s, struct metrics *m)
{
    static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

    s->accepted = metric_single(m, METRIC_COUNTER, "mvproxy_front_accepted_connections_total",
                                "Client connections that were accepted.");
    s->open = metric_single(m, METRIC_GAUGE, "mvproxy_front_connections",
                            "Client connections, handshakes included, tunnels not.");
    s->fresh = metric_single(m, METRIC_GAUGE, "mvproxy_front_connections_fresh",
                             "Client connections that have not asked anything yet, handshakes included.");
    s->handshake_seconds = metric_child(metric_histogram_family(m, "mvproxy_front_handshake_seconds",
                                                                "Time from accept to the end of the TLS handshake.",
                                                                NULL, bounds, sizeof(bounds) / sizeof(bounds[0])),
                                        NULL);
}

static void declare_pauses(struct front_stats *s, struct metrics *m)
{
    static const char *const labels[] = {"reason", NULL};
    struct metric_family *f =
        metric_family(m, METRIC_COUNTER, "mvproxy_front_accept_pauses_total",
                      "Times, of 100 ms at most, that new clients were left waiting in the kernel's queue, by reason.",
                      labels, FRONT_PAUSE_COUNT);
    struct slice connections = SLICE_LIT("connections"), descriptors = SLICE_LIT("descriptors");

    s->paused[FRONT_PAUSE_CONNECTIONS] = metric_child(f, &connections);
    s->paused[FRONT_PAUSE_DESCRIPTORS] = metric_child(f, &descriptors);
}

struct front_stats *front_stats_new(struct metrics *m)
{
    static const char *const labels[] = {"code", NULL};
    struct front_stats *s = must_zalloc(sizeof(*s));

    declare_connections(s, m);
    declare_closed(s, m);
    declare_pauses(s, m);
    s->in_flight_gauge =
        metric_single(m, METRIC_GAUGE, "mvproxy_front_requests_in_flight", "Requests of clients being served.");
    s->requests = metric_single(m, METRIC_COUNTER, "mvproxy_front_requests_total", "Requests of clients.");
    s->refused = metric_family(m, METRIC_COUNTER, "mvproxy_front_refusals_total",
                               "Requests refused for their form or their slowness, by status code.", labels, 16);
    s->given_up = metric_single(m, METRIC_COUNTER, "mvproxy_front_requests_given_up_total",
                                "Requests that their client gave up within ten seconds.");
    s->given_up_refused = metric_single(m, METRIC_COUNTER, "mvproxy_front_requests_given_up_refusals_total",
                                        "Requests refused because their client had given up too many.");
    s->not_taken = metric_single(m, METRIC_COUNTER, "mvproxy_front_answers_not_taken_total",
                                 "Answers given up because their client took nothing of them for a minute.");
    s->slow_readers = metric_single(
        m, METRIC_COUNTER, "mvproxy_front_slow_readers_total",
        "Connections and tunnels that made room because their client took too slowly what waited for it.");
    s->held_gauge = metric_single(m, METRIC_GAUGE, "mvproxy_client_memory_bytes",
                                  "Memory that clients make us hold: requests, bodies and answers that wait.");
    s->held_limit =
        metric_single(m, METRIC_GAUGE, "mvproxy_client_memory_limit_bytes", "max-client-memory, as it is in force.");
    s->received = metric_single(m, METRIC_COUNTER, "mvproxy_front_received_bytes_total",
                                "Bytes received from clients, inside TLS.");
    s->sent = metric_single(m, METRIC_COUNTER, "mvproxy_front_sent_bytes_total", "Bytes sent to clients, inside TLS.");
    return s;
}

static void on_collect(void *arg)
{
    struct front_stats *s = arg;

    metric_set(s->held_gauge, (double)*s->held);
}

void front_stats_watch_memory(struct front_stats *s, struct metrics *m, const size_t *held)
{
    s->held = held;
    metrics_on_collect(m, on_collect, s);
}

void front_stats_memory_limit(struct front_stats *s, size_t most)
{
    metric_set(s->held_limit, (double)most);
    metric_show(s->held_limit, most > 0);
}

void front_stats_free(struct front_stats *s)
{
    mem_free(s);
}

void front_stats_accepted(struct front_stats *s)
{
    metric_inc(s->accepted);
    metric_set(s->open, (double)++s->connections);
}

void front_stats_opened(struct front_stats *s, uint64_t handshake_us)
{
    metric_observe(s->handshake_seconds, (double)handshake_us / 1e6);
}

void front_stats_closed(struct front_stats *s, enum front_close reason)
{
    metric_inc(s->closed[reason]);
    metric_set(s->open, (double)--s->connections);
}

void front_stats_fresh(struct front_stats *s, size_t n)
{
    metric_set(s->fresh, (double)n);
}

void front_stats_accept_paused(struct front_stats *s, enum front_pause why)
{
    metric_inc(s->paused[why]);
}

void front_stats_request_begin(struct front_stats *s)
{
    metric_inc(s->requests);
    metric_set(s->in_flight_gauge, (double)++s->in_flight);
}

void front_stats_request_end(struct front_stats *s)
{
    must_hold(s->in_flight > 0);
    metric_set(s->in_flight_gauge, (double)--s->in_flight);
}

void front_stats_refused(struct front_stats *s, unsigned status)
{
    char text[16];
    struct slice value = {text, (size_t)snprintf(text, sizeof(text), "%u", status)};

    metric_inc(metric_child(s->refused, &value));
}

void front_stats_given_up(struct front_stats *s)
{
    metric_inc(s->given_up);
}

void front_stats_given_up_refused(struct front_stats *s)
{
    metric_inc(s->given_up_refused);
}

void front_stats_not_taken(struct front_stats *s)
{
    metric_inc(s->not_taken);
}

void front_stats_slow_reader(struct front_stats *s)
{
    metric_inc(s->slow_readers);
}

void front_stats_received(struct front_stats *s, size_t n)
{
    metric_add(s->received, (double)n);
}

void front_stats_sent(struct front_stats *s, size_t n)
{
    metric_add(s->sent, (double)n);
}

size_t front_stats_requests_in_flight(const struct front_stats *s)
{
    return s->in_flight;
}
