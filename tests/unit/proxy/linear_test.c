/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reading, judging and forwarding a head costs, counted and not timed: the sources of this way are compiled once
 * more for libsteps.a, where the compiler calls us in every basic block and the linker at every function that walks
 * over memory. Whatever the bytes are, there is a ceiling of steps per byte, and four times the bytes are four times
 * the steps.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/strmap.h"
#include "http/etag.h"
#include "http/h1_parse.h"
#include "http/h1_write.h"
#include "http/hop.h"
#include "http/negotiate.h"
#include "kube/reqinfo.h"
#include "lib/tap.h"
#include "net/tls_peer.h"
#include "proxy/rewrite.h"
#include "unit/proxy/steps.h"

/* The dearest family below takes a tenth to a quarter of it, depending on the compiler. */
enum { STEPS_PER_BYTE = 400, STEPS_ONCE = 20000, ARENA_BYTES = 32 << 20 };

/* ---- a request ---- */

static const struct slice extra_names[] = {SLICE_LIT("X-Remote-User"), SLICE_LIT("X-Login")};
static const struct slice extra_prefixes[] = {SLICE_LIT("X-Remote-Extra-"), SLICE_LIT("X-More-")};

static void identify(const struct http_head *head, const struct tls_peer *tls, struct arena *a)
{
    struct authn_opts opts = {.headers = *user_headers_default(), .can_assert = true};
    struct http_head out;
    struct authn au;
    struct rewrite_in in = {.head = head,
                            .authn = &au,
                            .names.headers = &opts.headers,
                            .target = REWRITE_PEER,
                            .client_ip = "10.0.0.9",
                            .believes_client = true,
                            .upgrade = hop_wants_upgrade(head)};
    unsigned char key[AUTHN_KEY_BYTES];
    struct buf bytes;

    opts.headers.username = extra_names;
    opts.headers.n_username = ROWS(extra_names);
    opts.headers.extra_prefix = extra_prefixes;
    opts.headers.n_extra_prefix = ROWS(extra_prefixes);
    if (authn_decide(&opts, head, tls, 0, a, &au) != AUTHN_OK || !authn_credential_key(&au, head, key))
        tap_bail("no memory");
    if (au.kind == AUTHN_REFUSED || rewrite_request(&in, a, &out) != REWRITE_OK)
        return;
    buf_init(&bytes, 4 << 20);
    (void)h1_write_request(&bytes, &out, h1_request_body(head), 0);
    buf_free(&bytes);
}

/* All that a head goes through before it goes on: from anybody, and from a front proxy. */
static void serve(const struct http_head *head, struct arena *a)
{
    static const struct tls_peer nobody = {.present = false};
    static const struct tls_peer proxy = {.present = true, .requestheader_ca = true, .not_after = INT64_MAX};
    struct negotiated form = negotiate_discovery(http_head_value(head, HTTP_ACCEPT), NEGOTIATE_OFFER_V2BETA1);
    struct reqinfo info;

    (void)reqinfo_parse(a, head->method, head->target, &info);
    (void)h1_keep_alive(head);
    (void)h1_expects_continue(head);
    (void)negotiate_gzip(head);
    (void)negotiate_pretty(head, &form);
    (void)etag_matches(head, SLICE_LIT("\"tag\""));
    identify(head, &nobody, a);
    identify(head, &proxy, a);
}

/* Steps for this text, given in pieces of so many bytes. */
static uint64_t cost(struct slice text, size_t piece)
{
    struct h1_parser *p = h1_parser_new(H1_REQUEST, LIMIT_HEAD_BYTES);
    struct arena *a = arena_new(ARENA_BYTES);
    enum h1_result result = H1_MORE;
    struct http_head head;
    size_t took;

    if (p == NULL || a == NULL)
        tap_bail("no memory");
    steps_reset();
    h1_parser_begin(p, a, &head);
    for (size_t at = 0; result == H1_MORE && at < text.n; at += took)
        result = h1_parser_feed(p, slice_of(text.p + at, text.n - at < piece ? text.n - at : piece), &took);
    if (result == H1_DONE)
        serve(&head, a);
    h1_parser_free(p);
    arena_free(a);
    return steps_taken();
}

/* ---- families ---- */

