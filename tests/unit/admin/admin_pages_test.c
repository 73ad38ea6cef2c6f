/* SPDX-License-Identifier: Apache-2.0 */
/* What the admin listener answers: each page, in the form that is asked for, whole or in pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/tap.h"
#include "lib/unzip.h"
#include "net/loop_internal.h"
#include "net/stream_internal.h"
#include "unit/admin/kit.h"

static void test_pages(void)
{
    struct admin_kit k;
    const char *a;

    admin_kit_init(&k, "127.0.0.1", NULL);
    a = get(&k, NULL, "/metrics");
    ok(has(a, "HTTP/1.1 200 OK\r\n") && has(a, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
       "/metrics");
    ok(has(a, "\nprocess_open_fds ") && has(a, "\nmvproxy_build_info{version=\"0.0\""), "has metrics");
    a = ask(&k, NULL,
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nConnection: "
            "close\r\n\r\n");
    ok(has(a, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n") && has(a, "\n# EOF\n"),
       "OpenMetrics on demand");
    a = get(&k, NULL, "/readyz");
    ok(has(a, "HTTP/1.1 200 OK\r\n") && has(a, "Content-Type: text/plain; charset=utf-8\r\n") &&
           has(a, "X-Content-Type-Options: nosniff\r\n"),
       "/readyz");
    is_str(body_of(a), "ok", "is ok");
    k.not_ready = "leases not listed";
    a = get(&k, NULL, "/readyz?exclude=nothing");
    ok(has(a, "HTTP/1.1 500 "), "not ready");
    is_str(body_of(a),
           "[+]ping ok\n[-]ready failed: reason withheld, see mvproxyctl status or /readyz/ready\nwarn: some health "
           "checks cannot be excluded: no matches for "
           "\"nothing\"\nreadyz check failed\n",
           "says what, not why");
    ok(has(get(&k, NULL, "/livez"), "HTTP/1.1 200 OK\r\n"), "/livez does not care");
    ok(has(get(&k, NULL, "/readyz/ready"), "internal server error: leases not listed"), "one check says why");
    ok(has(get(&k, NULL, "/metrics/slis"), "kubernetes_healthcheck{name=\"ready\",type=\"readyz\"} 0\n"),
       "/metrics/slis");
    ok(has(get(&k, NULL, "/flagz"), "\nsecure-port=6443\n"), "/flagz");
    a = get(&k, NULL, "/statusz");
    ok(has(a, "\nBinary version: 0.0\n") && has(a, "\nEndpoint records: "), "/statusz, with the facts");
    a = ask(&k, NULL,
            "GET /statusz HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    ok(has(a, "HTTP/1.1 406 "), "plain JSON is not acceptable");
    a = ask(
        &k, NULL,
        "GET /statusz HTTP/1.1\r\nHost: localhost\r\nAccept: application/json;v=v1alpha1;g=config.k8s.io;as=Statusz\r\n"
        "Connection: close\r\n\r\n");
    ok(has(a, ";v=v1alpha1;g=config.k8s.io;as=Statusz\r\n") && has(a, "\"status\":{\"ready\":false,"),
       "JSON by its type");
    a = ask(&k, NULL,
            "GET /flagz HTTP/1.1\r\nHost: localhost\r\nAccept: application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz\r\n"
            "Connection: close\r\n\r\n");
    ok(has(a, "\r\nContent-Type: application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz\r\n") &&
           has(a, "\nflags:\n  secure-port: \"6443\"\n"),
       "YAML by its type");
    a = ask(&k, NULL,
            "GET /flagz HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.0\r\nAccept: "
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz\r\nConnection: close\r\n\r\n");
    ok(has(a, "\n    \"secure-port\": \"6443\""), "JSON laid out for curl");
    a = ask(&k, NULL,
            "GET /flagz?pretty=0 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.0\r\nAccept: "
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz\r\nConnection: close\r\n\r\n");
    ok(has(a, "\"secure-port\":\"6443\""), "but not if it says so");
    a = ask(&k, NULL,
            "GET /flagz HTTP/1.1\r\nHost: localhost\r\nAccept: application/yaml\r\nConnection: close\r\n\r\n");
    ok(has(a, "HTTP/1.1 406 ") && has(a, "\r\nContent-Type: application/yaml\r\n") && has(a, "\ncode: 406\n"),
       "plain YAML is not acceptable, either");
    admin_kit_end(&k);
}

static void test_page(void)
{
    struct admin_kit k;
    const char *a;

    admin_kit_init(&k, "127.0.0.1", NULL);
    a = get(&k, NULL, "/");
    ok(has(a, "Content-Type: text/html; charset=utf-8\r\n") && has(a, "Transfer-Encoding: chunked\r\n"),
       "the status page, in pieces");
    ok(has(a, "<h1 class=\"good\">Ready</h1>") && has(a, "</footer>\n</body>\n</html>\n"),
       "from its first line to its last");
    ok(has(a, "Content-Security-Policy: default-src 'none'; ") && has(a, "; style-src 'sha256-"), "may load nothing");
    ok(has(a, "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>") && has(a, "&lt;img src=x onerror=alert(2)&gt;"),
       "what others say is text");
    ok(strstr(a, "<script") == NULL && strstr(a, "<img") == NULL && strstr(a, "http-equiv") == NULL, "and no markup");
    ok(has(get(&k, NULL, "/?refresh=5"), "<meta http-equiv=\"refresh\" content=\"5\">"), "loaded anew if asked for");
    ok(strstr(get(&k, NULL, "/?refresh=1"), "http-equiv") == NULL, "not all the time");
    ok(strstr(get(&k, NULL, "/?refresh=99999999999"), "http-equiv") == NULL, "nor once in a life");
    a = ask(&k, NULL, "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ok(has(a, "HTTP/1.1 200 ") && body_of(a)[0] == '\0', "HEAD has no body");
    admin_kit_end(&k);
}

/* Who begins to read a page and goes, or is there when all ends. */
static void test_page_given_up(void)
{
    struct admin_kit k;
    int fd[4];

    admin_kit_init(&k, "127.0.0.1", NULL);
    for (size_t i = 0; i < ROWS(fd); i++) {
        static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

        fd[i] = dial_admin(&k);
        if (write(fd[i], request, sizeof(request) - 1) != (ssize_t)sizeof(request) - 1)
            tap_bail("write");
        for (size_t turn = 0; turn < i; turn++)
            loop_run_once(k.loop, 0);
        if (i < 2)
            close(fd[i]);
    }
    for (size_t turn = 0; turn < 20; turn++)
        loop_run_once(k.loop, 1);
    ok(has(get(&k, NULL, "/"), "</html>\n"), "others have it all the same");
    admin_kit_end(&k);
    close(fd[2]);
    close(fd[3]);
}

