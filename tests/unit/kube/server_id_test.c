/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/server_id.h"

#include "lib/tap.h"

int main(void)
{
    static const struct {
        const char *host, *id;
    } rows[] = {
        {"test-server-a", "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe"},
        {"test-server-b", "apiserver-scg43bmblmfhqplxpiyqlziyzi"},
        {"master-1", "apiserver-wj467rbl25eeviqacfhvg2yvnm"},
        {"localhost", "apiserver-l2yubf4cvcl5c7a3wrubrwqdve"},
        {"kind-control-plane", "apiserver-c7uylvfxlbqccnk6myfkwetzze"},
    };
    static const struct {
        const char *id;
        bool valid;
    } shapes[] = {
        {"apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe", true},   {"apiserver-tcwjsvs6hjq4qbwzx5rvp5fsq", false},
        {"apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqea", false}, {"apiserver-TCWJSVS6hjq4qbwzx5rvp5fsqe", false},
        {"apiserver-tcwjsvs6hjq4qbwzx5rvp5fsq1", false},  {"apiserver_tcwjsvs6hjq4qbwzx5rvp5fsqe", false},
        {"kube-api-tcwjsvs6hjq4qbwzx5rvp5fsqe", false},   {"", false},
    };
    char id[SERVER_ID_BYTES], longest[257];

    for (size_t i = 0; i < ROWS(rows); i++) {
        ok(server_id_from_hostname(slice_str(rows[i].host), id), "%s has an ID", rows[i].host);
        is_str(id, rows[i].id, "ID of %s", rows[i].host);
        ok(server_id_valid(slice_str(id)), "ID of %s is valid", rows[i].host);
    }
    for (size_t i = 0; i < ROWS(shapes); i++)
        is_int(server_id_valid(slice_str(shapes[i].id)), shapes[i].valid, "shape of '%s'", shapes[i].id);
    {
        char older[SERVER_ID_BYTES_126];

        ok(server_id_126_from_hostname(SLICE_LIT("kind-control-plane"), older), "an ID as of 1.26");
        is_str(older, "kube-apiserver-c4vwjftbvpc5os2vvzle4qg27a", "as in the documentation of Kubernetes");
        ok(!server_id_126_from_hostname(SLICE_LIT(""), older), "not without a host name");
    }
    memset(longest, 'a', sizeof(longest));
    ok(!server_id_from_hostname(SLICE_LIT(""), id), "no host name, no ID");
    ok(server_id_from_hostname(slice_of(longest, 256), id), "256 bytes are fine");
    ok(!server_id_from_hostname(slice_of(longest, 257), id), "257 are not");
    return tap_end();
}
