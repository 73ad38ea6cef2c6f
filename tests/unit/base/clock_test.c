/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "lib/tap.h"

static void sources(void)
{
    uint64_t before = clock_us();

    ok(clock_us() >= before, "monotonic");
    ok(clock_wall_us() > INT64_C(1700000000000000), "the wall clock is in this century");
    clock_fake(5000123, 42);
    is_u64(clock_us(), 5000123, "fake microseconds");
    is_u64(clock_ms(), 5000, "fake milliseconds");
    is_int(clock_wall_us(), 42, "fake wall clock");
    clock_real();
    ok(clock_us() >= before && clock_wall_us() != 42, "real again");
}

static void formatting(void)
{
    static const struct {
        int64_t us;
        const char *want;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {INT64_C(1136214245000000), "2006-01-02T15:04:05.000000Z"},
        {INT64_C(951782400123456), "2000-02-29T00:00:00.123456Z"},
        {INT64_C(-62135596800000000), "0001-01-01T00:00:00.000000Z"},
        {-1, "1969-12-31T23:59:59.999999Z"},
        {INT64_C(253402300799999999), "9999-12-31T23:59:59.999999Z"},
    };
    char out[CLOCK_RFC3339_BYTES];
    int64_t back;

    for (size_t i = 0; i < ROWS(rows); i++) {
        clock_rfc3339(rows[i].us, out);
        is_str(out, rows[i].want, "RFC 3339 of %lld", (long long)rows[i].us);
        ok(clock_parse_rfc3339(slice_str(out), &back) && back == rows[i].us, "and back");
    }
}

static void parsing(void)
{
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
    } rows[] = {
        {"1970-01-01T00:00:01Z", 1000000},
        {"1970-01-01T00:00:01.5Z", 1500000},
        {"1970-01-01T00:00:01.123456789Z", 1123456},
        {"1970-01-01T02:00:00+02:00", 0},
        {"1969-12-31T19:00:01-05:00", 1000000},
        {"1970-01-01T05:45:00+05:45", 0},
        {"2024-02-29T12:00:00Z", INT64_C(1709208000000000)},
        {"2023-02-29T12:00:00Z", -1},
        {"1900-02-29T12:00:00Z", -1},
        {"2024-13-01T00:00:00Z", -1},
        {"2024-00-01T00:00:00Z", -1},
        {"2024-01-00T00:00:00Z", -1},
        {"2024-04-31T00:00:00Z", -1},
        {"2024-01-01T24:00:00Z", -1},
        {"2024-01-01T00:60:00Z", -1},
        {"2024-01-01T00:00:60Z", -1},
        {"2024-01-01T00:00:00", -1},
        {"2024-01-01T00:00:00.Z", -1},
        {"2024-01-01 00:00:00Z", -1},
        {"2024-01-01T00:00:00Zx", -1},
        {"2024-01-01T00:00:00+2:00", -1},
        {"2024-01-01T00:00:00+02", -1},
        {"2024-01-01T00:00:00+24:00", -1},
        {"24-01-01T00:00:00Z", -1},
        {"+024-01-01T00:00:00Z", -1},
        {"", -1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        int64_t us = -1;

        ok(clock_parse_rfc3339(slice_str(rows[i].text), &us) == (rows[i].us != -1), "\"%s\"", rows[i].text);
        is_int(us, rows[i].us, "value of \"%s\"", rows[i].text);
    }
}

static void durations(void)
{
    static const struct {
        const char *text;
        bool valid;
        uint64_t ms;
    } rows[] = {
        {"0", true, 0},
        {"0s", true, 0},
        {"30s", true, 30000},
        {"1m30s", true, 90000},
        {"250ms", true, 250},
        {"1.5h", true, 5400000},
        {".5s", true, 500},
        {"5.s", true, 5000},
        {"1h1m1s1ms", true, 3661001},
        {"1000us", true, 1},
        {"1000\xc2\xb5s", true, 1},
        {"1000000ns", true, 1},
        {"1m9s", true, 69000},
        {"1.000000000000000000s", true, 1000},
        {"1.0000000000000000000s", false, 0},
        {"9223372036854ms", true, UINT64_C(9223372036854)},
        {"9223372036855ms", false, 0},
        {"2540400h10m10s", true, UINT64_C(9145440610000)},
        {"100us", false, 0},
        {"1.0001s", false, 0},
        {"30", false, 0},
        {"", false, 0},
        {"s", false, 0},
        {".s", false, 0},
        {"-1s", false, 0},
        {"+1s", false, 0},
        {"1d", false, 0},
        {"1S", false, 0},
        {"1 s", false, 0},
        {"1s ", false, 0},
        {"1m30", false, 0},
        {"0.0.1s", false, 0},
        {"9223372036854775808ns", false, 0},
        {"9999999999999h", false, 0},
        {"99999999999999999999s", false, 0},
        {"0x1s", false, 0},
    };
    static const struct {
        uint64_t ms;
        const char *want;
    } texts[] = {
        {0, "0s"},
        {1, "1ms"},
        {250, "250ms"},
        {1000, "1s"},
        {1500, "1.5s"},
        {1050, "1.05s"},
        {90000, "1m30s"},
        {60000, "1m0s"},
        {3600000, "1h0m0s"},
        {3661001, "1h1m1.001s"},
        {UINT64_C(86400000) * 365, "8760h0m0s"},
    };
    char out[32];

    for (size_t i = 0; i < ROWS(rows); i++) {
        uint64_t ms = 7;

        ok(clock_parse_duration(slice_str(rows[i].text), &ms) == rows[i].valid, "duration \"%s\"", rows[i].text);
        is_u64(ms, rows[i].valid ? rows[i].ms : 7, "value of \"%s\"", rows[i].text);
    }
    for (size_t i = 0; i < ROWS(texts); i++) {
        uint64_t back;

        clock_format_duration(texts[i].ms, out);
        is_str(out, texts[i].want, "text of %llu ms", (unsigned long long)texts[i].ms);
        ok(clock_parse_duration(slice_str(out), &back) && back == texts[i].ms, "and back");
    }
    clock_format_duration(UINT64_MAX, out);
    is_str(out, "5124095576030h25m51.615s", "the largest fits");
}

int main(void)
{
    sources();
    formatting();
    parsing();
    durations();
    return tap_end();
}
