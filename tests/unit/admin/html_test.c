/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a name from the cluster consists of, it is text. */
#include "admin/html.h"

#include "lib/tap.h"

static const struct {
    const char *text, *want;
} rows[] = {
    {"cp-a", "cp-a"},
    {"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
    {"a\" onload='x'&amp;", "a&quot; onload=&#39;x&#39;&amp;amp;"},
    {"line\nbreak\x1b[31m\x7f", "line break [31m "},
    {"&", "&amp;"},
    {"", ""},
};

static const struct {
    uint64_t ms;
    const char *want;
} durations[] = {{0, "0.0s"},        {1250, "1.2s"},      {59999, "59s"},           {125000, "2m5s"},
                 {3723000, "62m3s"}, {86400000, "24h0m"}, {90061000 * 3ULL, "3d3h"}};

int main(void)
{
    struct buf out;

    buf_init(&out, 1 << 12);
    for (size_t i = 0; i < ROWS(rows); i++) {
        buf_reset(&out);
        html_str(&out, rows[i].text);
        is_slice(buf_slice(&out), rows[i].want, "text %zu", i);
    }
    for (size_t i = 0; i < ROWS(durations); i++) {
        buf_reset(&out);
        html_duration(&out, durations[i].ms);
        is_slice(buf_slice(&out), durations[i].want, "duration %zu", i);
    }
    buf_reset(&out);
    html_name(&out, "<b>\xe2\x80\xae");
    is_slice(buf_slice(&out), "<bdi>&lt;b&gt;\xe2\x80\xae</bdi>", "a name is set apart");
    buf_reset(&out);
    html_str(&out, NULL);
    is_u64(buf_len(&out), 0, "nothing is nothing");
    buf_free(&out);
    return tap_end();
}
