/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes out on an HTTP/1.1 connection: the proxy's answers, and our own.
 */
#ifndef MVPROXY_FRONT_H1_ANSWER_H
#define MVPROXY_FRONT_H1_ANSWER_H

#include "front/h1_state.h"

const struct exchange_ops *h1_answer_ops(void);
/* Answers a request that the proxy does not hold (any more) and ends the connection. */
void h1_answer_refuse(struct h1_conn *c, unsigned status, const char *message, enum front_close reason);

#endif
