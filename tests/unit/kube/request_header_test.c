/* SPDX-License-Identifier: Apache-2.0 */
/* What the API servers say of the front proxies that they believe, against what is configured here. */
#include "kube/request_header.h"

#include <stdio.h>
#include <string.h>

#include "lib/tap.h"

#define CERT(text) "-----BEGIN CERTIFICATE-----\n" text "\n-----END CERTIFICATE-----\n"
#define MAP(ca, names, user, group, extra, more)                                                                       \
    "{\"kind\":\"ConfigMap\",\"data\":{\"client-ca-file\":\"x\",\"requestheader-client-ca-file\":\"" ca                \
    "\",\"requestheader-allowed-names\":\"" names "\",\"requestheader-username-headers\":\"" user                      \
    "\",\"requestheader-group-headers\":\"" group "\",\"requestheader-extra-headers-prefix\":\"" extra "\"" more "}}"
#define ONE_CA "-----BEGIN CERTIFICATE-----\\nAAAA\\nBBBB\\n-----END CERTIFICATE-----\\n"
#define TWO_CAS ONE_CA "-----BEGIN CERTIFICATE-----\\nCCCC\\n-----END CERTIFICATE-----\\n"
#define NAMES "[\\\"front\\\",\\\"other\\\"]"
#define USER "[\\\"X-Remote-User\\\"]"
#define GROUP "[\\\"X-Remote-Group\\\"]"
#define EXTRA "[\\\"X-Remote-Extra-\\\"]"

/* Of a whole block of PEM. */
static bool has_ended(struct slice certificate)
{
    return slice_eq(certificate, slice_of(CERT("EEEE"), sizeof(CERT("EEEE")) - 2));
}

static bool is_fixed(struct slice name)
{
    return slice_ieq(name, SLICE_LIT("Via"));
}

