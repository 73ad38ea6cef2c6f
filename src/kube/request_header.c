/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/request_header.h"

#include <string.h>

#include "kube/jscan.h"
#include "kube/json_small.h"

enum { WORDS_MAX = 64, OURS_MAX = 32, THEIRS_MAX = 256, DEPTH = 4, WORDS_BYTES = 16 << 10 };

#define CA_OPTION "requestheader-client-ca-file"
#define CLIENT_CA_OPTION "client-ca-file"
#define EXTRA_PREFIX "requestheader-extra-headers-prefix"

/* A list of words, as the ConfigMap has it: a JSON array in a text. */
struct words {
    struct json_object *array; /* NULL: absent */
    size_t n;
    bool more; /* than are looked at */
};

static struct words words_of(struct json_object *data, const char *key)
{
    struct slice text = json_small_text(data, key);
    struct words w = {.more = text.n > WORDS_BYTES};

    if (text.n == 0 || w.more)
        return w;
    w.array = json_small_read(text, DEPTH, NULL);
    if (w.array != NULL && !json_object_is_type(w.array, json_type_array)) {
        json_object_put(w.array);
        w.array = NULL;
    }
    w.n = w.array == NULL ? 0 : json_object_array_length(w.array);
    w.more = w.n > WORDS_MAX;
    w.n = w.more ? WORDS_MAX : w.n;
    return w;
}

static struct slice word(const struct words *w, size_t i)
{
    struct json_object *o = json_object_array_get_idx(w->array, i);

    return slice_of(json_object_get_string(o), (size_t)json_object_get_string_len(o));
}

static bool theirs_has(const struct words *w, struct slice s, bool fold)
{
    for (size_t i = 0; i < w->n; i++)
        if (fold ? slice_ieq(word(w, i), s) : slice_eq(word(w, i), s))
            return true;
    return false;
}

static bool ours_has(const struct slice *list, size_t n, struct slice s)
{
    for (size_t i = 0; i < n; i++)
        if (slice_ieq(list[i], s))
            return true;
    return false;
}

struct comparison {
    const struct request_header *ours;
    struct json_object *data;
    struct err *why; /* of a difference */
    struct err more; /* they name a header that we do not, which can be removed */
};

static bool is_prefix(const char *what)
{
    return strcmp(what, EXTRA_PREFIX) == 0;
}

/*
 * The ConfigMap only ever grows, so such a header may be one that no server believes any more, or one that servers
 * believe: nobody can tell. Whoever removes it from what clients send is safe either way, unless it means something
 * else: who may write the ConfigMap would have Impersonate-* removed, and impersonators act as themselves; or cookies,
 * and nobody comes to what is behind a Service's proxy. (kube-apiserver believes, and removes, what its flags name and
 * never asks the ConfigMap; aggregated API servers do, and remove each of these words.) So all is removed but what is
 * known to be of use: to ask for a plausible name (X-...) instead would let through what servers may believe.
 */
static bool agree_on_more(struct comparison *c, const char *what, struct slice name)
{
    int n = (int)(name.n > 100 ? 100 : name.n);
    enum user_name is = user_name_judge(name, is_prefix(what));

    if (c->ours->fixed != NULL && c->ours->fixed(name))
        return err_set(c->why, "%s: API servers name %.*s, which belongs to HTTP and is not removed", what, n, name.p);
    if (is == USER_NAME_RESERVED)
        return err_set(c->why, "%s: API servers name %.*s, which is for no identity and is not removed", what, n,
                       name.p);
    if (is == USER_NAME_GENERAL)
        return err_set(c->why, "%s: API servers name %.*s, too general to be removed if it is not configured here",
                       what, n, name.p);
    if (user_name_is_used(name, is_prefix(what)))
        return err_set(c->why, "%s: API servers name %.*s, which clients send for another purpose and is not removed",
                       what, n, name.p);
    if (!err_is_set(&c->more))
        (void)err_set(&c->more, "%s: %.*s is not configured here", what, n, name.p);
    return true;
}

static bool agree_on_words(struct comparison *c, const char *what, const struct slice *ours, size_t n)
{
    struct words w = words_of(c->data, what);
    bool fine = !w.more || err_set(c->why, "%s: API servers name too many", what);

    if (fine && w.n > 0 && n > 0 && !theirs_has(&w, ours[0], true))
        fine = err_set(c->why, "%s: no API server knows %.*s, which is sent", what, (int)ours[0].n, ours[0].p);
    for (size_t i = 0; fine && i < w.n; i++)
        if (word(&w, i).n > 0 && !ours_has(ours, n, word(&w, i)))
            fine = agree_on_more(c, what, word(&w, i));
    json_object_put(w.array);
    return fine;
}

