/* SPDX-License-Identifier: Apache-2.0 */
/* What the library says of a failure is put into words that name who did what. */
#include "net/tls_words.h"

#include <openssl/err.h>
#include <string.h>

#include "lib/tap.h"

static const struct {
    int reason;
    bool server;
    const char *want;
} errors[] = {
    {SSL_R_WRONG_VERSION_NUMBER, false, "what answers does not speak TLS"},
    {SSL_R_WRONG_VERSION_NUMBER, true, "what the client sends is not TLS"},
    {SSL_R_HTTP_REQUEST, true, "the client speaks plain HTTP"},
    {SSL_R_NO_SHARED_CIPHER, true, "no cipher suite in common"},
    {SSL_R_UNSUPPORTED_PROTOCOL, false, "no version of TLS in common: here it is 1.2 or 1.3"},
    {SSL_R_NO_APPLICATION_PROTOCOL, true, "no protocol in common (ALPN)"},
    {SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_CA, true, "the client does not know the CA of our certificate (TLS alert)"},
    {SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_CA, false, "the server does not know the CA of our certificate (TLS alert)"},
    {SSL_AD_REASON_OFFSET + SSL_AD_BAD_CERTIFICATE, false, "the server refuses our certificate (TLS alert)"},
    {SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_EXPIRED, true, "to the client our certificate has expired (TLS alert)"},
    {SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REQUIRED, false, "the server wants a client certificate (TLS alert)"},
    {SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION, true, "the client wants another version of TLS (TLS alert)"},
    {SSL_R_BAD_LENGTH, true, "bad length"}, /* rare ones stay the library's */
};

static const struct {
    long verdict;
    const char *want;
} clients[] = {
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "no CA that clients are judged by has signed the certificate"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "no CA that clients are judged by has signed the certificate"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "the certificate is signed by itself"},
    {X509_V_ERR_CERT_HAS_EXPIRED, "the certificate has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "the certificate is not valid yet"},
    {X509_V_ERR_INVALID_PURPOSE, "the certificate must not be used by clients (extended key usage)"},
    {X509_V_ERR_CERT_REVOKED, "certificate revoked"},
};

int main(void)
{
    (void)OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, NULL); /* its own words */
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        is_str(tls_words_error(ERR_PACK(ERR_LIB_SSL, 0, errors[i].reason), errors[i].server), errors[i].want,
               "reason %d, %s", errors[i].reason, errors[i].server ? "as a server" : "as a client");
    is_str(tls_words_error(ERR_PACK(ERR_LIB_USER, 0, TLS_WORDS_LONG_HELLO), true),
           "the client's hello is more than 16 KiB", "what we refuse ourselves");
    is_str(tls_words_error(ERR_PACK(ERR_LIB_USER, 0, TLS_WORDS_MANY_TICKETS), true),
           "the client's hello offers more than 5 sessions to resume", "tickets");
    is_str(tls_words_error(0, false), "protocol error", "nothing that the library could name");
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
        is_str(tls_words_client(clients[i].verdict), clients[i].want, "verdict %ld", clients[i].verdict);
    return tap_end();
}
