/*
 * Under which names requests to servers say who asks: told to back/, which holds every head against its connection.
 * Besides the configured names those of before the last reload count, because requests under way still have them.
 */
#ifndef MVPROXY_DAEMON_CLAIMS_H
#define MVPROXY_DAEMON_CLAIMS_H

#include "back/claims.h"
#include "kube/user.h"

struct app;

/* A back_claims_fn; `app` is a struct app. */
void claims_of(const struct http_head *head, void *app, struct back_claims *out);
/* Further names that count from now on, instead of those given last; NULL: none. Their text is the app's to keep. */
void claims_also(struct app *a, const struct user_headers *names);

#endif
