/* The local server answers "404 page not found" to what we believe it serves: it has come back serving less. */
#include "net/loop.h"
#include "unit/proxy/world.h"

#define NOT_FOUND                                                                                                      \
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n404 page not "     \
    "found\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* A request that the local server has just denied, and that waits for a look at its discovery. */
static struct side *denied(struct world *w, const char *request)
{
    struct side *c;

    world_init(w, 1);
    w->local_has_jobs = true;
    world_start(w);
    c = client(w);
    say(c, request);
    ok(has(conn(&w->local, 0), JOBS), "believed to be served here");
    say(conn(&w->local, 0), NOT_FOUND);
    return c;
}

static void sent_to_a_peer(void)
{
    struct world w;
    struct side *c = denied(&w, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");

    ok(until(&w, world_waiting(&w)), "denied: looks again");
    w.local_has_jobs = false;
    world_know(&w);
    world_refreshed(&w);
    ok(has(conn(&w.peers[0], 0), "GET " JOBS), "and goes to the peer");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok") && !got(c, "404"), "the client sees no 404");
    world_close(&w);
}

static void really_denied(void)
{
    struct world w;
    struct side *c = denied(&w, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");

    ok(until(&w, world_waiting(&w)), "denied: looks again");
    world_refreshed(&w);
    ok(until(&w, w.local.n_conns > 1), "still served here: asked once more");
    ok(has(conn(&w.local, 1), JOBS), "the same again");
    say(conn(&w.local, 1), NOT_FOUND);
    ok(has(c, "404 page not found"), "its second answer is final");
    world_close(&w);
}

static void with_a_body_under_way(void)
{
    struct world w;
    struct side *c;

    world_init(&w, 1);
    w.local_has_jobs = true;
    world_start(&w);
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 6\r\n\r\nabc");
    ok(has(conn(&w.local, 0), "abc"), "part of the body is with the server");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "cannot be sent elsewhere: 503, not 404");
    is_u64(w.peers[0].n_conns, 0, "and is not");
    world_close(&w);
}

static void ordinary_not_found(void)
{
    struct world w;
    struct side *c;

    world_init(&w, 1);
    w.local_has_jobs = true;
    world_start(&w);
    c = client(&w);
    say(c, "GET " JOBS "/gone HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), JOBS), "a missing object");
    say(conn(&w.local, 0), "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    ok(has(c, "HTTP/1.1 404 "), "is a 404 at once");
    world_close(&w);
}

int main(void)
{
    sent_to_a_peer();
    really_denied();
    with_a_body_under_way();
    ordinary_not_found();
    return tap_end();
}