static void compared(void)
{
    static const char *const one[] = {"front", NULL}, *const none[] = {NULL}, *const foreign[] = {"front", "me", NULL};
    static const struct slice users[] = {SLICE_LIT("X-Remote-User"), SLICE_LIT("X-Login")};
    static const struct slice logins[] = {SLICE_LIT("X-Login"), SLICE_LIT("X-Remote-User")};
    static const struct slice uids[] = {SLICE_LIT("X-Remote-Uid")};
    struct user_headers usual = *user_headers_default(), wider = usual, turned = usual, with_uid = usual,
                        general = usual;
    static const struct slice prefixes[] = {SLICE_LIT("X-Remote-Extra-"), SLICE_LIT("X-")};
    const struct {
        const char *name, *map;
        const struct user_headers *headers;
        const char *const *names;
        const char *ca;
        enum request_header_verdict want;
    } rows[] = {
        {"the same", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &usual, one, CERT("AAAABBBB"), REQUEST_HEADER_AGREES},
        {"in other letters", MAP(ONE_CA, NAMES, "[\\\"x-remote-user\\\"]", GROUP, EXTRA, ""), &usual, one,
         CERT("AA\r\nAABBBB"), REQUEST_HEADER_AGREES},
        {"a CA more there", MAP(TWO_CAS, NAMES, USER, GROUP, EXTRA, ""), &usual, one, CERT("CCCC"),
         REQUEST_HEADER_AGREES},
        {"a CA more here", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &usual, one, CERT("AAAABBBB") CERT("CCCC"),
         REQUEST_HEADER_DIFFERS},
        {"any name there", MAP(ONE_CA, "[]", USER, GROUP, EXTRA, ""), &usual, foreign, CERT("AAAABBBB"),
         REQUEST_HEADER_AGREES},
        {"any name here", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &usual, none, CERT("AAAABBBB"),
         REQUEST_HEADER_AGREES},
        {"a name more here", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &usual, foreign, CERT("AAAABBBB"),
         REQUEST_HEADER_DIFFERS},
        {"a word more here, not sent", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &wider, one, CERT("AAAABBBB"),
         REQUEST_HEADER_AGREES},
        {"a word that is sent and nobody knows", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &turned, one,
         CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"a word more there", MAP(ONE_CA, NAMES, "[\\\"X-Remote-User\\\",\\\"X-Login\\\"]", GROUP, EXTRA, ""), &usual,
         one, CERT("AAAABBBB"), REQUEST_HEADER_MORE},
        {"one more that is HTTP's", MAP(ONE_CA, NAMES, "[\\\"X-Remote-User\\\",\\\"via\\\"]", GROUP, EXTRA, ""), &usual,
         one, CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"a group's that is an impersonator's",
         MAP(ONE_CA, NAMES, USER, "[\\\"X-Remote-Group\\\",\\\"impersonate_Group\\\"]", EXTRA, ""), &usual, one,
         CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"a prefix that covers those", MAP(ONE_CA, NAMES, USER, GROUP, "[\\\"X-Remote-Extra-\\\",\\\"Imp\\\"]", ""),
         &usual, one, CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"a cookie as a group", MAP(ONE_CA, NAMES, USER, "[\\\"X-Remote-Group\\\",\\\"Cookie\\\"]", EXTRA, ""), &usual,
         one, CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"a prefix that covers what streams need",
         MAP(ONE_CA, NAMES, USER, GROUP, "[\\\"X-Remote-Extra-\\\",\\\"X-Stream-\\\"]", ""), &usual, one,
         CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"a prefix of everything", MAP(ONE_CA, NAMES, USER, GROUP, "[\\\"X-Remote-Extra-\\\",\\\"X-\\\"]", ""), &usual,
         one, CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"which is configured", MAP(ONE_CA, NAMES, USER, GROUP, "[\\\"X-Remote-Extra-\\\",\\\"X-\\\"]", ""), &general,
         one, CERT("AAAABBBB"), REQUEST_HEADER_AGREES},
        {"a prefix more there", MAP(ONE_CA, NAMES, USER, GROUP, "[\\\"X-Remote-Extra-\\\",\\\"X-Kube-Extra-\\\"]", ""),
         &usual, one, CERT("AAAABBBB"), REQUEST_HEADER_MORE},
        {"a word more there, and another trouble",
         MAP(ONE_CA, NAMES, "[\\\"X-Remote-User\\\",\\\"X-Login\\\"]", GROUP, EXTRA, ""), &usual, foreign,
         CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"groups more there", MAP(ONE_CA, NAMES, USER, "[\\\"X-Remote-Group\\\",\\\"X-Teams\\\"]", EXTRA, ""), &usual,
         one, CERT("AAAABBBB"), REQUEST_HEADER_MORE},
        {"a CA that has ended here", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &usual, one,
         CERT("EEEE") CERT("AAAABBBB"), REQUEST_HEADER_AGREES},
        {"a CA that has ended, and one that has not", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &usual, one,
         CERT("EEEE") CERT("CCCC"), REQUEST_HEADER_DIFFERS},
        {"both words in both", MAP(ONE_CA, NAMES, "[\\\"X-Remote-User\\\",\\\"X-Login\\\"]", GROUP, EXTRA, ""), &turned,
         one, CERT("AAAABBBB"), REQUEST_HEADER_AGREES},
        {"groups in other words", MAP(ONE_CA, NAMES, USER, "[\\\"X-Teams\\\"]", EXTRA, ""), &usual, one,
         CERT("AAAABBBB"), REQUEST_HEADER_DIFFERS},
        {"another prefix", MAP(ONE_CA, NAMES, USER, GROUP, "[\\\"X-More-\\\"]", ""), &usual, one, CERT("AAAABBBB"),
         REQUEST_HEADER_DIFFERS},
        {"UIDs there only", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ",\"requestheader-uid-headers\":\"[\\\"X-Id\\\"]\""),
         &usual, one, CERT("AAAABBBB"), REQUEST_HEADER_MORE},
        {"UIDs here only: servers before 1.32", MAP(ONE_CA, NAMES, USER, GROUP, EXTRA, ""), &with_uid, one,
         CERT("AAAABBBB"), REQUEST_HEADER_AGREES},
        {"no front proxies there", "{\"data\":{\"client-ca-file\":\"x\"}}", &usual, one, CERT("AAAABBBB"),
         REQUEST_HEADER_UNKNOWN},
        {"no data", "{\"kind\":\"ConfigMap\"}", &usual, one, "", REQUEST_HEADER_UNKNOWN},
        {"no object", "[]", &usual, one, "", REQUEST_HEADER_UNKNOWN},
        {"no JSON", "nonsense", &usual, one, "", REQUEST_HEADER_UNKNOWN},
        {"nothing", "", &usual, one, "", REQUEST_HEADER_UNKNOWN},
        {"lists that are none", MAP(ONE_CA, "x", "{}", "7", "", ""), &usual, one, CERT("AAAABBBB"),
         REQUEST_HEADER_AGREES},
        {"words that are none", MAP(ONE_CA, "[1,null]", "[null]", "[[]]", "[{}]", ""), &usual, one, CERT("AAAABBBB"),
         REQUEST_HEADER_DIFFERS},
    };

    wider.username = users;
    turned.username = logins;
    wider.n_username = turned.n_username = 2;
    with_uid.uid = uids;
    with_uid.n_uid = 1;
    general.extra_prefix = prefixes;
    general.n_extra_prefix = 2;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct request_header ours = {.headers = rows[i].headers,
                                            .names = rows[i].names,
                                            .ca = slice_str(rows[i].ca),
                                            .ended = has_ended,
                                            .fixed = is_fixed};
        struct err why = {.text = ""};

        is_int(request_header_compare(&ours, slice_str(rows[i].map), &why), rows[i].want, "%s", rows[i].name);
        ok((why.text[0] != '\0') == (rows[i].want != REQUEST_HEADER_AGREES), "%s: %s", rows[i].name, why.text);
    }
}

