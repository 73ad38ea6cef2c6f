/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

struct json_write json_open(struct buf *out, char kind)
{
    buf_append_char(out, kind);
    return (struct json_write){out, kind == '{' ? '}' : ']', false};
}

void json_raw(struct json_write *w, const char *name)
{
    if (w->any)
        buf_append_char(w->out, ',');
    w->any = true;
    if (name != NULL)
        buf_printf(w->out, "\"%s\":", name);
}

struct json_write json_nested(struct json_write *w, const char *name, char kind)
{
    json_raw(w, name);
    return json_open(w->out, kind);
}

void json_close(struct json_write *w)
{
    buf_append_char(w->out, w->close);
}

void json_slice(struct json_write *w, const char *name, struct slice value)
{
    json_raw(w, name);
    buf_append_quoted(w->out, "", value);
}

void json_text(struct json_write *w, const char *name, const char *value)
{
    if (value != NULL) {
        json_slice(w, name, slice_str(value));
        return;
    }
    json_raw(w, name);
    buf_append_str(w->out, "null");
}

void json_u64(struct json_write *w, const char *name, uint64_t value)
{
    json_raw(w, name);
    buf_append_u64(w->out, value);
}

void json_i64(struct json_write *w, const char *name, int64_t value)
{
    json_raw(w, name);
    buf_printf(w->out, "%lld", (long long)value);
}

void json_bool(struct json_write *w, const char *name, bool value)
{
    json_raw(w, name);
    buf_append_str(w->out, value ? "true" : "false");
}

void json_seconds(struct json_write *w, const char *name, uint64_t ms)
{
    json_raw(w, name);
    buf_printf(w->out, "%llu.%llu", (unsigned long long)(ms / 1000), (unsigned long long)(ms % 1000 / 100));
}
