/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ends at us and what goes on.
 */
#include "http/hop.h"

#include "base/limits.h"
#include "unit/http/feed.h"

static const struct {
    const char *name, *in, *want;
} rows[] = {
    {"nothing special", "A: b\r\n", "|Host=h|A=b"},
    {"the standard ones",
     "Connection: close\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authenticate: x\r\nProxy-Authorization: x\r\n"
     "TE: trailers\r\nTrailer: A\r\nUpgrade: h2c\r\nA: b\r\n",
     "|Host=h|A=b"},
    {"framing", "Transfer-Encoding: chunked\r\nA: b\r\n", "|Host=h|A=b"},
    {"length", "Content-Length: 5\r\nA: b\r\n", "|Host=h|A=b"},
    {"named by Connection", "Connection: x-a, X-B\r\nX-A: 1\r\nx-b: 2\r\nX-C: 3\r\n", "|Host=h|X-C=3"},
    {"named in a second Connection", "Connection: close\r\nConnection: X-A\r\nX-A: 1\r\nX-C: 3\r\n", "|Host=h|X-C=3"},
    {"named before", "X-A: 1\r\nConnection: X-A\r\n", "|Host=h"},
    {"odd lists", "Connection: , ,X-A,, \r\nX-A: 1\r\nX: 2\r\n", "|Host=h|X=2"},
    {"empty Connection", "Connection:\r\nX: 2\r\n", "|Host=h|X=2"},
    {"Host cannot be named", "Connection: Host\r\nX: 2\r\n", "|Host=h|X=2"},
    {"Authorization cannot be named", "Connection: authorization\r\nAuthorization: Bearer t\r\n",
     "|Host=h|Authorization=Bearer t"},
    {"X-Forwarded-For cannot be named", "Connection: X-Forwarded-For\r\nX-Forwarded-For: 1\r\n",
     "|Host=h|X-Forwarded-For=1"},
    {"Impersonate-* cannot be named",
     "Connection: impersonate-user, Impersonate-Group, Impersonate-Extra-a, X-A\r\nImpersonate-User: 1\r\n"
     "impersonate-group: 2\r\nImpersonate-Extra-A: 3\r\nX-A: 4\r\n",
     "|Host=h|Impersonate-User=1|impersonate-group=2|Impersonate-Extra-A=3"},
    {"end-to-end fields stay",
     "Authorization: a\r\nAccept: b\r\nX-Remote-User: c\r\nImpersonate-User: d\r\nCookie: e\r\nExpect: "
     "100-continue\r\n",
     "|Host=h|Authorization=a|Accept=b|X-Remote-User=c|Impersonate-User=d|Cookie=e|Expect=100-continue"},
};

static void parse(struct h1_parser *p, struct arena *a, const char *fields, struct http_head *head)
{
    char text[8192];
    size_t took;

    (void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
    h1_parser_begin(p, a, head);
    if (h1_parser_feed(p, slice_str(text), &took) != H1_DONE)
        tap_bail("does not parse: %s", text);
}

static void copies(struct h1_parser *p, struct arena *a)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct http_head from, to;
        char text[1024];

        parse(p, a, rows[i].in, &from);
        if (!http_head_init(&to, a, 1) || !hop_copy(&from, &to, a))
            tap_bail("no memory");
        feed_render(&to, H1_TRAILERS, text, sizeof(text));
        is_str(text, rows[i].want, "%s", rows[i].name);
    }
}

/* Of a head that nobody has checked, too. */
static void many_options(struct arena *a)
{
    enum { OPTIONS = LIMIT_CONNECTION_OPTIONS + 4 };
    struct http_head from, to;
    char names[OPTIONS][8];

    if (!http_head_init(&from, a, 1) || !http_head_init(&to, a, 1))
        tap_bail("no memory");
    for (size_t i = 0; i < OPTIONS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "X-%zu", i);
        if (!http_head_add(&from, a, slice_str(names[i]), SLICE_LIT("v")) ||
            !http_head_add_id(&from, a, HTTP_CONNECTION, slice_str(names[i])))
            tap_bail("no memory");
    }
    if (!http_head_add(&from, a, SLICE_LIT("X-99"), SLICE_LIT("v")) || !hop_copy(&from, &to, a))
        tap_bail("no memory");
    ok(to.n_fields == 1 && slice_eq(to.fields[0].name, SLICE_LIT("X-99")), "each of %u options ends its field",
       OPTIONS);
}

