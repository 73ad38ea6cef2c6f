/* SPDX-License-Identifier: Apache-2.0 */
/* Which fields of a head say who asks: the standard names, the configured ones, and those of before a reload. */
#include "base/limits.h"
#include "daemon/claims.h"
#include "lib/tap.h"

static const struct slice name_a = SLICE_LIT("X-User-A"), name_b = SLICE_LIT("X-User-B");
static const struct slice group = SLICE_LIT("X-Group"), prefix = SLICE_LIT("X-More-");
static const struct user_headers headers_a = {
    .username = &name_a, .n_username = 1, .group = &group, .n_group = 1, .extra_prefix = &prefix, .n_extra_prefix = 1};
static const struct user_headers headers_b = {.username = &name_b, .n_username = 1, .uid = &group, .n_uid = 1};

/* What was a user's name is a group's, and the other way round. */
static const struct user_headers headers_group = {.username = &group, .n_username = 1, .group = &name_a, .n_group = 1};

/* Names that cover what mvproxies tell each other by, which asserts nobody. */
static const struct slice marks[] = {SLICE_LIT("X-Kubernetes-"), SLICE_LIT("X-Mvproxy")};
static const struct slice proxied = SLICE_LIT("X-Kubernetes-Peer-Proxied");
static const struct user_headers headers_ours = {
    .username = &proxied, .n_username = 1, .group = &proxied, .n_group = 1, .extra_prefix = marks, .n_extra_prefix = 2};

static void told(struct claims *c, const char *names, unsigned users, unsigned others)
{
    struct arena *arena = arena_new(1 << 16);
    struct slice rest = slice_str(names), name;
    struct back_claims got = {7, 7};
    struct http_head head;

    if (!http_head_init(&head, arena, 8))
        tap_bail("no memory");
    while (slice_split(&rest, ' ', &name))
        if (!http_head_add(&head, arena, name, SLICE_LIT("x")))
            tap_bail("no memory");
    claims_of(&head, c, &got);
    is_u64(got.users, users, "%s: users", names);
    is_u64(got.others, others, "%s: others", names);
    arena_free(arena);
}

int main(void)
{
    struct claims c;

    claims_set(&c, &headers_a, NULL);
    told(&c, "Host Authorization Accept X-Forwarded-For X-Kubernetes-Apiserver-Rerouted x-kubernetes-peer-proxied", 0,
         0);
    told(&c, "Host X-Remote-User", 1, 0);
    told(&c, "x_remote_user X-REMOTE-USER x-user-a", 3, 0);
    told(&c, "X-Remote-Uid X-Remote-Group X-Group X-Remote-Extra-Scopes X-More-Scopes", 0, 5);
    told(&c, "X-User-B", 0, 0);
    claims_set(&c, &headers_a, &headers_b);
    told(&c, "X-User-B X-Group", 1, 1);
    told(&c, "X-User-A X-Group", 1, 1);
    told(&c, "X-Remote-User", 1, 0);
    claims_set(&c, &headers_b, &headers_a);
    told(&c, "X-User-B", 1, 0);
    told(&c, "X-User-A", 1, 0);
    claims_set(&c, &headers_b, NULL);
    told(&c, "X-User-A", 0, 0);
    claims_set(&c, &headers_b, &headers_b);
    ok(c.also.username == NULL, "the same names are not looked for twice");
    claims_set(&c, &headers_group, &headers_a);
    told(&c, "X-Group X-User-A X-User-A", 1, 2);
    claims_set(&c, &headers_a, &headers_group);
    told(&c, "X-Group X-User-A X-User-A", 1, 2);
    told(&c, "X-User-A X-User-A", 2, 2);
    claims_set(&c, &headers_ours, NULL);
    told(&c, "X-Kubernetes-Peer-Proxied X-Kubernetes-Apiserver-Rerouted X-Mvproxy-If-Ready x_kubernetes_peer_proxied",
         0, 0);
    told(&c, "X-Kubernetes-Team X-Mvproxy X-Kubernetes-Peer-Proxied-Too", 0, 3);
    return tap_end();
}