/* ---- compressed ---- */

/* Of a whole answer in chunks. */
static void unchunk(struct slice text, struct buf *out)
{
    size_t head = (size_t)(body_of(text.p) - text.p);

    text = slice_from(text, head);
    while (text.n > 0) {
        char *end;
        size_t n = strtoul(text.p, &end, 16), begin = (size_t)(end - text.p) + 2;

        if (n == 0 || begin + n + 2 > text.n)
            break;
        buf_append(out, slice_of(text.p + begin, n));
        text = slice_from(text, begin + n + 2);
    }
}

static void test_page_compressed(void)
{
    static const char asks[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: %s\r\nConnection: close\r\n\r\n";
    struct buf plain, packed, text;
    char request[256];
    struct admin_kit k;

    buf_init(&plain, ANSWER_BYTES);
    buf_init(&packed, ANSWER_BYTES);
    buf_init(&text, ANSWER_BYTES);
    admin_kit_init(&k, "127.0.0.1", NULL);
    (void)snprintf(request, sizeof(request), asks, "gzip;q=0");
    ok(strstr(ask(&k, NULL, request), "Content-Encoding") == NULL, "not for who does not take gzip");
    unchunk(answer_bytes(), &plain);
    (void)snprintf(request, sizeof(request), asks, "gzip, deflate, br, zstd");
    ok(has(ask(&k, NULL, request), "\r\nContent-Encoding: gzip\r\n"), "a browser gets it compressed");
    unchunk(answer_bytes(), &packed);
    ok(unzip(buf_slice(&packed), &text), "%zu bytes of gzip to its end", buf_len(&packed));
    ok(buf_len(&plain) > 5000 && slice_eq(buf_slice(&text), buf_slice(&plain)), "the same page, of %zu bytes",
       buf_len(&plain));
    ok(buf_len(&packed) < buf_len(&plain) / 2, "in %zu", buf_len(&packed));
    ok(has(ask(&k, NULL, "HEAD / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"),
           "\r\nContent-Encoding: gzip\r\n"),
       "HEAD says so");
    admin_kit_end(&k);
    buf_free(&plain);
    buf_free(&packed);
    buf_free(&text);
}

/* Without memory it is whole, or an error, or cut off, but never something else. */
static void test_page_without_memory(void)
{
    static const char request[] =
        "GET / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    unsigned whole = 0, refused = 0, cut = 0, wrong = 0;
    struct buf packed, text;
    struct admin_kit k;
    uint64_t all;

    admin_kit_init(&k, "127.0.0.1", NULL);
    all = mem_calls();
    (void)ask(&k, NULL, request);
    all = mem_calls() - all;
    for (uint64_t n = 8; n <= all; n++) {
        const char *a;
        bool gzip;

        mem_fail_nth(n);
        a = ask(&k, NULL, request);
        mem_fail_nth(0);
        gzip = strstr(a, "Content-Encoding: gzip") != NULL;
        if (strstr(a, "HTTP/1.1 200 ") == NULL) {
            refused++;
            wrong += gzip;
            continue;
        }
        buf_init(&packed, ANSWER_BYTES);
        buf_init(&text, ANSWER_BYTES);
        unchunk(answer_bytes(), &packed);
        if (gzip && !unzip(buf_slice(&packed), &text))
            cut++;
        else if (slice_has_suffix(buf_slice(gzip ? &text : &packed), SLICE_LIT("</html>\n")))
            whole++;
        else
            cut++;
        buf_free(&packed);
        buf_free(&text);
    }
    ok(whole > 0 && refused > 0 && wrong == 0, "%u whole, %u refused, %u cut off", whole, refused, cut);
    admin_kit_end(&k);
}

/* Whatever was begun, what comes then is text. */
static void test_without_memory(void)
{
    enum { OF_CLIENT = 7 };
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n"
                                  "Accept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    unsigned refused = 0, plain = 0;
    struct admin_kit k;
    uint64_t all;

    admin_kit_init(&k, "127.0.0.1", NULL);
    all = mem_calls();
    ok(has(ask(&k, NULL, request), "Content-Encoding: gzip\r\n"), "with memory: compressed");
    all = mem_calls() - all;
    for (uint64_t n = OF_CLIENT + 1; n <= all; n++) {
        const char *a;

        mem_fail_nth(n);
        a = ask(&k, NULL, request);
        mem_fail_nth(0);
        if (strstr(a, "HTTP/1.1 500 ") == NULL || body_of(a)[0] == '\0')
            continue;
        refused++;
        plain += has(a, "Content-Type: text/plain; charset=utf-8\r\n") && strstr(a, "Content-Encoding") == NULL &&
                 strcmp(body_of(a), "out of memory\n") == 0;
    }
    ok(refused > 0, "without memory: refused");
    is_int((int)plain, (int)refused, "in plain text");
    admin_kit_end(&k);
}

int main(void)
{
    test_pages();
    test_without_memory();
    test_page();
    test_page_compressed();
    test_page_without_memory();
    test_page_given_up();
    return tap_end();
}
