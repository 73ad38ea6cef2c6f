/* SPDX-License-Identifier: Apache-2.0 */
/* Client certificates of any making: whole ones, or one of ours with any subject. What is read of them is in bounds. */
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "fuzz/fuzz.h"
#include "net/tls_cert_memory.h"
#include "net/tls_certs.h"
#include "net/tls_internal.h"

/* Certificates of ours for any name, and the CA bundle that does not verify them. */
struct stage {
    struct tls_ctx ctx;
    struct tls_certs cas;
    X509 *template;
};

static X509 *self_signed(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();

    must_hold(key != NULL && cert != NULL && ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) == 1);
    must_hold(X509_set_version(cert, X509_VERSION_3) == 1 && X509_set_pubkey(cert, key) == 1);
    must_hold(X509_gmtime_adj(X509_getm_notBefore(cert), 0) != NULL);
    must_hold(X509_gmtime_adj(X509_getm_notAfter(cert), 86400) != NULL);
    must_hold(X509_sign(cert, key, EVP_sha256()) > 0);
    EVP_PKEY_free(key);
    return cert;
}

static struct stage *stage(void)
{
    static struct stage s;
    X509 *ca;

    if (s.template != NULL)
        return &s;
    s.template = self_signed();
    ca = self_signed();
    s.ctx.server = true;
    s.ctx.client_ca = &s.cas;
    s.cas.store = X509_STORE_new();
    must_hold(s.cas.store != NULL && X509_STORE_add_cert(s.cas.store, ca) == 1);
    X509_free(ca);
    return &s;
}

static X509 *certificate_of(struct slice in, const struct stage *s)
{
    uint8_t whole = fuzz_byte(&in);
    const unsigned char *p = (const unsigned char *)in.p;
    X509_NAME *name;
    X509 *cert;

    if (whole & 1)
        return d2i_X509(NULL, &p, (long)in.n);
    name = d2i_X509_NAME(NULL, &p, (long)in.n);
    cert = name == NULL ? NULL : X509_dup(s->template);
    if (cert != NULL)
        must_hold(X509_set_subject_name(cert, name) == 1);
    X509_NAME_free(name);
    return cert;
}

/* Reading it is what the sanitizer looks at. */
static size_t sum(struct slice s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += (unsigned char)s.p[i];
    return n;
}

static void examine(const struct tls_peer *p, X509 *cert)
{
    size_t total = p->common_name.n + p->uid.n, check = sum(p->common_name) + sum(p->uid);
    int subject = i2d_X509_NAME(X509_get_subject_name(cert), NULL);

    must_hold(p->present && !p->client_ca && !p->requestheader_ca && p->why_not != NULL);
    must_hold(strlen(p->sha256) == 64);
    must_hold(p->n_orgs <= TLS_PEER_MAX_ORGS);
    for (size_t i = 0; i < p->n_orgs; i++) {
        total += p->orgs[i].n;
        check += sum(p->orgs[i]);
    }
    must_hold(subject > 0 ? total <= 2 * (size_t)subject : total == 0);
    must_hold(check <= total * 255);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct stage *s = stage();
    X509 *cert = certificate_of(slice_of((const char *)data, size), s);
    struct tls_identity *id = NULL;

    if (cert == NULL)
        return 0;
    /* False: what cannot be encoded again has no fingerprint, and nobody is known by it. */
    if (tls_identity_of(&s->ctx, cert, NULL, &id))
        examine(tls_identity_peer(id), cert);
    else
        must_hold(id == NULL);
    tls_identity_free(id);
    (void)tls_cert_memory(cert);
    X509_free(cert);
    return 0;
}
