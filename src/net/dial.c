/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/un.h>

#include "base/contract.h"
#include "base/state.h"
#include "net/egress_proxy.h"
#include "net/fair_queue.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/relay.h"
#include "net/resolver.h"
#include "net/stream_internal.h"
#include "net/tls_ctx.h"

enum { MAX_ADDRESSES = 16 };

enum dial_state {
    DIAL_RESOLVING, /* waits for the resolver */
    DIAL_TRYING, /* waits for the tunnel or the stream to open or fail; or, without either, for its turn to try the next
                  */
    DIAL_OVER,
};

static const char *const state_names[] = {
    [DIAL_RESOLVING] = "resolving", [DIAL_TRYING] = "trying", [DIAL_OVER] = "over"};
static const uint32_t next_states[] = {
    [DIAL_RESOLVING] = STATE(DIAL_TRYING) | STATE(DIAL_OVER),
    [DIAL_TRYING] = STATE(DIAL_OVER),
    [DIAL_OVER] = 0,
};
static const struct state_table states = STATE_TABLE("dial", state_names, next_states);

struct dial_address {
    struct sockaddr_storage addr;
    socklen_t len; /* 0: only the proxy knows */
};

/* What the resolver holds, until it has answered; that may be after the dial. */
struct dial_query {
    struct loop *loop;
    struct dial *dial; /* NULL: over */
    struct evdns_getaddrinfo_request *request;
};

struct dial {
    struct loop *loop;
    struct lifetime life;
    enum dial_state state;
    struct dial_opts opts; /* host and server_name are copies */
    char *host, *server_name;
    dial_fn *fn;
    void *arg;
    uint64_t deadline_ms;
    struct loop_timer *timer;
    struct lifetime_guest query;
    struct lifetime_guest attempt; /* one of: */
    void *tunnel;                  /* on the way through opts.egress */
    struct stream *stream;
    struct dial_address addresses[MAX_ADDRESSES];
    size_t n_addresses, next;
    char failure[512];
    struct loop_deferred first; /* its turn to try the first address */
};

static void free_dial(void *arg)
{
    struct dial *d = arg;

    must_hold(d->stream == NULL && d->tunnel == NULL); /* they would call it */
    tls_ctx_unref(d->opts.tls);
    egress_proxy_unref(d->opts.egress);
    mem_free(d->host);
    mem_free(d->server_name);
    mem_free(d);
}

static void drop_attempt(void *arg)
{
    struct dial *d = arg;

    fair_queue_cancel(loop_server_handshakes(d->loop), &d->first);
    if (d->tunnel != NULL)
        egress_proxy_cancel(d->opts.egress, d->tunnel);
    d->tunnel = NULL;
    if (d->stream != NULL)
        stream_close(d->stream, STREAM_CLOSE_NOW);
    d->stream = NULL;
}

/* It ends by itself, finds nobody, and is freed then. */
static void drop_query(void *arg)
{
    struct dial_query *q = arg;

    q->dial = NULL;
    evdns_getaddrinfo_cancel(q->request);
}

static void move(struct dial *d, enum dial_state to)
{
    state_move(&states, &d->state, to);
}

/* Nothing calls back any more. */
static void end(struct dial *d)
{
    move(d, DIAL_OVER);
    lifetime_retire(&d->life, free_dial, d);
}

static void note(struct dial *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct dial *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(d->failure, sizeof(d->failure), fmt, ap);
    va_end(ap);
}

static void fail(struct dial *d)
{
    end(d); /* the memory stays until the end of the turn */
    d->fn(NULL, d->failure, d->arg);
}

static void step(void *arg);

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    struct dial *d = arg;

    if (ev == STREAM_OPENED) {
        d->stream = NULL;
        stream_set_owner(s, NULL, NULL);
        end(d);
        d->fn(s, NULL, d->arg);
    } else if (ev == STREAM_FAILED) {
        note(d, "%s: %s", stream_remote_text(s), stream_failure(s));
        d->stream = NULL;
        stream_close(s, STREAM_CLOSE_NOW);
        step(d);
    }
}

static const struct sockaddr *sockaddr_of(const struct dial_address *a)
{
    return a->len == 0 ? NULL : (const struct sockaddr *)(const void *)&a->addr;
}

/* A silent address must not use up the time of those after it. */
static uint64_t share_ms(const struct dial *d)
{
    uint64_t now = loop_now_ms(d->loop);
    uint64_t left = d->deadline_ms > now ? d->deadline_ms - now : 1;

    must_hold(d->next <= d->n_addresses);
    return left / (d->n_addresses - d->next + 1) + 1;
}

