/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load for benchmarks: GETs over TLS 1.3 and HTTP/1.1 on many connections from one thread, closed loop. Prints one JSON
 * object. With --tunnel each connection is upgraded, and what counts is the bytes that come then.
 *
 * It reads the CPU time of the processes under test itself, at the very start and end of what it measures.
 * It trusts its servers: a response that it does not understand ends the connection and counts as an error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

enum { MAX_CONNECTIONS = 4096, MAX_PIDS = 16, READ_SIZE = 65536, HEAD_SIZE = 16384, MAX_SAMPLES = 8000000 };

enum conn_state {
    CONN_HANDSHAKE,
    CONN_WRITE,
    CONN_HEAD,
    CONN_LENGTH,
    CONN_CHUNK_SIZE,
    CONN_CHUNK,
    CONN_CHUNK_END,
    CONN_TRAILER,
    CONN_TUNNEL, /* upgraded: whatever comes is counted */
};

struct conn {
    int fd;
    SSL *ssl;
    enum conn_state state;
    uint32_t interest;
    uint64_t started; /* ns, when the request (with --close: the connection) was begun */
    uint64_t left;    /* bytes of the body or chunk still to come */
    size_t head_len;
    char head[HEAD_SIZE];
};

struct run {
    struct sockaddr_in addr;
    const char *host, *path;
    int connections, pid_count, expected;
    long pids[MAX_PIDS];
    double seconds, warmup;
    bool close_each, tunnel;
    char *request;
    size_t request_len;
    SSL_CTX *tls;
    int epoll;
    bool measuring;
    uint64_t done, errors, bad_status, bytes;
    uint32_t *samples; /* µs */
    size_t sample_count;
};

