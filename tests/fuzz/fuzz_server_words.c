/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small answers of servers: /version, and what an error says of why. Texts that come out consist of what versions
 * consist of; a verdict about a path does not depend on anything but the bytes.
 */
#include "fuzz/fuzz.h"
#include "kube/denial.h"
#include "kube/version.h"

static void version(struct slice in)
{
    struct version v;
    bool read = version_read(in, &v);

    must_hold(read || (v.binary[0] == '\0' && v.emulated[0] == '\0' && v.major == 0 && v.release == 0));
    must_hold(v.binary[0] == '\0' || version_text_valid(slice_str(v.binary)));
    must_hold(v.emulated[0] == '\0' || version_text_valid(slice_str(v.emulated)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned statuses[] = {200, 403, 404, 405, 500, 503};
    struct slice in = slice_of((const char *)data, size), type = SLICE_LIT("");
    unsigned status = statuses[fuzz_byte(&in) % 6];
    enum denial verdict;

    version(in);
    verdict = denial_by_body(status, in);
    must_hold(verdict != DENIAL_NEEDS_BODY);
    must_hold((status != 200 && status != 403 && status != 500) || verdict == DENIAL_NONE);
    (void)slice_split(&in, '\xff', &type);
    must_hold(denial_by_head(status, type, false) != DENIAL_NEEDS_BODY);
    (void)denial_by_head(status, type, true);
    return 0;
}
