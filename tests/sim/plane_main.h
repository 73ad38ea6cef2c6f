/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main program of a test that consists of many numbered stories of a plane. They run in a process of their own, so
 * that one that crashes can be named, and told again step by step.
 *
 *   PROGRAM [--seed S] [N]    N stories from number S on
 *   PROGRAM --tell S          tells one
 */
#ifndef MVPROXY_TESTS_SIM_PLANE_MAIN_H
#define MVPROXY_TESTS_SIM_PLANE_MAIN_H

#include "sim/plane.h"

enum { PLANE_MAIN_STEPS = 100 };

struct plane_main {
    uint64_t first, n; /* unless the command line says otherwise */
    const char *env;   /* a variable that says how many; NULL: none */
    /* From plane_open() to plane_close(). `skip`: steps (up to PLANE_MAIN_STEPS) that are to be left out. */
    void (*tell)(struct plane *p, uint64_t number, const bool *skip, bool say);
};

int plane_main(int argc, char **argv, const struct plane_main *m);

#endif
