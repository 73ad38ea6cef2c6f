/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/request_header.h"

#include <string.h>

#include "base/limits.h"
#include "kube/jscan.h"

enum { WORDS_MAX = 64, OURS_MAX = 32, THEIRS_MAX = 256, WORDS_DEPTH = 4, WORDS_BYTES = 16 << 10 };
enum { TEXTS_BYTES = 4 * LIMIT_TRUST_DATA_BYTES };

#define CA_OPTION "requestheader-client-ca-file"
#define CLIENT_CA_OPTION "client-ca-file"
#define NAMES "requestheader-allowed-names"
#define USERNAME "requestheader-username-headers"
#define GROUP "requestheader-group-headers"
#define EXTRA "requestheader-extra-headers-prefix"
#define UID "requestheader-uid-headers"

/* A list of words, as the ConfigMap has it: a JSON array in a text. */
struct words {
    struct slice at[WORDS_MAX];
    size_t n;
    bool more; /* than are looked at */
};

/* What the ConfigMap says. */
struct theirs {
    struct slice ca, client_ca; /* p is NULL: absent */
    struct words names, username, group, extra, uid;
};

/* ---- reading ---- */

/* p is NULL if there is no such text. False: out of memory, here and below. */
static bool read_text(struct arena *a, struct slice data, const char *key, struct slice *out)
{
    struct jscan_value v;

    *out = SLICE_NONE;
    return !jscan_get(data, slice_str(key), &v) || v.type != JSCAN_STRING || jscan_text(a, &v, out);
}

/* What is no list has no words, and what is no text is an empty one. */
static bool read_words(struct arena *a, struct slice data, const char *key, struct words *w)
{
    struct jscan_value v;
    struct slice text;
    struct jscan s;
    bool first;

    if (!read_text(a, data, key, &text))
        return false;
    w->more = text.n > WORDS_BYTES;
    jscan_init(&s, text, WORDS_DEPTH);
    if (w->more || !jscan_value(&s, &v) || !jscan_end(&s))
        return true;
    jscan_init(&s, v.raw, WORDS_DEPTH);
    if (!jscan_enter_array(&s, &first))
        return true;
    while (!w->more && jscan_element(&s, &first) && jscan_value(&s, &v)) {
        if (w->n == WORDS_MAX)
            w->more = true;
        else if (v.type == JSCAN_STRING && !jscan_text(a, &v, &w->at[w->n]))
            return false;
        else
            w->n++;
    }
    return true;
}

static bool read_data(struct arena *a, struct slice data, struct theirs *out)
{
    return read_text(a, data, CA_OPTION, &out->ca) && read_text(a, data, CLIENT_CA_OPTION, &out->client_ca) &&
           read_words(a, data, NAMES, &out->names) && read_words(a, data, USERNAME, &out->username) &&
           read_words(a, data, GROUP, &out->group) && read_words(a, data, EXTRA, &out->extra) &&
           read_words(a, data, UID, &out->uid);
}

/* False with a reason. */
static bool read_map(struct arena *a, struct slice configmap, struct theirs *out, struct err *why)
{
    struct slice object, data = SLICE_LIT("");
    struct jscan_value v;

    *out = (struct theirs){.ca = SLICE_NONE};
    if (!jscan_object(configmap, JSCAN_MAX_DEPTH, &object, why))
        return false;
    if (jscan_get(object, SLICE_LIT("data"), &v))
        data = v.raw;
    if (data.n > LIMIT_TRUST_DATA_BYTES)
        return err_set(why, "more than %u KiB", LIMIT_TRUST_DATA_BYTES >> 10);
    return (a != NULL && read_data(a, data, out)) || err_set(why, "out of memory");
}

/* ---- comparing ---- */

static bool theirs_has(const struct words *w, struct slice s, bool fold)
{
    for (size_t i = 0; i < w->n; i++)
        if (fold ? slice_ieq(w->at[i], s) : slice_eq(w->at[i], s))
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
    const struct theirs *theirs;
    struct err *why; /* of a difference */
    struct err more; /* they name a header that we do not, which can be removed */
};

