/* Where peers may be dialled by default. */
#include "cluster/peer_rule.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "lib/tap.h"

static bool asks(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(6443)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(6443)};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return peer_rule_default((struct sockaddr *)&v4, NULL);
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1)
        tap_bail("%s is no address", text);
    return peer_rule_default((struct sockaddr *)&v6, NULL);
}

int main(void)
{
    static const struct {
        const char *address;
        bool allowed;
    } rows[] = {
        {"10.0.0.2", true},
        {"192.168.1.1", true},
        {"172.16.0.1", true},
        {"8.8.8.8", true},
        {"100.64.0.1", true},
        {"126.255.255.255", true},
        {"127.0.0.1", false},
        {"127.255.255.254", false},
        {"128.0.0.1", true},
        {"0.0.0.0", false},
        {"0.1.2.3", false},
        {"169.254.0.1", false},
        {"169.254.169.254", false},
        {"169.253.1.1", true},
        {"169.255.1.1", true},
        {"224.0.0.1", false},
        {"255.255.255.255", false},
        {"223.255.255.1", true},
        {"fd00::1", true},
        {"2001:db8::1", true},
        {"::1", false},
        {"::", false},
        {"fe80::1", false},
        {"febf::1", false},
        {"fec0::1", true},
        {"ff02::1", false},
        {"::ffff:10.0.0.1", true},
        {"::ffff:127.0.0.1", false},
        {"::ffff:169.254.1.1", false},
    };
    struct sockaddr unix_socket = {.sa_family = AF_UNIX};

    for (size_t i = 0; i < ROWS(rows); i++)
        is_int(asks(rows[i].address), rows[i].allowed, "%s", rows[i].address);
    ok(!peer_rule_default(&unix_socket, NULL), "nothing but IP");
    return tap_end();
}
