/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the other side's certificate to struct tls_peer. Done after every handshake, resumed ones too: a session keeps
 * the certificate, and whether it still verifies is asked again. So it is on an open connection when the bundles
 * change.
 */
#include <openssl/x509v3.h>
#include <time.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "net/tls_cert_memory.h"
#include "net/tls_internal.h"
#include "net/tls_words.h"

enum { MAX_SUBJECT_BYTES = 64 << 10 };

struct tls_identity {
    struct tls_peer peer;
    const char *unusable; /* whatever the bundles say */
    char *text;           /* what peer's slices point into */
    size_t used, size;
};

/* Kubernetes 1.33 reads a user's UID from here. */
static const char UID_OID[] = "1.3.6.1.4.1.57683.2";

void tls_identity_free(struct tls_identity *id)
{
    if (id == NULL)
        return;
    mem_free(id->text);
    mem_free(id);
}

const struct tls_peer *tls_identity_peer(const struct tls_identity *id)
{
    static const struct tls_peer nobody;

    return id == NULL ? &nobody : &id->peer;
}

/*
 * Go's crypto/x509, whose reading of a subject decides in Kubernetes, converts BMPString, and T61String as if it were
 * Latin-1 (older releases left its bytes alone); it knows four types more, and takes no text that is not UTF-8 for a
 * certificate.
 */
static bool add_text(struct tls_identity *id, const ASN1_STRING *value, struct slice *out)
{
    unsigned char *utf8 = NULL;
    const unsigned char *p = ASN1_STRING_get0_data(value);
    int n = ASN1_STRING_length(value);
    bool good;

    switch (ASN1_STRING_type(value)) {
    case V_ASN1_BMPSTRING:
    case V_ASN1_T61STRING:
        n = ASN1_STRING_to_UTF8(&utf8, value);
        p = utf8;
        break;
    case V_ASN1_UTF8STRING:
    case V_ASN1_PRINTABLESTRING:
    case V_ASN1_IA5STRING:
    case V_ASN1_NUMERICSTRING:
        break;
    default:
        return false;
    }
    good = n >= 0 && (size_t)n <= id->size - id->used && utf8_valid(slice_of((const char *)p, (size_t)n));
    if (good) {
        if (n > 0)
            memcpy(id->text + id->used, p, (size_t)n);
        *out = slice_of(id->text + id->used, (size_t)n);
        id->used += (size_t)n;
    }
    OPENSSL_free(utf8);
    return good;
}

static bool add_attribute(struct tls_identity *id, const X509_NAME_ENTRY *entry)
{
    const ASN1_OBJECT *type = X509_NAME_ENTRY_get_object(entry);
    const ASN1_STRING *value = X509_NAME_ENTRY_get_data(entry);
    struct tls_peer *p = &id->peer;
    char oid[sizeof(UID_OID) + 1];

    switch (OBJ_obj2nid(type)) {
    case NID_commonName:
        return add_text(id, value, &p->common_name); /* of several the last counts, as in Go */
    case NID_organizationName:
        if (p->n_orgs == TLS_PEER_MAX_ORGS) {
            p->too_many_orgs = true;
            return true;
        }
        return add_text(id, value, &p->orgs[p->n_orgs++]);
    default:
        if (OBJ_obj2txt(oid, sizeof(oid), type, 1) < 0 || strcmp(oid, UID_OID) != 0)
            return true;
        if (p->uid.p != NULL) /* kube-apiserver refuses a subject with two */
            return false;
        return add_text(id, value, &p->uid);
    }
}

/* False: a subject that cannot mean anybody. */
static bool read_subject(struct tls_identity *id, X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);

    for (int i = 0; i < X509_NAME_entry_count(subject); i++)
        if (!add_attribute(id, X509_NAME_get_entry(subject, i)))
            return false;
    return true;
}

/*
 * Of what a certificate may be used for Go's crypto/x509, which decides in kube-apiserver, looks at the extended usages
 * alone, lets anyExtendedKeyUsage stand for client authentication, and takes none for all, in each certificate of the
 * chain. The library's purpose demands digitalSignature and heeds Netscape's types: clients whom Kubernetes' own signer
 * gave "key encipherment" and "client auth" would be nobody. That an issuer is a CA is asked apart from it.
 */
static int judge_usage_as_go(int ok, X509_STORE_CTX *ctx)
{
    if (ok || X509_STORE_CTX_get_error(ctx) != X509_V_ERR_INVALID_PURPOSE ||
        (X509_get_extended_key_usage(X509_STORE_CTX_get_current_cert(ctx)) & (XKU_ANYEKU | XKU_SSL_CLIENT)) == 0)
        return ok; /* without the extension all bits are set */
    X509_STORE_CTX_set_error(ctx, X509_V_OK);
    return 1;
}

/*
 * Go takes no signature with SHA-1 or MD5, nor with what it does not know. The anchor's own counts for nothing, nor
 * does that of an issuer who is in the bundle.
 */
static bool signed_well(X509_STORE_CTX *ctx)
{
    const STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(ctx);
    uint32_t flags;
    int digest, key;

    for (int i = 0; i < X509_STORE_CTX_get_num_untrusted(ctx); i++) {
        if (X509_get_signature_info(sk_X509_value(chain, i), &digest, &key, NULL, &flags) != 1)
            return false;
        if (key == NID_ED25519)
            continue;
        /* The flag: among others, that the parameters of RSA-PSS are the usual ones. */
        if ((flags & X509_SIG_INFO_TLS) == 0 || (digest != NID_sha256 && digest != NID_sha384 && digest != NID_sha512))
            return false;
    }
    return true;
}

