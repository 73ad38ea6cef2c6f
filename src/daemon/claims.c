#include "daemon/claims.h"

#include "daemon/app_state.h"

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

/* Standard names are among both: rather too much is seen than too little. */
void claims_of(const struct http_head *head, void *app, struct back_claims *out)
{
    const struct app *a = app;
    struct back_claims before = {0, 0};

    count(&a->around.headers, head, out);
    if (a->headers_before.username != NULL)
        count(&a->headers_before, head, &before);
    if (before.users > out->users)
        out->users = before.users;
    if (before.others > out->others)
        out->others = before.others;
}

void claims_also(struct app *a, const struct user_headers *names)
{
    a->headers_before =
        names == NULL || user_headers_same(names, &a->around.headers) ? (struct user_headers){0} : *names;
}
