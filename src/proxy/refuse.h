/*
 * Our own error answers: v1 Status, the only form in which they leave the program.
 */
#ifndef MVPROXY_PROXY_REFUSE_H
#define MVPROXY_PROXY_REFUSE_H

#include "front/exchange.h"

/*
 * Answers with a Status and ends the exchange. `again`: 429 and 503 carry Retry-After, so that client-go sends the
 * request again by itself, whatever its method; see retry_is_harmless().
 */
void refuse_exchange(struct exchange *x, unsigned status, const char *message, bool again);

#endif
