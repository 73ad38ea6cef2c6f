/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/user.h"

#include <stdio.h>

#include "base/buf.h"
#include "lib/tap.h"

static const struct slice custom_user[] = {SLICE_LIT("X-Who"), SLICE_LIT("X-Who-Else")};
static const struct slice custom_uid[] = {SLICE_LIT("X-Id")};
static const struct slice custom_group[] = {SLICE_LIT("X-Team"), SLICE_LIT("X-Remote-Group")};
static const struct slice custom_extra[] = {SLICE_LIT("X-More-"), SLICE_LIT("X-Remote-Extra-")};
static const struct user_headers custom = {
    .username = custom_user,
    .uid = custom_uid,
    .group = custom_group,
    .extra_prefix = custom_extra,
    .n_username = 2,
    .n_uid = 1,
    .n_group = 2,
    .n_extra_prefix = 2,
};

static void test_recognition(void)
{
    static const struct {
        const char *name;
        bool standard, custom;
    } rows[] = {
        {"X-Remote-User", true, true},
        {"x-remote-user", true, true},
        {"X-REMOTE-USER", true, true},
        {"X_Remote_User", true, true},
        {"x_remote-user", true, true},
        {"X-Remote-User ", true, true},
        {"X-Remote-Uid", true, true},
        {"X-Remote-Group", true, true},
        {"X-Remote-Extra-", true, true},
        {"X-Remote-Extra-Scopes", true, true},
        {"x_remote_extra_scopes", true, true},
        {"x-remote-extra-acme.com%2Fproject", true, true},
        {"X-Kubernetes-APIServer-Rerouted", true, true},
        {"x-kubernetes-apiserver-rerouted", true, true},
        {"x-kubernetes-peer-proxied", true, true},
        {"X_Kubernetes_Peer_Proxied", true, true},
        {"X-Who", false, true},
        {"x_who", false, true},
        {"x-who-else", false, true},
        {"X-Id", false, true},
        {"X-Team", false, true},
        {"x-more-things", false, true},
        {"X-More", false, false},
        {"X-Remote-Extra", false, false},
        {"X-Remote-Users", false, false},
        {"X-Remote", false, false},
        {"Impersonate-User", false, false},
        {"Authorization", false, false},
        {"", false, false},
    };
    struct user_headers empty_prefix = *user_headers_default();
    const struct slice nothing = SLICE_LIT("");

    for (size_t i = 0; i < ROWS(rows); i++) {
        is_int(user_header_is_identity(user_headers_default(), slice_str(rows[i].name)), rows[i].standard,
               "standard names: '%s'", rows[i].name);
        is_int(user_header_is_identity(&custom, slice_str(rows[i].name)), rows[i].custom, "configured names: '%s'",
               rows[i].name);
    }
    for (size_t i = 0; i < ROWS(rows); i++)
        ok(user_header_is_identity(&custom, slice_str(rows[i].name)) ||
               user_header_field(&custom, slice_str(rows[i].name)) == USER_FIELD_NONE,
           "what says who asks is an identity header: '%s'", rows[i].name);
    is_int(user_header_field(user_headers_default(), SLICE_LIT("x_remote-USER")), USER_FIELD_NAME, "a user");
    is_int(user_header_field(user_headers_default(), SLICE_LIT("X-Remote-Uid")), USER_FIELD_OTHER, "a UID");
    is_int(user_header_field(user_headers_default(), SLICE_LIT("x-kubernetes-peer-proxied")), USER_FIELD_NONE,
           "a mark says nothing of who asks");
    ok(user_headers_same(user_headers_default(), user_headers_default()) &&
           !user_headers_same(user_headers_default(), &custom),
       "names are compared");
    empty_prefix.extra_prefix = &nothing;
    ok(!user_header_is_identity(&empty_prefix, SLICE_LIT("Accept")), "an empty prefix does not take every header");
    ok(user_header_marks_loop(SLICE_LIT("X-Kubernetes-Apiserver-Rerouted"), SLICE_LIT("true")), "KEP's mark");
    ok(user_header_marks_loop(SLICE_LIT("X-Kubernetes-Peer-Proxied"), SLICE_LIT("true")), "kube-apiserver's mark");
    ok(!user_header_marks_loop(SLICE_LIT("x-kubernetes-peer-proxied"), SLICE_LIT("True")), "the value is exact");
    ok(!user_header_marks_loop(SLICE_LIT("x-kubernetes-peer-proxied"), SLICE_LIT("")), "a value is needed");
    ok(!user_header_marks_loop(SLICE_LIT("x_kubernetes_peer_proxied"), SLICE_LIT("true")),
       "odd spellings mark nothing");
}