static bool is_prefix(const char *what)
{
    return strcmp(what, EXTRA) == 0;
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

static bool agree_on_words(struct comparison *c, const char *what, const struct words *w, const struct slice *ours,
                           size_t n)
{
    if (w->more)
        return err_set(c->why, "%s: API servers name too many", what);
    if (w->n > 0 && n > 0 && !theirs_has(w, ours[0], true))
        return err_set(c->why, "%s: no API server knows %.*s, which is sent", what, (int)ours[0].n, ours[0].p);
    for (size_t i = 0; i < w->n; i++)
        if (w->at[i].n > 0 && !ours_has(ours, n, w->at[i]) && !agree_on_more(c, what, w->at[i]))
            return false;
    return true;
}

static bool agree_on_names(const struct comparison *c)
{
    const struct words *w = &c->theirs->names;
    const char *const *ours = c->ours->names;

    for (size_t i = 0; w->n > 0 && ours != NULL && ours[i] != NULL; i++)
        if (!theirs_has(w, slice_str(ours[i]), false))
            return err_set(c->why, NAMES ": no API server believes %s", ours[i]);
    return true;
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

static bool agree(struct comparison *c)
{
    const struct user_headers *h = c->ours->headers;
    const struct theirs *t = c->theirs;

    return agree_on_words(c, USERNAME, &t->username, h->username, h->n_username) &&
           agree_on_words(c, GROUP, &t->group, h->group, h->n_group) &&
           agree_on_words(c, EXTRA, &t->extra, h->extra_prefix, h->n_extra_prefix) &&
           agree_on_words(c, UID, &t->uid, h->uid, h->n_uid) && agree_on_names(c) &&
           agree_on_ca(CA_OPTION, t->ca, c->ours->ca, c->ours->ended, c->why);
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

static enum request_header_verdict judge(const struct request_header *ours, const struct theirs *t, struct err *why)
{
    struct comparison c = {.ours = ours, .theirs = t, .why = why, .more = {.text = ""}};

    if (ours->client_ca.n > 0 && t->client_ca.p != NULL && is_foreign(t->client_ca, ours->client_ca, ours->ended)) {
        (void)err_set(why, CLIENT_CA_OPTION ": no API server has any certificate of it, so their clients get 401 here");
        return REQUEST_HEADER_DIFFERS;
    }
    if (t->ca.p == NULL) {
        (void)err_set(why, "no API server believes any front proxy");
        return REQUEST_HEADER_UNKNOWN;
    }
    if (!agree(&c))
        return REQUEST_HEADER_DIFFERS;
    if (!err_is_set(&c.more))
        return REQUEST_HEADER_AGREES;
    *why = c.more;
    return REQUEST_HEADER_MORE;
}

enum request_header_verdict request_header_compare(const struct request_header *ours, struct slice configmap,
                                                   struct err *why)
{
    struct arena *a = arena_new(TEXTS_BYTES);
    enum request_header_verdict v = REQUEST_HEADER_UNKNOWN;
    struct theirs t;

    if (read_map(a, configmap, &t, why))
        v = judge(ours, &t, why);
    arena_free(a);
    return v;
}

static bool copy_words(const struct words *w, const char *what, struct arena *a, const struct slice **out, size_t *n)
{
    struct slice *copy = arena_alloc(a, (w->n + 1) * sizeof(*copy));

    *n = 0;
    *out = copy;
    for (size_t i = 0; copy != NULL && i < w->n; i++) {
        if (user_name_judge(w->at[i], is_prefix(what)) != USER_NAME_FINE ||
            user_name_is_used(w->at[i], is_prefix(what)))
            continue;
        copy[*n] = arena_copy(a, w->at[i]);
        if (copy[(*n)++].p == NULL)
            return false;
    }
    return copy != NULL;
}

bool request_header_named(struct slice configmap, struct arena *a, struct user_headers *out)
{
    struct arena *scratch = arena_new(TEXTS_BYTES);
    struct theirs t;
    bool good = read_map(scratch, configmap, &t, NULL) &&
                copy_words(&t.username, USERNAME, a, &out->username, &out->n_username) &&
                copy_words(&t.group, GROUP, a, &out->group, &out->n_group) &&
                copy_words(&t.extra, EXTRA, a, &out->extra_prefix, &out->n_extra_prefix) &&
                copy_words(&t.uid, UID, a, &out->uid, &out->n_uid);

    arena_free(scratch);
    return good;
}

enum request_header_verdict request_header_clients(const struct request_header *ours, struct slice configmap)
{
    struct arena *a = arena_new(TEXTS_BYTES);
    enum request_header_verdict v = REQUEST_HEADER_UNKNOWN;
    struct theirs t;

    if (read_map(a, configmap, &t, NULL) && t.client_ca.p != NULL)
        v = is_foreign(t.client_ca, ours->client_ca, ours->ended) ? REQUEST_HEADER_DIFFERS : REQUEST_HEADER_AGREES;
    arena_free(a);
    return v;
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
    struct arena *a = arena_new(TEXTS_BYTES);
    enum request_header_verdict v = REQUEST_HEADER_UNKNOWN;
    struct theirs t;

    if (read_map(a, configmap, &t, why) && t.client_ca.p != NULL)
        v = judge_clients(ours, t.client_ca, why);
    arena_free(a);
    return v;
}
