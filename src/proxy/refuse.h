/*
 * Our own error answers: v1 Status, the only form in which they leave the program.
 */
#ifndef MVPROXY_PROXY_REFUSE_H
#define MVPROXY_PROXY_REFUSE_H

#include "front/exchange.h"

/* Answers with a Status and ends the exchange. 429 and 503 carry Retry-After, so that client-go retries by itself. */
void refuse_exchange(struct exchange *x, unsigned status, const char *message);

#endif
