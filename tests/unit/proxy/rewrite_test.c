/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes to the target: identity headers in every spelling are gone before ours are added.
 */
#include "proxy/rewrite.h"

#include "back/claims.h"
#include "base/limits.h"
#include "lib/tap.h"
#include "net/loop.h"

static void head_of(struct arena *a, const char *lines, struct http_head *h)
{
    struct slice rest = slice_str(lines), line;

    if (!http_head_init(h, a, 8))
        tap_bail("out of memory");
    h->method = SLICE_LIT("GET");
    h->method_id = HTTP_GET;
    h->target = SLICE_LIT("/apis/x%2Fy?b=1&a=2");
    while (slice_split(&rest, '\n', &line)) {
        struct slice value = line, name;

        if (line.n == 0)
            continue;
        (void)slice_split(&value, ':', &name);
        if (!http_head_add(h, a, name, slice_trim(value)))
            tap_bail("out of memory");
    }
}

static size_t count_of(const struct http_head *h, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        n += slice_ieq(h->fields[i].name, slice_str(name));
    return n;
}

static struct slice value_of(const struct http_head *h, const char *name)
{
    const struct http_field *f = http_head_find_name(h, slice_str(name));

    return f == NULL ? SLICE_NONE : f->value;
}

static void rewrite(struct arena *a, const char *lines, const struct authn *au, enum rewrite_target target,
                    struct http_head *out)
{
    struct http_head head;
    struct rewrite_in in = {.head = &head,
                            .authn = au,
                            .names.headers = user_headers_default(),
                            .target = target,
                            .client_ip = "10.0.0.9",
                            .believes_client = au->front_proxy};

    head_of(a, lines, &head);
    if (rewrite_request(&in, a, out) != REWRITE_OK)
        tap_bail("rewrite failed");
}

/* With our own part switched off. */
static void rewrite_off(struct arena *a, const struct authn *au, struct http_head *out)
{
    struct http_head head;
    struct rewrite_in in = {.head = &head,
                            .authn = au,
                            .names.headers = user_headers_default(),
                            .target = REWRITE_LOCAL,
                            .client_ip = "10.0.0.9",
                            .may_send_on = true};

    head_of(a, "Host: k", &head);
    if (rewrite_request(&in, a, out) != REWRITE_OK)
        tap_bail("rewrite failed");
}

/* clang-format off */
static const char *const hostile[] = {
    "X-Remote-User: admin",          "x-remote-user: admin",
    "X-REMOTE-USER: admin",          "X_Remote_User: admin",
    "X-Remote_User: admin",          "x_remote-group: system:masters",
    "X-Remote-Group: system:masters", "X-Remote-Uid: 1",
    "X-Remote-Extra-scopes: all",    "X_Remote_Extra_scopes: all",
    "X-Kubernetes-APIServer-Rerouted: true",
    "x_kubernetes_peer_proxied: true",
    "X-Remote-User: a\nX-Remote-User: b",
    "Connection: X-Remote-User\nX-Remote-User: a",
};
/* clang-format on */

static void test_stripping(void)
{
    struct authn pass = {.kind = AUTHN_PASS};
    struct user jane = {.name = SLICE_LIT("jane")};
    struct authn asserted = {.kind = AUTHN_ASSERT, .user = jane};

    for (size_t i = 0; i < ROWS(hostile); i++) {
        struct arena *a = arena_new(1 << 20);
        struct http_head out;
        size_t claims = 0;

        rewrite(a, hostile[i], &pass, REWRITE_LOCAL, &out);
        for (size_t k = 0; k < out.n_fields; k++)
            claims += slice_has_iprefix(out.fields[k].name, SLICE_LIT("X-Remote")) ||
                      slice_has_iprefix(out.fields[k].name, SLICE_LIT("X_")) ||
                      slice_has_iprefix(out.fields[k].name, SLICE_LIT("X-Kubernetes-APIServer"));
        is_u64(claims, 0, "gone: %s", hostile[i]);
        rewrite(a, hostile[i], &asserted, REWRITE_PEER, &out);
        is_u64(count_of(&out, "X-Remote-User"), 1, "one user with: %s", hostile[i]);
        is_slice(value_of(&out, "X-Remote-User"), "jane", "ours, with: %s", hostile[i]);
        is_u64(count_of(&out, "X-Remote-Group"), 0, "no group with: %s", hostile[i]);
        arena_free(a);
    }
}

