/* SPDX-License-Identifier: Apache-2.0 */
#include "base/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The documented exception to "no mutable globals": where last words go is one thing for all of the process. */
static contract_words_fn *words;

void contract_set_words(contract_words_fn *fn)
{
    words = fn;
}

static void say_plainly(const char *file, int line, const char *what)
{
    (void)dprintf(STDERR_FILENO, "mvproxy: %s:%d: An invariant does not hold: %s\n", file, line, what);
}

void contract_broken(const char *file, int line, const char *what)
{
    contract_words_fn *say = words != NULL ? words : say_plainly;

    words = NULL; /* one that breaks in the log is said without it */
    say(file, line, what);
    abort();
}
