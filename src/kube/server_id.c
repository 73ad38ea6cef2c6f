/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/server_id.h"

#include "base/hash.h"

#define COMPONENT "kube-apiserver"

bool server_id_from_hostname(struct slice hostname, char out[SERVER_ID_BYTES])
{
    /* Each text is preceded by its length in two bytes, big-endian. */
    const size_t component = sizeof(COMPONENT) - 1;
    unsigned char digest[HASH_SHA256_BYTES];
    char data[2 + 256 + 2 + sizeof(COMPONENT)];
    size_t n = 0;

    if (hostname.n == 0 || hostname.n > 256)
        return false;
    data[n++] = (char)(hostname.n >> 8);
    data[n++] = (char)(hostname.n & 0xff);
    memcpy(data + n, hostname.p, hostname.n);
    n += hostname.n;
    data[n++] = 0;
    data[n++] = (char)component;
    memcpy(data + n, COMPONENT, component);
    n += component;
    if (!hash_sha256(slice_of(data, n), digest))
        return false;
    memcpy(out, SERVER_ID_PREFIX, sizeof(SERVER_ID_PREFIX) - 1);
    hash_base32_lower(digest, 16, out + sizeof(SERVER_ID_PREFIX) - 1);
    return true;
}

bool server_id_126_from_hostname(struct slice hostname, char out[SERVER_ID_BYTES_126])
{
    unsigned char digest[HASH_SHA256_BYTES];

    if (hostname.n == 0 || hostname.n > 256 || !hash_sha256(hostname, digest))
        return false;
    memcpy(out, SERVER_ID_PREFIX_126, sizeof(SERVER_ID_PREFIX_126) - 1);
    hash_base32_lower(digest, 16, out + sizeof(SERVER_ID_PREFIX_126) - 1);
    return true;
}

bool server_id_valid(struct slice s)
{
    if (s.n != SERVER_ID_CHARS || !slice_has_prefix(s, SLICE_LIT(SERVER_ID_PREFIX)))
        return false;
    for (size_t i = sizeof(SERVER_ID_PREFIX) - 1; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '2' && s.p[i] <= '7'))
            return false;
    return true;
}
