/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "daemon/derive.h"
#include "daemon/egress.h"
#include "daemon/remarks.h"
#include "daemon/serving_pair.h"
#include "net/egress_proxy.h"
#include "net/tls_ctx.h"
#include "net/tls_inspect.h"
#include "net/tls_sni.h"
#include "net/tls_suites.h"

enum {
    OPTION_TEXT_BYTES = 64,
    EGRESS_ARENA_CEILING = 8 << 20,
    EGRESS_ERRORS_CEILING = 64 << 10,
    TRUST_NAMED_BYTES = 64 << 10
};

static const char *or_null(const char *s)
{
    return s[0] == '\0' ? NULL : s;
}

/* Contexts share files: what is wrong with one of them is said once. */
static bool is_said(const struct buf *errors, const char *text)
{
    struct slice rest = buf_slice(errors), line;

    while (slice_split(&rest, '\n', &line))
        if (slice_eq(line, slice_str(text)))
            return true;
    return false;
}

static struct tls_ctx *keep(struct tls_ctx *ctx, struct err *err, struct buf *errors, bool *ok)
{
    if (ctx == NULL) {
        *ok = false;
        if (!is_said(errors, err->text))
            buf_printf(errors, "%s\n", err->text);
    }
    err_clear(err);
    return ctx;
}

/* `clients_of`, `fronts_of` NULL: by the files. */
static struct tls_ctx *load_serving(const struct config *c, bool for_clients, const struct tls_ctx *clients_of,
                                    const struct tls_ctx *fronts_of, struct err *err)
{
    struct tls_server_opts o = {
        .cert_file = c->tls_cert_file,
        .key_file = c->tls_private_key_file,
        .client_ca_file = or_null(c->client_ca_file),
        .requestheader_ca_file = or_null(c->requestheader_client_ca_file),
        .client_ca_of = clients_of,
        .requestheader_ca_of = fronts_of,
        .http2 = for_clients,
        .hop = for_clients,
        .min_version = strcmp(c->tls_min_version, "VersionTLS13") == 0 ? 13 : 12,
        .cipher_suites = c->tls_cipher_suites,
        .sni = c->tls_sni_cert_key,
    };

    return tls_server_ctx_new(&o, err);
}

/* `ca_of` NULL: by the file. */
static struct tls_ctx *load_local(const struct config *c, bool with_cert, const struct tls_ctx *ca_of, struct err *err)
{
    struct tls_client_opts o = {
        .ca_file = c->apiserver_ca_file,
        .ca_of = ca_of,
        .bundle_option = "apiserver-ca-file",
        .cert_file = with_cert ? c->proxy_client_cert_file : NULL,
        .key_file = with_cert ? c->proxy_client_key_file : NULL,
        .server_name = c->apiserver_tls_server_name,
        .hop = true, /* so that it is noticed when an mvproxy answers */
    };

    return tls_client_ctx_new(&o, err);
}

/* Every kube-apiserver's certificate carries this name; an address never gives trust (KEP-4020 "Security"). Only where
 * the certificate is shown does it matter whether an mvproxy answers. */
static struct tls_ctx *load_peer(const struct config *c, bool with_cert, const struct tls_ctx *ca_of, struct err *err)
{
    struct tls_client_opts o = {
        .ca_file = c->peer_ca_file,
        .ca_of = ca_of,
        .bundle_option = "peer-ca-file",
        .cert_file = with_cert ? c->proxy_client_cert_file : NULL,
        .key_file = with_cert ? c->proxy_client_key_file : NULL,
        .server_name = "kubernetes.default.svc",
        .hop = with_cert,
    };

    return tls_client_ctx_new(&o, err);
}

static struct tls_ctx *load_etcd(const struct config *c, const char *host, struct err *err)
{
    struct tls_client_opts o = {
        .ca_file = c->etcd_cafile,
        .bundle_option = "etcd-cafile",
        .cert_file = or_null(c->etcd_certfile),
        .key_file = or_null(c->etcd_keyfile),
        .server_name = host,
    };

    return tls_client_ctx_new(&o, err);
}

/* The configuration has been checked: the URLs are good, and there are not too many. */
static void load_etcds(const struct config *c, struct trust *out, struct buf *errors, bool *ok)
{
    struct derive_address addr;
    struct err err;
    bool tls;

    for (size_t i = 0; c->etcd_servers[i] != NULL && i < ETCD_SERVERS_MAX; i++) {
        err_clear(&err);
        if (derive_etcd_url(c->etcd_servers[i], &addr, &tls, &err) && tls)
            out->etcd[i] = keep(load_etcd(c, addr.host, &err), &err, errors, ok);
    }
}

