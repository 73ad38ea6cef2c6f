/* SPDX-License-Identifier: Apache-2.0 */
/* By whom a serving certificate is believed, and what is warned of. */
#include "daemon/serving_pair.h"

#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"

#define PAIR(name, addresses)                                                                                          \
    "tls-cert-file: " name ".crt\ntls-private-key-file: " name ".key\napiserver-ca-file: ca.crt\nbind-address: "       \
    "[" addresses "]\nhostname-override: cp-a\napiserver: https://127.0.0.1:7443\n"
#define PEERS "peer-ca-file: ca.crt\n"
#define WARNS(name) "warning: m.yaml:1:1: tls-cert-file: " name ".crt is not "
#define UNSIGNED                                                                                                       \
    "signed by peer-ca-file: peers that are configured likewise do not believe us: give the serving pair of the API "  \
    "servers' CA (apiserver.crt)\n"
#define NOT_FOR(address)                                                                                               \
    "valid for " address                                                                                               \
    ", where clients are served: those that use the address refuse it: add it to the certificate's names (SAN)\n"

static const struct {
    const char *text;
    unsigned fits;
    const char *want;
} rows[] = {
    {PAIR("good", "10.0.0.9") PEERS, SERVING_SIGNED | SERVING_NAMED | SERVING_ADDRESS, ""},
    {PAIR("good", "10.0.0.9"), SERVING_NAMED | SERVING_ADDRESS, ""},
    {PAIR("good", "10.0.0.9, 10.0.0.7, 127.0.0.1") PEERS, SERVING_SIGNED | SERVING_NAMED | SERVING_ADDRESS * 5,
     WARNS("good") NOT_FOR("10.0.0.7")},
    {PAIR("good", "0.0.0.0"), SERVING_NAMED, ""},
    {PAIR("good", "\"::\""), SERVING_NAMED, ""},
    {PAIR("foreign", "10.0.0.9") PEERS, SERVING_NAMED, WARNS("foreign") UNSIGNED WARNS("foreign") NOT_FOR("10.0.0.9")},
    {PAIR("foreign", "0.0.0.0"), SERVING_NAMED, ""},
    {PAIR("nameless", "10.0.0.9") PEERS, SERVING_SIGNED | SERVING_ADDRESS, ""},
    {PAIR("none", "10.0.0.9") PEERS, 0, ""},
    {PAIR("good", "0.0.0.0") "peer-ca-file: none.crt\n", SERVING_NAMED, ""},
};

int main(void)
{
    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');a.issue('other-ca', 'o', is_ca=True, eku='');"
                        "name = 'kubernetes.default.svc';"
                        "a.issue('good', 's', ca='ca', eku='serverAuth', sans=(name, '10.0.0.9', '127.0.0.1'));"
                        "a.issue('nameless', 's', ca='ca', eku='serverAuth', sans=('10.0.0.9',));"
                        "a.issue('foreign', 's', ca='other-ca', eku='serverAuth', sans=(name,))");
    folder_enter();
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct config *c;
        struct buf text;

        buf_init(&text, 1 << 16);
        folder_write("m.yaml", rows[i].text);
        c = config_load("m.yaml", NULL, 0, &text);
        if (c == NULL)
            tap_bail("row %zu: %.*s", i, (int)buf_len(&text), buf_slice(&text).p);
        is_u64(serving_pair_fits(c), rows[i].fits, "row %zu: by whom it is believed", i);
        serving_pair_warn(c, &text);
        is_slice(buf_slice(&text), rows[i].want, "row %zu: what is warned of", i);
        config_free(c);
        buf_free(&text);
    }
    return tap_end();
}
