/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Negotiation and entity tags, row by row as kube-apiserver answers.
 */
#include "http/etag.h"
#include "http/negotiate.h"
#include "lib/tap.h"

#define T2 "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define TB "g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#define J "application/json"
#define PB "application/vnd.kubernetes.protobuf"

enum { ALL = NEGOTIATE_OFFER_YAML | NEGOTIATE_OFFER_PROTOBUF | NEGOTIATE_OFFER_V2BETA1 };

static const struct {
    const char *accept;
    unsigned offers;
    enum negotiate_document document;
    enum negotiate_format format;
    const char *profile;
    bool pretty;
} rows[] = {
    {"", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {"*/*", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";" T2, 0, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" TB, ALL, NEGOTIATE_V2BETA1, NEGOTIATE_JSON, NULL, false},
    {J ";" TB, 0, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    /* client-go's own */
    {J ";" T2 "," J ";" TB "," J, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" TB "," J ";" T2 "," J, ALL, NEGOTIATE_V2BETA1, NEGOTIATE_JSON, NULL, false},
    {J ";" TB "," J ";" T2 "," J, 0, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" T2 ";profile=nopeer," J ";" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, "nopeer", false},
    {J ";" T2 "," J ";" T2 ";profile=nopeer", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";profile=nopeer;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, "nopeer", false},
    {J ";" T2 ";profile=", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" T2 ";profile=a;profile=b", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, "b", false},
    {J ";" T2 ";profile=\"nopeer\"", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, "\"nopeer\"", false},
    /* parameters in any order, spaces trimmed, unknown ones ignored */
    {J ";as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {" " J " ; g = apidiscovery.k8s.io ; v = v2 ; as = APIGroupDiscoveryList ", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL,
     false},
    {J ";charset=utf-8;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" T2 ";pretty=1", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, true},
    {J ";" T2 ";pretty=true", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    /* the triple is compared exactly */
    {J ";g=apidiscovery.k8s.io;v=v2;as=apigroupdiscoverylist", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";g=\"apidiscovery.k8s.io\";v=v2;as=APIGroupDiscoveryList", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";g=apidiscovery.k8s.io;v=v1;as=APIGroupDiscoveryList", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";v=v2;as=APIGroupDiscoveryList", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";G=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";as=Table;v=v1;g=meta.k8s.io", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {"Application/JSON;" T2, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {"text/plain;" T2, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    /* plain JSON is skipped, not matched, whatever its q and place */
    {J "," J ";" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";q=1," J ";" T2 ";q=0.1", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" T2 ";q=0", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    /* formats */
    {"application/yaml;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_YAML, NULL, false},
    {"application/yaml;" T2, 0, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {PB ";" T2, ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {PB ";" T2 "," J ";" T2, 0, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {PB ";" T2 "," J ";" T2, ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {"*/*;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {"*;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {"application/*;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {"*/json;" T2, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    /* order: q, then concrete before wildcard */
    {J ";" T2 ";q=0.5," PB ";" T2 ";q=0.9", ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {J ";" T2 ";q=0.9," PB ";" T2 ";q=0.5", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {"*/*;" T2 "," PB ";" T2, ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {"*/*;" T2 ";q=1," PB ";" T2 ";q=0.1", ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {J ";" T2 ";q=x," PB ";" T2 ";q=0.1", ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {J ";" T2 ";q= 0.9," PB ";" T2 ";q=0.1", ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {J ";" T2 ";q=0.9x," PB ";" T2 ";q=0.1", ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    {PB ";" T2 "," J ";" T2 ";q=1.0", ALL, NEGOTIATE_V2, NEGOTIATE_PROTOBUF, NULL, false},
    /* malformed clauses */
    {"json;" T2, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {"application/json/x;" T2, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {"application/json/;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {"/;" T2, ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {",,," J ";" T2 ",", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";g=apidiscovery.k8s.io=;v=v2;as=APIGroupDiscoveryList", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";g=a=b;" T2, ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";;;" T2 ";", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    /* streams and server versions */
    {J ";" T2 ";stream=watch", ALL, NEGOTIATE_V2, NEGOTIATE_JSON, NULL, false},
    {J ";" T2 ";stream=x", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {"application/yaml;" T2 ";stream=watch", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
    {J ";" T2 ";sv=1", ALL, NEGOTIATE_LEGACY, NEGOTIATE_JSON, NULL, false},
};

static void accept(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct negotiated n = negotiate_discovery(slice_str(rows[i].accept), rows[i].offers);

        if (is_int(n.document, rows[i].document, "%zu: document for %s", i, rows[i].accept) &&
            n.document != NEGOTIATE_LEGACY) {
            is_int(n.format, rows[i].format, "%zu: format", i);
            is_slice(n.profile, rows[i].profile, "%zu: profile", i);
            ok(n.pretty == rows[i].pretty, "%zu: pretty", i);
        }
    }
    is_slice(negotiate_content_type(NEGOTIATE_V2, NEGOTIATE_JSON), J ";" T2, "content type, v2");
    is_slice(negotiate_content_type(NEGOTIATE_V2BETA1, NEGOTIATE_PROTOBUF), PB ";" TB, "content type, v2beta1");
    is_slice(negotiate_content_type(NEGOTIATE_LEGACY, NEGOTIATE_JSON), NULL, "none for legacy");
}

/* Many clauses must cost neither memory nor time. */
static void flood(void)
{
    static char text[200000];
    enum negotiate_format format;

    memset(text, ',', sizeof(text));
    is_int(negotiate_discovery(slice_of(text, sizeof(text)), ALL).document, NEGOTIATE_LEGACY, "commas only");
    memcpy(text + sizeof(text) - sizeof(J), "," J, sizeof(J));
    ok(!negotiate_plain(slice_of(text, sizeof(text)), 0, &format), "what comes behind so many is not looked for");
    ok(negotiate_plain(slice_of(text + sizeof(text) - 8000, 8000), 0, &format), "behind fewer it is");
    for (size_t i = 0; i + 4 <= sizeof(text); i += 4)
        memcpy(text + i, "*/*,", 4);
    is_int(negotiate_discovery(slice_of(text, sizeof(text)), ALL).document, NEGOTIATE_LEGACY, "many clauses");
}

static struct http_head with(struct arena *a, enum http_name id, const char *value)
{
    struct http_head h;

    if (a == NULL || !http_head_init(&h, a, 2) || (value != NULL && !http_head_add_id(&h, a, id, slice_str(value))))
        tap_bail("no memory");
    h.target = SLICE_LIT("/apis");
    return h;
}

static void others(void)
{
    static const struct {
        const char *value;
        bool gzip;
    } g[] = {{NULL, false},   {"", false},      {"gzip", true},      {"deflate, gzip", true}, {"gzip;q=1", false},
             {"GZIP", false}, {"xgzip", false}, {" gzip ,br", true}, {"gzip;q=0", false},     {"*", false}};
    static const struct {
        const char *target, *agent;
        bool pretty;
    } p[] = {
        {"/apis", "kubectl/v1", false},
        {"/apis", "curl/8", true},
        {"/apis", "Wget/1", true},
        {"/apis", "Mozilla/5.0 x", true},
        {"/apis", "Mozilla/4.0", false},
        {"/apis?pretty=true", "x", true},
        {"/apis?pretty=1", "x", true},
        {"/apis?pretty=0", "curl/8", false},
        {"/apis?pretty=yes", "curl/8", false},
        {"/apis?pretty=", "curl/8", true},
        {"/apis?pretty", "curl/8", true},
        {"/apis?a=b&pretty=t", "x", true},
        {"/apis?pretty=false&pretty=true", "x", false},
        {"/apis?xpretty=true", "x", false},
        {"/apis?pretty=true;a", "x", false},
    };
    struct arena *a = arena_new(1 << 16);
    struct http_head h;
    struct negotiated n = {.document = NEGOTIATE_V2};

    for (size_t i = 0; i < ROWS(g); i++) {
        h = with(a, HTTP_ACCEPT_ENCODING, g[i].value);
        ok(negotiate_gzip(&h) == g[i].gzip, "gzip: %s", g[i].value == NULL ? "none" : g[i].value);
    }
    for (size_t i = 0; i < ROWS(p); i++) {
        h = with(a, HTTP_USER_AGENT, p[i].agent);
        h.target = slice_str(p[i].target);
        ok(negotiate_pretty(&h, &n) == p[i].pretty, "pretty: %s, %s", p[i].target, p[i].agent);
    }
    h = with(a, HTTP_USER_AGENT, "x");
    ok(negotiate_pretty(&h, &(struct negotiated){.pretty = true}), "pretty=1 in the clause");
    h = with(a, HTTP_USER_AGENT, "curl");
    ok(!negotiate_pretty(&h, &(struct negotiated){.format = NEGOTIATE_YAML}), "YAML is never indented more");
    arena_free(a);
}

static void etags(void)
{
    unsigned char digest[HASH_SHA512_BYTES];
    char tag[ETAG_BYTES], lower[ETAG_BYTES];
    struct arena *a = arena_new(1 << 16);
    struct http_head h;

    if (!hash_sha512(SLICE_LIT("abc"), digest))
        tap_bail("no SHA-512");
    etag_from_sha512(digest, tag);
    is_str(tag,
           "\"DDAF35A193617ABACC417349AE20413112E6FA4E89A97EA20A9EEEE64B55D39A2192992A274FC1A836BA3C23A3FEEBBD"
           "454D4423643CE80E2A9AC94FA54CA49F\"",
           "FIPS 180-2's vector, upper case, quoted");
    h = with(a, HTTP_IF_NONE_MATCH, tag);
    ok(etag_matches(&h, slice_str(tag)), "equal");
    memcpy(lower, tag, sizeof(tag));
    lower[1] = 'd';
    h = with(a, HTTP_IF_NONE_MATCH, lower);
    ok(!etag_matches(&h, slice_str(tag)), "case matters");
    h = with(a, HTTP_IF_NONE_MATCH, "*");
    ok(!etag_matches(&h, slice_str(tag)), "no star");
    h = with(a, HTTP_IF_NONE_MATCH, NULL);
    ok(!etag_matches(&h, slice_str(tag)), "none asked");
    ok(!etag_matches(&h, SLICE_NONE), "none there, none asked");
    h = with(a, HTTP_IF_NONE_MATCH, "\"x\"");
    if (!http_head_add_id(&h, a, HTTP_IF_NONE_MATCH, slice_str(tag)))
        tap_bail("no memory");
    ok(!etag_matches(&h, slice_str(tag)), "only the first line counts");
    arena_free(a);
}

static void short_tags(void)
{
    is_slice(etag_short(SLICE_LIT("\"ABCDEFGHIJKLMNOP\"")), "ABCDEFGHIJKL", "12 characters without the quotes");
    is_slice(etag_short(SLICE_LIT("\"ABCDEFGHIJKL\"")), "ABCDEFGHIJKL", "as many as there are");
    is_slice(etag_short(SLICE_LIT("\"AB\"")), "AB", "or fewer");
    is_slice(etag_short(SLICE_LIT("W/AB")), "W/AB", "also of what has none");
    is_u64(etag_short(SLICE_LIT("\"")).n, 0, "nothing of a lone quote");
    is_u64(etag_short(SLICE_NONE).n, 0, "nor of nothing");
}

/* For what has one shape, in JSON, YAML or protobuf. */
static void plain(void)
{
    static const struct {
        const char *accept;
        unsigned offers;
        int want; /* -1: none */
    } forms[] = {
        {"", 0, NEGOTIATE_JSON},
        {"application/json", 0, NEGOTIATE_JSON},
        {"*/*", NEGOTIATE_OFFER_YAML, NEGOTIATE_JSON},
        {"application/*", NEGOTIATE_OFFER_YAML, NEGOTIATE_JSON},
        {"application/yaml", NEGOTIATE_OFFER_YAML, NEGOTIATE_YAML},
        {"application/yaml", NEGOTIATE_OFFER_PROTOBUF, -1},
        {"application/vnd.kubernetes.protobuf", NEGOTIATE_OFFER_PROTOBUF, NEGOTIATE_PROTOBUF},
        {"application/vnd.kubernetes.protobuf", NEGOTIATE_OFFER_YAML, -1},
        {"application/vnd.kubernetes.protobuf, */*", NEGOTIATE_OFFER_YAML, NEGOTIATE_JSON},
        {"application/json;q=0.5, application/yaml", NEGOTIATE_OFFER_YAML, NEGOTIATE_YAML},
        {"application/yaml;q=0.5, application/json", NEGOTIATE_OFFER_YAML, NEGOTIATE_JSON},
        {"application/json;g=apidiscovery.k8s.io, application/yaml", NEGOTIATE_OFFER_YAML, NEGOTIATE_YAML},
        {"application/json;v=v2, application/yaml", NEGOTIATE_OFFER_YAML, NEGOTIATE_YAML},
        {"application/json;as=Table, application/yaml", NEGOTIATE_OFFER_YAML, NEGOTIATE_YAML},
        {"application/json;as=Table", NEGOTIATE_OFFER_YAML, -1},
        {"text/html", NEGOTIATE_OFFER_YAML, -1},
        {",", 0, -1},
    };

    for (size_t i = 0; i < ROWS(forms); i++) {
        enum negotiate_format f = NEGOTIATE_PROTOBUF;
        bool found = negotiate_plain(slice_str(forms[i].accept), forms[i].offers, &f);

        is_int(found ? (int)f : -1, forms[i].want, "plain: '%s', offers %u", forms[i].accept, forms[i].offers);
        ok(found || f == NEGOTIATE_JSON, "and JSON where there is none");
    }
}

int main(void)
{
    plain();
    short_tags();
    accept();
    flood();
    others();
    etags();
    return tap_end();
}