static void test_credentials(void)
{
    struct arena *a = arena_new(1 << 20);
    struct authn pass = {.kind = AUTHN_PASS}, asserted = {.kind = AUTHN_ASSERT, .user = {.name = SLICE_LIT("jane")}};
    struct http_head out;

    rewrite(a, "Authorization: Bearer t\nImpersonate-User: bob", &pass, REWRITE_LOCAL, &out);
    is_slice(value_of(&out, "Authorization"), "Bearer t", "a token goes on as it is");
    is_slice(value_of(&out, "Impersonate-User"), "bob", "impersonation is the target's business");
    is_u64(count_of(&out, "X-Remote-User"), 0, "with it nobody is asserted");
    rewrite(a, "Authorization: Bearer t\nImpersonate-User: bob", &asserted, REWRITE_LOCAL, &out);
    is_u64(count_of(&out, "Authorization"), 0, "beside an asserted user the token is dropped");
    is_slice(value_of(&out, "Impersonate-User"), "bob", "impersonation stays");
    arena_free(a);
}

static void test_marks_and_forwarding(void)
{
    struct arena *a = arena_new(1 << 20);
    struct authn pass = {.kind = AUTHN_PASS}, sent_on = {.kind = AUTHN_PASS, .rerouted = true};
    struct http_head out;

    rewrite(a, "Host: k\nX-Forwarded-For: 1.2.3.4\nAudit-ID: abc\nConnection: keep-alive, foo\nFoo: 1", &pass,
            REWRITE_LOCAL, &out);
    is_slice(out.target, "/apis/x%2Fy?b=1&a=2", "the target keeps its bytes");
    is_slice(value_of(&out, "X-Forwarded-For"), "10.0.0.9", "a client cannot ask in another's name");
    is_u64(count_of(&out, "X-Forwarded-For"), 1, "in one line");
    is_slice(value_of(&out, "Audit-ID"), "abc", "the audit ID goes on");
    is_slice(value_of(&out, "Host"), "k", "the host goes on");
    is_u64(count_of(&out, "Foo"), 0, "what Connection names does not");
    is_slice(value_of(&out, "x-kubernetes-peer-proxied"), "true", "the local server shall not send it on");
    is_u64(count_of(&out, "X-Kubernetes-APIServer-Rerouted"), 0, "the KEP's mark is for peers");
    rewrite(a, "", &pass, REWRITE_PEER, &out);
    is_slice(value_of(&out, "X-Kubernetes-APIServer-Rerouted"), "true", "a peer gets the KEP's mark");
    is_slice(value_of(&out, "x-kubernetes-peer-proxied"), "true", "and kube-apiserver's");
    rewrite_off(a, &pass, &out);
    is_u64(count_of(&out, "x-kubernetes-peer-proxied"), 0, "switched off, we leave it to the local server");
    rewrite_off(a, &sent_on, &out);
    is_slice(value_of(&out, "x-kubernetes-peer-proxied"), "true", "but not what a peer has sent on");
    arena_free(a);
}

