/* What a stream promises, plain and with TLS, over real sockets. */
#include <stdlib.h>

#include "lib/tap.h"
#include "unit/net/fixture.h"

struct flavour {
    const char *name;
    bool tls;
};

static struct tls_ctx *sctx, *cctx;

static void open_pair(struct loop *l, const struct flavour *f, struct end *client, struct end *server)
{
    pair_open(l, client, server, f->tls ? cctx : NULL, f->tls ? sctx : NULL);
}

static void test_bulk(struct loop *l, const struct flavour *f)
{
    enum { TOTAL = 10 << 20 };
    struct end client = {.send_left = TOTAL, .check = true, .discard = true};
    struct end server = {.send_left = TOTAL, .check = true, .discard = true};

    open_pair(l, f, &client, &server);
    ok(run_until(l, client.got_bytes == TOTAL && server.got_bytes == TOTAL), "%s: 10 MB arrive both ways", f->name);
    ok(!client.mismatch && !server.mismatch, "%s: and are what was sent", f->name);
    is_u64(stream_bytes_in(client.s), TOTAL, "%s: bytes in", f->name);
    is_u64(stream_bytes_out(client.s), TOTAL, "%s: bytes out", f->name);
    is_int(client.seen[STREAM_OPENED], 1, "%s: opened once", f->name);
    is_int(client.order[0], STREAM_OPENED, "%s: opened first", f->name);
    end_release(&client);
    end_release(&server);
}

int main(void)
{
    static const struct flavour flavours[] = {{"plain", false}, {"tls", true}};
    struct loop *l = loop_new(NULL);

    sctx = server_ctx(false);
    cctx = client_ctx("alice", false);
    for (size_t i = 0; i < ROWS(flavours); i++) {
        test_bulk(l, &flavours[i]);
    }
    loop_free(l);
    tls_ctx_unref(sctx);
    tls_ctx_unref(cctx);
    return tap_end();
}
