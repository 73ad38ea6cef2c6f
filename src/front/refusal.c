/* SPDX-License-Identifier: Apache-2.0 */
#include "front/refusal.h"

void refusal_make(const struct front_host *h, unsigned status, const char *message, struct http_field *fields,
                  struct http_head *head, struct buf *body)
{
    bool json = h->refusal_body != NULL;
    struct slice type = json ? SLICE_LIT("application/json") : SLICE_LIT("text/plain; charset=utf-8");
    bool again = (status == 429 || status == 503) && h->retry_after[0] != '\0';

    fields[0] = (struct http_field){SLICE_LIT("Content-Type"), type, HTTP_CONTENT_TYPE};
    fields[1] = (struct http_field){SLICE_LIT("Retry-After"), slice_str(h->retry_after), HTTP_RETRY_AFTER};
    *head = (struct http_head){
        .status = status,
        .reason = http_reason(status),
        .minor = 1,
        .fields = fields,
        .n_fields = again ? 2 : 1,
        .cap_fields = REFUSAL_FIELDS,
    };
    if (json)
        h->refusal_body(body, status, message, h->refusal_arg);
    else
        buf_printf(body, "%s\n", message);
}
