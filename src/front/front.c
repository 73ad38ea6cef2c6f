/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "front/h1_conn.h"
#include "front/h2_conn.h"
#include "front/room.h"
#include "front/vouched.h"
#include "http/h1_parse.h"
#include "net/cidr.h"
#include "net/listeners.h"
#include "net/proxy_accept.h"
#include "net/sockopt.h"
#include "net/tls_ctx.h"
#include "net/tls_peer.h"

enum {
    DRAIN_ARRIVING_MS = 1000, /* for a request that is on its way when we drain */
    DRAIN_LOOK_MS = 200,
    ROOM_LOOKS = 8,             /* at connections whose handshakes have begun, for each that comes */
    WALK_CONNS = 32,            /* in a turn; each may cost a record and a send */
    SAID_AGAIN_MS = 20000,      /* between two lines about what clients can bring about as often as they like */
    HANDSHAKE_BYTES = 32 << 10, /* that it may need: a hello, a flight with certificates */
    FRESH_ALWAYS = 64,          /* silent connections that a low max_connections does not forbid */
    FULL_LOOK_MS = 100,         /* at max_connections, for one that has become idle */
    PAUSE_SHOWN_MS = 10000,     /* a place that comes free for a moment does not end it */
};

/* A line that is written now and then; what has happened meanwhile is told when its time is over. */
struct rare_line {
    uint64_t said_ms; /* when it was last; 0: never */
    unsigned times;   /* what it is about has happened since then */
};

struct front {
    struct front_host host;
    struct front_limits limits;
    struct listeners *listeners;  /* NULL before front_listen() and once draining */
    struct cidr_set balancers;    /* proxy-protocol-from */
    struct proxy_accept *proxied; /* what came from there and has not said for whom */
    size_t max_connections, max_per_client, max_fresh;
    uint64_t handshake_timeout_ms;
    unsigned port;
    bool paused; /* the listener: max_connections, or held */
    bool held;
    bool crowded; /* at max_connections nobody could be ended: that is said */
    struct rare_line full, starved, headerless, greedy, limited;
    uint64_t paused_ms[FRONT_PAUSE_COUNT]; /* when new clients were last left waiting; 0: never */
    int starved_error;                     /* of accept(), then */
    struct loop_timer *untold;             /* of these */
    struct loop_timer *full_look;
    void (*on_drained)(void *arg);
    void *drained_arg;
    struct lifetime life;
    struct lifetime_work drained, walk;
    void (*visit)(struct front_conn *fc); /* what the walk is for */
    uint64_t walked;                      /* up to this connection */
    struct loop_timer *drain_look;
};

static struct front *front_of(struct front_host *h)
{
    return list_entry(h, struct front, host);
}

/* ---- rare lines ---- */

/* How often it has happened since the last line, if another one is due; else 0. */
static unsigned line_due(struct front *f, struct rare_line *l)
{
    uint64_t now = loop_now_ms(f->host.loop);
    unsigned times = ++l->times;

    if (l->said_ms != 0 && now - l->said_ms < SAID_AGAIN_MS) {
        if (!loop_timer_pending(f->untold))
            loop_timer_set(f->untold, SAID_AGAIN_MS);
        return 0;
    }
    *l = (struct rare_line){.said_ms = now};
    return times;
}

/* Otherwise what does not happen again would never be told. */
static void tell_untold(void *arg)
{
    struct front *f = arg;
    struct {
        const char *what;
        struct rare_line *line;
    } lines[] = {{"Connection limit reached", &f->full},
                 {"Connection cannot be accepted", &f->starved},
                 {"Connection refused that began without a valid PROXY header", &f->headerless},
                 {"Client memory is short, a connection ends", &f->greedy},
                 {"Connection limit of one client address reached", &f->limited}};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (lines[i].line->times == 0)
            continue;
        log_warning("It has happened again since its last line", LT("what", lines[i].what),
                    LU("times", lines[i].line->times));
        *lines[i].line = (struct rare_line){.said_ms = loop_now_ms(f->host.loop)};
    }
}

/* ---- how many there are ---- */

/* For as long as a look at the places, or one at the descriptors, is apart from the next. */
static void note_pause(struct front *f, enum front_pause why)
{
    front_stats_accept_paused(f->host.stats, why);
    f->paused_ms[why] = loop_now_ms(f->host.loop);
}

