/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/hostport.h"

#include "lib/tap.h"

int main(void)
{
    static const struct {
        const char *text, *host;
        unsigned port;
        bool ip;
    } good[] = {
        {"10.0.0.2:6443", "10.0.0.2", 6443, true},
        {"[fd00::2]:6443", "fd00::2", 6443, true},
        {"[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1, true},
        {"cp-a.example.org:65535", "cp-a.example.org", 65535, false},
        {"localhost:443", "localhost", 443, false},
        {"1a:1", "1a", 1, false},
    };
    static const char *const bad[] = {
        "",
        ":",
        ":6443",
        "10.0.0.2",
        "10.0.0.2:",
        "10.0.0.2:0",
        "10.0.0.2:65536",
        "10.0.0.2:066666",
        "10.0.0.2:-1",
        "10.0.0.2:6443 ",
        " 10.0.0.2:6443",
        "10.0.0.2:+1",
        "fd00::2:6443",
        "[fd00::2]",
        "[fd00::2]6443",
        "[]:1",
        "[10.0.0.2]:1",
        "[fe80::1%eth0]:1",
        "[fd00::2:1",
        "fd00::2]:1",
        "300.0.0.1:1",
        "10.0.0:1",
        "a..b:1",
        "-a:1",
        "a-:1",
        "a_b:1",
        "a/b:1",
        "user@h:1",
        "http://h:1",
        "h:1:2",
        "h.:1",
        "1.2.3.4.5:1",
    };
    static const struct {
        const char *host, *text;
        uint16_t port;
    } prints[] = {{"10.0.0.2", "10.0.0.2:6443", 6443}, {"fd00::2", "[fd00::2]:1", 1}, {"h", "h:65535", 65535}};
    struct hostport h;
    struct buf out;

    for (size_t i = 0; i < ROWS(good); i++) {
        ok(hostport_parse(slice_str(good[i].text), &h), "%s parses", good[i].text);
        is_slice(h.host, good[i].host, "%s: host", good[i].text);
        is_u64(h.port, good[i].port, "%s: port", good[i].text);
        ok(h.ip == good[i].ip, "%s: kind", good[i].text);
    }
    for (size_t i = 0; i < ROWS(bad); i++)
        ok(!hostport_parse(slice_str(bad[i]), &h), "refused: '%s'", bad[i]);
    ok(!hostport_parse(slice_of("10.0.0.2\0:1", 11), &h), "refused: NUL");
    buf_init(&out, 64);
    for (size_t i = 0; i < ROWS(prints); i++) {
        buf_reset(&out);
        ok(hostport_print(slice_str(prints[i].host), prints[i].port, &out), "prints");
        is_slice(buf_slice(&out), prints[i].text, "as %s", prints[i].text);
    }
    buf_free(&out);
    return tap_end();
}