static bool load_egress(const struct config *c, struct trust *out, struct buf *errors)
{
    struct arena *a = arena_new(EGRESS_ARENA_CEILING); /* not the configuration's, which lives through many of these */
    struct egress egress;
    struct err err;
    bool ok;

    if (a == NULL) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    err_clear(&err);
    ok = egress_load(c->egress_selector_config_file, a, &egress, errors);
    if (ok && !(egress_make_proxy(&egress, EGRESS_CONTROLPLANE, &out->peer_egress, &err) &&
                egress_make_proxy(&egress, EGRESS_ETCD, &out->etcd_egress, &err))) {
        buf_printf(errors, "%s: %s\n", c->egress_selector_config_file, err.text);
        ok = false;
    }
    arena_free(a);
    return ok;
}

/* NULL with a reason. What is longer than any bundle that is taken is none. */
static char *read_text(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = mem_alloc(LIMIT_PEM_BYTES + 1), *exact;
    size_t n = 0;
    ssize_t got = -1;

    while (fd >= 0 && text != NULL && n < LIMIT_PEM_BYTES && (got = read(fd, text + n, LIMIT_PEM_BYTES - n)) > 0)
        n += (size_t)got;
    if (got != 0)
        (void)err_set(err, "%s: %s", path, text == NULL ? "out of memory" : strerror(errno));
    if (fd >= 0)
        close(fd);
    if (got != 0) {
        mem_free(text);
        return NULL;
    }
    text[n++] = '\0';
    exact = mem_realloc(text, n);
    return exact == NULL ? text : exact;
}

/* The text of a bundle, "" without one; NULL with an error. */
static char *load_text(const char *option, struct buf *errors)
{
    const char *path = or_null(option);
    char *text;
    struct err err = {.text = ""};

    text = path == NULL ? mem_strdup("") : read_text(path, &err);
    if (text == NULL && !is_said(errors, err.text))
        buf_printf(errors, "%s\n", err_is_set(&err) ? err.text : "out of memory");
    return text;
}

static bool load_texts(const struct config *c, struct trust *out, struct buf *errors)
{
    out->serving_cert = load_text(c->tls_cert_file, errors);
    out->front_cert = load_text(c->proxy_client_cert_file, errors);
    out->requestheader_ca = load_text(c->requestheader_client_ca_file, errors);
    out->client_ca = load_text(c->client_ca_file, errors);
    return out->serving_cert != NULL && out->front_cert != NULL && out->requestheader_ca != NULL &&
           out->client_ca != NULL;
}

static bool is_allowed_name(const struct config *c)
{
    const char *const *names = c->requestheader_allowed_names;
    char own[256];

    if (names[0] == NULL)
        return true;
    if (!tls_inspect_common_name(c->proxy_client_cert_file, own, sizeof(own)))
        return false;
    while (*names != NULL && strcmp(*names, own) != 0)
        names++;
    return *names != NULL;
}

bool trust_load(const struct config *c, struct trust *out, struct buf *errors)
{
    bool has_cert = or_null(c->proxy_client_cert_file) != NULL, ok = true;
    struct tls_validity valid;
    struct err err;

    *out = (struct trust){0};
    err_clear(&err);
    out->serving = keep(load_serving(c, true, NULL, NULL, &err), &err, errors, &ok);
    /* What is wrong with one is wrong with both, and is said once. */
    if (out->serving != NULL)
        out->admin = keep(load_serving(c, false, NULL, NULL, &err), &err, errors, &ok);
    out->local_no_cert = keep(load_local(c, false, NULL, &err), &err, errors, &ok);
    if (has_cert)
        out->local_cert = keep(load_local(c, true, out->local_no_cert, &err), &err, errors, &ok);
    if (tls_file_validity(c->tls_cert_file, false, &valid))
        out->serving_until_s = valid.not_after;
    out->serving_fits = serving_pair_fits(c);
    if (has_cert && tls_file_validity(c->proxy_client_cert_file, false, &valid))
        out->front_until_s = valid.not_after;
    out->front_named = has_cert && is_allowed_name(c);
    out->front_signed = has_cert && or_null(c->requestheader_client_ca_file) != NULL &&
                        tls_inspect_signed(c->proxy_client_cert_file, c->requestheader_client_ca_file);
    if (has_cert && or_null(c->peer_ca_file) != NULL) {
        out->peer_no_cert = keep(load_peer(c, false, NULL, &err), &err, errors, &ok);
        out->peer_cert = keep(load_peer(c, true, out->peer_no_cert, &err), &err, errors, &ok);
    }
    load_etcds(c, out, errors, &ok);
    ok = ok && load_texts(c, out, errors);
    if (or_null(c->egress_selector_config_file) != NULL)
        ok = load_egress(c, out, errors) && ok;
    if (!ok)
        trust_free(out);
    return ok;
}