/* What is to be removed from requests. */
static void named(void)
{
    char many[8192] =
        "{\"data\":{\"requestheader-client-ca-file\":\"x\",\"requestheader-username-headers\":\"[\\\"X-Remote-User\\\"";
    static const char *const kept[] = {
        "Impersonate-User", "Impersonate-Group", "impersonate_uid", "Impersonate-Extra-a",      "Sec-WebSocket-Key",
        "X-Requested-With", "Accept-Language",   "cookie",          "X-Stream-Protocol-Version"};
    const struct request_header ours = {.headers = user_headers_default()};
    struct arena *a = arena_new(1 << 20);
    struct user_headers h = {0};
    struct err why = {.text = ""};

    ok(request_header_named(
           slice_str(MAP(ONE_CA, NAMES, "[\\\"X-Remote-User\\\",\\\"X-Login\\\"]", "[\\\"X-Teams\\\"]",
                         "[\\\"X-More-\\\",\\\"\\\"]", ",\"requestheader-uid-headers\":\"[\\\"X-Id\\\"]\"")),
           a, &h),
       "what they name is read");
    ok(user_header_is_identity(&h, SLICE_LIT("x_login")) && user_header_is_identity(&h, SLICE_LIT("X-Teams")) &&
           user_header_is_identity(&h, SLICE_LIT("X-More-Scopes")) && user_header_is_identity(&h, SLICE_LIT("X-Id")),
       "each of it");
    ok(!user_header_is_identity(&h, SLICE_LIT("Accept")), "and no other, whatever prefix is empty");
    ok(request_header_named(
           slice_str(
               MAP(ONE_CA, NAMES, "[\\\"Impersonate-User\\\",\\\"X-Login\\\"]",
                   "[\\\"IMPERSONATE_GROUP\\\",\\\"Sec-WebSocket-Key\\\",\\\"Cookie\\\"]",
                   "[\\\"X-Stream-\\\",\\\"I\\\",\\\"Impersonate-\\\",\\\"impersonate-Extra-\\\",\\\"Sec-\\\",\\\"X-"
                   "\\\",\\\"Accept\\\",\\\"X-Kube-Extra-\\\"]",
                   ",\"requestheader-uid-headers\":\"[\\\"impersonate-uid\\\"]\"")),
           a, &h),
       "so is what means something else");
    for (size_t i = 0; i < ROWS(kept); i++)
        ok(!user_header_is_identity(&h, slice_str(kept[i])), "%s is not removed for it", kept[i]);
    ok(user_header_is_identity(&h, SLICE_LIT("X-Login")) && user_header_is_identity(&h, SLICE_LIT("x_kube-extra-a")),
       "and the others are");
    ok(!request_header_named(SLICE_LIT("nonsense"), a, &h), "what cannot be read names nothing");
    for (int i = 0; i < 70; i++)
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), ",\\\"X-%d\\\"", i);
    (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "]\"}}");
    is_int(request_header_compare(&ours, slice_str(many), &why), REQUEST_HEADER_DIFFERS, "more than can be removed: %s",
           why.text);
    arena_free(a);
}

