/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules a head must keep beyond llhttp's grammar, as pure functions over finished heads (design: strict parsing).
 * Each returns NULL if all is well, else a short reason; *status becomes what a request is to be answered with.
 */
#ifndef MVPROXY_HTTP_H1_CHECK_H
#define MVPROXY_HTTP_H1_CHECK_H

#include "http/head.h"

/* Line ends are CRLF only, no continuation lines, no control bytes but tab: over the raw text of a head. *lines: how
 * many. */
const char *h1_check_bytes(struct slice text, size_t *lines);
/* Names are tokens (RFC 9110 5.1), so nothing stands between a name and its colon. */
const char *h1_check_names(const struct http_head *head);
/* Origin form, or * of OPTIONS. */
const char *h1_check_target(enum http_method method, struct slice target);
/* Target, Host, Connection, framing. */
const char *h1_check_request(const struct http_head *head, unsigned *status);
/* Status code, Connection, framing. */
const char *h1_check_response(const struct http_head *head);

/* Is every byte a tchar, and is there at least one? */
bool h1_is_token(struct slice s);
/* Is the field's name a token? One that has an id was compared with a token of ours. */
bool h1_has_name(const struct http_field *f);
/* No control bytes except tab: fit to be a field value. */
bool h1_is_value(struct slice s);

#endif