/* X509_V_OK, or why the chain from `cert` to the bundle does not hold for a client. */
static int verify(const struct tls_certs *bundle, X509 *cert, STACK_OF(X509) * others)
{
    X509_STORE_CTX *ctx;
    int verdict = X509_V_ERR_UNSPECIFIED;

    if (bundle == NULL)
        return X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;
    ctx = X509_STORE_CTX_new();
    if (ctx != NULL && X509_STORE_CTX_init(ctx, bundle->store, cert, others) == 1 &&
        X509_STORE_CTX_set_default(ctx, "ssl_client") == 1) {
        X509_STORE_CTX_set_verify_cb(ctx, judge_usage_as_go);
        /* Nor is a common name a host's, that a CA might not name. */
        X509_VERIFY_PARAM_set_hostflags(X509_STORE_CTX_get0_param(ctx), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        if (X509_verify_cert(ctx) == 1 || X509_STORE_CTX_get_error(ctx) != X509_V_OK)
            verdict = X509_STORE_CTX_get_error(ctx);
        if (verdict == X509_V_OK && !signed_well(ctx))
            verdict = X509_V_ERR_CA_MD_TOO_WEAK;
    }
    X509_STORE_CTX_free(ctx);
    return verdict;
}

bool tls_identity_stands_alone(const struct tls_ctx *c, SSL *ssl)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);

    if (cert == NULL || sk_X509_num(SSL_get_peer_cert_chain(ssl)) <= 0)
        return true;
    return verify(c->client_ca, cert, NULL) == X509_V_OK || verify(c->requestheader_ca, cert, NULL) == X509_V_OK;
}

static void judge(struct tls_identity *id, const struct tls_ctx *c, X509 *cert, STACK_OF(X509) * others)
{
    struct tls_peer *p = &id->peer;
    int client, requestheader;

    p->client_ca = p->requestheader_ca = false;
    p->why_not = id->unusable;
    if (id->unusable != NULL)
        return;
    client = verify(c->client_ca, cert, others);
    requestheader = verify(c->requestheader_ca, cert, others);
    p->client_ca = client == X509_V_OK;
    p->requestheader_ca = requestheader == X509_V_OK;
    if (!p->client_ca && !p->requestheader_ca) {
        /* The more telling of the two: "unknown issuer" is what every foreign bundle says. */
        bool foreign = client == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
                       client == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;

        p->why_not = tls_words_client(foreign ? requestheader : client);
    }
}

static void set_not_after(struct tls_peer *p, X509 *cert)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1)
        p->not_after = (int64_t)timegm(&tm);
}

static bool set_fingerprint(struct tls_peer *p, X509 *cert)
{
    unsigned char *der = NULL;
    unsigned char digest[HASH_SHA256_BYTES];
    int n = i2d_X509(cert, &der);
    bool done = n > 0 && hash_sha256(slice_of((const char *)der, (size_t)n), digest);

    OPENSSL_free(der);
    if (done)
        hash_hex(digest, sizeof(digest), false, p->sha256);
    return done;
}

static bool fill(struct tls_identity *id, X509 *cert)
{
    struct tls_peer *p = &id->peer;
    int subject = i2d_X509_NAME(X509_get_subject_name(cert), NULL);

    p->present = true;
    set_not_after(p, cert);
    if (!set_fingerprint(p, cert))
        return false;
    if (subject <= 0 || subject > MAX_SUBJECT_BYTES) {
        id->unusable = "subject missing or too large";
        return true;
    }
    id->size = 2 * (size_t)subject; /* UTF-8 needs at most three bytes for two of BMPString, two for one of T61String */
    id->text = mem_alloc(id->size);
    if (id->text == NULL)
        return false;
    if (!read_subject(id, cert))
        id->unusable = "subject not understood";
    else if (p->too_many_orgs)
        id->unusable = "too many organizations";
    return true;
}

bool tls_identity_of(const struct tls_ctx *c, X509 *cert, STACK_OF(X509) * others, struct tls_identity **id)
{
    *id = mem_zalloc(sizeof(**id));
    if (*id != NULL && fill(*id, cert)) {
        judge(*id, c, cert, others);
        return true;
    }
    tls_identity_free(*id);
    *id = NULL;
    return false;
}

bool tls_identity_new(const struct tls_ctx *c, SSL *ssl, struct tls_identity **id)
{
    X509 *cert = c->server ? SSL_get0_peer_certificate(ssl) : NULL;

    return cert == NULL || tls_identity_of(c, cert, SSL_get_peer_cert_chain(ssl), id);
}

size_t tls_chain_bytes(const SSL *ssl)
{
    const STACK_OF(X509) *chain = SSL_get_peer_cert_chain(ssl);
    size_t sum =
        SSL_is_server(ssl) ? tls_cert_memory(SSL_get0_peer_certificate(ssl)) : 0; /* a server's stands in the chain */

    for (int i = 0; i < sk_X509_num(chain); i++)
        sum += tls_cert_memory(sk_X509_value(chain, i));
    return sum;
}

void tls_identity_judge_again(struct tls_identity *id, const struct tls_ctx *c, SSL *ssl)
{
    X509 *cert = id == NULL ? NULL : SSL_get0_peer_certificate(ssl);

    if (cert != NULL)
        judge(id, c, cert, SSL_get_peer_cert_chain(ssl));
}
