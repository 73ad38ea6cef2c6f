/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include <stdio.h>

#include "base/limits.h"
#include "kube/jscan.h"
#include "lib/tap.h"

static const char stream[] =
    "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Lease\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\"}}}\n"
    "{\"object\":{\"metadata\":{\"resourceVersion\":\"6\"},\"x\":\"\\n}\"},\"type\":\"MODIFIED\"}\r\n"
    "\n"
    "{\"type\":\"DELETED\",\"object\":{}}\n"
    "garbage\n"
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}},\"new\":[1]}\n"
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"message\":\"too old\",\"code\":410}}\n";

static const struct {
    enum watch_result result;
    enum watch_type type;
    const char *version, *object_start;
} expected[] = {
    {WATCH_EVENT, WATCH_ADDED, "5", "{\"kind\":\"Lease\""},
    {WATCH_EVENT, WATCH_MODIFIED, "6", "{\"metadata\""},
    {WATCH_EVENT, WATCH_DELETED, "", "{}"},
    {WATCH_BAD_LINE, WATCH_ADDED, "", ""},
    {WATCH_EVENT, WATCH_BOOKMARK, "9", "{\"metadata\""},
    {WATCH_EVENT, WATCH_ERROR, "", "{\"kind\":\"Status\""},
};

/* The same events come out however the bytes are cut. */
static void test_pieces(size_t piece)
{
    struct watch_parser *p = watch_parser_new(LIMIT_APISERVICE_BYTES);
    struct watch_event ev;
    size_t next = 0, wrong = 0;
    enum watch_result result;

    for (size_t at = 0; at < sizeof(stream) - 1; at += piece) {
        size_t left = sizeof(stream) - 1 - at;

        watch_parser_feed(p, slice_of(stream + at, piece < left ? piece : left));
        while ((result = watch_parser_next(p, &ev)) != WATCH_MORE) {
            if (next == ROWS(expected) || result != expected[next].result) {
                wrong++;
                break;
            }
            if (result == WATCH_EVENT &&
                (ev.type != expected[next].type || !slice_eq(ev.resource_version, slice_str(expected[next].version)) ||
                 !slice_has_prefix(ev.object, slice_str(expected[next].object_start))))
                wrong++;
            if (result == WATCH_EVENT && ev.type == WATCH_ERROR &&
                (ev.code != 410 || !slice_eq(ev.message, SLICE_LIT("too old"))))
                wrong++;
            next++;
        }
    }
    ok(next == ROWS(expected) && wrong == 0, "in pieces of %zu", piece);
    watch_parser_free(p);
}

static void check_bad_line(struct watch_parser *p, struct slice line, const char *name)
{
    struct watch_event ev;

    watch_parser_feed(p, line);
    watch_parser_feed(p, SLICE_LIT("\n{\"type\":\"DELETED\",\"object\":{}}\n"));
    is_int(watch_parser_next(p, &ev), WATCH_BAD_LINE, "bad: %s", name);
    ok(watch_parser_next(p, &ev) == WATCH_EVENT && ev.type == WATCH_DELETED, "the next line is read");
    is_int(watch_parser_next(p, &ev), WATCH_MORE, "and no more");
}

static void test_bad_lines(void)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "null",
        "{\"type\":\"ADDED\"}",
        "{\"object\":{}}",
        "{\"type\":\"OTHER\",\"object\":{}}",
        "{\"type\":1,\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"ADDED\",\"object\":null}",
        "{\"type\":\"ADDED\",\"type\":\"DELETED\",\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":{},\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":{}}{}",
        "{\"type\":\"ADDED\",\"object\":{}",
        "{\"type\":\"ADDED\",\"object\":{\"a\":\"\xff\"}}",
    };
    struct watch_parser *p = watch_parser_new(LIMIT_APISERVICE_BYTES);
    char deep[4 * JSCAN_MAX_DEPTH];

    for (size_t i = 0; i < ROWS(bad); i++)
        check_bad_line(p, slice_str(bad[i]), bad[i]);
    memset(deep, '[', sizeof(deep));
    check_bad_line(p, slice_of(deep, sizeof(deep)), "too deep");
    watch_parser_free(p);
}

static void test_long_lines(void)
{
    struct watch_parser *p = watch_parser_new(100);
    struct watch_event ev;
    char filler[64];
    unsigned reports = 0;

    memset(filler, 'x', sizeof(filler));
    for (unsigned i = 0; i < 10000; i++) {
        watch_parser_feed(p, slice_of(filler, sizeof(filler)));
        reports += watch_parser_next(p, &ev) == WATCH_TOO_LONG ? 1 : 0;
    }
    is_u64(reports, 1, "an endless line is reported once");
    watch_parser_feed(p, SLICE_LIT("tail\n{\"type\":\"ADDED\",\"object\":{}}\n"));
    ok(watch_parser_next(p, &ev) == WATCH_EVENT && ev.type == WATCH_ADDED, "the line after it is read");
    is_int(watch_parser_next(p, &ev), WATCH_MORE, "and no more");
    for (unsigned i = 0; i < 3; i++)
        watch_parser_feed(p, slice_of(filler, sizeof(filler)));
    watch_parser_feed(p, SLICE_LIT("\n{\"type\":\"BOOKMARK\",\"object\":{}}\n"));
    is_int(watch_parser_next(p, &ev), WATCH_TOO_LONG, "a long line that came whole");
    ok(watch_parser_next(p, &ev) == WATCH_EVENT && ev.type == WATCH_BOOKMARK, "the line after it is read");
    watch_parser_free(p);
    p = watch_parser_new(10);
    for (unsigned i = 0; i < 100000; i++)
        watch_parser_feed(p, slice_of(filler, sizeof(filler)));
    is_int(watch_parser_next(p, &ev), WATCH_NO_MEMORY, "feeding without reading ends at a ceiling");
    watch_parser_free(p);
    watch_parser_free(NULL);
}

