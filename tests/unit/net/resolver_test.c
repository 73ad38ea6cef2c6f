/* SPDX-License-Identifier: Apache-2.0 */
/* The files that say who is asked for addresses may change, and may come after us. */
#include "net/resolver.h"

#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/tap.h"
#include "unit/net/fixture.h"

struct answer {
    unsigned calls;
    char address[64]; /* the first; "": a failure */
};

static void on_answer(int result, struct evutil_addrinfo *found, void *arg)
{
    struct answer *a = arg;

    a->calls++;
    a->address[0] = '\0';
    if (result == 0 && found->ai_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr, a->address,
                  sizeof(a->address));
    if (found != NULL)
        evutil_freeaddrinfo(found);
}

/* NULL: answered from the hosts file, within the call. */
static struct evdns_getaddrinfo_request *ask(struct resolver *r, const char *name, struct answer *a)
{
    struct evutil_addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};

    *a = (struct answer){.calls = 0};
    return evdns_getaddrinfo(resolver_ask(r), name, "443", &hints, on_answer, a);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("%s", path);
}

/* A name server that only listens. */
static int listen_udp(unsigned *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&in, len) != 0 || getsockname(fd, (struct sockaddr *)&in, &len) != 0)
        tap_bail("no port for a name server");
    *port = ntohs(in.sin_port);
    return fd;
}

/* Whether a question for the name has come: its first label, as it stands in the packet. */
static bool look(int fd, const char *label)
{
    char packet[1024];
    ssize_t n;

    while ((n = recv(fd, packet, sizeof(packet), 0)) > 0)
        if (n > 13 && packet[12] == (char)strlen(label) && (size_t)n > 13 + strlen(label) &&
            strncasecmp(packet + 13, label, strlen(label)) == 0) /* case is random, against forgery */
            return true;
    return false;
}

static bool was_asked(struct loop *l, int fd, const char *label)
{
    bool asked = false;

    return run_until(l, (asked = asked || look(fd, label)));
}

static void test_hosts(struct loop *l, const char *conf, const char *hosts)
{
    struct resolver *r;
    struct answer a;

    put(hosts, "127.0.0.7 server.example\n");
    r = resolver_new(loop_base(l), conf, hosts);
    is_null(ask(r, "server.example", &a), "a name of the hosts file");
    is_str(a.address, "127.0.0.7", "has the address that stands there");
    put(hosts, "127.0.0.18 server.example\n"); /* of another length, too */
    is_null(ask(r, "server.example", &a), "the file changes");
    is_str(a.address, "127.0.0.18", "and so does the address");
    resolver_free(r);
    settle(l);
}

static void test_servers(struct loop *l, const char *conf, const char *hosts)
{
    unsigned first_port, second_port;
    int first = listen_udp(&first_port), second = listen_udp(&second_port);
    struct resolver *r;
    struct answer early, a;
    char text[64];

    unlink(conf);
    r = resolver_new(loop_base(l), conf, hosts);
    (void)snprintf(text, sizeof(text), "nameserver 127.0.0.1:%u\n", first_port);
    put(conf, text);
    ok(ask(r, "early.example", &early) != NULL, "a name for which somebody has to be asked");
    ok(was_asked(l, first, "early"), "whose name was not written down at first");
    (void)snprintf(text, sizeof(text), "# another\nnameserver 127.0.0.1:%u\n", second_port);
    put(conf, text);
    ok(ask(r, "late.example", &a) != NULL, "another is written down");
    ok(was_asked(l, second, "late"), "and is asked");
    resolver_free(r);
    ok(run_until(l, a.calls == 1 && early.calls == 1), "questions end with the resolver");
    close(first);
    close(second);
}

/* What was asked of a server that went away is asked of the new one. */
static void test_under_way(struct loop *l, const char *conf, const char *hosts)
{
    unsigned first_port, second_port;
    int first = listen_udp(&first_port), second = listen_udp(&second_port);
    struct resolver *r;
    struct answer early, a;
    char text[64];

    (void)snprintf(text, sizeof(text), "nameserver 127.0.0.1:%u\n", first_port);
    put(conf, text);
    r = resolver_new(loop_base(l), conf, hosts);
    ok(ask(r, "waits.example", &early) != NULL && was_asked(l, first, "waits"), "a question is under way");
    (void)snprintf(text, sizeof(text), "# another\nnameserver 127.0.0.1:%u\n", second_port);
    put(conf, text);
    (void)ask(r, "a.example", &a);
    ok(was_asked(l, second, "waits"), "when its server goes, the next one is asked");
    is_int(early.calls, 0, "and nothing has failed");
    resolver_free(r);
    ok(run_until(l, a.calls == 1 && early.calls == 1), "questions end with the resolver");
    close(first);
    close(second);
}

int main(void)
{
    struct loop *l = loop_new(NULL);
    char conf[640], hosts[640];

    (void)snprintf(conf, sizeof(conf), "%s", scratch_file("resolver-test.conf", "", 0));
    (void)snprintf(hosts, sizeof(hosts), "%s", scratch_file("resolver-test.hosts", "", 0));
    test_hosts(l, conf, hosts);
    test_servers(l, conf, hosts);
    test_under_way(l, conf, hosts);
    loop_free(l);
    unlink(conf);
    unlink(hosts);
    return tap_end();
}
