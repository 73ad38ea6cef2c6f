/* SPDX-License-Identifier: Apache-2.0 */
/* What the sections share: made and let go whatever is there, and questions to a server that is played here. */
#include "check/scene.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "cluster/api.h"
#include "daemon/config_load.h"
#include "lib/tap.h"
#include "net/loop.h"

enum { ROOM = 1 << 16 };

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
#define THEN_S 784111777LL

static struct config *configured(const char *more)
{
    char path[] = "/tmp/scene_test.XXXXXX";
    int fd = mkstemp(path);
    struct buf errors;
    struct config *c;

    if (fd < 0 || dprintf(fd,
                          "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.9\n"
                          "apiserver-user: me\n%s",
                          more) < 0)
        tap_bail("cannot write");
    (void)close(fd);
    buf_init(&errors, ROOM);
    c = config_load(path, NULL, 0, &errors);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    (void)unlink(path);
    buf_free(&errors);
    return c;
}

/* Whatever has been made is let go; a sanitizer says what is not. */
static void made(void)
{
    static char ca[] = "";
    struct scene none = {.f = NULL}, half = {.config = configured("")},
                 whole = {.config = configured("etcd-servers: http://10.0.0.3:1\n"), .hostname = "cp-a"},
                 without = {.config = configured("apiserver: https://10.0.0.1\n")};

    scene_free(&none);
    scene_free(&half);
    whole.trust.requestheader_ca = ca;
    ok(scene_connect(&whole) && whole.connected, "connected");
    ok(whole.api != NULL && whole.loop != NULL && whole.back != NULL && whole.around.local != NULL &&
           whole.around.n_etcd == 1,
       "all is there");
    scene_free(&whole);
    without.trust.requestheader_ca = ca;
    mem_fail_nth(40);
    without.connected = scene_connect(&without);
    mem_fail_nth(0);
    scene_free(&without);
    ok(true, "out of memory or not: let go");
}

/* ---- a server ---- */

static int listening(unsigned *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&addr, n) != 0 || listen(fd, 4) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &n) != 0)
        tap_bail("cannot listen");
    *port = ntohs(addr.sin_port);
    return fd;
}

/* Takes one request, which it writes into `asked`, and answers it. */
static pid_t serve(int fd, const char *answer, FILE *asked)
{
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        char text[4096];
        size_t n = 0;
        ssize_t got;
        int c = accept(fd, NULL, NULL);

        while (n + 1 < sizeof(text) && (got = read(c, text + n, sizeof(text) - 1 - n)) > 0) {
            n += (size_t)got;
            text[n] = '\0';
            if (strstr(text, "\r\n\r\n") != NULL && (strncmp(text, "POST", 4) != 0 || text[n - 1] == '}'))
                break;
        }
        (void)!write(c, answer, strlen(answer));
        (void)fwrite(text, 1, n, asked);
        (void)fflush(asked);
        _exit(0);
    }
    return child;
}

static struct scene scene;
static struct buf body;
static char asked[4096];

/* Asks a server that answers so; `post`: that. */
static void ask(const char *answer, const char *post, struct answer *out)
{
    FILE *f = tmpfile();
    struct origin_opts o = {.name = "local", .host = "127.0.0.1"};
    int fd = listening(&o.port);
    pid_t child = answer == NULL ? 0 : serve(fd, answer, f);
    size_t n;

    if (answer == NULL)
        (void)close(fd);
    scene.around.local = origin_new(scene.back, &o);
    if (post == NULL)
        scene_get(&scene, "/path", &body, out);
    else
        scene_post(&scene, "/path", post, &body, out);
    origin_unref(scene.around.local);
    if (child > 0)
        (void)waitpid(child, NULL, 0);
    if (answer != NULL)
        (void)close(fd);
    rewind(f);
    n = fread(asked, 1, sizeof(asked) - 1, f);
    asked[n] = '\0';
    (void)fclose(f);
}

#define ANSWER(date)                                                                                                   \
    "HTTP/1.1 201 Made\r\nDate: " date "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\nok"