/* What kube-apiserver's audit log takes for source addresses. */
static void test_source_addresses(void)
{
    static const char lines[] = "Host: k\nX-Forwarded-For: 1.2.3.4\nx-forwarded-for: 5.6.7.8\nx-real-ip: 1.2.3.4\n"
                                "X-Real-IP: 1.2.3.4\nForwarded: for=1.2.3.4\nX-Real-Ipx: 1\nForwarder: 1";
    struct authn client = {.kind = AUTHN_PASS}, peer = {.kind = AUTHN_PASS, .front_proxy = true};
    const struct authn *const who[] = {&client, &peer};

    for (size_t i = 0; i < ROWS(who); i++) {
        struct arena *a = arena_new(1 << 20);
        struct http_head out;

        rewrite(a, lines, who[i], REWRITE_LOCAL, &out);
        is_slice(value_of(&out, "X-Forwarded-For"), who[i]->front_proxy ? "1.2.3.4, 5.6.7.8, 10.0.0.9" : "10.0.0.9",
                 "%s: its address is the last", who[i]->front_proxy ? "peer" : "client");
        is_u64(count_of(&out, "X-Forwarded-For"), 1, "in one line");
        is_u64(count_of(&out, "X-Real-Ip") + count_of(&out, "Forwarded"), 0, "and nothing else says one");
        is_u64(count_of(&out, "X-Real-Ipx") + count_of(&out, "Forwarder"), 2, "other names stay");
        arena_free(a);
    }
}

static void test_unencodable(void)
{
    static const char *const names[] = {"a\nb", "a\rb", " a", "a ", ""};

    for (size_t i = 0; i < ROWS(names); i++) {
        struct arena *a = arena_new(1 << 20);
        struct authn au = {.kind = AUTHN_ASSERT, .user = {.name = slice_str(names[i])}};
        struct http_head head, out;
        struct rewrite_in in = {.head = &head,
                                .authn = &au,
                                .names.headers = user_headers_default(),
                                .target = REWRITE_LOCAL,
                                .client_ip = "::1"};

        head_of(a, "", &head);
        is_int(rewrite_request(&in, a, &out), REWRITE_UNENCODABLE, "name %zu is refused, not mended", i);
        arena_free(a);
    }
}

/* As many fields as a client may send, and as many groups as a certificate may name. */
static void test_most_fields(void)
{
    enum { GROUPS = 64 };
    struct arena *a = arena_new(1 << 20);
    struct slice groups[GROUPS];
    struct user_extra extra = {SLICE_LIT("authentication.kubernetes.io/credential-id"), SLICE_LIT("X509SHA256=0")};
    struct authn au = {.kind = AUTHN_ASSERT, .user = {.name = SLICE_LIT("u"), .uid = SLICE_LIT("1")}};
    struct http_head head, out;
    struct rewrite_in in = {.head = &head,
                            .authn = &au,
                            .names.headers = user_headers_default(),
                            .target = REWRITE_PEER,
                            .upgrade = true,
                            .client_ip = "::1"};

    au.user.groups = groups;
    au.user.n_groups = GROUPS;
    au.user.extras = &extra;
    au.user.n_extras = 1;
    for (size_t i = 0; i < GROUPS; i++)
        groups[i] = SLICE_LIT("g");
    head_of(a, "Upgrade: websocket\nConnection: upgrade\n", &head);
    while (head.n_fields < LIMIT_HEAD_FIELDS)
        if (!http_head_add(&head, a, SLICE_LIT("X-Many"), SLICE_LIT("x")))
            tap_bail("out of memory");
    is_int(rewrite_request(&in, a, &out), REWRITE_OK, "ours do not count against the client's");
    is_u64(count_of(&out, "X-Remote-Group"), GROUPS, "all groups");
    is_u64(count_of(&out, "X-Many"), LIMIT_HEAD_FIELDS - 2, "all fields");
    arena_free(a);
}

