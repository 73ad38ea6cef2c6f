/* SPDX-License-Identifier: Apache-2.0 */
/* Targets as they stand in the access log. */
#include "proxy/redact.h"

#include "lib/tap.h"

static const struct {
    const char *target, *want;
} rows[] = {
    {"/api/v1/pods", "/api/v1/pods"},
    {"/api/v1/pods?", "/api/v1/pods?"},
    {"/api/v1/pods?watch=1&labelSelector=a%3Db&resourceVersion=7",
     "/api/v1/pods?watch=1&labelSelector=a%3Db&resourceVersion=7"},
    {"/pods?allowWatchBookmarks=true&container=c", "/pods?allowWatchBookmarks=true&container=c"},
    {"/x?access_token=s3cret", "/x?access_token=..."},
    {"/x?watch&a=b=c&limit=1", "/x?watch&a=...&limit=1"},
    {"/exec?command=sh&command=-c&command=pw&stdin=true", "/exec?command=...&command=...&command=...&stdin=true"},
    {"/x?Watch=a?b", "/x?Watch=..."},
    {"/x?=v", "/x?=..."},
    {"/hook?SECRET", "/hook?..."},
    {"/hook?c2VjcmV0IQ==", "/hook?..."},
    {"/hook?token%3DSECRET", "/hook?..."},
    {"/hook?SECRET&limit=1&&x=1", "/hook?...&limit=1&&x=..."},
    {"/hook?a-name-that-is-longer-than-32-bytes=1", "/hook?..."},
    {"/hook?a-name-that-has-32-bytes-exactly=1", "/hook?a-name-that-has-32-bytes-exactly=..."},
    {"/pods?watch=0;token=SECRET", "/pods?watch=0..."},
    {"/pods?limit=1?token=SECRET", "/pods?limit=1..."},
    {"/pods?watch;token=SECRET", "/pods?..."},
    {"/pods;token=SECRET/x;y/z?watch=1", "/pods;.../x;.../z?watch=1"},
    {"/pods%3Ftoken=SECRET/x%3by/a%23b?watch=1", "/pods;.../x;.../a;...?watch=1"},
    {"/pods/x%3b", "/pods/x;..."},
    {"/pods?watch=1%3btoken=SECRET", "/pods?watch=1..."},
    {"/pods?watch=1%3Ftoken=SECRET", "/pods?watch=1..."},
    {"/pods?watch=1%23SECRET&limit=2", "/pods?watch=1...&limit=2"},
    {"/roles/system%3Anode?limit=%3", "/roles/system%3Anode?limit=%3"},
    {"//x//", "//x//"},
    {"", ""},
};

int main(void)
{
    static const struct {
        const char *what;
        struct reqinfo info;
        const char *target, *want;
    } others[] = {
        {"no resource", {.is_resource = false}, "/login?continue=SECRET&watch=1", "/login?continue=...&watch=..."},
        {"behind a service",
         {.is_resource = true, .subresource = {"proxy", 5}},
         "/x/proxy?timeout=SECRET",
         "/x/proxy?timeout=..."},
        {"the old form of that",
         {.is_resource = true, .verb = {"proxy", 5}},
         "/api/v1/proxy/x?pretty=1",
         "/api/v1/proxy/x?pretty=..."},
        {"encoded", {.is_resource = true}, "/pods?pretty=1%26p=SECRET", "/pods?pretty=1..."},
    };
    const struct reqinfo pods = {.is_resource = true};
    struct buf out;

    for (size_t i = 0; i < ROWS(others); i++) {
        buf_init(&out, 4096);
        redact_target(slice_str(others[i].target), &others[i].info, &out);
        is_slice(buf_slice(&out), others[i].want, "%s", others[i].what);
        buf_free(&out);
    }
    for (size_t i = 0; i < ROWS(rows); i++) {
        buf_init(&out, 4096);
        redact_target(slice_str(rows[i].target), &pods, &out);
        is_slice(buf_slice(&out), rows[i].want, "%s", rows[i].target);
        buf_free(&out);
    }
    is_slice(redact_path(slice_of("/x%3b", 4)), "/x%3", "what is behind the end does not count");
    is_slice(redact_path(SLICE_LIT(";SECRET")), "", "a name that is nothing but a parameter");
    buf_init(&out, 8);
    redact_target(SLICE_LIT("/a/very/long/path?with=query"), &pods, &out);
    is_slice(buf_slice(&out), "/a/very/", "no longer than the buffer may be");
    buf_free(&out);
    buf_init(&out, 8);
    redact_target(SLICE_LIT("/a?secret=x&b=y"), &pods, &out);
    is_slice(buf_slice(&out), "/a?secre", "nor in a parameter");
    buf_free(&out);
    return tap_end();
}