static void asks(void)
{
    static const struct {
        const char *answer;
        int64_t late_ms;
    } rows[] = {
        {ANSWER("Sun, 06 Nov 1994 08:49:37 GMT"), 0},
        {ANSWER("Sun, 06 Nov 1994 08:49:36 GMT"), 1000},
        {ANSWER("Sun, 06 Nov 1994 08:50:37 GMT"), -60000},
        {ANSWER("Sunday, 06-Nov-94 08:49:36 GMT"), 0},
        {ANSWER("yesterday"), 0},
        {"HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok", 0},
    };
    struct answer a;

    for (size_t i = 0; i < ROWS(rows); i++) {
        ask(rows[i].answer, NULL, &a);
        ok(a.ok && a.status == 201, "row %zu: answered", i);
        is_slice(a.body, "ok", "row %zu: its body", i);
        is_int(a.late_ms, rows[i].late_ms, "row %zu: its clock", i);
    }
    ok(strncmp(asked, "GET /path HTTP/1.1\r\n", 20) == 0 && strstr(asked, "\r\nAccept: application/json\r\n") != NULL,
       "a GET for JSON: %s", asked);
    ask(ANSWER("x"), "{\"a\":1}", &a);
    ok(a.ok && strncmp(asked, "POST /path HTTP/1.1\r\n", 21) == 0 &&
           strstr(asked, "\r\nContent-Type: application/json\r\n") != NULL &&
           strstr(asked, "\r\n\r\n{\"a\":1}") != NULL,
       "a POST of JSON: %s", asked);
    ask(NULL, NULL, &a);
    ok(!a.ok && strstr(a.failure, "Connection refused") != NULL && a.body.n == 0, "nobody there: %s", a.failure);
    mem_fail_nth(1);
    scene_get(&scene, "/path", &body, &a);
    mem_fail_nth(0);
    ok(!a.ok && strcmp(a.failure, "out of memory") == 0, "out of memory: %s", a.failure);
}

/* What hangs with its etcd is waited for once: shorter if the server says that it does. */
static void stored(void)
{
    struct origin_opts o = {.name = "local", .host = "127.0.0.1"};
    int fd = listening(&o.port); /* and nobody accepts */
    uint64_t begin_ms;
    struct answer a;

    clock_real();
    scene.around.local = origin_new(scene.back, &o);
    scene.etcd_fails = true;
    begin_ms = clock_ms();
    scene_get_stored(&scene, "/stored", &body, &a);
    ok(!a.ok && clock_ms() - begin_ms >= 4900 && clock_ms() - begin_ms < 9000, "once: %s", a.failure);
    ok(scene.stored_silent, "noted");
    begin_ms = clock_ms();
    scene_get_stored(&scene, "/stored", &body, &a);
    ok(!a.ok && clock_ms() - begin_ms < 100 && strstr(a.failure, "not asked again") != NULL, "and no more: %s",
       a.failure);
    scene.etcd_fails = scene.stored_silent = false;
    (void)close(fd);
    scene_get_stored(&scene, "/stored", &body, &a);
    ok(!a.ok && !scene.stored_silent, "a failure at once is none of waiting: %s", a.failure);
    origin_unref(scene.around.local);
}

static void clocks(void)
{
    static const struct {
        int64_t late_ms;
        const char *want;
    } rows[] = {
        {5000, NULL},
        {5001, "the clock of cp-b is 5 seconds behind this machine's"},
        {-5000, NULL},
        {-61000, "the clock of cp-b is 61 seconds ahead of this machine's"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct answer a = {.late_ms = rows[i].late_ms};
        struct buf out;

        scene.f = findings_new();
        buf_init(&out, ROOM);
        scene_judge_clock(&scene, "clock", "cp-b", &a);
        findings_print_text(scene.f, false, &out);
        buf_append_char(&out, '\0');
        ok(rows[i].want == NULL ? strstr(out.p, "clock of") == NULL : strstr(out.p, rows[i].want) != NULL,
           "row %zu: %s", i, out.p);
        buf_free(&out);
        findings_free(scene.f);
    }
}

int main(void)
{
    const struct api_identity who = {.user = "me"};
    struct origin *nowhere;

    made();
    clock_fake(1000000, THEN_S * 1000000);
    buf_init(&body, ROOM);
    scene.metrics = metrics_new();
    scene.loop = loop_new(scene.metrics);
    scene.back = back_new(scene.loop, scene.metrics);
    nowhere = origin_new(scene.back, &(struct origin_opts){.name = "local", .host = "127.0.0.1", .port = 1});
    scene.api = api_new(scene.loop, scene.back, nowhere, &who);
    origin_unref(nowhere);
    asks();
    clocks();
    stored();
    scene.around.local = NULL;
    scene_free(&scene);
    buf_free(&body);
    return tap_end();
}