static struct stream_opts stream_opts(struct dial *d)
{
    return (struct stream_opts){
        .fn = on_stream,
        .arg = d,
        .tls = d->opts.tls,
        .server_name = d->server_name,
        .http2 = d->opts.http2,
        .open_timeout_ms = share_ms(d),
    };
}

static void try_directly(struct dial *d, const struct dial_address *a)
{
    struct stream_opts o = stream_opts(d);

    d->stream = stream_connect(d->loop, sockaddr_of(a), a->len, &o);
    if (d->stream == NULL)
        note(d, "%s: out of memory or descriptors", d->host);
}

/* What a proxy is asked for: the address, or the name if nobody here has to know more. */
static bool target_text(const struct dial *d, const struct dial_address *a, char *out, size_t size)
{
    char ip[INET6_ADDRSTRLEN];
    const struct sockaddr *addr = sockaddr_of(a);
    int n;

    if (addr == NULL) {
        n = snprintf(out, size, "%s:%u", d->host, d->opts.port);
        return n > 0 && (size_t)n < size;
    }
    if (addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, ip, sizeof(ip));
    else
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, ip, sizeof(ip));
    n = snprintf(out, size, addr->sa_family == AF_INET ? "%s:%u" : "[%s]:%u", ip, d->opts.port);
    return n > 0 && (size_t)n < size;
}

static void on_tunnel(int fd, struct relay *relay, const char *failure, void *arg)
{
    struct dial *d = arg;
    const struct dial_address *a;
    struct stream_opts o = stream_opts(d);

    must_hold(d->next > 0 && d->stream == NULL);
    a = &d->addresses[d->next - 1];
    d->tunnel = NULL;
    if (fd < 0) {
        note(d, "%s", failure);
        step(d);
        return;
    }
    d->stream = stream_adopt(d->loop, fd, sockaddr_of(a), d->host, &o);
    if (d->stream != NULL && relay != NULL) {
        relay_bind(relay, d->stream);
    } else if (d->stream == NULL) {
        if (relay != NULL)
            relay_drop(relay);
        note(d, "%s: out of memory", d->host);
        step(d);
    }
}

static void try_through_proxy(struct dial *d, const struct dial_address *a)
{
    char target[512];

    if (a->len != 0 && a->addr.ss_family == AF_UNIX) {
        note(d, "%s: a Unix socket is not reached through a proxy", d->host);
        return;
    }
    if (!target_text(d, a, target, sizeof(target))) {
        note(d, "%s: the name is too long", d->host);
        return;
    }
    /* Somewhat less than the whole, so that it is the proxy that is seen to be late. */
    d->tunnel = egress_proxy_start(d->opts.egress, d->loop,
                                   &(struct egress_proxy_request){target, share_ms(d) * 15 / 16, on_tunnel, d});
    if (d->tunnel == NULL)
        note(d, "%s: out of memory", d->host);
}

static void try_address(struct dial *d, const struct dial_address *a)
{
    if (d->opts.allow != NULL && !d->opts.allow(sockaddr_of(a), d->opts.allow_arg))
        note(d, "%s: the address is not allowed", d->host);
    else if (d->opts.egress != NULL)
        try_through_proxy(d, a);
    else
        try_directly(d, a);
}

static bool is_trying(const struct dial *d)
{
    return d->stream != NULL || d->tunnel != NULL;
}

static void step(void *arg)
{
    struct dial *d = arg;

    while (!is_trying(d) && d->next < d->n_addresses)
        try_address(d, &d->addresses[d->next++]);
    if (!is_trying(d))
        fail(d);
}

/* To connect is the first step of a handshake, and hundreds may be wanted at once: when many peers have come. */
static void start_trying(struct dial *d)
{
    move(d, DIAL_TRYING);
    fair_queue_add(loop_server_handshakes(d->loop), &d->first, FAIR_STRANGERS, slice_str(d->host), FAIR_LAST);
}

static void on_deadline(void *arg)
{
    struct dial *d = arg;

    if (d->state == DIAL_RESOLVING)
        note(d, "resolve %s: timed out", d->host);
    else if (d->stream != NULL)
        note(d, "%s: timed out", stream_remote_text(d->stream));
    else if (d->tunnel != NULL)
        note(d, "egress proxy %s: timed out", egress_proxy_text(d->opts.egress));
    else if (d->next == 0)
        note(d, "%s: timed out before it was its turn to connect", d->host);
    fail(d);
}

/* ---- addresses ---- */

static void add_address(struct dial *d, const struct sockaddr *addr, size_t len)
{
    struct dial_address *a = &d->addresses[d->n_addresses];

    if (d->n_addresses == MAX_ADDRESSES || len > sizeof(a->addr))
        return;
    memcpy(&a->addr, addr, len);
    a->len = (socklen_t)len;
    d->n_addresses++;
}

