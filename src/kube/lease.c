/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include "base/clock.h"
#include "base/limits.h"
#include "kube/jscan.h"
#include "kube/server_id.h"

/* ---- reading ---- */

/* A member of the given type. False only if it is there with another type; without text (raw.p is NULL) if it is absent
 * or null. */
static bool member(struct slice object, const char *key, enum jscan_type type, struct jscan_value *out)
{
    if (!jscan_get(object, slice_str(key), out) || out->type == JSCAN_NULL)
        *out = (struct jscan_value){.type = type};
    return out->type == type;
}

struct reader {
    struct arena *arena;
    struct err *err;
};

static bool text_member(const struct reader *r, struct slice object, const char *key, struct slice *out)
{
    struct jscan_value v;

    *out = SLICE_LIT("");
    if (!member(object, key, JSCAN_STRING, &v))
        return err_set(r->err, "%s is not a string", key);
    if (v.raw.p == NULL)
        return true;
    /* To its first NUL, which no API server writes: whoever keeps it as a C string must find it unchanged. */
    if (!jscan_text(r->arena, &v, out))
        return err_set(r->err, "out of memory");
    *out = arena_copy(r->arena, slice_of(out->p, slice_index(*out, '\0')));
    return out->p != NULL || err_set(r->err, "out of memory");
}

static bool object_member(const struct reader *r, struct slice object, const char *key, struct slice *out)
{
    struct jscan_value v;
    bool good = member(object, key, JSCAN_OBJECT, &v);

    *out = v.raw;
    return good || err_set(r->err, "%s is not an object", key);
}

static bool read_metadata(const struct reader *r, struct slice root, struct lease *out)
{
    struct slice meta, labels, annotations;

    return object_member(r, root, "metadata", &meta) && object_member(r, meta, "labels", &labels) &&
           object_member(r, meta, "annotations", &annotations) && text_member(r, meta, "namespace", &out->ns) &&
           text_member(r, meta, "name", &out->name) && text_member(r, meta, "uid", &out->uid) &&
           text_member(r, meta, "resourceVersion", &out->resource_version) &&
           text_member(r, labels, LEASE_IDENTITY_LABEL, &out->identity_label) &&
           text_member(r, labels, LEASE_COMPONENT_LABEL, &out->component_label) &&
           text_member(r, labels, LEASE_HOSTNAME_LABEL, &out->hostname_label) &&
           text_member(r, annotations, LEASE_ADVERTISE_ANNOTATION, &out->advertise) &&
           text_member(r, annotations, LEASE_WRITTEN_ANNOTATION, &out->written) &&
           text_member(r, annotations, LEASE_DISCOVERY_ANNOTATION, &out->discovery);
}

static bool read_duration(const struct reader *r, struct slice spec, struct lease *out)
{
    struct jscan_value v;
    uint64_t seconds;

    if (!member(spec, "leaseDurationSeconds", JSCAN_NUMBER, &v) || slice_index(v.raw, '.') < v.raw.n)
        return err_set(r->err, "leaseDurationSeconds is not an integer");
    out->has_duration = v.raw.p != NULL;
    if (!out->has_duration)
        return true;
    if (!slice_u64(v.raw, &seconds) || seconds > INT32_MAX)
        return err_set(r->err, "leaseDurationSeconds is out of range");
    out->duration_s = (int64_t)seconds;
    return true;
}

static bool read_spec(const struct reader *r, struct slice root, struct lease *out)
{
    struct slice spec, renewed;

    if (!object_member(r, root, "spec", &spec) || !text_member(r, spec, "holderIdentity", &out->holder) ||
        !text_member(r, spec, "renewTime", &renewed) || !read_duration(r, spec, out))
        return false;
    if (renewed.n == 0)
        return true;
    out->has_renew_time = clock_parse_rfc3339(renewed, &out->renew_us);
    return out->has_renew_time || err_set(r->err, "renewTime is not a time");
}

static bool read_lease(const struct reader *r, struct slice root, struct lease *out)
{
    struct slice kind;

    /* Items of a list carry no kind. */
    if (!text_member(r, root, "kind", &kind))
        return false;
    if (kind.n > 0 && !slice_eq(kind, SLICE_LIT("Lease")))
        return err_set(r->err, "not a Lease but a %.*s", (int)(kind.n < 64 ? kind.n : 64), kind.p);
    if (!read_metadata(r, root, out) || !read_spec(r, root, out))
        return false;
    return out->name.n > 0 || err_set(r->err, "a Lease without a name");
}

bool lease_parse(struct arena *a, struct slice json, struct lease *out, struct err *err)
{
    struct reader r = {a, err};
    struct slice object;

    *out = (struct lease){.ns = SLICE_NONE};
    if (json.n > LIMIT_LEASE_BYTES)
        return err_set(err, "a Lease of more than %u KiB", LIMIT_LEASE_BYTES >> 10);
    return jscan_object(json, JSCAN_MAX_DEPTH, &object, err) && read_lease(&r, object, out);
}