static void test_escaping(struct arena *a)
{
    static const struct {
        const char *key, *escaped;
    } rows[] = {
        {"authentication.kubernetes.io/credential-id", "authentication.kubernetes.io%2Fcredential-id"},
        {"acme.com/x%y", "acme.com%2Fx%25y"},
        {"\xc3\xa9", "%C3%A9"},
        {"plain", "plain"},
        {"!#$&'*+-.^_`|~09az", "!#$&'*+-.^_`|~09az"},
        {"a b", "a%20b"},
        {"a:b\"c(d)", "a%3Ab%22c%28d%29"},
        {"\x01\x7f", "%01%7F"},
        {"", ""},
    };
    static const struct {
        const char *escaped, *key;
    } odd[] = {
        {"Scopes", "scopes"}, {"ACME%2fX", "acme/x"},   {"a%2", "a%2"},       {"A%ZZb", "a%zzb"},
        {"%", "%"},           {"A%C3%89", "a\xc3\x89"}, {"a%25b%", "a%25b%"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        is_slice(user_escape_key(a, slice_str(rows[i].key)), rows[i].escaped, "escape row %zu", i);
        is_slice(user_unescape_key(a, slice_str(rows[i].escaped)), rows[i].key, "and back, row %zu", i);
    }
    for (size_t i = 0; i < ROWS(odd); i++)
        is_slice(user_unescape_key(a, slice_str(odd[i].escaped)), odd[i].key, "unescape '%s'", odd[i].escaped);
}

static bool emit(void *arg, struct slice name, struct slice value)
{
    struct buf *out = arg;

    buf_append(out, name);
    buf_append_str(out, ": ");
    buf_append(out, value);
    return buf_append_char(out, '\n');
}

static bool refuse(void *arg, struct slice name, struct slice value)
{
    (void)arg;
    (void)name;
    (void)value;
    return false;
}

static void test_encode(struct arena *a)
{
    const struct slice groups[] = {SLICE_LIT("system:masters"), SLICE_LIT(""), SLICE_LIT("b,c")};
    const struct user_extra extras[] = {{SLICE_LIT("a/b"), SLICE_LIT("1")}, {SLICE_LIT("a/b"), SLICE_LIT("")}};
    const struct user_extra bare = {SLICE_LIT(""), SLICE_LIT("v\tw")};
    struct user u = {SLICE_LIT("kim"), SLICE_LIT("42"), groups, 3, extras, 2};
    struct buf out;

    buf_init(&out, 4096);
    is_int(user_encode(&u, user_headers_default(), a, emit, &out), USER_OK, "encodes");
    is_slice(buf_slice(&out),
             "X-Remote-User: kim\nX-Remote-Uid: 42\nX-Remote-Group: system:masters\nX-Remote-Group: b,c\n"
             "X-Remote-Extra-a%2Fb: 1\nX-Remote-Extra-a%2Fb: \n",
             "standard names, empty group left out");
    buf_reset(&out);
    is_int(user_encode(&u, &custom, a, emit, &out), USER_OK, "encodes under configured names");
    is_slice(buf_slice(&out),
             "X-Who: kim\nX-Id: 42\nX-Team: system:masters\nX-Team: b,c\nX-More-a%2Fb: 1\nX-More-a%2Fb: \n",
             "the first of each");
    is_int(user_encode(&u, &custom, a, refuse, NULL), USER_NO_MEMORY, "a sink without room");
    buf_reset(&out);
    u = (struct user){.name = SLICE_LIT("k\tim"), .extras = &bare, .n_extras = 1};
    is_int(user_encode(&u, user_headers_default(), a, emit, &out), USER_OK, "inner tabs, an empty key");
    is_slice(buf_slice(&out), "X-Remote-User: k\tim\nX-Remote-Extra-: v\tw\n", "as kube-apiserver takes them");
    buf_free(&out);
}

static void test_unencodable(struct arena *a)
{
    static const char *const bad[] = {"", "a\nb", "a\r", " a", "a ", "\t", "\x7f", "a\x01", "\ta", "a\t"};
    struct buf out;
    struct slice group;
    struct user_extra extra = {SLICE_LIT("k"), SLICE_LIT("v")};

    buf_init(&out, 4096);
    for (size_t i = 0; i < ROWS(bad); i++) {
        struct user u = {.name = slice_str(bad[i])};

        is_int(user_encode(&u, user_headers_default(), a, emit, &out), USER_UNENCODABLE, "user name %zu", i);
        if (i == 0)
            continue;
        group = slice_str(bad[i]);
        u = (struct user){.name = SLICE_LIT("a"), .groups = &group, .n_groups = 1};
        is_int(user_encode(&u, user_headers_default(), a, emit, &out), USER_UNENCODABLE, "group %zu", i);
        u = (struct user){.name = SLICE_LIT("a"), .uid = slice_str(bad[i])};
        is_int(user_encode(&u, user_headers_default(), a, emit, &out), USER_UNENCODABLE, "uid %zu", i);
        extra.value = slice_str(bad[i]);
        u = (struct user){.name = SLICE_LIT("a"), .extras = &extra, .n_extras = 1};
        is_int(user_encode(&u, user_headers_default(), a, emit, &out), USER_UNENCODABLE, "extra value %zu", i);
    }
    extra = (struct user_extra){SLICE_LIT("Key"), SLICE_LIT("v")};
    is_int(user_encode(&(struct user){.name = SLICE_LIT("a"), .extras = &extra, .n_extras = 1}, user_headers_default(),
                       a, emit, &out),
           USER_UNENCODABLE, "a key with capitals would not come back");
    is_u64(buf_len(&out), 0, "nothing was emitted");
    buf_free(&out);
}

struct header {
    const char *name, *value;
};

static const char *text_of(const struct user *u, struct buf *out)
{
    buf_reset(out);
    buf_printf(out, "%.*s/%.*s", (int)u->name.n, u->name.p, (int)u->uid.n, u->uid.p);
    for (size_t i = 0; i < u->n_groups; i++)
        buf_printf(out, " [%.*s]", (int)u->groups[i].n, u->groups[i].p);
    for (size_t i = 0; i < u->n_extras; i++)
        buf_printf(out, " %.*s=%.*s", (int)u->extras[i].key.n, u->extras[i].key.p, (int)u->extras[i].value.n,
                   u->extras[i].value.p);
    buf_append_char(out, '\0');
    return buf_slice(out).p;
}

static void test_decode(struct arena *a)
{
    static const struct {
        const char *name;
        bool custom;
        struct header headers[8];
        const char *want; /* NULL: none */
    } rows[] = {
        {"all kinds",
         false,
         {{"x-remote-user", "kim"},
          {"X-Remote-Group", "a"},
          {"X-Remote-Group", ""},
          {"X-REMOTE-GROUP", "b,c"},
          {"X-Remote-Extra-Acme.com%2FX", "1"},
          {"X-Remote-Extra-acme.com%2fx", "2"}},
         "kim/ [a] [b,c] acme.com/x=1 acme.com/x=2"},
        {"no user", false, {{"X-Remote-Group", "a"}}, NULL},
        {"empty user", false, {{"X-Remote-User", ""}}, NULL},
        {"only the first line counts", false, {{"X-Remote-User", ""}, {"X-Remote-User", "b"}}, NULL},
        {"first of two lines", false, {{"X-Remote-User", "a"}, {"X-Remote-User", "b"}}, "a/"},
        {"uid is not configured by default", false, {{"X-Remote-User", "a"}, {"X-Remote-Uid", "7"}}, "a/"},
        {"odd spelling is not read", false, {{"X_Remote_User", "a"}}, NULL},
        {"configured order beats arrival", true, {{"X-Who-Else", "b"}, {"X-Who", "a"}, {"X-Id", "7"}}, "a/7"},
        {"second name if the first is empty", true, {{"X-Who", ""}, {"X-Who-Else", "b"}}, "b/"},
        {"standard user name is not configured", true, {{"X-Remote-User", "a"}}, NULL},
        {"groups in configured order", true, {{"X-Remote-Group", "2"}, {"X-Team", "1"}, {"X-Who", "a"}}, "a/ [1] [2]"},
        {"extras of both prefixes", true, {{"X-Remote-Extra-B", "2"}, {"X-More-A", "1"}, {"X-Who", "a"}}, "a/ a=1 b=2"},
    };
    struct buf out;
    struct user u;

    buf_init(&out, 4096);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct user_decoder *d = user_decoder_new(a, rows[i].custom ? &custom : user_headers_default());

        for (const struct header *h = rows[i].headers; d != NULL && h->name != NULL; h++)
            if (!user_decoder_field(d, slice_str(h->name), slice_str(h->value)))
                tap_bail("no memory");
        is_int(user_decoder_end(d, &u), rows[i].want == NULL ? USER_NONE : USER_OK, "%s: result", rows[i].name);
        if (rows[i].want != NULL)
            is_str(text_of(&u, &out), rows[i].want, "%s", rows[i].name);
    }
    buf_free(&out);
}