static bool add_unix(struct dial *d)
{
    static const char prefix[] = "unix:";
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const char *path = d->host + sizeof(prefix) - 1;

    if (strncmp(d->host, prefix, sizeof(prefix) - 1) != 0)
        return false;
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    if (strlen(path) >= sizeof(un.sun_path))
        note(d, "%s: the path is too long", d->host);
    else
        add_address(d, (struct sockaddr *)&un, sizeof(un));
    return true;
}

static bool add_literal(struct dial *d)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)d->opts.port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)d->opts.port)};

    if (inet_pton(AF_INET, d->host, &in.sin_addr) == 1)
        add_address(d, (struct sockaddr *)&in, sizeof(in));
    else if (inet_pton(AF_INET6, d->host, &in6.sin6_addr) == 1)
        add_address(d, (struct sockaddr *)&in6, sizeof(in6));
    else
        return false;
    return true;
}

/* Only the proxy resolves, if nobody here has to judge the address. */
static bool leave_to_proxy(struct dial *d)
{
    if (d->opts.egress == NULL || d->opts.allow != NULL)
        return false;
    d->n_addresses = 1;
    return true;
}

static void release_resolver(void *resolver)
{
    resolver_free(resolver);
}

static struct evdns_base *resolver_of(struct loop *l)
{
    struct resolver *r = loop_resolver(l);

    if (r == NULL) {
        r = resolver_new(loop_base(l), "/etc/resolv.conf", "/etc/hosts");
        if (r == NULL)
            return NULL;
        loop_set_resolver(l, r, release_resolver);
    }
    return resolver_ask(r);
}

static void on_resolved(int result, struct evutil_addrinfo *found, void *arg)
{
    struct dial_query *q = arg;
    struct dial *d = q->dial;
    struct loop *l = q->loop;

    loop_enter(l);
    mem_free(q);
    if (d != NULL) {
        lifetime_release(&d->query);
        if (result != 0)
            note(d, "resolve %s: %s", d->host, evutil_gai_strerror(result));
        else
            note(d, "resolve %s: no address", d->host);
        for (struct evutil_addrinfo *a = found; a != NULL; a = a->ai_next)
            add_address(d, a->ai_addr, a->ai_addrlen);
        start_trying(d);
    }
    if (found != NULL)
        evutil_freeaddrinfo(found);
    loop_leave(l);
}

static void resolve(struct dial *d)
{
    struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_protocol = IPPROTO_TCP,
        .ai_flags = EVUTIL_AI_ADDRCONFIG,
    };
    struct evdns_base *dns = resolver_of(d->loop);
    struct dial_query *q = mem_alloc(sizeof(*q));
    struct evdns_getaddrinfo_request *request;
    char service[16];

    snprintf(service, sizeof(service), "%u", d->opts.port);
    note(d, "resolve %s: out of memory", d->host);
    if (dns == NULL || q == NULL) {
        mem_free(q);
        start_trying(d); /* with nothing to try: fails in the turn */
        return;
    }
    /* What the hosts file answers is answered from inside this call, and there is no query then. */
    *q = (struct dial_query){.loop = d->loop, .dial = d};
    request = evdns_getaddrinfo(dns, d->host, service, &hints, on_resolved, q);
    if (request == NULL)
        return;
    q->request = request;
    lifetime_guest(&d->life, &d->query, drop_query, q);
}

/* ---- life ---- */

struct dial *dial_start(struct loop *l, const struct dial_opts *o, dial_fn *fn, void *arg)
{
    struct dial *d = mem_zalloc(sizeof(*d));

    if (d == NULL)
        return NULL;
    d->loop = l;
    d->opts = *o;
    d->fn = fn;
    d->arg = arg;
    d->deadline_ms = loop_now_ms(l) + o->timeout_ms;
    d->host = mem_strdup(o->host);
    d->server_name = o->server_name == NULL ? NULL : mem_strdup(o->server_name);
    lifetime_init(&d->life, l, "dial");
    d->first = (struct loop_deferred){.fn = step, .arg = d};
    lifetime_guest(&d->life, &d->attempt, drop_attempt, d);
    d->timer = lifetime_timer(&d->life, on_deadline, d);
    if (d->opts.tls != NULL)
        tls_ctx_ref(d->opts.tls);
    if (d->opts.egress != NULL)
        egress_proxy_ref(d->opts.egress);
    if (d->host == NULL || (o->server_name != NULL && d->server_name == NULL) || d->timer == NULL) {
        end(d);
        return NULL;
    }
    loop_timer_set(d->timer, o->timeout_ms);
    if (add_unix(d) || add_literal(d) || leave_to_proxy(d))
        start_trying(d);
    else
        resolve(d);
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d->state != DIAL_OVER)
        end(d);
}
