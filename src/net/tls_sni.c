/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_sni.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/strmap.h"
#include "net/tls_hello.h"
#include "net/tls_internal.h"

enum { NAME_BYTES = 256 }; /* a host name has at most 253 characters */

struct tls_sni {
    struct tls_pair *pairs;
    size_t n;
    struct strmap *by_name; /* lower case, also "*.example.com" and addresses -> struct tls_pair */
    bool has_address;       /* some pattern is an IP address */
};

/* ---- notation ---- */

static bool take_path(struct slice s, char out[TLS_SNI_PATH_BYTES])
{
    s = slice_trim(s);
    if (s.n == 0 || s.n >= TLS_SNI_PATH_BYTES)
        return false;
    memcpy(out, s.p, s.n);
    out[s.n] = '\0';
    return true;
}

bool tls_sni_parse(const char *text, struct tls_sni_spec *out, struct err *err)
{
    struct slice patterns = slice_str(text), files, cert;

    out->patterns = SLICE_NONE;
    (void)slice_split(&patterns, ':', &files);
    if (patterns.p != NULL) {
        out->patterns = slice_trim(patterns);
        if (out->patterns.n == 0)
            return err_set(
                err, "\"%s\" has nothing behind the colon, where names belong: add them, or take the colon out", text);
    }
    (void)slice_split(&files, ',', &cert);
    if (files.p == NULL || slice_index(files, ',') < files.n || !take_path(cert, out->cert_file) ||
        !take_path(files, out->key_file))
        return err_set(err, "\"%s\" is not CERT,KEY: write CERT,KEY or CERT,KEY:NAME,...", text);
    return true;
}

/* ---- names ---- */

/* Lower case; 0 for what cannot be a name. */
static size_t fold(struct slice s, char out[NAME_BYTES])
{
    if (s.n >= NAME_BYTES)
        return 0;
    for (size_t i = 0; i < s.n; i++)
        out[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] - 'A' + 'a') : s.p[i];
    out[s.n] = '\0';
    return s.n;
}

/* One spelling for each address. */
static bool is_address(char name[NAME_BYTES])
{
    unsigned char bytes[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, bytes) == 1)
        return true;
    return inet_pton(AF_INET6, name, bytes) == 1 && inet_ntop(AF_INET6, bytes, name, NAME_BYTES) != NULL;
}

/* Who comes first keeps a name. */
static bool add_name(struct tls_sni *s, struct slice name, struct tls_pair *pair, bool addresses)
{
    char folded[NAME_BYTES];
    size_t n = fold(name, folded);
    struct slice key;

    if (n == 0 || memchr(folded, '\0', n) != NULL)
        return true; /* nobody can ask for it */
    if (is_address(folded)) {
        if (!addresses)
            return true;
        s->has_address = true;
    }
    key = slice_str(folded);
    return strmap_get(s->by_name, key) != NULL || strmap_put(s->by_name, key, pair, NULL);
}

static bool add_patterns(struct tls_sni *s, struct slice patterns, struct tls_pair *pair)
{
    struct slice name;

    while (slice_split(&patterns, ',', &name))
        if (!add_name(s, slice_trim(name), pair, true))
            return false;
    return true;
}

/* An RFC 1123 name, perhaps behind "*.", or "*" alone: what kube-apiserver takes from a CN. */
static bool is_domain(struct slice s)
{
    struct slice label;

    if (slice_eq(s, SLICE_LIT("*")))
        return true;
    if (slice_has_prefix(s, SLICE_LIT("*.")))
        s = slice_from(s, 2);
    while (slice_split(&s, '.', &label)) {
        if (label.n == 0 || label.p[0] == '-' || label.p[label.n - 1] == '-')
            return false;
        for (size_t i = 0; i < label.n; i++)
            if (!((label.p[i] >= 'a' && label.p[i] <= 'z') || (label.p[i] >= '0' && label.p[i] <= '9') ||
                  label.p[i] == '-'))
                return false;
    }
    return true;
}

static struct slice text_of(const ASN1_STRING *s)
{
    return slice_of((const char *)ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s));
}

/* The last, as Go reads it. */
static struct slice common_name(X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = -1;

    for (int next; (next = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;)
        at = next;
    return at < 0 ? SLICE_NONE : text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

/* CN and DNS names; addresses only count where they were written into the option. */
static bool add_own_names(struct tls_sni *s, struct tls_pair *pair)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(pair->cert, NID_subject_alt_name, NULL, NULL);
    struct slice cn = common_name(pair->cert);
    bool good = cn.n == 0 || !is_domain(cn) || add_name(s, cn, pair, false);

    for (int i = 0; good && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_DNS)
            good = add_name(s, text_of(name->d.dNSName), pair, false);
    }
    GENERAL_NAMES_free(names);
    return good;
}

/* ---- making ---- */

void tls_sni_free(struct tls_sni *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n; i++)
        tls_pair_clear(&s->pairs[i]);
    mem_free(s->pairs);
    if (s->by_name != NULL)
        strmap_free(s->by_name);
    mem_free(s);
}

static bool load_pairs(struct tls_sni *s, const char *const *specs, struct tls_digest *d, struct err *err)
{
    struct tls_sni_spec spec;

    for (size_t i = 0; specs[i] != NULL; i++) {
        if (!tls_sni_parse(specs[i], &spec, err) ||
            !tls_pair_load(spec.cert_file, spec.key_file, &s->pairs[s->n], d, err))
            return false;
        tls_digest_add(d, slice_str(specs[i]));
        s->n++;
        if (!add_patterns(s, spec.patterns, &s->pairs[i]))
            return err_set(err, "out of memory");
    }
    return true;
}