static void drop(struct tls_ctx **ctx)
{
    if (*ctx != NULL)
        tls_ctx_unref(*ctx);
    *ctx = NULL;
}

void trust_free(struct trust *t)
{
    mem_free(t->serving_cert);
    mem_free(t->front_cert);
    mem_free(t->requestheader_ca);
    mem_free(t->client_ca);
    t->serving_cert = t->front_cert = t->requestheader_ca = t->client_ca = NULL;
    drop(&t->serving);
    drop(&t->admin);
    drop(&t->local_cert);
    drop(&t->local_no_cert);
    drop(&t->peer_cert);
    drop(&t->peer_no_cert);
    for (size_t i = 0; i < ETCD_SERVERS_MAX; i++)
        drop(&t->etcd[i]);
    egress_proxy_unref(t->peer_egress);
    egress_proxy_unref(t->etcd_egress);
    t->peer_egress = t->etcd_egress = NULL;
}

static void keep_same(struct tls_ctx **ctx, struct tls_ctx *old, bool *changed)
{
    if (!tls_ctx_same(*ctx, old)) {
        *changed = true;
    } else if (old != NULL) {
        tls_ctx_unref(*ctx);
        *ctx = tls_ctx_ref(old);
    }
}

static void keep_same_egress(struct egress_proxy **egress, struct egress_proxy *old, bool *changed)
{
    if (!egress_proxy_same(*egress, old)) {
        *changed = true;
    } else if (old != NULL) {
        egress_proxy_unref(*egress);
        *egress = egress_proxy_ref(old);
    }
}

unsigned trust_keep_same(struct trust *t, const struct trust *old)
{
    bool changed = false, egress = false;

    keep_same(&t->serving, old->serving, &changed);
    keep_same(&t->admin, old->admin, &changed);
    keep_same(&t->local_cert, old->local_cert, &changed);
    keep_same(&t->local_no_cert, old->local_no_cert, &changed);
    keep_same(&t->peer_cert, old->peer_cert, &changed);
    keep_same(&t->peer_no_cert, old->peer_no_cert, &changed);
    for (size_t i = 0; i < ETCD_SERVERS_MAX; i++)
        keep_same(&t->etcd[i], old->etcd[i], &changed);
    keep_same_egress(&t->peer_egress, old->peer_egress, &egress);
    keep_same_egress(&t->etcd_egress, old->etcd_egress, &egress);
    return (changed ? TRUST_CHANGED_FILES : 0) | (egress ? TRUST_CHANGED_EGRESS : 0);
}

/* Takes `fresh` over; NULL: it could not be made. */
static void hold(struct tls_ctx **ctx, struct tls_ctx *fresh, struct tls_ctx *old)
{
    tls_ctx_unref(*ctx);
    *ctx = fresh != NULL ? fresh : old == NULL ? NULL : tls_ctx_ref(old);
}

void trust_hold_local(const struct config *c, struct trust *t, const struct trust *old)
{
    struct err err = {.text = ""};

    hold(&t->local_no_cert, NULL, old->local_no_cert);
    if (t->local_cert != NULL)
        hold(&t->local_cert, load_local(c, true, old->local_no_cert, &err), old->local_cert);
}

void trust_hold_peers(const struct config *c, struct trust *t, const struct trust *old)
{
    struct err err = {.text = ""};

    hold(&t->peer_no_cert, NULL, old->peer_no_cert);
    hold(&t->peer_cert, load_peer(c, true, old->peer_no_cert, &err), old->peer_cert);
}

static bool hold_text(char **text, const char *old, struct buf *errors)
{
    char *copy = mem_strdup(old);

    if (copy == NULL) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    mem_free(*text);
    *text = copy;
    return true;
}

bool trust_hold_clients(const struct config *c, struct trust *t, const struct trust *old, unsigned which,
                        struct buf *errors)
{
    const struct tls_ctx *clients = which & TRUST_CLIENT_CA ? old->serving : NULL,
                         *fronts = which & TRUST_FRONT_CA ? old->serving : NULL;
    struct err err = {.text = ""};
    bool ok = true;

