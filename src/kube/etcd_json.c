/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/etcd_json.h"

#include "base/base64.h"

enum { DEPTH = 16, KEY_BYTES = 4 << 10, VALUE_BYTES = 2 << 20 };

/* ---- requests ---- */

static void put_bytes(struct buf *out, const char *before, struct slice bytes)
{
    buf_append_str(out, before);
    (void)base64_append(out, bytes);
    buf_append_char(out, '"');
}

/* The end of a prefix's range: the prefix with its last byte one up (a prefix ends with a slash here). */
static void put_prefix(struct buf *out, struct slice prefix)
{
    struct buf end;

    put_bytes(out, "\"key\":\"", prefix);
    buf_init(&end, KEY_BYTES);
    buf_append(&end, slice_of(prefix.p, prefix.n - 1));
    buf_append_char(&end, (char)(prefix.p[prefix.n - 1] + 1));
    put_bytes(out, ",\"range_end\":\"", buf_slice(&end));
    out->failed = out->failed || end.failed;
    buf_free(&end);
}

bool etcd_print_range(struct buf *out, struct slice prefix, uint64_t limit)
{
    buf_append_char(out, '{');
    put_prefix(out, prefix);
    return buf_printf(out, ",\"limit\":\"%llu\"}", (unsigned long long)limit);
}

bool etcd_print_watch(struct buf *out, struct slice prefix, uint64_t revision)
{
    buf_append_str(out, "{\"create_request\":{");
    put_prefix(out, prefix);
    return buf_printf(out, ",\"start_revision\":\"%llu\"}}", (unsigned long long)revision);
}

bool etcd_print_grant(struct buf *out, uint64_t ttl_s)
{
    return buf_printf(out, "{\"TTL\":\"%llu\"}", (unsigned long long)ttl_s);
}

bool etcd_print_lease(struct buf *out, uint64_t lease)
{
    return buf_printf(out, "{\"ID\":\"%llu\"}", (unsigned long long)lease);
}

bool etcd_print_put(struct buf *out, const struct etcd_put *p)
{
    static const struct {
        const char *target, *member;
    } conditions[] = {
        [ETCD_IF_ABSENT] = {"CREATE", "create_revision"},
        [ETCD_IF_LEASE] = {"LEASE", "lease"},
        [ETCD_IF_REVISION] = {"MOD", "mod_revision"},
    };
    uint64_t expected = p->condition == ETCD_IF_ABSENT ? 0 : p->expected;

    put_bytes(out, "{\"compare\":[{\"key\":\"", p->key);
    buf_printf(out, ",\"result\":\"EQUAL\",\"target\":\"%s\",\"%s\":\"%llu\"}]", conditions[p->condition].target,
               conditions[p->condition].member, (unsigned long long)expected);
    put_bytes(out, ",\"success\":[{\"request_put\":{\"key\":\"", p->key);
    put_bytes(out, ",\"value\":\"", p->value);
    buf_printf(out, ",\"lease\":\"%llu\"}}]", (unsigned long long)p->lease);
    put_bytes(out, ",\"failure\":[{\"request_range\":{\"key\":\"", p->key);
    return buf_append_str(out, "}}]}");
}

/* ---- answers ---- */

static struct slice inside(const struct jscan_value *v)
{
    return slice_of(v->raw.p + 1, v->raw.n - 2);
}

/* Absent means zero: the gateway leaves out what has its default. False: there, and no number. */
static bool number(struct slice object, const char *key, uint64_t *out)
{
    struct jscan_value v;

    *out = 0;
    if (!jscan_get(object, slice_str(key), &v))
        return true;
    if (v.type == JSCAN_STRING && !v.escaped)
        return slice_u64(inside(&v), out);
    return v.type == JSCAN_NUMBER && slice_u64(v.raw, out);
}

static bool flag(struct slice object, const char *key)
{
    struct jscan_value v;

    return jscan_get(object, slice_str(key), &v) && v.type == JSCAN_TRUE;
}

static struct slice text(struct slice object, const char *key)
{
    struct jscan_value v;

    if (!jscan_get(object, slice_str(key), &v) || v.type != JSCAN_STRING)
        return SLICE_LIT("");
    return inside(&v);
}

static bool member(struct slice object, const char *key, enum jscan_type type, struct slice *out)
{
    struct jscan_value v;

    if (!jscan_get(object, slice_str(key), &v) || v.type != type)
        return false;
    *out = v.raw;
    return true;
}

/* Everything below looks members up in text that has been through here. */
static bool whole_object(struct slice json, struct err *err)
{
    struct jscan s;
    struct jscan_value v;

    jscan_init(&s, json, DEPTH);
    if (!jscan_value(&s, &v) || !jscan_end(&s))
        return err_set(err, "not an answer of etcd: %s", s.error);
    return v.type == JSCAN_OBJECT || err_set(err, "not an answer of etcd: no object");
}

static bool header_of(struct slice json, struct etcd_header *out, struct err *err)
{
    struct slice header;

    *out = (struct etcd_header){0};
    if (!member(json, "header", JSCAN_OBJECT, &header) || !number(header, "cluster_id", &out->cluster) ||
        !number(header, "member_id", &out->member) || !number(header, "revision", &out->revision) || out->cluster == 0)
        return err_set(err, "not an answer of etcd: no usable header");
    return true;
}

/* What a stream says is one level deeper. */
static struct slice result_of(struct slice json)
{
    struct slice result;

    return member(json, "result", JSCAN_OBJECT, &result) ? result : json;
}

bool etcd_read_header(struct slice json, struct etcd_header *out, struct err *err)
{
    *out = (struct etcd_header){0};
    return whole_object(json, err) && header_of(result_of(json), out, err);
}

