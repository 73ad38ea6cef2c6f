/* SPDX-License-Identifier: Apache-2.0 */
/* Which checks of /readyz fail, and which of them mean that etcd is away, or that nobody's rights have been read. */
#include "kube/readyz.h"

#include "lib/tap.h"

int main(void)
{
    static const struct {
        const char *body;
        bool etcd, loading;
        const char *failed;
    } rows[] = {
        {"", false, false, ""},
        {"ok", false, false, ""},
        {"[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n", true, false, "etcd"},
        {"[-]etcd-readiness failed: reason withheld", true, false, "etcd-readiness"},
        {"[-]etcd-override-0 failed: reason withheld\n", false, false, "etcd-override-0"},
        {"[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n", false, true, "informer-sync"},
        {"[-]poststarthook/generic-apiserver-start-informers failed: reason withheld\n", false, true,
         "poststarthook/generic-apiserver-start-informers"},
        {"[+]ping ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld", false, true,
         "poststarthook/rbac/bootstrap-roles"},
        {"[-]poststarthook/rbac/bootstrap-rolesque failed\n", false, false, "poststarthook/rbac/bootstrap-rolesque"},
        {"[+]etcd ok\n[+]informer-sync ok\n[-]shutdown failed: reason withheld\n", false, false, "shutdown"},
        {"x[-]etcd failed\nx[-]informer-sync failed\n", false, false, ""},
        {"[-]etcd failed\n[-]informer-sync failed\n", true, true, "etcd"},
        {"[-]\n[-] failed\n[-]", false, false, ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ok(readyz_etcd_fails(slice_str(rows[i].body)) == rows[i].etcd, "etcd: %s", rows[i].body);
        ok(slice_eq(readyz_failed(slice_str(rows[i].body)), slice_str(rows[i].failed)), "first: %s", rows[i].body);
        ok(readyz_is_loading(slice_str(rows[i].body)) == rows[i].loading, "rights: %s", rows[i].body);
    }
    return tap_end();
}
