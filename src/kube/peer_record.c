/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/peer_record.h"

#include <arpa/inet.h>

#include "kube/hostport.h"
#include "kube/jscan.h"
#include "kube/pbread.h"

#define LABEL "apiserverIdentity"

enum { DEPTH = 16 };

/* Field numbers of k8s.io/apimachinery's and k8s.io/api's generated.proto. */
enum {
    UNKNOWN_TYPE_META = 1,
    UNKNOWN_RAW = 2,
    UNKNOWN_CONTENT_ENCODING = 3,
    TYPE_API_VERSION = 1,
    TYPE_KIND = 2,
    ENDPOINTS_METADATA = 1,
    ENDPOINTS_SUBSETS = 2,
    META_LABELS = 11,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    SUBSET_ADDRESSES = 1,
    SUBSET_PORTS = 3,
    ADDRESS_IP = 1,
    PORT_PORT = 2,
};

static const struct slice protobuf_magic = {"k8s\0", 4};

/* What either form yields; texts point into the value and are "" if absent. */
struct found {
    struct slice api_version, kind, id, ip;
    uint64_t port;
};

static bool copy_text(struct slice text, char *out, size_t size)
{
    if (text.n >= size || memchr(text.p, '\0', text.n) != NULL)
        return false;
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
    return true;
}

static bool judge(const struct found *f, struct peer_record *out, struct err *err)
{
    if (!slice_eq(f->api_version, SLICE_LIT("v1")) || !slice_eq(f->kind, SLICE_LIT("Endpoints")))
        return err_set(err, "not a v1 Endpoints object");
    if (!server_id_valid(f->id) || !copy_text(f->id, out->id, sizeof(out->id)))
        return err_set(err, "label " LABEL " is not a server ID");
    if (f->ip.n == 0)
        return err_set(err, "no address");
    if (!copy_text(f->ip, out->ip, sizeof(out->ip)) || !hostport_is_ip(slice_str(out->ip)))
        return err_set(err, "the address is not an IP address");
    if (f->port == 0 || f->port > 65535)
        return err_set(err, "no usable port");
    out->port = (uint16_t)f->port;
    return true;
}

/* ---- protobuf ---- */

/* In protobuf the last one of a field counts. */
static bool last_bytes(struct slice message, uint32_t number, struct slice *out)
{
    struct pbread r;
    struct pb_field f;

    *out = SLICE_LIT("");
    pbread_init(&r, message);
    while (pbread_next(&r, &f))
        if (pb_is_bytes(&f, number))
            *out = f.bytes;
    return r.error == NULL;
}

/* And of a repeated one the first. */
static bool first_bytes(struct slice message, uint32_t number, struct slice *out)
{
    struct pbread r;
    struct pb_field f;
    bool have = false;

    *out = SLICE_LIT("");
    pbread_init(&r, message);
    while (pbread_next(&r, &f)) {
        if (!have && pb_is_bytes(&f, number)) {
            *out = f.bytes;
            have = true;
        }
    }
    return r.error == NULL;
}

static bool last_number(struct slice message, uint32_t number, uint64_t *out)
{
    struct pbread r;
    struct pb_field f;

    *out = 0;
    pbread_init(&r, message);
    while (pbread_next(&r, &f))
        if (f.number == number && f.wire == PB_VARINT)
            *out = f.value;
    return r.error == NULL;
}

static bool label(struct slice metadata, struct slice *out)
{
    struct pbread r;
    struct pb_field f;
    struct slice key;

    *out = SLICE_LIT("");
    pbread_init(&r, metadata);
    while (pbread_next(&r, &f)) {
        if (!pb_is_bytes(&f, META_LABELS))
            continue;
        if (!last_bytes(f.bytes, MAP_KEY, &key))
            return false;
        if (slice_eq(key, SLICE_LIT(LABEL)) && !last_bytes(f.bytes, MAP_VALUE, out))
            return false;
    }
    return r.error == NULL;
}

static bool read_endpoints(struct slice message, struct found *out)
{
    struct slice metadata, subset, address, port;

    return last_bytes(message, ENDPOINTS_METADATA, &metadata) && label(metadata, &out->id) &&
           first_bytes(message, ENDPOINTS_SUBSETS, &subset) && first_bytes(subset, SUBSET_ADDRESSES, &address) &&
           first_bytes(subset, SUBSET_PORTS, &port) && last_bytes(address, ADDRESS_IP, &out->ip) &&
           last_number(port, PORT_PORT, &out->port);
}

/* runtime.Unknown around the object, as k8s.io/apimachinery's protobuf serializer writes it. */
static bool read_protobuf(struct slice envelope, struct found *out, struct err *err)
{
    struct slice type, raw, encoding;

    if (!last_bytes(envelope, UNKNOWN_TYPE_META, &type) || !last_bytes(envelope, UNKNOWN_RAW, &raw) ||
        !last_bytes(envelope, UNKNOWN_CONTENT_ENCODING, &encoding) || !last_bytes(type, TYPE_KIND, &out->kind) ||
        !last_bytes(type, TYPE_API_VERSION, &out->api_version))
        return err_set(err, "damaged protobuf envelope");
    if (encoding.n > 0)
        return err_set(err, "an unknown content encoding");
    return read_endpoints(raw, out) || err_set(err, "damaged protobuf");
}

