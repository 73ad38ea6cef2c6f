/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include "lib/tap.h"

static const char *const names[] = {"config", "version", "bind-address", "v", "t", "secure-port", "peers"};

static const struct {
    const char *word, *best;
} rows[] = {
    {"confg", "config"},
    {"conifg", "config"},
    {"config", "config"},
    {"verison", "version"},
    {"bind-adress", "bind-address"},
    {"bindaddress", "bind-address"},
    {"secure_port", "secure-port"},
    {"secureport", "secure-port"},
    {"peer", "peers"},
    {"se", "secure-port"},
    {"nonsense", NULL},
    {"x", NULL},
    {"", NULL},
    {"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", NULL},
};

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct nearest n = nearest_to(slice_str(rows[i].word));

        for (size_t k = 0; k < ROWS(names); k++)
            nearest_try(&n, names[k]);
        is_str(n.best, rows[i].best, "\"%s\"", rows[i].word);
    }
    {
        static const char name[] = "verboseverboseverboseverboseverboseverboseverboseverboseverboseverboseverbose";
        struct nearest n = nearest_to(SLICE_LIT("verbose"));

        nearest_try(&n, name);
        is_str(n.best, NULL, "a name of %zu bytes is no option of ours", sizeof(name) - 1);
    }
    return tap_end();
}