/* Of a line over the limit it is told what it begins with, however it comes. */
static void test_long_beginnings(size_t piece)
{
    static const char text[] =
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"n\",\"x\":\"xxxxxxxxxxxxxxxxxxxxx\"}}}\n"
        "{\"object\":{\"y\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"},\"type\":\"DELETED\"}\n"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
        "{\"type\":\"ADDED\",\"object\":{}}\n";
    static const struct {
        enum watch_type type;
        const char *object;
    } want[] = {{WATCH_DELETED, "{\"metadata\":{\"name\":\"n\",\"x\":\"x"},
                {WATCH_ADDED, "{\"y\":\"xxxxxxx"},
                {WATCH_ADDED, ""}};
    struct watch_parser *p = watch_parser_new(60);
    size_t next = 0, wrong = 0, events = 0;
    struct watch_event ev;
    enum watch_result result;

    for (size_t at = 0; at < sizeof(text) - 1; at += piece) {
        size_t left = sizeof(text) - 1 - at;

        watch_parser_feed(p, slice_of(text + at, piece < left ? piece : left));
        while ((result = watch_parser_next(p, &ev)) != WATCH_MORE && result != WATCH_NO_MEMORY) {
            events += result == WATCH_EVENT;
            if (result != WATCH_TOO_LONG)
                continue;
            if (next == ROWS(want) || ev.type != want[next].type || ev.object.n > 60 ||
                !slice_has_prefix(ev.object, slice_str(want[next].object)))
                wrong++;
            next++;
        }
    }
    ok(next == ROWS(want) && wrong == 0 && events == 1, "beginnings of long lines, in pieces of %zu", piece);
    watch_parser_free(p);
}

static enum watch_result read_line(struct watch_parser *p, const char *line, struct watch_event *ev)
{
    enum watch_result result;

    watch_parser_feed(p, slice_str(line));
    watch_parser_feed(p, SLICE_LIT("\n"));
    result = watch_parser_next(p, ev);
    return result;
}

/* Name and version are taken on the way; the first of two counts, and nothing that is not where it belongs. */
static void test_metadata(void)
{
    static const struct {
        const char *object, *ns, *name, *version;
    } rows[] = {
        {"{\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"resourceVersion\":\"7\"}}", "s", "n", "7"},
        {"{\"spec\":{\"name\":\"x\"},\"name\":\"y\",\"metadata\":{\"labels\":{\"name\":\"z\"},\"name\":\"n\"}}", NULL,
         "n", ""},
        {"{\"metadata\":{\"name\":\"n\",\"name\":\"m\",\"resourceVersion\":\"1\",\"resourceVersion\":\"2\"}}", NULL,
         "n", "1"},
        {"{\"metadata\":{\"name\":\"n\"},\"metadata\":{\"name\":\"m\",\"namespace\":\"s\"}}", NULL, "n", ""},
        {"{\"metadata\":null,\"metadata\":{\"name\":\"m\"}}", NULL, NULL, ""},
        {"{\"metadata\":[{\"name\":\"m\"}]}", NULL, NULL, ""},
        {"{\"metadata\":{\"name\":1,\"namespace\":\"a\\u0062\",\"resourceVersion\":3}}", NULL, NULL, ""},
        {" {\"message\":\"m\",\"code\":410,\"metadata\":{\"name\":\"n\"}} ", NULL, "n", ""},
    };
    struct watch_parser *p = watch_parser_new(LIMIT_APISERVICE_BYTES);
    struct watch_event ev;
    char line[512];

    for (size_t i = 0; i < ROWS(rows); i++) {
        (void)snprintf(line, sizeof(line), "{\"type\":\"ADDED\",\"object\":%s}", rows[i].object);
        ok(read_line(p, line, &ev) == WATCH_EVENT, "%s", rows[i].object);
        is_slice(ev.ns, rows[i].ns, "its namespace");
        is_slice(ev.name, rows[i].name, "its name");
        is_slice(ev.resource_version, rows[i].version, "its version");
        ok(slice_eq(ev.object, slice_trim(slice_str(rows[i].object))), "all of it");
        ok(ev.code == 0 && ev.message.n == 0, "no error");
    }
    ok(read_line(p, "{\"type\":\"ERROR\",\"object\":{\"code\":1000,\"metadata\":{\"resourceVersion\":\"4\"}}}", &ev) ==
               WATCH_EVENT &&
           ev.code == 0 && ev.resource_version.n == 0,
       "an error has no version, and no code beyond 999");
    ok(read_line(p, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":}}}", &ev) == WATCH_BAD_LINE &&
           read_line(p, "{\"type\":\"ADDED\",\"object\":[]}", &ev) == WATCH_BAD_LINE &&
           read_line(p, "{\"type\":\"ADDED\",\"object\":{},\"object\":{}}", &ev) == WATCH_BAD_LINE,
       "what is no event");
    watch_parser_free(p);
}

int main(void)
{
    for (size_t piece = 1; piece < 300; piece++)
        test_long_beginnings(piece);

    for (size_t piece = 1; piece <= 64; piece++)
        test_pieces(piece);
    test_pieces(sizeof(stream));
    test_bad_lines();
    test_long_lines();
    test_metadata();
    return tap_end();
}