/* "apiserver-..." today, "kube-apiserver-..." before 1.27; what follows was hex once and is base32 now. */
static bool is_identity_name(struct slice name)
{
    static const struct slice prefixes[] = {SLICE_LIT("apiserver-"), SLICE_LIT("kube-apiserver-")};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t n = prefixes[i].n;

        if (!slice_has_prefix(name, prefixes[i]) || name.n == n || name.n >= LEASE_NAME_BYTES)
            continue;
        while (n < name.n && ((name.p[n] >= 'a' && name.p[n] <= 'z') || (name.p[n] >= '0' && name.p[n] <= '9')))
            n++;
        if (n == name.n)
            return true;
    }
    return false;
}

bool lease_is_126(const struct lease *l)
{
    char name[SERVER_ID_BYTES_126];

    return slice_has_prefix(l->name, SLICE_LIT(SERVER_ID_PREFIX_126)) &&
           server_id_126_from_hostname(l->hostname_label, name) &&
           slice_eq(l->name, slice_of(name, SERVER_ID_CHARS_126));
}

/* As kube-apiserver makes both of its host's name. */
static bool is_named_by_host(const struct lease *l)
{
    char id[SERVER_ID_BYTES];

    return lease_is_126(l) || (server_id_from_hostname(l->hostname_label, id) && slice_eq(l->name, slice_str(id)));
}

bool lease_holder_by_name(const struct lease *l)
{
    return slice_has_prefix(l->holder, l->name) && l->holder.n >= l->name.n + 2 && l->holder.p[l->name.n] == '_';
}

const char *lease_refusal(const struct lease *l)
{
    if (!slice_eq(l->ns, SLICE_LIT(LEASE_NAMESPACE)))
        return "not in namespace " LEASE_NAMESPACE;
    if (!slice_eq(l->identity_label, SLICE_LIT(LEASE_IDENTITY_VALUE)) &&
        !slice_eq(l->component_label, SLICE_LIT(LEASE_IDENTITY_VALUE)))
        return "label " LEASE_IDENTITY_LABEL " is not " LEASE_IDENTITY_VALUE;
    if (!is_identity_name(l->name))
        return "name is not that of an API server";
    /* A kube-apiserver renews it for ever with whatever holder somebody has put in. */
    if (!lease_holder_by_name(l) && !is_named_by_host(l))
        return l->holder.n == 0 ? "no holderIdentity, and a name that is not that of its host"
                                : "neither does holderIdentity begin with the name, nor is that the name of its host";
    return NULL;
}

void lease_server_id(const struct lease *l, char out[LEASE_NAME_BYTES])
{
    if (lease_is_126(l) && server_id_from_hostname(l->hostname_label, out))
        return;
    memcpy(out, l->name.p, l->name.n);
    out[l->name.n] = '\0';
}

bool lease_expired(const struct lease *l, int64_t now_us)
{
    int64_t end;

    if (!l->has_duration || !l->has_renew_time)
        return true;
    if (__builtin_add_overflow(l->renew_us, l->duration_s * 1000000, &end))
        return false;
    return end < now_us;
}

/* ---- writing ---- */

static void put_time(struct buf *out, const char *before, int64_t us)
{
    char text[CLOCK_RFC3339_BYTES];

    clock_rfc3339(us, text);
    buf_append_quoted(out, before, slice_str(text));
}

/* Labels, annotation and preconditions; the caller has opened metadata and written what stands before `before`. */
static void put_metadata(struct buf *out, const char *before, const struct lease *l)
{
    buf_append_str(out, before);
    buf_append_quoted(out, "\"labels\":{\"" LEASE_IDENTITY_LABEL "\":", l->identity_label);
    if (l->hostname_label.n > 0)
        buf_append_quoted(out, ",\"" LEASE_HOSTNAME_LABEL "\":", l->hostname_label);
    buf_append_char(out, '}');
    if (l->advertise.n > 0) {
        buf_append_quoted(out, ",\"annotations\":{\"" LEASE_ADVERTISE_ANNOTATION "\":", l->advertise);
        buf_append_char(out, '}');
    }
    if (l->uid.n > 0)
        buf_append_quoted(out, ",\"uid\":", l->uid);
    if (l->resource_version.n > 0)
        buf_append_quoted(out, ",\"resourceVersion\":", l->resource_version);
}

static bool put_spec(struct buf *out, const struct lease *l)
{
    buf_append_quoted(out, "},\"spec\":{\"holderIdentity\":", l->holder);
    if (l->has_duration)
        buf_printf(out, ",\"leaseDurationSeconds\":%lld", (long long)l->duration_s);
    if (l->has_renew_time)
        put_time(out, ",\"renewTime\":", l->renew_us);
    return buf_append_str(out, "}}\n");
}

bool lease_print(const struct lease *l, struct buf *out)
{
    buf_append_quoted(out,
                      "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":", l->name);
    buf_append_quoted(out, ",\"namespace\":", l->ns);
    put_metadata(out, ",", l);
    return put_spec(out, l);
}

bool lease_print_renewal(const struct lease *l, struct buf *out)
{
    put_metadata(out, "{\"metadata\":{", l);
    return put_spec(out, l);
}

bool lease_print_delete(const struct lease *l, struct buf *out)
{
    buf_append_str(out, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"preconditions\":{");
    if (l->uid.n > 0)
        buf_append_quoted(out, "\"uid\":", l->uid);
    if (l->uid.n > 0 && l->resource_version.n > 0)
        buf_append_char(out, ',');
    if (l->resource_version.n > 0)
        buf_append_quoted(out, "\"resourceVersion\":", l->resource_version);
    return buf_append_str(out, "}}\n");
}