static bool agree_on_names(const struct comparison *c)
{
    struct words w = words_of(c->data, "requestheader-allowed-names");
    const char *const *ours = c->ours->names;
    bool fine = true;

    for (size_t i = 0; fine && w.n > 0 && ours != NULL && ours[i] != NULL; i++)
        if (!theirs_has(&w, slice_str(ours[i]), false))
            fine = err_set(c->why, "requestheader-allowed-names: no API server believes %s", ours[i]);
    json_object_put(w.array);
    return fine;
}

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END "-----END CERTIFICATE-----"

/* The base64 text of the next certificate. */
static bool next_certificate(struct slice *pem, struct slice *out)
{
    const char *begin = pem->n == 0 ? NULL : memmem(pem->p, pem->n, PEM_BEGIN, sizeof(PEM_BEGIN) - 1), *end;
    struct slice rest;

    if (begin == NULL)
        return false;
    rest = slice_from(*pem, (size_t)(begin - pem->p) + sizeof(PEM_BEGIN) - 1);
    end = rest.n == 0 ? NULL : memmem(rest.p, rest.n, PEM_END, sizeof(PEM_END) - 1);
    if (end == NULL)
        return false;
    *out = slice_of(rest.p, (size_t)(end - rest.p));
    *pem = slice_from(rest, out->n);
    return true;
}

static bool is_space(char c)
{
    return c == '\n' || c == '\r' || c == ' ' || c == '\t';
}

/* However the lines are broken. */
static bool same_certificate(struct slice a, struct slice b)
{
    size_t i = 0, j = 0;

    for (;;) {
        while (i < a.n && is_space(a.p[i]))
            i++;
        while (j < b.n && is_space(b.p[j]))
            j++;
        if (i == a.n || j == b.n)
            return i == a.n && j == b.n;
        if (a.p[i++] != b.p[j++])
            return false;
    }
}

static bool bundle_has(struct slice bundle, struct slice certificate)
{
    struct slice one;

    for (size_t n = 0; n < THEIRS_MAX && next_certificate(&bundle, &one); n++)
        if (same_certificate(one, certificate))
            return true;
    return false;
}

/*
 * kube-apiserver leaves out of the ConfigMap what has ended, five minutes later (filterExpiredCerts). So here it counts
 * no more from its end on, and clocks may differ by as much.
 */
static bool has_ended(request_header_ended_fn *ended, struct slice certificate)
{
    return ended != NULL && ended(slice_of(certificate.p - (sizeof(PEM_BEGIN) - 1),
                                           certificate.n + sizeof(PEM_BEGIN) - 1 + sizeof(PEM_END) - 1));
}

static bool agree_on_ca(const char *option, struct slice theirs, struct slice ours, request_header_ended_fn *ended,
                        struct err *why)
{
    struct slice one;

    for (size_t n = 0; n < OURS_MAX && next_certificate(&ours, &one); n++)
        if (!bundle_has(theirs, one) && !has_ended(ended, one))
            return err_set(why, "%s: no API server believes certificate %zu of it", option, n + 1);
    return true;
}

static bool agree(struct comparison *c, struct slice ca)
{
    const struct user_headers *h = c->ours->headers;

    return agree_on_words(c, "requestheader-username-headers", h->username, h->n_username) &&
           agree_on_words(c, "requestheader-group-headers", h->group, h->n_group) &&
           agree_on_words(c, EXTRA_PREFIX, h->extra_prefix, h->n_extra_prefix) &&
           agree_on_words(c, "requestheader-uid-headers", h->uid, h->n_uid) && agree_on_names(c) &&
           agree_on_ca(CA_OPTION, ca, c->ours->ca, c->ours->ended, c->why);
}

/* p is NULL if there is no such text. */
static struct slice text_in(struct json_object *data, const char *name)
{
    struct json_object *v = json_small_get(data, name, json_type_string);

    return v == NULL ? SLICE_NONE : slice_of(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}

/* Only the texts, of which a tree is cheap: what else a ConfigMap has its writers may make dear. NULL with a reason. */
static struct json_object *data_of(struct slice configmap, struct err *why)
{
    struct slice data = SLICE_LIT("{}");
    struct jscan s;
    struct jscan_value key, value;
    bool first;