struct slice etcd_read_error(struct slice json, uint64_t *code)
{
    struct slice error = SLICE_NONE, said;

    *code = 0;
    if (!whole_object(json, NULL))
        return SLICE_LIT("");
    if (member(json, "error", JSCAN_OBJECT, &error)) /* as streams have it */
        json = error;
    (void)(number(json, "code", code) && (*code != 0 || number(json, "grpc_code", code)));
    said = text(json, "message");
    return said.n > 0 ? said : text(json, "error");
}

bool etcd_read_lease(struct slice json, uint64_t *lease, uint64_t *ttl_s)
{
    *lease = *ttl_s = 0;
    if (!whole_object(json, NULL))
        return false;
    json = result_of(json);
    return number(json, "ID", lease) && number(json, "TTL", ttl_s) && *lease != 0;
}

/* ---- keys and events ---- */

/* `list` is an array's text, or empty for none. */
static bool kvs_init(struct etcd_kvs *i, struct slice list, bool events)
{
    *i = (struct etcd_kvs){.events = events, .none = list.n == 0};
    buf_init(&i->key, KEY_BYTES);
    buf_init(&i->value, VALUE_BYTES);
    if (i->none)
        return true;
    jscan_init(&i->scan, list, DEPTH);
    return jscan_enter_array(&i->scan, &i->first);
}

static bool kvs_member(struct etcd_kvs *i, struct slice object, const char *key, bool events)
{
    struct jscan_value v;

    if (!jscan_get(object, slice_str(key), &v))
        return kvs_init(i, SLICE_NONE, events);
    return kvs_init(i, v.raw, events);
}

bool etcd_kvs_of_range(struct etcd_kvs *i, struct slice json, struct err *err)
{
    (void)kvs_init(i, SLICE_NONE, false);
    if (!whole_object(json, err))
        return false;
    return kvs_member(i, json, "kvs", false) || err_set(err, "not an answer of etcd: kvs is no list");
}

static bool bad(struct etcd_kvs *i, const char *why)
{
    i->error = why;
    return false;
}

static bool bytes_member(struct slice object, const char *key, struct buf *out)
{
    struct jscan_value v;

    buf_reset(out);
    if (!jscan_get(object, slice_str(key), &v))
        return true;
    return v.type == JSCAN_STRING && !v.escaped && base64_decode(inside(&v), out);
}

bool etcd_kvs_next(struct etcd_kvs *i, struct etcd_kv *out)
{
    struct jscan_value element;
    struct slice kv;

    *out = (struct etcd_kv){.key = SLICE_LIT(""), .value = SLICE_LIT("")};
    if (i->none || i->error != NULL)
        return false;
    if (!jscan_element(&i->scan, &i->first))
        return bad(i, i->scan.error);
    if (!jscan_value(&i->scan, &element) || element.type != JSCAN_OBJECT)
        return bad(i, "an element is no object");
    kv = element.raw;
    if (i->events) {
        out->deleted = slice_eq(text(element.raw, "type"), SLICE_LIT("DELETE"));
        if (!member(element.raw, "kv", JSCAN_OBJECT, &kv))
            return bad(i, "an event without a key");
    }
    if (!bytes_member(kv, "key", &i->key) || !bytes_member(kv, "value", &i->value))
        return bad(i, "a key or value that is not base64, or too long");
    if (!number(kv, "lease", &out->lease) || !number(kv, "mod_revision", &out->revision))
        return bad(i, "a number out of range");
    out->key = buf_slice(&i->key);
    out->value = buf_slice(&i->value);
    return true;
}

void etcd_kvs_free(struct etcd_kvs *i)
{
    buf_free(&i->key);
    buf_free(&i->value);
}

bool etcd_read_put(struct slice json, bool *put, struct etcd_kvs *i, struct err *err)
{
    struct slice responses, range;
    struct jscan_value first_response;
    struct jscan s;
    bool first;

    *put = false;
    (void)kvs_init(i, SLICE_NONE, false);
    if (!whole_object(json, err))
        return false;
    *put = flag(json, "succeeded");
    if (*put)
        return true;
    if (!member(json, "responses", JSCAN_ARRAY, &responses))
        return err_set(err, "not an answer of etcd: no responses");
    jscan_init(&s, responses, DEPTH);
    if (jscan_enter_array(&s, &first) && jscan_element(&s, &first) && jscan_value(&s, &first_response) &&
        first_response.type == JSCAN_OBJECT && member(first_response.raw, "response_range", JSCAN_OBJECT, &range) &&
        kvs_member(i, range, "kvs", false))
        return true;
    return err_set(err, "not an answer of etcd: no range in the responses");
}

bool etcd_read_frame(struct slice line, struct etcd_frame *out, struct err *err)
{
    struct slice result;
    uint64_t code;

    *out = (struct etcd_frame){.reason = SLICE_LIT("")};
    (void)kvs_init(&out->events, SLICE_NONE, true);
    if (!whole_object(line, err))
        return false;
    if (!member(line, "result", JSCAN_OBJECT, &result)) {
        out->reason = etcd_read_error(line, &code);
        out->canceled = out->reason.n > 0;
        return out->canceled || err_set(err, "not an answer of etcd: no result");
    }
    if (!header_of(result, &out->header, err))
        return false;
    out->canceled = flag(result, "canceled");
    out->reason = text(result, "cancel_reason");
    if (!number(result, "compact_revision", &out->compacted))
        return err_set(err, "not an answer of etcd: compact_revision is no number");
    return kvs_member(&out->events, result, "events", true) || err_set(err, "not an answer of etcd: events is no list");
}
