/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "lib/tap.h"

int main(void)
{
    struct err e;
    char longer[2000];

    err_clear(&e);
    ok(!err_is_set(&e), "clear");
    ok(!err_set(&e, "%s:%d: no such option", "mvproxy.conf", 3), "setting returns false");
    ok(err_is_set(&e), "set");
    is_str(e.text, "mvproxy.conf:3: no such option", "formatted");
    err_set(&e, "second");
    is_str(e.text, "mvproxy.conf:3: no such option", "the first text wins");
    ok(!err_set(NULL, "nobody listens"), "without a place");

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    err_clear(&e);
    err_set(&e, "%s", longer);
    is_u64(strlen(e.text), sizeof(e.text) - 1, "cut to its place");
    return tap_end();
}