/* What API servers name besides, whatever it is configured here. */
static void test_further_names(void)
{
    static const struct slice teams = SLICE_LIT("X-Teams"), more[] = {SLICE_LIT("X-More-"), SLICE_LIT("")};
    const struct user_headers also = {.group = &teams, .n_group = 1, .extra_prefix = more, .n_extra_prefix = 2};
    struct arena *a = arena_new(1 << 20);
    struct authn au = {.kind = AUTHN_ASSERT, .user = {.name = SLICE_LIT("u")}};
    struct http_head head, out;
    struct rewrite_in in = {.head = &head,
                            .authn = &au,
                            .names.headers = user_headers_default(),
                            .names.also = &also,
                            .target = REWRITE_LOCAL,
                            .client_ip = "::1"};

    head_of(a, "X-Teams: forged\nx_teams: forged\nX-MORE-Scopes: forged\nX-Remote-Group: forged\nX-Fine: yes", &head);
    is_int(rewrite_request(&in, a, &out), REWRITE_OK, "rewritten");
    is_u64(count_of(&out, "X-Teams") + count_of(&out, "x_teams") + count_of(&out, "X-More-Scopes") +
               count_of(&out, "X-Remote-Group"),
           0, "names that only the API servers have are removed");
    is_u64(count_of(&out, "X-Fine"), 1, "and no others");
    ok(rewrite_trailers(&head, &in.names, a, &out), "trailers");
    is_u64(out.n_fields, 1, "likewise");
    arena_free(a);
}

/* Nobody speaks as an mvproxy but us; only the token that looks for a loop goes round. */
static void test_own_names(void)
{
    static const char lines[] =
        "X-Mvproxy-If-Ready: true\nx-mvproxy-may-deny: true\nX-Mvproxy-Rerouted: a\nx_mvproxy_hop: b\n"
        "X-MVPROXY-: c\nX-Mvproxy_Version: d\nX_Mvproxy_Loop_Check: e\nX-Mvproxy: stays\n"
        "X-Mvproxy-Loop-Check: 0123";
    struct authn client = {.kind = AUTHN_PASS}, peer = {.kind = AUTHN_PASS, .front_proxy = true, .rerouted = true};
    const struct authn *const who[] = {&client, &peer};

    for (size_t i = 0; i < 2 * ROWS(who); i++) {
        struct arena *a = arena_new(1 << 20);
        struct http_head head, out;
        struct rewrite_names names = {.headers = user_headers_default()};
        size_t left = 0;

        rewrite(a, lines, who[i / 2], i % 2 == 0 ? REWRITE_LOCAL : REWRITE_PEER, &out);
        for (size_t k = 0; k < out.n_fields; k++)
            left += slice_has_iprefix(out.fields[k].name, SLICE_LIT("X-Mvproxy")) ||
                    slice_has_iprefix(out.fields[k].name, SLICE_LIT("X_"));
        is_u64(left, 2, "two are left");
        is_slice(value_of(&out, "X-Mvproxy"), "stays", "one that is none");
        is_slice(value_of(&out, "X-Mvproxy-Loop-Check"), "0123", "and the token");
        head_of(a, lines, &head);
        ok(rewrite_trailers(&head, &names, a, &out), "trailers");
        is_u64(out.n_fields, 1, "no token is in trailers");
        arena_free(a);
    }
}

static void later_names(const struct http_head *head, void *arg, struct back_claims *out)
{
    (void)arg;
    out->users = out->others = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        out->users += slice_ieq(head->fields[i].name, SLICE_LIT("X-Former-User"));
        out->others += slice_ieq(head->fields[i].name, SLICE_LIT("X-Later-Group"));
    }
}