    jscan_init(&s, configmap, JSCAN_MAX_DEPTH);
    if (jscan_enter_object(&s, &first))
        while (jscan_member(&s, &first, &key) && jscan_value(&s, &value))
            if (value.type == JSCAN_OBJECT && jscan_text_eq(&key, SLICE_LIT("data")))
                data = value.raw;
    if (s.error != NULL || !jscan_end(&s)) {
        (void)err_set(why, "not JSON: %s", s.error);
        return NULL;
    }
    return json_small_read(data, DEPTH, why);
}

/* No certificate of a client that is believed here is believed there; what has ended is believed nowhere. */
static bool is_foreign(struct slice theirs, struct slice ours, request_header_ended_fn *ended)
{
    bool some = false;
    struct slice one;

    for (size_t n = 0; n < OURS_MAX && next_certificate(&ours, &one); n++) {
        if (bundle_has(theirs, one))
            return false;
        some |= !has_ended(ended, one);
    }
    return some;
}

static enum request_header_verdict judge(const struct request_header *ours, struct json_object *data, struct err *why)
{
    struct slice ca = text_in(data, CA_OPTION), clients = text_in(data, CLIENT_CA_OPTION);
    struct comparison c = {.ours = ours, .data = data, .why = why, .more = {.text = ""}};

    if (ours->client_ca.n > 0 && clients.p != NULL && is_foreign(clients, ours->client_ca, ours->ended)) {
        (void)err_set(why, CLIENT_CA_OPTION ": no API server has any certificate of it, so their clients get 401 here");
        return REQUEST_HEADER_DIFFERS;
    }
    if (ca.p == NULL) {
        (void)err_set(why, "no API server believes any front proxy");
        return REQUEST_HEADER_UNKNOWN;
    }
    if (!agree(&c, ca))
        return REQUEST_HEADER_DIFFERS;
    if (!err_is_set(&c.more))
        return REQUEST_HEADER_AGREES;
    *why = c.more;
    return REQUEST_HEADER_MORE;
}

enum request_header_verdict request_header_compare(const struct request_header *ours, struct slice configmap,
                                                   struct err *why)
{
    struct json_object *data = data_of(configmap, why);
    enum request_header_verdict v = data == NULL ? REQUEST_HEADER_UNKNOWN : judge(ours, data, why);

    json_object_put(data);
    return v;
}

static bool copy_words(struct json_object *data, const char *what, struct arena *a, const struct slice **out, size_t *n)
{
    struct words w = words_of(data, what);
    struct slice *copy = arena_alloc(a, (w.n + 1) * sizeof(*copy));
    bool good = copy != NULL;

    *n = 0;
    for (size_t i = 0; good && i < w.n; i++) {
        if (user_name_judge(word(&w, i), is_prefix(what)) != USER_NAME_FINE ||
            user_name_is_used(word(&w, i), is_prefix(what)))
            continue;
        copy[*n] = arena_copy(a, word(&w, i));
        good = copy[(*n)++].p != NULL;
    }
    *out = copy;
    json_object_put(w.array);
    return good;
}

bool request_header_named(struct slice configmap, struct arena *a, struct user_headers *out)
{
    struct err why = {.text = ""};
    struct json_object *data = data_of(configmap, &why);
    bool good = data != NULL &&
                copy_words(data, "requestheader-username-headers", a, &out->username, &out->n_username) &&
                copy_words(data, "requestheader-group-headers", a, &out->group, &out->n_group) &&
                copy_words(data, EXTRA_PREFIX, a, &out->extra_prefix, &out->n_extra_prefix) &&
                copy_words(data, "requestheader-uid-headers", a, &out->uid, &out->n_uid);

    json_object_put(data);
    return good;
}

/* What one side has and the other lacks. */
static enum request_header_verdict judge_clients(const struct request_header *ours, struct slice theirs,
                                                 struct err *why)
{
    struct slice rest = theirs, one;

    if (!agree_on_ca(CLIENT_CA_OPTION, theirs, ours->client_ca, ours->ended, why))
        return REQUEST_HEADER_DIFFERS;
    for (size_t n = 0; n < THEIRS_MAX && next_certificate(&rest, &one); n++)
        if (!bundle_has(ours->client_ca, one) && !has_ended(ours->ended, one)) {
            (void)err_set(why, CLIENT_CA_OPTION ": lacks certificate %zu of what API servers have", n + 1);
            return REQUEST_HEADER_MORE;
        }
    return REQUEST_HEADER_AGREES;
}

enum request_header_verdict request_header_client_ca(const struct request_header *ours, struct slice configmap,
                                                     struct err *why)
{
    struct json_object *data = data_of(configmap, why);
    struct slice theirs = text_in(data, CLIENT_CA_OPTION);
    enum request_header_verdict v = theirs.p == NULL ? REQUEST_HEADER_UNKNOWN : judge_clients(ours, theirs, why);

    json_object_put(data);
    return v;
}
