/* SPDX-License-Identifier: Apache-2.0 */
/* What kube-apiserver takes for a credential. Each row was read from k8s.io/apiserver's bearertoken and websocket. */
#include "http/credential.h"

#include <stdio.h>
#include <string.h>

#include "lib/tap.h"

static const struct {
    const char *value;
    bool is;
} values[] = {
    {"Bearer t", true},
    {"bearer t", true},
    {"BEARER t", true},
    {"Bearer t u", true},
    {" \tBearer t\t ", true},
    {"Bearer \tt", true},
    {"\xc2\xa0\xe3\x80\x80"
     "Bearer t",
     true},
    {"Bearer \xc2\xa0t", true},
    {"Bearer \xa0", true},
    {"", false},
    {"t", false},
    {"Bearer", false},
    {"Bearer ", false},
    {"Bearer  t", false},
    {"Bearer\tt", false},
    {"Bearer:t", false},
    {"Bearert", false},
    {"Bearer\xc2\xa0t", false},
    {"Bearer \xc2\xa0", false},
    {"Bearer \xe2\x80\x8a\xc2\x85 \xe2\x80\xa9", false},
    {"Basic eDp5", false},
    {"Basic Bearer t", false},
    {"Negotiate t", false},
};

#define UPGRADE "Connection: Upgrade\nUpgrade: websocket\n"
#define PROTOCOL "base64url.bearer.authorization.k8s.io."
#define PROTOCOLS "Sec-WebSocket-Protocol: "
#define TOKEN PROTOCOLS "v4.channel.k8s.io, " PROTOCOL "dA\n"

static const struct {
    const char *lines;
    bool shown;
} heads[] = {
    {"", false},
    {"Authorization: Bearer t\n", true},
    {"Authorization: Bearer t\nAuthorization: Basic eDp5\n", true},
    {"Authorization: Basic eDp5\nAuthorization: Bearer t\n", false},
    {"Authorization:\nAuthorization: Bearer t\n", false},
    {"Proxy-Authorization: Bearer t\n", false},
    {UPGRADE TOKEN, true},
    {"Connection: keep-alive, upgrade\nUpgrade: WebSocket\n" TOKEN, true},
    {UPGRADE "Content-Length: 0\n" TOKEN, true},
    {UPGRADE PROTOCOLS "v4.channel.k8s.io\n" PROTOCOLS PROTOCOL "dA\n", true},
    {UPGRADE PROTOCOLS PROTOCOL "!\n", true}, /* malformed: 401 */
    {UPGRADE PROTOCOLS PROTOCOL "," PROTOCOL "\n", true},
    {UPGRADE PROTOCOLS "v4.channel.k8s.io, " PROTOCOL "\n", false},
    {UPGRADE PROTOCOLS "v4.channel.k8s.io\n", false},
    {UPGRADE PROTOCOLS "Base64url.bearer.authorization.k8s.io.dA\n", false},
    {TOKEN, false},
    {"Upgrade: websocket\n" TOKEN, false},
    {"Connection: Upgrade\n" TOKEN, false},
    {"Connection: Upgrade\nUpgrade: SPDY/3.1\n" TOKEN, false},
    {UPGRADE "Content-Length: 1\n" TOKEN, false}, /* not passed on as an upgrade */
    {UPGRADE "Transfer-Encoding: chunked\n" TOKEN, false},
    {UPGRADE TOKEN "Authorization: Basic eDp5\n", true},
};

static bool shown(const char *lines)
{
    struct arena *a = arena_new(1 << 16);
    struct slice rest = slice_str(lines), line;
    struct http_head h = {.minor = 1};
    bool is;

    if (!http_head_init(&h, a, 8))
        tap_bail("out of memory");
    h.minor = 1;
    while (slice_split(&rest, '\n', &line)) {
        struct slice value = line, name;

        if (line.n == 0)
            continue;
        (void)slice_split(&value, ':', &name);
        if (!http_head_add(&h, a, name, slice_trim(value)))
            tap_bail("out of memory");
    }
    is = credential_shown(&h);
    arena_free(a);
    return is;
}

/* So much is not walked over: then it counts as a credential, for the server may find one there. */
static void much(void)
{
    static char text[60000], list[60000];
    size_t n = 0;

    memset(text, ' ', sizeof(text));
    memcpy(text + 4000, "Bearer t", 8);
    ok(credential_is_bearer(slice_of(text, sizeof(text))), "white space around a token");
    memcpy(text + 4000, "Basic  t", 8);
    ok(!credential_is_bearer(slice_of(text, sizeof(text))), "around something else");
    memset(text, ' ', sizeof(text));
    memcpy(text + sizeof(text) - 8, "Basic  t", 8);
    ok(credential_is_bearer(slice_of(text, sizeof(text))), "more before it than is walked over");
    for (size_t i = 0; i + 3 <= sizeof(text); i += 3)
        memcpy(text + i, "\xe3\x80\x80", 3); /* the widest that Go knows */
    memcpy(text, "Bearer to", 9);
    ok(credential_is_bearer(slice_of(text, 9000)), "more behind it than is walked over");
    is_u64(credential_token(slice_of(text, 9000)).n, 0, "which makes no token that could be told from others");
    is_u64(credential_token(slice_of(text, 3000)).n, 2, "less does");
    memcpy(text, "\xe3\x80\x80", 3);
    memcpy(text + 3, "\xe3\x80\x80", 3);
    memcpy(text + 6, "\xe3\x80\x80", 3);
    memcpy(text + 9000, "invented", 8);
    is_u64(credential_token(slice_of(text, 9008)).n, 0, "nor is what stands behind so much of it a token");
    n = (size_t)snprintf(list, sizeof(list), UPGRADE PROTOCOLS);
    memset(list + n, ',', 900);
    (void)snprintf(list + n + 900, 2, "\n");
    ok(!shown(list), "some protocols, none with a token");
    memset(list + n, ',', 2000);
    (void)snprintf(list + n + 2000, 2, "\n");
    ok(shown(list), "more than are read");
}

int main(void)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        is_int(credential_is_bearer(slice_str(values[i].value)), values[i].is, "Authorization %zu", i);
    ok(!credential_is_bearer(SLICE_NONE), "none");
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        is_int(shown(heads[i].lines), heads[i].shown, "head %zu", i);
    much();
    return tap_end();
}