/* What a hostile head is made of: a long text, and many fields beside it. */
static const struct family {
    const char *name;
    const char *target;
    const char
        *long_name;    /* of the field whose value the long text is; "": it is a name; NULL: it goes on the target */
    const char *unit;  /* of the long text */
    const char *field; /* repeated, up to the limit of fields */
} families[] = {
    {"one long value", "/", "X", "x", "A: b\r\n"},
    {"a value of white space", "/", "X", "a \t", "A:  b \r\n"},
    {"one long name", "/", "", "x", "A: b\r\n"},
    {"many fields", "/", "X", "x", "X-Remote-Extra-Aa%20: bbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n"},
    {"Connection, none named", "/", "Connection", "a,", "b: c\r\n"},
    {"Connection, nothing in it", "/", "Connection", ",", "a: b\r\n"},
    {"Connection, one long option", "/", "Connection", "a", "a: b\r\n"},
    {"Upgrade", "/", "Upgrade", "a/1,", "Connection: upgrade\r\n"},
    {"TE", "/", "TE", "a,", "A: b\r\n"},
    {"X-Forwarded-For", "/", "X-Forwarded-For", "1.1.1.1,", "X-Forwarded-For: 1.1.1.1\r\n"},
    {"Sec-WebSocket-Protocol", "/", "Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io,",
     "Sec-WebSocket-Protocol: base64url.bearer,a\r\n"},
    {"Authorization", "/", "Authorization", "Bearer ", "Authorization: Bearer x\r\n"},
    {"Impersonate-*", "/", "Impersonate-User", "x", "Impersonate-Extra-A: b\r\n"},
    {"Accept", "/apis", "Accept", "application/json;g=apidiscovery.k8s.io;v=v3,", "Accept: a\r\n"},
    {"Accept, parameters", "/apis", "Accept", ";a=b", "Accept: a\r\n"},
    {"Accept, nothing in it", "/apis", "Accept", ",", "Accept: a\r\n"},
    {"Accept-Encoding", "/apis", "Accept-Encoding", "gzip;q=1,", "Accept-Encoding: a\r\n"},
    {"If-None-Match", "/apis", "If-None-Match", "\"a\",", "If-None-Match: a\r\n"},
    {"user names", "/", "X-Remote-User", "x", "X-Remote-User: a\r\n"},
    {"groups", "/", "X-Remote-Group", "x", "X-Remote-Group: aaaaaaaaaaaaa\r\n"},
    {"extra keys", "/", "X-Remote-Extra-A", "x", "X-More-%20%20%20%20%20%20%20%20%20%20%20: a\r\n"},
    {"loop marks", "/", "X-Kubernetes-Peer-Proxied", "true", "X-Kubernetes-Peer-Proxied: true\r\n"},
    {"Expect", "/", "Expect", "100-continue,", "Expect: 100-continue\r\n"},
    {"slashes", "", NULL, "/", "A: b\r\n"},
    {"path segments", "/apis/apps/v1", NULL, "/a", "A: b\r\n"},
    {"escapes", "/api/v1/pods/", NULL, "%2F", "A: b\r\n"},
    {"parameters", "/api/v1/pods?", NULL, "&watch=0", "A: b\r\n"},
    {"empty parameters", "/api/v1/pods?", NULL, "&", "A: b\r\n"},
    {"parameters that do not count", "/api/v1/pods?", NULL, "&a=%zz;", "A: b\r\n"},
    {"a field selector", "/api/v1/pods?fieldSelector=", NULL, "metadata.name%3Dx,", "A: b\r\n"},
    {"backslashes", "/api/v1/pods?fieldSelector=metadata.name%3D", NULL, "%5C%5C", "A: b\r\n"},
    {"a label selector", "/api/v1/pods?labelSelector=", NULL, "a+in+(b,c),", "A: b\r\n"},
    {"a set", "/api/v1/pods?labelSelector=a+in+(", NULL, "b,", "A: b\r\n"},
};

/* The long text has about `n` bytes, and all fields together as many as are allowed, or `n` bytes. */
static void make(const struct family *f, size_t n, struct buf *out)
{
    size_t count = n / strlen(f->unit), lines = n / strlen(f->field);
    struct buf text;

    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < count; i++)
        buf_append_str(&text, f->unit);
    buf_append_char(&text, '\0');
    buf_printf(out, "GET %s%s HTTP/1.1\r\nHost: h\r\n", f->target, f->long_name == NULL ? text.p : "");
    for (size_t i = 0; i < lines && i < LIMIT_HEAD_FIELDS - 4; i++)
        buf_append_str(out, f->field);
    if (f->long_name != NULL)
        buf_printf(out, "%s: %s\r\n", f->long_name[0] == '\0' ? text.p : f->long_name, text.p);
    buf_append_str(out, "\r\n");
    if (out->failed || text.failed)
        tap_bail("no memory");
    buf_free(&text);
}

static uint64_t cost_of(const struct family *f, size_t n, size_t piece, size_t *bytes)
{
    struct buf text;
    uint64_t sum;

    buf_init(&text, 4 << 20);
    make(f, n, &text);
    *bytes = buf_len(&text);
    sum = cost(buf_slice(&text), piece);
    buf_free(&text);
    return sum;
}

/* The most that Connection can ask for: each of its options is compared with each name, which differ in the last byte.
 */
