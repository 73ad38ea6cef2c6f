/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_words.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static bool is_of_unknown_ca(long verdict)
{
    return verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY || verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
           verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN || verdict == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE ||
           verdict == X509_V_ERR_CERT_SIGNATURE_FAILURE;
}

/* The name or the address that it has to have. */
static void put_other_names(SSL *ssl, char out[TLS_WORDS_BYTES])
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    const char *host = X509_VERIFY_PARAM_get0_host(param, 0);
    char *ip = host == NULL ? X509_VERIFY_PARAM_get1_ip_asc(param) : NULL;

    (void)snprintf(out, TLS_WORDS_BYTES, "it is not for %s", host != NULL ? host : ip != NULL ? ip : "that name");
    OPENSSL_free(ip);
}

void tls_words_refusal(SSL *ssl, const char *bundle, char out[TLS_WORDS_BYTES])
{
    long verdict = SSL_get_verify_result(ssl);

    bundle = bundle == NULL ? "the bundle" : bundle;
    if (is_of_unknown_ca(verdict))
        (void)snprintf(out, TLS_WORDS_BYTES, "its CA is not in %s", bundle);
    else if (verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT)
        (void)snprintf(out, TLS_WORDS_BYTES, "it is signed by itself, and not in %s", bundle);
    else if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        put_other_names(ssl, out);
    else if (verdict == X509_V_ERR_CERT_HAS_EXPIRED)
        (void)snprintf(out, TLS_WORDS_BYTES, "it has expired");
    else if (verdict == X509_V_ERR_CERT_NOT_YET_VALID)
        (void)snprintf(out, TLS_WORDS_BYTES, "it is not valid yet");
    else if (verdict == X509_V_ERR_INVALID_PURPOSE)
        (void)snprintf(out, TLS_WORDS_BYTES, "it must not be used by servers (extended key usage)");
    else
        (void)snprintf(out, TLS_WORDS_BYTES, "%s", X509_verify_cert_error_string(verdict));
}

const char *tls_words_client(long verdict)
{
    if (is_of_unknown_ca(verdict))
        return "no CA that clients are judged by has signed the certificate";
    switch (verdict) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return "the certificate is signed by itself";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "the certificate has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "the certificate is not valid yet";
    case X509_V_ERR_INVALID_PURPOSE:
        return "the certificate must not be used by clients (extended key usage)";
    case X509_V_ERR_CA_MD_TOO_WEAK:
        return "the certificate, or its issuer's, is signed with SHA-1 or what else kube-apiserver does not take";
    default:
        return X509_verify_cert_error_string(verdict);
    }
}

static const char *words_of(int reason, bool server)
{
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
        return server ? "what the client sends is not TLS" : "what answers does not speak TLS";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return "the client speaks plain HTTP";
    case SSL_R_NO_SHARED_CIPHER:
        return "no cipher suite in common";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
        return "no version of TLS in common: here it is 1.2 or 1.3";
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SHARED_GROUPS:
        return "no key exchange group in common";
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return "no protocol in common (ALPN)";
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return "no signature algorithm in common";
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
        return server ? "the client's certificates are more than 8 KiB"
                      : "the server's certificates, or the names of the CAs that it asks for, are more than 16 KiB";
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
        return "what came is damaged";
    default:
        return NULL;
    }
}

static const char *words_of_ours(int reason)
{
    switch (reason) {
    case TLS_WORDS_LONG_HELLO:
        return "the client's hello is more than 16 KiB";
    case TLS_WORDS_MANY_TICKETS:
        return "the client's hello offers more than 5 sessions to resume";
    case TLS_WORDS_DEAR_KEY:
        return "the key of the client's certificate is none of RSA (up to 8192 bits, exponent below 2^31), P-256, "
               "P-384, "
               "P-521 and Ed25519";
    case TLS_WORDS_MANY_CERTIFICATES:
        return "the client shows more than 6 certificates";
    default:
        return NULL;
    }
}

/* What the other side said when it gave up, by the names that RFC 8446 6.2 gives it. */
static const char *words_of_alert(int alert, bool server)
{
    switch (alert) {
    case SSL_AD_UNKNOWN_CA:
        return server ? "the client does not know the CA of our certificate (TLS alert)"
                      : "the server does not know the CA of our certificate (TLS alert)";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
        return server ? "the client refuses our certificate (TLS alert)"
                      : "the server refuses our certificate (TLS alert)";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return server ? "to the client our certificate has expired (TLS alert)"
                      : "to the server our certificate has expired (TLS alert)";
    case SSL_AD_CERTIFICATE_REQUIRED:
        return "the server wants a client certificate (TLS alert)";
    case SSL_AD_PROTOCOL_VERSION:
        return server ? "the client wants another version of TLS (TLS alert)"
                      : "the server wants another version of TLS (TLS alert)";
    default:
        return NULL;
    }
}

const char *tls_words_error(unsigned long error, bool server)
{
    int reason = ERR_GET_REASON(error);
    const char *words;

    if (error == 0)
        return "protocol error";
    if (ERR_GET_LIB(error) == ERR_LIB_USER)
        words = words_of_ours(reason);
    else
        words = reason >= SSL_AD_REASON_OFFSET ? words_of_alert(reason - SSL_AD_REASON_OFFSET, server)
                                               : words_of(reason, server);
    if (words == NULL)
        words = ERR_reason_error_string(error);
    return words == NULL ? "protocol error" : words;
}
