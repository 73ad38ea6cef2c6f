/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a JSON text takes once it is a tree of json-c's and is shown: an object of two bytes takes hundreds.
 */
#ifndef MVPROXY_CTL_WEIGH_H
#define MVPROXY_CTL_WEIGH_H

#include "base/slice.h"

/* What an answer may weigh: one and a half times what the longest list of `skew` does (8 MiB of short names). */
enum { WEIGH_MOST = 512 << 20 };

/* Bytes, rather too many than too few, if json-c reads it strictly (it takes no comments then, nor other quotes). */
size_t weigh_json(struct slice text);

#endif
