/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work is done in steps of 2 ms at most: a function that does the next one, to be called until it does not say
 * MORE. How it is cut up is base/fiber.h's affair, who calls it, and how many in one turn of the loop,
 * cluster/work.h's.
 */
#ifndef MVPROXY_BASE_STEP_H
#define MVPROXY_BASE_STEP_H

enum step { STEP_MORE, STEP_DONE, STEP_FAILED };

#endif