static void clients(void)
{
#define CLIENTS(ca) "{\"data\":{\"client-ca-file\":\"" ca "\"}}"
#define THEIR(text) "-----BEGIN CERTIFICATE-----\\n" text "\\n-----END CERTIFICATE-----\\n"
    static const struct {
        const char *name, *ours, *map;
        enum request_header_verdict want;
    } rows[] = {
        {"the same", CERT("AAAABBBB"), CLIENTS(THEIR("AAAA\\nBBBB")), REQUEST_HEADER_AGREES},
        {"two, in another order", CERT("AAAA") CERT("BBBB"), CLIENTS(THEIR("BBBB") THEIR("AAAA")),
         REQUEST_HEADER_AGREES},
        {"one more here", CERT("AAAA") CERT("BBBB"), CLIENTS(THEIR("AAAA")), REQUEST_HEADER_DIFFERS},
        {"one more there", CERT("AAAA"), CLIENTS(THEIR("AAAA") THEIR("BBBB")), REQUEST_HEADER_MORE},
        {"one more here, which has ended", CERT("EEEE") CERT("AAAA"), CLIENTS(THEIR("AAAA")), REQUEST_HEADER_AGREES},
        {"one more there, which has ended", CERT("AAAA"), CLIENTS(THEIR("EEEE") THEIR("AAAA")), REQUEST_HEADER_AGREES},
        {"none here", "", CLIENTS(THEIR("AAAA")), REQUEST_HEADER_MORE},
        {"none there", CERT("AAAA"), "{\"data\":{}}", REQUEST_HEADER_UNKNOWN},
        {"nonsense", CERT("AAAA"), "nonsense", REQUEST_HEADER_UNKNOWN},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct request_header ours = {.client_ca = slice_str(rows[i].ours), .ended = has_ended};
        struct err why = {.text = ""};

        is_int(request_header_client_ca(&ours, slice_str(rows[i].map), &why), rows[i].want, "%s", rows[i].name);
        ok(rows[i].want == REQUEST_HEADER_AGREES || rows[i].want == REQUEST_HEADER_UNKNOWN || why.text[0] != '\0',
           "%s: %s", rows[i].name, why.text);
    }
}

/* Where the two sides share no CA of clients, whoever gets in here is nobody there. One that they share is enough. */
static void foreign_clients(void)
{
    static const struct {
        const char *name, *client_ca, *map;
        enum request_header_verdict want;
    } rows[] = {
        {"the same", CERT("AAAA"), "\"client-ca-file\":\"" THEIR("AAAA") "\"", REQUEST_HEADER_AGREES},
        {"one shared while a CA is replaced", CERT("CCCC") CERT("AAAA"),
         "\"client-ca-file\":\"" THEIR("AAAA") THEIR("BBBB") "\"", REQUEST_HEADER_AGREES},
        {"another", CERT("CCCC"), "\"client-ca-file\":\"" THEIR("AAAA") THEIR("BBBB") "\"", REQUEST_HEADER_DIFFERS},
        {"one shared, and one that has ended", CERT("EEEE") CERT("AAAA"), "\"client-ca-file\":\"" THEIR("AAAA") "\"",
         REQUEST_HEADER_AGREES},
        {"only what has ended", CERT("EEEE"), "\"client-ca-file\":\"" THEIR("AAAA") "\"", REQUEST_HEADER_AGREES},
        {"none here", "", "\"client-ca-file\":\"" THEIR("AAAA") "\"", REQUEST_HEADER_AGREES},
        {"none there", CERT("AAAA"), "\"x\":\"y\"", REQUEST_HEADER_AGREES},
    };
    static const char *const names[] = {NULL};

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct request_header ours = {.headers = user_headers_default(),
                                            .names = names,
                                            .ca = slice_str(CERT("FFFF")),
                                            .client_ca = slice_str(rows[i].client_ca),
                                            .ended = has_ended};
        struct err why = {.text = ""};
        char map[1024];

        (void)snprintf(map, sizeof(map), "{\"data\":{%s,\"requestheader-client-ca-file\":\"%s\"}}", rows[i].map,
                       THEIR("FFFF"));
        is_int(request_header_compare(&ours, slice_str(map), &why), rows[i].want, "clients' CAs: %s", rows[i].name);
        ok((strstr(why.text, "client-ca-file: no API server has") != NULL) == (rows[i].want == REQUEST_HEADER_DIFFERS),
           "%s: %s", rows[i].name, why.text);
        is_int(request_header_clients(&ours, slice_str(map)),
               strstr(map, "\"client-ca-file") != NULL ? rows[i].want : REQUEST_HEADER_UNKNOWN, "alone: %s",
               rows[i].name);
    }
    is_int(request_header_clients(&(struct request_header){.client_ca = SLICE_LIT(CERT("AAAA"))}, SLICE_LIT("none")),
           REQUEST_HEADER_UNKNOWN, "no ConfigMap");
}

int main(void)
{
    compared();
    named();
    clients();
    foreign_clients();
    return tap_end();
}