static bool write_down(void *arg, struct slice name, struct slice value)
{
    return buf_printf(arg, "%.*s: %.*s\n", (int)name.n, name.p, (int)value.n, value.p);
}

/* With as much memory as there is: the whole user or none, never one with fewer groups. */
static void test_scarce_memory(void)
{
    static const char *const lines[][2] = {
        {"X-Remote-User", "alice"}, {"X-Remote-Group", "dev"},      {"X-Remote-Extra-Acme.com%2fProject", "blue"},
        {"X-Remote-Group", "ops"},  {"X-Remote-Extra-Scopes", "a"}, {"X-Remote-Extra-Zone", "b"},
        {"X-Remote-Group", "qa"},
    };
    static const char want[] = "alice/ [dev] [ops] [qa] acme.com/project=blue scopes=a zone=b";
    static const char names[] = "X-Remote-User: alice\nX-Remote-Group: dev\nX-Remote-Group: ops\n"
                                "X-Remote-Group: qa\nX-Remote-Extra-acme.com%2Fproject: blue\n"
                                "X-Remote-Extra-scopes: a\nX-Remote-Extra-zone: b\n";
    unsigned decoded = 0, encoded = 0, refused = 0, wrong = 0;
    struct buf out;

    buf_init(&out, 4096);
    for (size_t size = 8; size < 2000; size += 8) {
        struct arena *a = arena_new(size), *b = arena_new(size);
        struct user_decoder *d = user_decoder_new(a, user_headers_default());
        bool fine = d != NULL;
        enum user_result result = USER_NO_MEMORY;
        struct user u;

        for (size_t i = 0; fine && i < ROWS(lines); i++)
            fine = user_decoder_field(d, slice_str(lines[i][0]), slice_str(lines[i][1]));
        if (fine)
            result = user_decoder_end(d, &u);
        if (result == USER_OK) {
            decoded++;
            wrong += strcmp(text_of(&u, &out), want) != 0;
            buf_reset(&out);
            result = user_encode(&u, user_headers_default(), b, write_down, &out);
            encoded += result == USER_OK;
            wrong += result == USER_OK && !slice_eq(buf_slice(&out), slice_str(names));
        }
        refused += result == USER_NO_MEMORY;
        wrong += result != USER_OK && result != USER_NO_MEMORY;
        arena_free(a);
        arena_free(b);
    }
    buf_free(&out);
    ok(decoded > 100 && encoded > 100 && refused > 20, "%u decoded, %u encoded, %u refused", decoded, encoded, refused);
    is_u64(wrong, 0, "each whole, or refused for want of memory");
}