/* Names that were given trump names that were found, whatever the order of the pairs. */
static bool find_names(struct tls_sni *s, const char *const *specs, struct err *err)
{
    struct tls_sni_spec spec;

    for (size_t i = 0; i < s->n; i++) {
        if (!tls_sni_parse(specs[i], &spec, err))
            return false;
        if (spec.patterns.n == 0 && !add_own_names(s, &s->pairs[i]))
            return err_set(err, "out of memory");
    }
    return true;
}

struct tls_sni *tls_sni_new(const char *const *specs, struct tls_digest *d, struct err *err)
{
    struct tls_sni *s = mem_zalloc(sizeof(*s));
    size_t n = 0;

    while (specs[n] != NULL)
        n++;
    if (s != NULL) {
        s->pairs = mem_array(n, sizeof(*s->pairs));
        s->by_name = strmap_new();
    }
    if (s == NULL || s->pairs == NULL || s->by_name == NULL)
        err_set(err, "out of memory");
    else if (n > TLS_SNI_MAX_PAIRS)
        err_set(err, "more than %d pairs", TLS_SNI_MAX_PAIRS);
    else if (load_pairs(s, specs, d, err) && find_names(s, specs, err))
        return s;
    tls_sni_free(s);
    return NULL;
}

/* ---- choosing ---- */

static const struct tls_pair *find(const struct tls_sni *s, char name[NAME_BYTES])
{
    const struct tls_pair *exact = strmap_get(s->by_name, slice_str(name));
    char *dot = strchr(name, '.');
    char wild[NAME_BYTES + 1];

    if (exact != NULL)
        return exact;
    snprintf(wild, sizeof(wild), "*%s", dot == NULL ? "" : dot);
    return strmap_get(s->by_name, slice_str(wild));
}

/* The one server name of the hello (RFC 6066, 3), or nothing: what is malformed OpenSSL refuses by itself. */
static struct slice name_of_hello(SSL *ssl)
{
    const unsigned char *p;
    size_t n;

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n) != 1 || n < 5 || p[2] != 0)
        return SLICE_NONE;
    if ((size_t)(p[0] << 8 | p[1]) != n - 2 || (size_t)(p[3] << 8 | p[4]) != n - 5)
        return SLICE_NONE;
    return slice_of((const char *)p + 5, n - 5);
}

/* The address that the client connected to. */
static bool local_address(SSL *ssl, char out[NAME_BYTES])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(a);
    int fd = -1;

    if (BIO_get_fd(SSL_get_rbio(ssl), &fd) < 0 || getsockname(fd, &a.any, &len) != 0)
        return false;
    if (a.any.sa_family == AF_INET)
        return inet_ntop(AF_INET, &a.v4.sin_addr, out, NAME_BYTES) != NULL;
    if (a.any.sa_family == AF_INET6) {
        const struct in6_addr *v6 = &a.v6.sin6_addr;

        return IN6_IS_ADDR_V4MAPPED(v6) ? inet_ntop(AF_INET, &v6->s6_addr[12], out, NAME_BYTES) != NULL
                                        : inet_ntop(AF_INET6, v6, out, NAME_BYTES) != NULL;
    }
    return false;
}

static const struct tls_pair *choose(const struct tls_ctx *c, SSL *ssl, char name[NAME_BYTES])
{
    size_t n = fold(name_of_hello(ssl), name);
    bool named = n > 0 && memchr(name, '\0', n) == NULL && !is_address(name); /* RFC 6066: no literal addresses */

    if (!named)
        name[0] = '\0';
    if (c->sni == NULL)
        return NULL;
    if (named)
        return find(c->sni, name);
    if (!c->sni->has_address || !local_address(ssl, name))
        return NULL;
    return strmap_get(c->sni->by_name, slice_str(name));
}

/*
 * Before anything else is done with a hello: who is asked for. A session may only be resumed under the name that it was
 * made for (RFC 6066, 3), so the name is its context. Tickets are decrypted after this.
 */
static int on_hello(SSL *ssl, int *alert, void *arg)
{
    const struct tls_ctx *c = arg;
    unsigned char context[HASH_SHA256_BYTES];
    char name[NAME_BYTES];
    const struct tls_pair *pair = choose(c, ssl, name);

    SSL_set_app_data(ssl, (void *)(uintptr_t)pair);
    *alert = SSL_AD_ILLEGAL_PARAMETER;
    if (!tls_hello_tickets_good(ssl))
        return SSL_CLIENT_HELLO_ERROR;
    if (hash_sha256(slice_str(name), context) && SSL_set_session_id_context(ssl, context, sizeof(context)) == 1)
        return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

/* Without a pair of its own a connection has the context's. */
static int on_certificate_wanted(SSL *ssl, void *arg)
{
    const struct tls_pair *pair = SSL_get_app_data(ssl);

    (void)arg;
    if (pair == NULL)
        return 1;
    SSL_certs_clear(ssl); /* a pair of another kind of key would be offered as well */
    return SSL_use_cert_and_key(ssl, pair->cert, pair->key, pair->chain, 1);
}

void tls_sni_enable(struct tls_ctx *c)
{
    SSL_CTX_set_client_hello_cb(c->ssl_ctx, on_hello, c);
    if (c->sni != NULL)
        SSL_CTX_set_cert_cb(c->ssl_ctx, on_certificate_wanted, NULL);
}