    drop(&t->serving);
    drop(&t->admin);
    t->serving = keep(load_serving(c, true, clients, fronts, &err), &err, errors, &ok);
    t->admin = keep(load_serving(c, false, clients, fronts, &err), &err, errors, &ok);
    if (which & TRUST_FRONT_CA)
        t->front_signed = true;
    return ok && (!(which & TRUST_CLIENT_CA) || hold_text(&t->client_ca, old->client_ca, errors)) &&
           (!(which & TRUST_FRONT_CA) || hold_text(&t->requestheader_ca, old->requestheader_ca, errors));
}

bool trust_disowns_front(const struct config *c, const struct trust *t, const struct trust *old)
{
    return t->front_cert[0] != '\0' && t->requestheader_ca[0] != '\0' && !t->front_signed &&
           t->front_until_s > clock_wall_us() / 1000000 &&
           tls_inspect_signed_for(c->proxy_client_cert_file, old->serving);
}

/* The option that the front-proxy certificate does not fit any more, or NULL. */
static const char *misfit(const struct trust *t, const struct trust *old)
{
    bool told = t->front_cert[0] != '\0' && t->requestheader_ca[0] != '\0'; /* a reload may take them away */

    if (!told || !old->front_signed || !old->front_named || strcmp(t->front_cert, old->front_cert) == 0 ||
        old->front_until_s <= clock_wall_us() / 1000000)
        return NULL;
    return !t->front_signed ? "requestheader-client-ca-file" : !t->front_named ? "requestheader-allowed-names" : NULL;
}

static bool is_front_stray(const struct config *c, const struct trust *t, const struct trust *old, struct buf *errors)
{
    const char *option = misfit(t, old);

    if (option != NULL)
        remarks_wrong(&(struct remarks){c, errors, true}, "proxy-client-cert-file",
                      "%s: does not fit %s, and the one before it does: put the front proxy's pair back "
                      "(front-proxy-client.crt), or give that option what the new one needs",
                      c->proxy_client_cert_file, option);
    return option != NULL;
}

/* By the CAs in force it may be signed all the same: those of the file may have been held back. */
static bool is_serving_stray(const struct config *c, struct trust *t, const struct trust *old, struct buf *errors)
{
    if (old->peer_no_cert != NULL && tls_inspect_signed_in(c->tls_cert_file, old->peer_no_cert))
        t->serving_fits |= SERVING_SIGNED;
    if (strcmp(t->serving_cert, old->serving_cert) == 0 || old->serving_until_s <= clock_wall_us() / 1000000)
        return false;
    return serving_pair_say_lost(c, old->serving_fits & ~t->serving_fits, errors);
}

bool trust_stray(const struct config *c, struct trust *t, const struct trust *old, struct buf *errors)
{
    bool front = is_front_stray(c, t, old, errors);

    return is_serving_stray(c, t, old, errors) || front;
}

void trust_say_suites(const struct config *c)
{
    for (size_t i = 0; c->tls_cipher_suites[i] != NULL; i++) {
        enum tls_suite_kind kind = tls_suite_kind(c->tls_cipher_suites[i]);

        if (kind == TLS_SUITE_INSECURE)
            log_warning("Insecure cipher suite in use", LT("suite", c->tls_cipher_suites[i]));
        else if (kind == TLS_SUITE_MISSING)
            log_warning("The TLS library lacks a cipher suite, it is left out", LT("suite", c->tls_cipher_suites[i]));
    }
}

static void each_sni_file(const struct config *c, trust_file_fn *fn, void *arg)
{
    struct tls_sni_spec spec;
    char option[OPTION_TEXT_BYTES];
    struct err err;

    for (size_t i = 0; c->tls_sni_cert_key[i] != NULL; i++) {
        err_clear(&err);
        if (!tls_sni_parse(c->tls_sni_cert_key[i], &spec, &err))
            continue;
        snprintf(option, sizeof(option), "tls-sni-cert-key[%zu]", i);
        fn(option, spec.cert_file, TRUST_CERTIFICATE, arg);
        fn(option, spec.key_file, TRUST_KEY, arg);
    }
}

static const char egress_option[] = "egress-selector-config-file";

static void each_file_of(const struct egress_selection *s, trust_file_fn *fn, void *arg)
{
    if (!s->given || !s->tls)
        return;
    if (s->ca_bundle.text[0] != '\0')
        fn(egress_option, s->ca_bundle.text, TRUST_BUNDLE, arg);
    fn(egress_option, s->client_cert.text, TRUST_CERTIFICATE, arg);
    fn(egress_option, s->client_key.text, TRUST_KEY, arg);
}