/* One name for each: what stands behind it in memory is none. */
static void test_standard(void)
{
    const struct user_headers *h = user_headers_default();

    ok(h->n_username == 1 && slice_eq(h->username[0], SLICE_LIT("X-Remote-User")), "the user's name");
    ok(h->n_group == 1 && slice_eq(h->group[0], SLICE_LIT("X-Remote-Group")), "a group");
    ok(h->n_extra_prefix == 1 && slice_eq(h->extra_prefix[0], SLICE_LIT("X-Remote-Extra-")), "an extra");
    is_u64(h->n_uid, 0, "the UID only where it is configured");
}

/* What may be a header for identities, and is removed from requests then. */
static void test_names(void)
{
    static const struct {
        const char *name;
        enum user_name as_name, as_prefix;
    } rows[] = {
        {"X-Remote-User", USER_NAME_FINE, USER_NAME_GENERAL},
        {"X-Remote-Extra-", USER_NAME_FINE, USER_NAME_FINE},
        {"X-Kube-Extra-", USER_NAME_FINE, USER_NAME_FINE},
        {"x_kube_extra_", USER_NAME_FINE, USER_NAME_FINE},
        {"X-a-", USER_NAME_FINE, USER_NAME_FINE},
        {"Imperial-", USER_NAME_FINE, USER_NAME_FINE},
        {"Impersonated-", USER_NAME_FINE, USER_NAME_FINE},
        {"Impersonate", USER_NAME_FINE, USER_NAME_RESERVED},
        {"Impersonate-", USER_NAME_RESERVED, USER_NAME_RESERVED},
        {"IMPERSONATE_", USER_NAME_RESERVED, USER_NAME_RESERVED},
        {"impersonate_User", USER_NAME_RESERVED, USER_NAME_RESERVED},
        {"Impersonate-Extra-", USER_NAME_RESERVED, USER_NAME_RESERVED},
        {"I", USER_NAME_FINE, USER_NAME_RESERVED},
        {"sec_", USER_NAME_FINE, USER_NAME_RESERVED},
        {"Sec-WebSocket-Key", USER_NAME_RESERVED, USER_NAME_RESERVED},
        {"X", USER_NAME_FINE, USER_NAME_GENERAL},
        {"X-", USER_NAME_FINE, USER_NAME_GENERAL},
        {"Xx-", USER_NAME_FINE, USER_NAME_GENERAL},
        {"X-Extra", USER_NAME_FINE, USER_NAME_GENERAL},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        is_int(user_name_judge(slice_str(rows[i].name), false), rows[i].as_name, "a header %s", rows[i].name);
        is_int(user_name_judge(slice_str(rows[i].name), true), rows[i].as_prefix, "a prefix %s", rows[i].name);
    }
}