static void fail(const char *what)
{
    fprintf(stderr, "loadgen: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* User and system time of all processes under test, in clock ticks. */
static uint64_t cpu_ticks(const struct run *run)
{
    uint64_t sum = 0;
    for (int i = 0; i < run->pid_count; i++) {
        char path[64], text[1024];
        snprintf(path, sizeof(path), "/proc/%ld/stat", run->pids[i]);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            fail(path);
        size_t n = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[n] = '\0';
        char *at = strrchr(text, ')'); /* the name may hold anything */
        for (int field = 2; at != NULL && field < 14; field++)
            at = strchr(at + 1, ' ');
        if (at == NULL)
            fail(path);
        uint64_t user = strtoul(at, &at, 10), sys = strtoul(at, NULL, 10);
        sum += user + sys;
    }
    return sum;
}

static int number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

static void conn_interest(struct run *run, struct conn *c, uint32_t events)
{
    if (c->interest == events)
        return;
    struct epoll_event ev = {.events = events, .data.ptr = c};
    if (epoll_ctl(run->epoll, c->interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &ev) != 0)
        fail("epoll_ctl");
    c->interest = events;
}

static void conn_open(struct run *run, struct conn *c)
{
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        fail("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->started = now_ns();
    if (connect(c->fd, (struct sockaddr *)&run->addr, sizeof(run->addr)) != 0 && errno != EINPROGRESS)
        fail("connect");
    c->ssl = SSL_new(run->tls);
    if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1)
        fail("SSL_new");
    SSL_set_connect_state(c->ssl);
    c->state = CONN_HANDSHAKE;
    c->interest = 0;
    conn_interest(run, c, EPOLLIN | EPOLLOUT);
}

static void conn_reopen(struct run *run, struct conn *c)
{
    SSL_shutdown(c->ssl);
    SSL_free(c->ssl);
    ERR_clear_error();
    close(c->fd);
    conn_open(run, c);
}

static void conn_done(struct run *run, struct conn *c)
{
    uint64_t now = now_ns();
    if (run->measuring) {
        run->done++;
        if (run->sample_count < MAX_SAMPLES)
            run->samples[run->sample_count++] = (uint32_t)((now - c->started) / 1000);
    }
    c->started = now;
    c->state = CONN_WRITE;
    c->head_len = 0;
}

/* Value of a header in the head, NULL if absent. */
static const char *head_value(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1 + strspn(line + n + 1, " ");
    }
    return NULL;
}

/* Takes from the bytes what belongs to the head; false if it is not understood. */
static bool conn_head(struct run *run, struct conn *c, const char **p, const char *end)
{
    while (*p < end && c->head_len < HEAD_SIZE - 1) {
        c->head[c->head_len++] = *(*p)++;
        if (c->head_len < 4 || memcmp(c->head + c->head_len - 4, "\r\n\r\n", 4) != 0)
            continue;
        c->head[c->head_len] = '\0';
        int status = c->head_len > 12 ? number(c->head + 9) : 0;
        if (status != run->expected && run->measuring)
            run->bad_status++;
        if (status == 101 && run->tunnel) {
            c->state = CONN_TUNNEL;
            return true;
        }
        const char *length = head_value(c->head, "content-length");
        const char *coding = head_value(c->head, "transfer-encoding");
        c->head_len = 0;
        if (status == 304 || length != NULL) {
            c->left = status == 304 ? 0 : strtoull(length, NULL, 10);
            c->state = CONN_LENGTH;
            return true;
        }
        c->state = CONN_CHUNK_SIZE;
        return coding != NULL && strncasecmp(coding, "chunked", 7) == 0;
    }
    return c->head_len < HEAD_SIZE - 1;
}

/* Collects one line of the chunked framing; true when it is whole (without CRLF, in head). */
static bool conn_line(struct conn *c, const char **p, const char *end)
{
    while (*p < end && c->head_len < HEAD_SIZE - 1) {
        char byte = *(*p)++;
        if (byte == '\n') {
            c->head[c->head_len] = '\0';
            c->head_len = 0;
            return true;
        }
        if (byte != '\r')
            c->head[c->head_len++] = byte;
    }
    return false;
}

static void conn_body(struct conn *c, const char **p, const char *end)
{
    uint64_t n = (uint64_t)(end - *p) < c->left ? (uint64_t)(end - *p) : c->left;
    c->left -= n;
    *p += n;
}

/* Goes through received bytes; false if they are not understood. */
static bool conn_parse(struct run *run, struct conn *c, const char *p, const char *end)
{
    while (p < end) {
        switch (c->state) {
        case CONN_HEAD:
            if (!conn_head(run, c, &p, end))
                return false;
            break;
        case CONN_LENGTH:
            conn_body(c, &p, end);
            break;
        case CONN_CHUNK_SIZE:
            if (conn_line(c, &p, end)) {
                c->left = strtoull(c->head, NULL, 16);
                c->state = c->left == 0 ? CONN_TRAILER : CONN_CHUNK;
            }
            break;
        case CONN_CHUNK:
            conn_body(c, &p, end);
            if (c->left == 0)
                c->state = CONN_CHUNK_END;
            break;
        case CONN_CHUNK_END:
            if (conn_line(c, &p, end))
                c->state = CONN_CHUNK_SIZE;
            break;
        case CONN_TRAILER:
            if (conn_line(c, &p, end) && c->head[0] == '\0')
                conn_done(run, c);
            break;
        case CONN_TUNNEL:
            return true;
        case CONN_HANDSHAKE:
        case CONN_WRITE:
            return false; /* more than was asked for */
        }
        if (c->state == CONN_LENGTH && c->left == 0)
            conn_done(run, c);
    }
    return true;
}

/* One step of reading: true if there may be more to do at once. */
static bool conn_read(struct run *run, struct conn *c)
{
    static char buf[READ_SIZE];
    int n = SSL_read(c->ssl, buf, sizeof(buf));
    if (n <= 0) {
        int why = SSL_get_error(c->ssl, n);
        if (why == SSL_ERROR_WANT_READ) {
            conn_interest(run, c, EPOLLIN);
            return false;
        }
        run->errors++;
        conn_reopen(run, c);
        return false;
    }
    if (run->measuring)
        run->bytes += (uint64_t)n;
    if (!conn_parse(run, c, buf, buf + n)) {
        run->errors++;
        conn_reopen(run, c);
        return false;
    }
    if (c->state == CONN_WRITE && run->close_each) {
        conn_reopen(run, c);
        return false;
    }
    return true;
}

/* One step of the handshake or of sending: true if there may be more to do at once. */
static bool conn_send(struct run *run, struct conn *c)
{
    int n =
        c->state == CONN_HANDSHAKE ? SSL_do_handshake(c->ssl) : SSL_write(c->ssl, run->request, (int)run->request_len);
    if (n == 1 && c->state == CONN_HANDSHAKE) {
        c->state = CONN_WRITE;
        return true;
    }
    if (n > 0) {
        c->state = CONN_HEAD;
        return true;
    }
    switch (SSL_get_error(c->ssl, n)) {
    case SSL_ERROR_WANT_READ:
        conn_interest(run, c, EPOLLIN);
        return false;
    case SSL_ERROR_WANT_WRITE:
        conn_interest(run, c, EPOLLOUT);
        return false;
    default:
        run->errors++;
        conn_reopen(run, c);
        return false;
    }
}

static void conn_advance(struct run *run, struct conn *c)
{
    while (c->state == CONN_HANDSHAKE || c->state == CONN_WRITE ? conn_send(run, c) : conn_read(run, c))
        ;
}

static void serve_until(struct run *run, uint64_t end)
{
    struct epoll_event events[256];
    while (now_ns() < end) {
        int n = epoll_wait(run->epoll, events, 256, 10);
        if (n < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < n; i++)
            conn_advance(run, events[i].data.ptr);
    }
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double percentile_ms(const struct run *run, double q)
{
    if (run->sample_count == 0)
        return 0;
    return run->samples[(size_t)(q * (double)(run->sample_count - 1))] / 1000.0;
}

static void measure(struct run *run)
{
    uint64_t start = now_ns();
    serve_until(run, start + (uint64_t)(run->warmup * 1e9));
    run->errors = 0;
    uint64_t ticks = cpu_ticks(run);
    start = now_ns();
    run->measuring = true;
    serve_until(run, start + (uint64_t)(run->seconds * 1e9));
    run->measuring = false;
    double seconds = (double)(now_ns() - start) / 1e9;
    double cpu = (double)(cpu_ticks(run) - ticks) / (double)sysconf(_SC_CLK_TCK);
    qsort(run->samples, run->sample_count, sizeof(*run->samples), by_value);
    printf("{\"requests\": %llu, \"errors\": %llu, \"bad_status\": %llu, \"bytes\": %llu, \"seconds\": %.3f, "
           "\"cpu_seconds\": %.2f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
           (unsigned long long)run->done, (unsigned long long)run->errors, (unsigned long long)run->bad_status,
           (unsigned long long)run->bytes, seconds, cpu, percentile_ms(run, 0.5), percentile_ms(run, 0.99));
}

static void make_request(struct run *run, const char *headers)
{
    int n = asprintf(&run->request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", run->path, run->host, headers);
    if (n < 0)
        fail("asprintf");
    run->request_len = (size_t)n;
}

static void make_tls(struct run *run, const char *ca)
{
    run->tls = SSL_CTX_new(TLS_client_method());
    if (run->tls == NULL || SSL_CTX_load_verify_locations(run->tls, ca, NULL) != 1)
        fail("TLS context");
    SSL_CTX_set_verify(run->tls, SSL_VERIFY_PEER, NULL);
    /* One version, cipher and group for all that are compared; no resumption. */
    SSL_CTX_set_min_proto_version(run->tls, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(run->tls, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set1_groups_list(run->tls, "X25519");
    SSL_CTX_set_session_cache_mode(run->tls, SSL_SESS_CACHE_OFF);
}

static void usage(void)
{
    fputs("usage: loadgen --connect IP:PORT --ca FILE --path PATH [--connections N] [--seconds S] [--warmup S]\n"
          "               [--header 'NAME: VALUE']... [--cpu-of PID]... [--expect STATUS] [--close] [--tunnel]\n",
          stderr);
    exit(2);
}

static void set_address(struct run *run, char *text)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL)
        usage();
    *colon = '\0';
    run->host = text;
    run->addr.sin_family = AF_INET;
    run->addr.sin_port = htons((uint16_t)number(colon + 1));
    if (inet_pton(AF_INET, text, &run->addr.sin_addr) != 1)
        usage();
}

static const struct option options[] = {
    {"connect", required_argument, NULL, 'a'}, {"ca", required_argument, NULL, 'r'},
    {"path", required_argument, NULL, 'p'},    {"connections", required_argument, NULL, 'n'},
    {"seconds", required_argument, NULL, 's'}, {"warmup", required_argument, NULL, 'w'},
    {"header", required_argument, NULL, 'h'},  {"cpu-of", required_argument, NULL, 'c'},
    {"expect", required_argument, NULL, 'e'},  {"close", no_argument, NULL, 'x'},
    {"tunnel", no_argument, NULL, 't'},        {NULL, 0, NULL, 0},
};

/* Reads the command line; the CA file goes to *ca, header lines to headers. */
static void parse(struct run *run, int argc, char **argv, const char **ca, char *headers, size_t size)
{
    size_t used = 0;
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'a':
            set_address(run, optarg);
            break;
        case 'r':
            *ca = optarg;
            break;
        case 'p':
            run->path = optarg;
            break;
        case 'n':
            run->connections = number(optarg);
            break;
        case 's':
            run->seconds = strtod(optarg, NULL);
            break;
        case 'w':
            run->warmup = strtod(optarg, NULL);
            break;
        case 'e':
            run->expected = number(optarg);
            break;
        case 'x':
            run->close_each = true;
            break;
        case 't':
            run->tunnel = true;
            run->expected = 101;
            break;
        case 'c':
            if (run->pid_count == MAX_PIDS)
                usage();
            run->pids[run->pid_count++] = number(optarg);
            break;
        case 'h':
            used += (size_t)snprintf(headers + used, size - used, "%s\r\n", optarg);
            if (used >= size)
                usage();
            break;
        default:
            usage();
        }
    }
}

int main(int argc, char **argv)
{
    static struct run run = {.connections = 32, .expected = 200, .seconds = 3, .warmup = 0.5};
    static struct conn conns[MAX_CONNECTIONS];
    char headers[8192] = "";
    const char *ca = NULL;
    parse(&run, argc, argv, &ca, headers, sizeof(headers));
    if (run.host == NULL || run.path == NULL || ca == NULL || run.connections < 1 || run.connections > MAX_CONNECTIONS)
        usage();
    run.samples = calloc(MAX_SAMPLES, sizeof(*run.samples));
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (run.samples == NULL || run.epoll < 0)
        fail("start");
    make_tls(&run, ca);
    make_request(&run, headers);
    for (int i = 0; i < run.connections; i++)
        conn_open(&run, &conns[i]);
    measure(&run);
    return 0;
}
