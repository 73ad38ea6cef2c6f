/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_messages.h"

#include <openssl/ssl.h>

#include "base/limits.h"

enum { MESSAGES_MS = 60000 };

/* A message makes one step of the state machine, and an attempt to renegotiate is answered with an alert. */
bool tls_messages_count(struct tls_messages *m, int where, uint64_t now_ms)
{
    if ((where & (SSL_CB_EXIT | SSL_CB_ALERT)) == 0)
        return true;
    if (now_ms - m->since_ms >= MESSAGES_MS) {
        m->since_ms = now_ms;
        m->n = 0;
    }
    m->n++;
    return !tls_messages_too_many(m);
}

bool tls_messages_too_many(const struct tls_messages *m)
{
    return m->n > LIMIT_TLS_MESSAGES;
}
