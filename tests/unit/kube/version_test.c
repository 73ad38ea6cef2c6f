/* SPDX-License-Identifier: Apache-2.0 */
/* What servers say at /version. */
#include "kube/version.h"

#include "lib/tap.h"

static const struct {
    const char *json;
    bool ok;
    const char *binary, *emulated;
} rows[] = {
    /* kube-apiserver 1.34.4, cut short. */
    {"{\"major\":\"1\",\"minor\":\"34\",\"emulationMajor\":\"1\",\"emulationMinor\":\"33\",\"minCompatibilityMajor\":"
     "\"1\","
     "\"gitVersion\":\"v1.34.4\",\"platform\":\"linux/amd64\"}",
     true, "v1.34.4", "1.33"},
    {"{\"major\":\"1\",\"minor\":\"24+\",\"gitVersion\":\"v1.24.17-gke.1+k_3\"}", true, "v1.24.17-gke.1+k_3", ""},
    {"{\"gitVersion\":\"v1.34.4\",\"emulationMajor\":1}", true, "v1.34.4", ""},
    /* A server that emulates nothing names its own version. */
    {"{\"gitVersion\":\"v1.33.13\",\"emulationMajor\":\"1\",\"emulationMinor\":\"33\"}", true, "v1.33.13", ""},
    {"{\"gitVersion\":\"v1.37.0-alpha.1\",\"emulationMajor\":\"1\",\"emulationMinor\":\"37\"}", true, "v1.37.0-alpha.1",
     ""},
    {"{\"gitVersion\":\"devel\",\"emulationMajor\":\"1\",\"emulationMinor\":\"37\"}", true, "devel", "1.37"},
    {"{\"gitVersion\":\"<script>\"}", false, "", ""},
    {"{\"gitVersion\":\"v1\\u0020\"}", false, "", ""},
    {"{\"gitVersion\":\"\"}", false, "", ""},
    {"{\"gitVersion\":\"v1234567890123456789012345678901234567890123456789012345678901234567890\"}", false, "", ""},
    {"{\"gitVersion\":7}", false, "", ""},
    {"{\"gitVersion\":\"v1.34.4\"", false, "", ""},
    {"[]", false, "", ""},
    {"", false, "", ""},
};

static void test_release(void)
{
    static const struct {
        const char *document;
        uint64_t major, minor, patch;
    } releases[] = {
        {"{\"major\":\"1\",\"gitVersion\":\"v1.34.4\"}", 1, 34, 4},
        {"{\"gitVersion\":\"v1.34.4-gke.100+abc\"}", 1, 34, 4},
        {"{\"gitVersion\":\"v1.35.0-alpha.1\"}", 1, 35, 0},
        {"{\"gitVersion\":\"v2\"}", 2, 0, 0},
        /* What is emulated decides which APIs there are. */
        {"{\"gitVersion\":\"v1.37.2\",\"emulationMajor\":\"1\",\"emulationMinor\":\"36\"}", 1, 36, (1 << 20) - 1},
        {"{\"gitVersion\":\"v1.37.2\",\"emulationMajor\":\"1\",\"emulationMinor\":\"37\"}", 1, 37, 2},
        {"{\"gitVersion\":\"v1.37.2\",\"emulationMajor\":\"1\",\"emulationMinor\":\"x\"}", 1, 37, 2},
        {"{\"gitVersion\":\"1.34\"}", 0, 0, 0},
        {"{\"gitVersion\":7}", 0, 0, 0},
        {"{}", 0, 0, 0},
        {"no", 0, 0, 0},
        {"{\"gitVersion\":\"v\"}", 0, 0, 0},
        {"{\"gitVersion\":\"v1.2.3\"", 0, 0, 0},
        {"\"gitVersion\"", 0, 0, 0},
    };

    for (size_t i = 0; i < ROWS(releases); i++) {
        struct version v;

        (void)version_read(slice_str(releases[i].document), &v);
        is_u64(v.release, releases[i].major << 40 | releases[i].minor << 20 | releases[i].patch, "release of %s",
               releases[i].document);
    }
}

int main(void)
{
    struct version v;

    for (size_t i = 0; i < ROWS(rows); i++) {
        ok((version_read(slice_str(rows[i].json), &v) && v.binary[0] != '\0') == rows[i].ok, "%s", rows[i].json);
        is_str(v.binary, rows[i].binary, "binary version");
        is_str(v.emulated, rows[i].emulated, "emulated version");
    }
    ok(version_text_valid(SLICE_LIT("0.1.0~rc1")) == false && version_text_valid(SLICE_LIT("0.1.0-rc1")), "characters");
    ok(!version_text_valid(SLICE_NONE), "nothing is no version");
    test_release();
    return tap_end();
}
