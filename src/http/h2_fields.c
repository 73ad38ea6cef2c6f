/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_fields.h"

#include "http/h1_check.h"

nghttp2_nv h2_nv(struct slice name, struct slice value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.p, (uint8_t *)(uintptr_t)value.p, name.n, value.n,
                        NGHTTP2_NV_FLAG_NONE};
}

static bool is_of_connection(enum http_name id)
{
    switch (id) {
    case HTTP_CONNECTION:
    case HTTP_CONTENT_LENGTH:
    case HTTP_KEEP_ALIVE:
    case HTTP_PROXY_CONNECTION:
    case HTTP_TRANSFER_ENCODING:
    case HTTP_UPGRADE:
        return true;
    default:
        return false;
    }
}

bool h2_put_field(nghttp2_nv *nva, size_t *n, const struct http_field *f)
{
    if (is_of_connection(f->id))
        return true;
    if (!h1_has_name(f) || !h1_is_value(f->value))
        return false;
    nva[(*n)++] = h2_nv(f->name, f->value);
    return true;
}

bool h2_put_fields(nghttp2_nv *nva, size_t *n, const struct http_head *head)
{
    for (size_t i = 0; i < head->n_fields; i++)
        if (!h2_put_field(nva, n, &head->fields[i]))
            return false;
    return true;
}