static void questions(struct h1_parser *p, struct arena *a)
{
    static const struct {
        const char *fields;
        bool upgrade, close;
    } q[] = {
        {"", false, false},
        {"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", true, false},
        {"Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n", true, false},
        {"Connection: Upgrade\r\nUpgrade: foo, websocket\r\n", true, false},
        {"Connection: Upgrade\r\nUpgrade: h2c\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: websocket, H2C\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: HTTP/2.0\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: h2c-14\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: websocket, H2-16\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: HTTP-draft-08/2.0\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade: v4-channel\r\n", true, false},
        {"Connection: Upgrade\r\nUpgrade: ,\r\n", false, false},
        {"Connection: Upgrade\r\n", false, false},
        {"Upgrade: websocket\r\n", false, false},
        {"Connection: upgraded\r\nUpgrade: websocket\r\n", false, false},
        {"Connection: Upgrade\r\nUpgrade:\r\n", false, false},
        {"Connection: Close\r\n", false, true},
        {"Connection: a,close\r\n", false, true},
        {"Connection: closed\r\n", false, false},
    };

    for (size_t i = 0; i < ROWS(q); i++) {
        struct http_head h;

        parse(p, a, q[i].fields, &h);
        ok(hop_wants_upgrade(&h) == q[i].upgrade, "upgrade, row %zu", i);
        ok(hop_connection_has(&h, SLICE_LIT("close")) == q[i].close, "close, row %zu", i);
        h.minor = 0;
        ok(!hop_wants_upgrade(&h), "HTTP/1.0 cannot, row %zu", i);
    }
}

static void accepted(struct h1_parser *p, struct arena *a)
{
#define COMMAS ",,,,,,,,,,,,,," /* with one more, and what is before it, sixteen elements */
#define OFFER(protocols) "Connection: Upgrade\r\nUpgrade: " protocols "\r\n"
    static const struct {
        const char *asked, *said;
        bool good;
    } answers[] = {
        {OFFER("SPDY/3.1"), OFFER("SPDY/3.1"), true},
        {OFFER("websocket"), OFFER("WebSocket"), true},
        {OFFER("foo, websocket"), OFFER("websocket"), true},
        {OFFER("foo\r\nUpgrade: websocket"), OFFER("websocket, foo"), true},
        {OFFER("websocket"), OFFER("SPDY/3.1"), false},
        {OFFER("SPDY/3.1"), OFFER("SPDY/3"), false},
        {OFFER("websocket"), OFFER("websocket, foo"), false},
        {OFFER("websocket"), OFFER("websocket\r\nUpgrade: foo"), false},
        {OFFER("websocket"), OFFER(""), false},
        {OFFER("websocket"), "Connection: Upgrade\r\n", false},
        {OFFER("websocket"), "Upgrade: websocket\r\n", false},
        {OFFER("h2c"), OFFER("h2c"), false},
        {"", OFFER("websocket"), false},
        {OFFER("websocket, " COMMAS), OFFER("websocket"), true},
        {OFFER("websocket, ," COMMAS), OFFER("websocket"), false},
        {OFFER("websocket"), OFFER("websocket, ," COMMAS), false},
        {OFFER("a\r\nUpgrade: ,," COMMAS), OFFER("a"), false},
    };

    for (size_t i = 0; i < ROWS(answers); i++) {
        struct http_head asked, said;

        parse(p, a, answers[i].asked, &asked);
        parse(p, a, answers[i].said, &said);
        ok(hop_accepts_upgrade(&asked, &said) == answers[i].good, "101, row %zu", i);
    }
#undef COMMAS
#undef OFFER
}

static void forwarded(struct h1_parser *p, struct arena *a)
{
    static const struct {
        const char *fields, *ip, *want;
    } f[] = {
        {"", "10.0.0.1", "10.0.0.1"},
        {"X-Forwarded-For: 1.1.1.1\r\n", "::1", "1.1.1.1, ::1"},
        {"X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nx-forwarded-for: 3.3.3.3\r\n", "4.4.4.4",
         "1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4"},
        {"X-Forwarded-For:\r\n", "4.4.4.4", "4.4.4.4"},
        {"X-Forwarded-For: 1.1.1.1\r\n", "", "1.1.1.1"},
        {"X-Forwarded-For: 1.1.1.1:80, [::2]:443,[::3] , ::4\r\n", "5.5.5.5", "1.1.1.1, ::2, ::3, ::4, 5.5.5.5"},
        {"X-Forwarded-For: 6.6.6.6, unknown, 2.2.2.2\r\n", "4.4.4.4", "2.2.2.2, 4.4.4.4"},
        {"X-Forwarded-For: 6.6.6.6, 1.1.1.1:x:y\r\n", "4.4.4.4", "4.4.4.4"},
        {"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: [\r\n", "4.4.4.4", "4.4.4.4"},
        {"X-Forwarded-For: 1.1.1.1,, 2.2.2.2\r\n", "", "1.1.1.1, 2.2.2.2"},
        {"X-Forwarded-For: 6.6.6.6, _hidden\r\n", "", ""},
        {"X-Forwarded-For: ,\r\n", "4.4.4.4", "4.4.4.4"},
        {"", "", ""},
    };

    for (size_t i = 0; i < ROWS(f); i++) {
        struct http_head h;

        parse(p, a, f[i].fields, &h);
        is_slice(hop_forwarded_for(&h, slice_str(f[i].ip), a), f[i].want, "forwarded, row %zu", i);
    }
}