static void named(void)
{
    enum { LONG = 1500, NAMES = 240 };
    char name[LONG + 1];
    struct buf text;
    uint64_t all;

    memset(name, 'a', LONG);
    name[LONG] = '\0';
    buf_init(&text, 4 << 20);
    buf_append_str(&text, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close");
    for (int i = 1; i < LIMIT_CONNECTION_OPTIONS; i++)
        buf_printf(&text, ",%s%c", name, 'A' + i);
    buf_append_str(&text, "\r\n");
    for (int i = 0; i < NAMES; i++)
        buf_printf(&text, "%sz: b\r\n", name);
    buf_append_str(&text, "\r\n");
    all = cost(buf_slice(&text), SIZE_MAX);
    ok(all > buf_len(&text) && all <= STEPS_PER_BYTE * buf_len(&text),
       "Connection with as many options as there may be: %ju steps per byte", (uintmax_t)all / buf_len(&text));
    buf_free(&text);
}

static void heads(void)
{
    static const size_t pieces[] = {SIZE_MAX, 1000, 1};

    for (size_t i = 0; i < ROWS(families); i++) {
        const struct family *f = &families[i];
        size_t most = f->long_name == NULL ? 60 << 10 : 400 << 10;

        for (size_t k = 0; k < ROWS(pieces); k++) {
            size_t few_bytes, bytes;
            uint64_t few = cost_of(f, most / 4, pieces[k], &few_bytes), all = cost_of(f, most, pieces[k], &bytes);
            bool fine = all <= STEPS_PER_BYTE * bytes + STEPS_ONCE && few > few_bytes / 8 && all <= 5 * few;

            if (!fine)
                diag("%ju steps for %zu bytes, %ju for %zu", (uintmax_t)few, few_bytes, (uintmax_t)all, bytes);
            ok(fine, "%s, in pieces of at most %zd bytes", f->name, (ssize_t)pieces[k]);
        }
    }
}

/* ---- tables ---- */

/* SipHash of 64 bytes is most of it, and three times that with every sanitizer; one run of all keys would be 100,000.
 */
enum { KEYS = 20000, KEY_BYTES = 64, STEPS_TO_PUT = 5000, STEPS_TO_FIND = 20000 };

static struct slice key_of(unsigned way, unsigned i, char space[KEY_BYTES])
{
    memset(space, 'x', KEY_BYTES);
    switch (way) {
    case 0: /* counted */
        return slice_of(space, (size_t)snprintf(space, KEY_BYTES, "%u", i));
    case 1: /* differing at the end only */
        memcpy(space + KEY_BYTES - sizeof(i), &i, sizeof(i));
        return slice_of(space, KEY_BYTES);
    case 2: /* at the beginning only */
        memcpy(space, &i, sizeof(i));
        return slice_of(space, KEY_BYTES);
    default: { /* equal for the quick hash, which has no seed: its first step is undone by the second word */
        const uint64_t odd = 0x9e3779b97f4a7c15;
        uint64_t word = i, h = (16 * odd ^ word) * odd;

        memcpy(space, &word, sizeof(word));
        word = h ^ h >> 32;
        memcpy(space + sizeof(word), &word, sizeof(word));
        return slice_of(space, 2 * sizeof(word));
    }
    }
}

static void tables(void)
{
    static const char *const ways[] = {"counted", "differing at the end", "at the beginning", "made to collide"};
    char space[KEY_BYTES];

    ok(hash_quick(key_of(3, 1, space)) == hash_quick(key_of(3, 2, (char[KEY_BYTES]){0})),
       "keys that collide without a seed can be made");
    for (unsigned way = 0; way < ROWS(ways); way++) {
        struct strmap *m = strmap_new();
        uint64_t most = 0;
        bool fine = m != NULL;

        steps_reset();
        for (unsigned i = 0; i < KEYS; i++)
            fine = fine && strmap_put(m, key_of(way, i, space), m, NULL);
        ok(fine && steps_taken() < (uint64_t)KEYS * STEPS_TO_PUT, "%s: put, %ju steps each", ways[way],
           (uintmax_t)steps_taken() / KEYS);
        for (unsigned i = 0; i < 2 * KEYS; i++) {
            uint64_t before = steps_taken();

            fine = fine && (strmap_get(m, key_of(way, i, space)) != NULL) == (i < KEYS);
            most = steps_taken() - before > most ? steps_taken() - before : most;
        }
        /* The longest run of full slots grows with the logarithm of their number, not with it. */
        ok(fine && most < STEPS_TO_FIND, "%s: found or not, in at most %ju steps", ways[way], (uintmax_t)most);
        strmap_free(m);
    }
}

int main(void)
{
    heads();
    named();
    tables();
    return tap_end();
}
