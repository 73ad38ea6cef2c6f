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
    struct err why = {.text = ""};
    struct slice object;

    return jscan_object(json, DEPTH, &object, &why) || err_set(err, "not an answer of etcd: %s", why.text);
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

void etcd_kv_text_init(struct etcd_kv_text *t)
{
    buf_init(&t->key, KEY_BYTES);
    buf_init(&t->value, VALUE_BYTES);
}

void etcd_kv_text_free(struct etcd_kv_text *t)
{
    buf_free(&t->key);
    buf_free(&t->value);
}

static bool bytes_member(struct slice object, const char *key, struct buf *out)
{
    struct jscan_value v;

    buf_reset(out);
    if (!jscan_get(object, slice_str(key), &v))
        return true;
    return v.type == JSCAN_STRING && !v.escaped && base64_decode(inside(&v), out);
}

/* What is longer than any of ours is somebody else's: "" stands for it. False: not base64. */
static bool decode_key(struct slice text, struct buf *out)
{
    buf_reset(out);
    return text.n > KEY_BYTES || base64_decode(text, out);
}

static bool key_member(struct slice kv, struct buf *out)
{
    struct jscan_value v;

    buf_reset(out);
    if (!jscan_get(kv, SLICE_LIT("key"), &v))
        return true;
    return v.type == JSCAN_STRING && !v.escaped && decode_key(inside(&v), out);
}

const char *etcd_read_kv(struct slice json, bool event, struct etcd_kv_text *t, struct etcd_kv *out)
{
    struct slice kv = json;

    *out = (struct etcd_kv){.key = SLICE_LIT(""), .value = SLICE_LIT("")};
    if (event) {
        out->deleted = slice_eq(text(json, "type"), SLICE_LIT("DELETE"));
        if (!member(json, "kv", JSCAN_OBJECT, &kv))
            return "an event without a key";
    }
    if (!key_member(kv, &t->key) || !bytes_member(kv, "value", &t->value))
        return "a key or value that is not base64, or too long";
    if (!number(kv, "lease", &out->lease) || !number(kv, "mod_revision", &out->revision))
        return "a number out of range";
    out->key = buf_slice(&t->key);
    out->value = buf_slice(&t->value);
    return NULL;
}

/* Enters the object of the key in an event that begins so. */
static bool enter_kv(struct jscan *s, bool *first)
{
    struct jscan_value key, v;

    if (!jscan_enter_object(s, first))
        return false;
    while (jscan_member(s, first, &key)) {
        if (jscan_text_eq(&key, SLICE_LIT("kv")))
            return jscan_enter_object(s, first);
        if (!jscan_value(s, &v))
            return false;
    }
    return false;
}

/* etcd writes the value behind these. */
const char *etcd_read_kv_begun(struct slice beginning, bool event, struct etcd_kv_text *t, struct etcd_kv *out)
{
    struct jscan_value key, v;
    struct jscan s;
    bool first, found = false;

    *out = (struct etcd_kv){.value = SLICE_LIT(""), .too_large = true};
    buf_reset(&t->key);
    jscan_init(&s, beginning, DEPTH);
    if (!(event ? enter_kv(&s, &first) : jscan_enter_object(&s, &first)))
        return "a key is missing";
    while (jscan_member(&s, &first, &key)) {
        if (!jscan_value(&s, &v)) { /* it goes on behind the beginning */
            found = found || jscan_text_eq(&key, SLICE_LIT("key"));
            break;
        }
        if (v.type != JSCAN_STRING || v.escaped)
            continue;
        if (!found && jscan_text_eq(&key, SLICE_LIT("key")))
            found = decode_key(inside(&v), &t->key);
        else if (jscan_text_eq(&key, SLICE_LIT("mod_revision")))
            (void)slice_u64(inside(&v), &out->revision);
    }
    out->key = buf_slice(&t->key);
    return found ? NULL : "a key is missing";
}

/* The first element of an array, which is an object; *any: there is one. */
static bool first_of(struct slice array, bool *any, struct jscan_value *out)
{
    struct jscan s;
    bool first;

    jscan_init(&s, array, DEPTH);
    if (!jscan_enter_array(&s, &first))
        return false;
    *any = jscan_element(&s, &first);
    return !*any || (jscan_value(&s, out) && out->type == JSCAN_OBJECT);
}

static enum etcd_put_result malformed(struct err *err, const char *why)
{
    (void)err_set(err, "not an answer of etcd: %s", why);
    return ETCD_PUT_MALFORMED;
}

enum etcd_put_result etcd_read_put(struct slice json, struct etcd_kv_text *t, struct etcd_kv *out, struct err *err)
{
    struct jscan_value response, kvs, kv;
    struct slice responses, range;
    const char *why;
    bool any;

    if (!whole_object(json, err))
        return ETCD_PUT_MALFORMED;
    if (flag(json, "succeeded"))
        return ETCD_PUT_DONE;
    if (!member(json, "responses", JSCAN_ARRAY, &responses) || !first_of(responses, &any, &response) || !any ||
        !member(response.raw, "response_range", JSCAN_OBJECT, &range))
        return malformed(err, "no range in the responses");
    if (!jscan_get(range, SLICE_LIT("kvs"), &kvs))
        return ETCD_PUT_NO_KEY;
    if (!first_of(kvs.raw, &any, &kv))
        return malformed(err, "the keys are no list of objects");
    why = any ? etcd_read_kv(kv.raw, false, t, out) : NULL;
    if (why != NULL)
        return malformed(err, why);
    return any ? ETCD_PUT_OTHER : ETCD_PUT_NO_KEY;
}

/* The keys have been taken away. */
static bool none_left(struct slice object, const char *key)
{
    struct jscan_value v;

    return !jscan_get(object, slice_str(key), &v) || slice_eq(v.raw, SLICE_LIT("[]"));
}

bool etcd_read_head(struct slice json, bool watch, struct etcd_head *out, struct err *err)
{
    struct slice result = json;
    uint64_t code;

    *out = (struct etcd_head){.reason = SLICE_LIT("")};
    if (!whole_object(json, err))
        return false;
    if (watch && !member(json, "result", JSCAN_OBJECT, &result)) {
        out->reason = etcd_read_error(json, &code);
        out->canceled = out->reason.n > 0;
        return out->canceled || err_set(err, "not an answer of etcd: no result");
    }
    if (!header_of(result, &out->header, err))
        return false;
    out->canceled = flag(result, "canceled");
    out->reason = text(result, "cancel_reason");
    if (!number(result, "compact_revision", &out->compacted))
        return err_set(err, "not an answer of etcd: compact_revision is no number");
    return none_left(result, watch ? "events" : "kvs") ||
           err_set(err, "not an answer of etcd: %s where no list of them belongs", watch ? "events" : "kvs");
}
