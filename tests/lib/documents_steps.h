/* SPDX-License-Identifier: Apache-2.0 */
/* Documents made in steps of their own. */
#ifndef MVPROXY_TESTS_LIB_DOCUMENTS_STEPS_H
#define MVPROXY_TESTS_LIB_DOCUMENTS_STEPS_H

#include "base/fiber.h"
#include "cluster/documents.h"

struct documents_steps {
    const struct documents_input *in;
    struct served_documents *out;
};

/* For fiber_init(). */
static inline bool documents_steps_run(void *arg, struct fiber *f)
{
    struct documents_steps *s = arg;

    s->out = documents_make(s->in, f);
    return s->out != NULL;
}

#endif
