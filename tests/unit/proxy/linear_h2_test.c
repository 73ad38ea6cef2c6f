/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a head over HTTP/2 costs on its way through front and proxy, counted and not timed (steps.h): whatever it
 * consists of, four times the bytes are four times the steps. The bytes are those after decompression: the client is a
 * sim/plane.h one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/tap.h"
#include "sim/plane.h"
#include "unit/proxy/steps.h"

/*
 * The dearest family takes two thirds of the steps that are allowed: 33 for each byte, and 52 in a build that is not
 * optimized (docs/coverage.md), in which what is small and static is a function with blocks of its own.
 */
#ifdef __OPTIMIZE__
enum { STEPS_PER_BYTE = 50 };
#else
enum { STEPS_PER_BYTE = 80 };
#endif
/* All of a head goes into one frame of 16 KB. */
enum { FEW = 3400, ALL = 4 * FEW, ROOM = 1 << 20, STEPS_ONCE = 20000 };

/* A head is a field with a long value, or many fields, or both. */
static const struct family {
    const char *name;
    const char *long_name; /* of the field with the long value; NULL: there is none. ":path": it goes on the target */
    const char *unit;      /* of the long value */
    const char *field;     /* repeated, each with the value */
    const char *value;
} families[] = {
    {"cookie crumbs", NULL, NULL, "cookie", "a=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},
    {"one long crumb and many", "cookie", "x", "cookie", ""},
    {"one long value", "x-a", "x", NULL, NULL},
    {"many fields", NULL, NULL, "x-remote-extra-aa%20", "bbbbbbbbbbbbbbbbbbbbbbbbbbbb"},
    {"a long path", ":path", "/a", NULL, NULL},
    {"parameters", ":path", "&watch=0", NULL, NULL},
    {"forwarded for", "x-forwarded-for", "1.1.1.1,", "x-forwarded-for", "1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4, 5.5.5.5"},
    {"accept", "accept", "application/json;g=apidiscovery.k8s.io;v=v3,", "accept", "a, b, c, d, e, f, g, h, i, j, k"},
    {"user names", NULL, NULL, "x-remote-user", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
    {"groups", NULL, NULL, "x-remote-group", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
    {"loop marks", NULL, NULL, "x-kubernetes-peer-proxied", "truetruetruetruetruetruetruetruetruetruetrue"},
    {"content lengths", NULL, NULL, "content-length", "00000000000000000000000000000000000000000000000000"},
};

static void head_of(const struct family *f, size_t n, struct bytes *block)
{
    struct bytes text = {0};
    size_t half = f->field != NULL && f->long_name != NULL ? n / 2 : n;
    size_t lines = f->field == NULL ? 0 : half / (strlen(f->field) + strlen(f->value) + 3);
    bool on_path = f->long_name != NULL && f->long_name[0] == ':';

    if (on_path)
        bytes_say(&text, "/api/v1/namespaces/d/pods?k=0");
    for (size_t i = 0; f->long_name != NULL && i < half / strlen(f->unit); i++)
        bytes_add(&text, slice_str(f->unit));
    block_field(block, ":method", SLICE_LIT("GET"));
    block_field(block, ":scheme", SLICE_LIT("https"));
    block_field(block, ":authority", SLICE_LIT("api"));
    block_field(block, ":path", on_path ? slice_of(text.p, text.n) : SLICE_LIT("/api/v1/namespaces/d/pods?k=0"));
    for (size_t i = 0; i < lines && i < 240; i++)
        block_field(block, f->field, slice_str(f->value));
    if (f->long_name != NULL && !on_path)
        block_field(block, f->long_name, slice_of(text.p, text.n));
    bytes_free(&text);
}

/* Nobody answers it, and it is not looked at when it comes out: that is for others. */
static uint64_t cost_of(struct plane *p, const struct family *f, enum plane_cert cert, size_t n)
{
    struct plane_opts o = {.room = ROOM};
    struct bytes block = {0};
    struct client *c;
    uint64_t before;

    plane_open(p, &o);
    c = client_new(p, cert, true, UINT32_MAX);
    while (plane_round(p)) {
    }
    head_of(f, n, &block);
    frame_add(&c->out, 1, 4 | 1, 1, slice_of(block.p, block.n));
    bytes_free(&block);
    c->spoiled = true;
    client_send(c, SIZE_MAX);
    before = steps_taken();
    (void)sim_settle(p->loop, 100);
    before = steps_taken() - before;
    client_hang_up(c, true);
    plane_close(p);
    return before;
}

int main(void)
{
    static const enum plane_cert certs[] = {CERT_NONE, CERT_ALICE, CERT_FRONT_PROXY};
    struct plane *p = calloc(1, sizeof(*p));

    if (p == NULL)
        tap_bail("no memory");
    plane_prepare();
    for (size_t i = 0; i < ROWS(families); i++) {
        for (size_t k = 0; k < ROWS(certs); k++) {
            uint64_t few = cost_of(p, &families[i], certs[k], FEW), all = cost_of(p, &families[i], certs[k], ALL);
            /* A list of addresses that is too long is left out, which costs a little less. */
            bool fine =
                all <= STEPS_PER_BYTE * ALL + STEPS_ONCE && few > FEW / 10 && all > few - few / 10 && all <= 5 * few;

            if (!fine)
                diag("%ju steps for %d bytes, %ju for %d", (uintmax_t)few, FEW, (uintmax_t)all, ALL);
            ok(fine, "%s, certificate %d", families[i].name, (int)certs[k]);
        }
    }
    plane_unprepare();
    free(p);
    return tap_end();
}