/* ---- JSON ---- */

/* A member's text, of whatever type; "" if it is absent, or that is no object. */
static struct slice member(struct slice object, struct slice key)
{
    struct jscan_value v;

    return jscan_get(object, key, &v) ? v.raw : SLICE_LIT("");
}

static struct slice first_of(struct slice array)
{
    struct jscan_value v;
    struct jscan s;
    bool first;

    jscan_init(&s, array, DEPTH);
    return jscan_enter_array(&s, &first) && jscan_element(&s, &first) && jscan_value(&s, &v) ? v.raw : SLICE_LIT("");
}

static void read_json(struct slice object, struct found *out)
{
    struct slice subset = first_of(member(object, SLICE_LIT("subsets")));
    struct slice port = first_of(member(subset, SLICE_LIT("ports")));

    out->api_version = jscan_get_inside(object, SLICE_LIT("apiVersion"));
    out->kind = jscan_get_inside(object, SLICE_LIT("kind"));
    out->id = jscan_get_inside(member(member(object, SLICE_LIT("metadata")), SLICE_LIT("labels")), SLICE_LIT(LABEL));
    out->ip = jscan_get_inside(first_of(member(subset, SLICE_LIT("addresses"))), SLICE_LIT("ip"));
    (void)slice_u64(member(port, SLICE_LIT("port")), &out->port);
}

/* ---- whole ---- */

bool peer_record_parse(struct slice value, struct peer_record *out, struct err *err)
{
    struct found f = {SLICE_LIT(""), SLICE_LIT(""), SLICE_LIT(""), SLICE_LIT(""), 0};
    bool protobuf = slice_has_prefix(value, protobuf_magic);
    struct slice object;

    *out = (struct peer_record){.form = protobuf ? PEER_RECORD_PROTOBUF : PEER_RECORD_JSON};
    if (value.n > PEER_RECORD_BYTES)
        return err_set(err, "a record of %zu bytes", value.n);
    if (slice_has_prefix(value, SLICE_LIT("k8s:enc:")))
        return err_set(err, "it is encrypted at rest");
    if (protobuf)
        return read_protobuf(slice_from(value, protobuf_magic.n), &f, err) && judge(&f, out, err);
    if (!jscan_object(value, DEPTH, &object, NULL))
        return err_set(err, "neither protobuf nor a JSON object");
    read_json(object, &f);
    return judge(&f, out, err);
}

bool peer_record_print(const struct peer_record *r, struct buf *out)
{
    return buf_printf(out,
                      "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"generation\":%llu,\"labels\":{"
                      "\"" LABEL "\":\"%s\"}},\"subsets\":[{\"addresses\":[{\"ip\":\"%s\"}],\"ports\":[{\"name\":"
                      "\"https\",\"port\":%u,\"protocol\":\"TCP\"}]}]}\n",
                      (unsigned long long)r->generation, r->id, r->ip, r->port);
}

bool peer_record_set_address(struct peer_record *r, struct slice address)
{
    struct hostport hp;

    if (!hostport_parse(address, &hp) || !hp.ip || !copy_text(hp.host, r->ip, sizeof(r->ip)))
        return false;
    r->port = hp.port;
    return true;
}

/* By value: one address can be spelled in several ways. */
bool peer_record_same_address(const struct peer_record *a, const struct peer_record *b)
{
    unsigned char x[16] = {0}, y[16] = {0};
    int family = strchr(a->ip, ':') != NULL ? AF_INET6 : AF_INET;

    return a->port == b->port && inet_pton(family, a->ip, x) == 1 && inet_pton(family, b->ip, y) == 1 &&
           memcmp(x, y, sizeof(x)) == 0;
}

/* ---- keys ---- */

static struct slice bare_prefix(struct slice prefix)
{
    while (prefix.n > 0 && prefix.p[prefix.n - 1] == '/')
        prefix.n--;
    while (prefix.n > 0 && prefix.p[0] == '/')
        prefix = slice_from(prefix, 1);
    return prefix;
}

bool peer_record_key(struct slice prefix, struct slice id, struct buf *out)
{
    prefix = bare_prefix(prefix);
    if (prefix.n > 0)
        buf_append_char(out, '/');
    buf_append(out, prefix);
    buf_append_str(out, PEER_RECORD_FOLDER);
    return buf_append(out, id);
}

struct slice peer_record_key_id(struct slice prefix, struct slice key)
{
    struct slice folder = SLICE_LIT(PEER_RECORD_FOLDER);

    prefix = bare_prefix(prefix);
    if (prefix.n > 0) {
        if (key.n == 0 || key.p[0] != '/' || !slice_has_prefix(slice_from(key, 1), prefix))
            return SLICE_NONE;
        key = slice_from(key, 1 + prefix.n);
    }
    if (!slice_has_prefix(key, folder))
        return SLICE_NONE;
    key = slice_from(key, folder.n);
    return server_id_valid(key) ? key : SLICE_NONE;
}