static void say_full(struct front *f)
{
    unsigned times = line_due(f, &f->full);

    if (times > 0)
        log_warning("Connection limit reached, new clients wait", LU("limit", f->max_connections),
                    LU("timesSinceLastLine", times));
}

bool front_is_full(const struct front *f)
{
    return f->max_connections != 0 && f->host.conns.count + f->host.leaving.count >= f->max_connections;
}

static void make_place(void *arg)
{
    struct front *f = arg;

    if (f->listeners == NULL || f->held || !front_is_full(f))
        return;
    loop_timer_set(f->full_look, FULL_LOOK_MS);
    if (room_make(&f->host, f->max_connections))
        return;
    note_pause(f, FRONT_PAUSE_CONNECTIONS);
    if (f->crowded)
        return;
    f->crowded = true;
    say_full(f);
}

/* Leaves new connections in the kernel's queue while there are as many as may be. */
static void regulate(struct front *f)
{
    bool full = front_is_full(f);

    if (f->listeners == NULL || (full || f->held) == f->paused)
        return;
    f->paused = full || f->held;
    if (full)
        make_place(f);
    if (f->paused) {
        listeners_pause(f->listeners);
    } else {
        f->crowded = false;
        listeners_resume(f->listeners);
    }
}

static void call_drained(void *arg)
{
    struct front *f = arg;

    if (f->on_drained != NULL && f->host.conns.count == 0)
        f->on_drained(f->drained_arg);
}

static void check_drained(struct front_host *h)
{
    if (h->draining && h->conns.count == 0)
        lifetime_queue(&front_of(h)->drained);
}

static void on_closed(struct front_host *h)
{
    regulate(front_of(h));
}

/* ---- who comes ---- */

/* Of its heads another mvproxy bounds what clients send, and adds who they are. */
static bool is_mvproxy(const struct stream *s)
{
    return stream_is_hop(s) && stream_tls_peer(s)->requestheader_ca;
}

static struct vouched *vouched_of(struct front_host *h)
{
    return clients_vouched(h->clients);
}

static void on_opened(struct front_conn *fc)
{
    bool http2 = slice_eq(slice_str(stream_alpn(fc->stream)), SLICE_LIT("h2"));

    if (is_mvproxy(fc->stream)) {
        fc->limits.max_head_fields = LIMIT_HOP_FIELDS;
        vouched_add(vouched_of(fc->host), slice_str(stream_remote_ip(fc->stream)), clock_ms());
    } else { /* who is one of many at that one's address is no less for it */
        fc->turns = stream_share_turns(fc->stream);
    }
    front_stats_opened(fc->host->stats, clock_us() - fc->accepted_us);
    log_v(5, "Connection opened", LU("connection", fc->id), LT("client", stream_remote_text(fc->stream)),
          LT("alpn", stream_alpn(fc->stream)));
    if (!(http2 ? h2_conn_start(fc) : h1_conn_start(fc)))
        front_conn_close(fc, FRONT_CLOSE_NO_MEMORY, STREAM_CLOSE_NOW);
}

/* What the stream could not keep for want of room; itself it knows only that it failed. */
static bool lacks_memory(const struct front_conn *fc)
{
    return !stream_was_left(fc->stream) && !quota_has_room(&fc->memory.held, HANDSHAKE_BYTES);
}

static void on_handshake(struct stream *s, enum stream_event ev, void *arg)
{
    struct front_conn *fc = arg;

    (void)s;
    if (ev == STREAM_OPENED)
        on_opened(fc);
    else if (ev == STREAM_FAILED || ev == STREAM_EOF)
        front_conn_close(fc, ev == STREAM_FAILED && lacks_memory(fc) ? FRONT_CLOSE_MEMORY : FRONT_CLOSE_HANDSHAKE,
                         STREAM_CLOSE_NOW);
}

static size_t fresh_budget(const struct front *f)
{
    size_t half = f->max_connections / 2 > FRESH_ALWAYS ? f->max_connections / 2 : FRESH_ALWAYS;

    return f->max_connections != 0 && (f->max_fresh == 0 || f->max_fresh > half) ? half : f->max_fresh;
}

