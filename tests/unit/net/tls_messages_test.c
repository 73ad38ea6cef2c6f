/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_messages.h"

#include <openssl/ssl.h>

#include "base/limits.h"
#include "lib/tap.h"

static unsigned accepted(struct tls_messages *m, int where, unsigned times, uint64_t now_ms)
{
    unsigned n = 0;

    for (unsigned i = 0; i < times; i++)
        n += tls_messages_count(m, where, now_ms);
    return n;
}

int main(void)
{
    enum { MINUTE_MS = 60000, SEEN = SSL_CB_ACCEPT_EXIT };
    struct tls_messages m = {.n = 0};

    is_int(accepted(&m, SSL_CB_ACCEPT_LOOP, 1000, MINUTE_MS), 1000, "steps on the way do not count");
    is_int(accepted(&m, SSL_CB_HANDSHAKE_START, 1000, MINUTE_MS), 1000, "nor beginnings");
    is_int(accepted(&m, SEEN, 1000, MINUTE_MS), LIMIT_TLS_MESSAGES, "messages do, in a minute");
    ok(tls_messages_too_many(&m), "and it is said that they were too many");
    is_int(accepted(&m, SEEN, 10, 2 * MINUTE_MS), 10, "the next minute begins anew");
    ok(!tls_messages_too_many(&m), "and is not held to the last one");
    is_int(accepted(&m, SSL_CB_WRITE_ALERT, 1000, 2 * MINUTE_MS), LIMIT_TLS_MESSAGES - 10,
           "what renegotiation is refused with counts, too");
    is_int(accepted(&m, SSL_CB_READ_ALERT, 1, 2 * MINUTE_MS), 0, "and the other side's alerts");
    return tap_end();
}
