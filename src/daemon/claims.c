/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/claims.h"

static void count(const struct user_headers *names, const struct http_head *head, struct back_claims *out)
{
    *out = (struct back_claims){0, 0};
    for (size_t i = 0; i < head->n_fields; i++) {
        enum user_field is =
            head->fields[i].id != HTTP_NAME_OTHER ? USER_FIELD_NONE : user_header_field(names, head->fields[i].name);

        out->users += is == USER_FIELD_NAME;
        out->others += is == USER_FIELD_OTHER;
    }
}

/*
 * Standard names are among both: rather too much is seen than too little. But who is one user by either is one: a
 * reload may make a group's name of what was a user's, and nothing of a client's is left among them.
 */
void claims_of(const struct http_head *head, void *claims, struct back_claims *out)
{
    const struct claims *c = claims;
    struct back_claims also = {0, 0};

    count(&c->now, head, out);
    if (c->also.username != NULL)
        count(&c->also, head, &also);
    if (out->users != 1 && (also.users == 1 || also.users > out->users))
        out->users = also.users;
    if (also.others > out->others)
        out->others = also.others;
}

void claims_set(struct claims *c, const struct user_headers *now, const struct user_headers *also)
{
    c->now = *now;
    c->also = also == NULL || user_headers_same(also, now) ? (struct user_headers){0} : *also;
}