/* Its handshake has had a turn, by now among the oldest: it has the time anew in which to come to an end. Once. */
static bool renew(struct front *f, struct front_conn *fc)
{
    if (fc->renewed || fc->ops != NULL || stream_wire_bytes(fc->stream) == 0)
        return false;
    fc->renewed = true;
    clients_renew(f->host.clients, &fc->client);
    return true;
}

/* Who is silent must not keep others from being heard. */
static void make_room(struct front *f, struct front_conn *newcomer)
{
    struct client_member *m = clients_surplus(f->host.clients, &newcomer->client, fresh_budget(f));

    for (unsigned looks = 1; m != NULL && looks < ROOM_LOOKS; looks++) {
        if (!renew(f, list_entry(m, struct front_conn, client)))
            break;
        m = clients_surplus(f->host.clients, &newcomer->client, fresh_budget(f));
    }
    if (m != NULL)
        front_conn_shut(list_entry(m, struct front_conn, client), "too many silent connections",
                        FRONT_CLOSE_CROWDED_OUT);
    front_stats_fresh(f->host.stats, clients_fresh(f->host.clients));
}

/* Who is refused sees a reset, and nothing that says why. */
static void say_limited(struct front *f, const struct stream *s)
{
    unsigned times = line_due(f, &f->limited);

    if (times > 0)
        log_warning("Connection limit of one client address reached, its new connections are closed: raise "
                    "max-connections-per-client if many clients share that address",
                    LT("client", stream_remote_ip(s)), LU("limit", f->max_per_client), LU("timesSinceLastLine", times));
}

static void refuse(struct front *f, struct stream *s, enum clients_verdict verdict)
{
    bool limited = verdict == CLIENTS_TOO_MANY;

    log_v(3, "Connection refused", LT("client", stream_remote_text(s)),
          LT("reason", limited ? "too many of one client" : "out of memory"));
    if (limited)
        say_limited(f, s);
    front_stats_closed(f->host.stats, limited ? FRONT_CLOSE_CLIENT_LIMIT : FRONT_CLOSE_NO_MEMORY);
    stream_close(s, STREAM_CLOSE_ABORT);
}

static void enter(struct front *f, int fd, const struct sockaddr *client)
{
    struct front_conn *fc = mem_zalloc(sizeof(*fc));
    struct stream_opts o = {.fn = on_handshake,
                            .arg = fc,
                            .tls = f->host.tls,
                            .client = client,
                            .open_timeout_ms = f->handshake_timeout_ms};
    struct stream *s = stream_accept(f->host.loop, fd, &o);
    enum clients_verdict verdict;

    if (fc == NULL || s == NULL) {
        front_stats_closed(f->host.stats, FRONT_CLOSE_NO_MEMORY);
        if (s != NULL)
            stream_close(s, STREAM_CLOSE_ABORT);
        mem_free(fc);
        return;
    }
    verdict = clients_enter(f->host.clients, &fc->client, slice_str(stream_remote_ip(s)), f->max_per_client);
    if (verdict != CLIENTS_WELCOME) {
        refuse(f, s, verdict);
        mem_free(fc);
        return;
    }
    fc->limits = f->limits;
    if (vouched_has(vouched_of(&f->host), slice_str(stream_remote_ip(s)), clock_ms()))
        stream_mark_known(s);
    front_conn_enter(fc, &f->host, s);
    make_room(f, fc);
    regulate(f);
}

static void on_proxied(int fd, const struct sockaddr *client, void *arg)
{
    enter(arg, fd, client);
}

/* A balancer may look once a second whether anybody listens, without a word. */
static void on_bad_proxy_header(int fd, const char *why, void *arg)
{
    struct front *f = arg;
    unsigned times = line_due(f, &f->headerless);
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    char ip[INET6_ADDRSTRLEN] = "";

    front_stats_closed(f->host.stats, FRONT_CLOSE_PROXY_HEADER);
    if (times == 0)
        return;
    if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0)
        sockopt_ip((struct sockaddr *)&addr, ip);
    log_warning("Connection refused that began without a valid PROXY header, as proxy-protocol-from demands it: let "
                "the load balancer send one, or take its address out",
                LT("client", ip), LT("reason", why), LU("timesSinceLastLine", times));
}