/* The file itself, and what it names as it is now. */
static void each_egress_file(const struct config *c, trust_file_fn *fn, void *arg)
{
    const char *path = or_null(c->egress_selector_config_file);
    struct arena *a = path == NULL ? NULL : arena_new(EGRESS_ARENA_CEILING);
    struct egress egress;
    struct buf errors;

    if (path != NULL)
        fn(egress_option, path, TRUST_KEY, arg); /* it has no end */
    if (a == NULL)
        return;
    buf_init(&errors, EGRESS_ERRORS_CEILING); /* said by who loads it */
    if (egress_load(path, a, &egress, &errors)) {
        each_file_of(&egress.of[EGRESS_CONTROLPLANE], fn, arg);
        each_file_of(&egress.of[EGRESS_ETCD], fn, arg);
    }
    buf_free(&errors);
    arena_free(a);
}

void trust_each_file(const struct config *c, trust_file_fn *fn, void *arg)
{
    const struct {
        const char *option, *path;
        enum trust_file_kind kind;
    } files[] = {
        {"tls-cert-file", c->tls_cert_file, TRUST_CERTIFICATE},
        {"tls-private-key-file", c->tls_private_key_file, TRUST_KEY},
        {"client-ca-file", c->client_ca_file, TRUST_BUNDLE},
        {"requestheader-client-ca-file", c->requestheader_client_ca_file, TRUST_BUNDLE},
        {"proxy-client-cert-file", c->proxy_client_cert_file, TRUST_CERTIFICATE},
        {"proxy-client-key-file", c->proxy_client_key_file, TRUST_KEY},
        {"apiserver-ca-file", c->apiserver_ca_file, TRUST_BUNDLE},
        {"peer-ca-file", c->peer_ca_file, TRUST_BUNDLE},
        {"etcd-cafile", c->etcd_cafile, TRUST_BUNDLE},
        {"etcd-certfile", c->etcd_certfile, TRUST_CERTIFICATE},
        {"etcd-keyfile", c->etcd_keyfile, TRUST_KEY},
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i].path[0] != '\0')
            fn(files[i].option, files[i].path, files[i].kind, arg);
    each_sni_file(c, fn, arg);
    each_egress_file(c, fn, arg);
}

struct mention {
    struct slice line;
    char option[OPTION_TEXT_BYTES]; /* whose file the line is about; "": none that is known */
};

static void look_for_mention(const char *option, const char *path, enum trust_file_kind kind, void *arg)
{
    struct mention *m = arg;
    const char *at = memmem(m->line.p, m->line.n, path, strlen(path));

    (void)kind;
    if (m->option[0] == '\0' && at != NULL && at + strlen(path) < m->line.p + m->line.n && at[strlen(path)] == ':')
        (void)snprintf(m->option, sizeof(m->option), "%s", option);
}

/* "FILE:", and the place in it. */
static bool is_of_egress_file(const struct config *c, struct slice line)
{
    size_t n = strlen(c->egress_selector_config_file);

    return n > 0 && line.n > n && memcmp(line.p, c->egress_selector_config_file, n) == 0 && line.p[n] == ':';
}

void trust_name_options(const struct config *c, struct buf *errors)
{
    struct slice rest = buf_slice(errors);
    struct buf named;
    struct remarks r = {c, &named, true};
    struct mention m;

    buf_init(&named, 2 * buf_len(errors) + TRUST_NAMED_BYTES);
    while (slice_split(&rest, '\n', &m.line)) {
        m.option[0] = '\0';
        if (is_of_egress_file(c, m.line))
            (void)snprintf(m.option, sizeof(m.option), "%s", egress_option);
        trust_each_file(c, look_for_mention, &m);
        if (m.option[0] != '\0')
            remarks_wrong(&r, m.option, "%.*s", (int)m.line.n, m.line.p);
        else if (m.line.n > 0)
            buf_printf(&named, "%.*s\n", (int)m.line.n, m.line.p);
    }
    if (!named.failed) {
        buf_reset(errors);
        buf_append(errors, buf_slice(&named));
    }
    buf_free(&named);
}

bool trust_has_peers(const struct trust *t)
{
    return t->peer_cert != NULL;
}

void trust_say_missing(const struct trust *t, const struct trust *before)
{
    if (!trust_has_peers(t) && (before == NULL || trust_has_peers(before)))
        log_warning("Peers cannot be used: peer-ca-file or the proxy-client pair is not configured; requests that "
                    "would need one are answered with 503");
    if (t->local_cert == NULL && (before == NULL || before->local_cert != NULL))
        log_warning("Certificate users are refused: proxy-client-cert-file is not configured");
}
