/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_cert_memory.h"

#include <openssl/err.h>
#include <stdbool.h>

/*
 * OpenSSL makes an object or more of each element of the DER form, however short it is: an empty name is two bytes.
 * Measured with OpenSSL 3.0, certificates of 8 KiB made of one kind of element, after verification: 160 bytes for each
 * in CRL distribution points relative to their issuer, 106 in alternative names and name constraints, 102 in AS
 * numbers, 71 in address blocks, 36 in subjects, 26 of extensions. So what is charged is at least 0.99 of what is held,
 * where a charge by length alone would be off by eighty. Ordinary ones (2 to 10 KB) are charged up to twice what they
 * hold.
 */
enum {
    BYTES = 3 << 10,
    PER_BYTE = 3,
    PER_ELEMENT = 160,
    ORDINARY_ELEMENTS = 48, /* that BYTES has room for */
    SHORTEST_ELEMENT = 2,
};

/*
 * Lengths that are not told are read as OpenSSL reads them. What cannot be read, or is a string in pieces, which may be
 * cut in the middle of an element, counts as the most that it can be.
 */
static size_t count(const unsigned char *p, long n, bool in_extension)
{
    const unsigned char *end = p + n;
    size_t elements = 0;

    while (p < end) {
        const unsigned char *at = p;
        int tag, class, form;
        long len;
        bool octets;

        form = ASN1_get_object(&p, &len, &tag, &class, end - p);
        octets = class == V_ASN1_UNIVERSAL && tag == V_ASN1_OCTET_STRING;
        if ((form & 0x80) != 0 || (octets && (form & V_ASN1_CONSTRUCTED) != 0))
            return elements + (size_t)(end - at) / SHORTEST_ELEMENT;
        elements++;
        if ((form & V_ASN1_CONSTRUCTED) != 0)
            continue;
        if (octets && !in_extension)
            elements += count(p, len, true);
        p += len;
    }
    return elements;
}

static size_t elements_of(const X509 *cert, size_t n)
{
    unsigned char *der = NULL;
    int len = i2d_X509(cert, &der);
    size_t elements;

    if (len <= 0)
        return n / SHORTEST_ELEMENT;
    ERR_set_mark();
    elements = count(der, len, false);
    ERR_pop_to_mark();
    OPENSSL_free(der);
    return elements;
}

size_t tls_cert_memory(const X509 *cert)
{
    int n = cert == NULL ? 0 : i2d_X509(cert, NULL);
    size_t elements = n <= 0 ? 0 : elements_of(cert, (size_t)n);

    if (n <= 0)
        return 0;
    return BYTES + (size_t)n * PER_BYTE +
           (elements > ORDINARY_ELEMENTS ? (elements - ORDINARY_ELEMENTS) * PER_ELEMENT : 0);
}