static bool comes_from_balancer(const struct front *f, int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    return f->balancers.n > 0 && getpeername(fd, (struct sockaddr *)&addr, &len) == 0 &&
           cidr_set_contains(&f->balancers, (struct sockaddr *)&addr);
}

static void on_accept(int fd, void *arg)
{
    struct front *f = arg;

    front_stats_accepted(f->host.stats);
    if (comes_from_balancer(f, fd))
        proxy_accept_add(f->proxied, fd);
    else
        enter(f, fd, NULL);
}

/* ---- memory ---- */

static uint64_t moved_by(const struct memory_holder *h)
{
    const struct front_conn *fc = list_entry(h, struct front_conn, memory);

    return stream_bytes_in(fc->stream) + stream_bytes_out(fc->stream);
}

static bool between_requests(const struct memory_holder *h)
{
    return front_conn_is_between_requests(list_entry(h, const struct front_conn, memory));
}

static void say_greedy(struct front_conn *fc)
{
    struct front *f = front_of(fc->host);
    unsigned times = line_due(f, &f->greedy);

    if (times > 0)
        log_warning("Client memory is short, a connection ends", LT("client", stream_remote_text(fc->stream)),
                    LU("bytes", fc->memory.held.held), LU("bytesOfAddress", fc->memory.held.parent->held),
                    LU("timesSinceLastLine", times));
}

static size_t end_greedy(struct memory_holder *h)
{
    static const char why[] = "clients hold too much memory";
    struct front_conn *fc = list_entry(h, struct front_conn, memory);
    size_t requests = fc->ops != NULL && !fc->upgraded ? fc->ops->open(fc->protocol) : 1;

    say_greedy(fc);
    if (!fc->upgraded) {
        front_conn_shut(fc, why, FRONT_CLOSE_MEMORY);
    } else {
        recent_add(&fc->host->cut_off, loop_now_ms(fc->host->loop));
        front_conn_break(fc, why);
    }
    return requests;
}

size_t front_memory(const struct front *f)
{
    return memory_all(f->host.memory)->held;
}

static void on_starved(int error, void *arg)
{
    struct front *f = arg;
    unsigned times = line_due(f, &f->starved);

    note_pause(f, FRONT_PAUSE_DESCRIPTORS);
    f->starved_error = error;
    if (times > 0)
        log_warning("Connection cannot be accepted, new clients wait", LT("err", strerror(error)),
                    LU("connections", f->host.conns.count + f->host.leaving.count), LU("timesSinceLastLine", times));
}

/* ---- drain ---- */

static bool is_stranger(const struct front_conn *fc)
{
    return fc->turns != NULL && !fc->turns->known;
}

static bool holds_drain(struct front_conn *fc)
{
    bool indulged = !is_stranger(fc);

    return fc->ops != NULL && fc->ops->busy(fc->protocol) &&
           !fc->ops->drips(fc->protocol, TIMEOUT_BODY_DRAIN_MS, indulged) &&
           !(room_is_slow_reader(fc, TIMEOUT_BODY_DRAIN_MS, indulged) &&
             fc->ops->answered(fc->protocol, TIMEOUT_BODY_DRAIN_MS, indulged));
}

static void tell(struct front_conn *fc)
{
    if (fc->ops != NULL)
        fc->ops->drain(fc->protocol);
}

/*
 * Who has not sent a whole request by now does not hold us up: half a head, a handshake that does not go on, silence.
 * A body that comes may do so, one in drips not. Nor who does not take his answers, once they are all that is left;
 * nobody has vouched for a stranger, so he has to take at once what waits, and to send what he sends.
 */
static void end_if_not_busy(struct front_conn *fc)
{
    if (!holds_drain(fc))
        front_conn_shut(fc, "draining", FRONT_CLOSE_DRAIN);
}

/* They are in the order of their coming. */
static struct list_node *first_not_walked(const struct front *f)
{
    struct list_node *n = list_first(&f->host.conns);

    while (n != NULL && list_entry(n, struct front_conn, node)->id <= f->walked)
        n = list_next(&f->host.conns, n);
    return n;
}

