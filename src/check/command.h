/* SPDX-License-Identifier: Apache-2.0 */
/* Another program, for what it says. */
#ifndef MVPROXY_CHECK_COMMAND_H
#define MVPROXY_CHECK_COMMAND_H

#include "base/buf.h"
#include "base/err.h"

/*
 * Its standard output, as far as the buffer has 4 KiB of room, with nothing on standard input, standard error dropped
 * and no environment but the locale's. It is ended after `seconds`. False, with *err: it could not be run; what it
 * returns is not looked at.
 */
bool command_output(const char *const argv[], unsigned seconds, struct buf *out, struct err *err);

#endif