/* What the back would withhold, by names of before a reload and of after it, is not left for it to find. */
static void test_names_of_the_back(void)
{
    struct arena *a = arena_new(1 << 20);
    struct loop *loop = loop_new(NULL);
    struct back *back = back_new(loop, NULL);
    struct authn au = {.kind = AUTHN_PASS};
    struct http_head head, out;
    struct back_claims left = {7, 7};
    struct rewrite_in in = {.head = &head,
                            .authn = &au,
                            .names = {.headers = user_headers_default(), .back = back},
                            .target = REWRITE_LOCAL,
                            .client_ip = "::1"};

    head_of(a, "X-Former-User: forged\nx-later-group: forged\nX-Fine: yes", &head);
    is_int(rewrite_request(&in, a, &out), REWRITE_OK, "rewritten");
    is_u64(count_of(&out, "X-Former-User"), 1, "the back withholds nothing: the names are anybody's");
    back_set_claims(back, later_names, NULL);
    is_int(rewrite_request(&in, a, &out), REWRITE_OK, "rewritten again");
    later_names(&out, NULL, &left);
    is_u64(left.users + left.others, 0, "nothing is left that it would withhold");
    is_u64(count_of(&out, "X-Fine"), 1, "all else is");
    ok(rewrite_trailers(&head, &in.names, a, &out), "trailers");
    is_u64(out.n_fields, 1, "likewise");
    back_free(back);
    loop_free(loop);
    arena_free(a);
}

static void test_response(void)
{
    struct arena *a = arena_new(1 << 20);
    struct http_head in, out;

    head_of(
        a,
        "Content-Type: x\nConnection: close\nKeep-Alive: 5\nTransfer-Encoding: chunked\nWarning: w\nRetry-After: 1\n"
        "x-mvproxy-served-by: liar",
        &in);
    in.status = 429;
    ok(rewrite_response(&in, &(struct rewrite_origin){.served_by = "apiserver-x"}, a, &out), "a response is rewritten");
    is_u64(out.status, 429, "status stays");
    is_slice(value_of(&out, "Retry-After"), "1", "Retry-After stays");
    is_slice(value_of(&out, "Warning"), "w", "warnings stay");
    is_u64(count_of(&out, "Connection") + count_of(&out, "Keep-Alive") + count_of(&out, "Transfer-Encoding"), 0,
           "hop-by-hop fields go");
    is_slice(value_of(&out, REWRITE_SERVED_BY), "apiserver-x", "the server is named");
    ok(rewrite_response(&in, &(struct rewrite_origin){.hop = "apiserver-l"}, a, &out) &&
           count_of(&out, REWRITE_SERVED_BY) == 0,
       "the local one is not");
    is_slice(value_of(&out, REWRITE_HOP), "apiserver-l", "a peer learns that an mvproxy stands here");
    arena_free(a);
}

/* Each of our fields is there if it has something to say, and no other. */
static void test_response_fields(void)
{
    static const struct {
        struct rewrite_origin from;
        const char *name, *value;
    } rows[] = {
        {{.warning = "w"}, "Warning", "w"},
        {{.served_by = "s"}, REWRITE_SERVED_BY, "s"},
        {{.hop = "h"}, REWRITE_HOP, "h"},
        {{.version = "v"}, USER_HOP_VERSION, "v"},
        {{.ready = "false"}, USER_HOP_READY, "false"},
        {{.unserved = true}, REWRITE_UNSERVED, "true"},
    };
    struct arena *a = arena_new(1 << 20);
    struct http_head in, out;

    head_of(a, "Content-Type: x", &in);
    ok(rewrite_response(&in, &(struct rewrite_origin){.hop = NULL}, a, &out), "a response without any of ours");
    is_u64(out.n_fields, 1, "is as it came");
    for (size_t i = 0; i < ROWS(rows); i++) {
        ok(rewrite_response(&in, &rows[i].from, a, &out), "a response with %s", rows[i].name);
        is_slice(value_of(&out, rows[i].name), rows[i].value, "has it");
        is_u64(out.n_fields, 2, "alone");
    }
    arena_free(a);
}

int main(void)
{
    test_stripping();
    test_credentials();
    test_marks_and_forwarding();
    test_source_addresses();
    test_unencodable();
    test_most_fields();
    test_further_names();
    test_own_names();
    test_names_of_the_back();
    test_response();
    test_response_fields();
    return tap_end();
}