/* Some in each turn, for there may be thousands. One connection ends at most itself. */
static void walk(void *arg)
{
    struct front *f = arg;
    struct list_node *n = first_not_walked(f), *next;

    for (unsigned i = 0; n != NULL && i < WALK_CONNS; n = next, i++) {
        struct front_conn *fc = list_entry(n, struct front_conn, node);

        next = list_next(&f->host.conns, n);
        f->walked = fc->id;
        f->visit(fc);
    }
    if (n != NULL)
        lifetime_queue(&f->walk);
}

static void begin_walk(struct front *f, void (*visit)(struct front_conn *fc))
{
    f->visit = visit;
    f->walked = 0;
    lifetime_queue(&f->walk);
}

static void end_those_not_busy(void *arg)
{
    struct front *f = arg;

    if (f->host.conns.count == 0)
        return;
    if (!lifetime_queued(&f->walk))
        begin_walk(f, end_if_not_busy);
    loop_timer_set(f->drain_look, DRAIN_LOOK_MS);
}

/* ---- the front as a whole ---- */

static uint64_t or_default(uint64_t ms, uint64_t fallback)
{
    return ms != 0 ? ms : fallback;
}

static void apply(struct front *f, const struct front_opts *o)
{
    struct tls_ctx *old = f->host.tls;

    f->host.trust += o->tls != old;
    f->host.tls = o->tls != NULL ? tls_ctx_ref(o->tls) : NULL;
    if (old != NULL)
        tls_ctx_unref(old);
    if (!cidr_set_assign(&f->balancers, o->proxy_protocol_from))
        log_error("Out of memory: proxy-protocol-from stays as it was");
    f->max_connections = o->max_connections;
    f->max_per_client = o->max_connections_per_client;
    f->max_fresh = o->max_fresh_connections;
    memory_set_limit(f->host.memory, o->max_memory);
    front_stats_memory_limit(f->host.stats, o->max_memory);
    f->handshake_timeout_ms = or_default(o->handshake_timeout_ms, TIMEOUT_HANDSHAKE_MS);
    f->limits = (struct front_limits){
        .max_head_bytes = o->max_head_bytes != 0 ? o->max_head_bytes : LIMIT_HEAD_BYTES,
        .max_head_fields = LIMIT_HEAD_FIELDS,
        .header_timeout_ms = or_default(o->header_timeout_ms, TIMEOUT_HEADER_MS),
        .idle_timeout_ms = or_default(o->idle_timeout_ms, TIMEOUT_IDLE_MS),
        .body_timeout_ms = or_default(o->body_timeout_ms, TIMEOUT_BODY_STALL_MS),
        .linger_timeout_ms = or_default(o->linger_timeout_ms, TIMEOUT_LINGER_MS),
        .max_requests = o->max_requests_per_connection,
    };
    f->host.on_request = o->on_request;
    f->host.arg = o->arg;
    f->host.refusal_body = o->refusal_body;
    f->host.refusal_arg = o->refusal_arg;
    f->host.retry_after[0] = '\0';
    if (o->retry_after_s > 0)
        snprintf(f->host.retry_after, sizeof(f->host.retry_after), "%u", o->retry_after_s);
}

struct front *front_new(struct loop *l, struct metrics *m, const struct front_opts *o, struct err *err)
{
    /* A response head is at most as long as the longest head we read, plus what we add. */
    enum { SCRATCH_BYTES = LIMIT_HEAD_BYTES + (64 << 10) };
    struct front *f = must_zalloc(sizeof(*f));

    f->host.loop = l;
    f->host.stats = front_stats_new(m);
    buf_init(&f->host.scratch, SCRATCH_BYTES);
    f->host.arenas.ceiling = LIMIT_EXCHANGE_ARENA;
    list_init(&f->host.conns);
    list_init(&f->host.idle);
    list_init(&f->host.resting);
    list_init(&f->host.waiting);
    list_init(&f->host.leaving);
    f->host.on_left = check_drained;
    f->host.on_closed = on_closed;
    f->proxied = proxy_accept_new(l, on_proxied, on_bad_proxy_header, f);
    f->host.memory =
        memory_new(l, &(struct memory_opts){.moved = moved_by, .idle = between_requests, .end = end_greedy});
    lifetime_init(&f->life, l, "front");
    lifetime_work_init(&f->life, &f->drained, LOOP_DEFERRED, call_drained, f);
    lifetime_work_init(&f->life, &f->walk, LOOP_BULK, walk, f);
    f->drain_look = lifetime_timer(&f->life, end_those_not_busy, f);
    f->untold = lifetime_timer(&f->life, tell_untold, f);
    f->full_look = lifetime_timer(&f->life, make_place, f);
    f->host.clients = f->host.memory == NULL || f->drain_look == NULL || f->untold == NULL || f->full_look == NULL
                          ? NULL
                          : clients_new(f->host.memory);
    if (f->host.clients == NULL) {
        err_set(err, "out of memory");
        front_free(f);
        return NULL;
    }
    front_stats_watch_memory(f->host.stats, m, &memory_all(f->host.memory)->held);
    apply(f, o);
    f->held = o->hold;
    if (o->listen_later || front_listen(f, &o->listen, err))
        return f;
    front_free(f);
    return NULL;
}