/* What is between two commas, or has only a port: a build with sanitizers ends where nothing is read. */
static void bare_addresses(void)
{
    static const char *const nobody[] = {"", ":", ":80", "[]", "[]:80", "[", "]", "1.1.1.1]"};

    ok(hop_bare_address(SLICE_NONE).n == 0, "nothing is no address");
    for (size_t i = 0; i < ROWS(nobody); i++)
        ok(hop_bare_address(slice_str(nobody[i])).n == 0, "'%s' is no address", nobody[i]);
}

static void trailer_names(void)
{
    static const char *const no[] = {
        "Content-Length",   "transfer-encoding", "Host",   "Authorization",    "Content-Type",
        "Connection",       "Trailer",           "TE",     "Upgrade",          "X-Remote-Group",
        "impersonate-user", "Set-Cookie",        "Cookie", "Content-Encoding", "Expect"};

    for (size_t i = 0; i < ROWS(no); i++)
        ok(!hop_trailer_allowed(slice_str(no[i])), "%s is no trailer", no[i]);
    ok(hop_trailer_allowed(SLICE_LIT("X-Checksum")), "others are");
    ok(hop_trailer_allowed(SLICE_LIT("Grpc-Status")), "gRPC's too");
}

/* As short as addresses and what is between them can be: the list that goes on is longer than the one that came. */
static void forwarded_grows(struct h1_parser *p, struct arena *a)
{
    enum { ADDRESSES = 1000 };
    static char text[3 * ADDRESSES + 64], want[4 * ADDRESSES + 64];
    struct http_head h;
    struct slice got;
    char *behind;
    size_t n = (size_t)snprintf(text, sizeof(text), "X-Forwarded-For: "), w = 0;

    for (size_t i = 0; i < ADDRESSES; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s::", i == 0 ? "" : ",");
        w += (size_t)snprintf(want + w, sizeof(want) - w, "::, ");
    }
    (void)snprintf(text + n, sizeof(text) - n, "\r\n");
    (void)snprintf(want + w, sizeof(want) - w, "10.0.0.1");
    parse(p, a, text, &h);
    got = hop_forwarded_for(&h, SLICE_LIT("10.0.0.1"), a);
    behind = arena_alloc(a, 4096);
    if (behind == NULL)
        tap_bail("no memory");
    memset(behind, 'x', 4096);
    is_slice(got, want, "%d addresses, and none behind the memory that was taken", ADDRESSES);
}

/* Who is farthest away can make the list as long as he likes: he pushes out nobody who is nearer. */
static void forwarded_too_many(struct h1_parser *p, struct arena *a)
{
    static const char *const ends[] = {", 1.1.1.1", "\r\nX-Forwarded-For: 1.1.1.1", ",1.1.1.1, 2.2.2.2",
                                       ",junk, 1.1.1.1"};
    static const char *const want[] = {"9.9.9.9, 1.1.1.1, 10.0.0.1", "9.9.9.9, 1.1.1.1, 10.0.0.1",
                                       "9.9.9.9, 1.1.1.1, 2.2.2.2, 10.0.0.1", "1.1.1.1, 10.0.0.1"};
    static char text[8192];
    struct http_head h;
    size_t n;

    for (size_t i = 0; i < ROWS(ends); i++) {
        struct slice got, end;

        n = (size_t)snprintf(text, sizeof(text), "X-Forwarded-For: 9.9.9.9");
        while (n < 4500)
            n += (size_t)snprintf(text + n, sizeof(text) - n, ", 9.9.9.9");
        (void)snprintf(text + n, sizeof(text) - n, "%s\r\n", ends[i]);
        parse(p, a, text, &h);
        got = hop_forwarded_for(&h, SLICE_LIT("10.0.0.1"), a);
        end = slice_from(got, got.n - (strlen(want[i]) < got.n ? strlen(want[i]) : got.n));
        is_slice(end, want[i], "too many, row %zu", i);
        ok(got.n <= 2 * LIMIT_FORWARDED_BYTES, "row %zu: bounded (%zu)", i, got.n);
        ok(slice_has_prefix(got, SLICE_LIT("9.9.9.9, ")) || i == 3, "row %zu: from an address on", i);
    }
    n = (size_t)snprintf(text, sizeof(text), "X-Forwarded-For: ");
    memset(text + n, 'x', 4500);
    (void)snprintf(text + n + 4500, sizeof(text) - n - 4500, "\r\nX-Forwarded-For: 1.1.1.1\r\n");
    parse(p, a, text, &h);
    is_slice(hop_forwarded_for(&h, SLICE_LIT("10.0.0.1"), a), "1.1.1.1, 10.0.0.1", "junk in a field of its own");
}

int main(void)
{
    struct h1_parser *p = h1_parser_new(H1_REQUEST, 16384);
    struct arena *a = arena_new(4 << 20);

    if (p == NULL || a == NULL)
        tap_bail("no memory");
    copies(p, a);
    many_options(a);
    questions(p, a);
    accepted(p, a);
    forwarded(p, a);
    forwarded_grows(p, a);
    forwarded_too_many(p, a);
    bare_addresses();
    trailer_names();
    arena_free(a);
    h1_parser_free(p);
    return tap_end();
}
