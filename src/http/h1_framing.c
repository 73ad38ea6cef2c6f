/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a head, once parsed and found unambiguous, says about its body and its connection.
 */
#include "http/h1_parse.h"
#include "http/hop.h"

bool h1_content_length(const struct http_head *head, uint64_t *length)
{
    const struct http_field *f = http_head_find(head, HTTP_CONTENT_LENGTH);

    return f != NULL && slice_u64(f->value, length);
}

static struct http_body framed(const struct http_head *head, enum http_body_kind otherwise)
{
    struct http_body body = {.kind = otherwise};

    if (http_head_find(head, HTTP_TRANSFER_ENCODING) != NULL)
        body.kind = HTTP_BODY_CHUNKED;
    else if (h1_content_length(head, &body.length))
        body.kind = HTTP_BODY_LENGTH;
    return body;
}

struct http_body h1_request_body(const struct http_head *head)
{
    return framed(head, HTTP_BODY_NONE);
}

struct http_body h1_response_body(const struct http_head *head, enum http_method request_method)
{
    if (request_method == HTTP_HEAD || head->status < 200 || head->status == 204 || head->status == 304)
        return (struct http_body){.kind = HTTP_BODY_NONE};
    return framed(head, HTTP_BODY_CLOSE);
}

bool h1_keep_alive(const struct http_head *head)
{
    return head->minor >= 1 && !hop_connection_has(head, SLICE_LIT("close"));
}

bool h1_expects_continue(const struct http_head *head)
{
    return head->minor >= 1 && slice_ieq(http_head_value(head, HTTP_EXPECT), SLICE_LIT("100-continue"));
}