bool front_listen(struct front *f, const struct listeners_opts *listen, struct err *err)
{
    must_hold(f->listeners == NULL && !f->host.draining);
    f->listeners = listeners_open(f->host.loop, listen, on_accept, f, err);
    if (f->listeners == NULL)
        return false;
    f->port = listeners_port(f->listeners);
    listeners_on_starved(f->listeners, on_starved);
    regulate(f);
    return true;
}

void front_release(struct front *f)
{
    f->held = false;
    regulate(f);
}

void front_update(struct front *f, const struct front_opts *o)
{
    apply(f, o);
    regulate(f);
}

unsigned front_port(const struct front *f)
{
    return f->port;
}

size_t front_connections(const struct front *f)
{
    return f->host.conns.count;
}

size_t front_exchanges(const struct front *f)
{
    return front_stats_requests_in_flight(f->host.stats);
}

size_t front_max_connections(const struct front *f)
{
    return f->max_connections;
}

static bool has_paused(const struct front *f, enum front_pause why)
{
    return f->paused_ms[why] != 0 && loop_now_ms(f->host.loop) - f->paused_ms[why] < PAUSE_SHOWN_MS;
}

bool front_is_crowded(const struct front *f)
{
    return has_paused(f, FRONT_PAUSE_CONNECTIONS);
}

const char *front_accept_failure(const struct front *f)
{
    return has_paused(f, FRONT_PAUSE_DESCRIPTORS) ? strerror(f->starved_error) : NULL;
}

size_t front_memory_ended(const struct front *f)
{
    return recent_count(&f->host.cut_off, loop_now_ms(f->host.loop));
}

size_t front_memory_limit(const struct front *f)
{
    return memory_all(f->host.memory)->most;
}

static void stop_listening(struct front *f)
{
    listeners_close(f->listeners);
    f->listeners = NULL;
    proxy_accept_free(f->proxied);
    f->proxied = NULL;
}

void front_drain(struct front *f, void (*on_drained)(void *arg), void *arg)
{
    f->on_drained = on_drained;
    f->drained_arg = arg;
    f->host.draining = true;
    stop_listening(f);
    begin_walk(f, tell);
    loop_timer_set(f->drain_look, DRAIN_ARRIVING_MS);
    check_drained(&f->host);
}

/* After all that its connections have queued to be freed. */
static void release(void *arg)
{
    struct front *f = arg;

    clients_free(f->host.clients);
    memory_free(f->host.memory);
    front_stats_free(f->host.stats);
    buf_free(&f->host.scratch);
    arena_pool_free(&f->host.arenas);
    h1_parser_free(f->host.spare_parser);
    mem_free(f);
}

void front_free(struct front *f)
{
    struct list_node *n;

    f->host.draining = true;
    stop_listening(f);
    while ((n = list_first(&f->host.conns)) != NULL) {
        struct front_conn *fc = list_entry(n, struct front_conn, node);

        front_conn_shut(fc, "shutting down", FRONT_CLOSE_SHUTDOWN);
    }
    /* What is left belongs to others, or to the kernel: it may outlive us uncounted. */
    while ((n = list_first(&f->host.leaving)) != NULL)
        front_conn_disown(list_entry(n, struct front_conn, node));
    if (f->host.tls != NULL)
        tls_ctx_unref(f->host.tls);
    cidr_set_free(&f->balancers);
    lifetime_retire(&f->life, release, f);
}