/* What is in general use for something else, and not removed because a ConfigMap names it. */
static void test_used(void)
{
    static const struct {
        const char *name;
        bool as_name, as_prefix;
    } rows[] = {
        {"Cookie", true, true},
        {"cookie", true, true},
        {"Cookies", false, false},
        {"accept_language", true, true},
        {"Accept-", true, true},
        {"Acceptable", false, false},
        {"Acc", false, true},
        {"X-Stream-Protocol-Version", true, true},
        {"X-Stream-", false, true},
        {"x_stream_", false, true},
        {"Kubectl-Session", true, true},
        {"sec_websocket_key", true, true},
        {"X-Forwarded-", false, true},
        {"X-Forwarded-User", false, false},
        {"X-Forwarded-Host", true, true},
        {"X-Real-Ip-Extra-", false, false},
        {"X-Remote-Extra-", false, false},
        {"X-Login", false, false},
        {"Remote-User", false, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        ok(user_name_is_used(slice_str(rows[i].name), false) == rows[i].as_name, "a header %s", rows[i].name);
        ok(user_name_is_used(slice_str(rows[i].name), true) == rows[i].as_prefix, "a prefix %s", rows[i].name);
    }
}

int main(void)
{
    test_names();
    test_used();
    test_standard();
    struct arena *a = arena_new(1 << 20);

    test_scarce_memory();

    test_recognition();
    test_escaping(a);
    test_encode(a);
    test_unencodable(a);
    test_decode(a);
    arena_free(a);
    return tap_end();
}
